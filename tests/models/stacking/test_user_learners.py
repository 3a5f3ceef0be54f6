"""Learners of the user's own in the stack: weighed as every other, and held to the rules of leaks."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from peerattn import StackedPeerRegressor, simulate_panel
from peerattn.exceptions import InputError

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
        ([("mine", object(), "peers")], "'mine' must have fit"),
        ([("mine", Weighted(), "friends")], "information must be one of"),
        ([("mine",)], r"expected \(name, learner, information\)"),
        ([("boosting", HistGradientBoostingRegressor(), "peers")], "peerattn.models.Learner"),
    ],
)
def test_what_cannot_be_a_learner_is_an_error(learners, message):
    with pytest.raises(InputError, match=message):
        stack(*learners).fit(PANEL.X, PANEL.y)
