"""How many heads remain is decided by data; same seed, same bits; an ensemble is the mean of its members."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import PeerAttentionRegressor
from peerattn.models.attention import estimation
from peerattn.models.attention.batches import make_batch
from peerattn.models.attention.estimation import (
    LONG_PATIENCE,
    PATIENCE,
    Candidate,
    _deciding_loss,
    _patience,
    _to_start_beside,
    by_bic,
    by_validation,
    mean_loss,
    refit_linear,
)
from peerattn.models.attention.heads import head_worth
from peerattn.models.attention.losses import HUBER_THRESHOLD, cross_entropy, huber, pinball, squared_error
from peerattn.models.attention.peer_module import PeerModule, PeerSpec


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(60, 40, 4, signal_share=0.8, d_head=2, random_state=3)


def candidate(n_heads, losses):
    return Candidate(
        PeerModule(PeerSpec(2, n_heads=n_heads)),
        tuple(range(n_heads)),
        np.array(losses),
        np.ones(len(losses)),
    )


def sections_of(model, panel):
    checked, rows = model._gate_rows(panel.X, panel.y)
    return model._training_sections(model._in_units(rows), checked)


def test_one_standard_error_rule_takes_the_fewest_heads_that_are_as_good():
    best, close, bad = [1.0, 1.2, 0.8, 1.0], [1.05, 1.15, 0.9, 0.97], [1.5, 1.6, 1.4, 1.5]
    chosen = by_validation([candidate(4, best), candidate(2, close), candidate(1, bad)])
    assert chosen.n_heads == 2
    assert by_validation([candidate(4, best), candidate(2, bad), candidate(1, bad)]).n_heads == 4
    rather = [candidate(4, best), candidate(2, [1.1, 1.15, 0.85, 1.15])]  # 1.5 standard errors apart
    assert [by_validation(rather, errors).n_heads for errors in (1.0, 2.0)] == [4, 2]


def test_bic_counts_parameters():
    assert by_bic([candidate(2, [1.0]), candidate(0, [1.0])], n=60).n_heads == 0
    assert by_bic([candidate(2, [1e-9]), candidate(0, [1.0])], n=60).n_heads == 2


def test_search_goes_on_where_heads_explain_little():
    assert _patience(candidate(1, [0.5]), without=1.0, n_rows=9000) == PATIENCE
    assert _patience(candidate(1, [0.95]), without=1.0, n_rows=9000) == LONG_PATIENCE
    assert _patience(candidate(2, [0.5]), without=1.0, n_rows=9000) == LONG_PATIENCE
    assert _patience(candidate(1, [0.95]), without=1.0, n_rows=200_000) == PATIENCE
    assert _patience(candidate(1, [0.95]), without=1.0, n_rows=2000) == PATIENCE
    assert _patience(candidate(0, [0.0]), without=0.0, n_rows=9000) == PATIENCE  # nothing is left to explain


def test_starts_in_vain_leave_out_the_weakest_head(panel):
    model = PeerAttentionRegressor(n_heads=3, prune=False, max_steps=40, random_state=0).fit(panel.X, panel.y)
    sections, module = sections_of(model, panel), model.members_[0].module()
    settings = replace(model._settings(True, sections), dtype=torch.float64)
    chosen = Candidate(module, (4, 7, 9), np.ones(1), np.ones(1))
    weakest = head_worth(module, sections, settings).argmin()
    others = tuple(np.delete([4, 7, 9], weakest))
    kept = [_to_start_beside(chosen, in_vain, sections, settings)[1] for in_vain in range(5)]
    assert kept == [chosen.kept, chosen.kept, others, others, chosen.kept]
    beside, _ = _to_start_beside(chosen, 2, sections, settings)
    assert torch.equal(beside.query, module.query[[h for h in range(3) if h != weakest]])


@pytest.mark.parametrize("values", ["characteristics", "outcomes"])
def test_a_level_of_the_period_decides_only_where_outcomes_carry_it(panel, values):
    model = PeerAttentionRegressor(values=values, n_heads=1, prune=False, max_steps=2).fit(panel.X, panel.y)
    sections = sections_of(model, panel)
    batch = make_batch(sections[:2], model.pair_terms_, torch.float64)
    module = model.members_[0].module()
    before = _deciding_loss(module, batch, squared_error, True)
    mean = mean_loss(module, batch, squared_error)
    with torch.no_grad():
        module.intercept += 3.0
        after = _deciding_loss(module, batch, squared_error, True)
        predicted, _ = module(batch.focal, batch.peers, batch.pairs)
    if values == "characteristics":
        rest = batch.y - predicted[..., 0]
        assert after.item() == pytest.approx(before.item(), rel=1e-10)
        assert after.item() == pytest.approx((rest - rest.mean(1, keepdim=True)).square().mean().item())
    else:
        assert before.item() == pytest.approx(mean.item()) and after > before + 5
    assert _deciding_loss(module, batch, squared_error, False).item() == pytest.approx(
        mean_loss(module, batch, squared_error).item()
    )


def test_least_squares_takes_a_share_of_a_very_large_sample_and_the_whole_at_last(panel, monkeypatch):
    model = PeerAttentionRegressor(n_heads=1, prune=False, max_steps=2).fit(panel.X, panel.y)
    sections = sections_of(model, panel)
    settings = replace(model._settings(True, sections), dtype=torch.float64)
    found = {}
    monkeypatch.setattr(estimation, "MANY_ROWS", 600)  # of 2,400
    for whole in (False, True):
        found[whole] = model.members_[0].module()
        refit_linear(found[whole], sections, settings, whole=whole)
    monkeypatch.undo()
    plain = model.members_[0].module()
    refit_linear(plain, sections, settings)
    assert torch.equal(found[True].value, plain.value) and not torch.allclose(found[False].value, plain.value)


def test_codes_start_with_firms_looking_to_their_own():
    module = PeerModule(PeerSpec(3, code_levels=(5,), n_heads=2), torch.Generator().manual_seed(0))
    assert torch.equal(module.key[:, 3:], module.query[:, 3:])
    assert not torch.equal(module.key[:, :3], module.query[:, :3])


def test_no_heads_and_no_own_term_is_the_training_mean(panel):
    codes = panel.X.assign(group="a")
    model = PeerAttentionRegressor(own="none", n_heads=0, random_state=0).fit(codes, panel.y)
    np.testing.assert_allclose(model.predict(codes), panel.y.mean())


def test_same_seed_same_bits_and_global_generators_untouched(panel):
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    fits = [
        PeerAttentionRegressor(n_heads=4, max_steps=30, random_state=7).fit(panel.X, panel.y)
        for _ in range(2)
    ]
    for name, value in fits[0].members_[0].state.items():
        assert (value == fits[1].members_[0].state[name]).all(), name
    assert (torch.get_rng_state() == torch_state).all() and (np.random.get_state()[1] == numpy_state).all()


def test_ensemble_is_the_mean_of_its_members(panel):
    model = PeerAttentionRegressor(n_heads=2, max_steps=30, n_ensemble=2, prune=False, random_state=0).fit(
        panel.X, panel.y
    )
    networks = [model.peer_network(panel.X, member=k).matrix("2000-03") for k in (0, 1)]
    np.testing.assert_allclose(
        model.peer_network(panel.X).matrix("2000-03"), (networks[0] + networks[1]) / 2, atol=1e-12
    )
    spread = model.edge_spread(panel.X).set_index(["period", "firm", "peer"])
    pair = (model.peer_network(panel.X).periods[2], "F001", "F002")
    values = [net.loc["F001", "F002"] for net in networks]
    assert spread.loc[pair, "weight"] == pytest.approx(np.mean(values))
    assert spread.loc[pair, "spread"] == pytest.approx(np.std(values))
    with pytest.raises(InputError, match="members are numbered 0 to 1"):
        model.peer_network(panel.X, member=2)


@pytest.mark.parametrize("quantile", [0.1, 0.9])
def test_pinball_predicts_the_quantile(panel, quantile):
    model = PeerAttentionRegressor(
        loss="pinball", quantile=quantile, n_heads=2, prune=False, max_steps=300, random_state=0
    )
    below = (panel.y <= model.fit(panel.X, panel.y).predict(panel.X)).mean()
    assert below == pytest.approx(quantile, abs=0.04)


def test_losses_are_their_formulas():
    y = torch.tensor([[0.0, 1.0, -3.0]], dtype=torch.float64)
    f = torch.tensor([[[0.5], [1.0], [1.0]]], dtype=torch.float64)
    c = HUBER_THRESHOLD
    assert torch.allclose(huber(f, y), torch.tensor([[0.25, 0.0, c * (2 * 4 - c)]], dtype=torch.float64))
    assert torch.allclose(pinball(0.9)(f, y), torch.tensor([[0.05, 0.0, 0.4]], dtype=torch.float64))
    labels, logits = torch.tensor([[1.0]]), torch.tensor([[[0.3]]])
    assert cross_entropy(logits, labels).item() == pytest.approx(np.log1p(np.exp(-0.3)), abs=1e-6)
    three = torch.tensor([[[0.1, 0.2, 0.3]]])
    expected = -0.2 + np.log(np.exp([0.1, 0.2, 0.3]).sum())
    assert cross_entropy(three, labels).item() == pytest.approx(expected, abs=1e-6)
