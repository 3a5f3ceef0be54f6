"""Variances of sums whose terms depend on each other within a firm and within a period."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from peerattn.models.pools import Rows
from peerattn.processes import gathered, joined

FEW_PERIODS = 3  # from which errors can be clustered by period


def clustered_variance(sums: Sequence[np.ndarray], of_rows: float, times_first: float = 1.0) -> float:
    """Return the variance of a sum, given its sums by cluster in one way or two: at least either way's.

    Two ways count what is common to both once (Cameron, Gelbach and Miller 2011): ``of_rows``, the variance of independent
    rows, since a firm has one row a period. The first way's counts at least so many times.
    """
    single = [variance_of_sum(each) for each in sums]
    both = of_rows if len(single) > 1 else 0.0
    return max(sum(single) - both, times_first * single[0], *single)


def variance_of_sum(terms: np.ndarray) -> float:
    """Return the variance of a sum of independent terms."""
    n = len(terms)
    return float(((terms - terms.mean()) ** 2).sum() * n / max(n - 1, 1))


def sums_by(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the sum of the rows (n, k) of each key, over the rows of all processes."""
    at, names = pd.factorize(keys)
    sums = np.stack([np.bincount(at, column, len(names)) for column in rows.T], axis=1)
    if not joined():
        return sums
    every, parts = zip(*gathered((names, sums)), strict=True)
    at = pd.factorize(np.concatenate(every))[0]
    return np.stack([np.bincount(at, column) for column in np.concatenate(parts).T], axis=1)


def row_keys(rows: Rows) -> np.ndarray:
    """Return a checksum of each row's numbers (rounded: copies may differ in the last bit), (n,)."""
    numbers = np.ascontiguousarray(np.round(rows.x, 6) + 0.0)
    return np.array([zlib.crc32(row.tobytes()) for row in numbers])


def firm_keys(rows: Rows, dated: bool) -> np.ndarray:
    """Return what standard errors are clustered by: the firm (or its group); on arrays the row, copies together."""
    return rows.owner.to_numpy(dtype=object) if dated else row_keys(rows)
