from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from peerattn import (
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    StackedPeerRegressor,
    simulate_panel,
)
from peerattn.evaluation import influence
from peerattn.exceptions import InputError
from peerattn.models import contributions
from peerattn.models.attention.networks import selected_heads
from peerattn.models.stacking.weights import Column, Scope
from peerattn.network import connectedness
from peerattn.panel import as_panel

# what is found is beside the point; heads of few steps would else enter by nothing
pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")

PANEL = simulate_panel(12, 12, 2, sharpness=2.0, signal_share=0.7, n_industries=3, random_state=1)
X, Y = PANEL.X[["x1", "x2"]], PANEL.y
OPTIONS = {
    "n_heads": 2,
    "kappa": None,
    "random_state": 0,
}
PERIOD = PANEL.network.periods[4]


def by_hand(model, period, firm, peer, **options):
    """Drop the peer's row and predict again."""
    here = X.index.get_level_values("period") == period
    outcomes = {"outcomes": Y[here]} if options else {}
    whole = pd.Series(model.predict(X[here], **outcomes), X[here].index)
    rest = here & (X.index.get_level_values("firm") != peer)
    outcomes = {"outcomes": Y[rest]} if options else {}
    without = pd.Series(model.predict(X[rest], **outcomes), X[rest].index)
    return whole[(firm, period)] - without[(firm, period)]


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.filterwarnings("ignore::peerattn.exceptions.SmallCrossSectionWarning")
def test_influence_is_the_change_when_the_row_is_gone(n_layers):
    model = PeerAttentionRegressor(**OPTIONS, n_layers=n_layers).fit(X, Y)
    found = influence(model, X, periods=[PERIOD])
    matrix = found.influence.matrix(PERIOD)
    for firm, peer in [("F001", "F002"), ("F007", "F003")]:
        assert matrix.loc[firm, peer] == pytest.approx(by_hand(model, PERIOD, firm, peer), abs=1e-10)
    assert (np.diag(matrix) == 0).all() and found.influence.signed


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.SmallCrossSectionWarning")
def test_influence_is_that_of_the_row_where_the_mean_of_a_period_has_a_weight_of_its_own():
    model = PeerAttentionRegressor(**OPTIONS).fit(X, Y)
    stages = model.stack_.stages
    weights = {Column("heads", Scope.WITHIN): 0.9, Column("heads", Scope.MEAN): 0.1}
    model.stack_ = replace(model.stack_, stages=stages | {"peers": replace(stages["peers"], weights=weights)})
    matrix = influence(model, X, periods=[PERIOD]).influence.matrix(PERIOD)
    for firm, peer in [("F001", "F002"), ("F007", "F003")]:
        assert matrix.loc[firm, peer] == pytest.approx(by_hand(model, PERIOD, firm, peer), abs=1e-10)


def test_a_single_head_has_a_closed_form():
    """δ_ij = α_ij (v_j − Σ_k α_ik v_k) / (1 − α_ij) for one head that reads outcomes."""
    model = NadarayaWatsonRegressor().fit(X, Y)
    found = influence(model, X, outcomes=Y, periods=[PERIOD])
    W = found.network.matrix(PERIOD).to_numpy()
    y = Y[Y.index.get_level_values("period") == PERIOD].to_numpy()
    expected = W * (y[None, :] - (W @ y)[:, None]) / (1 - W)
    np.testing.assert_allclose(found.influence.matrix(PERIOD), expected, atol=1e-10)
    off = ~np.eye(12, dtype=bool)
    rank = stats.spearmanr(W[off], np.abs(expected)[off]).statistic
    assert found.by_period["rank_correlation"].item() == pytest.approx(rank)
    assert "rank correlation" in repr(found) and "explains nothing" in str(found)
    frame = found.to_frame()
    assert len(frame) == 12 * 11 and frame["weight"].sum() == pytest.approx(12)


def test_equal_weights_can_move_predictions_differently():
    model = IndustryPeerRegressor(industry="industry").fit(PANEL.X, Y)
    found = influence(model, PANEL.X, outcomes=Y, periods=[PERIOD])
    inside = found.to_frame().query("weight > 0")
    assert inside.groupby("firm")["weight"].nunique().max() == 1
    assert inside["influence"].abs().max() > 2 * inside["influence"].abs().min()


def test_influence_says_where_it_cannot_be_told():
    with pytest.raises(InputError, match="not in the call"):
        influence(NadarayaWatsonRegressor().fit(X, Y), X)
    with pytest.raises(InputError, match="model: expected PanelEstimator"):
        influence(object(), X)


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_contributions_are_weights_times_information(task):
    model = PeerAttentionRegressor(**OPTIONS, task=task).fit(X, Y)
    told = {"outcomes": Y} if task == "nowcast" else {}
    found = contributions(model, X, **told)
    assert not found.row_normalized
    rows = X[X.index.get_level_values("period") == PERIOD]
    own = PeerAttentionRegressor(n_heads=0, own="linear", kappa=None).fit(X, Y).predict(rows)
    expected = np.zeros((12, 12))
    (section,) = (s for s in model._gate_call(X, told.get("outcomes"))[1] if s.period == PERIOD)
    for row, (start, head) in enumerate(model.heads_[["seed", "head"]].to_numpy()):
        member, share = model.members_[start], model.stack_.heads().mix[start]
        one = selected_heads(model.stack_.heads(), model.heads_, row)
        W = one.weights(model._as_seen(section))(slice(0, 12))  # the null peer has the rest
        if task == "nowcast":
            v = member.state["value"][head, 0] * (Y[rows.index] - own).to_numpy()
        else:
            z = model.design_.transform(as_panel(rows))
            v = z @ member.state["value"][head, :, 0] * model.y_scale_
        expected += share * np.abs(W * v)
    np.testing.assert_allclose(found.matrix(PERIOD), expected, atol=1e-10)
    table = connectedness(found)
    here = table[table["period"] == PERIOD].set_index("firm")
    np.testing.assert_allclose(here["from"], expected.sum(axis=1))
    np.testing.assert_allclose(here["to"], expected.sum(axis=0))
    assert here["net"].sum() == pytest.approx(0, abs=1e-10)
    peers = replace(model.stack_.stages["peers"], weights={Column("heads"): 0.5})
    model.stack_ = replace(model.stack_, stages=model.stack_.stages | {"peers": peers})
    np.testing.assert_allclose(contributions(model, X, **told).matrix(PERIOD), expected / 2, atol=1e-10)
    with pytest.raises(InputError, match="attention model"):
        contributions(NadarayaWatsonRegressor().fit(X, Y), X)


def test_contributions_of_a_covariance_add_up_to_the_prediction():
    model = StackedPeerRegressor(task="nowcast", own="linear", kappa=0.0, n_heads=1, random_state=0).fit(X, Y)
    assert "covariance" in model.stack_.fitted
    alone = {group: replace(stage, weights={}) for group, stage in model.stack_.stages.items()}
    alone["peers"] = replace(alone["peers"], weights={Column("covariance"): 1.0})
    fitted = {"covariance": model.stack_.fitted["covariance"]}
    model.stack_ = replace(model.stack_, stages=alone, fitted=fitted)
    rows = X[X.index.get_level_values("period") == PERIOD]
    own = PeerAttentionRegressor(n_heads=0, own="linear", kappa=None).fit(X, Y).predict(X)
    W = model.peer_network(X, outcomes=Y).matrix(PERIOD).to_numpy()
    signed = W * (Y - own)[rows.index].to_numpy()
    np.testing.assert_allclose(signed.sum(axis=1), (model.predict(X, outcomes=Y) - own)[X.index.isin(rows.index)], atol=1e-10)
    np.testing.assert_allclose(contributions(model, X, outcomes=Y).matrix(PERIOD), np.abs(signed), atol=1e-10)


def test_connectedness_of_a_rectangle():
    network = PANEL.network.from_matrices({None: (["a", "b"], ["b", "c"], np.array([[0.5, 0.5], [0.2, 0.8]]))})
    found = connectedness(network).set_index("firm").drop(columns="period")
    expected = pd.DataFrame({"to": [np.nan, 0.5, 1.3], "from": [1.0, 0.8, np.nan], "net": [np.nan, -0.3, np.nan]},
                            index=pd.Index(["a", "b", "c"], name="firm"))  # fmt: skip
    pd.testing.assert_frame_equal(found, expected)
