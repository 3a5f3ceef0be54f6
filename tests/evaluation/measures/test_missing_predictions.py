"""A row without a prediction is left out of outcomes, ranks, groups and portfolios: the figures are those of the other rows."""

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation.inference.regressions import calibration, fama_macbeth
from peerattn.evaluation.measures.information import ic, rank_ic
from peerattn.evaluation.measures.metrics import (
    mae,
    moments_within,
    r2_out_of_sample,
    r2_within_period,
    rmse,
)
from peerattn.evaluation.measures.portfolios import quantile_portfolios
from peerattn.evaluation.measures.valuation import median_ape, share_near
from peerattn.exceptions import InputError

RNG = np.random.default_rng(0)
PERIOD = np.repeat(np.arange(2001, 2015), 20)
FIRM = np.tile(np.arange(20), 14)
Y = RNG.normal(size=280)
FORECAST = 0.5 * Y + RNG.normal(size=280)
FORECAST[RNG.random(280) < 0.2] = np.nan
FORECAST[PERIOD == 2003] = np.nan  # a whole period
Y[RNG.random(280) < 0.1] = np.nan
MEASURES = {
    "ic": lambda y, p, t: ic(y, p, t).mean,
    "rank ic": lambda y, p, t: rank_ic(y, p, t).mean,
    "rmse": lambda y, p, t: rmse(y, p),
    "rmse, periods equal": rmse,
    "mae": mae,
    "r2": lambda y, p, t: r2_out_of_sample(y, p, 0.1, t),
    "r2 within": r2_within_period,
    "fama macbeth": lambda y, p, t: fama_macbeth(y, p, t).slope,
    "calibration": lambda y, p, t: calibration(y, p, t).slope,
    "median error": lambda y, p, t: median_ape(y, p),
    "share near": lambda y, p, t: share_near(y, p),
}


@pytest.mark.parametrize("name", MEASURES)
def test_figures_are_those_of_the_rows_with_a_prediction(name):
    kept = ~np.isnan(FORECAST)
    measure = MEASURES[name]
    expected = measure(Y[kept], FORECAST[kept], PERIOD[kept])
    assert measure(Y, FORECAST, PERIOD) == pytest.approx(expected, abs=1e-12)


def test_counts_are_of_rows_with_both():
    both = ~np.isnan(FORECAST) & ~np.isnan(Y)
    counts = pd.Series(both).groupby(PERIOD).sum()
    assert moments_within(Y, FORECAST, PERIOD)["n"].tolist() == counts[counts > 0].tolist()
    assert calibration(Y, FORECAST, PERIOD).nobs == both.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_firm_without_a_prediction_is_in_no_portfolio(weighted):
    kept = ~np.isnan(FORECAST)
    weight = np.random.default_rng(1).uniform(1, 2, size=280)
    made = [
        quantile_portfolios(
            Y[rows] / 100,
            FORECAST[rows],
            FIRM[rows],
            PERIOD[rows],
            n_quantiles=3,
            weight=weight[rows] if weighted else None,
        )
        for rows in (np.ones(280, dtype=bool), kept)
    ]
    pd.testing.assert_frame_equal(made[0].returns, made[1].returns)
    pd.testing.assert_series_equal(made[0].turnover, made[1].turnover)


@pytest.mark.parametrize("measure", [ic, calibration, r2_within_period])
def test_what_cannot_be_scored(measure):
    with pytest.raises(InputError, match="predictions: expected some where the outcome is known"):
        measure([1.0, np.nan], [np.nan, 1.0], [1, 1])
    with pytest.raises(InputError, match="expected finite numbers"):
        measure([1.0, 2.0, 3.0], [1.0, np.inf, 2.0], [1, 1, 1])


def test_series_that_never_differ_have_no_ratio():
    """Their standard deviation is rounding: 0.1 + 0.2 is not 0.3."""
    y = np.tile([0.0, 0.1, 0.3], 14) + np.repeat(np.arange(14) / 7, 3)
    period = np.repeat(np.arange(14), 3)
    assert np.isnan(ic(y, y, period).icir)
    found = quantile_portfolios(y / 10, y, np.tile([1, 2, 3], 14), period, n_quantiles=3)
    assert found.spread.std() < 1e-15 and np.isnan(found.sharpe)
