"""Rules for marks of two values and for levels of codes: do outcomes decide where they stand?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import gammaln

from peerattn.evaluation.leak_audit.outcomes import Outcomes
from peerattn.evaluation.leak_audit.relations import CHANCE, FEWEST, function_of, one_sided


def marks(x: np.ndarray, of: Outcomes) -> str:
    """Return how the outcome decides where x is missing, has its larger value, if it has two, or its commonest; or nothing."""
    known = np.isfinite(x)
    values, counts = np.unique(x[known], return_counts=True)
    if FEWEST <= (~known).sum() <= len(x) - FEWEST and (why := decided(1.0 - known, of)):
        return f"is missing where {why}"
    if len(values) == 2:
        marked = np.where(known, x == values[1], np.nan)
        if why := decided(marked, of):
            return f"marks rows of which {why}"
        return levels_of_parts(np.where(known, marked, -1).astype(int), of)
    common = len(values) >= FEWEST and counts.max() >= max(FEWEST, 0.05 * len(x))
    if common and (why := decided(np.where(known, x == values[counts.argmax()], np.nan), of)):
        return f"has its commonest value where {why}"
    return ""


def decided(mark: np.ndarray, of: Outcomes) -> str:
    """Return which outcome decides a mark: 1, 0, or NaN where it says nothing."""
    for name, target in of.targets.items():
        if function_of(mark, target):
            return f"{name} decides it"
    for name, target in (("the outcome", of.y), ("the outcome of the next period", of.later(1))):
        if one_sided(mark, target, of.when):
            if not any(one_sided(mark, known, of.when) for known in (of.past, *of.columns.values())):
                return f"{name} is on one side only"
    return ""


def levels(levels: np.ndarray, of: Outcomes) -> str:
    """Return whether the levels of a code are ranges of the outcome."""
    if not 1 < levels.max() + 1 <= len(levels) / 5:
        return ""
    rows = pd.Series(of.y).groupby(levels)
    several = (levels >= 0) & (rows.transform("size") >= 5)
    x = np.where(several, rows.transform("mean"), np.nan)
    for name, group in {"": np.zeros(len(x), dtype=int), **of.groups}.items():
        if function_of(x, of.y, group) and not function_of(of.past, of.y, group):
            inside = f", within {name}," if name else ""
            return f"has levels that are{inside} ranges of the outcome"
    return levels_of_parts(levels, of)


def levels_of_parts(levels: np.ndarray, of: Outcomes) -> str:
    """Levels that stay with a firm, or with a period, and are ranges of its outcomes; levels of later columns."""
    for what, part in (("firm", of.firm), ("period", of.when)):
        rows = pd.DataFrame({"level": levels, "y": of.y})[np.isfinite(of.y)].groupby(part[np.isfinite(of.y)])
        if (rows["level"].nunique() > 1).any():
            continue
        for how in ("mean", "median", "std", "max", "min"):
            if _ranges(rows["level"].first().to_numpy(), rows["y"].agg(how).to_numpy()):
                return f"has levels that are ranges of the {how} of the {what}'s outcomes"
    for name, x in of.columns.items():
        if _ranges(levels, of.moved(x, 1)) and not any(_ranges(levels, v) for v in (x, of.moved(x, -1))):
            return f"has levels that are ranges of {name!r} of the next period"
    return ""


def _ranges(levels: np.ndarray, values: np.ndarray) -> bool:
    """Tell whether each level has values of its own range, which so few ranges would not have by chance."""
    rows = pd.DataFrame({"level": levels, "v": values}).dropna()
    rows = rows[rows["level"] >= 0]
    size = rows["level"].value_counts()
    ways = gammaln(len(rows) + 1) - gammaln(size + 1).sum() - gammaln(len(size) + 1)
    if not 2 <= len(size) <= len(rows) / 3 or ways < -np.log(CHANCE) or rows["v"].nunique() < 0.5 * len(rows):
        return False
    runs = (rows.sort_values("v")["level"].diff() != 0).sum()
    return bool(runs == len(size))
