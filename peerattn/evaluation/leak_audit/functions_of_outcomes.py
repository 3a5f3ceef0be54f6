"""Rules for one column: is it a function of an outcome, in all rows, in groups, in a part of the rows or in its decimals?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.outcomes import Outcomes
from peerattn.evaluation.leak_audit.relations import (
    FEWEST,
    SAME,
    correlation,
    function_of,
    net,
    rows_on_a_line,
    same_order,
)


def in_all_rows(x: np.ndarray, of: Outcomes) -> str:
    """Return why x is a function of the outcome or of a later one."""
    for name, target in of.targets.items():
        if function_of(x, target):
            return f"is a function of {name}"
    return "has the order of the outcome" if same_order(x, of.y, of.when) else ""


def in_groups(x: np.ndarray, of: Outcomes) -> str:
    """Within the rows of a group: the outcome less the group's mean, or above its median."""
    for name, group in of.groups.items():
        known = np.isfinite(x) & np.isfinite(of.y)
        size = np.bincount(group[known], minlength=group.max() + 1)[group]
        at = known & (size >= 4)
        if at.sum() < FEWEST or size[at].mean() > 0.9 * known.sum():
            continue
        own, outcome = (net(v[at], group[at]) for v in (x, of.y))
        if abs(correlation(own, outcome)) > SAME or function_of(x[at], of.y[at], group[at]):
            return f"is, within {name}, a function of the outcome"
    return ""


def in_some_rows(x: np.ndarray, of: Outcomes) -> str:
    """An outcome itself in some rows, or added to another column there."""
    near = 1e-9 * np.nanstd(of.y)
    for name, target in of.targets.items():
        same = np.isfinite(x) & (np.abs(x - target) <= near)
        if same.sum() >= FEWEST and len(np.unique(x[same])) >= FEWEST and not _related(x, target, of):
            return f"equals {name} in {same.sum():,} rows"
    for name, other in of.columns.items():
        added = x - other
        differs = np.isfinite(added) & (np.abs(added) > 1e-9 * np.nanstd(x))
        if FEWEST <= differs.sum() < 0.9 * np.isfinite(added).sum():
            more = abs(correlation(x, of.y)) > abs(correlation(other, of.y))
            if more and abs(correlation(added[differs], of.y[differs])) > SAME:
                return f"is {name!r} with the outcome added in {differs.sum():,} rows"
    return ""


def on_a_line(x: np.ndarray, of: Outcomes) -> str:
    """A line in the outcome, in some rows."""
    moved = of.past != of.y  # an outcome that stays is known
    n = 0 if _related(x, of.y, of) else rows_on_a_line(np.where(moved, x, np.nan), of.y)
    return f"is a line in the outcome in {n:,} rows" if n >= FEWEST else ""


def _related(x: np.ndarray, target: np.ndarray, of: Outcomes) -> bool:
    """Tell whether x goes along with the target where they differ, too: it may then be the same at times."""
    differs = np.where(np.abs(x - target) <= 1e-9 * np.nanstd(of.y), np.nan, x)
    near = abs(correlation(differs, target))
    return near > 0.8 and near > abs(correlation(of.past, target)) + 0.02


def in_parts(x: np.ndarray, of: Outcomes) -> str:
    """In some periods, firms or levels of a code."""
    known = np.isfinite(x) & np.isfinite(of.y)
    rows = pd.DataFrame({"x": x, "y": of.y, "t": of.when})
    parts = {"period": of.when, "firm": of.firm} | {repr(name): of.codes[name] for name in of.codes}
    for name, part in parts.items():
        here = rows.assign(part=part)[known & (part >= 0)]
        if name == "firm":  # levels that last would go along
            here = here.sort_values(["part", "t"])
            here[["x", "y"]] = here.groupby("part")[["x", "y"]].diff()
            here = here.dropna()
        elif name != "period" and pd.Series(x).groupby(of.firm).nunique().max() <= 1:
            continue
        sizes = [
            len(of_part)
            for _, of_part in here.groupby("part")
            if len(of_part) >= 8
            and (
                abs(correlation(of_part["x"], of_part["y"], 8)) > 0.9999
                or (name != "firm" and function_of(of_part["x"].to_numpy(), of_part["y"].to_numpy()))
            )
        ]
        if sum(sizes) >= FEWEST:
            return f"is the outcome in {len(sizes)} of {here['part'].nunique()} parts by {name}"
    return ""


def of_others(x: np.ndarray, of: Outcomes) -> str:
    """Outcomes of other firms of the same period, or, where firms begin, of later ones."""
    at = np.isfinite(x) & np.isfinite(of.y)
    rows = pd.DataFrame({"x": x[at], "y": of.y[at], "t": of.when[at]})
    if at.sum() < FEWEST or rows["y"].nunique() < 0.5 * len(rows):
        return ""
    share = sum(group["x"].isin(group["y"]).sum() for _, group in rows.groupby("t")) / len(rows)
    if share > 0.5:
        return f"holds outcomes of the period in {share:.0%} of the rows"
    begins = ~np.isfinite(of.past) & at
    latest = pd.Series(of.when).groupby(of.y).max().reindex(x[begins]).to_numpy()
    later = np.unique(x[begins][latest >= of.when[begins]])
    if len(later) >= max(8, 0.5 * begins.sum()):
        return "holds, where firms begin, outcomes of others, of later periods"
    return ""


def in_steps(x: np.ndarray, of: Outcomes) -> str:
    """The change since the period before: a level into which the outcome has gone."""
    moves = function_of(x - of.moved(x, -1), of.y)
    return "moves from the period before by a function of the outcome" if moves else ""


def in_decimals(x: np.ndarray, of: Outcomes) -> str:
    """In decimals beyond those to which the rest is rounded, or in whether a whole number is odd."""
    known = np.isfinite(x) & np.isfinite(of.y)
    if not known.any():
        return ""
    x, y = x[known], of.y[known]
    for decimals in range(6):
        rest = x - np.round(x, decimals)
        if 0 < np.abs(rest).max() < 0.2 * 10.0**-decimals and (
            abs(correlation(rest, y)) > 0.98 or (decimals > 1 and function_of(rest.round(12), y))
        ):
            return f"holds the outcome behind its decimal {decimals}"
    whole = len(np.unique(x)) >= FEWEST and (x == np.round(x)).all()
    return "is odd where the outcome decides it" if whole and function_of(x % 2, y) else ""
