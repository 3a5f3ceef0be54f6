"""Heads are trained beside a cross-fitted nonlinear function of own characteristics, with a slope of its own in each seed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners import nonlinear
from peerattn.models.learners.batches import Sample
from peerattn.models.learners.heads.learner import HeadsLearner
from peerattn.models.learners.heads.nuisance import fit_nuisance
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec
from peerattn.models.learners.heads.training import Objective, TrainingOptions, loss_reductions
from peerattn.models.learners.linear import stacked_rows
from peerattn.models.learners.losses import squared_error
from peerattn.models.learners.training import Problem, Training

N, T = 20, 12
PROBLEM = Problem(squared_error, 1, (), outcomes=False, dated=True, within=True)


def sections_of(outcome, seed=0, n_periods=T):
    rng = np.random.default_rng(seed)
    firms = pd.RangeIndex(N)
    found = []
    for period in range(n_periods):
        x = rng.normal(size=(N, 2))
        y = outcome(x) + 0.3 * rng.normal(size=N)
        rows = Rows(x, np.zeros((N, 0), int), y, None, np.arange(N), firms, firms)
        found.append(CrossSection(period, slice(0, N), rows, rows, own=(np.zeros((N, 1)), np.zeros((N, 1)))))
    return found


def square(x):
    return x[:, 0] ** 2 - 1


def curves(sections):
    return nonlinear.fit_curves(Training.of(sections, PROBLEM))


@pytest.mark.parametrize("n_periods", [T, 3])
def test_values_do_not_hold_the_own_error(n_periods):
    """Another outcome of one period (of one row, where periods are few) changes no value of it before the factor."""
    sections = sections_of(square, n_periods=n_periods)
    changed = list(sections)
    y = sections[1].focal.outcomes.copy()
    at = slice(None) if n_periods == T else slice(0, 1)
    y[at] += 5
    changed[1] = replace(sections[1], focal=replace(sections[1].focal, y=y))
    values = []
    for each in (sections, changed):
        nuisance = fit_nuisance(curves, each, squared_error, True)
        values.append(nuisance.values.reshape(n_periods, N) / nuisance.function.factor)
    np.testing.assert_allclose(values[0][1][at], values[1][1][at], atol=1e-12)
    assert not np.allclose(values[0][2], values[1][2]), "values of other folds do depend on it"


def test_it_has_no_line():
    sections = sections_of(lambda x: square(x) + 3 * x[:, 1])
    nuisance = fit_nuisance(curves, sections, squared_error, True)
    Z = np.column_stack([np.ones(N * T), stacked_rows(sections).x])
    predicted = np.concatenate(nuisance.function.predict(sections))
    np.testing.assert_allclose(Z.T @ predicted, 0, atol=1e-8)
    truth = square(stacked_rows(sections).x)
    assert np.corrcoef(nuisance.values[:, 0], truth)[0, 1] > 0.85 and 0.5 < nuisance.function.factor <= 1


def test_no_outlier_has_a_value_of_any_size():
    """The curve is constant beyond its last knots, and so is the line that is taken from it beyond four standard deviations."""
    found = fit_nuisance(curves, sections_of(lambda x: square(x) + x[:, 1]), squared_error, within=True)
    section = sections_of(square, 1, 1)[0]
    x = section.focal.x.copy()
    x[0] = 1000.0, -1000.0
    x[1] = 4.0, -4.0
    far, near = found.function.predict([replace(section, focal=replace(section.focal, x=x))])[0][:2, 0]
    assert far == pytest.approx(near)


def test_none_where_there_is_nothing():
    assert fit_nuisance(curves, sections_of(lambda x: x[:, 0]), squared_error, True) is None
    assert fit_nuisance(curves, sections_of(square, n_periods=2), squared_error, True) is None, "fewer rows than a test needs"
    assert fit_nuisance(lambda sections: None, sections_of(square), squared_error, True) is None


def test_the_loss_is_net_of_it():
    sections = sections_of(square)
    values = np.random.default_rng(1).normal(size=(N * T, 1))
    spec = PeerSpec(2, n_heads=1, d_head=2, n_seeds=3, nuisance=True)
    seeds = PeerModule(spec, torch.Generator().manual_seed(0))
    with torch.no_grad():
        seeds.nuisance_slope.copy_(torch.tensor([0.0, 0.5, 1.0]))
    sample = Sample(sections, nuisance=values)
    batch = sample.batch(range(T))
    objective = Objective(squared_error, 0.0, 2.0)
    added = seeds(batch)[0]
    found = objective(added, batch, nuisance=seeds.nuisance(batch))
    y = torch.as_tensor(np.stack([section.focal.outcomes for section in sections]))
    g = torch.as_tensor(values.reshape(T, N))
    expected = [((y - slope * g) / 2 - added[:, k, :, 0]).square().sum() for k, slope in enumerate((0.0, 0.5, 1.0))]
    torch.testing.assert_close(found, torch.stack(expected))
    # what seeds add is compared with the own part beside the whole of it
    fall = loss_reductions(seeds, sample, objective)
    torch.testing.assert_close(fall, ((y - g) / 2).square().sum().log() - torch.stack(expected).log())


def test_slopes_belong_to_seeds_and_keep_their_unit():
    seeds = PeerModule(PeerSpec(2, n_heads=2, n_seeds=3, nuisance=True))
    with torch.no_grad():
        seeds.nuisance_slope.copy_(torch.arange(3.0))
    assert [seeds.seed(k).nuisance_slope.item() for k in range(3)] == [0, 1, 2]
    assert seeds.seed(2).rescale(7.0).nuisance_slope.item() == 2
    assert PeerModule.together([seeds.seed(k) for k in (2, 0)]).nuisance_slope.tolist() == [2, 0]


def test_heads_predict_with_it():
    sections = sections_of(square)
    options = TrainingOptions(n_seeds=2, max_steps=60)
    learner = HeadsLearner(PeerSpec(2, n_heads=1, d_head=2), options=options, shrinks=False, averages=False, own_model=curves)
    heads = learner.fit(sections[:9]).heads_
    later = sections[9:]
    alone = replace(heads, nuisance=None).predict(later)
    added = np.concatenate(heads.predict(later)) - np.concatenate(alone)
    np.testing.assert_allclose(added, np.concatenate(heads.nuisance.predict(later)))
    truth = square(stacked_rows(later).x)
    assert np.corrcoef(added[:, 0], truth)[0, 1] > 0.9
    # without it they follow the curve themselves
    plain = replace(learner, own_model=None).fit(sections[:9]).heads_
    assert plain.nuisance is None
    assert np.concatenate(alone).std() < 0.7 * np.concatenate(plain.predict(later)).std()
