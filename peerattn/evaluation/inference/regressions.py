"""Outcomes regressed on predictions: Fama and MacBeth's slope, and calibration."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import MIN_PERIODS, newey_west_lags, p_words
from peerattn.evaluation.measures.metrics import demean, scored_rows
from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.exceptions import InputError


@dataclass(frozen=True)
class FamaMacBethSlope:
    """Mean slope of outcomes on predictions over periods.

    Attributes
    ----------
    slope : float
        1 where a unit more predicted is a unit more on average; NaN where predictions never differ.
    t, p_value : float or None
        Newey–West t-statistic of the mean slope against zero; None with fewer than ten periods.
    r2 : float
        Mean over periods of the regressions' R².
    lags : int
    by_period : Series
        Slope of each period with at least three firms and differing predictions.
    """

    slope: float
    t: float | None
    p_value: float | None
    r2: float
    lags: int
    by_period: pd.Series

    def __repr__(self) -> str:
        t = f"n/a (T={len(self.by_period)})" if self.t is None else f"{self.t:.2f}"
        return f"FamaMacBethSlope(slope={self.slope:.4g}, t={t}, periods={len(self.by_period)})"


def fama_macbeth(outcome: Any, prediction: Any, period: Any, *, horizon: int = 1) -> FamaMacBethSlope:
    r"""Return the Fama–MacBeth slope of the outcome on the prediction.

    .. math:: y_{it} = a_t + b_t \hat y_{it} + e_{it}, \qquad \bar b = \tfrac{1}{T} \sum_t b_t

    one regression for each period, by ``linearmodels``; the variance of the mean slope is Newey and West's with
    T − 1 degrees of freedom.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        NaN outcomes are left out.
    period : array-like of length n
        Period labels; periods with fewer than three firms, or whose predictions do not differ, have no slope.
    horizon : int, default 1
        Forecast horizon in periods; it sets the least number of lags, horizon − 1.

    Returns
    -------
    FamaMacBethSlope

    References
    ----------
    Fama, E. and MacBeth, J. (1973), Risk, return, and equilibrium: empirical tests, Journal of Political Economy
    81(3), 607–636. Newey, W. and West, K. (1987), Econometrica 55(3), 703–708.

    Examples
    --------
    >>> fama_macbeth([1.0, 2.0, 4.0, 0.0, 3.0, 3.0], [1.0, 2.0, 3.0] * 2, [1, 1, 1, 2, 2, 2])
    FamaMacBethSlope(slope=1.5, t=n/a (T=2), periods=2)
    """
    codes, periods = sorted_periods(period)
    y, forecast, group = scored_rows(outcome, prediction, codes)
    group = group.astype(int)
    size = np.bincount(group)
    spread = np.sqrt(np.bincount(group, weights=demean(forecast, group) ** 2) / np.maximum(size, 1))
    typical = np.sqrt(np.bincount(group, weights=forecast**2) / np.maximum(size, 1))
    usable = (size >= 3) & (spread > 1e-12 * typical)
    kept = usable[group]
    labels = periods[: len(size)][usable]
    if not kept.any():
        return FamaMacBethSlope(float("nan"), None, None, float("nan"), 0, pd.Series(dtype=float))
    from linearmodels.panel import FamaMacBeth

    lags = newey_west_lags(len(labels), horizon)
    index = pd.MultiIndex.from_arrays([np.arange(kept.sum()), group[kept]], names=["row", "period"])
    X = pd.DataFrame({"constant": 1.0, "prediction": forecast[kept]}, index=index)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "no inference with one regression": none is made under ten periods
        fit = FamaMacBeth(pd.Series(y[kept], index=index, name="outcome"), X).fit(
            cov_type="kernel", kernel="bartlett", bandwidth=lags, debiased=True
        )
    slopes = pd.Series(fit.all_params["prediction"].to_numpy(dtype=float), index=labels)
    tested = len(slopes) >= MIN_PERIODS and float(fit.std_errors["prediction"]) > 0
    t, p = (float(fit.tstats["prediction"]), float(fit.pvalues["prediction"])) if tested else (None, None)
    return FamaMacBethSlope(
        float(fit.params["prediction"]), t, p, float(np.mean(fit.avg_rsquared)), lags, slopes
    )


@dataclass(frozen=True)
class Calibration:
    """Whether outcomes are on average what was predicted.

    Attributes
    ----------
    intercept, slope : float
        Of outcomes on predictions; 0 and 1 where predictions are calibrated.
    intercept_se, slope_se : float or None
        Clustered by period; None with fewer than ten periods.
    p_value : float or None
        Of both being 0 and 1 (Wald).
    bins : DataFrame
        Mean prediction, mean outcome and number of rows by quantile of the prediction.
    """

    intercept: float
    slope: float
    intercept_se: float | None
    slope_se: float | None
    p_value: float | None
    bins: pd.DataFrame

    def __repr__(self) -> str:
        p = "n/a" if self.p_value is None else p_words(self.p_value)
        return f"Calibration(intercept={self.intercept:.4g}, slope={self.slope:.4g}; of 0 and 1: {p})"


def calibration(outcome: Any, prediction: Any, period: Any, *, n_bins: int = 10) -> Calibration:
    r"""Return the calibration of predictions: Mincer and Zarnowitz's regression, and means by bin.

    .. math:: y_{it} = a + b \hat y_{it} + e_{it}, \qquad H_0: a = 0,\ b = 1

    with variances clustered by period.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        NaN outcomes are left out.
    period : array-like of length n
        Period labels.
    n_bins : int, default 10
        Quantile groups of the prediction, over all rows; equal predictions share a group.

    Returns
    -------
    Calibration
        Slope NaN where predictions do not differ.

    References
    ----------
    Mincer, J. and Zarnowitz, V. (1969), The evaluation of economic forecasts, in: Economic Forecasts and
    Expectations, NBER.

    Examples
    --------
    >>> calibration([0.0, 2.0, 4.0], [0.0, 1.0, 2.0], [1, 2, 3], n_bins=3)
    Calibration(intercept=0, slope=2; of 0 and 1: n/a)
    """
    if n_bins < 1:
        raise InputError(f"n_bins must be at least 1, got {n_bins!r}.")
    y, forecast, group = scored_rows(outcome, prediction, sorted_periods(period)[0])
    frame = pd.DataFrame({"prediction": forecast, "outcome": y})
    at = quantile_groups(forecast, np.zeros(len(y), dtype=int), n_bins)
    bins = frame.groupby(at).mean().assign(rows=np.bincount(at)[np.unique(at)]).rename_axis("bin")
    if np.ptp(forecast) <= 1e-12 * np.max(np.abs(forecast)):
        return Calibration(float(np.mean(y - forecast)), float("nan"), None, None, None, bins)
    from statsmodels.regression.linear_model import OLS

    design = np.column_stack([np.ones(len(y)), forecast])
    fit = OLS(y, design)
    if len(np.unique(group)) < MIN_PERIODS:
        a, b = (round(float(value), 12) + 0.0 for value in fit.fit().params)
        return Calibration(a, b, None, None, None, bins)
    clustered = fit.fit(cov_type="cluster", cov_kwds={"groups": group})
    wald = clustered.wald_test((np.eye(2), np.array([0.0, 1.0])), use_f=True, scalar=True)
    (a, b), (a_se, b_se) = map(float, clustered.params), map(float, clustered.bse)
    return Calibration(a, b, a_se, b_se, float(wald.pvalue), bins)


def quantile_groups(values: np.ndarray, group: np.ndarray, n: int) -> np.ndarray:
    """Return the quantile group 0, …, n − 1 of each value within its group; equal values share one.

    >>> quantile_groups(np.array([5.0, 1.0, 3.0, 3.0]), np.zeros(4, dtype=int), 4).tolist()
    [3, 0, 2, 2]
    """
    ranks = pd.Series(values).groupby(group).rank().to_numpy()
    size = np.bincount(group)[group]
    return np.minimum(((ranks - 0.5) * n / size).astype(int), n - 1)
