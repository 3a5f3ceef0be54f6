"""Periods as whole numbers in time order, and the first of them in which an outcome is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel.time_order import in_time


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
    missing = np.asarray(given.isna())
    at = np.full(len(given), len(periods))
    at[~missing] = periods.searchsorted(_like(periods, given[~missing].infer_objects()))
    return at


def learned_too_late(
    train: np.ndarray, test: np.ndarray, when: np.ndarray, known: np.ndarray | None, ahead: int
) -> tuple[bool, int]:
    """Tell whether a fold learns from periods less than ``ahead`` before its origin, and from how many outcomes unknown at it."""
    origin = when[test].min()
    unknown = 0 if known is None else int((known[train] > origin).sum())
    return bool(len(train) and when[train].max() > origin - ahead), unknown


def _like(periods: pd.Index, given: pd.Index) -> pd.Index:
    """Return ``known_at`` in the type of the periods; another kind of label is refused, not compared."""
    given = in_time(given, "known_at", check=False)
    if len(given) and _kind(given) != _kind(periods):
        raise InputError(
            f"known_at must hold period labels of the type of X's (such as {periods[0]}, {_kind(periods)}); got "
            f"{given.tolist()[0]!r}, {_kind(given)}. Convert it: labels of different types cannot be compared."
        )
    return given


def _kind(labels: pd.Index) -> str:
    if isinstance(labels, pd.DatetimeIndex):
        return "timestamp without time zone" if labels.tz is None else "timestamp with time zone"
    if isinstance(labels, pd.PeriodIndex):
        return f"period of frequency {labels.freqstr}"
    if pd.api.types.is_integer_dtype(labels.dtype):
        return "yyyymm" if labels.min() >= 100_000 else "integer"
    return "fractional number" if pd.api.types.is_float_dtype(labels.dtype) else labels.inferred_type
