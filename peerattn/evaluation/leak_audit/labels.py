"""Firm and period of each row as whole numbers, and a firm's values of other periods."""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerattn.evaluation.splits.periods import sorted_periods

Labels = tuple[np.ndarray, np.ndarray]


def labels_of(firm: pd.Index, period: pd.Index) -> Labels:
    """Return firm and period of each row as whole numbers, periods in time order."""
    return pd.factorize(firm)[0], sorted_periods(period)[0]


def at_later(x: np.ndarray, firm: np.ndarray, when: np.ndarray, periods: int) -> np.ndarray:
    """Return the firm's value so many periods later; NaN where there is none."""
    width = int(when.max()) + 1
    key, due = firm * width + when, when + periods
    order = np.argsort(key)
    at = order[np.searchsorted(key, key + periods, sorter=order).clip(max=len(key) - 1)]
    there = (due >= 0) & (due < width) & (key[at] == key + periods)
    return np.where(there, np.asarray(x, dtype=float)[at], np.nan)
