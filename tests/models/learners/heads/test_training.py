"""Training finds a known network, its loss is generalised least squares, and every option of a module is trained."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows
from peerattn.models.learners.batches import Sample
from peerattn.models.learners.heads import sampling, training
from peerattn.models.learners.heads.learner import HeadsLearner
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec
from peerattn.models.learners.heads.training import (
    Objective,
    TrainingOptions,
    combine_heads,
    equal_weights,
    explained_squares,
    head_products,
    in_window,
    loss_reductions,
    make_objective,
    train_seeds,
)
from peerattn.models.learners.losses import Pinball, cross_entropy, huber, loss_of, squared_error
from peerattn.models.learners.priors import NO_TERMS, PairTerms, Prior
from peerattn.network import PeerNetwork

TERMS = PairTerms((), {"industry": 0})
QUICK = TrainingOptions(n_seeds=4, max_steps=40, max_draws=2)
INDUSTRIES = simulate_panel(20, 40, 4, signal_share=0.9, n_industries=3, random_state=0)


def sections_of(panel, *, known=1.0, outcomes=False, codes=False, seed=0):
    """Return one cross-section a period, with least squares for the own part; some outcomes are unknown."""
    generator = np.random.default_rng(seed)
    X = panel.X.select_dtypes("number")
    design = np.c_[np.ones(len(X)), X]
    y = panel.y.to_numpy()
    own = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    firms = X.index.get_level_values("firm")
    number = pd.factorize(firms, sort=True)[0]
    level = pd.factorize(panel.X["industry"])[0][:, None] + 1 if codes else np.zeros((len(X), 0), dtype=int)
    sections = []
    for period, at in X.groupby(level="period").indices.items():
        rows = Rows(X.to_numpy()[at], level[at], y[at], None, number[at], firms[at], firms[at])
        has_outcome = generator.uniform(size=len(at)) < known
        peers = replace(rows, y=np.where(has_outcome, (y - own)[at], np.nan)) if outcomes else rows
        mine = np.flatnonzero(has_outcome)
        part = (own[at][mine, None], own[at][:, None])
        attendable = has_outcome if outcomes else None
        sections.append(CrossSection(period, at, rows.take(mine), peers, True, attendable=attendable, own=part))
    return sections


def spec_of(sections, **options):
    n_codes = sections[0].focal.codes.shape[1]
    levels = tuple(int(max(s.peers.codes[:, c].max() for s in sections)) for c in range(n_codes))
    return PeerSpec(sections[0].focal.x.shape[1], levels, **{"n_heads": 2, "d_head": 4, **options})


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(20, 40, 4, signal_share=0.9, d_head=2, random_state=5)


def test_a_strong_network_on_a_small_panel_is_found(panel):
    sections = sections_of(panel)
    learner = HeadsLearner(spec_of(sections), options=TrainingOptions(max_steps=120)).fit(sections[:32])
    assert len(learner.heads_.members) < 12  # seeds that are stuck are left out
    off = ~np.eye(20, dtype=bool)
    for section in sections[32:]:
        firms = section.focal.label
        truth = panel.network.matrix(section.period).loc[firms, firms].to_numpy()
        found = learner.weights(section, slice(0, 20))
        np.testing.assert_allclose(found.sum(1), 1.0)
        assert np.corrcoef(found[off], truth[off])[0, 1] > 0.9
    predicted = np.concatenate(learner.predict([s.unknown() for s in sections[32:]]))[:, 0]
    y = np.concatenate([s.focal.y for s in sections[32:]])
    own = np.concatenate([s.own[0][:, 0] for s in sections[32:]])
    assert ((y - predicted) ** 2).mean() < 0.5 * ((y - own) ** 2).mean()


@pytest.mark.parametrize("what", ["noise", "noise that firms keep", "noise of a period"])
def test_heads_that_data_do_not_support_add_nearly_nothing(what):
    panel = simulate_panel(25, 12, 3, random_state=1)
    sections, rng = sections_of(panel), np.random.default_rng(0)
    effect = rng.normal(size=25)
    for k, section in enumerate(sections):
        noise = rng.normal(size=25)
        if what == "noise that firms keep":
            noise = noise + effect
        if what == "noise of a period":
            noise = noise + rng.normal()
        rows = replace(section.focal, y=noise)
        sections[k] = replace(section, focal=rows, peers=rows, own=(np.zeros((25, 1)), np.zeros((25, 1))))
    learner = HeadsLearner(spec_of(sections), options=QUICK).fit(sections[:9])
    added = learner.heads_.size * np.concatenate(learner.predict(sections[9:]))[:, 0]
    y = np.concatenate([s.focal.y for s in sections[9:]])
    assert ((y - added) ** 2).mean() < 1.05 * (y**2).mean()


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
def test_every_option_is_trained(name):
    panel = simulate_panel(20, 12, 3, signal_share=0.9, n_industries=3, missing_share=0.1, random_state=2)
    options = OPTIONS[name]
    sections = sections_of(panel, known=0.9, outcomes=options.get("values") == "outcomes", codes=True)
    terms = PairTerms((Prior("industry"),), {"industry": 0}) if "n_priors" in options else TERMS
    learner = HeadsLearner(spec_of(sections, **options), terms, options=QUICK, shrinks=False).fit(sections)
    predicted = np.concatenate(learner.predict(sections))[:, 0]
    y = np.concatenate([s.focal.y for s in sections])
    own = np.concatenate([s.own[0][:, 0] for s in sections])
    assert ((y - predicted) ** 2).mean() < 0.98 * ((y - own) ** 2).mean()


@pytest.mark.parametrize("loss", [huber, Pinball(0.2), cross_entropy], ids=["huber", "pinball", "classes"])
def test_any_loss_is_minimised_directly(panel, loss):
    sections = sections_of(panel)[:20]
    if loss is cross_entropy:
        sections = [replace(s, focal=replace(s.focal, y=(s.focal.y > 0).astype(float))) for s in sections]
    learner = HeadsLearner(spec_of(sections), loss=loss, options=QUICK, shrinks=False).fit(sections)
    y = np.concatenate([s.focal.y for s in sections])
    own = np.concatenate([s.own[0] for s in sections])
    before, after = (loss_of(loss, p, y).mean() for p in (own, np.concatenate(learner.predict(sections))))
    assert after < 0.95 * before


def test_several_classes_have_an_output_each(panel):
    sections = []
    for s in sections_of(panel)[:12]:
        y = np.digitize(s.focal.y, [-0.5, 0.5]).astype(float)
        own = np.zeros((len(y), 3))
        sections.append(replace(s, focal=replace(s.focal, y=y), own=(own, own)))
    spec = spec_of(sections, n_outputs=3)
    learner = HeadsLearner(spec, loss=cross_entropy, options=QUICK).fit(sections)
    assert learner.predict(sections)[0].shape == (20, 3)


def test_same_seed_same_heads_and_another_seed_others(panel):
    sections = sections_of(panel)[:10]
    state = torch.get_rng_state()
    made = [HeadsLearner(spec_of(sections), seed=s, options=QUICK, shrinks=False).fit(sections) for s in (4, 4, 50)]
    assert torch.equal(torch.get_rng_state(), state)
    one, two, other = (np.concatenate(each.predict(sections)) for each in made)
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - other).max() > 0


@pytest.mark.parametrize("options", [{}, {"n_layers": 2}, {"values": "outcomes"}, {"n_priors": 1}])
def test_every_tensor_is_made_on_the_device_that_is_named(panel, options):
    """Whatever is made on the default device instead cannot meet the others."""
    sections = sections_of(simulate_panel(12, 6, 2, n_industries=2, random_state=0), outcomes="values" in options, codes=True)
    terms = PairTerms((Prior("industry"),), {"industry": 0}, "n_layers" in options) if options else TERMS
    learner = HeadsLearner(spec_of(sections, **options), terms, options=replace(QUICK, max_steps=4), device="cpu")
    with torch.device("meta"):
        learner.fit(sections)
    assert np.isfinite(np.concatenate(learner.predict(sections))).all()


def test_cross_sections_without_outcomes_or_own_part_raise(panel):
    (section, *_) = sections_of(panel)
    for bad in (replace(section, own=None), section.unknown()):
        with pytest.raises(InputError, match="expected outcomes and an own part"):
            HeadsLearner(spec_of([section]), options=QUICK).fit([bad])


def test_one_cross_section_without_labels_is_trained(panel):
    (section,) = sections_of(panel)[:1]
    anonymous = replace(section, focal=replace(section.focal, identity=np.full(20, NO_IDENTITY)))
    learner = HeadsLearner(spec_of([section]), options=QUICK).fit([anonymous])
    assert np.isfinite(learner.predict([anonymous])[0]).all()


@pytest.mark.parametrize("limit", [40, 10_000])
def test_focal_rows_are_drawn_and_pools_are_whole(panel, monkeypatch, limit):
    """Of large samples a step has some rows, of four periods at least; every pool is complete."""
    monkeypatch.setattr(sampling, "ROWS", limit)
    monkeypatch.setattr(sampling, "FEWEST", 10)
    sample = Sample(sections_of(panel), NO_TERMS, torch.float64, "cpu")
    batches = list(itertools.islice(sampling.random_batches(sample, torch.Generator().manual_seed(0), 1), 3))
    assert all(batch.peers.may_be_attended.sum(1).eq(20).all() for batch in batches)
    rows = {tuple((batch.weight > 0).sum(1).tolist()) for batch in batches}
    assert rows == {40: {(10,) * 4}, 10_000: {(20,) * 4}}[limit]


def test_of_one_cross_section_a_step_has_all_its_rows(panel, monkeypatch):
    monkeypatch.setattr(sampling, "FEWEST", 12)
    monkeypatch.setattr(sampling, "ROWS", 12)
    sample = Sample(sections_of(panel)[:1], NO_TERMS, torch.float64, "cpu")
    batch = next(sampling.random_batches(sample, torch.Generator().manual_seed(0), 1))
    assert (batch.weight > 0).sum() == 12 and batch.peers.may_be_attended.sum() == 20


def test_rows_are_whitened_by_the_inverse_covariance_of_a_period(panel):
    """``e'(I + τ11')⁻¹e`` of every period, by the plain inverse."""
    sections, tau = sections_of(panel)[:6], 2.5
    sample = Sample(sections, NO_TERMS, torch.float64, "cpu")
    batch, n = sample.batch(range(6)), 20
    inverse = np.linalg.inv(np.eye(n) + tau * np.ones((n, n)))
    expected = sum((s.focal.y - s.own[0][:, 0]) @ inverse @ (s.focal.y - s.own[0][:, 0]) for s in sections)
    added = torch.zeros(6, 3, n, 1, dtype=torch.float64)
    found = Objective(squared_error, tau, 1.0)(added, batch)
    np.testing.assert_allclose(found, np.full(3, expected), rtol=1e-6)


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("codes", [False, True])
def test_seeds_are_modules_by_themselves(codes, n_layers):
    sections = sections_of(INDUSTRIES, codes=codes)[:4]
    sample = Sample(sections, PairTerms((), {}, n_layers > 1), torch.float64, "cpu")
    spec = spec_of(sections, n_layers=n_layers)
    seeds = PeerModule(replace(spec, n_seeds=3), torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in seeds.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    unit = make_objective(sample, squared_error, spec).unit
    batch = sample.batch(range(4))
    together, _ = seeds(batch)
    modules = [seeds.seed(number).rescale(unit) for number in range(3)]
    for number, module in enumerate(modules):
        torch.testing.assert_close(module(batch)[0][:, 0], together[:, number] * unit)
    torch.testing.assert_close(PeerModule.together(modules).rescale(1 / unit)(batch)[0], together)


@pytest.mark.parametrize(
    "fall, kept",
    [
        ([0.4, 1.0, 0.9, 0.3], [1, 2]),  # two are stuck
        ([0.85, 1.0, 0.9, 0.95], [1, 3, 2, 0]),
        ([-0.2, -0.1], [1]),  # nothing is found
        ([0.0, 0.0], [0, 1]),
    ],
)
def test_seeds_in_the_window_of_the_best_are_averaged(fall, kept):
    found = in_window(torch.tensor(fall, dtype=torch.float64), 0.85)
    assert found[0] == kept[0] and sorted(found) == sorted(kept)


def test_the_fall_of_a_seed_is_that_of_the_log_loss(panel):
    """By hand: squared errors of the own part, and of what a seed predicts."""
    sections = sections_of(panel)[:6]
    spec = spec_of(sections, values="outcomes")
    sample = Sample(sections, NO_TERMS, torch.float64, "cpu")
    objective = make_objective(sample, squared_error, spec)
    seeds = PeerModule(replace(spec, n_seeds=2), torch.Generator().manual_seed(0))
    left = np.concatenate([s.focal.y - s.own[0][:, 0] for s in sections])
    for seed, fall in enumerate(loss_reductions(seeds, sample, objective).tolist()):
        module = seeds.seed(seed).rescale(objective.unit)
        added = np.concatenate([module(sample.batch([k]))[0][0, 0, :, 0].detach() for k in range(6)])
        assert fall == pytest.approx(np.log((left**2).sum() / ((left - added) ** 2).sum()))


@pytest.mark.parametrize("own", ["linear", "none"])
@pytest.mark.parametrize("loss", [squared_error, huber], ids=["squares", "huber"])
def test_what_heads_explain_is_that_of_regressions(panel, loss, own):
    """Squares explained beyond chosen heads: sums of squared errors of least squares on these, own slopes and one head more."""
    sections = [replace(s, focal=replace(s.focal, weight=np.linspace(0.5, 2, 20))) for s in sections_of(panel)[:8]]
    sample = Sample(sections, NO_TERMS, torch.float64, "cpu")
    spec = spec_of(sections, own=own)
    objective = make_objective(sample, loss, spec)
    seeds = PeerModule(replace(spec, n_seeds=2), torch.Generator().manual_seed(0))
    products = head_products(seeds, sample, objective)

    root = np.sqrt(np.concatenate([s.focal.loss_weights for s in sections]))[:, None]
    columns = [seeds(sample.batch([k]))[1][0, :, :, 0].detach().numpy().T for k in range(8)]
    left = np.concatenate([s.focal.y - s.own[0][:, 0] for s in sections])[:, None]
    if loss is huber:
        left = 2 * np.clip(left, -1.35, 1.35)
    rows = np.column_stack([np.concatenate(columns), left, np.concatenate([s.focal.x for s in sections]), np.ones(160)])
    blocks = np.split(rows, 8)
    weights = np.split(root**2, 8)
    theta = [1 - 1 / np.sqrt(1 + objective.common * w.sum()) for w in weights]
    means = [(b * w).sum(0) / w.sum() for b, w in zip(blocks, weights, strict=True)]
    net = root * np.concatenate([b - t * m for b, t, m in zip(blocks, theta, means, strict=True)])
    fixed = net[:, 5:] if own == "linear" else np.zeros((160, 0))

    def squares(heads):
        design = np.column_stack([fixed, net[:, heads]])
        fitted = design @ np.linalg.lstsq(design, net[:, 4], rcond=None)[0] if design.size else 0
        return ((net[:, 4] - fitted) ** 2).sum()

    for chosen in ([], [2], [3, 0]):
        found = explained_squares(products, chosen)
        for head in range(4):
            expected = -1.0 if head in chosen else squares(chosen) - squares([*chosen, head])
            assert float(found[head]) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_start_is_combined_of_the_heads_that_explain_most_whichever_seeds_found_them(panel):
    sections = sections_of(panel)[:8]
    sample = Sample(sections, NO_TERMS, torch.float64, "cpu")
    seeds = PeerModule(replace(spec_of(sections), n_seeds=4), torch.Generator().manual_seed(0))
    truth = [seeds(sample.batch([k]))[1][0, [1, 6], :, 0].sum(0).detach().numpy() for k in range(8)]
    sections = [replace(s, focal=replace(s.focal, y=s.own[0][:, 0] + added)) for s, added in zip(sections, truth, strict=True)]
    sample = Sample(sections, NO_TERMS, torch.float64, "cpu")
    objective = make_objective(sample, squared_error, seeds.spec)
    starts = combine_heads(seeds, head_products(seeds, sample, objective), 3)
    assert starts.spec.n_seeds == 3
    batch = sample.batch(range(8))
    expected = seeds(batch)[1][:, [1, 6]]
    matches = [torch.allclose(starts(batch)[1][:, [k, k + 1]], expected) for k in (0, 2, 4)]
    assert any(matches) and not all(matches), "starts differ"


@pytest.mark.parametrize("n_within", [1, 2, 3, 12])
def test_a_second_cycle_starts_where_nearly_all_seeds_are_stuck_and_the_last_has_no_decay(panel, monkeypatch, n_within):
    sections = sections_of(panel)[:8]
    sample = Sample(sections, NO_TERMS, torch.float32, "cpu")
    spec = spec_of(sections)
    cycles = []
    once = training._cycle

    def counted(seeds, sample, objective, options, generator):
        cycles.append((seeds.spec.n_seeds, options.max_steps, options.weight_decays))
        once(seeds, sample, objective, options, generator)

    monkeypatch.setattr(training, "in_window", lambda fall, window: list(range(min(n_within, len(fall)))))
    monkeypatch.setattr(training, "_cycle", counted)
    options = TrainingOptions(max_steps=6, weight_decays=(0.3,))
    generator = torch.Generator().manual_seed(0)
    seeds = train_seeds(spec, sample, make_objective(sample, squared_error, spec), options, generator).seeds
    second = [(4, 6, (0.3,))] if n_within < 3 else []
    assert cycles == [(12, 6, (0.3,)), *second, (n_within, 2, (0.0,))]
    assert seeds.spec.n_seeds == n_within


@pytest.mark.parametrize("outcomes", [False, True])
def test_heads_of_equal_weights_are_least_squares_on_the_industry_mean(outcomes):
    """Every column written out: means of the others of the industry, own characteristics, a constant, net of θ of the period."""
    sections = sections_of(INDUSTRIES, outcomes=outcomes, codes=True)
    values = "outcomes" if outcomes else "characteristics"
    terms = PairTerms((Prior("industry", only=True),), {"industry": 0})
    spec = PeerSpec(4, (), n_heads=1, values=values, null_peer=False)
    sample = Sample(sections, terms, torch.float64, "cpu")
    objective = make_objective(sample, squared_error, spec)
    module = equal_weights(spec, sample, objective)
    rows, targets = [], []
    for section in sections:
        code = section.peers.codes[:, 0]
        same = (section.focal.codes[:, :1] == code) & (section.focal.identity[:, None] != section.peers.identity)
        of_peers = np.nan_to_num(section.peers.y)[:, None] if outcomes else section.peers.x
        mean = same @ of_peers / np.maximum(same.sum(1, keepdims=True), 1)
        block = np.column_stack([mean, section.focal.x, np.ones(len(mean)), section.focal.y - section.own[0][:, 0]])
        theta = 1 - 1 / np.sqrt(1 + objective.common * len(block))
        net = block - theta * block.mean(0)
        rows.append(net[:, :-1])
        targets.append(net[:, -1])
    expected = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets), rcond=None)[0]
    found = [module.value.flatten(), module.own_slope.flatten(), module.intercept.flatten()]
    np.testing.assert_allclose(torch.cat(found).detach().numpy(), expected, atol=1e-8)


def test_where_scores_predict_nothing_heads_in_full_are_industry_peers():
    """Noise: weights are equal within the industry. A network: they are learned."""
    noisy = sections_of(INDUSTRIES, codes=True)[:20]
    spec = spec_of(noisy)
    code = noisy[0].focal.codes[:, 0]
    same = (code[:, None] == code) & ~np.eye(len(code), dtype=bool)
    of_industry = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        noise = [replace(s, focal=replace(s.focal, y=s.own[0][:, 0] + rng.normal(size=len(s.focal)))) for s in noisy]
        W = HeadsLearner(spec, TERMS, options=QUICK).fit(noise).weights(noise[0], slice(None))
        of_industry += np.allclose(W, same / np.maximum(same.sum(1, keepdims=True), 1))
    assert of_industry >= 2  # by chance heads seem to predict in one draw of six
    options = TrainingOptions(n_seeds=4, max_steps=200, max_draws=1)
    learned = HeadsLearner(spec, TERMS, options=options).fit(noisy).weights(noisy[0], slice(None))
    assert (learned[~same] > 0).any()
    assert not HeadsLearner(spec, TERMS, options=QUICK, loss=huber)._fallbacks(noisy), "of the squared error only"


@pytest.mark.parametrize("only", [True, False])
def test_where_scores_predict_nothing_peers_are_those_of_the_prior(only):
    """A given network, and a code that is imposed: equal weights on related firms, in full."""
    noisy = sections_of(INDUSTRIES, codes=True)
    few = TrainingOptions(n_seeds=2, max_steps=10, max_draws=1)
    rng = np.random.default_rng(1)
    noise = [replace(s, focal=replace(s.focal, y=s.own[0][:, 0] + rng.normal(size=len(s.focal)))) for s in noisy]
    firms = noisy[0].focal.label
    related = np.roll(np.eye(len(firms)), 1, axis=1) + np.roll(np.eye(len(firms)), 2, axis=1)
    given = PeerNetwork.from_matrices({None: pd.DataFrame(related / 2, firms, firms)})
    terms = PairTerms((Prior(given, only=only),), {})
    learner = HeadsLearner(spec_of(noisy, n_priors=0 if only else 1), terms, options=few).fit(noise)
    np.testing.assert_allclose(learner.weights(noise[0], slice(None)), related / 2)
    # with a code, too, peers are related by both where the prior is imposed
    with_code = HeadsLearner(spec_of(noisy), replace(terms, columns={"industry": 0}), options=few)._fallbacks(noisy)
    relations = [[prior.source for prior in fallback.terms.priors] for fallback in with_code]
    assert relations == ([[given, "industry"], [given]] if only else [["industry"], [given]])


def test_outliers_count_in_the_mean_of_an_industry_as_far_as_in_training_and_at_most_four_in_learned_heads():
    sections = sections_of(INDUSTRIES, codes=True)
    sections[1].peers.x[0, 0] = 7.0  # the largest value of training
    learner = HeadsLearner(spec_of(sections), TERMS, options=QUICK, shrinks=False, averages=False)
    (industry,) = (each.fit(sections) for each in learner._fallbacks(sections))
    code = sections[0].peers.codes[:, 0]
    same = (code == code[0]) & (np.arange(len(code)) > 0)
    value = industry.heads_.members[0].state["value"][0, :, 0]
    for model, limit in ((learner.fit(sections), 4.0), (industry, 7.0)):
        found = []
        for size in (9.0, limit, 4.0):
            x = sections[0].peers.x.copy()
            x[0] = size
            moved = replace(sections[0], peers=replace(sections[0].peers, x=x))
            found.append(model.predict([moved])[0][:, 0])
        np.testing.assert_allclose(found[0], found[1])
    np.testing.assert_allclose((found[1] - found[2])[1:], np.where(same, 3 * value.sum() / same.sum(), 0)[1:], atol=1e-12)


@pytest.mark.parametrize("unit", [1e-4, 1e-2])
def test_heads_of_equal_weights_do_not_depend_on_the_units_of_characteristics(unit):
    sections = sections_of(INDUSTRIES, codes=True)
    units = np.array([unit, 1.0, 1.0, 1.0])
    scaled = []
    for section in sections:
        focal, peers = (replace(rows, x=np.c_[rows.x * units, np.zeros(len(rows))]) for rows in (section.focal, section.peers))
        scaled.append(replace(section, focal=focal, peers=peers))
    found = []
    for each in (sections, scaled):
        spec = PeerSpec(each[0].peers.x.shape[1], (), n_heads=1, null_peer=False, clip=np.inf)
        terms = PairTerms((Prior("industry", only=True),), {"industry": 0})
        sample = Sample(each, terms, torch.float64, "cpu")
        module = equal_weights(spec, sample, make_objective(sample, squared_error, spec))
        found.append(module.value[0, :4, 0].detach().numpy())
        assert all(parameter.isfinite().all() for parameter in module.parameters()), "a column of zeros has a slope of zero"
    np.testing.assert_allclose(found[1] * units, found[0], rtol=1e-6)
