"""Rules for several columns and outcomes at once: fits of regressions, sums, ratios and products."""

from __future__ import annotations

import numpy as np

from peerattn.evaluation.leak_audit.outcomes import MOST_LOG, MOST_PAIRED, Outcomes
from peerattn.evaluation.leak_audit.relations import (
    FEWEST,
    closer,
    correlation,
    explained,
    left_by,
    needs,
    projection,
)


def fitted(x: np.ndarray, of: Outcomes) -> str:
    """What a regression over all rows fits to the outcome, or leaves of it."""
    if projection(x, of.y):
        return "is the outcome's fit, or its residual, in a regression over all rows"
    others = _others(x, of)
    if len(others) < 3:
        return ""
    table = np.column_stack(others)
    at = np.isfinite(x) & np.isfinite(of.y) & np.isfinite(table).all(axis=1)
    if at.sum() < 3 * len(others) + FEWEST:
        return ""
    fit = of.y[at] - left_by(table[at], of.y[at])
    alone = max(abs(correlation(fit, v[at])) for v in others)
    if abs(correlation(x[at], fit)) > 0.9999 and alone < 0.999:
        return "is the outcome's fit, or nearly so, in a regression on the other columns over all rows"
    return ""


def made_up(x: np.ndarray, of: Outcomes) -> str:
    """A sum of outcomes nobody knew and of what is known: it takes the former to make it up."""
    known = np.column_stack([*of.known, *_others(x, of)[:MOST_PAIRED]])
    for ahead in (0, 3):
        unknown = np.column_stack([*of.unknown, *(of.later(k) for k in range(1, ahead + 1))])
        both = np.column_stack([known, unknown])
        at = np.isfinite(x) & np.isfinite(both).all(axis=1)
        if len(np.unique(x[at])) < 3 * both.shape[1] + FEWEST:  # one a period, say
            continue
        scaled = both[at] / np.where(both[at].std(axis=0) > 0, both[at].std(axis=0), 1.0)
        table = scaled[:, : known.shape[1]]
        if explained(table, x[at]) < 0.98 and needs(scaled, table, x[at]):
            return "is made up of outcomes, own or of groups, that nobody knew, and of other columns"
    return ""


def _others(x: np.ndarray, of: Outcomes) -> list[np.ndarray]:
    return [v for v in of.columns.values() if v is not x and np.isfinite(v).mean() > 0.9]


def together(columns: dict[str, np.ndarray], of: Outcomes) -> dict[str, str]:
    """Return columns that make the outcome together: a sum, a ratio or a product of them, one of them perhaps in logarithms."""
    names, at = list(columns), np.isfinite(of.y)
    for x in columns.values():
        at = at & np.isfinite(x)
    if at.sum() < 3 * len(names) + FEWEST or not names:
        return {}
    y, past = of.y[at], of.past[at]
    table = np.column_stack([x[at] for x in columns.values()])
    table = (table - table.mean(axis=0)) / np.where(table.std(axis=0) > 0, table.std(axis=0), 1.0)
    left = 1 - explained(table, y)
    if left < 0.02 and left < 0.2 * (1 - correlation(of.past, of.y) ** 2):
        slopes = np.abs(np.linalg.lstsq(np.column_stack([np.ones(len(table)), table]), y, rcond=None)[0][1:])
        return {
            names[k]: "makes up the outcome with others" for k in np.flatnonzero(slopes > 0.2 * slopes.max())
        }
    for a, first in enumerate(names[:MOST_PAIRED]):
        for b, second in enumerate(names[:MOST_PAIRED]):
            one, two = columns[first][at], columns[second][at]
            if a != b and any(
                np.isfinite(m).all() and abs(correlation(m, y)) > 0.98 and closer(m, past, y)
                for m in _pairs(one, two)
            ):
                return dict.fromkeys((first, second), "makes up the outcome with another")
    return {}


def _pairs(one: np.ndarray, two: np.ndarray) -> list[np.ndarray]:
    """Return ratios and products; of the exponential, too, where the second may be a size in logarithms."""
    with np.errstate(all="ignore"):
        made = [one / two, one * two]
        return made + ([one * np.exp(-two), one * np.exp(two)] if np.abs(two).max() < MOST_LOG else [])
