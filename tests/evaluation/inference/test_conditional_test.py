import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import chi2
from scipy.stats import f as fisher

from peerattn.evaluation import giacomini_white
from peerattn.evaluation.inference.forecast_tests import mean_test


def panel(n_periods=40, seed=0, skill=0.3):
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(n_periods), rng.integers(2, 20, n_periods))
    x, shock = rng.normal(size=len(period)), rng.normal(size=n_periods)[period]
    y = skill * x + shock + rng.normal(size=len(period))
    return y, 0.4 * x, 0.1 * rng.normal(size=len(period)), period


def means(series, period):
    return np.array([series[period == t].mean() for t in np.unique(period)])


def test_giacomini_white_at_horizon_one_against_the_textbook():
    """Whether a regression of one on Z explains anything, by F."""
    y, ours, theirs, period = panel()
    loss, base = (y - ours) ** 2, (y - theirs) ** 2
    found = giacomini_white(loss, base, period)
    d = means(base - loss, period)
    Z = np.array([[d[t], d[t] * d[t - 1]] for t in range(1, 40)])
    fit = sm.OLS(np.ones(39), Z).fit()
    expected = fit.f_test(np.eye(2))
    assert found.statistic == pytest.approx(float(expected.fvalue))
    assert found.p_value == pytest.approx(float(expected.pvalue)) and (found.n_periods, found.freedom) == (
        39,
        37,
    )
    w = 39 * (1 - fit.ssr / 39)  # the textbook's statistic
    assert found.p_value == pytest.approx(chi2.sf(w, 2), abs=0.02)


def test_giacomini_white_on_average_is_the_test_of_the_mean_gain():
    y, ours, theirs, period = panel()
    loss, base = (y - ours) ** 2, (y - theirs) ** 2
    found, t = giacomini_white(loss, base, period, conditional=False), mean_test(means(base - loss, period))
    assert found.statistic == pytest.approx(t.t**2) and found.p_value == pytest.approx(t.p_value)


def test_giacomini_white_at_a_longer_horizon_against_the_literal_formula():
    y, ours, theirs, period = panel(80)
    loss, base = (y - ours) ** 2, (y - theirs) ** 2
    found = giacomini_white(loss, base, period, horizon=3)
    d = means(base - loss, period)
    Z = np.array([[d[t], d[t] * d[t - 3]] for t in range(3, 80)])
    nu = min(mean_test(z, 3).freedom for z in Z.T)
    cosines = np.array([[np.cos(np.pi * j * (s + 0.5) / 77) for s in range(77)] for j in range(1, nu + 1)])
    omega = 2 / 77 * (cosines @ Z).T @ (cosines @ Z) / nu
    w = 77 * Z.mean(axis=0) @ np.linalg.inv(omega) @ Z.mean(axis=0) * (nu - 1) / (2 * nu)
    assert found.statistic == pytest.approx(w) and found.freedom == nu - 1
    assert found.p_value == pytest.approx(fisher.sf(w, 2, nu - 1))


@pytest.mark.parametrize("n_periods", [12, 120])
def test_size_of_giacomini_white_on_average_under_serial_correlation(n_periods):
    """AR(.5) losses: without a long-run variance 27 % at 120 periods."""
    rng, count = np.random.default_rng(5), 0
    for _ in range(800):
        d = np.zeros(n_periods + 20)
        for t in range(1, len(d)):
            d[t] = 0.5 * d[t - 1] + rng.normal()
        d = d[20:]
        p = giacomini_white(5 + d, np.full(n_periods, 5.0), range(n_periods), conditional=False).p_value
        count += (1.0 if p is None else p) < 0.05
    assert count / 800 < 0.08


def test_no_test_where_none_can_be_made():
    y, ours, theirs, period = panel(11)
    found = giacomini_white((y - ours) ** 2, (y - theirs) ** 2, period, conditional=False)
    assert found.statistic is None and found.outcome == "n/a (T=11, 12 needed)"
    y, ours, _, period = panel(12)
    assert (
        giacomini_white(y, ours, period).outcome == "n/a (T=11, 12 needed)"
    )  # one period is the first state
    assert giacomini_white(y[:1], ours[:1], period[:1], conditional=False).outcome == "n/a (T=1, 12 needed)"
    y, ours, _, period = panel()
    assert giacomini_white(y, y, period).outcome == "same losses"


def test_skill_is_found():
    y, good, poor, when = panel(150, skill=0.5)
    loss, base = (y - good) ** 2, (y - poor) ** 2
    found = giacomini_white(loss, base, when)
    assert found.p_value < 0.01
    frame = pd.DataFrame({"loss": loss, "base": base, "when": when}).sample(frac=1, random_state=0)
    again = giacomini_white(frame["loss"], frame["base"], frame["when"])
    assert again.statistic == pytest.approx(found.statistic)
