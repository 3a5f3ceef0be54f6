import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from linearmodels.panel import FamaMacBeth, PanelOLS
from scipy.stats import f as fisher

from peerattn.evaluation import calibration, fama_macbeth
from peerattn.evaluation.inference.forecast_tests import mean_test
from peerattn.evaluation.measures.portfolios import quantile_groups


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
    test = mean_test(slopes, horizon)
    both = pd.DataFrame({"y": y, "one": 1.0, "x": forecast}, pd.MultiIndex.from_arrays([np.arange(len(y)), period])).dropna()
    assert found.slope == pytest.approx(FamaMacBeth(both["y"], both[["one", "x"]]).fit().params["x"])
    assert np.allclose(found.by_period, slopes) and list(found.by_period.index) == sorted(set(period))
    assert found.slope == pytest.approx(np.mean(slopes)) and found.r2 == pytest.approx(np.mean(r2))
    if horizon == 6:
        assert found.t is None and found.test.reason == "n/a (T=24, 28 needed)"
    else:
        assert (found.t, found.p_value) == pytest.approx((test.t, test.p_value), rel=1e-8)


def test_fama_macbeth_without_a_slope():
    y, forecast, period = sample(12)
    constant = np.where(period == 2003, 1.0, forecast)
    assert 2003 not in fama_macbeth(y, constant, period).by_period.index
    none = fama_macbeth(y, np.ones_like(y), period)
    assert np.isnan(none.slope) and none.t is None and none.by_period.empty and "n/a (T=0, 12 needed)" in repr(none)
    few = fama_macbeth(*sample(11))
    assert few.t is None and few.p_value is None and np.isfinite(few.slope)


def test_calibration_against_statsmodels():
    y, forecast, period = sample()
    found, known = calibration(y, forecast, period), ~np.isnan(y)
    fit = sm.OLS(y[known], sm.add_constant(forecast[known])).fit(cov_type="cluster", cov_kwds={"groups": period[known]})
    assert (found.intercept, found.slope) == pytest.approx(tuple(fit.params))
    assert tuple(found.std_errors) == pytest.approx(tuple(fit.bse))
    wald = float(fit.f_test("const = 0, x1 = 1").statistic)
    assert found.p_value == pytest.approx(fisher.sf(wald * 22 / 23, 2, 22), rel=1e-8)
    assert found.nobs == known.sum()


@pytest.mark.parametrize("effects", [(), ("period",)])
def test_calibration_is_the_same_in_any_unit_and_at_any_level(effects):
    y, forecast, period = sample()
    found = calibration(y, forecast, period, effects=effects)
    for unit, level in ((1e-20, 0.0), (1e9, 0.0), (1.0, 1e7)):
        other = calibration(unit * y + level, unit * forecast + level, period, effects=effects)
        assert tuple(other.params / found.params)[-1:] == pytest.approx((1.0,), rel=1e-6)
        assert tuple(other.std_errors / found.std_errors)[-1:] == pytest.approx((1.0,), rel=1e-6)
        assert (other.p_value, other.rsquared) == pytest.approx((found.p_value, found.rsquared), rel=1e-5)
        if not effects:
            assert other.intercept == pytest.approx(unit * found.intercept + level * (1 - found.slope), rel=1e-5)


def test_predictions_that_the_effects_explain_have_no_slope():
    firm, period = np.repeat(np.arange(14), 15), np.tile(np.arange(15), 14)
    rng = np.random.default_rng(0)
    of_firms = rng.normal(size=14)[firm]
    for forecast, effects in ((of_firms, ("firm",)), (of_firms + rng.normal(size=15)[period], ("firm", "period"))):
        found = calibration(rng.normal(size=210), forecast, period, firm=firm, effects=effects)
        assert np.isnan(found.slope) and np.isnan(found.rsquared) and found.p_value is None


def test_calibration_clustered_by_firm_and_period_is_the_three_variances_of_one_way():
    """V = V(firm) + V(period) − V(both), each with its own small-sample factor (Cameron, Gelbach and Miller 2011)."""
    rng = np.random.default_rng(2)
    firm, period = (a.ravel() for a in np.meshgrid(np.arange(40), np.arange(15)))
    forecast = rng.normal(size=40)[firm] + rng.normal(size=600)
    y = forecast + rng.normal(size=40)[firm] + rng.normal(size=15)[period] + rng.normal(size=600)
    found, fit = calibration(y, forecast, period, firm=firm.astype(str)), sm.OLS(y, sm.add_constant(forecast))
    groups = (firm, period, firm * 15 + period)
    parts = [fit.fit(cov_type="cluster", cov_kwds={"groups": g}).cov_params() for g in groups]
    cov = parts[0] + parts[1] - parts[2]
    assert tuple(found.std_errors) == pytest.approx(tuple(np.sqrt(np.diag(cov))), rel=1e-6)
    gap = fit.fit().params - [0, 1]
    assert found.p_value == pytest.approx(fisher.sf(gap @ np.linalg.inv(cov) @ gap / 2 * 13 / 14, 2, 13), rel=1e-6)


@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("effects", [("firm",), ("period",), ("firm", "period")])
def test_calibration_with_effects_against_panel_ols(effects, two_way):
    """Unbalanced; effects that are not nested in clusters take degrees of freedom."""
    rng = np.random.default_rng(4)
    rows = pd.DataFrame(np.indices((15, 14)).reshape(2, -1).T, columns=["firm", "period"])
    rows["x"] = rng.normal(size=15)[rows["firm"]] + rng.normal(size=210)
    rows["y"] = (rows["x"] + rng.normal(size=14)[rows["period"]] + rng.normal(size=210)).where(rng.random(210) < 0.8)
    labels = {name: rows[name] for name in effects}
    found = calibration(rows["y"], rows["x"], rows["period"], firm=rows["firm"] if two_way else None, effects=labels)
    known = rows.dropna().set_index(["firm", "period"])
    fit = PanelOLS(known["y"], known[["x"]], entity_effects="firm" in effects, time_effects="period" in effects).fit(
        cov_type="clustered", cluster_time=True, cluster_entity=two_way, debiased=True, group_debias=True,
        count_effects=False, auto_df=False,
    )  # fmt: skip
    n, taken = len(known), {"firm": 0 if two_way else 15, "period": 0}
    factor = np.sqrt((n - 1) / (n - 1 - sum(taken[name] for name in effects)))
    assert found.slope == pytest.approx(fit.params["x"]) and found.rsquared == pytest.approx(fit.rsquared)
    assert found.std_errors["prediction"] == pytest.approx(fit.std_errors["x"] * factor, rel=1e-6)


def test_calibration_of_persistent_firms_keeps_its_size():
    """A firm's lasting level in both forecast and error: by period alone 60 %."""
    rng, count = np.random.default_rng(0), 0
    firm, period = (a.ravel() for a in np.meshgrid(np.arange(50), np.arange(20)))
    for _ in range(200):
        forecast = rng.normal(size=50)[firm] + 0.3 * rng.normal(size=1000)
        y = forecast + rng.normal(size=50)[firm] + rng.normal(size=20)[period] + rng.normal(size=1000)
        count += calibration(y, forecast, period, firm=firm).p_value < 0.05
    assert count / 200 <= 0.10


def test_calibration_where_there_is_none():
    y, forecast, period = sample(11)
    assert calibration(y, forecast, period).p_value is None
    flat = calibration(y, np.full(len(y), 2.0), period)
    assert np.isnan(flat.slope) and flat.intercept == pytest.approx(np.nanmean(y) - 2.0)


def test_equal_values_share_a_group_and_groups_are_within_periods():
    assert quantile_groups(np.array([1.0, 1.0, 1.0, 9.0]), np.zeros(4, int), 4).tolist() == [1, 1, 1, 3]
    values, group = np.array([1.0, 2.0, 30.0, 10.0, 20.0, 3.0]), np.array([0, 0, 0, 1, 1, 1])
    assert quantile_groups(values, group, 3).tolist() == [0, 1, 2, 1, 2, 0]
