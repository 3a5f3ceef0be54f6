import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import chi2, norm
from scipy.stats import t as student

from peerattn.evaluation import clark_west, encompassing, giacomini_white, paired_by_firm
from peerattn.evaluation.inference.forecast_tests import newey_west_lags
from peerattn.exceptions import InputError


def panel(n_periods=40, seed=0, skill=0.3):
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(n_periods), rng.integers(2, 20, n_periods))
    x, shock = rng.normal(size=len(period)), rng.normal(size=n_periods)[period]
    y = skill * x + shock + rng.normal(size=len(period))
    return y, 0.4 * x, 0.1 * rng.normal(size=len(period)), period


def means(series, period):
    return np.array([series[period == t].mean() for t in np.unique(period)])


def hac_t(series, lags):
    fit = sm.OLS(series, np.ones(len(series))).fit(cov_type="HAC", cov_kwds={"maxlags": lags})
    return fit.tvalues[0]


@pytest.mark.parametrize("horizon", [1, 4])
def test_clark_west_against_the_literal_formula(horizon):
    y, ours, theirs, period = panel()
    found = clark_west(y, ours, theirs, period, horizon=horizon)
    f = means((y - theirs) ** 2 - ((y - ours) ** 2 - (theirs - ours) ** 2), period)
    t = hac_t(f, newey_west_lags(40, horizon))
    assert found.statistic == pytest.approx(t) and found.p_value == pytest.approx(norm.sf(t))
    assert found.gain == pytest.approx(f.mean()) and found.alternative == "greater"
    assert "Clark–West test of model against baseline" in str(found)


@pytest.mark.parametrize("horizon", [1, 4])
def test_encompassing_against_the_literal_formula(horizon):
    y, ours, theirs, period = panel()
    found = encompassing(y, ours, theirs, period, horizon=horizon)
    d = means((y - theirs) * ((y - theirs) - (y - ours)), period)
    factor = math.sqrt((41 - 2 * horizon + horizon * (horizon - 1) / 40) / 40)
    t = factor * hac_t(d, newey_west_lags(40, horizon))
    assert found.statistic == pytest.approx(t) and found.p_value == pytest.approx(student.sf(t, 39))


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize("horizon", [1, 3])
def test_giacomini_white_against_the_literal_formula(conditional, horizon):
    y, ours, theirs, period = panel()
    loss, base = (y - ours) ** 2, (y - theirs) ** 2
    found = giacomini_white(loss, base, period, horizon=horizon, conditional=conditional)
    d = means(base - loss, period)
    rows = [[d[t], d[t] * d[t - horizon]] for t in range(horizon, 40)] if conditional else [[v] for v in d]
    Z = np.array(rows)
    n, q = Z.shape
    omega = sum(np.outer(z, z) for z in Z) / n
    for lag in range(1, horizon):
        cross = sum(np.outer(Z[t], Z[t - lag]) for t in range(lag, n)) / n
        omega = omega + (1 - lag / horizon) * (cross + cross.T)
    w = n * Z.mean(axis=0) @ np.linalg.inv(omega) @ Z.mean(axis=0)
    assert found.statistic == pytest.approx(w) and found.p_value == pytest.approx(chi2.sf(w, q))
    assert found.n_periods == n
    if horizon == 1:  # the textbook's form: n times the uncentred R² of one on Z
        r2 = sm.OLS(np.ones(n), Z).fit()
        assert w == pytest.approx(n * (1 - r2.ssr / n))


def test_paired_by_firm_against_statsmodels_and_the_formula():
    rng = np.random.default_rng(1)
    firm, period = np.repeat(np.arange(60), 3), np.tile([2013, 2014, 2015], 60)
    base = rng.chisquare(1, 180)
    loss = base - 0.1 + 0.3 * rng.normal(size=60)[firm] + 0.1 * rng.normal(size=180)
    base[5] = loss[5] = np.nan
    found, known = paired_by_firm(loss, base, firm, period), ~np.isnan(base)
    d = (base - loss)[known]
    sums = [(d - d.mean())[firm[known] == f].sum() for f in range(60)]
    se = math.sqrt(60 / 59 * sum(s * s for s in sums)) / len(d)
    assert found.gain == pytest.approx(d.mean()) and found.statistic == pytest.approx(d.mean() / se)
    assert found.p_value == pytest.approx(2 * student.sf(abs(d.mean() / se), 59))
    assert found.n_periods == 3 and "60 firms, conditional on these periods" in str(found)
    with pytest.raises(InputError, match="at least two firms"):
        paired_by_firm(loss, base, np.zeros(180), period)


def test_no_test_where_none_can_be_made():
    y, ours, theirs, period = panel(9)
    loss, base = (y - ours) ** 2, (y - theirs) ** 2
    for test in (
        clark_west(y, ours, theirs, period),
        encompassing(y, ours, theirs, period),
        giacomini_white(loss, base, period, conditional=False),
    ):
        assert test.statistic is None and test.outcome == "n/a (T=9)"
    assert (
        giacomini_white(*panel(10)[:2], panel(10)[3]).outcome == "n/a (T=9)"
    )  # one period is the first state
    assert clark_west(y[:1], ours[:1], theirs[:1], period[:1]).outcome == "n/a (T=1)"
    y, ours, _, period = panel()
    assert clark_west(y, ours, ours, period).outcome == "same forecasts"
    assert encompassing(y, ours, ours, period).outcome == "same forecasts"
    assert giacomini_white(y, y, period).outcome == "same losses"
    assert paired_by_firm(y, y, np.arange(len(y)), period).outcome == "same losses"


def test_skill_is_found_and_noise_is_not():
    y, ours, theirs, period = panel(skill=0.4)
    assert clark_west(y, ours, np.zeros_like(y), period).p_value < 0.01
    assert encompassing(y, ours, theirs, period).p_value < 0.01
    assert encompassing(y, theirs, ours, period).p_value > 0.05
    many, good, poor, when = panel(150, skill=0.5)
    assert giacomini_white((many - good) ** 2, (many - poor) ** 2, when).p_value < 0.01
    frame = pd.DataFrame({"y": y, "ours": ours, "theirs": theirs, "period": period}).sample(
        frac=1, random_state=0
    )
    again = clark_west(frame["y"], frame["ours"], frame["theirs"], frame["period"])
    assert again.statistic == pytest.approx(clark_west(y, ours, theirs, period).statistic)
