"""Columns that were made of outcomes nobody knew when the row was."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.made_of_later import at_later
from peerattn.evaluation.leak_audit.relations import (
    FEWEST,
    SAME,
    SAME_ORDER,
    closer,
    correlation,
    explained,
    function_of,
    left_by,
    needs,
    net,
    rows_on_a_line,
    same_order,
)
from peerattn.evaluation.splits.periods import sorted_periods

Labels = tuple[np.ndarray, np.ndarray]
MOST_PAIRED = 15  # columns whose ratios and products are looked at
MOST_LOG = 30.0  # a column of larger values is no logarithm
WINDOWS = (1, 2, 5, 11)  # periods before or after the tested one over which spread and extremes are taken


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
            self._trend,
            self._smoothed,
            self._moving,
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
        return next(
            (f"{name} decides it" for name, t in self.targets.items() if function_of(indicator, t)), ""
        )

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
            if same.sum() >= FEWEST and len(np.unique(x[same])) >= FEWEST:
                return f"equals {name} in {same.sum():,} rows"
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
            exact = [
                len(rows)
                for _, rows in of_part.groupby("part")
                if len(rows) >= 8
                and (_is_copy(rows) or (name != "firm" and function_of(*rows[["x", "y"]].to_numpy().T)))
            ]
            if sum(exact) >= FEWEST:
                return f"is the outcome in {len(exact)} of {of_part['part'].nunique()} parts by {name}"
        moved = self.later(-1) != self.y  # an outcome that stays is known
        if (n := rows_on_a_line(np.where(moved, x, np.nan), self.y)) >= FEWEST:
            return f"is a line in the outcome in {n:,} rows"
        return ""

    def _of_others(self, x: np.ndarray) -> str:
        """Outcomes of other firms of the same period."""
        at = np.isfinite(x) & np.isfinite(self.y)
        rows = pd.DataFrame({"x": x[at], "y": self.y[at], "t": self.when[at]})
        if at.sum() < FEWEST or rows["y"].nunique() < 0.5 * len(rows):
            return ""
        held = [group["x"].isin(group["y"]).sum() for _, group in rows.groupby("t")]
        share = sum(held) / len(rows)
        return f"holds outcomes of the period in {share:.0%} of the rows" if share > 0.5 else ""

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
            if (
                0 < np.abs(rest).max() < 0.2 * 10.0**-decimals
                and abs(correlation(rest, self.y[known])) > 0.98
            ):
                return f"holds the outcome behind its decimal {decimals}"
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
        by_period = (
            pd.DataFrame({"x": x, "y": self.y, "t": self.when}).dropna().groupby("t")[["x", "y"]].mean()
        )
        change = by_period.diff().dropna()
        if len(change) >= 8 and abs(correlation(change["x"], change["y"], 8)) > SAME:
            return "has the mean outcome of the period as its own mean, up to a line"
        return ""

    def _encoded(self, x: np.ndarray) -> str:
        """The mean outcome of the rows that have the same value: of a code's levels, or of other cells."""
        at = np.isfinite(x) & np.isfinite(self.y)
        cells = pd.Series(self.y[at]).groupby(x[at])
        mean, count = cells.mean(), cells.count()
        several = count >= 5
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
        statistics = {how: firms.agg(how) for how in ("mean", "median", "std", "max", "min", "sum")}
        product = (rows["y_net"] * rows["common_net"]).groupby(rows["firm"]).sum()
        statistics["beta"] = product / (rows["common_net"] ** 2).groupby(rows["firm"]).sum()
        for how, values in statistics.items():
            if (
                abs(correlation(first, values)) > 0.999
                or abs(correlation(first.rank(), values.rank())) > SAME_ORDER
            ):
                return f"is the {how} of the firm's outcomes over all periods, or its order"
        means = pd.DataFrame(self.columns).groupby(self.firm).mean().loc[first.index]
        varying = [
            c for c in means if not np.allclose(means[c], first, equal_nan=True) and means[c].notna().all()
        ]
        table = means[varying].to_numpy()
        if needs(np.column_stack([table, statistics["mean"]]), table, first.to_numpy()):
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

    def _smoothed(self, x: np.ndarray) -> str:
        """A moving average of outcomes that reaches beyond what was known."""
        lags, leads = [self.later(-k) for k in (1, 2)], [self.y, *(self.later(k) for k in (1, 2))]
        at = np.isfinite(x) & np.all(np.isfinite([*lags, *leads]), axis=0)
        if at.sum() < 2 * FEWEST:
            return ""
        both, past = (explained(np.column_stack(parts)[at], x[at]) for parts in ([*lags, *leads], lags))
        return (
            "is a moving average of outcomes, later ones included"
            if both > SAME and past < 0.9 * both
            else ""
        )


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
