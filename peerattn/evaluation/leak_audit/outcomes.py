"""The outcomes of a panel, and what a column may have been made of: later ones, means, statistics and trends of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.labels import at_later
from peerattn.evaluation.leak_audit.relations import left_by

MOST_PAIRED = 15  # columns that are looked at together with others
MOST_LOG = 30.0  # a column of larger values is no logarithm
#: Periods before or after the tested one over which spread and extremes are taken.
WINDOWS = (1, 2, 3, 4, 5, 8, 11)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Outcomes of a panel beside its columns, and what may be made of them.

    Attributes
    ----------
    y : ndarray (n,)
        NaN = unknown.
    firm, when : ndarray (n,)
        Firm and period as whole numbers, periods in time order.
    codes : dict of str to ndarray (n,)
        Levels of each code as whole numbers; -1 = unknown.
    columns : dict of str to ndarray (n,)
        The characteristics.
    """

    y: np.ndarray
    firm: np.ndarray
    when: np.ndarray
    codes: dict[str, np.ndarray]
    columns: dict[str, np.ndarray]

    def moved(self, x: np.ndarray, periods: int) -> np.ndarray:
        """Return the firm's value of x so many periods later; NaN where there is none."""
        return at_later(x, self.firm, self.when, periods)

    def later(self, periods: int) -> np.ndarray:
        """Return the firm's outcome so many periods later; NaN where there is none."""
        return self.moved(self.y, periods)

    @cached_property
    def past(self) -> np.ndarray:
        """The firm's outcome of the period before, which is known."""
        return self.later(-1)

    @cached_property
    def targets(self) -> dict[str, np.ndarray]:
        """What no characteristic may be a function of."""
        ahead = {f"the outcome of {k} periods later": self.later(k) for k in (1, 2, 3)}
        change = self.later(1) - self.y
        return {"the outcome": self.y, "the change of the outcome to the next period": change} | ahead

    @cached_property
    def groups(self) -> dict[str, np.ndarray]:
        """Groups of rows, as whole numbers; a row whose code is unknown is a group of its own."""
        found = {"the period": self.when}
        for name, levels in self.codes.items():
            known = levels >= 0
            alone = levels.max() + 1 + np.arange(len(levels))
            inside = levels * (self.when.max() + 1) + self.when
            found[f"{name!r}"] = np.where(known, levels, alone)
            found[f"{name!r} in the period"] = np.where(known, inside, -1 - alone)
        return {name: np.unique(group, return_inverse=True)[1] for name, group in found.items()}

    @cached_property
    def group_means(self) -> dict[str, np.ndarray]:
        """The mean outcome of each group."""
        y = pd.Series(self.y)
        return {name: y.groupby(group).transform("mean").to_numpy() for name, group in self.groups.items()}

    @cached_property
    def statistics(self) -> dict[str, np.ndarray]:
        """Statistics of the outcomes of each group, which its rows share, and the mean outcomes of later periods."""
        y, found = pd.Series(self.y), {}
        of_firm = y - y.groupby(self.firm).transform("mean")
        for name, group in self.groups.items():
            rows, up = y.groupby(group), (y > 0).astype(float).where(y.notna()).groupby(group)
            for how in ("median", "std", "max", "min"):
                found[f"{how} of outcomes of {name}"] = rows.transform(how).to_numpy()
            found[f"share of outcomes above zero of {name}"] = up.transform("mean").to_numpy()
            level = of_firm.groupby(group).transform("mean").to_numpy()
            found[f"mean outcome of {name}, less the firms' means"] = level
            for by, weight in self._weights():
                whole, others = self._means(group, weight)
                found[f"mean outcome of {name}{by}"] = whole
                found[f"mean outcome of {name}{by}, own left out"] = others
        mean = y.groupby(self.when).mean()
        for k in (1, 2, 3):
            found[f"mean outcome of {k} periods later"] = mean.reindex(self.when + k).to_numpy()
        return found

    def _weights(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield equal weights, and columns that may weigh: positive ones, and sizes in logarithms."""
        yield "", np.ones(len(self.y))
        for name, x in list(self.columns.items())[:MOST_PAIRED]:
            known = np.isfinite(x)
            if known.any() and np.ptp(x[known]) > 0:
                filled = np.where(known, x, 0.0)
                if x[known].min() >= 0:
                    yield f", weighted by {name!r}", filled
                if np.abs(x[known]).max() < MOST_LOG:
                    yield f", weighted by 'exp {name}'", np.where(known, np.exp(filled), 0.0)

    def _means(self, group: np.ndarray, weight: np.ndarray) -> list[np.ndarray]:
        """Return weighted mean outcomes of groups, with the own row and without; NaN for a row alone in its group."""
        heavy = np.where(np.isfinite(self.y), weight, 0.0)
        own = heavy * np.nan_to_num(self.y)
        total, size = (np.bincount(group, v)[group] for v in (own, heavy))
        several = size - heavy > 1e-9 * size
        return [
            np.divide(part, of, out=np.full(len(own), np.nan), where=several)
            for part, of in ((total, size), (total - own, size - heavy))
        ]

    @cached_property
    def trends(self) -> dict[str, np.ndarray]:
        """Each firm's outcomes on powers of time, by least squares over all its periods."""
        known = np.flatnonzero(np.isfinite(self.y))
        found = {name: np.full(len(self.y), np.nan) for name in ("line", "parabola", "cubic")}
        for rows in pd.Series(known).groupby(self.firm[known]).indices.values():
            here = known[rows]
            t = (self.when[here] - self.when[here].mean()) / max(np.ptp(self.when[here]), 1)
            for degree, fitted in enumerate(found.values(), start=1):
                if len(here) > degree + 1:
                    fitted[here] = self.y[here] - left_by(np.vander(t, degree + 1)[:, :-1], self.y[here])
        return found

    @cached_property
    def windows(self) -> dict[tuple[str, int, int], np.ndarray]:
        """Spread and extremes of a firm's outcomes from some periods before the tested one to some after."""
        found = {}
        spans = [(0, k) for k in WINDOWS] + [(-k, 0) for k in WINDOWS] + [(-k, k) for k in (1, 2)]
        for first, last in spans:
            window = np.column_stack([self.later(k) for k in range(first, last + 1)])
            several = np.isfinite(window).sum(axis=1) > 1
            for how, of in (("std", partial(np.nanstd, ddof=1)), ("max", np.nanmax), ("min", np.nanmin)):
                found[how, first, last] = np.full(len(window), np.nan)
                found[how, first, last][several] = of(window[several], axis=1)
        return found

    @cached_property
    def rank(self) -> np.ndarray:
        """Share of the period's outcomes that are no larger."""
        return pd.Series(self.y).groupby(self.when).rank(pct=True).to_numpy()

    @cached_property
    def size(self) -> np.ndarray:
        """Distance of the outcome from the mean of all."""
        return np.abs(self.y - np.nanmean(self.y))

    @cached_property
    def unknown(self) -> list[np.ndarray]:
        """The outcome, the means of its groups and of its firm over all periods."""
        of_firm = pd.Series(self.y).groupby(self.firm).transform("mean").to_numpy()
        return [self.y, self.rank, self.size, *self.group_means.values(), of_firm]

    @cached_property
    def known(self) -> list[np.ndarray]:
        """The firm's last two outcomes and the mean of its earlier ones, and the means of groups one period before."""
        rows = pd.DataFrame({"y": self.y, "firm": self.firm, "t": self.when})
        order = rows.sort_values("t").groupby("firm")["y"]
        mean = ((order.cumsum() - rows["y"]) / order.cumcount().where(lambda n: n > 0)).reindex(rows.index)
        last = [self.moved(v, -1) for v in (self.rank, self.size, *self.group_means.values())]
        return [self.past, self.later(-2), mean.to_numpy(), *last]
