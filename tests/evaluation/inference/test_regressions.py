import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from peerattn.evaluation import calibration, fama_macbeth
from peerattn.evaluation.inference.regressions import quantile_groups
from peerattn.exceptions import InputError


def sample(n_periods=24, seed=0, n_max=40):
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(2000, 2000 + n_periods), rng.integers(5, n_max, n_periods))
    forecast = rng.normal(size=len(period)) + 0.01 * (period - 2010)
    y = 0.3 + 0.8 * forecast + rng.normal(size=n_periods)[period - 2000] + rng.normal(size=len(period))
    y[rng.random(len(y)) < 0.1] = np.nan
    order = rng.permutation(len(y))
    return y[order], forecast[order], period[order]


@pytest.mark.parametrize("horizon", [1, 6])
def test_fama_macbeth_against_a_regression_a_period(horizon):
    y, forecast, period = sample()
    found = fama_macbeth(y, forecast, period, horizon=horizon)
    slopes, r2 = [], []
    for t in sorted(set(period)):
        here = (period == t) & ~np.isnan(y)
        fit = sm.OLS(y[here], sm.add_constant(forecast[here])).fit()
        slopes.append(fit.params[1])
        r2.append(fit.rsquared)
    hac = sm.OLS(slopes, np.ones(24)).fit(
        cov_type="HAC", cov_kwds={"maxlags": found.lags, "use_correction": True}, use_t=True
    )
    assert np.allclose(found.by_period, slopes) and list(found.by_period.index) == sorted(set(period))
    assert found.slope == pytest.approx(np.mean(slopes)) and found.r2 == pytest.approx(np.mean(r2))
    assert found.t == pytest.approx(hac.tvalues[0], rel=1e-8)
    assert found.p_value == pytest.approx(hac.pvalues[0], rel=1e-8)
    assert found.lags == (5 if horizon == 6 else 2)


def test_fama_macbeth_without_a_slope():
    y, forecast, period = sample(12)
    constant = np.where(period == 2003, 1.0, forecast)
    assert 2003 not in fama_macbeth(y, constant, period).by_period.index
    none = fama_macbeth(y, np.ones_like(y), period)
    assert np.isnan(none.slope) and none.t is None and none.by_period.empty and "n/a (T=0)" in repr(none)
    few = fama_macbeth(*sample(9))
    assert few.t is None and few.p_value is None and np.isfinite(few.slope)


def test_calibration_against_statsmodels():
    y, forecast, period = sample()
    found, known = calibration(y, forecast, period, n_bins=5), ~np.isnan(y)
    fit = sm.OLS(y[known], sm.add_constant(forecast[known])).fit(
        cov_type="cluster", cov_kwds={"groups": period[known]}
    )
    assert (found.intercept, found.slope) == pytest.approx(tuple(fit.params))
    assert (found.intercept_se, found.slope_se) == pytest.approx(tuple(fit.bse))
    assert found.p_value == pytest.approx(float(fit.f_test("const = 0, x1 = 1").pvalue), rel=1e-8)
    assert found.bins["rows"].sum() == known.sum() and found.bins["prediction"].is_monotonic_increasing
    by_hand = pd.Series(y[known]).groupby(pd.qcut(forecast[known], 5, labels=False)).mean()
    assert np.allclose(found.bins["outcome"], by_hand, atol=0.05)


def test_calibration_where_there_is_none():
    y, forecast, period = sample(9)
    assert calibration(y, forecast, period).p_value is None
    flat = calibration(y, np.full(len(y), 2.0), period)
    assert np.isnan(flat.slope) and flat.intercept == pytest.approx(np.nanmean(y) - 2.0)
    with pytest.raises(InputError, match="n_bins"):
        calibration(y, forecast, period, n_bins=0)


def test_equal_values_share_a_group_and_groups_are_within_periods():
    assert quantile_groups(np.array([1.0, 1.0, 1.0, 9.0]), np.zeros(4, int), 4).tolist() == [1, 1, 1, 3]
    values, group = np.array([1.0, 2.0, 30.0, 10.0, 20.0, 3.0]), np.array([0, 0, 0, 1, 1, 1])
    assert quantile_groups(values, group, 3).tolist() == [0, 1, 2, 1, 2, 0]
