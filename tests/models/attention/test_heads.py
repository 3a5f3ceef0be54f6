"""Heads as they start, are taken and measured; starts are mixed by their weights."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import CovariancePeerRegressor, PeerAttentionRegressor
from peerattn.models.learners.heads.heads import Heads, contribution_spreads
from peerattn.models.learners.heads.learner import HeadsLearner
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec

# what is found is beside the point; heads of few steps would else enter by nothing
pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")

QUICK = {"kappa": None, "random_state": 0}


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(20, 12, 3, signal_share=0.8, d_head=2, random_state=3)


@pytest.fixture
def pair(panel, plant):
    """Two starts of two heads each, which enter by .2 and .6."""
    return plant(PeerAttentionRegressor(n_heads=1, own="linear", **QUICK).fit(panel.X, panel.y), 0.2, 0.6, n_heads=2)


def test_codes_start_with_firms_looking_to_their_own():
    module = PeerModule(PeerSpec(3, code_levels=(5,), n_heads=2), torch.Generator().manual_seed(0))
    assert torch.equal(module.key[:, 3:], module.query[:, 3:])
    assert not torch.equal(module.key[:, :3], module.query[:, :3])


def test_codes_that_training_does_not_know_stand_where_the_average_row_does(monkeypatch):
    monkeypatch.setattr(HeadsLearner, "_fallbacks", lambda learner, sections: [])
    panel = simulate_panel(30, 4, 2, n_industries=5, random_state=1)
    known = panel.X["industry"] != "I03"
    model = PeerAttentionRegressor(codes=["industry"], n_heads=1, **QUICK)
    model.fit(panel.X, panel.y.where(known))  # no focal row of the third industry
    table = model.members_[0].module().embeddings[0]
    share = panel.X["industry"][known].value_counts(normalize=True)
    names = ["I01", "I02", "I04", "I05"]
    average = torch.tensor(share[names].to_numpy()) @ table[[1, 2, 4, 5]]
    for code in (0, 3):  # 0 is the unknown code
        np.testing.assert_allclose(table[code], average, atol=1e-6)


def test_taken_heads_are_those_heads():
    module = PeerModule(PeerSpec(3, n_heads=3, n_priors=1), torch.Generator().manual_seed(0))
    taken = module.take([2, 0])
    assert taken.spec.n_heads == 2
    for name in ("query", "key", "offset", "null_key", "prior_strength", "value"):
        assert torch.equal(taken.get_parameter(name), module.get_parameter(name)[[2, 0]])
    for name in ("own_slope", "intercept"):
        assert torch.equal(taken.get_parameter(name), module.get_parameter(name))


def test_importance_is_the_spread_of_contributions_within_periods(panel, pair, plant):
    """By hand: weights (some of them on the null peer) times value vectors, their standard deviation within periods."""
    z = (panel.X - pair.design_.center) / pair.design_.spread
    sections = list(pair._gate_call(panel.X, None)[1])
    sections = [pair._as_seen(replace(s, focal=replace(s.focal, y=np.zeros(len(s.focal))))) for s in sections]
    settings = (pair.pair_terms_, torch.float64)
    for member in pair.members_:
        found = contribution_spreads([member.module()], sections, *settings)[0]
        for head in range(2):
            v, moved = member.state["value"][head, :, 0], []
            for s in sections:
                alone = Heads((replace(member, share=np.eye(2)[head]),), pair.pair_terms_, (1.0,))
                W = alone.weights(s)(slice(0, len(s.focal)))
                moved.append(W @ z.xs(s.period, level="period").loc[s.peers.label].to_numpy() @ v)
            assert found[head] == pytest.approx(np.sqrt(np.mean([m.var() for m in moved])), rel=1e-6)
    # what a head adds to predictions: a start of weight .2 less than one of .6
    in_units = [member.importance * weight * pair.y_scale_ for member, weight in zip(pair.members_, (0.2, 0.6), strict=True)]
    np.testing.assert_allclose(pair.heads_["importance"], np.concatenate(in_units))
    assert pair.heads_.columns.tolist() == ["seed", "head", "importance", "share"]
    assert pair.heads_.groupby("seed")["share"].sum().tolist() == pytest.approx([1.0, 1.0])
    assert contribution_spreads([PeerModule(PeerSpec(3, n_heads=0))], sections, *settings)[0].size == 0
    assert (plant(pair, 0.0, 0.0, n_heads=2).heads_["importance"] == 0).all()  # heads without weight add nothing


def test_starts_are_mixed_by_their_weights(panel, pair):
    """In the prediction each by its own weight; in the network by its share of them."""
    (section,) = list(pair._gate_call(panel.X, None)[1])[2:3]
    seen, n = pair._as_seen(replace(section, focal=replace(section.focal, y=None))), len(section.focal)
    both = [Heads((member,), pair.pair_terms_, (1.0,)) for member in pair.members_]
    raw = sum(mix * one.weights(seen)(slice(0, n)) for mix, one in zip((0.25, 0.75), both, strict=True))
    W = pair.peer_network(panel.X).matrix(section.period).loc[section.focal.label, section.peers.label]
    np.testing.assert_allclose(W, raw / raw.sum(1, keepdims=True), atol=1e-12)
    base = pair.stack_.view.lines.predict(seen.focal)
    added = [one.predict([seen])[0] - base for one in both]
    expected = (base + 0.2 * added[0] + 0.6 * added[1])[:, 0] * pair.y_scale_ + pair.y_center_
    predicted = pd.Series(pair.predict(panel.X), panel.X.index).xs(section.period, level="period").loc[section.focal.label]
    np.testing.assert_allclose(predicted, expected, atol=1e-10)


def test_one_head_is_a_row_of_the_table(panel, pair):
    for row in (0, 3):
        start, head = pair.heads_.loc[row, ["seed", "head"]].astype(int)
        (section,) = list(pair._gate_call(panel.X, None)[1])[:1]
        alone = Heads((replace(pair.members_[start], share=np.eye(2)[head]),), pair.pair_terms_, (1.0,))
        raw = alone.weights(pair._as_seen(section))(slice(0, 20))
        W = pair.peer_network(panel.X, head=row).matrix(section.period).loc[section.focal.label, section.peers.label]
        np.testing.assert_allclose(W, raw / raw.sum(1, keepdims=True), atol=1e-12)


def test_heads_that_are_searched_are_the_same_bits_and_touch_no_global_generator(panel):
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    fits = [PeerAttentionRegressor(n_heads=1, kappa=None, random_state=7).fit(panel.X, panel.y) for _ in range(2)]
    assert fits[0].members_
    for name, value in fits[0].members_[0].state.items():
        assert (value == fits[1].members_[0].state[name]).all(), name
    assert (torch.get_rng_state() == torch_state).all() and (np.random.get_state()[1] == numpy_state).all()


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_queries_keys_and_values_make_up_scores_and_contributions(task):
    """Softmax of q'k over √d are the weights but for the null peer; weights times values are what heads add."""
    panel = simulate_panel(10, 8, 2, random_state=0)
    model = PeerAttentionRegressor(task=task, n_heads=2, d_head=2, kappa=None, random_state=0).fit(panel.X, panel.y)
    outcomes = panel.y if task == "nowcast" else None
    period = panel.network.periods[-1]
    called = panel.X.xs(period, level="period", drop_level=False)
    y = outcomes.loc[called.index] if task == "nowcast" else None
    queries, keys, values = (getattr(model, which)(called, outcomes=y) for which in ("queries", "keys", "values"))
    assert queries.index.names == ["firm", "period"]
    assert queries.columns.get_level_values("head").unique().tolist() == model.heads_.index.tolist()
    for head in model.heads_.index:
        q, k = (table[head].droplevel("period") for table in (queries, keys))
        scores = (q @ k.T / np.sqrt(2)).to_numpy(copy=True)
        np.fill_diagonal(scores, -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        found = model.peer_network(called, outcomes=y, head=head).matrix(period).loc[q.index, k.index]
        np.testing.assert_allclose(found, weights, atol=1e-8)
    assert values.shape == (10, len(model.heads_))
    assert queries.equals(model.queries(called.iloc[::-1], outcomes=y).loc[queries.index])


def test_a_profile_without_heads_has_no_picture():
    panel = simulate_panel(10, 6, 2, random_state=0)
    model = PeerAttentionRegressor(n_heads=0, random_state=0).fit(panel.X, panel.y)
    for at in (0, 1, -1):
        with pytest.raises(InputError, match="at: expected the number of a head"):
            model.search_profile().plot(at)


@pytest.mark.parametrize("which", ["queries", "keys", "values"])
@pytest.mark.parametrize("model", [PeerAttentionRegressor(n_heads=0, random_state=0), CovariancePeerRegressor(random_state=0)])
def test_vectors_need_heads(model, which):
    panel = simulate_panel(10, 6, 2, random_state=0)
    model.fit(panel.X, panel.y)
    with pytest.raises(InputError, match=rf"{which}\(\) needs attention heads, and this {type(model).__name__} has none"):
        getattr(model, which)(panel.X)
