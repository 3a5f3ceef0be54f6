"""Is a column made of something? Three measures: a function of it, a sum with it, a noisy copy of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import f as fisher
from scipy.stats import rankdata

FEWEST = 20  # rows, or firms, that a finding rests on
CHANCE = 1e-5  # probability of what is no chance
FUNCTION = 0.97  # Chatterjee's coefficient of a function; 0 for independence
LEFT = 0.1  # share of what is left without something that is left with it, where it is needed


def at_later(x: np.ndarray, firm: np.ndarray, when: np.ndarray, periods: int) -> np.ndarray:
    """Return the firm's value that number of periods later; NaN where there is none."""
    width = int(when.max()) + 1
    key, due = firm * width + when, when + periods
    order = np.argsort(key)
    at = order[np.searchsorted(key, key + periods, sorter=order).clip(max=len(key) - 1)]
    there = (due >= 0) & (due < width) & (key[at] == key + periods)
    return np.where(there, np.asarray(x, dtype=float)[at], np.nan)


def percentile(x: np.ndarray, u: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranks of x and u, from 0 to 1, within groups of three or more rows with both; -1: no group."""
    pair = pd.DataFrame({"x": x, "u": u})
    pair[~np.isfinite(x + u) | (group < 0)] = np.nan
    rows = pair.groupby(group)
    size = rows["x"].transform("count")
    ranks = rows.rank("min").sub(0.5).div(size.where(size >= 3), axis=0)
    return ranks["x"].to_numpy(), ranks["u"].to_numpy()


def function_of(x: np.ndarray, u: np.ndarray, least: float = FUNCTION) -> bool:
    r"""Tell whether x hardly differs between rows whose u is next to each other.

    .. math:: \xi = 1 - \frac{n \sum_k |r_{(k+1)} - r_{(k)}|}{2 \sum_k l_k (n - l_k)} > 0.97,

    r the ranks of x in the order of u, l_k how many values are at least as large as the k-th (Chatterjee 2021, Journal of the
    American Statistical Association 116).
    """
    at = np.flatnonzero(np.isfinite(x) & np.isfinite(u))
    n = len(at)
    if n < FEWEST or np.ptp(x[at]) == 0:
        return False
    at = np.random.default_rng(0).permutation(at)  # rows of equal u in no order
    x = x[at][np.argsort(u[at], kind="stable")]
    rank, above = rankdata(x, "max"), n + 1 - rankdata(x, "min")
    spread = 2 * np.sum(above * (n - above)) / n
    return bool(1 - np.abs(np.diff(rank)).sum() / spread > least - 3 / n and spread > n * FEWEST)


def left_by(table: np.ndarray, x: np.ndarray) -> float:
    """Return the sum of squares that least squares with a constant leaves of x."""
    design = np.column_stack([np.ones(len(x)), table])
    return float(np.sum((x - design @ np.linalg.lstsq(design, x, rcond=None)[0]) ** 2))


def sum_of(x: np.ndarray, unknown: np.ndarray, known: np.ndarray) -> bool:
    """Tell whether x is a sum of the columns of both tables, and of those of ``known`` alone is not.

    Both leave less than 0.005 of the variance of x, and less than a tenth of what ``known`` leaves.
    """
    both = np.column_stack([known, unknown])
    at = np.isfinite(x) & np.isfinite(both).all(axis=1)
    distinct = len(np.unique(x[at]))
    if at.sum() < both.shape[1] + 2 * FEWEST or distinct < both.shape[1] + 2:
        return False
    exact = 0.005 if distinct >= 3 * both.shape[1] + FEWEST else 1e-9  # one value a period, say
    x, both = x[at], both[at] / np.where(both[at].std(axis=0) > 0, both[at].std(axis=0), 1.0)
    total, one, other = left_by(both[:, :0], x), left_by(both, x), left_by(both[:, : known.shape[1]], x)
    return bool(one < exact * total and one < LEFT * other and other > 1e-6 * total)


def noisy_copy(x: np.ndarray, u: np.ndarray, known: np.ndarray) -> bool:
    """Tell whether all that links x to what is known goes through u, which is not.

    A characteristic that was there before the outcome u goes along with its own past and with other characteristics whatever u
    becomes. Noise added to u does not: what is known explains x, but given u (in ranges of it) nothing of x.
    """
    at = np.isfinite(x) & np.isfinite(u)
    known = known[:, np.isfinite(known[at]).mean(axis=0) > 0.8]
    at &= np.isfinite(known).all(axis=1)
    known = known[:, np.ptp(known[at], axis=0) > 0] if at.any() else known
    n, k = int(at.sum()), known.shape[1]
    if k == 0 or n < 10 * (k + FEWEST) or len(np.unique(x[at])) < FEWEST:
        return False
    x, u, known = x[at], u[at], known[at]
    ranges = np.ceil(rankdata(u) / n * FEWEST).astype(int) - 1
    given = np.column_stack([u, np.eye(FEWEST)[ranges][:, 1:]])
    total, alone, through = left_by(given[:, :0], x), left_by(known, x), left_by(given, x)
    rest = n - k - FEWEST - 1
    scale = left_by(np.column_stack([given, known]), x) * k / rest
    linked, further = (total - alone) / (alone * k / rest), (through / scale - rest / k)
    sure = fisher.sf(linked, k, rest) < CHANCE**2 and linked > 10 * further
    return bool(through < 0.75 * total and sure and fisher.sf(further, k, rest) > 0.01)
