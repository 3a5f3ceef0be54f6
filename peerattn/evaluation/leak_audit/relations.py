"""Is one column a function of another? Measures that are sure where it is, and silent where it only goes along."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaln
from scipy.stats import chi2

FEWEST = 20  # rows, or firms with a mean
SAME = 0.995  # of correlation with a mean of outcomes
LEFT = 0.1  # share of the variance left without something that is left with it, where it is needed
SAME_ORDER = 0.999  # of rank correlation: a monotone copy, up to ties
FUNCTION = 0.01  # of von Neumann's ratio; 1 for what has nothing to do with the outcome
CHANCE = 1e-5  # probability of what is no chance
MOST_RATIO = 0.3  # of it in small groups, or for few values, whose steps alone are so much


def correlation(a: Any, b: Any, fewest: int = FEWEST) -> float:
    """Return the correlation over rows where both are known; 0 where it is not defined."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    at = np.isfinite(a) & np.isfinite(b)
    a, b = a[at], b[at]
    if len(a) < fewest or np.ptp(a) <= 1e-12 * np.abs(a).max() or np.ptp(b) <= 1e-12 * np.abs(b).max():
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def explained(table: np.ndarray, x: np.ndarray) -> float:
    """Return R² of least squares with a constant."""
    total = np.sum((x - x.mean()) ** 2)
    rest = left_by(table, x)
    return float(1 - rest @ rest / total) if total > 0 else 0.0


def left_by(table: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return what least squares with a constant leaves of x."""
    design = np.column_stack([np.ones(len(x)), table])
    return np.asarray(x - design @ np.linalg.lstsq(design, x, rcond=None)[0])


def net(x: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return values less their group's mean."""
    return np.asarray(x - (np.bincount(group, x) / np.maximum(np.bincount(group), 1))[group])


def function_of(x: np.ndarray, y: np.ndarray, group: np.ndarray | None = None) -> bool:
    """Tell whether x hardly differs between rows whose y is next to each other (von Neumann's ratio; Chatterjee 2021).

    Values are ranks within their group, or, where a group has four of them or fewer, runs of equal values over those expected by
    chance. A function has steps all the same: between few values, or between the rows of a small group; these are allowed for.
    """
    at = np.isfinite(x) & np.isfinite(y)
    x, y = x[at], y[at]
    group = np.zeros(len(x), dtype=int) if group is None else np.unique(group[at], return_inverse=True)[1]
    if len(x) < FEWEST or len(np.unique(y)) < 0.5 * len(y):
        return False
    rows, order = pd.Series(x).groupby(group), np.lexsort((y, group))
    inside = np.diff(group[order]) == 0
    size, distinct = np.bincount(group), rows.nunique().to_numpy()
    if distinct.mean() <= 4:
        runs = np.sum((np.diff(x[order]) != 0) & inside)
        counts = pd.Series(1.0, pd.MultiIndex.from_arrays([group, x])).groupby(level=[0, 1]).sum()
        chance = len(x) - np.sum(counts.to_numpy() ** 2 / size[counts.index.get_level_values(0)])
        orders = gammaln(size + 1).sum() - gammaln(counts.to_numpy() + 1).sum()  # log of those possible
        if orders < -np.log(CHANCE):
            return False
        ratio, least = runs / max(chance, 1e-300), 2.2 * np.sum(distinct - 1) / max(chance, 1e-300)
    else:
        values = net(rows.rank().to_numpy(), group)
        spread = 2 * np.sum(values**2)
        ratio = np.sum(np.diff(values[order])[inside] ** 2) / max(spread, 1e-300)
        steps = np.diff(values[np.lexsort((values, group))])[inside]
        least = 1.3 * np.sum(steps**2) / max(spread, 1e-300) if len(size) > 1 else 0.0
    varies = bool(np.any(distinct > 1))
    return varies and bool(ratio < max(FUNCTION, min(least, MOST_RATIO, 1 - 5 / np.sqrt(len(x)))))


def same_order(x: np.ndarray, y: np.ndarray, when: np.ndarray) -> bool:
    """Tell whether x orders rows as the outcome does, over all rows or within every period."""
    at = np.isfinite(x) & np.isfinite(y)
    rows = pd.DataFrame({"x": x[at], "y": y[at], "t": when[at]})
    within = rows.groupby("t")[["x", "y"]].rank()
    within -= within.groupby(rows["t"]).transform("mean")
    return any(abs(correlation(r["x"], r["y"])) > SAME_ORDER for r in (rows[["x", "y"]].rank(), within))


def closer(x: np.ndarray, past: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether x leaves less than a fifth of the outcome's variance that the firm's outcome before leaves."""
    at = np.isfinite(x) & np.isfinite(past) & np.isfinite(y)
    if at.sum() < FEWEST:  # there is no past to hold it against
        return True
    mine, before = (1 - correlation(v[at], y[at]) ** 2 for v in (x, past))
    return bool(mine < 0.2 * before)


def needs(with_it: np.ndarray, without: np.ndarray, x: np.ndarray) -> bool:
    """Tell whether one table explains x, and leaves less than a tenth of the variance that the other leaves."""
    if len(x) < with_it.shape[1] + FEWEST:
        return False
    one, other = (np.sum(left_by(table, x) ** 2) for table in (with_it, without))
    total = np.sum((x - x.mean()) ** 2)
    return bool(one < (1 - SAME) * total and one < LEFT * other and other > 1e-6 * total)


def rows_on_a_line(x: np.ndarray, y: np.ndarray, tries: int = 2000) -> int:
    """Return the number of rows, of different values, that lie exactly on one sloping line (Fischler and Bolles 1981)."""
    at = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(at) < FEWEST:
        return 0
    x, y, rng = x[at], y[at], np.random.default_rng(0)
    i, j = rng.integers(len(x), size=(2, tries))
    i, j = (k[(x[i] != x[j]) & (y[i] != y[j])] for k in (i, j))
    slope = (x[i] - x[j]) / (y[i] - y[j])
    near, best = 1e-9 * np.std(x), 0
    for a, k in zip(slope, i, strict=True):
        on = np.abs(x - x[k] - a * (y - y[k])) <= near
        if on.sum() > best:
            best = min(len(np.unique(x[on])), len(np.unique(y[on])))
    return best


def projection(x: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether x is what a least-squares regression fits to y, or leaves of it: the slope of y on x is then exactly 1."""
    at = np.isfinite(x) & np.isfinite(y)
    x, y = x[at], y[at] - y[at].mean()
    if len(x) < FEWEST or np.ptp(x) <= 1e-12 * np.abs(x).max():
        return False
    centred = x - x.mean()
    share = np.sum(centred * y) ** 2 / np.sum(centred**2) / max(np.sum(y**2), 1e-300)
    slopes = [
        np.sum(c * y) / np.sum(c**2) for c in (centred, x)
    ]  # a part without the mean is left or fitted, too
    return bool(share > 1e-3 and min(abs(slope - 1) for slope in slopes) < 1e-7)


def closer_than_errors(x: np.ndarray, y: np.ndarray, group: np.ndarray) -> bool:
    """Tell whether group means of y and x lie closer to a line than the mean of independent errors of the rows would.

    What is known beforehand explains a group's mean outcome up to the mean of its rows' errors, of variance s²/n; the sum of
    squares over it is chi-squared. A column with outcomes of the group in it has less. Means of y that vary less than that
    themselves (outcomes net of the group's mean) say nothing.
    """
    at = np.isfinite(x) & np.isfinite(y)
    x, y, group = x[at], y[at], np.unique(group[at], return_inverse=True)[1]
    size = np.bincount(group).astype(float)
    several = size >= 5
    if several.sum() < 5:
        return False
    inside = several[group]
    a, b = (net(v[inside], group[inside]) for v in (x, y))
    slope = np.sum(a * b) / max(np.sum(a * a), 1e-300) if np.ptp(a) > 1e-9 * np.ptp(x) else 0.0
    error = np.sum((b - slope * a) ** 2) / max(inside.sum() - several.sum(), 1)
    mean_x, mean_y = (np.bincount(group, v)[several] / size[several] for v in (x, y))
    weight = size[several]
    root = np.sqrt(weight)
    design = np.column_stack([root, root * mean_x])
    if np.linalg.matrix_rank(design) < 2 or error <= 0:
        return False
    rest = root * mean_y - design @ np.linalg.lstsq(design, root * mean_y, rcond=None)[0]
    total = np.sum(weight * (mean_y - np.average(mean_y, weights=weight)) ** 2)
    left = np.sum(rest**2)
    n = int(several.sum())
    vary = chi2.cdf(total / error, n - 1) > 0.01
    return bool(vary and left < 0.3 * total and chi2.cdf(left / error, n - 2) < CHANCE)


def one_sided(indicator: np.ndarray, y: np.ndarray, when: np.ndarray) -> bool:
    """Tell whether all rows with a rare mark lie on one side of a good part of the others, net of their period's median.

    Periods whose rows are nearly all marked, or nearly none, say nothing: the mark may be of the period.
    """
    rows = pd.DataFrame({"mark": indicator, "y": y, "t": when}).dropna()
    if rows["mark"].mean() > 0.5:
        rows["mark"] = 1 - rows["mark"]
    rows = rows[rows.groupby("t")["mark"].transform("mean").between(0.005, 0.6)]
    rows["y"] -= rows.groupby("t")["y"].transform("median")
    marked, rest = (rows.loc[rows["mark"] == v, "y"].to_numpy() for v in (1, 0))
    if len(marked) < FEWEST or len(rest) < FEWEST:
        return False
    beyond = min(np.mean(rest <= marked.max()), np.mean(rest >= marked.min()))
    return bool(beyond < 0.8 and beyond ** len(marked) < CHANCE)
