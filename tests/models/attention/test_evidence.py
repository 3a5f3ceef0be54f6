"""Origins never learn from what they are judged by; the factor beside brute force, the test beside statsmodels, its size."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import torch
from scipy import stats

from peerattn.models.attention.evidence import FOLDS, LEAST_GAIN, Judged, origins, weigh
from peerattn.models.attention.losses import cross_entropy, huber, squared_error
from peerattn.models.pools import Rows, Section


def everyone(x, y, weight=None):
    label = pd.RangeIndex(len(x))
    return Rows(x, np.zeros((len(x), 0), dtype=int), y, None, np.arange(len(x)), label, label, weight)


def sections(T, n=20):
    rng = np.random.default_rng(0)
    pools = [everyone(rng.normal(size=(n, 2)), rng.normal(size=n)) for _ in range(T)]
    return [Section(t, slice(None), pool, pool, True) for t, pool in enumerate(pools)]


@pytest.mark.parametrize("T", [3, 4, 7, 20, 61])
@pytest.mark.parametrize("purge", [0, 1, 3])
def test_origins_learn_from_earlier_periods_alone(T, purge):
    found = origins(sections(T), purge, True)
    judged = [[s.period for s in origin.judged] for origin in found]
    for origin, later in zip(found, judged, strict=True):
        assert [s.period for s in origin.training] == list(range(min(later) - purge))
        assert origin.training
    together = sum(judged, [])
    assert together == sorted(set(together)) and len(found) <= 3
    if purge < T // 2:
        assert together == list(range(T // 2, T)), "the second half is judged, each period once"


def test_few_rows_are_not_judged():
    assert origins(sections(4, n=12), 0, True) == []
    assert len(origins(sections(4, n=13), 0, True)) > 0


@pytest.mark.parametrize("weighed", [False, True])
def test_one_cross_section_is_judged_by_folds_of_its_rows(weighed):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    rows = everyone(x, y, np.ones(60) if weighed else None)
    section = Section(None, slice(None), rows, rows, own_copies=weighed)
    found = origins([section], 0, False)
    assert len(found) == FOLDS
    judged = np.concatenate([origin.judged[0].focal.label for origin in found])
    assert sorted(judged) == list(range(60))
    for origin in found:
        (training,), (held_out,) = origin.training, origin.judged
        assert not set(training.focal.label) & set(held_out.focal.label)
        for part in (training, held_out):
            assert part.peers.label.tolist() == training.focal.label.tolist(), "no held-out row is a peer"
        assert training.own_copies == weighed and not held_out.own_copies
    dated = origins([replace(section, period=2001, own_copies=False)], 0, True)
    assert all(len(o.judged[0].peers) == len(o.training[0].peers) == 60 for o in dated), (
        "a period keeps its peers"
    )


# ---------------------------------------------------------------- the factor and its test


def judged(n=30, T=12, strength=0.3, seed=0, common=0.0, volatile=0.0):
    """Firms by periods: outcomes move with ``strength`` times the addition; ``common`` shocks of firms and of periods.

    The volatility of periods varies by so many log points.
    """
    rng = np.random.default_rng(seed)
    firm, period = np.repeat(np.arange(n), T), np.tile(np.arange(T) * 1j, n)
    g, e = (
        rng.normal(size=(n, T)) + common * (rng.normal(size=T) + rng.normal(size=(n, 1))) for _ in range(2)
    )
    g, e = (z * np.exp(volatile * np.linspace(-1, 1, T)) for z in (g, e))
    base = rng.normal(size=(n * T, 1))
    y = base[:, 0] + strength * g.ravel() + e.ravel()
    return Judged(base, g.reshape(-1, 1), y, np.ones(n * T), period, firm)


def period_weight(rows, loss=squared_error):
    """The inverse mean loss of each row's period, one row of the median period's loss added, by a loop."""
    losses = loss(torch.as_tensor(rows.base), torch.as_tensor(rows.y)).numpy()
    mean = {
        t: np.average(losses[rows.period == t], weights=rows.weight[rows.period == t])
        for t in np.unique(rows.period)
    }
    usual, found = np.median(list(mean.values())), np.empty(len(losses))
    for t in mean:
        at = rows.period == t
        size = rows.weight[at].sum() / rows.weight.mean()
        found[at] = (mean[t] * size + usual) / (size + 1)
    return 1 / found


@pytest.mark.parametrize("loss", [squared_error, huber])
@pytest.mark.parametrize("strength", [0.3, 1.7])
def test_the_factor_has_the_least_loss_and_is_shrunk(loss, strength):
    rows = replace(judged(strength=strength, volatile=0.5), weight=np.random.default_rng(1).uniform(size=360))
    found = weigh(rows, loss, forecast=True, mutual=False, level=0.05)
    grid, y = np.linspace(0, 1, 2001), torch.as_tensor(rows.y)
    weight = rows.weight * period_weight(rows, loss)
    losses = [loss(torch.as_tensor(rows.base + f * rows.addition), y).numpy() @ weight for f in grid]
    assert found.least_loss == pytest.approx(grid[np.argmin(losses)], abs=6e-4)
    assert found.gain == pytest.approx(1 - min(losses) / losses[0], abs=1e-4)
    assert found.t > found.critical
    assert found.factor == pytest.approx(found.least_loss * (1 - 1 / found.t**2))


def test_the_statistic_is_the_clustered_regression_of_the_score():
    """statsmodels: the score on a constant, clustered by firm and period, as often as there are clusters."""
    rows = judged(common=1.0)
    groups = [pd.factorize(rows.firm)[0], pd.factorize(rows.period)[0]]
    for n_periods in (12, 2):
        few = groups[1] < n_periods
        part = Judged(*(values[few] for values in vars(rows).values()))
        score = (part.y - part.base[:, 0]) * part.addition[:, 0] * period_weight(part)
        by = np.column_stack(groups)[few] if n_periods > 2 else groups[0][few]
        ols = sm.OLS(score, np.ones(few.sum())).fit(cov_type="cluster", cov_kwds={"groups": by})
        found = weigh(part, squared_error, forecast=False, mutual=False, level=0.05)
        assert found.t == pytest.approx(ols.tvalues[0], rel=1e-10)
        assert found.clusters == ("firm and period" if n_periods > 2 else "firm")
        assert found.critical == pytest.approx(stats.t.ppf(0.95, (n_periods if n_periods > 2 else 30) - 1))
        assert found.periods == n_periods


def test_a_calm_period_counts_as_much_as_a_volatile_one():
    """Multiplying a period's numbers by anything changes nothing; a sum over rows would hear the loudest period alone."""
    rows = judged(n=60, T=6)
    scale = np.exp(np.tile([0.0, 2.0, -1.0, 1.0, 0.0, -1.5], 60))
    loud = replace(rows, base=0 * rows.base, y=(rows.y - rows.base[:, 0]) * scale)
    loud = replace(loud, addition=rows.addition * scale[:, None])
    found = [weigh(r, squared_error, forecast=True, mutual=False, level=0.05) for r in (rows, loud)]
    assert found[1].t == pytest.approx(found[0].t, rel=0.15)
    assert found[1].least_loss == pytest.approx(found[0].least_loss, rel=0.15)
    score = (loud.y - loud.base[:, 0]) * loud.addition[:, 0]
    unweighted = sm.OLS(score, np.ones(360)).fit(cov_type="cluster", cov_kwds={"groups": rows.period})
    assert unweighted.tvalues[0] < 0.6 * found[1].t


def mutual_noise(seed, n=80):
    """One period in which each firm is told a symmetric mixture of the others' independent outcomes."""
    rng = np.random.default_rng(seed)
    e, K = rng.normal(size=n), rng.normal(size=(n, n))
    W = (K + K.T) * ~np.eye(n, dtype=bool)
    return Judged(np.zeros((n, 1)), (W @ e)[:, None], e, np.ones(n), np.zeros(n), np.arange(n))


def test_firms_that_read_each_other_do_not_count_a_product_twice():
    """e_i w_ij e_j is in i's score and in j's: by firm alone the test would reject far too often."""
    found = {
        mutual: np.mean(
            [
                (e := weigh(mutual_noise(s), squared_error, forecast=False, mutual=mutual, level=0.05)).t
                > e.critical
                for s in range(600)
            ]
        )
        for mutual in (False, True)
    }
    assert found[False] > 0.09 and 0.02 < found[True] < 0.08


def test_the_error_is_at_least_that_of_either_way():
    rows = judged(
        strength=0.0, seed=1
    )  # firms and periods explain nothing: the sum may exceed what it is net of
    score = (rows.y - rows.base[:, 0]) * rows.addition[:, 0] * period_weight(rows)
    single = []
    for name in ("firm", "period"):
        by = pd.factorize(getattr(rows, name))[0]
        single.append(sm.OLS(score, np.ones(360)).fit(cov_type="cluster", cov_kwds={"groups": by}).tvalues[0])
    found = weigh(rows, squared_error, forecast=True, mutual=False, level=0.05).t
    assert abs(found) <= np.abs(single).min() + 1e-10


def test_forecasts_of_fewer_than_three_periods_are_not_added_to():
    strong = judged(T=2, n=200, strength=0.8)
    forecast = weigh(strong, squared_error, forecast=True, mutual=False, level=0.05)
    assert forecast.t > 5 and forecast.factor == 0.0 and forecast.least_loss > 0.5
    assert weigh(strong, squared_error, forecast=False, mutual=False, level=0.05).factor > 0.5
    assert (
        weigh(judged(T=3, n=200, strength=0.8), squared_error, forecast=True, mutual=False, level=0.05).factor
        > 0.5
    )


def test_an_addition_that_harms_or_is_zero_gets_nothing():
    harmful = weigh(judged(strength=-0.5), squared_error, forecast=True, mutual=False, level=0.05)
    assert harmful.t < 0 and harmful.factor == harmful.least_loss == harmful.gain == 0.0
    rows = judged()
    nothing = weigh(
        replace(rows, addition=np.zeros_like(rows.addition)),
        squared_error,
        forecast=True,
        mutual=False,
        level=0.05,
    )
    assert nothing.factor == 0.0 and np.isnan(nothing.t) and nothing.periods == 12


def test_on_a_large_panel_significance_is_not_enough():
    """The gain must be a thousandth of the loss."""
    rows = judged(n=3000, T=40, strength=0.02)
    found = weigh(rows, squared_error, forecast=True, mutual=False, level=0.05)
    assert found.t > found.critical and 0 < found.gain < LEAST_GAIN
    assert found.factor == 0
    assert (
        weigh(
            judged(n=3000, T=40, strength=0.1), squared_error, forecast=True, mutual=False, level=0.05
        ).factor
        > 0
    )


def test_classes_are_weighed_by_their_cross_entropy():
    rng = np.random.default_rng(0)
    rows = judged(n=60, T=2)
    logits = rng.normal(size=(120, 3))
    y = (logits + 0.8 * np.outer(rows.addition[:, 0], [1, 0, -1]) + rng.gumbel(size=(120, 3))).argmax(axis=1)
    three = replace(
        rows, base=logits, addition=np.outer(rows.addition[:, 0], [1.0, 0.0, -1.0]), y=y.astype(float)
    )
    found = weigh(three, cross_entropy, forecast=False, mutual=False, level=0.05)
    probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    score = ((np.eye(3)[y] - probability) * three.addition).sum(axis=1) * period_weight(three, cross_entropy)
    ols = sm.OLS(score, np.ones(120)).fit(cov_type="cluster", cov_kwds={"groups": rows.firm})
    assert found.t == pytest.approx(ols.tvalues[0], rel=1e-8)
    assert found.least_loss == pytest.approx(0.8, abs=0.3)


@pytest.mark.parametrize("T, common", [(2, 0.0), (12, 0.0), (12, 1.0)])
def test_random_additions_exceed_the_critical_value_as_often_as_the_level_says(T, common):
    """Also where firms and periods have common shocks; of two periods, such shocks cannot be seen."""
    drawn = [
        weigh(
            judged(T=T, strength=0.0, common=common, seed=s),
            squared_error,
            forecast=False,
            mutual=False,
            level=0.05,
        )
        for s in range(600)
    ]
    size = np.mean([found.t > found.critical for found in drawn])
    assert 0.02 < size < 0.08
