import math

import numpy as np
import pytest
from scipy.stats import t as student

from peerattn.evaluation.inference.forecast_tests import (
    diebold_mariano,
    long_run_variance,
    mean_test,
    periods_needed,
)
from peerattn.exceptions import InputError


def losses(n_periods=40, seed=0, gain=0.05):
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(n_periods), rng.integers(2, 20, n_periods))
    shock = np.convolve(rng.normal(size=n_periods + 2), np.ones(3) / 3, "valid")[period]
    base = rng.chisquare(1, len(period)) + shock
    return base - gain + 0.3 * shock + 0.1 * rng.normal(size=len(base)), base, period


@pytest.mark.parametrize("horizon", [1, 3])
def test_against_the_literal_formula(horizon):
    ours, theirs, period = losses(seed=3)
    d = [float(np.mean((theirs - ours)[period == t])) for t in range(40)]
    n, mean = len(d), sum(d) / len(d)
    nu = max(1, math.floor(min(0.4 * n ** (2 / 3), n / (3 * (horizon + 1)))))
    terms = [math.sqrt(2 / n) * sum(x * math.cos(math.pi * j * (t + 0.5) / n) for t, x in enumerate(d)) for j in range(1, nu + 1)]
    R = 0.7 ** abs(np.subtract.outer(np.arange(n), np.arange(n)))  # what the variance estimate misses of an AR(.7)
    cosines = [np.cos(math.pi * j * (np.arange(n) + 0.5) / n) for j in range(1, nu + 1)]
    ratio = (R.sum() / n) / np.mean([2 / n * c @ R @ c for c in cosines])
    t = mean / math.sqrt(ratio * sum(x * x for x in terms) / nu / n)
    found = diebold_mariano(ours, theirs, period, horizon=horizon)
    assert found.statistic == pytest.approx(t, rel=1e-10) and found.freedom == nu
    assert found.p_value == pytest.approx(2 * student.sf(abs(t), nu)) and found.loss_difference == pytest.approx(mean)


def test_the_cosine_variance_is_that_of_white_noise_and_of_an_autoregression():
    """Mean over draws against σ² / (1 − ρ)², the spectrum at zero."""
    rng = np.random.default_rng(0)
    for rho in (0.0, 0.5):
        x = np.zeros((400, 2000))
        for t in range(1, 400):
            x[t] = rho * x[t - 1] + rng.normal(size=2000)
        found = np.mean([long_run_variance(x[200:, [k]], 6)[0, 0] for k in range(2000)])
        assert found == pytest.approx(1 / (1 - rho) ** 2, rel=0.05)


def test_the_cross_section_counts_once():
    """Copying every firm a hundred times adds no evidence over time."""
    ours, theirs, period = losses()
    once = diebold_mariano(ours, theirs, period)
    copied = diebold_mariano(*(np.tile(column, 100) for column in (ours, theirs, period)))
    assert copied.statistic == pytest.approx(once.statistic, rel=1e-9)


def test_sign_and_antisymmetry():
    ours, theirs, period = losses(gain=1.0)
    better, worse = diebold_mariano(ours, theirs, period), diebold_mariano(theirs, ours, period)
    assert better.statistic > 2 and better.loss_difference > 0
    assert worse.statistic == pytest.approx(-better.statistic)
    assert worse.p_value == pytest.approx(better.p_value)


def test_unknown_outcomes_are_left_out():
    ours, theirs, period = losses()
    gone = np.arange(len(ours)) % 7 == 0
    expected = diebold_mariano(ours[~gone], theirs[~gone], period[~gone])
    ours[gone] = theirs[gone] = np.nan
    assert diebold_mariano(ours, theirs, period) == expected


@pytest.mark.parametrize(("n_periods", "tested"), [(2, False), (11, False), (12, True)])
def test_few_periods_have_no_test_over_time(n_periods, tested):
    rng = np.random.default_rng(1)
    result = diebold_mariano(*rng.chisquare(1, (2, n_periods * 9)), np.repeat(range(n_periods), 9), model="A", baseline="B")
    assert (result.statistic is not None) is tested
    if not tested:
        assert result.outcome == f"n/a (T={n_periods}, 12 needed)"
        assert f"A against B: n/a (T={n_periods}, 12 needed)" in str(result)
        assert "nan" not in str(result).lower() and "*" not in str(result)


def test_a_long_horizon_needs_more_periods_and_says_how_many():
    assert periods_needed(12) == 52
    assert diebold_mariano(*losses(51), horizon=12).outcome == "n/a (T=51, 52 needed)"


def autoregressions(rho, n, draws, rng, horizon=1):
    """Sums over ``horizon`` periods of stationary autoregressions, (draws, n)."""
    x = np.empty((draws, n + horizon - 1))
    x[:, 0] = rng.normal(size=draws) / math.sqrt(1 - rho**2)
    for t in range(1, x.shape[1]):
        x[:, t] = rho * x[:, t - 1] + rng.normal(size=draws)
    return np.lib.stride_tricks.sliding_window_view(x, horizon, axis=1).sum(axis=2)


@pytest.mark.parametrize(
    ("n", "rho", "horizon", "most"),
    [(12, 0.0, 1, 0.08), (12, 0.5, 1, 0.08), (12, 0.8, 1, 0.08), (20, 0.0, 1, 0.08), (20, 0.8, 1, 0.08), (60, 0.0, 1, 0.08),
     (60, 0.8, 1, 0.08), (60, 0.9, 1, 0.18), (120, 0.5, 1, 0.08), (120, 0.0, 12, 0.08), (60, 0.8, 4, 0.08), (16, 0.9, 3, 0.10)],
)  # fmt: skip
def test_size_under_dependence_where_every_draw_is_tested(n, rho, horizon, most):
    draws = autoregressions(rho, n, 1500, np.random.default_rng(3), horizon)
    rejected = [mean_test(x, horizon).p_value < 0.05 for x in draws]
    assert np.mean(rejected) <= most + 0.015  # two standard errors of the simulation
    assert np.mean(rejected) >= 0.03 - 0.009


def test_all_series_of_one_length_have_the_same_degrees_of_freedom():
    """A freedom that follows each line's own correlation gives t = 5.12 a larger p than t = 4.82 beside it."""
    rng = np.random.default_rng(0)
    for n, horizon, freedom in ((12, 1, 2), (20, 1, 2), (60, 1, 6), (60, 4, 4), (52, 12, 1)):
        series = (rng.normal(size=n), np.arange(n), np.cumsum(rng.normal(size=n)), np.r_[np.zeros(n - 1), 1.0])
        assert {mean_test(x, horizon).freedom for x in series} == {freedom}
    wandering = [np.cumsum(rng.normal(size=20)) + shift for shift in (0.5, 2.0, 4.0)]
    found = sorted((mean_test(x) for x in wandering), key=lambda test: abs(test.t))
    assert [test.p_value for test in found] == sorted((test.p_value for test in found), reverse=True)


def test_whether_a_test_is_made_depends_on_the_number_of_periods_alone():
    """A refusal that looks at the series is a pretest: AR(.9) at T = 60 was rejected in 20 % of the series that passed it."""
    rng = np.random.default_rng(0)
    for series in (
        rng.normal(size=12),
        np.arange(12.0),
        np.cumsum(rng.normal(size=12)),
        np.r_[np.zeros(11), 1.0],
    ):
        assert mean_test(series).p_value is not None and mean_test(series[:11]).p_value is None
    assert mean_test(np.arange(60.0) - 29).p_value > 0.5


def test_losses_that_never_differ():
    ours, theirs, period = losses()
    assert diebold_mariano(theirs, theirs, period).outcome == "n/a (same losses)"
    constant = diebold_mariano(np.ones(40), np.full(40, 1.5), np.arange(40))
    assert constant.statistic is None and constant.outcome == "n/a (no variance)"


def test_bad_input():
    with pytest.raises(InputError, match="one length, got .2, 1, 2"):
        diebold_mariano([1.0, 2.0], [1.0], [1, 2])
    with pytest.raises(InputError, match="NaN in the same rows"):
        diebold_mariano([1.0, np.nan], [1.0, 2.0], [1, 2])
    with pytest.raises(InputError, match="loss: expected some that are known"):
        diebold_mariano([np.nan], [np.nan], [1])
