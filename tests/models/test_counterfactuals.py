"""Direct, indirect and total effects against dense algebra and spreg; shocks; intervals that carry the network's error."""

import warnings
from copy import copy

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

from peerattn.exceptions import InputError, IsolateWarning, PeerAttnWarning
from peerattn.models import IndustryPeerRegressor, LinearInMeansRegressor, impacts, shock, split_sample

pytestmark = [
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame"),  # spreg, with pandas 3
    pytest.mark.filterwarnings("ignore:.* draws of the peers' effect"),  # 150 firms: β is known to ±.3 alone
]


def made(n=150, seed=0, beta=0.4, noise=0.5):
    rng = np.random.default_rng(seed)
    W = (rng.random((n, n)) < 5 / n) * (1 - np.eye(n))
    W[W.sum(axis=1) == 0, 0] = 1.0
    W[0, 0], W[0, 1] = 0.0, 1.0
    W /= W.sum(axis=1, keepdims=True)
    x = rng.normal(size=(n, 2))
    y = np.linalg.solve(
        np.eye(n) - beta * W, 1 + x @ [1.0, -0.5] + W @ x @ [0.3, 0.2] + noise * rng.normal(size=n)
    )
    index = pd.MultiIndex.from_product([[f"F{k:03d}" for k in range(n)], [2001]], names=["firm", "period"])
    firms = index.get_level_values(0)
    return (
        W,
        pd.DataFrame(x, index, ["size", "lev"]),
        pd.Series(y, index, name="y"),
        pd.DataFrame(W, firms, firms),
    )


@pytest.fixture(scope="module")
def fitted():
    W, X, y, network = made()
    return W, X, y, LinearInMeansRegressor(network=network, cluster=None, effects=()).fit(X, y)


def test_effects_by_dense_algebra(fitted):
    W, X, _, model = fitted
    found, b, n = impacts(model, X, n_draws=50).params, model.coef_, len(X)
    M = np.linalg.inv(np.eye(n) - b["peers' outcome"] * W)
    for name in ("size", "lev"):
        S = M @ (b[name] * np.eye(n) + b[f"peers' {name}"] * W)
        direct, total = np.trace(S) / n, S.sum() / n
        np.testing.assert_allclose(found.loc[name], [direct, total - direct, total], atol=1e-10)


def test_effects_equal_those_of_spreg(fitted):
    spreg = pytest.importorskip("spreg", reason="an environment without the extra dev")
    from libpysal.weights import full2W

    W, X, y, model = fitted
    w = full2W(W, ids=list(range(len(W))), silence_warnings=True)
    w.transform = "r"
    oracle = spreg.GM_Lag(
        y.to_numpy()[:, None], X.to_numpy(), w=w, w_lags=1, slx_lags=1, robust="white", name_x=["size", "lev"]
    )
    multiplier = spreg.sputils.spmultiplier(w, float(np.ravel(oracle.rho)[0]), method="full")
    own, peers = oracle.betas[1:3, 0], oracle.betas[3:5, 0]
    total, direct = multiplier["ati"] * (own + peers), multiplier["adi"] * own
    found = impacts(model, X, n_draws=20).params
    np.testing.assert_allclose(found["total"], total, atol=1e-8)
    # spreg counts Wx as wholly indirect; here its part that comes back to the own firm is direct
    M = np.linalg.inv(np.eye(len(X)) - float(np.ravel(oracle.rho)[0]) * W)
    np.testing.assert_allclose(found["direct"], direct + np.trace(M @ W) / len(X) * peers, atol=1e-8)


def test_a_shock_is_the_column_of_the_multiplier(fitted):
    W, X, _, model = fitted
    found, b, n = shock(model, X, {"size": 2.0}, firms=["F003", "F010"], n_draws=99), model.coef_, len(X)
    change = np.zeros(n)
    change[[3, 10]] = 2.0
    by_hand = np.linalg.solve(
        np.eye(n) - b["peers' outcome"] * W, b["size"] * change + b["peers' size"] * W @ change
    )
    np.testing.assert_allclose(found["effect"], by_hand, atol=1e-10)
    assert found.index[found["shocked"]].tolist() == ["F003", "F010"]
    assert (
        (found["lower"] <= found["effect"] + 1e-9) & (found["effect"] <= found["upper"] + 1e-9)
    ).mean() > 0.9


@pytest.mark.parametrize("held", [False, True])
def test_intervals_are_those_of_predictions_under_drawn_coefficients(fitted, held):
    _, X, y, model = fitted
    shown = {"outcomes": y} if held else {}
    found = shock(model, X, {"size": 2.0}, firms=["F003"], n_draws=20, level=1 - 1e-12, **shown)
    changed, effects = X.assign(size=X["size"] + 2.0 * (X.index.get_level_values("firm") == "F003")), []
    for values in np.random.RandomState(0).multivariate_normal(model.coef_, model.results_.cov, size=20):
        drawn = copy(model)
        drawn.coef_ = pd.Series(values, model.coef_.index)
        if abs(drawn.coef_["peers' outcome"]) < 1:
            effects.append(drawn.predict(changed, **shown) - drawn.predict(X, **shown))
    np.testing.assert_allclose(found["lower"], np.min(effects, axis=0), atol=1e-9)
    np.testing.assert_allclose(found["upper"], np.max(effects, axis=0), atol=1e-9)


def test_an_industry_and_models_without_coefficients():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(20), [2001, 2002]], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=40), "sector": np.repeat(list("AB") * 10, 2)}, index=index)
    model = IndustryPeerRegressor(industry="sector").fit(X, rng.normal(size=40))
    found = shock(model, X, {"size": 1.0}, firms=("sector", "A"))
    assert (found["effect"] == 0).all() and found["shocked"].sum() == 10 and found["lower"].isna().all()
    for options, word in (
        ({"changes": {"sise": 1.0}}, "changes"),
        ({"changes": {"size": 1.0}, "firms": ["99"]}, "firms"),
        ({"changes": {"size": 1.0}, "firms": ("sector", "C")}, "firms"),
    ):
        with pytest.raises(InputError) as refused:
            shock(model, X, **options)
        assert word in str(refused.value)
    with pytest.raises(InputError, match="changes: expected"):
        shock(model, X, ["size"])
    with pytest.raises(InputError, match="model: expected PeerModel, got"):
        shock(LinearRegression(), X, {"size": 1.0})
    with pytest.raises(InputError) as refused:
        impacts(model, X)
    assert "LinearInMeans" in str(refused.value)


def test_isolates_are_told_of_once():
    W = pd.DataFrame(np.roll(np.eye(6), 1, axis=1), list("ABCDEF"), list("ABCDEF"))
    W.loc["A"] = 0.0
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([list("ABCDEF"), range(20)], names=["firm", "period"])
    X, y = pd.DataFrame({"size": rng.normal(size=120)}, index), pd.Series(rng.normal(size=120), index)
    model = LinearInMeansRegressor(network=W, peer_outcome=False).fit(X, y)
    with pytest.warns(IsolateWarning) as caught:
        shock(model, X, {"size": 1.0}, firms=["B"], n_draws=9)
    assert len(caught) == 1


def test_draws_without_an_equilibrium_are_told_of():
    _, X, y, network = made(noise=0.05)
    model = LinearInMeansRegressor(network=network, cluster=None, effects=()).fit(X, y)
    for call, options in ((impacts, []), (shock, [{"size": 1.0}])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(model, X, *options, n_draws=60)
        moved = copy(model)
        moved.coef_ = model.coef_.copy()
        moved.coef_["peers' outcome"] = 0.995
        with pytest.warns(PeerAttnWarning, match="of 60 draws of the peers' effect β have"):
            call(moved, X, *options, n_draws=60)
        moved.coef_["peers' outcome"] = 3.0
        with pytest.raises(InputError, match="60 of 60 draws .* no equilibrium: there are no intervals"):
            call(moved, X, *options, n_draws=60)


def test_intervals_cover_the_truth():
    """Of 20 samples the 90 % intervals of total effects hold the truth in about 18 (at least 15)."""
    W, _, _, _ = made(n=150, seed=5)
    S = np.linalg.inv(np.eye(150) - 0.4 * W) @ (np.eye(150) + 0.3 * W)
    truth, held = S.sum() / 150, 0
    rng = np.random.default_rng(1)
    for _ in range(20):
        x = rng.normal(size=(150, 2))
        y = np.linalg.solve(
            np.eye(150) - 0.4 * W, x @ [1.0, -0.5] + W @ x @ [0.3, 0.2] + 0.5 * rng.normal(size=150)
        )
        index = pd.MultiIndex.from_product([range(150), [2001]], names=["firm", "period"])
        X = pd.DataFrame(x, index, ["size", "lev"])
        model = LinearInMeansRegressor(network=pd.DataFrame(W), cluster=None, effects=()).fit(
            X, pd.Series(y, index)
        )
        found = impacts(model, X, level=0.9, n_draws=199)
        held += found.lower.loc["size", "total"] <= truth <= found.upper.loc["size", "total"]
    assert held >= 15


def test_another_network_widens_the_interval():
    W, X, y, network = made(noise=0.05)  # no draw near β = 1, where effects have no variance
    model = LinearInMeansRegressor(network=network, cluster=None, effects=()).fit(X, y)
    rng = np.random.default_rng(3)
    noisy = W * (rng.random(W.shape) < 0.6)
    noisy[noisy.sum(axis=1) == 0] = W[noisy.sum(axis=1) == 0]
    firms = X.index.get_level_values("firm")
    other = LinearInMeansRegressor(network=pd.DataFrame(noisy, firms, firms), cluster=None, effects=()).fit(
        X, y
    )
    alone, both = impacts(model, X, n_draws=200), impacts(model, X, others=[other], n_draws=200)
    assert both.n_networks == 2 and (both.std_errors["total"] > alone.std_errors["total"]).all()
    assert "networks" in both.summary().text() and "\\toprule" in both.to_latex()
    z = (alone.params / alone.std_errors).loc["size", "total"]
    assert alone.pvalues.loc["size", "total"] == pytest.approx(2 * norm.sf(abs(z)))


def test_signed_networks_are_estimated_as_they_are():
    W, X, y, _ = made(seed=2)
    rng = np.random.default_rng(4)
    signed = W * np.where(rng.random(W.shape) < 0.3, -1.0, 1.0)
    signed /= np.abs(signed).sum(axis=1, keepdims=True)
    x = X.to_numpy()
    made_y = np.linalg.solve(np.eye(150) - 0.4 * signed, 1 + x @ [1.0, -0.5] + signed @ x @ [0.3, 0.2])
    firms = X.index.get_level_values("firm")
    model = LinearInMeansRegressor(network=pd.DataFrame(signed * 3, firms, firms), cluster=None, effects=())
    model.fit(X, pd.Series(made_y, X.index))
    names = ["size", "lev", "peers' size", "peers' lev", "peers' outcome"]
    np.testing.assert_allclose(model.coef_[names], [1.0, -0.5, 0.3, 0.2, 0.4], atol=1e-6)
    assert model.peer_network(X, outcomes=pd.Series(made_y, X.index)).signed


def test_learned_on_each_half_and_used_on_the_other():
    from peerattn.datasets import simulate_panel

    panel = simulate_panel(60, 8, 2, truth="industry", n_industries=15, random_state=0)
    options = {"codes": ["industry"], "peer_outcome": False}
    learner = IndustryPeerRegressor(industry="industry")
    both = split_sample(learner, panel.X, panel.y, back=True, **options)
    periods = panel.period.unique()
    assert both.results_.nobs == 480 and both.network_.periods.tolist() == [periods[0], periods[4]]
    assert "network=PeerNetwork(60 firms, 2 periods" in repr(both)
    half = split_sample(learner, panel.X, panel.y, **options)
    assert (both.results_.std_errors < half.results_.std_errors).all()
    pd.testing.assert_frame_equal(both.network_.matrix(periods[4]), half.network_.matrix(), check_names=False)
    later = panel.take(panel.period > periods[3])
    backward = learner.fit(later).peer_network(later).matrix(periods[4])
    pd.testing.assert_frame_equal(both.network_.matrix(periods[0]), backward, check_names=False)
