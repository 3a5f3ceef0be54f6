r"""How good predictions are: the numbers of a comparison, each with its formula and its source.

All functions take outcomes and predictions row by row and leave out rows whose outcome is NaN (unknown).
Sums run over all scored rows (i, t), so a period counts as often as it has firms; the rank correlation
counts each period once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.forecast_tests import MIN_PERIODS, hac_mean, newey_west_lags
from peerattn.evaluation.periods import sorted_periods
from peerattn.exceptions import InputError


def _scored(*columns: Any) -> list[np.ndarray]:
    """Return float columns of equal length without the rows whose first value, the outcome, is unknown."""
    arrays = [np.asarray(column, dtype=float).reshape(-1) for column in columns]
    if len({len(array) for array in arrays}) != 1:
        lengths = [len(array) for array in arrays]
        raise InputError(f"outcomes and predictions must have one length, got {lengths}.")
    known = ~np.isnan(arrays[0])
    if not known.any():
        raise InputError("no outcome is known, so nothing can be scored; pass at least one that is not NaN.")
    return [array[known] for array in arrays]


def rmse(outcome: Any, prediction: Any) -> float:
    r"""Return the root mean squared error.

    .. math:: \sqrt{\tfrac{1}{N} \sum_{it} (y_{it} - \hat y_{it})^2}

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; NaN outcomes are left out.

    Returns
    -------
    float

    Examples
    --------
    >>> rmse([1.0, 2.0, float("nan")], [4.0, 5.0, 9.0])
    3.0
    """
    y, forecast = _scored(outcome, prediction)
    return float(np.sqrt(np.mean((y - forecast) ** 2)))


def mae(outcome: Any, prediction: Any) -> float:
    r"""Return the mean absolute error.

    .. math:: \tfrac{1}{N} \sum_{it} |y_{it} - \hat y_{it}|

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; NaN outcomes are left out.

    Returns
    -------
    float

    Examples
    --------
    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    y, forecast = _scored(outcome, prediction)
    return float(np.mean(np.abs(y - forecast)))


def r2_out_of_sample(outcome: Any, prediction: Any, benchmark: Any = 0.0) -> float:
    r"""Return the share of squared error saved against a benchmark forecast.

    .. math:: R^2 = 1 - \frac{\sum_{it} (y_{it} - \hat y_{it})^2}{\sum_{it} (y_{it} - b_{it})^2}

    With b = 0 this is the measure of Gu, Kelly and Xiu (2020); with b the prevailing mean (the mean of the
    training outcomes known at the origin of the forecast) that of Campbell and Thompson (2008).

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; NaN outcomes are left out.
    benchmark : float or array-like of length n, default 0.0
        The benchmark forecast of each row.

    Returns
    -------
    float
        1 is perfect, 0 as good as the benchmark, negative worse; NaN where the benchmark has no error.

    References
    ----------
    Campbell, J. and Thompson, S. (2008), Predicting excess stock returns out of sample, Review of Financial
    Studies 21(4), 1509–1531. Gu, S., Kelly, B. and Xiu, D. (2020), Empirical asset pricing via machine
    learning, Review of Financial Studies 33(5), 2223–2273, eq. 19.

    Examples
    --------
    >>> r2_out_of_sample([1.0, 3.0], [1.0, 2.0])
    0.9
    >>> r2_out_of_sample([1.0, 3.0], [1.0, 2.0], benchmark=2.0)
    0.5
    """
    base = np.asarray(benchmark, dtype=float).reshape(-1)
    y, forecast, base = _scored(outcome, prediction, np.broadcast_to(base, (np.size(outcome),)))
    return _share_saved(np.sum((y - forecast) ** 2), np.sum((y - base) ** 2))


def r2_within_period(outcome: Any, prediction: Any, period: Any) -> float:
    r"""Return the R² of differences between firms of the same period.

    .. math::

        R^2 = 1 - \frac{\sum_t \sum_i [(y_{it} - \bar y_t) - (\hat y_{it} - \bar{\hat y}_t)]^2}
                       {\sum_t \sum_i (y_{it} - \bar y_t)^2}

    Means run over the scored firms of period t. It is no squared correlation, and no slope is fitted on
    test rows: a prediction that ranks firms backwards is punished.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; NaN outcomes are left out.
    period : array-like of length n
        Period labels.

    Returns
    -------
    float
        NaN where no outcome differs from its period's mean.

    Examples
    --------
    >>> r2_within_period([1.0, 3.0, 10.0, 14.0], [0.0, 1.0, 5.0, 7.0], [2001, 2001, 2002, 2002])
    0.75
    """
    codes, _ = sorted_periods(period)
    y, forecast, group = _scored(outcome, prediction, codes)
    group = group.astype(int)
    deviation, miss = _demean(y, group), _demean(y - forecast, group)
    return _share_saved(np.sum(miss**2), np.sum(deviation**2))


def _demean(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    counts = np.maximum(np.bincount(group), 1)
    return values - (np.bincount(group, weights=values) / counts)[group]


def _share_saved(error: float, total: float) -> float:
    return float(1 - error / total) if total > 0 else float("nan")


@dataclass(frozen=True)
class RankIC:
    """Mean rank correlation of predictions with outcomes, and the series it is the mean of.

    Attributes
    ----------
    mean : float
        NaN where no period has a rank correlation (constant predictions).
    t : float or None
        HAC t-statistic of the mean; None with fewer than ten periods.
    lags : int
        Lags of the Newey–West variance.
    by_period : Series
        Spearman correlation of each period that has one, in time order.
    """

    mean: float
    t: float | None
    lags: int
    by_period: pd.Series

    @property
    def n_periods(self) -> int:
        """Number of periods with a rank correlation."""
        return len(self.by_period)

    def __repr__(self) -> str:
        if not self.n_periods:
            return "RankIC(none: the predictions do not differ within any period)"
        t = f"n/a (T={self.n_periods})" if self.t is None else f"{self.t:.2f}"
        return f"RankIC(mean={self.mean:.4f}, t={t}, periods={self.n_periods})"


def rank_ic(outcome: Any, prediction: Any, period: Any, *, horizon: int = 1) -> RankIC:
    r"""Return the rank information coefficient: the mean over periods of the Spearman correlation.

    .. math::

        \mathrm{IC} = \tfrac{1}{T} \sum_t
            \operatorname{corr}_i(\operatorname{rank} y_{it}, \operatorname{rank} \hat y_{it})

    Ties share their mean rank. The t-statistic is that of a regression of the series on a constant with
    Newey and West's (1987) variance.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        NaN outcomes are left out.
    period : array-like of length n
        Period labels; periods with fewer than two firms, or where either side is constant, have no
        correlation.
    horizon : int, default 1
        Forecast horizon in periods; it sets the least number of lags, horizon − 1.

    Returns
    -------
    RankIC

    References
    ----------
    Spearman, C. (1904), American Journal of Psychology 15(1), 72–101. Newey, W. and West, K. (1987),
    Econometrica 55(3), 703–708. Grinold, R. and Kahn, R. (2000), Active Portfolio Management, McGraw-Hill,
    ch. 6.

    Examples
    --------
    >>> rank_ic([1.0, 2.0, 3.0, 1.0, 2.0, 3.0], [0.1, 0.2, 0.3, 0.3, 0.2, 0.1], [1, 1, 1, 2, 2, 2])
    RankIC(mean=0.0000, t=n/a (T=2), periods=2)
    """
    codes, periods = sorted_periods(period)
    y, forecast, group = _scored(outcome, prediction, codes)
    ranks = pd.DataFrame({"y": y, "forecast": forecast}).groupby(group).rank()
    y_rank, f_rank = (_demean(ranks[name].to_numpy(), group.astype(int)) for name in ("y", "forecast"))
    n = len(periods)
    cross, y_sum, f_sum = (
        np.bincount(group.astype(int), weights=product, minlength=n)
        for product in (y_rank * f_rank, y_rank**2, f_rank**2)
    )
    defined = (y_sum > 0) & (f_sum > 0)
    series = pd.Series(cross[defined] / np.sqrt(y_sum[defined] * f_sum[defined]), index=periods[defined])
    lags = newey_west_lags(len(series), horizon)
    mean = float(series.mean()) if len(series) else float("nan")
    t = hac_mean(series.to_numpy(), lags)[1] if len(series) >= MIN_PERIODS else None
    return RankIC(mean, t, lags, series)
