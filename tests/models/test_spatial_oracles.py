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


# ---------------------------------------------------------------- effects of connected parts, parts and firms missing

FIRMS = pd.Index([f"F{k:02d}" for k in range(48)])
PART = pd.Series(np.arange(48) // 6, FIRMS)  # eight parts of six firms


def parts_of_six(seed=0):
    rng = np.random.default_rng(seed)
    ring = np.kron(np.eye(8), np.roll(np.eye(6), 1, axis=1))
    within = np.kron(np.eye(8), 1 - np.eye(6))
    W = np.maximum(ring, (rng.random((48, 48)) < 0.45) * within)
    return pd.DataFrame(W / W.sum(axis=1, keepdims=True), FIRMS, FIRMS)


def unbalanced(W, seed=0):
    """Two whole parts and some single firms are missing in each of six periods; rows in any order."""
    rng = np.random.default_rng(seed)
    level, frames = 3 * rng.normal(size=8), []
    for period in range(2001, 2007):
        gone = np.isin(PART, rng.choice(8, 2, replace=False)) | (rng.random(48) < 0.05)
        firms = FIRMS[~gone]
        x = rng.normal(size=len(firms)) + 0.3 * level[PART[firms]]
        mean = x + level[PART[firms]] + 0.3 * rng.normal(size=len(firms))
        y = np.linalg.solve(np.eye(len(firms)) - 0.3 * W.loc[firms, firms], mean)
        index = pd.MultiIndex.from_product([firms, [period]], names=["firm", "period"])
        frames.append(pd.DataFrame({"size": x, "y": y}, index))
    panel = pd.concat(frames).sample(frac=1.0, random_state=seed)
    return panel[["size"]], panel["y"]


def assert_same_model(found, by_code, X, X_code, y):
    pd.testing.assert_series_equal(found.coef_, by_code.coef_, rtol=1e-10)
    pd.testing.assert_series_equal(found.results_.std_errors, by_code.results_.std_errors, rtol=1e-10)
    for call in ({}, {"outcomes": y}):
        np.testing.assert_allclose(found.predict(X, **call), by_code.predict(X_code, **call), atol=1e-9)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
@pytest.mark.parametrize("by", ["", "×period"])
@pytest.mark.parametrize("in_network", [FIRMS, FIRMS[::-1]])
def test_the_parts_of_one_network_are_as_a_code_of_the_firms(in_network, by):
    W = parts_of_six()
    X, y = unbalanced(W)
    X_code = X.assign(part=PART[X.index.get_level_values("firm")].map("part {}".format).to_numpy())
    network = W.loc[in_network, in_network]
    found = LinearInMeansRegressor(network=network, effects=("network" + by,)).fit(X, y)
    by_code = LinearInMeansRegressor(network=network, effects=("part" + by,)).fit(X_code, y)
    assert_same_model(found, by_code, X, X_code, y)
    if not by:
        assert set(found.effects_["network"].index) == set(FIRMS[::6])
    rows = np.random.default_rng(1).permutation(len(X))
    again = LinearInMeansRegressor(network=network, effects=("network" + by,)).fit(X.iloc[rows], y.iloc[rows])
    pd.testing.assert_series_equal(again.coef_, found.coef_, rtol=1e-10)
    np.testing.assert_allclose(again.predict(X.iloc[rows]), found.predict(X)[rows], atol=1e-9)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
@pytest.mark.filterwarnings("ignore::peerattn.exceptions.SmallCrossSectionWarning")
def test_predictions_of_whole_parts_do_not_depend_on_which_others_are_in_the_call():
    W = parts_of_six()
    X, y = unbalanced(W)
    model = LinearInMeansRegressor(network=W, effects=("network",)).fit(X, y)
    firm = X.index.get_level_values("firm")
    for some in ([3, 4, 5, 6, 7], [6]):
        kept = PART[firm].isin(some).to_numpy()
        np.testing.assert_allclose(model.predict(X[kept]), model.predict(X)[kept], atol=1e-10)
        alone = model.predict(X[kept], outcomes=y[kept])
        np.testing.assert_allclose(alone, model.predict(X, outcomes=y)[kept], atol=1e-10)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
def test_the_parts_of_dated_networks_are_those_of_the_network_in_use():
    """Two networks, of three periods each; in the later one the first firm of one part is the first of another, too."""
    W = parts_of_six()
    moved = FIRMS[np.roll(np.arange(48), 3)]
    later = W.set_axis(moved, axis=0).set_axis(moved, axis=1)
    X, y = unbalanced(W)
    code = [PART[firm] if period < 2004 else 10 + PART.set_axis(moved)[firm] for firm, period in X.index]
    X_code = X.assign(part=pd.Index(code).map("part {}".format))
    found = LinearInMeansRegressor(network={2001: W, 2004: later}, effects=("network",)).fit(X, y)
    by_code = LinearInMeansRegressor(network={2001: W, 2004: later}, effects=("part",)).fit(X_code, y)
    assert_same_model(found, by_code, X, X_code, y)
    assert {"F06×2001", "F03×2004"} <= set(found.effects_["network"].index)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
@pytest.mark.filterwarnings("ignore::peerattn.exceptions.SmallCrossSectionWarning")
def test_firms_outside_the_panel_connect_and_parts_or_firms_not_in_training_have_the_mean_effect():
    W = parts_of_six()
    X, y = unbalanced(W)
    firm = X.index.get_level_values("firm")
    joined = W.copy()
    joined.loc["ABSENT", "F00"] = joined.loc["ABSENT", "F06"] = 1.0  # no firm of X
    joined = joined.reindex(columns=joined.index).fillna(0.0)
    seen = PART[firm].to_numpy() < 7
    model = LinearInMeansRegressor(network=joined, effects=("network",)).fit(X[seen], y[seen])
    effects = model.effects_["network"]
    assert set(effects.index) == {"ABSENT", *FIRMS[12:42:6]}
    # a firm whose peers are all absent is in its part all the same
    firms = pd.MultiIndex.from_tuples([("F12", 2007), ("NEW", 2007)], names=X.index.names)
    alone = pd.DataFrame({"size": [1.0, 2.0]}, firms)
    own = model.intercept_ + model.coef_["size"] * alone["size"] + model.mean_peer_term_
    np.testing.assert_allclose(model.predict(alone), own + [effects["F12"], 0.0], atol=1e-10)
    unseen = X[~seen].rename(index=lambda period: period + 10, level="period")
    predicted = model.predict(unseen)
    model.effects_ = {}
    np.testing.assert_array_equal(model.predict(unseen), predicted)
