import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from peerattn.evaluation import WalkForward, compare, conformal_intervals
from peerattn.exceptions import InputError


def panel(n_periods=40, seed=0):
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(2000, 2000 + n_periods), rng.integers(3, 30, n_periods))
    scale = rng.uniform(0.5, 2, n_periods)[period - 2000]
    return scale * rng.normal(size=len(period)), 0.1 * rng.normal(size=len(period)), period


def literal_margin(scores, level):
    """The smallest score that reaches the level, by trying each."""
    for q in sorted(np.concatenate(scores)):
        if sum(np.mean(s <= q) for s in scores) / (len(scores) + 1) >= level - 1e-9:
            return q
    return np.inf


@pytest.mark.parametrize(("horizon", "window"), [(1, None), (3, None), (1, 12)])
def test_margins_against_the_definition(horizon, window):
    y, forecast, period = panel()
    found = conformal_intervals(y, forecast, period, level=0.9, horizon=horizon, calibration_periods=window)
    first = 2000 + 9 - 1 + horizon
    assert list(found.by_period.index) == list(range(first, 2040))
    for t in (first, 2025, 2039):
        before = list(range(2000, t - horizon + 1))[-(window or 100) :]
        q = literal_margin([np.abs(y - forecast)[period == k] for k in before], 0.9)
        rows = found.frame[found.frame["period"] == t]
        assert np.allclose(rows["upper"], forecast[period == t] + q)
        assert np.allclose(rows["lower"], forecast[period == t] - q)
        inside = np.abs(y - forecast)[period == t] <= q
        assert found.by_period.loc[t, "coverage"] == pytest.approx(inside.mean())
        assert found.by_period.loc[t, "calibrated_on"] == len(before)
    assert "coverage" in repr(found) and "Coverage" in str(found) and "<table" in found._repr_html_()


def test_nineteen_blocks_are_needed_at_95_percent():
    y, forecast, period = panel(20)
    found = conformal_intervals(y, forecast, period)
    assert list(found.by_period.index) == [2019] and found.by_period["calibrated_on"].tolist() == [19]
    short = period < 2019
    with pytest.raises(
        InputError, match="19 periods have outcomes; at level 0.95 an interval needs 19 calib"
    ):
        conformal_intervals(y[short], forecast[short], period[short])
    with pytest.raises(InputError, match="calibration_periods=18 are too few: at level 0.95 at least 19"):
        conformal_intervals(y, forecast, period, calibration_periods=18)
    assert conformal_intervals(y, forecast, period, level=0.8).by_period.index[0] == 2004


def test_coverage_holds_where_periods_differ():
    """Periods of very different spread: a firm of a new period is covered as often as promised."""
    covered = []
    for seed in range(150):
        y, forecast, period = panel(25, seed)
        last = conformal_intervals(y, forecast, period, level=0.9).by_period["coverage"].iloc[-1]
        covered.append(last)
    assert 0.88 < np.mean(covered) < 0.97


def test_two_quantiles_are_widened_or_narrowed():
    rng = np.random.default_rng(1)
    period = np.repeat(np.arange(30), 40)
    y, spread = rng.normal(size=1200), 1.0 + (np.arange(1200) % 2)
    y = y * spread
    wide = conformal_intervals(y, (-9 * spread, 9 * spread), period, level=0.9)
    exact = conformal_intervals(y, (-1.645 * spread, 1.645 * spread), period, level=0.9)
    assert wide.margin < -5 and abs(exact.margin) < 0.3
    assert exact.frame["upper"].sub(exact.frame["lower"]).nunique() > 2
    assert 0.87 < exact.coverage < 0.95


def test_unknown_outcomes_get_an_interval_and_a_comparison_gives_its_own():
    rng = np.random.default_rng(3)
    index = pd.MultiIndex.from_product([range(15), range(2000, 2040)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=600)}, index=index)
    y = (X["size"] + rng.normal(size=600)).rename("roa").where(index.get_level_values(1) != 2039)
    result = compare(
        {"OLS": LinearRegression()}, X, y.fillna({(3, 2039): 1.0}), cv=WalkForward(30, 30), verbose=False
    )
    found = result.intervals("OLS", level=0.9)
    last = found.frame[found.frame["period"] == 2039]
    assert len(last) == 15 and last["covered"].notna().sum() == 1 and np.isfinite(last["upper"]).all()
    assert found.margin > 0 and set(found.frame.columns) >= {"firm", "lower", "upper"}
    with pytest.raises(InputError, match="no model is named 'OSL'.*'OLS'"):
        result.intervals("OSL")


def test_bad_input():
    y, forecast, period = panel()
    for arguments, message in (
        ((y[:3], forecast, period), "one length"),
        ((y, np.where(period == 2003, np.nan, forecast), period), "finite in every row"),
    ):
        with pytest.raises(InputError, match=message):
            conformal_intervals(*arguments)
    with pytest.raises(InputError, match="level: expected a number between 0 and 1"):
        conformal_intervals(y, forecast, period, level=95)
