"""Heads in full: what they add within periods and to a period's mean have factors of their own."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from sklearn.base import clone

from peerattn import PeerAttentionRegressor
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.heads.sampling import residuals
from peerattn.models.learners.heads.selection import ALL, LaterRows, selected, split
from peerattn.models.learners.losses import huber, regression_loss, squared_error
from peerattn.models.learners.variance_components import common_variance, t_threshold
from peerattn.models.stacking.weights import Column, Scope


def sections(means, added, n=5, seed=0):
    """Cross-sections whose outcomes have these means, beside an own part of zero, and what heads add to them."""
    rng = np.random.default_rng(seed)
    made = []
    for t, mean in enumerate(means):
        noise = rng.normal(size=n)
        rows = Rows(
            x=np.zeros((n, 1)), codes=np.zeros((n, 0), dtype=int), y=mean + noise - noise.mean(), weight=None,
            identity=np.arange(n), label=pd.Index(range(n)), owner=pd.Index(range(n)),
        )  # fmt: skip
        made.append(CrossSection(t, slice(0, n), rows, rows, True, False, own=(np.zeros((n, 1)), np.zeros((n, 1)))))
    within = rng.normal(size=(len(means), n))
    within -= within.mean(axis=1, keepdims=True)
    return made, (within + np.asarray(added)[:, None]).reshape(-1, 1)


def test_the_factor_of_means_is_the_shrunk_slope_of_period_means():
    rng = np.random.default_rng(1)
    D = rng.normal(size=12)
    e = 0.6 * D + 0.3 * rng.normal(size=12)
    later, added = sections(e, D)
    slope = D @ e / (D @ D)
    of_slope = sm.OLS(e, D).fit(cov_type="HC2").bse[0]
    expected = min(1, slope) * (1 - of_slope**2 / slope**2)
    assert np.isclose(LaterRows(later, np.zeros((60, 1))).factor_of_means(added), expected)


def fit(value):
    """What is fitted to earlier cross-sections and predicts this of the later ones."""
    return lambda learned: lambda held_out: np.split(value, len(held_out))


def after_others(later):
    """These cross-sections after twenty-four others, whose means are zero."""
    earlier, _ = sections(np.zeros(24), np.zeros(24))
    return [*earlier, *(replace(s, period=24 + k) for k, s in enumerate(later))]


def faint(seed):
    """Later cross-sections, what heads add to them, and its t by hand: errors by period, each in units of its squares."""
    later, D = sections(np.zeros(12), np.zeros(12), seed=seed)
    e = np.concatenate([section.focal.y for section in later])
    weight = 1 / np.square(e).reshape(12, 5).mean(1)
    terms = (D[:, 0] * e).reshape(12, 5).sum(1) * weight
    share = (D**2).reshape(12, 5).sum(1) * weight
    share /= share.sum()
    return later, D, terms.sum() / np.sqrt(((terms - share * terms.sum()) ** 2 / (1 - share)).sum())


@pytest.mark.parametrize("seed", range(8))
def test_heads_add_nothing_where_t_is_below_what_is_asked(seed):
    later, D, t = faint(seed)
    found = {least: LaterRows(later, np.zeros_like(D)).factor(D, least) for least in (1.0, 2.0)}
    assert (found[1.0] > 0) == (t > 1) and (found[2.0] > 0) == (t > 2)


@pytest.mark.parametrize("best", [0, 1])
def test_the_factor_of_other_losses_reaches_its_bounds(best):
    """The loss is least without the heads, or with all of them."""
    later, added = sections(np.zeros(12), np.zeros(12))
    outcomes = np.split((4 * best - 1) * added[:, 0], 12)
    later = [replace(s, focal=replace(s.focal, y=y)) for s, y in zip(later, outcomes, strict=True)]
    assert LaterRows(later, np.zeros((60, 1)), regression_loss("huber")).factor(added) == best


def test_of_few_periods_copies_of_a_row_count_as_its_frequency_weight():
    ((section,), added) = sections([0.3], [0.1], n=30)
    weight = np.arange(30) % 3 + 1.0
    copies = np.repeat(np.arange(30), weight.astype(int))
    weighted = replace(section, focal=replace(section.focal, loss_weight=weight))
    repeated = replace(section, focal=section.focal.take(copies))
    once = LaterRows([weighted], np.zeros((30, 1)))
    often = LaterRows([repeated], np.zeros((len(copies), 1)))
    added = added + section.focal.y[:, None]
    assert once.n_clusters == often.n_clusters == 30
    assert 0 < once.factor(added) < 1
    assert np.isclose(once.factor(added), often.factor(added[copies]))


def test_industry_peers_stand_unless_heads_are_clearly_better():
    """Noise of t 1.0 to 2.0 has a factor, and takes the place of no fallback."""
    seed = next(seed for seed in range(50) if 1.2 < faint(seed)[2] < 1.8)
    later, D, _ = faint(seed)

    every = after_others(later)
    assert selected([fit(D)], [], every, squared_error).size > 0
    with_fallback = selected([fit(D)], [fit(np.zeros_like(D))], every, squared_error)
    assert (with_fallback.fallback, with_fallback.size) == (0, 1.0)


def test_fits_within_a_standard_error_of_the_best_are_averaged():
    """Which of two equally good fits has the smaller held-out loss is chance; one that is clearly worse has no part."""
    later, _ = sections(np.zeros(12), np.zeros(12), seed=3)
    every = after_others(later)
    outcome = np.concatenate([section.focal.y for section in later])[:, None]
    rng = np.random.default_rng(0)
    first, second, worse = (outcome + size * rng.normal(size=outcome.shape) for size in (0.5, 0.5, 3.0))
    net = LaterRows(later, np.zeros_like(outcome), common=common_variance(residuals(every[:24])))

    found = selected([fit(first), fit(second), fit(worse), fit(-outcome)], [], every, squared_error)
    assert sorted(found.fits) == [0, 1] and found.fallback is None
    # the factors are those of the mean
    assert found.size == pytest.approx(net.factor((first + second) / 2))
    # by hand: the rise of the squared errors by period, in units of the period's mean squared error, over its standard error
    a, b = (net.factor(each) * each[:, 0] for each in (first, worse))
    e = outcome[:, 0]
    weight = 1 / np.square(e).reshape(12, 5).mean(1)
    rises = (np.square(e - b) - np.square(e - a)).reshape(12, 5).sum(1) * weight
    share = np.square(b - a).reshape(12, 5).sum(1) * weight
    share /= share.sum()
    t = rises.sum() / np.sqrt(((rises - share * rises.sum()) ** 2 / (1 - share)).sum())
    for least in (0.99 * t, 1.01 * t):
        assert replace(net, common=0.0).is_worse(b[:, None], a[:, None], least) == (t > least)


@pytest.mark.parametrize("n_fits", [1, 2])
def test_the_threshold_of_several_fits_is_that_of_their_number(n_fits):
    """Of two fits of noise the larger t exceeds 2 nearly twice as often as that of one."""
    least = stats.t.isf(stats.norm.sf(2.0) / n_fits, 11)
    assert t_threshold(2.0, 12, n_fits) == pytest.approx(least)
    below = next(seed for seed in range(400) if 0.85 * least < faint(seed)[2] < 0.99 * least)
    above = next(seed for seed in range(400) if 1.01 * least < faint(seed)[2])
    for seed, fallback in ((below, 0), (above, None)):
        later, D, _ = faint(seed)
        every = after_others(later)
        assert selected([fit(D)] * n_fits, [fit(np.zeros_like(D))], every, squared_error).fallback == fallback


def test_industry_peers_that_later_periods_reject_are_no_fallback():
    later, _ = sections(np.zeros(12), np.zeros(12), seed=1)
    outcome = np.concatenate([section.focal.y for section in later])[:, None]
    every = after_others(later)
    nothing = np.zeros_like(outcome)
    rows = LaterRows(later, nothing)
    rejected = [rows.is_worse(each, nothing, 2.0) for each in (-outcome, nothing, 0.5 * outcome)]
    assert rejected == [True, False, False]

    assert selected([fit(nothing)], [fit(0.5 * outcome)], every, squared_error).fallback == 0
    assert selected([fit(nothing)], [fit(-outcome)], every, squared_error).fallback is None


def test_what_is_not_known_by_the_held_out_periods_is_not_learned_from():
    every, _ = sections(np.zeros(30), np.zeros(30))
    placed = [replace(section, period=k, place=k) for k, section in enumerate(every)]
    learned, later = split(placed)
    assert [s.period for s in learned] == list(range(20)) and later[0].period == 20
    assert [s.period for s in split(placed, purge=3)[0]] == list(range(17))
    late = [replace(s, focal=replace(s.focal, known_from=np.full(5, s.place + 1) + 4 * (np.arange(5) == 0))) for s in placed]
    assert [len(s.focal) for s in split(late)[0]] == [5] * 16 + [4] * 4
    # outcomes of peers that come late are not known by then, either
    observed = [replace(s, peers=s.focal) for s in late]
    assert [int(np.isfinite(s.peers.y).sum()) for s in split(observed)[0]] == [5] * 16 + [4] * 4
    assert split(placed, purge=25) == ([], [])


@pytest.mark.parametrize(("means", "added"), [([1.0, -1.0, 2.0, 1.0], [-1.0, 1.0, -2.0, -1.0]), ([1.0, 1.0], [1.0, 1.0])])
def test_a_wrong_mean_or_too_few_periods_give_nothing(means, added):
    later, values = sections(means, added)
    assert LaterRows(later, np.zeros((len(values), 1))).factor_of_means(values) == 0


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_on_arrays_weights_of_one_change_nothing(task):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + rng.normal(size=80)
    model = PeerAttentionRegressor(task=task, kappa=None, n_heads=1, random_state=0)
    plain, weighted = (clone(model).fit(X, y, sample_weight=each).predict(X[:9]) for each in (None, np.ones(80)))
    np.testing.assert_allclose(weighted, plain, rtol=1e-9)
    twice = clone(model).fit(X, y, sample_weight=np.r_[np.full(20, 2.0), np.ones(60)])
    assert np.isfinite(twice.predict(X[:9])).all()


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_heads_that_predict_nothing_leave_own_codes(task, train_heads):
    """Levels of industries are no peers: heads in full are the model without heads where they add nothing to it."""
    train_heads(2, 60)
    rng = np.random.default_rng(0)
    n, T = 30, 18
    rng = np.random.default_rng(1)
    index = pd.MultiIndex.from_product([range(n), range(T)], names=["firm", "period"])
    code = np.repeat(np.arange(n) % 5, T)
    X = pd.DataFrame({"x": rng.normal(size=n * T), "code": code.astype(str)}, index)
    y = pd.Series(code - 2 + 0.3 * X["x"] + 0.5 * rng.normal(size=n * T), index)
    of_call = {} if task == "forecast" else {"outcomes": y}
    model = PeerAttentionRegressor(task=task, kappa=None, codes=["code"], random_state=0)
    full = clone(model).fit(X, y)
    assert full.evidence_.loc["peers", "reason"] == "predicts nothing of held-out periods"
    assert full.evidence_.loc["nonlinear", "factor"] > 0.5
    own = clone(model).set_params(n_heads=0).fit(X, y)
    np.testing.assert_allclose(full.predict(X, **of_call), own.predict(X, **of_call), atol=1e-6)


def test_heads_are_compared_with_the_own_part():
    """What own codes predict is not what heads add."""
    later, _ = sections(np.zeros(12), np.zeros(12), seed=3)
    every = after_others(later)
    outcome = np.concatenate([section.focal.y for section in later])[:, None]
    assert selected([fit(outcome)], [], every, squared_error).size > 0.9
    assert selected([fit(0.9 * outcome)], [], every, squared_error, own=[fit(0.9 * outcome)]).size < 1e-9
    # of heads that know the rest it is the weight beside the own part
    rest = np.random.default_rng(0).normal(size=outcome.shape)
    ys = np.split(outcome + rest, 12)
    every[24:] = [replace(s, focal=replace(s.focal, y=y[:, 0])) for s, y in zip(every[24:], ys, strict=True)]
    assert selected([fit(outcome + rest)], [], every, squared_error, own=[fit(outcome)]).size > 0.9


def test_what_predicts_nothing_has_no_weight_by_other_losses_either():
    later, _ = sections(np.zeros(12), np.zeros(12), seed=3)
    outcome = np.concatenate([section.focal.y for section in later])[:, None]
    rows = LaterRows(later, np.zeros_like(outcome), huber)
    assert [rows.factor(each) for each in (-outcome, 0 * outcome, outcome)] == [0.0, 0.0, 1.0]
    assert rows.factor(2 * outcome) == pytest.approx(0.5, abs=1e-4)
    found = selected([fit(outcome), fit(-outcome)], [], after_others(later), huber)
    assert (found.fits, found.size) == ((0,), 1.0)


@pytest.mark.parametrize("within", [True, False])
def test_own_codes_have_the_weights_in_selection_that_they_have_in_predictions(within):
    """Where what is added has one weight, as in a nowcast, the means of periods have no other."""
    later, added = sections(np.zeros(12), np.ones(12))
    outcome = np.concatenate([section.focal.y for section in later])[:, None]
    added = outcome + 1
    rows = LaterRows(later, np.zeros_like(outcome), common=ALL * within)
    size = rows.factor(added)
    assert size > 0 and rows.factor_of_means(added) == 0
    expected = size * (added - within)
    np.testing.assert_allclose(rows.shrunk(added, within), expected, atol=1e-12)


def test_a_wandering_level_does_not_move_the_means_of_heads_in_full(train_heads):
    """Peers predict differences within periods; the level wanders while characteristics have a trend."""
    train_heads(2, 120)
    rng = np.random.default_rng(0)
    n, T = 30, 24
    x = rng.normal(size=(T, n)) + np.arange(T)[:, None] / 6
    code = np.arange(n) % 3
    means = np.stack([[x[t, code == g].mean() for g in range(3)] for t in range(T)])
    level = rng.normal(size=T).cumsum()
    y = (means - means.mean(axis=1, keepdims=True))[:, code] * 3 + level[:, None] + 0.3 * rng.normal(size=(T, n))
    index = pd.MultiIndex.from_product([range(T), range(n)], names=["period", "firm"])
    X = pd.DataFrame({"x": x.ravel(), "code": np.tile(code.astype(str), T)}, index)
    outcome = pd.Series(y.ravel(), index)
    train = np.asarray(index.get_level_values("period") < 18)
    model = PeerAttentionRegressor(kappa=None, codes=["code"], random_state=0).fit(X[train], outcome[train])
    own = PeerAttentionRegressor(kappa=None, n_heads=0).fit(X[train], outcome[train])
    weights = model.stack_.stages["peers"].weights
    assert weights[Column("heads", Scope.MEAN)] < 0.5 * weights[Column("heads", Scope.WITHIN)]
    error = {name: ((outcome - each.predict(X))[~train] ** 2).mean() for name, each in (("heads", model), ("own", own))}
    assert error["heads"] < error["own"]
