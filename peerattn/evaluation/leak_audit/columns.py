"""One check of columns: was it made of what nobody knew when the row was?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.measures import (
    FEWEST,
    at_later,
    function_of,
    noisy_copy,
    percentile,
    sum_of,
)

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
    def of(cls, X: pd.DataFrame, y: np.ndarray, firm: np.ndarray, when: np.ndarray) -> Rows:
        """Return the rows of a frame; its columns that are not numbers are codes."""
        numbers = X.select_dtypes("number").astype(float)
        codes = {str(name): pd.factorize(code)[0] for name, code in X.drop(columns=numbers).items()}
        return cls(y, firm, when, codes, {str(name): x.to_numpy() for name, x in numbers.items()})

    def without(self, *names: str) -> Rows:
        """Return the same without these columns."""
        return replace(self, columns={name: x for name, x in self.columns.items() if name not in names})

    def logs(self) -> Rows:
        """Return the same in logarithms, of all that is positive; rates of growth above -1 are taken as log(1 + y)."""
        y, finite = self.y, self.y[np.isfinite(self.y)]
        if (finite > -1).all():
            y = np.log(y) if (finite > 0).all() else np.log1p(y)
        columns = self.columns.items()
        logs = {name: np.log(x) if (x[np.isfinite(x)] > 0).all() else x for name, x in columns}
        return replace(self, y=y, columns=logs)

    def moved(self, x: np.ndarray, periods: int) -> np.ndarray:
        """Return the firm's value of x that number of periods later; NaN where there is none."""
        return at_later(x, self.firm, self.when, periods)

    @cached_property
    def groups(self) -> dict[str, np.ndarray]:
        """Groups of rows: of the firm, the period, a code and a code within the period; -1 where the code is unknown."""
        found = {"the firm": self.firm, "the period": self.when}
        for name, level in self.codes.items():
            found[f"{name!r}"] = level
            found[f"{name!r} in the period"] = np.where(
                level < 0, -1, level * (self.when.max() + 1) + self.when
            )
        return found

    @cached_property
    def outcomes(self) -> dict[str, np.ndarray]:
        """Outcomes that no row knows."""
        later = {f"the outcome of {k} periods later": self.moved(self.y, k) for k in (1, 2, 3)}
        return {"the outcome": self.y} | later

    @cached_property
    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of outcomes over groups, this period and later ones among them, and those of earlier periods, (n, groups)."""
        now, before = [], []
        for name, group in self.groups.items():
            rows = pd.DataFrame({"g": group, "t": self.when, "y": np.where(group < 0, np.nan, self.y)})
            now.append(rows.groupby("g")["y"].transform("mean").to_numpy())
            cells = rows.groupby(["g", "t"])["y"].agg(["sum", "count"])
            past = cells.groupby(level=0).cumsum() - cells
            mean = (past["sum"] / past["count"].replace(0, np.nan)).reindex(
                pd.MultiIndex.from_arrays([group, self.when])
            )
            before.append(self.moved(now[-1], -1) if name.endswith("the period") else mean.to_numpy())
        return np.column_stack(now), np.column_stack(before)

    def known(self, x: np.ndarray, lagged: bool) -> np.ndarray:
        """Return what a row knows beside x: past outcomes and their means, past values of x, the other columns."""
        past = [self.moved(self.y, -1), self.moved(self.y, -2), self.means[1]]
        others = [v for v in self.columns.values() if v is not x and np.isfinite(v).mean() > 0.8][:MOST]
        table = np.column_stack([*past, *others, *([self.moved(x, -1)] if lagged else [])])
        return table[:, np.isfinite(table).mean(axis=0) > 0.5]


def made_of_unknown(rows: Rows) -> dict[str, str]:
    """Return the columns and codes that were made of what nobody knew when the row was, and of what.

    Outcomes of the row, later ones, means with these in them and later values of other columns are the unknown; past outcomes
    and other columns are the known. A column is refuted where it is an exact function of an unknown, a sum that takes it (in
    levels or in logarithms), or a noisy copy of it, and is not the same of what is known. What goes along with outcomes but is
    none of this may be a good characteristic.
    """
    found = {}
    for name, x in rows.columns.items():
        if why := next(_reasons(x, rows), ""):
            found[name] = why
    for name, level in rows.codes.items():
        mean = pd.Series(rows.y).groupby(level).transform("mean").where(level >= 0).to_numpy()
        if 1 < level.max() + 1 <= len(level) / 5 and (why := _decided(mean, rows)):
            found[name] = f"has levels of which {why}"
    rest = rows.without(*found)
    while guilty := _sums(rest):
        name = min(guilty, key=lambda name: len(_sums(rest.without(name))) if len(guilty) > 1 else 0)
        found[name], rest = guilty[name], rest.without(name)
    return found


def left_out(rows: Rows) -> str:
    """Say that rows are missing where their outcome decides it; empty where none does.

    The outcome of a missing row is seen in a column that holds it k periods later (this year's profitability, where next
    year's is the outcome), in rows of firms that were there before.
    """
    here, since = np.ones(len(rows.y)), pd.Series(rows.when).groupby(rows.firm).transform("min").to_numpy()
    for k in (1, 2, 3):
        there = np.isfinite(rows.moved(here, -k)).astype(float)
        there[rows.when - k < since] = np.nan
        outcome = rows.moved(rows.y, -k)
        for name, x in rows.columns.items():
            both = np.isfinite(x + outcome)
            if both.sum() < FEWEST or not np.allclose(x[both], outcome[both]):
                continue
            if function_of(there, x):
                return f"rows are missing where their outcome, which is {name!r} {k} later, decides it"
    return ""


def _reasons(x: np.ndarray, rows: Rows) -> Iterator[str]:
    past = rows.moved(rows.y, -1)
    for name, u in rows.outcomes.items():
        if function_of(x, u) and not function_of(past, u):
            yield f"is a function of {name}"
    for name, group in rows.groups.items():
        if function_of(*percentile(x, rows.y, group)) and not function_of(*percentile(past, rows.y, group)):
            yield f"is, within {name}, a function of the outcome"
    for name, now, before in zip(rows.groups, *(table.T for table in rows.means), strict=True):
        if sum_of(x, now[:, None], before[:, None]):
            yield f"is the mean of outcomes of {name}"
    if noisy_copy(x, rows.y, rows.known(x, lagged=True)):
        yield "is a noisy copy of the outcome: given it, nothing that was known says anything of the column"
    empty = ~np.isfinite(x)
    if FEWEST <= empty.sum() <= len(x) - FEWEST and (why := _decided(empty.astype(float), rows)):
        yield f"is missing where {why}"
    first, last = (
        pd.Series(rows.when).groupby(rows.firm).transform(how).to_numpy() == rows.when
        for how in ("min", "max")
    )
    for name, other in list(rows.columns.items())[:MOST]:
        later = np.column_stack([rows.moved(other, k) for k in (1, 2)])
        near = [rows.moved(other, -1), rows.known(x, lagged=False)]
        if other is not x and sum_of(x, later, np.column_stack(near)):
            # the other may be a lag of x: a lag lacks a firm's first value, a lead its last
            lag = sum_of(other, np.column_stack([rows.moved(x, k) for k in (-2, -1, 0)]), later[:, :0])
            if not lag or np.isfinite(other[first]).mean() > 0.5 > np.isfinite(x[last]).mean():
                yield f"is made of {name!r} of later periods"


def _decided(mark: np.ndarray, rows: Rows) -> str:
    """Say which outcome decides a mark, over all rows or by its rank in the period; empty where none does."""
    past = rows.moved(rows.y, -1)
    for name, u in rows.outcomes.items():
        ranks = (percentile(v, v, rows.when)[0] for v in (u, past))
        for now, before in ((u, past), tuple(ranks)):
            if function_of(mark, now) and not function_of(mark, before):
                return f"{name} decides it"
    return ""


def _sums(rows: Rows) -> dict[str, str]:
    """Return the columns that are a sum of the others with an unknown, and all where they make up the outcome."""
    found = {}
    for space in (rows, rows.logs()):
        unknown = np.column_stack([space.y, space.means[0]])
        later = np.column_stack([unknown, *list(space.outcomes.values())[1:]])
        for name, x in space.columns.items():
            for lagged in (False, True):
                known = space.known(x, lagged)
                if any(sum_of(x, u, known) for u in (unknown, later)):
                    found[name] = "with other columns makes up outcomes that nobody knew, own or of groups"
        own = space.moved(space.y, -1)[:, None]
        if not found and space.columns and sum_of(space.y, space.known(space.y, lagged=False), own):
            return dict.fromkeys(space.columns, "with other columns makes up the outcome")
    return found
