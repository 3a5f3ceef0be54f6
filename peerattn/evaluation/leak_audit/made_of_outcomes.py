"""Columns that were made of outcomes nobody knew when the row was."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd
from scipy.special import gammaln

from peerattn.evaluation.leak_audit.made_of_later import at_later
from peerattn.evaluation.leak_audit.relations import (
    CHANCE,
    FEWEST,
    LEFT,
    SAME,
    SAME_ORDER,
    closer,
    closer_than_errors,
    correlation,
    explained,
    function_of,
    left_by,
    needs,
    net,
    one_sided,
    projection,
    rows_on_a_line,
    same_order,
)
from peerattn.evaluation.splits.periods import sorted_periods

Labels = tuple[np.ndarray, np.ndarray]
MOST_PAIRED = 15  # columns whose ratios and products are looked at
MOST_LOG = 30.0  # a column of larger values is no logarithm
WINDOWS = (
    1,
    2,
    3,
    4,
    5,
    8,
    11,
)  # periods before or after the tested one over which spread and extremes are taken


def labels_of(firm: pd.Index, period: pd.Index) -> Labels:
    """Return firm and period of each row as whole numbers, periods in time order."""
    return pd.factorize(firm)[0], sorted_periods(period)[0]


def made_of_outcomes(
    numbers: pd.DataFrame,
    y: np.ndarray,
    firm: np.ndarray,
    when: np.ndarray,
    codes: pd.DataFrame | None = None,
) -> dict[str, str]:
    """Return the columns that were made of outcomes nobody knew when the row was, and how.

    Each column is held against the row's outcome, later ones, and means of outcomes with later ones in them: a function of one
    of them, in all rows or in a part, is no characteristic. What goes along with outcomes but is no function of them is not
    refuted: it may be a good characteristic. Where an outcome repeats itself, the firm's outcome before goes along with it as
    closely: a column is then refuted only if it leaves less than a fifth of the variance that this leaves.
    """
    found: dict[str, str] = {}
    codes = pd.DataFrame(index=numbers.index) if codes is None else codes
    columns = {str(name): column.to_numpy(dtype=float) for name, column in numbers.items()}
    levels_of = {str(name): pd.factorize(code)[0] for name, code in codes.items()}
    outcome = Outcomes(y, firm, when, levels_of, columns)
    for name, x in columns.items():
        missing = np.isnan(x)
        if np.isfinite(x).sum() >= FEWEST and (why := outcome.explains(x)):
            found[name] = why
        elif FEWEST <= missing.sum() <= len(x) - FEWEST and (why := outcome.decides(missing.astype(float))):
            found[name] = f"is missing where {why}"
        elif len(np.unique(x[~missing])) == 2 and (why := outcome.flags(x)):
            found[name] = why
        elif why := outcome.decides(_commonest(x)):
            found[name] = f"has its commonest value where {why}"
    for name, levels in outcome.codes.items():
        if 1 < levels.max() + 1 <= len(y) / 5 and (why := outcome.orders(levels)):
            found[name] = why
    left = {name: x for name, x in columns.items() if name not in found}
    return found | _together(left, y, outcome.later(-1))


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of a panel, and what may be made of them."""

    y: np.ndarray
    firm: np.ndarray
    when: np.ndarray
    codes: dict[str, np.ndarray]
    columns: dict[str, np.ndarray]

    def later(self, periods: int) -> np.ndarray:
        """Return the firm's outcome so many periods later; NaN where there is none."""
        return at_later(self.y, self.firm, self.when, periods)

    @cached_property
    def targets(self) -> dict[str, np.ndarray]:
        """What no characteristic may be a function of."""
        ahead = {k: self.later(k) for k in (1, 2, 3)}
        found = {"the outcome": self.y, "the change of the outcome to the next period": ahead[1] - self.y}
        found |= {f"the outcome of {k} periods later": values for k, values in ahead.items()}
        return found

    @cached_property
    def groups(self) -> dict[str, np.ndarray]:
        """Groups of rows, as whole numbers."""
        found = {"the period": self.when}
        for name, levels in self.codes.items():
            known = levels >= 0
            alone = levels.max() + 1 + np.arange(len(levels))
            found[f"{name!r}"] = np.where(known, levels, alone)
            found[f"{name!r} in the period"] = np.where(
                known, levels * (self.when.max() + 1) + self.when, -1 - alone
            )
        return {name: np.unique(group, return_inverse=True)[1] for name, group in found.items()}

    def explains(self, x: np.ndarray) -> str:
        """Say what outcome the column is a function of; empty where there is none."""
        past = self.later(-1)
        for rule in (
            self._whole,
            self._in_groups,
            self._in_a_part,
            self._of_others,
            self._in_steps,
            self._in_decimals,
            self._mean,
            self._encoded,
            self._of_firms,
            self._until_exit,
            self._trend,
            self._smoothed,
            self._moving,
            self._fitted,
            self._statistic,
            self._made_up,
        ):
            if (why := rule(x)) and (closer(x, past, self.y) or not rule(past)):
                return why
        return ""

    def _whole(self, x: np.ndarray) -> str:
        """In all rows."""
        for name, target in self.targets.items():
            if function_of(x, target):
                return f"is a function of {name}"
        return "has the order of the outcome" if same_order(x, self.y, self.when) else ""

    def decides(self, indicator: np.ndarray) -> str:
        """Say which outcome decides a yes or no."""
        for name, target in self.targets.items():
            if function_of(indicator, target):
                return f"{name} decides it"
        for name, target in (("the outcome", self.y), ("the outcome of the next period", self.later(1))):
            known = (self.later(-1), *self.columns.values())
            if one_sided(indicator, target, self.when) and not any(
                one_sided(indicator, other, self.when) for other in known
            ):
                return f"{name} is on one side only"
        return ""

    def flags(self, x: np.ndarray) -> str:
        """Say on which side of the outcome the rows are that a column of two values marks."""
        marked = np.where(np.isfinite(x), x == np.nanmax(x), np.nan).astype(float)
        if why := self.decides(marked):
            return f"marks rows of which {why}"
        return self._of_parts(np.where(np.isfinite(x), marked, -1).astype(int))

    def orders(self, levels: np.ndarray) -> str:
        """Say whether the levels of a code are ranges of the outcome."""
        means = pd.Series(self.y).groupby(levels).transform("mean").to_numpy()
        known = levels >= 0
        sizes = np.bincount(levels[known])
        several = known & (sizes[np.where(known, levels, 0)] >= 5)
        x = np.where(several, means, np.nan)
        past = self.later(-1)
        for name, group in {"": np.zeros(len(x), dtype=int), **self.groups}.items():
            if function_of(x, self.y, group) and not function_of(past, self.y, group):
                inside = f", within {name}," if name else ""
                return f"has levels that are{inside} ranges of the outcome"
        return self._of_parts(levels)

    def _of_parts(self, levels: np.ndarray) -> str:
        """Levels that stay with a firm, or with a period, and are ranges of its outcomes; levels of later columns."""
        for what, part in (("firm", self.firm), ("period", self.when)):
            rows = pd.DataFrame({"level": levels, "y": self.y, "part": part}).dropna().groupby("part")
            if (rows["level"].nunique() > 1).any():
                continue
            level = rows["level"].first()
            for how in ("mean", "median", "std", "max", "min"):
                if _ranges(level.to_numpy(), rows["y"].agg(how).to_numpy()):
                    return f"has levels that are ranges of the {how} of the {what}'s outcomes"
        for name, x in self.columns.items():
            later, before = (at_later(x, self.firm, self.when, k) for k in (1, -1))
            if _ranges(levels, later) and not any(_ranges(levels, v) for v in (x, before)):
                return f"has levels that are ranges of {name!r} of the next period"
        return ""

    def _in_groups(self, x: np.ndarray) -> str:
        """Within the rows of a group: the outcome less the group's mean, or above its median."""
        for name, group in self.groups.items():
            known = np.isfinite(x) & np.isfinite(self.y)
            size = np.bincount(group[known], minlength=group.max() + 1)[group]
            at = known & (size >= 4)
            if at.sum() < FEWEST or size[at].mean() > 0.9 * known.sum():
                continue
            own, outcome = (net(v[at], group[at]) for v in (x, self.y))
            if abs(correlation(own, outcome)) > SAME or function_of(x[at], self.y[at], group[at]):
                return f"is, within {name}, a function of the outcome"
        return ""

    def _in_a_part(self, x: np.ndarray) -> str:
        """In some periods, codes or firms, or wherever the values are the same."""
        for name, target in self.targets.items():
            same = np.isfinite(x) & (np.abs(x - target) <= 1e-9 * np.nanstd(self.y))
            if same.sum() >= FEWEST and len(np.unique(x[same])) >= FEWEST and not self._related(x, target):
                return f"equals {name} in {same.sum():,} rows"
        for name, other in self.columns.items():
            added = x - other
            differs = np.isfinite(added) & (np.abs(added) > 1e-9 * np.nanstd(x))
            if FEWEST <= differs.sum() < 0.9 * np.isfinite(added).sum():
                more = abs(correlation(x, self.y)) > abs(correlation(other, self.y))
                if more and abs(correlation(added[differs], self.y[differs])) > SAME:
                    return f"is {name!r} with the outcome added in {differs.sum():,} rows"
        parts = {
            "period": self.when,
            "firm": self.firm,
            **{repr(name): levels for name, levels in self.codes.items()},
        }
        for name, part in parts.items():
            known = np.isfinite(x) & np.isfinite(self.y) & (part >= 0)
            of_part = pd.DataFrame({"x": x[known], "y": self.y[known], "part": part[known]})
            if name == "firm":  # levels that last would go along
                order = np.lexsort((self.when[known], part[known]))
                of_part = of_part.iloc[order]
                of_part[["x", "y"]] = of_part.groupby("part")[["x", "y"]].diff()
                of_part = of_part.dropna()
            if name not in ("period", "firm") and _constant_in(x, self.firm):
                continue
            exact = [
                len(rows)
                for _, rows in of_part.groupby("part")
                if len(rows) >= 8
                and (_is_copy(rows) or (name != "firm" and function_of(*rows[["x", "y"]].to_numpy().T)))
            ]
            if sum(exact) >= FEWEST:
                return f"is the outcome in {len(exact)} of {of_part['part'].nunique()} parts by {name}"
        moved = self.later(-1) != self.y  # an outcome that stays is known
        n = 0 if self._related(x, self.y) else rows_on_a_line(np.where(moved, x, np.nan), self.y)
        return f"is a line in the outcome in {n:,} rows" if n >= FEWEST else ""

    def _related(self, x: np.ndarray, target: np.ndarray) -> bool:
        """Tell whether x goes along with the target where they differ, too: it may then be the same at times."""
        near = abs(correlation(np.where(np.abs(x - target) <= 1e-9 * np.nanstd(self.y), np.nan, x), target))
        return near > 0.8 and near > abs(correlation(self.later(-1), target)) + 0.02

    def _of_others(self, x: np.ndarray) -> str:
        """Outcomes of other firms of the same period."""
        at = np.isfinite(x) & np.isfinite(self.y)
        rows = pd.DataFrame({"x": x[at], "y": self.y[at], "t": self.when[at]})
        if at.sum() < FEWEST or rows["y"].nunique() < 0.5 * len(rows):
            return ""
        held = [group["x"].isin(group["y"]).sum() for _, group in rows.groupby("t")]
        share = sum(held) / len(rows)
        if share > 0.5:
            return f"holds outcomes of the period in {share:.0%} of the rows"
        begins = ~np.isfinite(self.later(-1)) & at
        latest = pd.Series(self.when).groupby(self.y).max().reindex(x[begins]).to_numpy()
        later = np.unique(x[begins][latest >= self.when[begins]])
        if len(later) >= max(8, 0.5 * begins.sum()):
            return "holds, where firms begin, outcomes of others, of later periods"
        return ""

    def _in_steps(self, x: np.ndarray) -> str:
        """The change since the period before: a level into which the outcome has gone."""
        step = x - at_later(x, self.firm, self.when, -1)
        return (
            "moves from the period before by a function of the outcome" if function_of(step, self.y) else ""
        )

    def _in_decimals(self, x: np.ndarray) -> str:
        """In decimals beyond those to which the rest is rounded."""
        known = np.isfinite(x) & np.isfinite(self.y)
        for decimals in range(6) if known.any() else ():
            rest = x[known] - np.round(x[known], decimals)
            if 0 < np.abs(rest).max() < 0.2 * 10.0**-decimals and (
                abs(correlation(rest, self.y[known])) > 0.98
                or (decimals > 1 and function_of(rest.round(12), self.y[known]))
            ):
                return f"holds the outcome behind its decimal {decimals}"
        whole = x[known]
        if known.any() and len(np.unique(whole)) >= FEWEST and (whole == np.round(whole)).all():
            if function_of(whole % 2, self.y[known]):
                return "is odd where the outcome decides it"
        return ""

    def _mean(self, x: np.ndarray) -> str:
        """The mean of a group's outcomes, with the own one or without."""
        rows = pd.Series(self.y)
        of_firm = rows - rows.groupby(self.firm).transform("mean")
        for name, group in self.groups.items():
            level = of_firm.groupby(group).transform("mean").to_numpy()
            if len(np.unique(level[np.isfinite(level)])) >= 5 and abs(correlation(x, level)) > 0.9999:
                return f"is the mean outcome of {name}, less the firms' means"
            total, count = (rows.groupby(group).transform(how).to_numpy() for how in ("sum", "count"))
            whole = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 1)
            own = np.nan_to_num(self.y)
            others = np.divide(total - own, count - 1, out=np.full(len(total), np.nan), where=count > 1)
            for mean in (whole, others):
                at = np.isfinite(x) & np.isfinite(mean)
                if len(np.unique(mean[at])) >= 5 and at.sum() >= FEWEST and np.ptp(x[at]) > 0:
                    if abs(correlation(x[at], mean[at])) > 0.9999:
                        return f"is the mean outcome of {name}"
        for name, group in self.groups.items():
            if "period" not in name or not closer_than_errors(x, self.y, group):
                continue
            own, outcome = (
                v - at_later(v, self.firm, self.when, -1) for v in (x, self.y)
            )  # lasting levels are known
            if closer_than_errors(own, outcome, group):
                return f"has means by {name} closer to those of the outcome than errors of rows would be"
        return ""

    def _fitted(self, x: np.ndarray) -> str:
        """What a regression over all rows fits to the outcome, or leaves of it."""
        if projection(x, self.y):
            return "is the outcome's fit, or its residual, in a regression over all rows"
        others = [v for v in self.columns.values() if v is not x and np.isfinite(v).mean() > 0.9]
        if len(others) < 3:
            return ""
        table = np.column_stack(others)
        at = np.isfinite(x) & np.isfinite(self.y) & np.isfinite(table).all(axis=1)
        if at.sum() < 3 * len(others) + FEWEST:
            return ""
        fit = self.y[at] - left_by(table[at], self.y[at])
        alone = max(abs(correlation(fit, v[at])) for v in others)
        if abs(correlation(x[at], fit)) > 0.9999 and alone < 0.999:
            return "is the outcome's fit, or nearly so, in a regression on the other columns over all rows"
        return ""

    def _statistic(self, x: np.ndarray) -> str:
        """Spread, extremes or share above zero of a group's outcomes, or of the next period's; means weighted by a column."""
        at = np.isfinite(x)
        if at.sum() < FEWEST:
            return ""
        for name, values in self.statistics.items():
            here = at & np.isfinite(values)
            several = min(len(np.unique(v[here])) for v in (x, values)) >= 8
            if here.sum() > 0.5 * at.sum() and several:
                if abs(correlation(x[here], values[here])) > 0.9999:
                    return f"is the {name}"
        return ""

    @cached_property
    def statistics(self) -> dict[str, np.ndarray]:
        """Statistics of the outcomes of each group, which its rows share."""
        y, found = pd.Series(self.y), {}
        for name, group in self.groups.items():
            rows, up = y.groupby(group), (y > 0).astype(float).where(y.notna()).groupby(group)
            for how in ("median", "std", "max", "min"):
                found[f"{how} of outcomes of {name}"] = rows.transform(how).to_numpy()
            found[f"share of outcomes above zero of {name}"] = up.transform("mean").to_numpy()
            own = np.nan_to_num(self.y)
            for column, weight in self.weights.items():
                heavy = np.where(np.isfinite(self.y), weight, 0.0)
                total, all_of = (np.bincount(group, v)[group] for v in (heavy * own, heavy))
                for whose, part, of in (
                    ("", total, all_of),
                    ("others' ", total - heavy * own, all_of - heavy),
                ):
                    mean = np.divide(part, of, out=np.full(len(own), np.nan), where=of > 1e-9 * all_of)
                    found[f"{whose}mean outcome of {name}, weighted by {column!r}"] = mean
        mean = y.groupby(self.when).mean()
        for k in (1, 2, 3):
            found[f"mean outcome of {k} periods later"] = mean.reindex(self.when + k).to_numpy()
        return found

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """Columns that may weigh: positive ones, and sizes in logarithms."""
        found = {}
        for name, x in list(self.columns.items())[:MOST_PAIRED]:
            known = np.isfinite(x)
            if known.any() and np.ptp(x[known]) > 0:
                if x[known].min() >= 0:
                    found[name] = np.where(known, x, 0.0)
                if np.abs(x[known]).max() < MOST_LOG:
                    found[f"exp {name}"] = np.where(known, np.exp(np.where(known, x, 0.0)), 0.0)
        return found

    def _made_up(self, x: np.ndarray) -> str:
        """A sum of outcomes nobody knew and of what is known: it takes the former to make it up."""
        for ahead in (0, 3):
            unknown = np.column_stack([*self.unknown, *(self.later(k) for k in range(1, ahead + 1))])
            known = self.known
            others = [v for v in self.columns.values() if v is not x and np.isfinite(v).mean() > 0.9]
            table = np.column_stack([*known, *others[:MOST_PAIRED]])
            at = np.isfinite(x) & np.isfinite(unknown).all(axis=1) & np.isfinite(table).all(axis=1)
            if len(np.unique(x[at])) < 3 * (table.shape[1] + unknown.shape[1]) + FEWEST:  # one a period, say
                continue
            table, unknown = (
                v[at] / np.where(v[at].std(axis=0) > 0, v[at].std(axis=0), 1.0) for v in (table, unknown)
            )
            both = np.column_stack([table, unknown])
            if explained(table, x[at]) < 0.98 and needs(both, table, x[at]):
                return "is made up of outcomes, own or of groups, that nobody knew, and of other columns"
        return ""

    @cached_property
    def unknown(self) -> list[np.ndarray]:
        """The outcome, the means of its groups and of its firm over all periods."""
        y = pd.Series(self.y)
        means = [
            y.groupby(group).transform("mean").to_numpy() for group in (*self.groups.values(), self.firm)
        ]
        return [self.y, self.rank, np.abs(self.y - np.nanmean(self.y)), *means]

    @cached_property
    def known(self) -> list[np.ndarray]:
        """The firm's last two outcomes and the mean of its earlier ones, and the means of groups one period before."""
        rows = pd.DataFrame({"y": self.y, "firm": self.firm, "t": self.when})
        order = rows.sort_values("t").groupby("firm")["y"]
        past = ((order.cumsum() - rows["y"]) / order.cumcount().where(lambda n: n > 0)).reindex(rows.index)
        means = [pd.Series(self.y).groupby(g).transform("mean").to_numpy() for g in self.groups.values()]
        lagged = [at_later(mean, self.firm, self.when, -1) for mean in means]
        of_last = [
            at_later(v, self.firm, self.when, -1) for v in (self.rank, np.abs(self.y - np.nanmean(self.y)))
        ]
        return [self.later(-1), self.later(-2), past.to_numpy(), *of_last, *lagged]

    @cached_property
    def rank(self) -> np.ndarray:
        """Share of the period's outcomes that are no larger."""
        return pd.Series(self.y).groupby(self.when).rank(pct=True).to_numpy()

    def _encoded(self, x: np.ndarray) -> str:
        """The mean outcome of the rows that have the same value: of a code's levels, or of other cells."""
        at = np.isfinite(x) & np.isfinite(self.y)
        for name, levels in self.codes.items():
            if _encodes(x[at & (levels >= 0)], self.y[at & (levels >= 0)], levels[at & (levels >= 0)]):
                return f"is the mean outcome of {name!r}, of all rows or of other folds, perhaps drawn to the mean of all"
        cells = pd.Series(self.y[at]).groupby(x[at])
        mean, count = cells.mean(), cells.count()
        several = count >= 3
        if several.sum() < 5 or count[several].sum() < 0.5 * at.sum():
            return ""
        same = correlation(mean.index[several], mean[several], 5) > 0.99999
        return "is the mean outcome of the rows that have its value" if same else ""

    def _trend(self, x: np.ndarray) -> str:
        """A line or curve through a firm's outcomes over all periods."""
        at = np.isfinite(x) & np.isfinite(self.y)
        if at.sum() < 2 * FEWEST:
            return ""
        for name, fitted in self.trends.items():
            here = at & np.isfinite(fitted)
            own, curve = (net(v[here], self.firm[here]) for v in (x, fitted))
            if abs(correlation(own, curve)) > 0.9999:
                return f"is a {name} through the firm's outcomes over all periods"
        return ""

    @cached_property
    def trends(self) -> dict[str, np.ndarray]:
        """Each firm's outcomes on powers of time, by least squares over all its periods."""
        known = np.isfinite(self.y)
        found = {name: np.full(len(self.y), np.nan) for name in ("line", "parabola", "cubic")}
        for rows in pd.Series(np.flatnonzero(known)).groupby(self.firm[known]).indices.values():
            here = np.flatnonzero(known)[rows]
            t = (self.when[here] - self.when[here].mean()) / max(np.ptp(self.when[here]), 1)
            for degree, fitted in enumerate(found.values(), start=1):
                if len(here) > degree + 1:
                    fitted[here] = self.y[here] - left_by(np.vander(t, degree + 1)[:, :-1], self.y[here])
        return found

    def _moving(self, x: np.ndarray) -> str:
        """Spread or extremes of the firm's outcomes in a window that reaches beyond what was known."""
        for (how, first, last), values in self.windows.items():
            near = abs(correlation(x, values))
            if near > 0.9999:
                known = at_later(values, self.firm, self.when, -last - 1)  # the same window, all of it known
                if 1 - near < 0.2 * (1 - abs(correlation(x, known))):
                    return f"is the {how} of the outcomes of periods {first} to {last} from the tested one"
        return ""

    @cached_property
    def windows(self) -> dict[tuple[str, int, int], np.ndarray]:
        """Spread and extremes of outcomes from some periods before the tested one to some after."""
        moved = {k: self.later(k) for k in range(-max(WINDOWS), max(WINDOWS) + 1)}
        found = {}
        for first, last in [(0, k) for k in WINDOWS] + [(-k, 0) for k in WINDOWS] + [(-k, k) for k in (1, 2)]:
            window = np.column_stack([moved[k] for k in range(first, last + 1)])
            several = np.isfinite(window).sum(axis=1) > 1
            for how, of in (("std", partial(np.nanstd, ddof=1)), ("max", np.nanmax), ("min", np.nanmin)):
                values = np.full(len(window), np.nan)
                values[several] = of(window[several], axis=1)
                found[how, first, last] = values
        return found

    def _of_firms(self, x: np.ndarray) -> str:
        """Mean, spread or extremes of all of a firm's outcomes, or the sum of its later ones."""
        known = np.isfinite(x) & np.isfinite(self.y)
        rows = pd.DataFrame(
            {"x": x[known], "y": self.y[known], "firm": self.firm[known], "t": self.when[known]}
        )
        if _future_mean(rows):
            return "is a mean of the firm's outcomes, later ones included"
        rows = rows.sort_values("t")
        firms = rows.groupby("firm")["y"]
        if rows.loc[firms.transform("count") > 2, "firm"].nunique() < FEWEST:
            return ""
        if rows.groupby("firm")["x"].transform(np.ptp).max() <= 1e-12 * np.abs(rows["x"]).max():
            return self._constant(rows)
        total = firms.transform("sum")
        for after in (total - firms.cumsum(), total - firms.cumsum() + rows["y"]):
            if abs(correlation(rows["x"], after)) > SAME:
                return "is a sum of the firm's later outcomes"
        return self._stays(x)

    def _constant(self, rows: pd.DataFrame) -> str:
        """A firm's statistic: of its outcomes over all periods, alone or beside its mean characteristics."""
        rows = rows.assign(common=rows["y"].groupby(rows["t"]).transform("mean"))
        rows["y_net"], rows["common_net"] = (
            rows[v] - rows.groupby("firm")[v].transform("mean") for v in ("y", "common")
        )
        by_firm = rows.groupby("firm")
        first, firms = by_firm["x"].first(), by_firm["y"]
        statistics = {
            how: firms.agg(how) for how in ("mean", "median", "std", "max", "min", "sum", "last", "count")
        }
        product = (rows["y_net"] * rows["common_net"]).groupby(rows["firm"]).sum()
        statistics["beta"] = product / (rows["common_net"] ** 2).groupby(rows["firm"]).sum()
        error = (
            firms.var() / firms.count()
        ).mean()  # of a firm's mean, which no honest column comes closer to
        for how, values in statistics.items():
            if (
                how in ("mean", "median")
                and (1 - correlation(first, values) ** 2) * values.var() > 0.3 * error
            ):
                continue
            if (
                abs(correlation(first, values)) > 0.999
                or abs(correlation(first.rank(), values.rank())) > SAME_ORDER
                or (first.nunique() <= len(first) / 5 and function_of(first.to_numpy(), values.to_numpy()))
            ):
                return f"is the {how} of the firm's outcomes over all periods, or its order"
        means = pd.DataFrame(self.columns).groupby(self.firm).mean().loc[first.index]
        varying = [
            c for c in means if not np.allclose(means[c], first, equal_nan=True) and means[c].notna().all()
        ]
        table = means[varying].to_numpy()
        both = np.column_stack([table, first])
        near = (
            len(first) > both.shape[1] + FEWEST
            and left_by(both, statistics["mean"].to_numpy()).var() < 0.3 * error
        )
        if near and needs(np.column_stack([table, statistics["mean"]]), table, first.to_numpy()):
            return "is the mean of the firm's outcomes over all periods, net of its characteristics"
        return ""

    def _stays(self, x: np.ndarray) -> str:
        """The number of periods that the firm will still be in the panel."""
        rows = pd.DataFrame({"firm": self.firm, "t": self.when})
        periods = rows.groupby("firm")["t"].transform("max") - rows["t"]
        count = rows.groupby("firm")["t"].rank(ascending=False)
        at = np.isfinite(x)
        for left in (periods, count):
            own, stays = (net(v[at], self.when[at]) for v in (x, left.to_numpy(dtype=float)))
            if abs(correlation(own, stays)) > 0.999:
                return "is the number of periods the firm stays in the panel"
        return ""

    def _until_exit(self, x: np.ndarray) -> str:
        """A function of the number of rows until the firm leaves the panel, of firms that do."""
        rows = pd.DataFrame({"x": x, "firm": self.firm, "t": self.when})
        rows["left"] = rows.groupby("firm")["t"].rank(ascending=False)
        rows = rows[rows.groupby("firm")["t"].transform("max") < self.when.max()].dropna()
        of_left = rows.groupby("left")["x"]
        if rows["firm"].nunique() < FEWEST / 2 or rows["x"].nunique() < 2 or of_left.nunique().max() > 1:
            return ""
        of_period = rows.groupby("t")["x"].nunique().max() <= 1  # a year is the same for all
        return "" if of_period else "is decided by the number of periods until the firm leaves the panel"

    def _smoothed(self, x: np.ndarray) -> str:
        """A moving average of outcomes that reaches beyond what was known."""
        for width, enough in ((2, SAME), (4, 0.98)):
            lags = [self.later(-k) for k in range(1, width + 1)]
            leads = [self.y, *(self.later(k) for k in range(1, width + 1))]
            at = np.isfinite(x) & np.all(np.isfinite([*lags, *leads]), axis=0)
            if at.sum() < 2 * FEWEST + 3 * len([*lags, *leads]):
                return ""
            both, past = (explained(np.column_stack(parts)[at], x[at]) for parts in ([*lags, *leads], lags))
            if both > enough and (past < 0.9 * both if width == 2 else 1 - both < LEFT * (1 - past)):
                return "is a moving average of outcomes, later ones included"
        return ""


def _together(columns: dict[str, np.ndarray], y: np.ndarray, past: np.ndarray) -> dict[str, str]:
    """Return columns that make the outcome together: a sum, a ratio or a product of them, one of them perhaps in logarithms."""
    names, at = list(columns), np.isfinite(y)
    for name in names:
        at = at & np.isfinite(columns[name])
    if at.sum() < 3 * len(names) + FEWEST or not names:
        return {}
    table = np.column_stack([columns[name][at] for name in names])
    table = (table - table.mean(axis=0)) / np.where(table.std(axis=0) > 0, table.std(axis=0), 1.0)
    left = 1 - explained(table, y[at])
    if left < 0.02 and left < 0.2 * (1 - correlation(past, y) ** 2):
        slopes = np.abs(
            np.linalg.lstsq(np.column_stack([np.ones(len(table)), table]), y[at], rcond=None)[0][1:]
        )
        return {
            names[k]: "makes up the outcome with others" for k in np.flatnonzero(slopes > 0.2 * slopes.max())
        }
    for a in range(min(len(names), MOST_PAIRED)):
        for b in range(min(len(names), MOST_PAIRED)):
            one, two = columns[names[a]][at], columns[names[b]][at]
            with np.errstate(all="ignore"):
                made = [one / two, one * two] if a < b else [one / two] if a > b else []
                if a != b and np.abs(two).max() < MOST_LOG:  # it may be a size in logarithms
                    made += [one * np.exp(-two), one * np.exp(two)]
            if any(
                np.isfinite(m).all() and abs(correlation(m, y[at])) > 0.98 and closer(m, past[at], y[at])
                for m in made
            ):
                return {names[k]: "makes up the outcome with another" for k in (a, b)}
    return {}


def _encodes(x: np.ndarray, y: np.ndarray, levels: np.ndarray) -> bool:
    """Tell whether x is the mean outcome of a level: of all rows, drawn to the grand mean, or of those with another x."""
    if len(x) < 2 * FEWEST:
        return False
    rows = pd.DataFrame({"x": x, "y": y, "level": levels})
    of_level, of_cell = rows.groupby("level")["y"], rows.groupby(["level", "x"])["y"]
    total, n = of_level.transform("sum"), of_level.transform("count")
    if (rows.groupby("level")["x"].nunique() == 1).all() and rows["level"].nunique() >= 4:
        away = rows["x"] - y.mean()
        drawn = (
            ((total - rows["x"] * n) / away.where(away.abs() > 1e-6 * y.std()))
            .groupby(rows["level"])
            .first()
            .dropna()
        )
        return bool(len(drawn) >= 4 and drawn.std() <= 1e-4 * abs(drawn.mean()) and drawn.mean() > -1)
    rest = n - of_cell.transform("count")
    others = ((total - of_cell.transform("sum")) / rest).where(rest >= 5)
    return bool(
        others.nunique() >= 5 and others.notna().mean() > 0.5 and abs(correlation(x, others)) > 0.99999
    )


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


def _constant_in(x: np.ndarray, group: np.ndarray) -> bool:
    return bool(pd.Series(x).groupby(group).nunique().max() <= 1)


def _commonest(x: np.ndarray) -> np.ndarray:
    """Return where x, of many values, has the one that many rows have; all NaN where there is none."""
    values, counts = np.unique(x[np.isfinite(x)], return_counts=True)
    if len(values) < FEWEST or counts.max() < max(FEWEST, 0.05 * len(x)):
        return np.full(len(x), np.nan)
    return np.where(np.isfinite(x), x == values[counts.argmax()], np.nan).astype(float)


def _is_copy(rows: pd.DataFrame) -> bool:
    return abs(correlation(rows["x"], rows["y"], 8)) > 0.9999


def _future_mean(rows: pd.DataFrame) -> bool:
    """Tell whether x is the mean of all of a firm's outcomes, or of all but the row's, rather than of earlier ones."""
    rows = rows.sort_values("t")
    firms = rows.groupby("firm")["y"]
    count, total = firms.transform("count"), firms.transform("sum")
    several = count > 1
    if rows.loc[several, "firm"].nunique() < FEWEST:
        return False
    whole, others = total / count, (total - rows["y"]) / (count - 1).clip(lower=1)
    past = (firms.cumsum() - rows["y"]) / firms.cumcount().clip(lower=1)
    known = several & (firms.cumcount() > 0)
    near = [correlation(rows["x"][known], mean[known]) for mean in (whole, others, past)]
    return max(near[:2]) > SAME and 1 - max(near[:2]) < 0.2 * (1 - near[2])
