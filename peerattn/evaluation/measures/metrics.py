r"""How good predictions are: the numbers of a comparison, each with its formula and its source.

All functions take outcomes and predictions row by row and leave out rows whose outcome is NaN (unknown).
Sums run over all scored rows (i, t), so a period counts as often as it has firms. With ``period=`` each row
is weighed by one over the number of scored firms of its period, so that every period counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import MeanTest, OfPeriods, mean_test
from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.exceptions import InputError, checked


def scored_rows(*columns: Any) -> list[np.ndarray]:
    """Return float columns of equal length without the rows whose first value, the outcome, is unknown."""
    arrays = [np.asarray(column, dtype=float).reshape(-1) for column in columns]
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) != 1:
        raise InputError(f"outcomes and predictions must have one length, got {lengths}.")
    known = ~np.isnan(arrays[0])
    if not known.any():
        raise InputError("outcomes: none is known, so nothing can be scored; pass some that are not NaN.")
    return [array[known] for array in arrays]


def _weighted(period: Any, *columns: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the scored columns and their weights, which sum to one: equal rows, or equal periods."""
    codes = np.arange(np.size(columns[0])) if period is None else sorted_periods(period)[0]
    *scored, group = scored_rows(*columns, codes)  # every row is a group of its own where there is no period
    groups, at, rows = np.unique(group, return_inverse=True, return_counts=True)
    return scored, 1 / (rows[at] * len(groups))


@checked
def rmse(outcome: Any, prediction: Any, period: Any = None) -> float:
    r"""Return the root mean squared error.

    .. math:: \sqrt{\tfrac{1}{N} \sum_{it} (y_{it} - \hat y_{it})^2}

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; NaN outcomes are left out.
    period : array-like of length n, optional
        Period labels: every period counts once.

    Returns
    -------
    float

    Examples
    --------
    >>> rmse([1.0, 2.0, float("nan")], [4.0, 5.0, 9.0])
    3.0
    """
    (y, forecast), weight = _weighted(period, outcome, prediction)
    return float(np.sqrt(weight @ (y - forecast) ** 2))


@checked
def mae(outcome: Any, prediction: Any, period: Any = None) -> float:
    r"""Return the mean absolute error.

    .. math:: \tfrac{1}{N} \sum_{it} |y_{it} - \hat y_{it}|

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; NaN outcomes are left out.
    period : array-like of length n, optional
        Period labels: every period counts once.

    Returns
    -------
    float

    Examples
    --------
    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    (y, forecast), weight = _weighted(period, outcome, prediction)
    return float(weight @ np.abs(y - forecast))


@checked
def r2_out_of_sample(outcome: Any, prediction: Any, benchmark: Any = 0.0, period: Any = None) -> float:
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
    period : array-like of length n, optional
        Period labels: every period counts once.

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
    columns, weight = _weighted(period, outcome, prediction, np.broadcast_to(base, (np.size(outcome),)))
    y, forecast, base = columns
    return _share_saved(weight @ (y - forecast) ** 2, weight @ (y - base) ** 2)


@checked
def r2_within_period(outcome: Any, prediction: Any, period: Any) -> float:
    r"""Return the R² of differences between firms of the same period.

    .. math::

        R^2 = 1 - \frac{\sum_t \sum_i [(y_{it} - \bar y_t) - (\hat y_{it} - \bar{\hat y}_t)]^2}
                       {\sum_t \sum_i (y_{it} - \bar y_t)^2}

    Means run over the scored firms of period t. It is not a squared correlation, and no slope is fitted on
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
    y, forecast, group = scored_rows(outcome, prediction, codes)
    errors = pd.DataFrame({"miss": y - forecast, "deviation": y})
    squares = (errors - errors.groupby(group).transform("mean")) ** 2
    return _share_saved(*squares.sum())


def moments_within(outcome: Any, prediction: Any, period: Any, *, ranks: bool = False) -> pd.DataFrame:
    """Return sums over the scored firms of each period, in time order: of deviations x of predictions and y of outcomes.

    Columns ``n``, ``xx``, ``xy``, ``yy``; xx is 0 where predictions do not differ. ``ranks``: of ranks within the period.
    """
    codes, periods = sorted_periods(period)
    y, forecast, group = scored_rows(outcome, prediction, codes)
    raw = pd.DataFrame({"x": forecast, "y": y})
    raw = raw.groupby(group).rank() if ranks else raw
    x, y = ((column - column.groupby(group).transform("mean")).to_numpy() for _, column in raw.items())
    terms = {"n": 1, "xx": x * x, "xy": x * y, "yy": y * y, "size": raw["x"] ** 2}
    sums = pd.DataFrame(terms).groupby(group).sum()
    sums["xx"] *= sums["xx"] > 1e-24 * sums.pop("size")
    return sums.set_axis(periods[sums.index.astype(int)])


def _share_saved(error: float, total: float) -> float:
    return float(1 - error / total) if total > 0 else float("nan")


@dataclass(frozen=True)
class InformationCoefficient(OfPeriods):
    """Mean correlation of predictions with outcomes within periods, and the series it is the mean of.

    Attributes
    ----------
    test : MeanTest
        Of the mean against zero, by :func:`~peerattn.evaluation.inference.forecast_tests.mean_test`.
    by_period : Series
        Correlation of each period that has one, in time order.
    kind : str
        "rank" (Spearman) or "linear" (Pearson).
    """

    test: MeanTest
    by_period: pd.Series
    kind: str = "rank"

    @property
    def mean(self) -> float:
        """Mean correlation; NaN where no period has one (constant predictions)."""
        return self.test.mean

    @property
    def n_periods(self) -> int:
        """Number of periods with a correlation."""
        return len(self.by_period)

    @property
    def icir(self) -> float:
        """Mean over standard deviation of the series, not annualised; NaN where there is no deviation."""
        spread = float(self.by_period.std())
        return self.mean / spread if spread > 0 else float("nan")

    def __repr__(self) -> str:
        name = "RankIC" if self.kind == "rank" else "IC"
        if not self.n_periods:
            return f"{name}(none: the predictions do not differ within any period)"
        return f"{name}(mean={self.mean:.4f}, t={self._shown_t}, periods={self.n_periods})"


@checked
def rank_ic(outcome: Any, prediction: Any, period: Any, *, horizon: int = 1) -> InformationCoefficient:
    r"""Return the rank information coefficient: the mean over periods of the Spearman correlation.

    .. math::

        \mathrm{IC} = \tfrac{1}{T} \sum_t
            \operatorname{corr}_i(\operatorname{rank} y_{it}, \operatorname{rank} \hat y_{it})

    Ties share their mean rank. The test of the mean is ``mean_test``: Student's t with an equal-weighted cosine variance.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        NaN outcomes are left out.
    period : array-like of length n
        Period labels; periods with fewer than two firms, or where either side is constant, have no
        correlation.
    horizon : int, default 1
        Forecast horizon in periods, for the variance of the mean.

    Returns
    -------
    InformationCoefficient

    References
    ----------
    Spearman, C. (1904), American Journal of Psychology 15(1), 72–101. Grinold, R. and Kahn, R. (2000), Active Portfolio
    Management, McGraw-Hill, ch. 6. Lazarus, E., Lewis, D., Stock, J. and Watson, M. (2018), HAR inference, Journal of
    Business & Economic Statistics 36(4), 541–559.

    Examples
    --------
    >>> rank_ic([1.0, 2.0, 3.0, 1.0, 2.0, 3.0], [0.1, 0.2, 0.3, 0.3, 0.2, 0.1], [1, 1, 1, 2, 2, 2])
    RankIC(mean=0.0000, t=n/a (T=2, 12 needed), periods=2)
    """
    return _coefficient(outcome, prediction, period, horizon, "rank")


@checked
def ic(outcome: Any, prediction: Any, period: Any, *, horizon: int = 1) -> InformationCoefficient:
    r"""Return the information coefficient: the mean over periods of the Pearson correlation.

    .. math:: \mathrm{IC} = \tfrac{1}{T} \sum_t \operatorname{corr}_i(y_{it}, \hat y_{it})

    Parameters, t-statistic and references are those of :func:`rank_ic`.

    Returns
    -------
    InformationCoefficient

    Examples
    --------
    >>> ic([1.0, 2.0, 3.0], [0.1, 0.2, 0.3], [1, 1, 1])
    IC(mean=1.0000, t=n/a (T=1, 12 needed), periods=1)
    """
    return _coefficient(outcome, prediction, period, horizon, "linear")


def _coefficient(y: Any, prediction: Any, period: Any, horizon: int, kind: str) -> InformationCoefficient:
    m = moments_within(y, prediction, period, ranks=kind == "rank")
    m = m[(m["xx"] > 0) & (m["yy"] > 0)]
    series: pd.Series = m["xy"] / np.sqrt(m["xx"] * m["yy"])
    return InformationCoefficient(mean_test(series, horizon), series, kind)
