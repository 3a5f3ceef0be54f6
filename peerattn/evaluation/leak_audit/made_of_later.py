"""Columns that hold later values of others, and outcomes that reach further than the split waits."""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.labels import at_later
from peerattn.evaluation.leak_audit.relations import FEWEST, explained, needs

REACH = 12  # periods ahead over which an outcome may be made
MADE = 0.98  # R² from which an outcome is made of later values


def made_of_later(numbers: pd.DataFrame, firm: np.ndarray, when: np.ndarray) -> dict[str, str]:
    """Return the columns that average another over earlier and later periods, or fill it from later ones, and how."""
    columns = {str(name): column.to_numpy(dtype=float) for name, column in numbers.items()}
    columns = {name: x for name, x in columns.items() if not _calendar(x, when)}
    rows = pd.Series(when).groupby(firm)
    ends, begins = (rows.transform(how).to_numpy() == when for how in ("max", "min"))
    moved = {(name, k): at_later(x, firm, when, k) for name, x in columns.items() for k in (-2, -1, 0, 1, 2)}
    found: dict[str, str] = {}
    for name, x in columns.items():
        if whose := _of_last_row(x, columns, firm, when):
            found[name] = f"is the last, largest or smallest {whose!r} of the firm, later ones among them"
        for other in columns:
            if other == name or name in found or other in found:
                continue
            around = [moved[other, k] for k in (-2, -1, 0, 1, 2)]
            if _filled(x, *around[1:4]):
                found[name] = f"takes {other!r} from later periods"
            elif _averages(x, around) or _averages(_where_other(x, columns[other]), around):
                found[name] = f"averages {other!r} over earlier and later periods"
            elif _changes_ahead(x, columns[other], moved[other, 1], ends):
                found[name] = f"is the change of {other!r} to the next period"
            elif _sums_later(x - moved[name, 1], columns[other], moved[other, 1], moved[name, 1]):
                found[name] = f"is a sum of later {other!r}"
            elif _lagged_over_firms(x, columns[other], moved[other, -1], when):
                found[name] = (
                    f"is the {other!r} of the row before, where a firm begins of another firm's later one"
                )
            elif _ahead(x, columns[other], moved[other, 1], ends, begins):
                found[name] = f"is {other!r} of the next period"
        if name not in found and _interpolated(moved[name, -1], x, moved[name, 1]):
            found[name] = "is interpolated between its earlier and its later values"
    return found


def _calendar(x: np.ndarray, when: np.ndarray) -> bool:
    """Tell whether x has few values and one a period: the calendar is known."""
    rows = pd.Series(x).groupby(when)
    return bool(rows.nunique().max() <= 1 and len(np.unique(x)) < FEWEST)


def reach_of_outcome(
    numbers: pd.DataFrame, y: np.ndarray, firm: np.ndarray, when: np.ndarray
) -> tuple[int, str]:
    """Return how many periods ahead the outcome is made of a characteristic's values, and of which; 0 and "" where it is not.

    An outcome that is the sum of the next six months' returns is known six months later, whatever its date says. It is known as
    soon as one characteristic makes it up, if need be up to noise. One that is a single later value says nothing: the
    characteristic may be its lag.
    """
    found: list[tuple[int, str]] = []
    for name, column in numbers.items():
        x = column.to_numpy(dtype=float)
        leads = np.column_stack([at_later(x, firm, when, k) for k in range(REACH + 1)])
        found += [(h, str(name)) for h in (_last_lead(leads, y) or _overlap(leads, y))]
    return min(found, default=(0, ""))


def _last_lead(leads: np.ndarray, y: np.ndarray) -> list[int]:
    """Return the last lead of those that make up the outcome wholly: with it and others, and not without."""
    for h in range(REACH + 1):
        table = leads[:, : h + 1]
        at = np.isfinite(table).all(axis=1) & np.isfinite(y)
        if at.sum() < 3 * REACH + FEWEST or np.ptp(y[at]) == 0:
            break
        if explained(table[at], y[at]) > MADE:
            alone, before = (explained(table[at][:, part], y[at]) for part in (slice(-1, None), slice(-1)))
            return [h] if h <= 1 or alone < MADE - 0.02 > before else []
    return []


def _overlap(leads: np.ndarray, y: np.ndarray) -> list[int]:
    """Return over how many periods ahead the outcome is a sum of x, up to noise (clipping, compounding).

    The sum over these periods leaves less than half of the variance that sums over one period more or less leave, and free
    slopes, beyond them, too, leave nearly as much: an outcome of one period to which a persistent or smoothed x goes along has
    slopes that differ.
    """
    for h in range(2, REACH - 1):
        table = leads[:, : h + 3]
        at = np.isfinite(table).all(axis=1) & np.isfinite(y)
        if at.sum() < 3 * REACH + FEWEST or np.ptp(y[at]) == 0:
            break
        left = [1 - explained(table[at, 1 : k + 1].sum(axis=1), y[at]) for k in (h - 1, h, h + 1)]
        if left[1] < min(0.2, left[0] / 2, left[2] / 2) and 1 - explained(table[at], y[at]) > 0.8 * left[1]:
            return [h]
    return []


def _averages(x: np.ndarray, around: list[np.ndarray]) -> bool:
    """Tell whether x is a mean of the other column in which later values count.

    Least squares of x on the other's values of two periods before to two after, less its level: these explain it, those up to
    the period leave ten times as much, and no weight is negative. A flow is a difference of stocks, one of them later: its
    weights have two signs, and it may be known.
    """
    at = np.isfinite(x) & np.all(np.isfinite(around), axis=0)
    if at.sum() < 2 * FEWEST or np.ptp(x[at]) == 0:
        return False
    table = np.column_stack(around)[at]
    table = table / max(np.abs(table).max(), 1e-300)
    design = np.column_stack([np.ones(len(table)), table])
    weight, _, rank, _ = np.linalg.lstsq(design, x[at], rcond=1e-10)
    share = weight[1:] / np.abs(weight[1:]).sum() if np.abs(weight[1:]).sum() > 0 else weight[1:]
    if rank < design.shape[1] or share.min() < -0.02 or share[3:].sum() < 0.1 or share[:3].sum() < 0.1:
        return False
    return needs(table, table[:, :3], x[at])


def _where_other(x: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return x where it is not the other column, if it is in a good part of the rows; nothing otherwise."""
    same = np.abs(x - other) <= 1e-12 * np.nanmax(np.abs(x), initial=0.0)
    return np.where(same, np.nan, x) if 0.1 < same.mean() < 0.9 else np.full(len(x), np.nan)


def _filled(x: np.ndarray, before: np.ndarray, now: np.ndarray, after: np.ndarray) -> bool:
    """Tell whether x is the other column in most rows, and where it is not, its next value."""
    near = lambda a: np.isfinite(a) & (np.abs(a - x) <= 1e-12 * np.nanmax(np.abs(x)))  # noqa: E731
    at = np.isfinite(x) & np.isfinite(now)
    here, rest = at & near(now), at & ~near(now)
    return bool(
        here.sum() >= FEWEST
        and len(np.unique(x[here])) >= FEWEST
        and (rest & near(after)).sum() >= max(FEWEST / 2, 0.25 * rest.sum())
        and (rest & near(before)).sum() < 0.1 * (rest & near(after)).sum()
    )


def _ahead(x: np.ndarray, other: np.ndarray, after: np.ndarray, ends: np.ndarray, begins: np.ndarray) -> bool:
    """Tell a lead from a lag: x is the other's next value, known or made up at a firm's end, where the other is as elsewhere.

    A column and its lag look the same from the lag's side; but a lag lacks its first value (or has a true one), a lead its last.
    """
    at = np.isfinite(x) & np.isfinite(after)
    if at.sum() < 2 * FEWEST or not np.allclose(x[at], after[at], rtol=1e-9, atol=0.0):
        return False
    last, first = ends & np.isfinite(other), begins & np.isfinite(other)
    made_up = (
        np.abs(x[last & np.isfinite(x)]).std() < 0.5 * np.std(np.abs(x[at]))
        if (last & np.isfinite(x)).any()
        else True
    )
    whole = np.abs(other[first]).std() > 0.5 * np.nanstd(np.abs(other)) if first.sum() >= 8 else False
    return bool(last.sum() >= 8 and made_up and whole)


def _interpolated(before: np.ndarray, x: np.ndarray, after: np.ndarray) -> bool:
    """Tell whether many values lie exactly halfway between those around, and many do not: a straight line has all."""
    at = np.isfinite(x) & np.isfinite(before) & np.isfinite(after) & (after != before)
    if at.sum() < 2 * FEWEST or len(np.unique(x[at])) < 0.5 * at.sum():
        return False
    halfway = np.abs(x - (before + after) / 2)[at] <= 1e-9 * np.std(x[at])
    return bool(halfway.sum() >= FEWEST / 2 and 0.1 < halfway.mean() < 0.8)


def _of_last_row(x: np.ndarray, columns: dict[str, np.ndarray], firm: np.ndarray, when: np.ndarray) -> str:
    """Say of which column x is a firm's last, largest or smallest value, if it does not vary within firms."""
    rows = pd.DataFrame({"x": x, "firm": firm, "t": when}).sort_values("t")
    firms = rows.groupby("firm")["x"]
    if firms.nunique().max() != 1 or firms.first().nunique() < FEWEST:
        return ""
    for name, other in columns.items():
        of = pd.Series(other)[rows.index].groupby(rows["firm"])
        first = of.first()
        for value in (of.last(), of.max(), of.min()):
            moved = (value != first) & value.notna() & firms.first().notna()
            if moved.sum() >= FEWEST and (firms.first() == value)[moved].mean() > 0.9:
                return name
    return ""


def _lagged_over_firms(x: np.ndarray, other: np.ndarray, before: np.ndarray, when: np.ndarray) -> bool:
    """Tell whether x is the other column's last value, and, in a firm's first row, a later one of another firm."""
    follows = np.isfinite(before) & np.isfinite(x)
    begins = ~np.isfinite(before) & np.isfinite(x) & np.isfinite(other)
    if follows.sum() < 2 * FEWEST or begins.sum() < 8 or (x == before)[follows].mean() < 0.95:
        return False
    latest = pd.Series(when).groupby(other).max()
    if len(latest) < 0.8 * np.isfinite(other).sum():
        return False
    return bool((latest.reindex(x[begins]).to_numpy() >= when[begins]).mean() > 0.6)


def _sums_later(step: np.ndarray, other: np.ndarray, after: np.ndarray, own_next: np.ndarray) -> bool:
    """Tell whether a column loses, from period to period, what the other has: it is the sum of what is to come."""
    at = np.isfinite(step) & np.isfinite(other) & np.isfinite(after)
    if at.sum() < 2 * FEWEST or np.ptp(other[at]) == 0 or np.ptp(step[at]) <= 1e-9 * np.ptp(own_next[at]):
        return False
    return any(np.abs(step - v)[at].max() <= 1e-9 * np.std(own_next[at]) for v in (other, after))


def _changes_ahead(x: np.ndarray, other: np.ndarray, after: np.ndarray, ends: np.ndarray) -> bool:
    """Tell whether x is the change of a level to its next value, which a firm's last row lacks or has made up.

    A flow between stocks at the beginnings of periods is the same, but known in the last row.
    """
    at = np.isfinite(x) & np.isfinite(after) & np.isfinite(other)
    if at.sum() < 2 * FEWEST or not np.allclose(
        x[at], (after - other)[at], rtol=1e-6, atol=1e-9 * np.std(x[at])
    ):
        return False
    last = x[ends & np.isfinite(x)]
    return np.std(x[at]) > 1e-6 * np.std(other[at]) and (len(last) < 8 or last.std() < 0.1 * np.std(x[at]))
