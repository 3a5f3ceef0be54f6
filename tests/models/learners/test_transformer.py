"""The transformer learner: leaks at every depth, pools, hidden folds, the ensemble, blocks of queries."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows
from peerattn.models.learners import firm_transformer
from peerattn.models.learners.firm_transformer import FirmTransformer, TransformerSpec, hidden_folds
from peerattn.models.learners.transformer import (
    TransformerLearner,
    TransformerTraining,
    ensemble_outputs,
    outputs_of,
)
from peerattn.nn import heads_by_layer, keep_heads

P = 3


def rows(seed, n, outcomes=1, weight=None, first=0):
    g = np.random.default_rng(seed)
    y = g.normal(size=n) if outcomes == 1 else g.normal(size=(n, outcomes))
    label = pd.RangeIndex(first, first + n)
    codes = g.integers(0, 3, size=(n, 1))
    return Rows(g.normal(size=(n, P)), codes, y, weight, np.arange(first, first + n), label, label)


def section(seed, n=9, outcomes=1, **options):
    firms = rows(seed, n, outcomes, options.pop("weight", None))
    own = np.zeros((n, outcomes))
    return CrossSection(seed, slice(0, n), firms, firms, True, own=(own, own), **options)


def learner(n_layers=1, n_heads=2, outcomes=True, seed=0, size=3.0, n_outputs=1, **options):
    """A learner with large random parameters: nothing that leaks is small."""
    spec = TransformerSpec(
        P,
        (3,),
        n_outputs,
        outcomes,
        d_model=8,
        n_heads=n_heads,
        n_layers=n_layers,
        d_feedforward=8,
        **options,
    )
    generator = torch.Generator().manual_seed(seed)
    seeds = torch.nn.ModuleList(FirmTransformer(spec, generator).double() for _ in range(2))
    return TransformerLearner(spec, state={k: size * v.numpy() for k, v in seeds.state_dict().items()})


def probes(model, one, value=1e6):
    """Change one outcome at a time; return the change of the own prediction, and the largest of another's.

    All changes are made at once, as copies of the cross-section: predictions are compared bit by bit.
    """
    modules = model.modules()
    place = {firm: k for k, firm in enumerate(one.peers.identity)}
    for at, batch in model._passes(one, slice(None), torch.float64):
        n = len(at)
        focal, peers = (rows._each(lambda v, n=n: v.repeat(n, *[1] * (v.dim() - 1))) for rows in (batch.focal, batch.peers))
        copies = replace(batch, focal=focal, peers=peers, weight=batch.weight.repeat(n, 1))
        y = peers.y.clone()
        for k, i in enumerate(at):
            y[k, place.get(one.focal.identity[i], i)] = value
        changed = replace(copies, peers=replace(copies.peers, y=y))
        for module in modules:
            moved = (module(changed) - module(copies)).abs().amax(-1)  # (copies, focal rows of this fold)
            yield from zip(moved.diagonal().tolist(), moved.amax(1).tolist(), strict=True)


def read_peers(model, one):
    """Whether a change of another firm's outcome changes a prediction: the probe could fail."""
    y = one.peers.y.copy()
    y[0] = 9.0
    changed = replace(one, peers=replace(one.peers, y=y))
    return bool((model.predict([changed])[0] != model.predict([one])[0]).any())


@pytest.mark.parametrize("n_heads, n_outputs", [(1, 3), (4, 1)])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_the_own_outcome_never_enters_at_any_depth(n_layers, n_heads, n_outputs):
    """6 x 168 = 1,008 probes: layers, heads, folds, codes, seeds, one number or several classes."""
    sections = [section(k, n, n_outputs) for k, n in enumerate((31, 2, 51))]
    model = learner(n_layers, n_heads, seed=n_layers, n_outputs=n_outputs)
    moved = [probe[0] for one in sections for probe in probes(model, one)]
    assert len(moved) == 168 and set(moved) == {0.0}
    assert all(read_peers(model, one) for one in sections[:2])


def test_several_periods_in_a_call_are_each_period():
    sections, model = [section(k, n) for k, n in enumerate((11, 8))], learner(2)
    for one, found in zip(sections, model.predict(sections), strict=True):
        assert (model.predict([one])[0] == found).all()


def test_the_probe_finds_a_leak_without_folds(monkeypatch):
    monkeypatch.setattr(TransformerLearner, "hides", False)
    assert max(probe[0] for probe in probes(learner(2), section(0))) > 0
    assert max(probe[0] for probe in probes(learner(1), section(0))) == 0


def test_rows_of_one_identity_share_a_fold_and_never_read_each_other():
    one = section(0, 10)
    twins = replace(one.peers, identity=one.peers.identity // 2)
    one = replace(one, focal=twins, peers=twins)
    of_focal, of_peers = hidden_folds(one, 5)
    assert (of_focal == of_peers).all() and (of_peers[::2] == of_peers[1::2]).all()
    y = one.peers.y.copy()
    y[1] = 1e6
    for n_layers in (1, 2):
        model = learner(n_layers)
        (before,) = model.predict([one])
        (after,) = model.predict([replace(one, peers=replace(one.peers, y=y))])
        assert (before[:2] == after[:2]).all() and (before[2:] != after[2:]).any()


def test_folds_depend_neither_on_outcomes_nor_on_the_order_of_rows():
    one, order = section(0, 12), np.random.default_rng(0).permutation(12)
    assert (hidden_folds(one.take(order, order), 5)[0] == hidden_folds(one, 5)[0][order]).all()
    assert np.bincount(hidden_folds(one, 5)[1]).tolist() == [3, 3, 2, 2, 2]
    (before,), (after,) = (learner(2).predict([s]) for s in (one, one.take(order, order)))
    np.testing.assert_allclose(after, before[order], rtol=1e-9)


def test_a_focal_firm_that_is_no_peer_reads_everyone():
    one = section(0, 8)
    stranger = replace(one, focal=one.focal.anonymous())
    assert (hidden_folds(stranger, 5)[0] == -1).all()
    assert (hidden_folds(replace(stranger, peers=stranger.peers.anonymous()), 5)[0] == -1).all()
    for n_layers in (1, 2):
        assert min(probe[0] for probe in probes(learner(n_layers), stranger)) > 0


@pytest.mark.parametrize("n_layers", [1, 2])
def test_unknown_outcomes_and_firms_without_peers(n_layers):
    one = section(0, 6)
    y = np.where(np.arange(6) < 2, one.peers.y, np.nan)
    some = replace(one, peers=replace(one.peers, y=y), attendable=np.isfinite(y))
    weights = learner(n_layers).weights(some, slice(0, 6))
    assert (weights[:, 2:] == 0).all()
    alone = one.take(slice(0, 1), slice(0, 1))
    (found,) = learner(n_layers).predict([alone])
    assert (found == 0).all() and (learner(n_layers).weights(alone, slice(0, 1)) == 0).all()
    empty = one.take(slice(0, 2), slice(0, 0))
    (found,) = learner(n_layers).predict([empty])
    assert (found == 0).all()


@pytest.mark.parametrize("n_layers", [1, 2])
def test_weights_are_those_of_an_attention_layer(n_layers):
    one = section(0, 9)
    for layer in range(n_layers):
        W = learner(n_layers).weights(one, slice(0, 9), layer)
        np.testing.assert_allclose(W.sum(1), 1)
        assert (np.diag(W) == 0).all()
        part = learner(n_layers).weights(one, slice(2, 4), layer)
        assert part.shape == (2, 9)
        each = [learner(n_layers).weights(one, slice(0, 9), layer, (s, h)) for s in range(2) for h in range(2)]
        np.testing.assert_allclose(np.mean(each, axis=0), W)
        if n_layers == 1:
            np.testing.assert_allclose(part, W[2:4])


def test_a_weight_of_two_is_the_row_twice():
    twice = np.array([0, 0, *range(1, 7)])
    firms = rows(0, 7, weight=np.array([2.0, 1, 1, 1, 1, 1, 1]))
    weighed = replace(section(0, 7), focal=firms.anonymous(), peers=firms, own_copies=True, period=None)
    copies = replace(firms, weight=None).take(twice)
    many = replace(copies, identity=np.arange(8))
    repeated = replace(weighed, focal=many, peers=many, own_copies=False, own=(np.zeros((8, 1)),) * 2)
    model = learner(1, outcomes=False)
    np.testing.assert_allclose(model.predict([weighed])[0][[0, *range(7)]], model.predict([repeated])[0])


def test_without_attention_nothing_of_the_peers_is_read():
    one = section(0, 9)
    model = learner(2, outcomes=False, attends=False)
    other = replace(one, peers=rows(5, 4, first=20))
    assert (model.predict([one])[0] == model.predict([other])[0]).all()
    assert (model.weights(one, slice(0, 9)) == 0).all()
    with_it = FirmTransformer(replace(model.spec, attends=True), torch.Generator())
    without = FirmTransformer(model.spec, torch.Generator())
    assert [p.shape for p in with_it.parameters()] == [p.shape for p in without.parameters()]


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("outcomes", [False, True])
def test_padding_and_blocks_of_queries_change_nothing(n_layers, outcomes, monkeypatch):
    sections = [section(k, n) for k, n in enumerate((5, 9, 7))]
    model = learner(n_layers, outcomes=outcomes)
    module = model.modules()[0]
    alone = [module(model._sample([s], torch.float64).batch([0]))[0] for s in sections]
    batch = model._sample(sections, torch.float64).batch(range(3))
    for cells in (firm_transformer.CELLS, 60):
        monkeypatch.setattr(firm_transformer, "CELLS", cells)
        together = module(batch)
        for each, s, padded in zip(alone, sections, together, strict=True):
            torch.testing.assert_close(padded[: len(s.focal)], each)
        weights = module.weights(batch, 0)
        assert weights.shape == (3, 2, 9, 9)


def test_all_seeds_at_once_are_each_seed():
    model = learner(2)
    batch = model._sample([section(k) for k in range(3)], torch.float64).batch(range(3))
    each = torch.stack([module(batch) for module in model.modules()])
    with pytest.warns(UserWarning, match="performance drop") if not torch.cuda.is_available() else []:
        torch.testing.assert_close(ensemble_outputs(model.modules(), batch), each)


def simulated(T, n, seed=0, noise=0.3, drop=()):
    """The absolute value of the other firms' mean characteristic."""
    found = []
    for t in range(T):
        g = np.random.default_rng([seed, t])
        firms = rows([seed, t], n - (t in drop))
        x = firms.x[:, 0] + g.normal()
        firms = replace(firms, x=np.column_stack([x, firms.x[:, 1:]]))
        mean = (x.sum() - x) / (len(x) - 1)
        firms = replace(firms, y=np.abs(mean) - 0.8 + noise * g.normal(size=len(x)))
        own = np.zeros((len(x), 1))
        found.append(CrossSection(t, slice(0, len(x)), firms, firms, True, own=(own, own)))
    return found


def r2(model, sections):
    y = np.concatenate([s.focal.y for s in sections])
    return 1 - ((y - np.concatenate(model.predict(sections))[:, 0]) ** 2).sum() / ((y - y.mean()) ** 2).sum()


@pytest.mark.parametrize("loss", ["squared_error", "rank", "sharpe"])
def test_a_fit_repeats_itself_and_goes_on_from_where_it_stood(loss):
    sections = simulated(16, 8, drop=(3, 4))
    spec = TransformerSpec(P, (3,), d_model=8, d_feedforward=8)
    fits = [TransformerLearner(spec, TransformerTraining(loss=loss, max_steps=8)).fit(sections) for _ in range(2)]
    first, second = (fit.predict(sections) for fit in fits)
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    later = TransformerLearner(spec, TransformerTraining(loss=loss, max_steps=8)).fit(sections, fits[0])
    assert any((a != b).any() for a, b in zip(later.predict(sections), first, strict=True))


def test_it_finds_what_no_weighted_mean_is():
    sections = simulated(90, 8)
    spec = TransformerSpec(P, (3,))
    found = {}
    for attends in (True, False):
        training = TransformerTraining(n_seeds=1, max_steps=120)
        found[attends] = r2(TransformerLearner(replace(spec, attends=attends), training).fit(sections[:70]), sections[70:])
    assert found[True] > 0.3
    assert found[False] < found[True] - 0.2


def test_training_in_half_precision_has_parameters_in_float32():
    sections = simulated(12, 8)
    training = TransformerTraining(max_steps=5, precision="bfloat16")
    model = TransformerLearner(TransformerSpec(P, (3,), d_model=8, d_feedforward=8), training).fit(sections)
    assert np.isfinite(np.concatenate(model.predict(sections))).all()
    seen = []
    hook = torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: seen.append(getattr(o, "dtype", None)))
    try:
        replace(model).fit(sections)
    finally:
        hook.remove()
    assert torch.bfloat16 in seen


@pytest.mark.parametrize("place", ["cpu", "meta"])
@pytest.mark.parametrize("options", [{}, {"attends": False, "outcomes": False}])
def test_everything_of_a_step_is_on_the_device_that_was_chosen(place, options):
    """The second device that torch has everywhere holds shapes without values: what is made elsewhere does not mix with it."""
    model = replace(learner(2, **options), training=TransformerTraining(device=place))
    (sample,) = model._of_alike_size([section(k) for k in range(3)])
    batch = sample.batch(range(3))
    held = [*vars(batch.focal).values(), *vars(batch.peers).values(), batch.weight]
    assert {part.device.type for part in held if part is not None} == {place}
    modules = model._new(torch.Generator()).to(place)
    outputs = outputs_of(modules, batch)
    assert outputs.shape == (2, 3, 9, 1) and outputs.device.type == place
    losses = model._losses(outputs, batch, model._loss_of([section(0)]))
    assert losses.shape == (2,) and losses.device.type == place


def test_pruned_heads_add_nothing_more():
    model, one = learner(2, outcomes=False), section(0, 9)

    def pruned(keep):
        modules = model.modules()
        keep_heads(modules, keep)
        found = replace(model)
        found.keep(modules)
        return found

    few = pruned({"0.blocks.0.attention": [1], "1.blocks.1.attention": []})
    assert heads_by_layer(few.modules())["0.blocks.0.attention"] == 1
    assert (few.predict([one])[0] != model.predict([one])[0]).any()
    np.testing.assert_allclose(few.weights(one, slice(0, 9)).sum(1), 1)
    whole = pruned({name: [0, 1] for name in heads_by_layer(model.modules())})
    np.testing.assert_allclose(whole.predict([one])[0], model.predict([one])[0])


def test_identities_of_nobody_equal_no_other():
    one = section(0, 5)
    unnamed = replace(one, focal=one.focal.anonymous(), peers=one.peers.anonymous())
    assert (unnamed.focal.identity == NO_IDENTITY).all()
    assert (learner(1, outcomes=False).weights(unnamed, slice(0, 5)) > 0).all()


def test_periods_that_stop_training_come_after_the_outcomes_learned_from():
    sections = [replace(section(k), place=k) for k in range(20)]
    for purge, last in ((0, 16), (2, 14)):
        earlier, later = TransformerLearner(TransformerSpec(P), TransformerTraining(purge=purge))._split(sections)
        assert [each.period for each in (earlier[-1], *later)] == [last, 17, 18, 19]
    # the outcome of one firm is known late, those of a period never
    late = np.zeros(9, dtype=int)
    late[0] = 18
    for k, known_from in ((3, late), (4, np.full(9, 20))):
        rows = replace(sections[k].focal, known_from=known_from)
        sections[k] = replace(sections[k], focal=rows, peers=rows)
    earlier, _ = TransformerLearner(TransformerSpec(P))._split(sections)
    assert [len(each.focal) for each in earlier] == [9, 9, 9, 8] + [9] * 12
    assert TransformerLearner(TransformerSpec(P), TransformerTraining(purge=17))._split(sections)[1] == []
