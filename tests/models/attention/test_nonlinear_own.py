"""Heads are tested beyond nonlinear own-firm models: attention depends on the firm itself, so that heads can be a curve."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from peerattn import PeerAttentionClassifier, PeerAttentionRegressor, StackedPeerRegressor, simulate_panel
from peerattn.network import network_correlation

N, T = 30, 16


def own_panel(shape, seed=0):
    """Independent firms whose outcome is this function of their own characteristics, and noise."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(N), range(T)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(N * T, 2)), index, columns=["a", "b"])
    signal = shape(X["a"], X["b"])
    return X, signal / signal.std() + rng.normal(size=N * T)


SHAPES = {"square": lambda a, b: a**2, "product": lambda a, b: a * b}
TASKS = ["forecast", "nowcast"]


@pytest.fixture
def trained(train_heads):
    """Heads of enough training to follow a curve."""
    train_heads(2, 100)


@pytest.mark.parametrize("own", ["curves", "linear"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_curve_of_own_characteristics_is_no_peer(shape, task, own, trained):
    X, y = own_panel(SHAPES[shape])
    model = PeerAttentionRegressor(task=task, own=own, random_state=0).fit(X, y)
    peers = model.evidence_.loc["peers"]
    assert peers["factor"] == 0 and peers["reason"].endswith("nonlinear models of own characteristics")
    # the controls are no part of the prediction
    assert list(model.stack_.fitted) == ["curves"] * (own == "curves")
    gain = model.explain_gain()["gain"]
    assert gain.drop(["own characteristics", "nonlinear"]).abs().max() == 0
    if own == "curves":
        assert gain["nonlinear"] > 0.3
    else:
        assert gain["nonlinear"] == 0


@pytest.mark.parametrize("loss", ["huber", 0.75])
def test_nor_with_another_loss(loss, trained):
    X, y = own_panel(SHAPES["square"])
    for estimator in (PeerAttentionRegressor, StackedPeerRegressor):
        assert estimator(loss=loss, random_state=0).fit(X, y).evidence_.loc["peers", "factor"] == 0


def test_nor_of_classes(trained):
    X, y = own_panel(SHAPES["square"])
    model = PeerAttentionClassifier(random_state=0).fit(X, y > y.median())
    assert model.evidence_.loc["peers", "factor"] == 0


def test_a_class_that_is_met_late(fewest_steps):
    """The controls of the first origin know one class."""
    X, y = own_panel(SHAPES["square"])
    late = X.index.get_level_values("period") >= T - 4
    model = PeerAttentionClassifier(random_state=0).fit(X, (y > y.median()) & late)
    assert model.evidence_.loc["peers", "factor"] == 0
    assert np.isfinite(model.predict_proba(X)).all()


def test_without_the_controls_it_would_be(trained):
    """Heads in full follow the curve beside a line; with own="none" nothing of the firm itself is beside heads, no control."""
    X, y = own_panel(SHAPES["square"])
    assert PeerAttentionRegressor(own="linear", kappa=None, random_state=0).fit(X, y).evidence_.loc["peers", "factor"] > 0.5
    alone = PeerAttentionRegressor(own="none", random_state=0).fit(X, y)
    assert "beyond" not in alone.evidence_.loc["peers", "reason"]


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_heads_in_full_do_not_follow_a_curve(trained, task):
    """Their own part has curves, by what these predict of held-out periods."""
    X, y = own_panel(SHAPES["square"])
    model = PeerAttentionRegressor(task=task, kappa=None, random_state=0).fit(X, y)
    assert model.evidence_.loc["nonlinear", "factor"] > 0.9 and model.evidence_.loc["peers", "factor"] < 0.1
    observed = {"outcomes": y} if task == "nowcast" else {}
    own = PeerAttentionRegressor(task=task, kappa=None, n_heads=0, random_state=0).fit(X, y).predict(X, **observed)
    assert np.mean((y - own) ** 2) < 0.6 * np.mean((y - LinearRegression().fit(X, y).predict(X)) ** 2)
    if model.evidence_.loc["peers", "factor"] == 0:
        np.testing.assert_allclose(model.predict(X, **observed), own, atol=1e-12)


def test_heads_in_full_beside_a_curve_have_the_network(train_heads):
    train_heads(8, 300)
    panel = simulate_panel(40, 24, 3, signal_share=0.9, random_state=0)
    curve = panel.X.iloc[:, 0] ** 2
    y = panel.y + panel.y.std() * curve / curve.std()
    found = {}
    for own in ("linear", "curves"):
        model = PeerAttentionRegressor(own=own, kappa=None, random_state=0).fit(panel.X, y)
        found[own] = network_correlation(model.peer_network(panel.X), panel.network)
    assert found["curves"] > 0.9 > found["linear"]


def test_industry_peers_in_place_of_heads_are_beside_the_curve(trained):
    """Equal weights within a code, whose values and slopes, that of the curve among them, are least squares."""
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(40), range(12)], names=["firm", "period"])
    X = pd.DataFrame({"x": rng.normal(size=480), "industry": (np.arange(480) // 12 % 8).astype(str)}, index)
    mean = X.groupby(["period", "industry"])["x"].transform("sum").sub(X["x"]) / 4
    y = X["x"] ** 2 + 2 * mean + 0.3 * rng.normal(size=480)
    errors = {}
    for own in ("linear", "curves"):
        model = PeerAttentionRegressor(own=own, codes=["industry"], kappa=None, random_state=0).fit(X, y)
        heads = model.stack_.fitted["heads"]
        assert len(heads.members) == 1 and heads.size == 1.0  # those of the industry
        errors[own] = np.mean((y - model.predict(X)) ** 2)
    assert errors["curves"] < 0.3 * errors["linear"]


def test_peers_beside_a_curve_are_found(train_heads):
    train_heads(8, 300)
    panel = simulate_panel(40, 24, 3, signal_share=0.9, random_state=0)
    curve = panel.X.iloc[:, 0] ** 2
    y = panel.y + 0.5 * panel.y.std() * curve / curve.std()
    for own, least in (("linear", 0.8), ("curves", 0.95), (LinearRegression(), 0.9)):
        model = PeerAttentionRegressor(own=own, random_state=0).fit(panel.X, y)
        peers = model.evidence_.loc["peers"]
        assert peers["factor"] > 0.5 and peers["t"] > 3
        # the rows of the table are those of the prediction, in which the controls have no weight
        assert set(model.stack_.fitted) == {"heads"} | ({"curves"} if own == "curves" else set())
        assert network_correlation(model.peer_network(panel.X), panel.network) > least


def test_peers_beside_a_strong_curve_are_found(train_heads):
    """Heads that are trained on what least squares leaves are not."""
    train_heads(8, 300)
    panel = simulate_panel(40, 24, 3, signal_share=0.6, random_state=0)
    curve = panel.X.iloc[:, 0] ** 2
    y = panel.y + panel.y.std() * curve / curve.std()
    assert PeerAttentionRegressor(own="linear", random_state=0).fit(panel.X, y).evidence_.loc["peers", "factor"] == 0
    for estimator in (PeerAttentionRegressor, StackedPeerRegressor):
        model = estimator(random_state=0).fit(panel.X, y)
        assert model.evidence_.loc["peers", "factor"] > 0.4
        assert network_correlation(model.peer_network(panel.X), panel.network) > 0.9


def test_curves_are_the_own_part_without_heads(fewest_steps):
    X, y = own_panel(SHAPES["square"])
    model = PeerAttentionRegressor(random_state=0).fit(X, y)
    alone = PeerAttentionRegressor(n_heads=0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(alone.predict(X), model.predict_steps(X)["nonlinear own-firm models"])


def test_slopes_within_periods_are_no_peers(trained):
    """Where a level wanders beside characteristics with a trend, own slopes beside heads are better than least squares."""
    rng = np.random.default_rng(3)
    X, _ = own_panel(SHAPES["square"], seed=3)
    period = X.index.get_level_values("period").to_numpy()
    X = X.add(period / 5, axis=0)
    y = X["a"] + 2 * rng.normal(size=T).cumsum()[period] + rng.normal(size=N * T)
    evidence = PeerAttentionRegressor(random_state=0).fit(X, y).evidence_
    assert evidence.loc["peers", "factor"] == 0 and evidence.loc["common", "factor"] == 0
