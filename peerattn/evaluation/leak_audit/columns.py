"""One check of columns: was it made of what nobody knew when the row was?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.measures import (
    EXACT,
    FEWEST,
    at_later,
    equal_in_some,
    function_of,
    noisy_copy,
    sum_of,
)
from peerattn.evaluation.splits.periods import sorted_periods

MOST = 15  # other columns that are looked at beside one


@dataclass(frozen=True, eq=False)
class Rows:
    """Outcomes and columns of a panel: what was known in each row, and what was not.

    Attributes
    ----------
    y : ndarray (n,)
        NaN = unknown.
    firm, when : ndarray (n,)
        Firm and period as whole numbers, periods in time order.
    codes : dict of str to ndarray (n,)
        Levels of each code as whole numbers; -1 = unknown.
    columns : dict of str to ndarray (n,)
    """

    y: np.ndarray
    firm: np.ndarray
    when: np.ndarray
    codes: dict[str, np.ndarray]
    columns: dict[str, np.ndarray]

    @classmethod
    def of(
        cls, numbers: pd.DataFrame, y: np.ndarray, labels: tuple[np.ndarray, np.ndarray], codes: pd.DataFrame
    ) -> Rows:
        """Return the rows of frames of characteristics and codes."""
        columns = {str(name): column.to_numpy(dtype=float) for name, column in numbers.items()}
        return cls(y, *labels, {str(name): pd.factorize(code)[0] for name, code in codes.items()}, columns)

    def closer(self, x: np.ndarray, past: np.ndarray) -> bool:
        """Tell whether x leaves less than a fifth of the outcome's variance that what was known leaves."""
        at = np.isfinite(x) & np.isfinite(past) & np.isfinite(self.y)
        if at.sum() < FEWEST:  # there is no past to hold it against
            return True
        mine, before = (1 - np.corrcoef(v[at], self.y[at])[0, 1] ** 2 for v in (x, past))
        return bool(mine < 0.2 * before)

    def moved(self, x: np.ndarray, periods: int) -> np.ndarray:
        """Return the firm's value of x so many periods later; NaN where there is none."""
        return at_later(x, self.firm, self.when, periods)

    @cached_property
    def groups(self) -> dict[str, np.ndarray]:
        """Groups of rows, of the period, of a code and of a code within the period; -1 where the code is unknown."""
        found = {"the period": self.when}
        for name, level in self.codes.items():
            found[f"{name!r}"] = level
            found[f"{name!r} in the period"] = np.where(
                level < 0, -1, level * (self.when.max() + 1) + self.when
            )
        return found

    @cached_property
    def targets(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Outcomes that no row knows, each beside what the row knows of it: the same of the period before."""
        later = {f"the outcome of {k} periods later": self.moved(self.y, k) for k in (1, 2, 3)}
        change = {"the change of the outcome to the next period": self.moved(self.y, 1) - self.y}
        past = self.moved(self.y, -1)
        return {name: (u, past) for name, u in ({"the outcome": self.y} | change | later).items()}

    @cached_property
    def statistics(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Statistics of outcomes over groups and firms, with those of this period and later in them, beside those of the past."""
        found = {}
        for name, group in ({"the firm": self.firm} | self.groups).items():
            y = pd.Series(np.where(group < 0, np.nan, self.y))
            rows = y.groupby(group)
            table = {how: rows.transform(how) for how in ("mean", "median", "std", "max", "min")}
            count, total = rows.transform("count"), rows.transform("sum")
            table["mean of others"] = (total - y.fillna(0)) / (count - y.notna()).replace(0, np.nan)
            table["share above zero"] = (
                (y > 0).where(y.notna()).astype(float).groupby(group).transform("mean")
            )
            if name == "the firm":
                table["sum of later"] = total - self._past_sum - y.fillna(0)
                table["sum so far"] = pd.Series(self._past_sum) + y
            for how, v in table.items():
                past = self.moved(v.to_numpy(), -1) if name.endswith("the period") else self._past_mean(group)
                found[f"{how} of outcomes of {name}"] = v.where(y.notna()).to_numpy(), past
        return found

    @cached_property
    def _past_sum(self) -> np.ndarray:
        """The sum of the firm's earlier outcomes."""
        rows = pd.DataFrame({"firm": self.firm, "t": self.when, "y": np.nan_to_num(self.y)}).sort_values("t")
        return (rows.groupby("firm")["y"].cumsum() - rows["y"]).sort_index().to_numpy()

    def _past_mean(self, group: np.ndarray) -> np.ndarray:
        """Return the mean outcome of the group over earlier periods."""
        rows = pd.DataFrame({"g": group, "t": self.when, "y": self.y})
        cells = rows.groupby(["g", "t"])["y"].agg(["sum", "count"])
        before = cells.groupby(level=0).cumsum() - cells
        mean = before["sum"] / before["count"].replace(0, np.nan)
        return mean.reindex(pd.MultiIndex.from_arrays([group, self.when])).to_numpy()

    @cached_property
    def means(self) -> np.ndarray:
        """The outcome and its means over groups and the firm, (n, ...)."""
        own = [v for name, (v, _) in self.statistics.items() if name.startswith("mean of outcomes")]
        return np.column_stack([self.y, *own])

    def known(self, x: np.ndarray, lagged: bool = True) -> np.ndarray:
        """Return what a row knows beside x: past outcomes, past values of x, the other columns."""
        past = [self.moved(self.y, -1), self.moved(self.y, -2)]
        past += [p for name, (_, p) in self.statistics.items() if name.startswith("mean of outcomes")]
        past += [self.moved(x, -1)] if lagged else []
        others = [v for v in self.columns.values() if v is not x and np.isfinite(v).mean() > 0.8][:MOST]
        table = np.column_stack([*past, *others])
        return table[:, np.isfinite(table).mean(axis=0) > 0.5]


def labels_of(firm: pd.Index, period: pd.Index) -> tuple[np.ndarray, np.ndarray]:
    """Return firm and period of each row as whole numbers, periods in time order."""
    return pd.factorize(firm)[0], sorted_periods(period)[0]


def made_of_unknown(rows: Rows) -> dict[str, str]:
    """Return the columns and codes that were made of what nobody knew when the row was, and of what.

    Outcomes of the row, later ones, statistics with these in them, and later values of other columns are the unknown; past
    outcomes and other columns are the known. A column is refuted where it is an exact function of an unknown, equal to it in
    some rows, a sum that takes it, or a noisy copy of it, and is not the same of what is known. What goes along with outcomes
    but is none of this may be a good characteristic.
    """
    found: dict[str, str] = {}
    for name, x in rows.columns.items():
        if np.isfinite(x).sum() >= FEWEST and np.ptp(x[np.isfinite(x)]) > 0:
            why = next(_reasons(x, rows), "")
            found |= {name: why} if why else {}
        empty = ~np.isfinite(x)
        if (
            name not in found
            and FEWEST <= empty.sum() <= len(x) - FEWEST
            and (why := _decided(empty.astype(float), rows))
        ):
            found[name] = f"is missing where {why}"
    for name, level in rows.codes.items():
        mean = pd.Series(rows.y).groupby(level).transform("mean").where(level >= 0).to_numpy()
        if 1 < level.max() + 1 <= len(level) / 5 and (why := _decided(mean, rows)):
            found[name] = f"has levels of which {why}"
    rest = replace(rows, columns={name: x for name, x in rows.columns.items() if name not in found})
    return found | dict.fromkeys(
        _together(rest), "makes up outcomes that nobody knew, own or of groups, with what is known"
    )


def _together(rows: Rows) -> list[str]:
    """Return the fewest columns without which no column is made up of outcomes, nor the outcome of columns."""
    found = []
    while guilty := _made_up(rows):
        without = {
            name: replace(rows, columns={k: v for k, v in rows.columns.items() if k != name})
            for name in guilty
        }
        name = min(guilty, key=lambda name: len(_made_up(without[name])))
        found.append(name)
        rows = without[name]
    return found


def _made_up(rows: Rows) -> list[str]:
    found = []
    for name, x in rows.columns.items():
        for ahead in (0, 3):
            later = [rows.moved(rows.y, k) for k in range(1, ahead + 1)]
            if sum_of(x, np.column_stack([rows.means, *later]), rows.known(x, lagged=False)):
                found.append(name)
                break
    if (
        not found
        and rows.columns
        and sum_of(rows.y, rows.known(rows.y, lagged=False), rows.moved(rows.y, -1)[:, None])
    ):
        return list(rows.columns)
    return found


def _reasons(x: np.ndarray, rows: Rows) -> Iterator[str]:
    near = EXACT * np.nanstd(x)
    known = rows.known(x)
    for name, (u, past) in rows.targets.items():
        if function_of(x, u) and not function_of(past, u):
            yield f"is a function of {name}"
        if equal_in_some(x, u, near) and not _tracks(x, u, past):
            yield f"equals {name} in some rows"
    for name, group in rows.groups.items():
        if function_of(x, rows.y, group) and not function_of(rows.moved(rows.y, -1), rows.y, group):
            yield f"is, within {name}, a function of the outcome"
    if function_of(x - rows.moved(x, -1), rows.y) and not function_of(rows.moved(rows.y, -1), rows.y):
        yield "moves from the period before by a function of the outcome"
    for name, (u, past) in rows.statistics.items():
        if sum_of(x, u[:, None], past[:, None]):
            yield f"is the {name}"
    for name, other in list(rows.columns.items())[:MOST]:
        with np.errstate(all="ignore"):
            beside = () if other is x else (x - other, x / other)
        for v in beside:
            if function_of(v, rows.y) and not function_of(rows.moved(rows.y, -1), rows.y):
                yield f"differs from {name!r} by a function of the outcome"
    yield from _later(x, rows, near)
    if noisy_copy(x, rows.y, known):
        yield "is a noisy copy of the outcome: given it, nothing that was known says anything of the column"


def _later(x: np.ndarray, rows: Rows, near: float) -> Iterator[str]:
    """Yield how a column is made of later values of others, or lies halfway between its own."""
    before, after = rows.moved(x, -1), rows.moved(x, 1)
    bent = np.where(after != before, (before + after) / 2, np.nan)
    known = np.isfinite(x) & np.isfinite(bent)
    halfway = np.abs(x - bent)[known] <= near
    if (
        halfway.sum() >= FEWEST / 2
        and 0.1 < halfway.mean() < 0.8
        and len(np.unique(x[known])) > 0.5 * known.sum()
    ):
        yield "is interpolated between its earlier and its later values"
    rows_of = pd.Series(rows.when).groupby(rows.firm)
    first, last = (rows_of.transform(how).to_numpy() == rows.when for how in ("min", "max"))
    full = {name: v for name, v in rows.columns.items() if v is not x and np.isfinite(v).mean() > 0.8}
    for name, other in list(rows.columns.items())[:MOST]:
        if other is x:
            continue
        now = np.column_stack(
            [np.empty((len(x), 0)), *(v for v in list(full.values())[:MOST] if v is not other)]
        )
        span, back = (np.column_stack([rows.moved(v, k) for k in (-2, -1, 0)]) for v in (other, x))
        if sum_of(x, np.column_stack([rows.moved(other, k) for k in (1, 2)]), np.column_stack([span, now])):
            # the other may be a lag of x: a lag lacks a firm's first value, a lead its last
            lag = sum_of(other, back, np.zeros((len(x), 1)))
            if not lag or np.isfinite(other[first]).mean() > 0.5 > np.isfinite(x[last]).mean():
                yield f"is made of {name!r} of later periods"


def _tracks(x: np.ndarray, u: np.ndarray, past: np.ndarray) -> bool:
    """Tell whether x goes along with u where the two differ, too: they may then be the same at times."""
    at = np.isfinite(x) & np.isfinite(u) & np.isfinite(past) & (x != u)
    if at.sum() < FEWEST or min(np.ptp(v[at]) for v in (x, u, past)) == 0:
        return False
    mine, before = (abs(np.corrcoef(v[at], u[at])[0, 1]) for v in (x, past))
    return bool(mine > 0.8 and mine > before + 0.02)


def _decided(mark: np.ndarray, rows: Rows) -> str:
    for name, (u, past) in rows.targets.items():
        for group in (None, rows.when):
            if function_of(mark, u, group) and not function_of(past, u, group):
                return f"{name} decides it"
    return ""


def selected_rows(rows: Rows) -> str:
    """Say whether rows are missing because of their outcome, which a column of the firm's next row tells."""
    for name, x in rows.columns.items():
        told = rows.moved(x, 1)
        at = np.isfinite(told) & np.isfinite(rows.y)
        if at.sum() < FEWEST or not np.mean(np.abs(told - rows.y)[at] <= EXACT * np.nanstd(rows.y)) > 0.9:
            continue
        follows = np.isfinite(
            rows.moved(rows.y, -2)
        )  # the firm was there two periods before: its last row is there, or gone
        gone = np.where(follows, ~np.isfinite(rows.moved(x, -1)), np.nan)
        if np.nansum(gone) >= FEWEST and any(function_of(gone, x, group) for group in (None, rows.when)):
            return f"are missing where their outcome, which {name!r} of the firm's next row tells, decides it"
    return ""
