"""Is a column made of something? Three measures: exact function, exact sum, noisy copy."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import gammaln
from scipy.stats import f as fisher

FEWEST = 20  # rows, or firms, that a finding rests on
CHANCE = 1e-5  # probability of what is no chance
FUNCTION = 0.01  # von Neumann's ratio of a function; 1 for what has nothing to do with the other
LEFT = 0.1  # share of what is left without something that is left with it, where it is needed
EXACT = 1e-9


def at_later(x: np.ndarray, firm: np.ndarray, when: np.ndarray, periods: int) -> np.ndarray:
    """Return the firm's value so many periods later; NaN where there is none."""
    width = int(when.max()) + 1
    key, due = firm * width + when, when + periods
    order = np.argsort(key)
    at = order[np.searchsorted(key, key + periods, sorter=order).clip(max=len(key) - 1)]
    there = (due >= 0) & (due < width) & (key[at] == key + periods)
    return np.where(there, np.asarray(x, dtype=float)[at], np.nan)


def function_of(x: np.ndarray, u: np.ndarray, group: np.ndarray | None = None) -> bool:
    r"""Tell whether x hardly differs between rows whose u is next to each other, over all rows or within groups.

    .. math:: \frac{\sum_k (r_{(k+1)} - r_{(k)})^2}{2 \sum_k (r_k - \bar r)^2} < 0.01,

    von Neumann's ratio of the ranks r of x in the order of u (Chatterjee 2021). Of a column with four values or fewer in a group
    the runs of equal values are counted, against those expected by chance.
    """
    at = np.isfinite(x) & np.isfinite(u)
    x, u = x[at], u[at]
    group = np.zeros(len(x), dtype=int) if group is None else np.unique(group[at], return_inverse=True)[1]
    if len(x) < FEWEST or len(np.unique(u)) < 0.5 * len(u):
        return False
    rows, order = pd.Series(x).groupby(group), np.lexsort((u, group))
    inside = np.diff(group[order]) == 0
    distinct, size = rows.nunique().to_numpy(), np.bincount(group)
    if distinct.mean() <= 4:
        counts = pd.Series(1.0, pd.MultiIndex.from_arrays([group, x])).groupby(level=[0, 1]).sum()
        if gammaln(size + 1).sum() - gammaln(counts.to_numpy() + 1).sum() < -np.log(CHANCE):
            return False  # so few orders are possible that this one may be chance
        chance = len(x) - np.sum(counts.to_numpy() ** 2 / size[counts.index.get_level_values(0)])
        ratio = np.sum((np.diff(x[order]) != 0) & inside) / chance
        least = 2.2 * np.sum(distinct - 1) / chance
    else:
        rank = rows.rank().to_numpy()
        rank = rank - (np.bincount(group, rank) / size)[group]
        spread = max(2 * np.sum(rank**2), 1e-300)
        ratio = np.sum(np.diff(rank[order])[inside] ** 2) / spread
        steps = np.diff(rank[np.lexsort((rank, group))])[inside]
        least = 1.3 * np.sum(steps**2) / spread if len(size) > 1 else 0.0
    return bool(np.any(distinct > 1) and ratio < max(FUNCTION, min(least, 0.3, 1 - 5 / np.sqrt(len(x)))))


def left_by(table: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return what least squares with a constant leaves of x."""
    design = np.column_stack([np.ones(len(x)), table])
    return np.asarray(x - design @ np.linalg.lstsq(design, x, rcond=None)[0])


def sum_of(x: np.ndarray, unknown: np.ndarray, known: np.ndarray, exact: float = 0.005) -> bool:
    """Tell whether x is a sum of the columns of both tables, and of those of ``known`` alone is not.

    Both leave less than ``exact`` of the variance of x, and less than a tenth of what ``known`` leaves.
    """
    both = np.column_stack([known, unknown])
    at = np.isfinite(x) & np.isfinite(both).all(axis=1)
    distinct = len(np.unique(x[at]))
    if at.sum() < both.shape[1] + 2 * FEWEST or distinct < both.shape[1] + 2:
        return False
    exact = exact if distinct >= 3 * both.shape[1] + FEWEST else EXACT  # one value a period, say
    x, both = x[at], both[at] / np.where(both[at].std(axis=0) > 0, both[at].std(axis=0), 1.0)
    total = np.sum((x - x.mean()) ** 2)
    one, other = (np.sum(left_by(table, x) ** 2) for table in (both, both[:, : known.shape[1]]))
    return bool(one < exact * total and one < LEFT * other and other > 1e-6 * total)


def noisy_copy(x: np.ndarray, u: np.ndarray, known: np.ndarray) -> bool:
    """Tell whether all that links x to what is known goes through u, which is not.

    A characteristic that was there before the outcome u goes along with its own past and with other characteristics whatever u
    becomes. Noise added to u does not: what is known explains x, but given u (in ranges of it) nothing of x.
    """
    at = np.isfinite(x) & np.isfinite(u)
    known = known[:, np.isfinite(known[at]).mean(axis=0) > 0.8]
    at &= np.isfinite(known).all(axis=1)
    n, k = int(at.sum()), known.shape[1]
    if k == 0 or n < 10 * (k + FEWEST) or len(np.unique(x[at])) < FEWEST:
        return False
    x, u, known = x[at], u[at], known[at]
    known = known[:, known.std(axis=0) > 0]
    rank = pd.Series(u).rank(pct=True).to_numpy()
    ranges = np.clip((rank * FEWEST).astype(int), 0, FEWEST - 1)
    given = np.column_stack([u, np.eye(FEWEST)[ranges][:, 1:]])
    total = np.sum((x - x.mean()) ** 2)
    alone, through, both = (
        np.sum(left_by(table, x) ** 2) for table in (known, given, np.column_stack([given, known]))
    )
    k, rest = known.shape[1], n - known.shape[1] - FEWEST - 1
    f = (total - alone) / k / (alone / rest), (through - both) / k / (both / rest)
    linked = fisher.sf(f[0], k, rest) < CHANCE**2 and f[0] > 10 * f[1]
    return bool(through < 0.75 * total and linked and fisher.sf(f[1], k, rest) > 0.01)


def equal_in_some(x: np.ndarray, u: np.ndarray, near: float) -> bool:
    """Tell whether x equals u in several rows of different values."""
    same = np.isfinite(x) & (np.abs(x - u) <= near)
    return bool(same.sum() >= FEWEST and len(np.unique(x[same])) >= FEWEST)
