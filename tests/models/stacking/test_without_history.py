"""Firms without a past: their weights are estimated without history, and predictions, networks and comparisons agree on them."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from peerattn import CrossSectionalRidge, NewFirms, PeerAttentionRegressor, StackedPeerRegressor, WalkForward, compare
from peerattn.evaluation import prune
from peerattn.models import contributions
from peerattn.models.stacking.weights import Column

FIRMS, PERIODS = 90, 9


def panel():
    """The level of a firm is that of its nearest firms: history knows it for old firms, peers for new ones."""
    rng = np.random.default_rng(0)
    place = pd.Series(rng.uniform(0, 6, size=FIRMS), [f"F{k:02}" for k in range(FIRMS)], name="place")
    index = pd.MultiIndex.from_product([place.index, range(PERIODS)], names=["firm", "period"])
    X = place.reindex(index, level="firm").to_frame()
    y = np.sin(X["place"]) + 0.2 * rng.normal(size=len(X))
    return X, y, X.index.get_level_values("firm").isin(place.index[60:])


@pytest.fixture(scope="module")
def fitted():
    X, y, new = panel()
    model = StackedPeerRegressor(task="nowcast", own="linear", random_state=0).fit(X[~new], y[~new])
    last = X.index.get_level_values("period") == PERIODS - 1
    return model, X[last], y[last], pd.Series(new, X.index)[last]


def test_firms_never_seen_are_predicted_by_their_peers(fitted):
    model, X, y, new = fitted
    assert model.evidence_.loc["history", "factor"] > 0.9 and not model.evidence_.loc["peers", "factor"]
    error = (pd.Series(model.predict(X, outcomes=y), X.index) - y) ** 2
    assert error[new].mean() < 0.4 * y[new].var()


def test_their_rows_of_the_network_are_by_their_weights(fitted):
    """Others have no peers; what a changed outcome changes is what the network says, and shocks of the period besides."""
    model, X, y, new = fitted
    firms = X.index.get_level_values("firm")
    W = model.peer_network(X, outcomes=y).matrix(PERIODS - 1).reindex(index=firms, columns=firms, fill_value=0.0).to_numpy()
    assert not W[~new].any() and (np.abs(W[new]).sum(1) > 0.1).all()
    changed = y.copy()
    changed.iloc[0] += 0.01
    slope = (model.predict(X, outcomes=changed) - model.predict(X, outcomes=y)) / 0.01
    # the mean of the period moves with it, for all firms by the same
    of_peers = slope[new] - slope[~new][1:].mean()
    assert np.corrcoef(of_peers, W[new, 0])[0, 1] > 0.99
    given = contributions(model, X, outcomes=y).matrix(PERIODS - 1).to_numpy()
    assert not given[~new].any() and given[new].any()


def with_heads(stack, model, weight):
    """Return a stack whose peers are the heads of a model alone."""
    stage = replace(stack.stages["peers"], weights={Column("heads"): weight})
    heads = {"heads": model.stack_.fitted["heads"]}
    return replace(stack, fitted=stack.fitted | heads, stages=stack.stages | {"peers": stage})


def test_without_heads_their_predictions_change_too(fitted):
    model, X, y, new = fitted
    every, outcome, unseen = panel()
    alone = PeerAttentionRegressor(task="nowcast", kappa=None, random_state=0).fit(every[~unseen], outcome[~unseen])
    # the same heads by a weight of .5 for firms with a past, and of .8 for others
    both = copy.copy(model)
    both.stack_ = with_heads(
        replace(model.stack_, without_history=with_heads(model.stack_.without_history, alone, 0.8)), alone, 0.5
    )
    both._set_heads()
    moved = np.abs(prune(both, []).predict(X, outcomes=y) - both.predict(X, outcomes=y))
    assert moved[new].max() > 0 and moved[~new].max() > 0


def test_heads_of_new_firms_alone_are_listed_and_can_be_left_out(fitted):
    model, X, y, new = fitted
    every, outcome, unseen = panel()
    alone = PeerAttentionRegressor(task="nowcast", kappa=None, random_state=0).fit(every[~unseen], outcome[~unseen])
    mine = copy.copy(model)
    mine.stack_ = replace(model.stack_, without_history=with_heads(model.stack_.without_history, alone, 0.8))
    mine._set_heads()
    assert len(mine.heads_) == len(mine.search_profile().heads) > 0 and (mine.heads_["importance"] > 0).any()
    moved = np.abs(prune(mine, []).predict(X, outcomes=y) - mine.predict(X, outcomes=y))
    assert moved[new].max() > 0 and not moved[~new].any()


def test_a_comparison_of_new_firms_says_what_was_selected_for_them():
    rng = np.random.default_rng(1)
    firms, periods = 36, 12
    index = pd.MultiIndex.from_product(
        [[f"F{k:02}" for k in range(firms)], range(2000, 2000 + periods)], names=["firm", "period"]
    )
    X = pd.DataFrame({"x": rng.normal(size=len(index))}, index)
    level = np.repeat(rng.integers(0, 2, firms) * 4.0, periods)
    y = (X["x"] + level + 0.3 * rng.normal(size=len(X))).rename("y")
    cv = NewFirms(WalkForward(test_periods=2, refit_every=2), n_splits=2)
    report = compare({"Ridge": CrossSectionalRidge()}, X, y, task="nowcast", cv=cv, verbose=False)
    peers = report.claims.steps[-1]
    assert peers.gain is not None and abs(peers.gain.gain) > 0.01 and "nothing" not in peers.selected
    assert "selected in none" not in "\n".join(report.summary())
