r"""How good predictions are: the numbers of a comparison, each with its formula and its source.

All functions take outcomes and predictions row by row and leave out rows whose outcome or prediction is NaN (unknown).
Sums run over all scored rows (i, t), so a period counts as often as it has firms. With ``period=`` each row
is weighed by one over the number of scored firms of its period, so that every period counts once.
"""

from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, expect, reworded, validate_arguments
from peerattn.models.peer_weights import last_estimator
from peerattn.panel import as_panel, sorted_periods
from peerattn.panel.panel import check_finite
from peerattn.types import LabelsLike, OutcomesLike, PanelLike


def as_numbers(argument: str, values: Any) -> np.ndarray:
    """Return values as a flat float array.

    >>> as_numbers("loss", ["low"])
    Traceback (most recent call last):
    peerattn.exceptions.InputError: loss must be numbers, one for each row (could not convert string to float: 'low').
    """
    expect(values is not None, argument, "numbers, one for each row", None)
    with reworded(f"{argument} must be numbers, one for each row", kinds=(TypeError, ValueError)):
        numbers = np.asarray(values, dtype=float).reshape(-1)
    expect(not np.isinf(numbers).any(), argument, "finite numbers, or NaN where unknown", "infinite ones")
    return numbers


def scored_rows(*columns: Any) -> list[np.ndarray]:
    """Return float columns of equal length, outcomes and predictions first, without the rows in which one is unknown."""
    arrays = [as_numbers("outcomes and predictions", column) for column in columns]
    lengths = [len(array) for array in arrays]
    expect(len(set(lengths)) == 1, "outcomes and predictions", "one length", lengths)
    check_one_order(*columns)
    check_finite(np.concatenate(arrays), "outcome or prediction")
    expect(not np.isnan(arrays[0]).all(), "outcomes", "some that are known", "NaN in all rows", "Nothing can be scored.")
    # a firm without a prediction must not stay in the variance of outcomes, in ranks, or in the size of a group
    known = ~np.isnan(arrays).any(axis=0)
    expect(bool(known.any()), "predictions", "some where the outcome is known", "NaN there", "Nothing can be scored.")
    return [array[known] for array in arrays]


def check_one_order(*columns: Any) -> None:
    """Raise where Series have the same labels of firm and period in another order: rows are compared by position.

    >>> y = pd.Series([1.0, 2.0], pd.MultiIndex.from_tuples([("A", 2001), ("B", 2001)]))
    >>> check_one_order(y, y[::-1])
    Traceback (most recent call last):
    peerattn.exceptions.InputError: arguments have the same labels in another order: pass prediction.reindex(outcome.index).
    """
    labels = [column.index for column in columns if isinstance(column, pd.Series) and column.index.nlevels > 1]
    for other in labels[1:]:
        if not other.equals(labels[0]) and len(other.symmetric_difference(labels[0])) == 0:
            raise InputError("arguments have the same labels in another order: pass prediction.reindex(outcome.index).")


def _weighted(period: LabelsLike, *columns: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the scored columns and their weights, which sum to one: equal rows, or equal periods."""
    check_one_order(columns[0], period)
    codes = np.arange(np.size(columns[0])) if period is None else sorted_periods(period)[0]
    *scored, group = scored_rows(*columns, codes)  # every row is a group of its own where there is no period
    groups, at, rows = np.unique(group, return_inverse=True, return_counts=True)
    return scored, 1 / (rows[at] * len(groups))


@validate_arguments
def rmse(outcome: Any, prediction: OutcomesLike, period: LabelsLike = None) -> float:
    r"""Return the root mean squared error.

    .. math:: \sqrt{\tfrac{1}{N} \sum_{it} (y_{it} - \hat y_{it})^2}

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; rows in which one is NaN are left out.
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


@validate_arguments
def mae(outcome: Any, prediction: OutcomesLike, period: LabelsLike = None) -> float:
    r"""Return the mean absolute error.

    .. math:: \tfrac{1}{N} \sum_{it} |y_{it} - \hat y_{it}|

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; rows in which one is NaN are left out.
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


@validate_arguments
def r2_out_of_sample(outcome: Any, prediction: OutcomesLike, benchmark: Any = 0.0, period: LabelsLike = None) -> float:
    r"""Return the share of squared error saved against a benchmark forecast.

    .. math:: R^2 = 1 - \frac{\sum_{it} (y_{it} - \hat y_{it})^2}{\sum_{it} (y_{it} - b_{it})^2}

    With b = 0 this is the measure of Gu, Kelly and Xiu (2020); with b the prevailing mean (the mean of the
    training outcomes known at the origin of the forecast) that of Campbell and Thompson (2008).

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; rows in which one is NaN are left out.
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
    base = as_numbers("benchmark", benchmark)
    size = np.size(outcome)
    expect(len(base) in (1, size), "benchmark", f"one number, or one for each of {size} rows", len(base))
    base = np.broadcast_to(base, (size,))
    (y, forecast, base), weight = _weighted(period, outcome, prediction, base)
    return _share_saved(weight @ (y - forecast) ** 2, weight @ (y - base) ** 2)


@validate_arguments
def r2_within_period(outcome: Any, prediction: OutcomesLike, period: LabelsLike) -> float:
    r"""Return the R² of differences between firms of the same period.

    .. math::

        R^2 = 1 - \frac{\sum_t \sum_i [(y_{it} - \bar y_t) - (\hat y_{it} - \bar{\hat y}_t)]^2}
                       {\sum_t \sum_i (y_{it} - \bar y_t)^2}

    Means run over the scored firms of period t. It is not a squared correlation, and no slope is fitted on
    test rows: a prediction that ranks firms backwards is punished.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        In the units of the outcome; rows in which one is NaN are left out.
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
    error, total = ((_within(value, group.astype(int)) ** 2).sum() for value in (y - forecast, y))
    return _share_saved(error, total)


def moments_within(outcome: Any, prediction: OutcomesLike, period: LabelsLike, *, ranks: bool = False) -> pd.DataFrame:
    """Return sums over the scored firms of each period, in time order: of deviations x of predictions and y of outcomes.

    Columns ``n``, ``xx``, ``xy``, ``yy``; xx is 0 where predictions do not differ, yy where outcomes do not. ``ranks``: of ranks
    within the period.
    """
    codes, periods = sorted_periods(period)
    y, forecast, group = scored_rows(outcome, prediction, codes)
    group = group.astype(int)
    if ranks:
        forecast, y = pd.DataFrame({"x": forecast, "y": y}).groupby(group).rank().to_numpy().T
    n = np.bincount(group)
    x = _deviations(forecast, group)
    y = _deviations(y, group)
    xx, xy, yy = (np.bincount(group, terms) for terms in (x * x, x * y, y * y))
    sums = pd.DataFrame({"n": n, "xx": xx, "xy": xy, "yy": yy}, index=periods[: len(n)])
    return sums[n > 0]


def _deviations(value: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return deviations from the mean of the own group; zeros where they are rounding in all of the group."""
    found = _within(value, group)
    varies = np.bincount(group, found**2) > 1e-24 * np.bincount(group, value**2)
    return found * varies[group]


def _within(value: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return deviations from the mean of the own group."""
    return value - (np.bincount(group, value) / np.maximum(np.bincount(group), 1))[group]


def _share_saved(error: float, total: float) -> float:
    return float(1 - error / total) if total > 0 else float("nan")


@validate_arguments
def nowcast_score(estimator: Any, X: PanelLike, y: OutcomesLike) -> float:
    r"""Return R² of ``estimator.predict(X, outcomes=y)`` over the rows whose outcome is known.

    .. math:: R^2 = 1 - \frac{\sum_i (y_i - \hat y_i(y_{-i}))^2}{\sum_i (y_i - \bar y)^2}

    Each row is predicted from the outcomes of the other firms of its period. scikit-learn's own scorers cannot
    pass outcomes on; this one goes into ``cross_validate(..., scoring=nowcast_score)`` and ``GridSearchCV``.

    Parameters
    ----------
    estimator : fitted peer model, or a Pipeline or search of one
    X : DataFrame (n, p)
    y : Series or array-like (n,)
        Outcomes of the rows of X; NaN means unknown.

    Returns
    -------
    float

    Raises
    ------
    InputError
        When fewer than two outcomes are known, or ``predict`` of the estimator takes none.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn.models import IndustryPeerRegressor
    >>> X = pd.DataFrame({"firm": list("ABCD"), "period": 2001, "sic": ["37", "37", "29", "29"]})
    >>> model = IndustryPeerRegressor(industry="sic").fit(X, [1.0, 2.0, 5.0, 6.0])
    >>> round(nowcast_score(model, X, [1.0, 2.0, 5.0, 6.0]), 3)
    0.765
    """
    model = getattr(estimator, "best_estimator_", estimator)
    final = last_estimator(model)
    expect(hasattr(final, "predict"), "estimator", "a fitted peer model", type(final).__name__)
    if "outcomes" not in signature(final.predict).parameters:
        raise InputError(f"nowcast_score: {type(final).__name__} uses no outcomes of peers; score it with scoring='r2'.")
    predicted = np.asarray(model.predict(X, outcomes=y), dtype=float).reshape(-1)
    names: dict[str, Any] = {name: getattr(final, name, name) for name in ("firm", "period")}
    outcome = as_panel(X, y, characteristics=(), **names).y.to_numpy(dtype=float)
    known = ~np.isnan(outcome)
    expect(bool(known.sum() >= 2), "y", "at least two known outcomes", known.sum())
    return r2_out_of_sample(outcome[known], predicted[known], outcome[known].mean())
