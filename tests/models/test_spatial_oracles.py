"""Peer effects of a given network against what spatial econometrics estimates: spreg, and Lee's (2007) conditional estimators."""

import numpy as np
import pandas as pd
import pytest
from libpysal.weights import full2W
from scipy.optimize import minimize_scalar

from peerattn.models import LinearInMeansRegressor

BETA = 0.4
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")  # spreg, with pandas 3


def one_period(n=400, seed=0):
    """A sparse directed network, rows normalised; y solves y = a + β W y + x b + W x c + e."""
    rng = np.random.default_rng(seed)
    W = (rng.random((n, n)) < 4 / n) * (1 - np.eye(n))
    W[W.sum(axis=1) == 0, 0] = 1.0
    W[0, 0], W[0, 1] = 0.0, 1.0
    W /= W.sum(axis=1, keepdims=True)
    x = rng.normal(size=(n, 2))
    mean = 1 + x @ [1.0, -0.5] + W @ x @ [0.3, 0.2]
    y = np.linalg.solve(np.eye(n) - BETA * W, mean + 0.5 * rng.normal(size=n))
    firms = [f"F{k:04d}" for k in range(n)]
    index = pd.MultiIndex.from_product([firms, [2001]], names=["firm", "period"])
    return W, pd.DataFrame(x, index, ["size", "lev"]), pd.Series(y, index), pd.DataFrame(W, firms, firms)


@pytest.fixture(scope="module")
def spreg():
    return pytest.importorskip("spreg", reason="an environment without the extra dev")


@pytest.fixture(scope="module")
def spatial():
    W, X, y, network = one_period()
    w = full2W(W, ids=list(range(len(W))), silence_warnings=True)
    w.transform = "r"
    return X, y, network, w


@pytest.mark.parametrize("cluster", [None, "firm"])
def test_equals_the_spatial_two_stage_least_squares_of_spreg(spreg, spatial, cluster):
    """y on W y, x and W x, instrumented by W² x: a spatial Durbin model. spreg divides by n, this package by n − k."""
    X, y, network, w = spatial
    oracle = spreg.GM_Lag(y.to_numpy()[:, None], X.to_numpy(), w=w, w_lags=1, slx_lags=1, robust="white")
    found = LinearInMeansRegressor(network=network, cluster=cluster, effects=()).fit(X, y)
    names = ["intercept", "size", "lev", "peers' size", "peers' lev", "peers' outcome"]
    np.testing.assert_allclose(found.coef_[names], oracle.betas[:, 0], atol=1e-8)
    factor = np.sqrt(len(y) / (len(y) - len(names)))
    np.testing.assert_allclose(found.results_.std_errors[names], oracle.std_err * factor, rtol=1e-6)


def test_agrees_with_maximum_likelihood_within_its_error(spreg, spatial):
    X, y, network, w = spatial
    oracle = spreg.ML_Lag(y.to_numpy()[:, None], X.to_numpy(), w=w, slx_lags=1, method="full")
    found = LinearInMeansRegressor(network=network, effects=()).fit(X, y)
    error = found.results_.std_errors["peers' outcome"]
    assert abs(found.coef_["peers' outcome"] - oracle.rho) < 3 * error < 0.5
    assert abs(oracle.rho - BETA) < 4 * oracle.std_err[-1]


# ---------------------------------------------------------------- groups in which all are peers of all


def groups_of_several_sizes(n_groups=300, seed=1):
    """Lee (2007): all members of a group but oneself; an effect of each group that goes along with x."""
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 7, n_groups)
    of = np.repeat(np.arange(n_groups), size)
    W = (of[:, None] == of) / (size[of][:, None] - 1) * (1 - np.eye(len(of)))
    level = rng.normal(size=n_groups)[of]
    x = rng.normal(size=len(of)) + level
    y = np.linalg.solve(np.eye(len(of)) - BETA * W, x + 0.5 * W @ x + 2 * level + 0.5 * rng.normal(size=len(of)))
    return of, size[of], W, x, y


def within(v, of):
    return v - (np.bincount(of, v) / np.bincount(of))[of]


def lee_two_stage(of, m, x, y):
    """Lee (2007, section 4): the within equation, instrumented by its own exogenous part.

    With y* the deviation from the group's mean, (W y)* = −y*/(m − 1), so that y* = −β y*/(m − 1) + b x* − c x*/(m − 1) + e*.
    """
    ys, xs = within(y, of), within(x, of)
    R = np.column_stack([-ys / (m - 1), xs, -xs / (m - 1)])
    Z = np.column_stack([xs, -xs / (m - 1), xs / (m - 1) ** 2])
    return np.linalg.solve(Z.T @ R, Z.T @ ys)


def lee_likelihood(of, m, x, y):
    """Lee (2007, equation 5.1): (1 + β/(m − 1)) y* = b x* − c x*/(m − 1) + e*, with Jacobian (1 + β/(m − 1))^(m − 1) a group."""
    ys, xs = within(y, of), within(x, of)
    Z = np.column_stack([xs, -xs / (m - 1)])
    n = len(y) - of.max() - 1

    def minus(beta):
        v = (1 + beta / (m - 1)) * ys
        rest = v - Z @ np.linalg.lstsq(Z, v, rcond=None)[0]
        jacobian = np.sum(np.log(1 + beta / (m - 1)) * (m - 1) / m)  # once a group: each row a share 1/m
        return n / 2 * np.log(rest @ rest) - jacobian

    return minimize_scalar(minus, bounds=(-0.9, 0.95), method="bounded", options={"xatol": 1e-8}).x


def test_network_effects_are_the_conditional_estimators_of_lee():
    of, m, W, x, y = groups_of_several_sizes()
    firms = [f"F{k:04d}" for k in range(len(of))]
    index = pd.MultiIndex.from_product([firms, [2001]], names=["firm", "period"])
    X, outcome = pd.DataFrame({"size": x}, index), pd.Series(y, index)
    network = pd.DataFrame(W, firms, firms)
    found = LinearInMeansRegressor(network=network, effects=("network",)).fit(X, outcome)
    expected = lee_two_stage(of, m, x, y)
    np.testing.assert_allclose(found.coef_[["peers' outcome", "size", "peers' size"]], expected, atol=1e-7)
    error = found.results_.std_errors["peers' outcome"]
    likelihood = lee_likelihood(of, m, x, y)
    assert abs(likelihood - BETA) < 0.15 and abs(likelihood - expected[0]) < 3 * error
    without = LinearInMeansRegressor(network=network, effects=()).fit(X, outcome)
    assert without.coef_["peers' outcome"] > 0.7  # the groups' effects taken for peers
