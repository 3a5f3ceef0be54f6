"""Which sorts a comparison allows: is its outcome a return, how many portfolios, how many periods in a year."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

_RETURN = re.compile(r"(^|_)(ex|x)?(ret|rets|return|returns|retx|retadj)(_|\d|$)", re.IGNORECASE)
#: Quantile groups by the number of firms that a typical period must hold for them.
_QUANTILES = ((100, 10), (25, 5), (9, 3))


def named_like_return(outcome: str) -> bool:
    """Tell whether an outcome is named like a return.

    >>> [named_like_return(name) for name in ("ret_next", "ret_exc_lead1m", "retention", "roa_next")]
    [True, True, False, False]
    """
    return bool(_RETURN.search(outcome))


def usual_quantiles(comparison: Comparison) -> int:
    """Return 10, 5, 3 or 2 portfolios: as many as a typical period holds firms for."""
    frame = comparison.predictions
    typical = frame[frame["outcome"].notna()].groupby("period").size().median()
    return next((n for firms, n in _QUANTILES if typical >= firms), 2)


def periods_per_year(periods: pd.Index) -> float | None:
    """Return how many periods make a year, told from the labels; None where they do not tell.

    >>> periods_per_year(pd.Index([200911, 200912, 201001])), periods_per_year(pd.Index([2009, 2010]))
    (12.0, 1.0)
    >>> periods_per_year(pd.period_range("2001Q1", periods=4, freq="Q"))
    4.0
    """
    if len(periods) < 2:
        return None
    if isinstance(periods, pd.PeriodIndex):
        periods = periods.to_timestamp()
    if isinstance(periods, pd.DatetimeIndex):
        days = float(np.median(np.diff(periods.to_numpy()) / np.timedelta64(1, "D")))
        return next((float(n) for n in (252, 52, 12, 4, 1) if 0.7 < days * n / 365.25 < 1.5), None)
    if not pd.api.types.is_integer_dtype(periods.dtype):
        return None
    labels = periods.to_numpy()
    if ((labels >= 1800) & (labels <= 2200)).all():
        return 1.0
    months = labels % 100
    if ((labels >= 180001) & (labels <= 220012) & (months >= 1) & (months <= 12)).all():
        step = float(np.median(np.diff(labels // 100 * 12 + months)))
        return 12 / step if step > 0 else None
    return None
