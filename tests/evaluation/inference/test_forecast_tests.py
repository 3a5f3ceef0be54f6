import math

import numpy as np
import pytest

from peerattn.evaluation.inference.forecast_tests import diebold_mariano, hac_mean, newey_west_lags
from peerattn.exceptions import InputError


def losses(n_periods=40, seed=0, gain=0.05):
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(n_periods), rng.integers(2, 20, n_periods))
    shock = np.convolve(rng.normal(size=n_periods + 2), np.ones(3) / 3, "valid")[period]
    base = rng.chisquare(1, len(period)) + shock
    return base - gain + 0.3 * shock + 0.1 * rng.normal(size=len(base)), base, period


@pytest.mark.parametrize("horizon", [1, 3, 6])
def test_against_statsmodels_on_cross_section_averages(horizon):
    stattools = pytest.importorskip("statsmodels.tsa.stattools")
    if not hasattr(stattools, "diebold_mariano_test"):
        pytest.skip("this statsmodels has no diebold_mariano_test")
    ours, theirs, period = losses()
    result = diebold_mariano(ours, theirs, period, horizon=horizon)
    a, b = (np.array([np.mean(loss[period == t]) for t in range(40)]) for loss in (theirs, ours))
    expected = stattools.diebold_mariano_test(
        np.zeros(40), a, b, lags=result.lags, criterion=lambda y, f: f, harvey_adj=True, horizon=horizon
    )
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert result.p_value == pytest.approx(expected.pvalue, rel=1e-10)
    assert result.lags == max(3, horizon - 1)
    assert result.gain == pytest.approx(np.mean(a - b))


def test_against_the_literal_formula():
    ours, theirs, period = losses(seed=3)
    d = [float(np.mean((theirs - ours)[period == t])) for t in range(40)]
    n, lags = len(d), 4
    mean = sum(d) / n
    e = [value - mean for value in d]
    variance = sum(x * x for x in e) / n
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * sum(e[t] * e[t - lag] for t in range(lag, n)) / n
    statistic = math.sqrt((n + 1 - 2 + 0) / n) * mean / math.sqrt(variance / n)
    assert diebold_mariano(ours, theirs, period, lags=4).statistic == pytest.approx(statistic, rel=1e-10)


def test_the_cross_section_counts_once():
    """Copying every firm a hundred times adds no evidence over time."""
    ours, theirs, period = losses()
    once = diebold_mariano(ours, theirs, period)
    copied = diebold_mariano(*(np.tile(column, 100) for column in (ours, theirs, period)))
    assert copied.statistic == pytest.approx(once.statistic, rel=1e-9)


def test_sign_and_antisymmetry():
    ours, theirs, period = losses(gain=1.0)
    better, worse = diebold_mariano(ours, theirs, period), diebold_mariano(theirs, ours, period)
    assert better.statistic > 2 and better.gain > 0
    assert worse.statistic == pytest.approx(-better.statistic)
    assert worse.p_value == pytest.approx(better.p_value)


def test_unknown_outcomes_are_left_out():
    ours, theirs, period = losses()
    gone = np.arange(len(ours)) % 7 == 0
    expected = diebold_mariano(ours[~gone], theirs[~gone], period[~gone])
    ours[gone] = theirs[gone] = np.nan
    assert diebold_mariano(ours, theirs, period) == expected


@pytest.mark.parametrize(("n_periods", "tested"), [(2, False), (9, False), (10, True)])
def test_few_periods_have_no_test_over_time(n_periods, tested):
    result = diebold_mariano(*losses(n_periods), model="A", baseline="B")
    assert (result.statistic is not None) is tested
    if not tested:
        assert result.outcome == f"n/a (T={n_periods})"
        assert str(result).startswith(f"A against B: n/a (T={n_periods}), mean gain")
        assert "nan" not in str(result).lower() and "*" not in str(result)


def test_a_horizon_as_long_as_the_sample_has_no_test():
    assert diebold_mariano(*losses(12), horizon=12).statistic is None


def test_losses_that_never_differ():
    ours, theirs, period = losses()
    assert diebold_mariano(theirs, theirs, period).outcome == "same losses"
    constant = diebold_mariano(np.ones(40), np.full(40, 1.5), np.arange(40))
    assert constant.statistic is None and constant.outcome == "n/a (no variance)"


def test_size_under_the_null():
    rng = np.random.default_rng(11)
    period = np.repeat(np.arange(60), 5)
    rejections = [
        diebold_mariano(rng.chisquare(1, 300), rng.chisquare(1, 300), period).p_value < 0.05
        for _ in range(300)
    ]
    assert 0.015 < np.mean(rejections) < 0.11


def test_lags():
    assert [newey_west_lags(n) for n in (0, 1, 2, 10, 100, 240)] == [0, 0, 1, 2, 4, 4]
    assert newey_west_lags(5, horizon=20) == 4
    assert hac_mean(np.array([2.0, 2.0, 2.0]), 1) == (2.0, None)


def test_bad_input():
    with pytest.raises(InputError, match="one length, got 2, 1 and 2"):
        diebold_mariano([1.0, 2.0], [1.0], [1, 2])
    with pytest.raises(InputError, match="NaN in the same rows"):
        diebold_mariano([1.0, np.nan], [1.0, 2.0], [1, 2])
    with pytest.raises(InputError, match="no known value"):
        diebold_mariano([np.nan], [np.nan], [1])
