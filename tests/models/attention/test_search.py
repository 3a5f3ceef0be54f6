"""The search finds a known network, its loss is least squares given the weights, and every option of a module is searched."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn.datasets import simulate_panel
from peerattn.models.attention import descent, samples, starts
from peerattn.models.attention.projection import RIDGE, errors, of_batch, penalty, projected_loss
from peerattn.models.attention.samples import Sample
from peerattn.models.attention.search import ALONE, SHORTER, TOGETHER, find_heads
from peerattn.models.cross_section import NOBODY, CrossSection, Rows
from peerattn.models.learners.heads.heads import Settings
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec
from peerattn.models.learners.heads.priors import PairTerms, Prior
from peerattn.models.learners.variance_components import common_variance

SETTINGS = Settings(terms=PairTerms((), {"industry": 0}), dtype=torch.float64)


def sections_of(panel, *, known=1.0, outcomes=False, codes=False, seed=0):
    """Return one section a period; some outcomes are unknown; without outcomes as values, targets are net of OLS."""
    generator = np.random.default_rng(seed)
    X = panel.X.select_dtypes("number")
    design = np.c_[np.ones(len(X)), X]
    y = panel.y.to_numpy()
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    sections = []
    firms = X.index.get_level_values("firm")
    number = pd.factorize(firms, sort=True)[0]
    level = pd.factorize(panel.X["industry"])[0][:, None] + 1 if codes else np.zeros((len(X), 0), dtype=int)
    for period, at in X.groupby(level="period").indices.items():
        rows = Rows(X.to_numpy()[at], level[at], residual[at], None, number[at], firms[at], firms[at])
        told = generator.uniform(size=len(at)) < known
        peers = replace(rows, y=np.where(told, y[at], np.nan)) if outcomes else rows
        focal = replace(rows.take(np.flatnonzero(told)), y=(y if outcomes else residual)[at][told])
        sections.append(CrossSection(period, at, focal, peers, True, answering=told if outcomes else None))
    return sections


def spec_of(sections, **options):
    n_codes = sections[0].focal.codes.shape[1]
    levels = tuple(int(max(s.peers.codes[:, c].max() for s in sections)) for c in range(n_codes))
    given = {"n_heads": 2, "d_head": 4, **options}
    return PeerSpec(sections[0].focal.x.shape[1], levels, **given)


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(20, 60, 4, signal_share=0.9, d_head=2, random_state=5)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(starts, "STARTS", 8)
    monkeypatch.setattr(descent, "STEPS", 8)


def weights(module, sample):
    return [module.weights(batch).detach().numpy() for batch in sample.whole()]


def searched(*arguments, **options):
    """Return what all rounds find."""
    return {name: of for found in find_heads(*arguments, **options) for name, of in found.items()}


@pytest.mark.full_search
def test_a_strong_network_on_a_small_panel_is_found_by_every_start(panel):
    """The best starts by themselves find it, each alone."""
    sections = sections_of(panel)
    settings = replace(SETTINGS, dtype=torch.float32)
    found = searched(spec_of(sections), sections[:50], settings, seed=0)
    test = Sample(sections[50:], SETTINGS)
    assert [m.spec.n_heads for m in found[TOGETHER]] == [2] and [m.spec.n_heads for m in found[ALONE]] == [
        1
    ] * 3
    assert all(p.dtype == torch.float64 for of in found.values() for m in of for p in m.parameters())
    off = ~np.eye(20, dtype=bool)
    for k, module in enumerate(found[ALONE][:2]):
        W = weights(module, test)[0][:, 0]
        for section, of_period in zip(sections[50:], W, strict=True):
            truth = (
                panel.network.matrix(section.period).loc[section.focal.label, section.peers.label].to_numpy()
            )
            assert np.corrcoef(of_period[off], truth[off])[0, 1] > (0.97, 0.9)[k]


def test_warm_heads_are_at_least_as_good_as_where_they_started(panel, quick):
    sections = sections_of(panel)
    settings = replace(SETTINGS, dtype=torch.float32)
    (first,) = searched(spec_of(sections), sections[:40], settings, seed=0)[TOGETHER]
    (again,) = searched(spec_of(sections), sections, settings, seed=1, warm=[first])[TOGETHER]
    sample = Sample(sections, SETTINGS)
    (batch,) = sample.whole()
    losses = [projected_loss(m, None, batch, 2, sample).item() for m in (first, again)]
    assert losses[1] <= losses[0] + 1e-3


@pytest.mark.full_search
def test_two_networks_are_found_as_two_heads():
    panel = simulate_panel(40, 40, 4, signal_share=0.9, d_head=2, n_networks=2, random_state=1)
    sections = sections_of(panel)
    (found,) = searched(spec_of(sections), sections, replace(SETTINGS, dtype=torch.float32), seed=0)[TOGETHER]
    assert found.spec.n_heads == 2
    W = weights(found, Sample(sections[-1:], SETTINGS))[0][0]
    labels = sections[-1].focal.label
    off = ~np.eye(40, dtype=bool)
    truths = [net.matrix(sections[-1].period).loc[labels, labels].to_numpy()[off] for net in panel.networks]
    near = np.corrcoef([*truths, *(w[off] for w in W)])[:2, 2:]
    assert near.max(axis=0).min() > 0.95 and near.max(axis=1).min() > 0.95


@pytest.mark.parametrize("outcomes", [False, True])
def test_the_loss_is_ridge_regression_given_the_weights(panel, outcomes):
    sections = sections_of(panel, outcomes=outcomes, known=0.9)[:6]
    spec = spec_of(sections, values="outcomes" if outcomes else "characteristics")
    module = PeerModule(spec, torch.Generator().manual_seed(0))
    sample = Sample(sections, SETTINGS)
    (batch,) = sample.whole()
    got = projected_loss(module, None, batch, 1, sample) - penalty(module, sample)
    for head in range(2):
        own, mixed, y = [], [], []
        for k, section in enumerate(sections):
            W = module.weights(batch)[k, head, : len(section.focal)].detach().numpy()
            shown = np.nan_to_num(section.peers.y)[:, None] if outcomes else section.peers.x
            theta = 0.0 if outcomes else 1 - (1 + len(W) * sample.common) ** -0.5
            each = [np.c_[section.focal.x, np.ones(len(W))], W @ shown, section.focal.y[:, None]]
            own_k, mixed_k, y_k = (z - theta * z.mean(axis=0) for z in each)
            own.append(own_k)
            mixed.append(mixed_k)
            y.append(y_k)
        Z, y = np.c_[np.concatenate(own), np.concatenate(mixed)], np.concatenate(y)
        Z, padded = np.r_[Z, np.eye(Z.shape[1])], np.r_[y, np.zeros((Z.shape[1], 1))]
        rest = padded - Z @ np.linalg.lstsq(Z, padded, rcond=None)[0]
        assert got[head].item() == pytest.approx(np.log((rest**2).sum() / (y**2).sum()), abs=1e-10)


@pytest.mark.parametrize("values", ["characteristics", "outcomes"])
def test_gradient_is_that_of_the_solved_problem(panel, values):
    """The coefficients count as constants; finite differences solve them anew."""
    sections = sections_of(panel, outcomes=values == "outcomes")[:4]
    module = PeerModule(spec_of(sections, values=values), torch.Generator().manual_seed(1))
    sample = Sample(sections, SETTINGS)
    (batch,) = sample.whole()

    def loss():
        return projected_loss(module, None, batch, 1, sample).sum()

    loss().backward()
    direction = torch.randn(
        module.query.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    slope = float((module.query.grad * direction).sum())
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            module.query.add_(sign * 1e-5 * direction)
            ends.append(float(loss()))
            module.query.sub_(sign * 1e-5 * direction)
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-5)


def test_predictions_are_the_ridge_regression_of_the_found_heads(panel, quick):
    sections = sections_of(panel)[:12]
    module = searched(spec_of(sections, n_heads=1), sections, SETTINGS, seed=0)[TOGETHER][0]
    sample = Sample(sections, SETTINGS)
    (batch,) = sample.whole()
    predicted = module(batch)[0][..., 0].detach()
    assert (batch.y[..., 0] - predicted).mean().item() == pytest.approx(0, abs=1e-12)
    columns_of_heads = module.columns(batch)[:, :, 0].detach()
    theta = 1 - (1 + batch.y.shape[1] * sample.common) ** -0.5
    Z, y = (
        torch.cat([batch.focal.x, columns_of_heads, torch.ones_like(columns_of_heads[..., :1])], dim=-1),
        batch.y,
    )
    Z, y = ((z - theta * z.mean(1, keepdim=True)).flatten(0, 1).numpy() for z in (Z, y))
    found = np.r_[module.own_slope.detach()[:, 0], module.value.detach()[0, :, 0]]
    expected = np.linalg.solve(Z.T @ Z + RIDGE * np.eye(Z.shape[1]), Z.T @ y)[:-1, 0]
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.fixture(scope="module")
def indirect():
    """A firm's outcome depends on what its peers' peers have."""
    return simulate_panel(40, 35, 3, signal_share=0.9, d_head=2, n_layers=2, random_state=2)


@pytest.mark.full_search
def test_peers_of_peers_are_found(indirect, monkeypatch):
    monkeypatch.setattr(starts, "STARTS", 12)
    sections = sections_of(indirect)
    spec, settings = spec_of(sections, n_heads=1, n_layers=2), replace(SETTINGS, dtype=torch.float32)
    found = searched(spec, sections[:30], settings, seed=0)[TOGETHER][0]
    assert found.spec.n_layers == 2
    later = Sample(sections[30:], SETTINGS)
    for layer, truth in enumerate(indirect.layers):
        (batch,) = later.whole()
        W = found.weights(batch, layer).detach().numpy()[:, 0]
        for one, section in zip(W, later.sections):
            firms = section.focal.label
            true = truth.matrix(section.period).loc[firms, firms].to_numpy()
            assert np.corrcoef(one.ravel(), true.ravel())[0, 1] > 0.95
    direct = searched(replace(spec, n_layers=1), sections[:30], settings, seed=0)[TOGETHER][0]
    rest = [(batch.y - m(batch)[0]).var() for m in (found, direct)]
    assert rest[0] < 0.6 * rest[1]


def test_chains_come_beside_heads_of_one_layer_less(panel, quick):
    """Which of them is true, the candidates' problem says."""
    sections = sections_of(panel)[:10]
    found = searched(spec_of(sections, n_layers=2), sections, SETTINGS, seed=0)
    assert {name: {m.spec.n_layers for m in of} for name, of in found.items()} == {
        TOGETHER: {2},
        ALONE: {2},
        SHORTER: {1},
    }
    assert SHORTER not in searched(spec_of(sections), sections, SETTINGS, seed=0)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("n_layers", [2, 3])
def test_a_shorter_chain_is_put_into_a_longer_one(indirect, place, n_layers):
    """As its last layers, its contributions stay what they were; as its first layers, their weights do."""
    sections = sections_of(indirect)[:2]
    spec = spec_of(sections, n_heads=2, n_layers=n_layers)
    generator = torch.Generator().manual_seed(0)
    shorter = PeerModule(replace(spec, n_layers=n_layers - 1), generator)
    longer = PeerModule(replace(spec, n_heads=4), generator)
    with torch.no_grad():
        for parameter in shorter.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    starts.put(shorter, longer, {k: k + place for k in range(n_layers - 1)})
    (batch,) = Sample(sections, SETTINGS).whole()
    for layer in range(n_layers - 1):
        mine = longer.weights(batch, layer + place)
        theirs = shorter.weights(batch, layer)
        torch.testing.assert_close(mine, theirs.repeat(1, 2, 1, 1))
    if place:
        mine, theirs = (module.columns(batch) for module in (longer, shorter))
        torch.testing.assert_close(mine[..., : theirs.shape[-1]], theirs.repeat(1, 1, 2, 1))


def test_one_layer_of_a_chain_is_drawn_anew(indirect):
    """The other layer keeps its weights where it is the first; the last one's depend on what the first adds."""
    sections = sections_of(indirect)[:2]
    spec, generator = spec_of(sections, n_heads=1, n_layers=2), torch.Generator().manual_seed(0)
    known, drawn = (PeerModule(replace(spec, n_heads=h), generator) for h in (1, 3))
    with torch.no_grad():
        for parameter in known.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    (batch,) = Sample(sections, SETTINGS).whole()
    seen = [drawn.weights(batch, layer) for layer in (0, 1)]
    starts.put(known, drawn, {0: 0})
    kept, anew = (drawn.weights(batch, layer) for layer in (0, 1))
    first = known.weights(batch, 0)
    torch.testing.assert_close(kept, first.expand_as(kept))
    torch.testing.assert_close(anew, seen[1])  # at its start it sees inputs alone
    starts.put(known, drawn, {1: 1})
    both, last = (
        drawn.weights(batch, 1),
        known.weights(batch, 1),
    )
    torch.testing.assert_close(both, last.expand_as(both))


OPTIONS = {
    "gaussian": {"similarity": "gaussian"},
    "additive": {"similarity": "additive"},
    "dot product": {"similarity": "dot_product"},
    "symmetric": {"symmetric": True},
    "layers": {"n_layers": 2},
    "no own term": {"own": "none"},
    "outcomes": {"values": "outcomes"},
    "prior": {"n_priors": 1},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_searched(name, quick):
    panel = simulate_panel(30, 20, 3, signal_share=0.9, n_industries=3, missing_share=0.1, random_state=2)
    options = OPTIONS[name]
    sections = sections_of(panel, known=0.9, outcomes=options.get("values") == "outcomes", codes=True)
    terms = PairTerms((Prior("industry"),), {"industry": 0}) if "n_priors" in options else SETTINGS.terms
    settings = replace(SETTINGS, terms=terms)
    spec = spec_of(sections, n_heads=1, **options)
    found = searched(spec, sections, settings, seed=0)[TOGETHER][0]
    alone = PeerModule(replace(spec, n_heads=0))
    left = []
    for module in (found, alone):  # what the search lowers: of characteristics, the error within periods
        sample = Sample(sections, settings)
        left.append((errors(module, None, sample) / penalty(module, sample).sum().exp()).item())
    assert left[0] < 0.97 * left[1]


def test_several_targets_share_the_weights(panel, quick):
    sections = [
        replace(s, focal=replace(s.focal, y=np.c_[s.focal.y, -2 * s.focal.y])) for s in sections_of(panel)
    ]
    module = searched(spec_of(sections, n_outputs=2, n_heads=1), sections[:30], SETTINGS, seed=0)[TOGETHER][0]
    np.testing.assert_allclose(module.value[..., 1].detach(), -2 * module.value[..., 0].detach(), rtol=1e-8)


def test_one_slope_on_outcomes_serves_all_classes(panel, quick):
    """Targets are working residuals of two classes; peers carry classes."""
    sections = []
    for s in sections_of(panel, outcomes=True)[:30]:
        label = (s.peers.y > 0).astype(float)
        target = np.c_[0.5 - label, label - 0.5]
        sections.append(
            replace(s, focal=replace(s.focal, y=target), peers=replace(s.peers, y=np.c_[1 - label, label]))
        )
    spec = spec_of(sections, n_outputs=2, n_heads=1, values="outcomes")
    module = searched(spec, sections, SETTINGS, seed=0)[TOGETHER][0]
    assert module.value.shape == (1, 1) and module.own_slope.shape == (4, 2)
    both = module.own_slope.detach()
    assert both.abs().max() > 0.02
    np.testing.assert_allclose(both[:, 0], -both[:, 1], atol=0.002)  # but for the ridge on the constant


def test_same_seed_same_heads(panel, quick):
    sections = sections_of(panel)[:15]
    one, two = (searched(spec_of(sections), sections, SETTINGS, seed=4) for _ in range(2))
    for a, b in zip(
        *([p for of in each.values() for m in of for p in m.parameters()] for each in (one, two)), strict=True
    ):
        assert torch.equal(a, b)


def test_one_cross_section_without_labels_is_searched(panel, quick):
    (section,) = sections_of(panel)[:1]
    anonymous = replace(section, focal=replace(section.focal, identity=np.full(20, NOBODY)))
    found = searched(spec_of([section]), [anonymous], SETTINGS, seed=0)
    assert all(torch.isfinite(p).all() for of in found.values() for m in of for p in m.parameters())


def test_large_samples_are_thinned_to_rank_starts(panel, monkeypatch):
    sections = sections_of(panel)
    sample = Sample(sections, SETTINGS)
    monkeypatch.setattr(samples, "PAIRS", 4000)
    rows = [sum(int((b.weight > 0).sum()) for b in sample.whole(most)) for most in (np.inf, 6000)]
    assert rows == [1200, 300]  # 24,000 pairs: every fourth focal row


def test_a_first_rung_reads_twice_as_many_rows(panel, monkeypatch):
    """24 heads at first, a quarter of them in the second rung; 10 of 20 firms of a period are drawn."""
    sample = Sample(sections_of(panel), SETTINGS)
    monkeypatch.setattr(samples, "QUERIES", 10)
    monkeypatch.setattr(samples, "PAIRS", 6 * 20 * 120)
    first = next(sample.drawn(torch.Generator().manual_seed(0), 24, first=True))
    second = next(sample.drawn(torch.Generator().manual_seed(0), 6, 2))
    assert [int((batch.weight > 0).sum()) for batch in (first, second)] == [240, 120]


def test_after_a_first_rung_all_rows_are_read_where_they_can_be(panel, monkeypatch):
    """24,000 pairs of 1,200 rows; where these are too many, and in a first rung, rows are drawn for Adam."""
    sample, seen = Sample(sections_of(panel), SETTINGS), list[str]()
    monkeypatch.setattr(descent, "minimise", lambda *_: seen.append("Adam"))
    monkeypatch.setattr(descent, "minimise_by_lbfgs", lambda *_: seen.append("L-BFGS"))
    generator = torch.Generator().manual_seed(0)
    module = PeerModule(spec_of(sample.sections, n_heads=6), generator, SETTINGS.dtype)
    for pairs, rows in ((36_000, 2048), (35_999, 2048), (36_000, 149)):
        monkeypatch.setattr(samples, "PAIRS", pairs)
        monkeypatch.setattr(samples, "ROWS", rows)
        descent.descend(module, None, sample, generator)
    descent.explore(module, None, sample, generator)
    assert seen == ["L-BFGS", "Adam", "Adam", "Adam"]


def test_a_first_rung_draws_peers_of_large_pools_with_their_pair_terms(monkeypatch):
    """12 of 20 peers, other ones in every step; a drawn pool is the pool of these firms alone."""
    sections = sections_of(simulate_panel(20, 6, 4, n_industries=5, random_state=5), codes=True)
    settings = replace(SETTINGS, terms=PairTerms((Prior("industry"),), {"industry": 0}))
    sample = Sample(sections, settings)
    monkeypatch.setattr(samples, "QUERIES", 3)
    monkeypatch.setattr(samples, "PAIRS", 1)
    first, again = itertools.islice(sample.drawn(torch.Generator().manual_seed(0), 24, first=True), 2)
    second = next(sample.drawn(torch.Generator().manual_seed(0), 6, 2))
    assert [batch.peers.x.shape[1] for batch in (first, again, second)] == [12, 12, 20]
    assert first.peers.identity.tolist() != again.peers.identity.tolist()
    chosen = np.arange(1, 20, 2)
    module = PeerModule(spec_of(sections, n_priors=1), torch.Generator().manual_seed(0), settings.dtype)
    alone = Sample([section.take(slice(None), chosen) for section in sections], settings)
    few = sample.batch(range(6), None, [chosen] * 6)
    torch.testing.assert_close(module.columns(few), module.columns(alone.batch(range(6))))


@pytest.mark.parametrize("tau", [0.0, 0.5, 4.0])
def test_the_share_of_common_shocks_is_estimated(tau):
    rng = np.random.default_rng(0)
    (section, *_) = sections_of(simulate_panel(12, 6, 2, random_state=0))
    targets = tau**0.5 * rng.normal(size=(4000, 1)) + rng.normal(size=(4000, len(section.focal)))
    drawn = [replace(section, focal=replace(section.focal, y=y)) for y in targets]
    assert common_variance(drawn) == pytest.approx(tau, abs=0.1 * max(tau, 0.1))


def test_rows_are_whitened_by_the_inverse_covariance_of_a_period():
    """``z'(I + τ11')⁻¹z`` of every period, by the plain inverse."""
    sections = sections_of(simulate_panel(12, 6, 2, random_state=0))
    sample, tau = Sample(sections, SETTINGS), 2.5
    module = PeerModule(spec_of(sections, n_heads=1), torch.Generator().manual_seed(0), SETTINGS.dtype)
    (batch,) = sample.whole()
    n = len(sections[0].focal)
    raw, whitened = (of_batch(module, None, batch, 1, each) for each in (0.0, tau))
    for before, after in zip(raw, whitened, strict=True):
        before, after = (z.unflatten(-2, (len(sections), n)) for z in (before, after))
        inverse = torch.linalg.inv(torch.eye(n) + tau * torch.ones(n, n)).to(before.dtype)
        expected = before.mT @ inverse @ before
        assert torch.allclose(after.mT @ after, expected, rtol=1e-4, atol=1e-5)
