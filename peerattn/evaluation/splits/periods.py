"""Periods as whole numbers in time order, and the first of them in which an outcome is known."""

from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel.time_order import in_time, kind_of
from peerattn.render import show_label


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
    codes, periods = pd.factorize(in_time(labels), sort=True)
    return codes, pd.Index(periods)


def first_known(given: pd.Index, periods: pd.Index) -> np.ndarray:
    """Return the first period by which each row's outcome is known, as a position; beyond the last: never."""
    at = np.full(len(given), len(periods))
    known = ~np.asarray(given.isna())
    labels = in_time(given[known].infer_objects(), "known_at", check=False)
    if len(labels) and kind_of(labels) != kind_of(periods):
        raise InputError(
            f"known_at must hold period labels of the type of X's (such as {periods[0]}, {kind_of(periods)}); got "
            f"{labels.tolist()[0]!r}, {kind_of(labels)}. Convert it: labels of different types cannot be compared."
        )
    at[known] = periods.searchsorted(labels)
    return at


def too_late(fold: Any, time: tuple[np.ndarray, pd.Index], known: np.ndarray | None, ahead: int) -> str:
    """Say how a fold learns from outcomes that are not known at the first period it tests; empty where it does not.

    ``time`` is what :func:`sorted_periods` returns of the rows; ``known`` says by which of the periods each outcome is known.
    """
    (train, test) = fold
    (when, periods) = time
    if not len(train):
        return ""
    last = when[train].max()
    origin = when[test].min()
    if last > origin - ahead:
        return f"learns from {show_label(periods[last])} to predict {show_label(periods[origin])} at horizon {ahead}"
    late = 0 if known is None else int((known[train] > origin).sum())
    wording = f"whose outcome is not yet known (known_at) in {show_label(periods[origin])}, which it predicts"
    return f"learns from {late:,} rows {wording}: outcomes that are known after the origin" if late else ""
