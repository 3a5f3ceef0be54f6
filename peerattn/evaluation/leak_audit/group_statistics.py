"""Rules for one column: does it hold means or other statistics of the outcomes of a period, a code or other groups of rows?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.outcomes import Outcomes
from peerattn.evaluation.leak_audit.relations import FEWEST, closer_than_errors, correlation


def group_statistic(x: np.ndarray, of: Outcomes) -> str:
    """Mean, spread, extremes or share above zero of a group's outcomes, or of the next periods'."""
    at = np.isfinite(x)
    for name, values in of.statistics.items():
        here = at & np.isfinite(values)
        several = min(len(np.unique(v[here])) for v in (x, values)) >= 5
        if here.sum() >= max(FEWEST, 0.5 * at.sum()) and several:
            if abs(correlation(x[here], values[here])) > 0.9999:
                return f"is the {name}"
    return ""


def near_group_mean(x: np.ndarray, of: Outcomes) -> str:
    """Means by period that are closer to the outcome's than what is known beforehand can be."""
    for name, group in of.groups.items():
        if "period" in name and closer_than_errors(x, of.y, group):
            own, outcome = (v - of.moved(v, -1) for v in (x, of.y))  # lasting levels are known
            if closer_than_errors(own, outcome, group):
                return f"has means by {name} closer to those of the outcome than errors of rows would be"
    return ""


def encoding(x: np.ndarray, of: Outcomes) -> str:
    """The mean outcome of the rows that have the same value: of a code's levels, or of other cells."""
    at = np.isfinite(x) & np.isfinite(of.y)
    for name, levels in of.codes.items():
        known = at & (levels >= 0)
        if _encodes(x[known], of.y[known], levels[known]):
            return f"is the mean outcome of {name!r}, of all rows or of other folds, perhaps drawn to the mean of all"
    cells = pd.Series(of.y[at]).groupby(x[at])
    mean, count = cells.mean(), cells.count()
    several = count >= 3
    if several.sum() < 5 or count[several].sum() < 0.5 * at.sum():
        return ""
    same = correlation(mean.index[several], mean[several], 5) > 0.99999
    return "is the mean outcome of the rows that have its value" if same else ""


def _encodes(x: np.ndarray, y: np.ndarray, levels: np.ndarray) -> bool:
    """Tell whether x is the mean outcome of a level: of all rows, drawn to the grand mean, or of those with another x."""
    if len(x) < 2 * FEWEST:
        return False
    rows = pd.DataFrame({"x": x, "y": y, "level": levels})
    of_level, of_cell = rows.groupby("level"), rows.groupby(["level", "x"])["y"]
    total, n = (of_level["y"].transform(how) for how in ("sum", "count"))
    if (of_level["x"].nunique() == 1).all() and of_level.ngroups >= 4:
        away = rows["x"] - y.mean()
        drawn = (total - rows["x"] * n) / away.where(away.abs() > 1e-6 * y.std())
        drawn = drawn.groupby(rows["level"]).first().dropna()
        return bool(len(drawn) >= 4 and drawn.std() <= 1e-4 * abs(drawn.mean()) and drawn.mean() > -1)
    rest = n - of_cell.transform("count")
    others = ((total - of_cell.transform("sum")) / rest).where(rest >= 5)
    several = others.nunique() >= 5 and others.notna().mean() > 0.5
    return bool(several and abs(correlation(x, others)) > 0.99999)
