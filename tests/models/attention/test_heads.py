"""Heads as they start, are taken and measured; an ensemble is the mean of its members."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import PeerAttentionRegressor
from peerattn.models.attention.heads import contribution_spread, with_heads
from peerattn.models.attention.peer_module import PeerModule, PeerSpec

QUICK = {"similarity": "scaled_dot_product", "prune": False, "random_state": 0}


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(20, 12, 3, signal_share=0.8, d_head=2, random_state=3)


@pytest.fixture(scope="module")
def pair(panel):
    return PeerAttentionRegressor(n_heads=2, **QUICK).fit(panel.X, panel.y)


def test_codes_start_with_firms_looking_to_their_own():
    module = PeerModule(PeerSpec(3, code_levels=(5,), n_heads=2), torch.Generator().manual_seed(0))
    assert torch.equal(module.key.weight[:, 3:], module.query.weight[:, 3:])
    assert not torch.equal(module.key.weight[:, :3], module.query.weight[:, :3])


def test_codes_that_training_does_not_know_stand_where_the_average_row_does():
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
    taken = with_heads(module, torch.tensor([2, 0]))
    assert taken.spec.n_heads == 2
    for name, parameter in taken.per_head().items():
        whole = module.get_parameter(name)
        assert torch.equal(parameter, whole.view(3, -1)[[2, 0]].reshape(-1, *whole.shape[1:]))


def test_importance_is_the_spread_of_contributions_within_periods(panel, pair):
    """By hand: weights times value vectors, their standard deviation within periods."""
    z = (panel.X - pair.design_.center) / pair.design_.spread
    for k, member in enumerate(pair.members_):
        for head in range(2):
            network, v = pair.peer_network(panel.X, member=k, head=head), member.state["value.weight"][head]
            moved = [network.matrix(t) @ z.xs(t, level="period") @ v for t in network.periods]
            expected = np.sqrt(np.mean([m.var(ddof=0) for m in moved])) * pair.y_scale_
            table = pair.heads_.set_index(["member", "head"])
            assert table.loc[(k, head), "importance"] == pytest.approx(expected, rel=1e-6)
    assert pair.heads_.groupby("member")["share"].sum().tolist() == pytest.approx([1.0, 1.0])
    sections = list(pair._gate_call(panel.X, None)[1])
    settings = replace(pair._settings(True, sections), dtype=torch.float64)
    assert contribution_spread(PeerModule(PeerSpec(3, n_heads=0)), sections, settings).size == 0


def test_ensemble_is_the_mean_of_its_members(panel, pair):
    networks = [pair.peer_network(panel.X, member=k).matrix("2000-03") for k in (0, 1)]
    assert not np.allclose(*networks, atol=1e-3)
    whole = pair.peer_network(panel.X)
    np.testing.assert_allclose(whole.matrix("2000-03"), (networks[0] + networks[1]) / 2, atol=1e-12)
    spread = pair.edge_spread(panel.X).set_index(["period", "firm", "peer"])
    values = [net.loc["F001", "F002"] for net in networks]
    edge = (whole.periods[2], "F001", "F002")
    assert spread.loc[edge, "weight"] == pytest.approx(np.mean(values))
    assert spread.loc[edge, "spread"] == pytest.approx(np.std(values))
    with pytest.raises(InputError, match="member: the model has 2 members, numbered from 0, got 2"):
        pair.peer_network(panel.X, member=2)


def test_heads_that_are_searched_are_the_same_bits_and_touch_no_global_generator(panel):
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    fits = [PeerAttentionRegressor(n_heads=1, random_state=7).fit(panel.X, panel.y) for _ in range(2)]
    assert fits[0].members_
    for name, value in fits[0].members_[0].state.items():
        assert (value == fits[1].members_[0].state[name]).all(), name
    assert (torch.get_rng_state() == torch_state).all() and (np.random.get_state()[1] == numpy_state).all()
