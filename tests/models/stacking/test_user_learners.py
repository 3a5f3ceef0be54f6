"""Learners of the user's own in the stack: weighed as every other, and held to the rules of leaks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from peerattn import StackedPeerRegressor, simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import contributions

PANEL = simulate_panel(30, 16, 2, sharpness=2.0, signal_share=0.8, random_state=3)


class Weighted:
    """Peers by the true network's rule is not known here: the mean of all others, times a slope."""

    def __init__(self, slope=1.0, leak=False):
        self.slope = slope
        self.leak = leak

    def fit(self, sections):
        return self

    def predict(self, sections):
        return [self.weights(s, slice(None)) @ np.nan_to_num(s.peers.y) for s in sections]

    def weights(self, section, rows):
        may = section.admissible(rows).astype(float)
        if self.leak:
            may = np.ones_like(may)
        return self.slope * may / may.sum(axis=1, keepdims=True).clip(1)


class Truth(Weighted):
    """Half of the true peer term, known from outside."""

    def __init__(self, truth):
        self.truth = truth

    def predict(self, sections):
        return [self.truth.loc[[(firm, s.period) for firm in s.focal.label]].to_numpy() for s in sections]

    def weights(self, section, rows):
        return None


def stack(*learners, **options):
    return StackedPeerRegressor(own="linear", n_heads=0, learners=learners, random_state=0, **{"task": "nowcast"} | options)


def test_a_learner_that_helps_is_selected_and_predicts():
    y = PANEL.y
    noise = np.random.default_rng(0).normal(size=len(y))
    left = y - LinearRegression().fit(PANEL.X, y).predict(PANEL.X)
    known = left / y.std() + 0.05 * noise
    model = stack(("oracle", Truth(known), "common")).fit(PANEL.X, y)
    assert "oracle" in model.evidence_.loc["common", "selected"]
    assert np.corrcoef(model.predict(PANEL.X, outcomes=y), y)[0, 1] > 0.9


def test_a_peer_learner_has_its_weights_in_the_network():
    X, y = PANEL.X, PANEL.y
    shock = np.random.default_rng(1).normal(size=16)[PANEL.X.index.get_level_values("period").factorize()[0]]
    model = stack(("others", Weighted(), "peers"), attention="self").fit(X, y + 3 * shock)
    assert model.predict(X, outcomes=y).shape == (len(y),)
    network = model.peer_network(X, outcomes=y)
    period = network.periods[-1]
    W = network.matrix(period).to_numpy()
    assert np.allclose(np.diag(W), 0)


def test_an_estimator_of_own_characteristics_needs_no_protocol():
    y = PANEL.X["x1"] ** 2
    model = stack(("boosting", HistGradientBoostingRegressor(max_iter=20), "own"), task="forecast").fit(PANEL.X, y)
    assert np.corrcoef(model.predict(PANEL.X), y)[0, 1] > 0.8


@pytest.mark.parametrize(
    ("learners", "message"),
    [
        ([("leaky", Weighted(leak=True), "peers")], "'leaky' uses a firm's own outcome to predict it"),
        ([("mine", object(), "peers")], "'mine' must be an object, no class, with fit"),
        ([("mine", Weighted, "peers")], "'mine' must be an object, no class.*got <class"),
        ([("mine", Weighted(), "friends")], "information must be one of"),
        ([("mine",)], r"expected \(name, learner, information\)"),
        ([(["mine"], Weighted(), "peers")], r"expected \(name, learner, information\)"),
        ([("boosting", HistGradientBoostingRegressor(), "peers")], "peerattn.models.Learner"),
        ([("classes", LogisticRegression(), "own")], 'or with information "own" be a regressor; got LogisticRegression'),
    ],
)
def test_what_cannot_be_a_learner_is_an_error(learners, message):
    with pytest.raises(InputError, match=message):
        stack(*learners).fit(PANEL.X, PANEL.y)


def test_two_learners_of_one_name_are_an_error():
    for name in ("firm effect", "near"):
        learners = [(name, Weighted(), "peers"), ("near", Weighted(), "peers")]
        with pytest.raises(InputError, match=f"learners: more than one learner has the name '{name}'"):
            stack(*learners).fit(PANEL.X, PANEL.y)


class ReturnsNothing(Weighted):
    """A learner whose fit forgets to return it."""

    def fit(self, sections):
        super().fit(sections)


def test_what_fit_returns_does_not_matter():
    found = [stack(("near", each, "peers")).fit(PANEL.X, PANEL.y) for each in (Weighted(), ReturnsNothing())]
    assert np.array_equal(*(model.predict(PANEL.X, outcomes=PANEL.y) for model in found))


class PastMean:
    """The mean of a firm's past residuals, 0 for firms that are new."""

    def fit(self, sections):
        self.past = {}
        for section in sections:
            for firm, y in zip(section.focal.label, section.focal.y, strict=True):
                self.past.setdefault(firm, []).append(y)
        return self

    def predict(self, sections):
        return [np.array([np.mean(self.past.get(firm, [0.0])) for firm in s.focal.label]) for s in sections]

    def weights(self, section, rows):
        return None


def test_a_history_of_the_user_is_no_past_of_new_firms():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([[f"F{k:02}" for k in range(60)], range(9)], names=["firm", "period"])
    place = np.repeat(rng.uniform(0, 6, 60), 9)
    X = pd.DataFrame({"place": place}, index)
    y = pd.Series(np.sin(place) + 0.2 * rng.normal(size=len(X)), index)
    new = index.get_level_values("firm") >= "F45"
    model = StackedPeerRegressor(task="nowcast", own="linear", learners=[("mine", PastMean(), "history")], random_state=0).fit(
        X[~new], y[~new]
    )
    last = index.get_level_values("period") == 8
    (section,) = model._gate_call(X[last], y[last])[1]
    known = model.stack_.have_past(model._as_seen(section))
    assert known.tolist() == (~new[last]).tolist()
    error = ((model.predict(X[last], outcomes=y[last]) - y[last]) ** 2)[new[last]].mean()
    assert error < 0.5 * y[new].var()


class Nearest(Weighted):
    """The mean of the three nearest firms."""

    def weights(self, section, rows):
        may = section.admissible(rows)
        distance = np.where(may, np.square(section.focal.x[rows, None] - section.peers.x).sum(-1), np.inf)
        near = may & (distance.argsort(axis=1).argsort(axis=1) < 3)
        return near / near.sum(axis=1, keepdims=True).clip(1)


def test_the_network_is_that_of_the_learner_that_was_selected():
    rng = np.random.default_rng(0)
    firms, periods = 20, 14
    index = pd.MultiIndex.from_product([range(firms), range(periods)], names=["firm", "period"])
    place = np.repeat(rng.uniform(-3, 3, firms), periods)
    shocks = np.tile(rng.normal(size=(periods, 2)), (firms, 1))
    X = pd.DataFrame({"place": place}, index)
    y = pd.Series(np.sin(place) * shocks[:, 0] + np.cos(2 * place) * shocks[:, 1] + 0.1 * rng.normal(size=len(X)), index)
    model = stack(("near", Nearest(), "peers"), similarity="dot_product").fit(X, y)
    weight = model.evidence_.loc["peers", "factor"]
    assert weight > 0.5
    matrix = model.peer_network(X, outcomes=y).matrix(periods - 1).to_numpy()
    assert ((matrix > 0).sum(axis=1) == 3).all()
    np.testing.assert_allclose(matrix.sum(axis=1), weight)
    alone = model.peer_network(X, outcomes=y, part="near").matrix(periods - 1).to_numpy()
    np.testing.assert_allclose(alone, matrix / weight)
    with pytest.raises(InputError, match="contributions are of heads and covariances, and AddedByPeers"):
        contributions(model, X, outcomes=y)
