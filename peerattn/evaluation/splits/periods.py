"""Periods as whole numbers in time order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError


def sorted_periods(period: Any) -> tuple[np.ndarray, pd.Index]:
    """Return each row's period as its rank among the distinct period labels, and those labels in order.

    >>> codes, periods = sorted_periods([2002, 2001, 2002])
    >>> codes.tolist(), periods.tolist()
    ([1, 0, 1], [2001, 2002])
    """
    labelled = isinstance(period, pd.Index | pd.Series)
    labels = pd.Index(period) if labelled else pd.Index(np.asarray(period).reshape(-1))
    if labels.hasnans:
        raise InputError("period: a label is missing in some rows; every row needs one.")
    try:
        periods = labels.unique().sort_values()
    except TypeError as error:
        raise InputError(f"period: labels cannot be sorted ({error}); make them one kind.") from error
    return periods.get_indexer(labels), periods
