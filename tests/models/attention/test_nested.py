"""The own model, then parts that later periods speak for: nothing on noise, a network where there is one."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss

from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import PeerAttentionClassifier, PeerAttentionRegressor
from peerattn.models.attention.losses import huber, squared_error
from peerattn.models.attention.nested import Plan, fit_nested
from peerattn.models.attention.own_model import OwnSettings
from peerattn.models.attention.parts import Candidate
from peerattn.models.attention.stability import MOST_STARTS
from peerattn.models.pools import Rows, Section


def noise(seed, n=10, T=14):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(n), range(T)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(n * T, 2)), index=index, columns=["size", "momentum"])
    return X, X["size"] + pd.Series(rng.normal(size=n * T), index=index)


def without_parts(model):
    """Return the model with its own model alone."""
    alone = copy.copy(model)
    alone.parts_ = {}
    return alone


# ---------------------------------------------------------------- nothing to find


@pytest.mark.parametrize("values", ["characteristics", "outcomes"])
def test_on_noise_nothing_enters_and_the_own_model_is_left_exactly(values):
    entered = 0
    for seed in range(3):
        X, y = noise(seed)
        model = PeerAttentionRegressor(values=values, n_heads=1, random_state=0).fit(X, y)
        told = {"outcomes": y} if values == "outcomes" else {}
        expected = ["covariance", "ridge", "heads"] if values == "outcomes" else ["heads"]
        assert model.evidence_.index.tolist() == expected
        entered += len(model.parts_)
        if not model.parts_:
            own = PeerAttentionRegressor(values=values, n_heads=0, random_state=0)
            own.fit(X, y)
            assert not len(own.evidence_)  # no part was tried: no heads, no covariance, no ridge
            np.testing.assert_array_equal(model.predict(X, **told), own.predict(X, **told))
            np.testing.assert_allclose(model.predict(X, **told), LinearRegression().fit(X, y).predict(X))
            network = model.peer_network(X, **told)
            assert not len(network.edges()) and len(network.isolates) == len(X)
            assert model.members_ == () and not len(model.heads_) and not len(model.stability_)
            assert str(model.search_profile()) == "search profile: no head was kept"
            with pytest.raises(InputError, match=r"head: expected one of the model's heads \(none\), got 0"):
                model.peer_network(X, head=0, **told)
            with pytest.raises(InputError, match="member: the model has 0 members, numbered from 0, got 0"):
                model.peer_network(X, member=0, **told)
    assert entered <= 1  # of the three panels


def test_few_rows_are_left_to_the_own_model():
    X, y = noise(0, n=7, T=7)
    model = PeerAttentionRegressor(random_state=0).fit(X, y)
    assert not model.parts_ and model.evidence_["periods"].tolist() == [0]


# ---------------------------------------------------------------- something to find


@pytest.fixture(scope="module")
def strong():
    panel = simulate_panel(20, 60, 3, signal_share=0.8, own_share=0.3, d_head=2, sharpness=3, random_state=0)
    train = panel.X.index.get_level_values("period") < panel.network.periods[48]
    model = PeerAttentionRegressor(n_heads=4, random_state=0).fit(panel.X[train], panel.y[train])
    return panel, train, model


def test_a_strong_network_enters_and_is_the_true_one(strong):
    panel, train, model = strong
    evidence = model.evidence_.loc["heads"]
    assert 0.8 < evidence["factor"] <= evidence["least_loss"] <= 1 and evidence["t"] > evidence["critical"]
    assert evidence["clusters"] == "firm and period" and evidence["periods"] == 24
    network, found = model.peer_network(panel.X[~train]), []
    for period in network.periods:
        W, off = network.matrix(period), ~np.eye(20, dtype=bool)
        truth = panel.network.matrix(period).loc[W.index, W.columns].to_numpy()
        found.append(np.corrcoef(W.to_numpy()[off], truth[off])[0, 1])
    assert np.median(found) > 0.9
    own = LinearRegression().fit(panel.X[train], panel.y[train])
    control = own.score(panel.X[~train], panel.y[~train])
    assert model.score(panel.X[~train], panel.y[~train]) > control + 0.1
    assert (model.stability_["correlation"] > 0.9).iloc[-1]


def test_the_factor_multiplies_what_heads_add(strong):
    panel, train, model = strong
    X = panel.X[~train]
    own = without_parts(model).predict(X)
    (_, sections), (added,) = model._gate_call(X, None), model.parts_.values()
    seen = [model._as_seen(section) for section in sections]
    periods = X.index.get_level_values("period")
    for section, addition in zip(seen, added.additions(seen), strict=True):
        moved = (model.predict(X) - own)[periods == section.period]
        np.testing.assert_allclose(moved, added.factor * addition[:, 0] * model.y_scale_, atol=1e-10)


def test_a_planted_industry_factor_is_a_covariance():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(30), range(30)], names=["firm", "period"])
    industry, period = np.repeat(np.arange(30) % 3, 30), index.get_level_values("period")
    X = pd.DataFrame(
        {"size": rng.normal(size=900), "industry": np.array(["a", "b", "c"])[industry]}, index=index
    )
    factor = rng.normal(size=(3, 30))
    y = X["size"] + factor[industry, period] + 0.7 * rng.normal(size=900)
    late = period >= 22
    model = PeerAttentionRegressor(values="outcomes", n_heads=1, codes=["industry"], random_state=0)
    model.fit(X[~late], y[~late])
    assert model.evidence_.loc["covariance", "factor"] > 0.8
    error = y[late] - model.predict(X[late], outcomes=y[late])
    own = y[late] - LinearRegression().fit(X.loc[~late, ["size"]], y[~late]).predict(X.loc[late, ["size"]])
    assert (error**2).mean() < 0.7 * (own**2).mean()
    W = model.peer_network(X[late], outcomes=y[late])
    assert W.signed
    share = W.matrix(25).to_numpy()
    same = (np.arange(30) % 3)[:, None] == np.arange(30) % 3
    assert share[same & ~np.eye(30, dtype=bool)].mean() > 5 * np.abs(share[~same].mean())


# ---------------------------------------------------------------- the own model may be any estimator


def test_curvature_that_boosting_explains_is_not_taken_for_peers():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(25), range(24)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(600, 2)), index=index, columns=["size", "momentum"])
    X["sector"] = np.where(rng.random(600) < 0.5, "a", "b")
    y = np.sign(X["size"]) * (X["sector"] == "a") + 0.3 * rng.normal(size=600)
    own = HistGradientBoostingRegressor(max_iter=40, random_state=0)
    model = PeerAttentionRegressor(own=own, codes=["sector"], n_heads=1, random_state=0).fit(X, y)
    assert model.evidence_["factor"].tolist() == [0.0]
    levels = np.c_[
        (X[["size", "momentum"]] - model.design_.center) / model.design_.spread, pd.get_dummies(X["sector"])
    ]
    z = (y - model.y_center_) / model.y_scale_
    alone = own.fit(levels.astype(float), z).predict(levels.astype(float))
    np.testing.assert_allclose(model.predict(X), alone * model.y_scale_ + model.y_center_, atol=1e-12)


def test_peers_beside_a_boosted_classifier(strong):
    panel, train, _ = strong
    y = pd.Series(np.where(panel.y > panel.y.median(), "up", "down"), index=panel.y.index)
    own = GradientBoostingClassifier(n_estimators=10, random_state=0)
    model = PeerAttentionClassifier(own=own, n_heads=1, random_state=0).fit(panel.X[train], y[train])
    assert model.evidence_["factor"].item() > 0.5
    alone = own.fit(panel.X[train], y[train]).predict_proba(panel.X[~train])
    beside = model.predict_proba(panel.X[~train])
    assert log_loss(y[~train], beside) < 0.9 * log_loss(y[~train], alone)


# ---------------------------------------------------------------- by parts that are known


class Known:
    """A part that adds the same function of the focal firm's first characteristic, and records what it was fitted to."""

    seen: list = []

    def __init__(self, sections, start, size=1.0, shift=0.0):
        self.size, self.shift = size, shift
        type(self).seen.append((start, sections))

    def additions(self, sections):
        return [self.size * (s.focal.x[:, :1] ** 2 - 1 + self.shift) for s in sections]

    def weights(self, section, rows):
        return np.arange(float(len(section.focal) ** 2)).reshape(len(section.focal), -1)[rows]


def periods(T=16, n=20, strength=1.0, seed=0):
    rng, found = np.random.default_rng(seed), []
    for t in range(T):
        x = rng.normal(size=(n, 2))
        y = x[:, 1] + strength * (x[:, 0] ** 2 - 1) + 0.5 * rng.normal(size=n)
        label = pd.RangeIndex(n)
        rows = Rows(x, np.zeros((n, 0), dtype=int), y, None, np.arange(n), label, label)
        found.append(Section(t, slice(None), rows, rows, True))
    return found


def plan(loss=squared_error):
    return Plan(OwnSettings("linear", loss, 1, (), True), False, 0)


def fitted_on(sections, *names):
    Known.seen = []
    found = fit_nested(sections, [Candidate(name, Known) for name in names], plan(), judge=True)
    return found, list(Known.seen)


def test_trials_never_see_what_comes_later():
    """Outcomes of the last quarter change nothing that was fitted for origins before it."""
    sections = periods()
    changed = periods()
    for section in changed[12:]:
        section.focal.y[:] = section.focal.y[::-1] * 9
    runs = [fitted_on(panel, "only")[1] for panel in (sections, changed)]
    trials = [[(s, seen) for s, seen in run if s >= MOST_STARTS and seen[-1].period < 12] for run in runs]
    assert len(trials[0]) == 2  # origins before periods 8, 11 and 13
    for (start, a), (again, b) in zip(*trials, strict=True):
        assert start == again
        for s, t in zip(a, b, strict=True):
            np.testing.assert_array_equal(s.focal.y, t.focal.y)


def test_a_part_learns_what_those_before_it_leave():
    found, seen = fitted_on(periods(), "first", "second")
    first = found.parts["first"]
    assert first.factor > 0.9
    assert found.evidence.loc["second", "factor"] == 0.0  # nothing is left for the same function again
    trials = [
        sections for start, sections in seen if start == MOST_STARTS
    ]  # of the first part, of the second
    slopes = [
        np.polyfit(
            np.concatenate([s.focal.x[:, 0] ** 2 for s in trial]),
            np.concatenate([s.focal.y for s in trial]),
            1,
        )[0]
        for trial in trials
    ]
    assert slopes[0] > 0.9 and slopes[1] == pytest.approx(slopes[0] - first.factor)


def test_a_part_that_replaces_learns_all_that_the_own_model_leaves_and_takes_the_place_of_the_others():
    weak = Candidate("weak", lambda sections, start: Known(sections, start, 0.4))
    Known.seen = []
    whole = Candidate("whole", Known, replaces=True)
    found = fit_nested(periods(), [weak, whole], plan(), judge=True)
    assert found.parts["whole"].factor > 0.9
    assert found.parts["weak"].factor == pytest.approx((1 - found.parts["whole"].factor) * 0.99, abs=0.02)
    first, *_, last = [sections for start, sections in Known.seen if start == MOST_STARTS]
    for a, b in zip(first, last, strict=True):
        np.testing.assert_array_equal(a.focal.y, b.focal.y)  # nothing of the weak part is taken off


def test_without_judgement_all_parts_enter_in_full():
    Known.seen = []
    found = fit_nested(periods(strength=0.0), [Candidate("first", Known)], plan(), judge=False)
    assert found.parts["first"].factor == 1.0 and len(Known.seen) == 1
    assert len(found.evidence) == 1 and not len(found.stability)


@pytest.mark.parametrize("size", [0.1, 1.0])
def test_other_losses_find_the_length_of_a_step_and_the_level(size):
    """Working residuals are bounded, and so is what heads learn of them: length and level are those of least loss."""
    sections = periods()
    for shift in (0.0, 0.5):
        first = Candidate("first", lambda sections, start, s=shift: Known(sections, start, size, s))
        found = fit_nested(sections, [first], plan(huber), judge=True)
        added = found.parts["first"]
        assert added.factor == pytest.approx(1 / size, rel=0.25)
        both = [
            found.own.predict(s.focal) + added.factor * g
            for s, g in zip(sections, added.additions(sections), strict=True)
        ]
        y, predicted = torch.tensor(np.concatenate([s.focal.y for s in sections])), np.concatenate(both)
        grid = np.linspace(-1, 1, 401)
        losses = [float(huber(torch.tensor(predicted + c), y).mean()) for c in grid]
        assert found.level[0] == pytest.approx(grid[np.argmin(losses)], abs=0.03)
        assert abs(found.level[0]) > 0.1


def test_beside_heads_the_own_model_is_fitted_again():
    """It is the own model of what the heads leave; where outcomes are read it stays, since parts are made of what it left."""
    panel = simulate_panel(20, 70, 4, signal_share=0.9, d_head=2, random_state=5)
    train = np.asarray(
        panel.X.index.get_level_values("period") < panel.X.index.get_level_values("period")[-1]
    )
    X, y = panel.X[train], panel.y[train]
    model = PeerAttentionRegressor(random_state=0).fit(X, y)
    assert model.evidence_.loc["heads", "factor"] > 0.9
    alone = without_parts(model)
    left = y - (model.predict(X) - alone.predict(X))
    again = PeerAttentionRegressor(n_heads=0).fit(X, left)
    np.testing.assert_allclose(alone.predict(panel.X), again.predict(panel.X), atol=1e-5)
    before = PeerAttentionRegressor(n_heads=0).fit(X, y)
    assert np.abs(before.predict(X) - again.predict(X)).mean() > 0.01
