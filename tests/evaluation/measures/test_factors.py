"""Factors are those of the time in which outcomes are realised, whatever the two are labelled with."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from peerattn import WalkForward, compare
from peerattn.evaluation.measures.factors import match_factors
from peerattn.exceptions import InputError, PeerAttnWarning
from peerattn.models import OwnCharacteristicsRegressor

MONTHS = pd.period_range("2011-11", periods=6, freq="M")
FACTORS = np.linspace(-0.02, 0.03, 6)
SPELLED = {
    "periods": MONTHS,
    "month ends": MONTHS.to_timestamp("M").normalize(),
    "business days": MONTHS.to_timestamp("M").normalize() - pd.offsets.BDay(1),
    "numbers": pd.Index(MONTHS.year * 100 + MONTHS.month),
    "text": pd.Index(MONTHS.astype(str)),
    "French's text": pd.Index([f" {p.year}{p.month:02d}" for p in MONTHS]),
}


def frame(index, values=FACTORS):
    return pd.DataFrame({"mkt": values}, index=index)


@pytest.mark.parametrize("theirs", SPELLED)
@pytest.mark.parametrize("ours", ["periods", "month ends", "business days", "numbers"])
def test_the_next_month_is_found_however_months_are_spelled(ours, theirs):
    labels = SPELLED[ours][:5]
    found = match_factors(frame(SPELLED[theirs]), labels, outcome_horizon=1)
    assert found.index.equals(labels) and np.allclose(found["mkt"], FACTORS[1:])
    assert np.allclose(match_factors(frame(SPELLED[theirs]), labels, outcome_horizon=0)["mkt"], FACTORS[:5])


@pytest.mark.parametrize("periods", [[200112], [200112, 200202, 200204], ["2001-12", "2002-02"]])
def test_periods_with_gaps_are_those_of_their_labels(periods):
    months = pd.period_range("2001-01", periods=24, freq="M")
    factors = pd.DataFrame({"mkt": np.arange(24) / 1000}, months)
    for horizon in (0, 1):
        found = match_factors(factors, pd.Index(periods), outcome_horizon=horizon)["mkt"]
        expected = factors["mkt"][pd.PeriodIndex([pd.Period(str(t).replace("-", "")[:6], "M") + horizon for t in periods])]
        np.testing.assert_allclose(found, expected)


def test_months_are_no_numbers():
    """Month 372 since 1970 is January 2001."""
    factors = pd.DataFrame({"mkt": 0.01}, pd.period_range("2001-01", periods=9, freq="M"))
    with pytest.raises(InputError, match="not read as a period such as 372"):
        match_factors(factors, pd.Index([372, 373, 380]), outcome_horizon=0)


def test_longer_horizons_are_compounded():
    labels = SPELLED["numbers"][:3]
    found = match_factors(frame(MONTHS), labels, outcome_horizon=3)["mkt"]
    assert np.allclose(found, [np.prod(1 + FACTORS[k + 1 : k + 4]) - 1 for k in range(3)])


def test_days_are_counted_by_the_dates_of_the_factors_and_years_and_quarters_by_the_calendar():
    days = pd.to_datetime(["2012-01-05", "2012-01-06", "2012-01-09", "2012-01-10"])
    found = match_factors(frame([20120105, 20120106, 20120109, 20120110], FACTORS[:4]), days[:3], outcome_horizon=1)
    assert np.allclose(found["mkt"], FACTORS[1:4])
    years = pd.Index([2001, 2002])
    assert np.allclose(match_factors(frame([2001, 2002, 2003], FACTORS[:3]), years, outcome_horizon=1)["mkt"], FACTORS[1:3])
    quarters = pd.Index([200903, 200906, 200909])
    table = frame(pd.period_range("2009Q1", periods=4, freq="Q"), FACTORS[:4])
    assert np.allclose(match_factors(table, quarters, outcome_horizon=1)["mkt"], FACTORS[1:4])


@pytest.mark.parametrize(
    ("factors", "labels", "options", "named"),
    [
        (frame(MONTHS), MONTHS[:3], {}, "outcome_horizon"),
        (frame(MONTHS), MONTHS[:3], {"outcome_horizon": 1.5}, "whole number"),
        (frame(MONTHS), MONTHS, {"outcome_horizon": 1}, "2012-05"),
        (frame(MONTHS).iloc[::2], MONTHS[:3], {"outcome_horizon": 0}, "2011-12"),
        (frame(MONTHS, [0.0, np.nan, *FACTORS[2:]]), MONTHS[:3], {"outcome_horizon": 0}, "2011-12"),
        (frame(MONTHS, 100 * (FACTORS + 1)), MONTHS[:3], {"outcome_horizon": 0}, "per cent"),
        (frame(MONTHS), pd.period_range("2011Q4", periods=2, freq="Q"), {"outcome_horizon": 0}, "more than once"),
        (frame(list("abcdef")), MONTHS[:3], {"outcome_horizon": 0}, "'?a'? is not read"),
        (frame(list("abcdef")), pd.Index(list("abc")), {"outcome_horizon": 1}, "cannot be counted on"),
        (frame(MONTHS).astype(str), MONTHS[:3], {"outcome_horizon": 0}, "a column of numbers"),
    ],
)  # fmt: skip
def test_what_does_not_match_is_refused_by_name(factors, labels, options, named):
    factors.attrs["path"] = "'french.csv'"
    with pytest.raises(InputError, match=named):
        match_factors(factors, labels, **options)


def test_a_spread_that_is_the_market_of_the_month_after_has_no_alpha():
    """``ret_next`` of month t happens in t + 1: matched to the factors of t, its alpha would be the whole spread."""
    rng = np.random.default_rng(0)
    months = pd.period_range("2001-01", periods=61, freq="M")
    market = 0.03 + 0.04 * rng.normal(size=61)
    index = pd.MultiIndex.from_product([range(30), months[:-1]], names=["firm", "period"])
    beta = np.repeat(np.linspace(0, 2, 30), 60)
    y = pd.Series(beta * np.tile(market[1:], 30) + 0.01 * rng.normal(size=1800), index, name="ret_next")
    X = pd.DataFrame({"beta": beta}, index=index)
    models, split = {"OLS": OwnCharacteristicsRegressor()}, WalkForward(40, 40)
    dated = compare(models, X, y, cv=split, factors=frame(months, market), decomposition=False, verbose=False).portfolios("OLS")
    late = compare(
        models, X, y, cv=split, factors=frame(months, market), outcome_horizon=0, decomposition=False, verbose=False
    ).portfolios("OLS")
    assert abs(dated.alpha.mean) < 0.1 * late.alpha.mean and dated.betas["mkt"] > 1 > abs(late.betas["mkt"])
    with pytest.raises(InputError, match="2006-01"):
        compare(models, X, y, cv=split, factors=frame(months[:-1], market[:-1]), decomposition=False, verbose=False)
    with pytest.raises(InputError, match="outcome_horizon"):
        compare(models, X, y.rename("ret"), cv=split, factors=frame(months, market), decomposition=False, verbose=False)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.UnitWarning")
def test_returns_in_per_cent_are_noted_or_refused():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(9), range(2001, 2013)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=108)}, index=index)
    y = pd.Series(10 * rng.normal(size=108), index, name="ret_next")
    models, options = {"OLS": OwnCharacteristicsRegressor()}, {"cv": WalkForward(2, 2), "decomposition": False, "verbose": False}
    found = compare(models, X, y, **options)
    assert not found.panel.is_return and any("per cent" in note for note in found.notes)
    assert compare(models, X, y / 100, **options).panel.is_return
    with pytest.raises(InputError, match="is_return.*per cent"):
        compare(models, X, y, is_return=True, **options)


@pytest.mark.parametrize("horizon", [0, 1])
def test_factors_of_days_beside_a_panel_of_weeks_warn_unless_outcomes_reach_over_them(horizon):
    days = pd.bdate_range("2019-12-02", periods=100)
    daily = frame(days, np.full(100, 0.01))
    weeks = pd.date_range("2020-01-03", periods=8, freq="W-FRI")
    with pytest.warns(PeerAttnWarning, match="7 days apart, rows of the factors 1, of which one is matched"):
        match_factors(daily, weeks, outcome_horizon=horizon)
    over_the_week = match_factors(daily, weeks, outcome_horizon=5)
    np.testing.assert_allclose(over_the_week["mkt"], 1.01**5 - 1)
    match_factors(daily, days[:20], outcome_horizon=horizon)
    match_factors(frame(weeks, np.zeros(8)), weeks[:6], outcome_horizon=horizon)
