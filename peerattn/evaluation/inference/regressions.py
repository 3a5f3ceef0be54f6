"""Outcomes regressed on predictions: Fama and MacBeth's slope, and calibration."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import MIN_PERIODS, MeanTest, mean_test, p_words
from peerattn.evaluation.measures.metrics import demean, scored_rows
from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.exceptions import InputError


@dataclass(frozen=True)
class FamaMacBethSlope:
    """Mean slope of outcomes on predictions over periods.

    Attributes
    ----------
    test : MeanTest
        Of the mean slope against zero, by :func:`~peerattn.evaluation.inference.forecast_tests.mean_test`.
    r2 : float
        Mean over periods of the regressions' R².
    by_period : Series
        Slope of each period with at least three firms and differing predictions.
    """

    test: MeanTest
    r2: float
    by_period: pd.Series

    @property
    def slope(self) -> float:
        """Mean slope, 1 where a unit more predicted is a unit more on average; NaN where predictions never differ."""
        return self.test.mean

    @property
    def t(self) -> float | None:
        """The t-statistic of the mean slope against zero; None where no test is made (``test.reason``)."""
        return self.test.t

    @property
    def p_value(self) -> float | None:
        """Two-sided p-value of a mean slope of zero."""
        return self.test.p_value

    def __repr__(self) -> str:
        t = self.test.reason if self.t is None else f"{self.t:.2f}"
        return f"FamaMacBethSlope(slope={self.slope:.4g}, t={t}, periods={len(self.by_period)})"


def fama_macbeth(outcome: Any, prediction: Any, period: Any, *, horizon: int = 1) -> FamaMacBethSlope:
    r"""Return the Fama–MacBeth slope of the outcome on the prediction.

    .. math:: y_{it} = a_t + b_t \hat y_{it} + e_{it}, \qquad \bar b = \tfrac{1}{T} \sum_t b_t

    one regression for each period, by ``linearmodels``; the test of the mean slope is ``mean_test``: Student's t with an
    equal-weighted cosine variance.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        NaN outcomes are left out.
    period : array-like of length n
        Period labels; periods with fewer than three firms, or whose predictions do not differ, have no slope.
    horizon : int, default 1
        Forecast horizon in periods, for the variance of the mean slope.

    Returns
    -------
    FamaMacBethSlope

    References
    ----------
    Fama, E. and MacBeth, J. (1973), Risk, return, and equilibrium: empirical tests, Journal of Political Economy
    81(3), 607–636. Lazarus, E., Lewis, D., Stock, J. and Watson, M. (2018), HAR inference, Journal of Business & Economic
    Statistics 36(4), 541–559.

    Examples
    --------
    >>> fama_macbeth([1.0, 2.0, 4.0, 0.0, 3.0, 3.0], [1.0, 2.0, 3.0] * 2, [1, 1, 1, 2, 2, 2])
    FamaMacBethSlope(slope=1.5, t=n/a (T=2, 12 needed), periods=2)
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
        none = pd.Series(dtype=float)
        return FamaMacBethSlope(mean_test(none, horizon), float("nan"), none)
    from linearmodels.panel import FamaMacBeth

    index = pd.MultiIndex.from_arrays([np.arange(kept.sum()), group[kept]], names=["row", "period"])
    X = pd.DataFrame({"constant": 1.0, "prediction": forecast[kept]}, index=index)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "no inference with one regression": its tests are not used
        fit = FamaMacBeth(pd.Series(y[kept], index=index, name="outcome"), X).fit()
    slopes = pd.Series(fit.all_params["prediction"].to_numpy(dtype=float), index=labels)
    return FamaMacBethSlope(mean_test(slopes, horizon), float(np.mean(fit.avg_rsquared)), slopes)


@dataclass(frozen=True)
class Calibration:
    """Whether outcomes are on average what was predicted.

    Attributes
    ----------
    intercept, slope : float
        Of outcomes on predictions; 0 and 1 where predictions are calibrated.
    intercept_se, slope_se : float or None
        Clustered by period, and by firm where firms were given; None with fewer than twelve clusters of either kind.
    p_value : float or None
        Of both being 0 and 1: Hotelling's F(2, G − 2), G the smaller number of clusters.
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


def calibration(
    outcome: Any, prediction: Any, period: Any, *, firm: Any = None, n_bins: int = 10
) -> Calibration:
    r"""Return the calibration of predictions: Mincer and Zarnowitz's regression, and means by bin.

    .. math:: y_{it} = a + b \hat y_{it} + e_{it}, \qquad H_0: a = 0,\ b = 1

    with variances clustered by period and firm: rows of one period share its shocks, rows of one firm its level.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        NaN outcomes are left out.
    period : array-like of length n
        Period labels.
    firm : array-like of length n, optional
        Firm labels; without them variances are clustered by period alone, which takes rows of one firm as independent.
    n_bins : int, default 10
        Quantile groups of the prediction, over all rows; equal predictions share a group.

    Returns
    -------
    Calibration
        Slope NaN where predictions do not differ.

    References
    ----------
    Mincer, J. and Zarnowitz, V. (1969), The evaluation of economic forecasts, in: Economic Forecasts and
    Expectations, NBER. Cameron, A. C., Gelbach, J. and Miller, D. (2011), Robust inference with multiway clustering, Journal
    of Business & Economic Statistics 29(2), 238–249.

    Examples
    --------
    >>> calibration([0.0, 2.0, 4.0], [0.0, 1.0, 2.0], [1, 2, 3], n_bins=3)
    Calibration(intercept=0, slope=2; of 0 and 1: n/a)
    """
    if n_bins < 1:
        raise InputError(f"n_bins must be at least 1, got {n_bins!r}.")
    codes = sorted_periods(period)[0]
    firms = codes if firm is None else pd.factorize(np.asarray(firm))[0]
    y, forecast, *clusters = scored_rows(outcome, prediction, codes, firms)
    groups = np.column_stack(clusters[: 1 if firm is None else 2]).astype(int)
    frame = pd.DataFrame({"prediction": forecast, "outcome": y})
    at = quantile_groups(forecast, np.zeros(len(y), dtype=int), n_bins)
    bins = frame.groupby(at).mean().assign(rows=np.bincount(at)[np.unique(at)]).rename_axis("bin")
    if np.ptp(forecast) <= 1e-12 * np.max(np.abs(forecast)):
        return Calibration(float(np.mean(y - forecast)), float("nan"), None, None, None, bins)
    from statsmodels.regression.linear_model import OLS

    design = np.column_stack([np.ones(len(y)), forecast])
    fit = OLS(y, design)
    fewest = min(len(np.unique(group)) for group in groups.T)
    a, b = (round(float(value), 12) + 0.0 for value in fit.fit().params)
    if fewest < MIN_PERIODS:
        return Calibration(a, b, None, None, None, bins)
    clustered = fit.fit(cov_type="cluster", cov_kwds={"groups": groups.squeeze()})
    a_se, b_se = (float(error) for error in clustered.bse)
    if not (a_se > 0 and b_se > 0):  # two-way variances may come out negative
        return Calibration(a, b, None, None, None, bins)
    gap = clustered.params - [0.0, 1.0]
    wald = float(gap @ np.linalg.solve(clustered.cov_params(), gap))
    from scipy.stats import f as fisher

    hotelling = wald / 2 * (fewest - 2) / (fewest - 1)
    return Calibration(a, b, a_se, b_se, float(fisher.sf(hotelling, 2, fewest - 2)), bins)


def quantile_groups(values: np.ndarray, group: np.ndarray, n: int) -> np.ndarray:
    """Return the quantile group 0, …, n − 1 of each value within its group; equal values share one.

    >>> quantile_groups(np.array([5.0, 1.0, 3.0, 3.0]), np.zeros(4, dtype=int), 4).tolist()
    [3, 0, 2, 2]
    """
    ranks = pd.Series(values).groupby(group).rank().to_numpy()
    size = np.bincount(group)[group]
    return np.minimum(((ranks - 0.5) * n / size).astype(int), n - 1)
