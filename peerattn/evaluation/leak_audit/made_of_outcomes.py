"""Columns and networks that were made of outcomes nobody knew when they were needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.models.given_network import given_network
from peerattn.network import PeerNetwork

Labels = tuple[np.ndarray, np.ndarray]
SAME_ORDER = 0.999  # of rank correlation: a monotone copy, up to ties
SAME = 0.995  # of correlation with a mean of outcomes
PEERS_IN_ORDER = 0.95  # share of pairs of peers whose weights have the order of what they would be made of
FUNCTION = 0.01  # of von Neumann's ratio; 1 for what has nothing to do with the outcome
MOST_PAIRED = 15  # columns whose ratios and products are looked at
FEWEST = 20  # rows, or firms with a mean
SHOWN = 60  # firms of a period that are looked at


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
    refuted: it may be a good characteristic.
    """
    found: dict[str, str] = {}
    codes = pd.DataFrame(index=numbers.index) if codes is None else codes
    outcome = Outcomes(y, firm, when, {str(name): pd.factorize(code)[0] for name, code in codes.items()})
    columns = {str(name): column.to_numpy(dtype=float) for name, column in numbers.items()}
    for name, x in columns.items():
        missing = np.isnan(x)
        if np.isfinite(x).sum() >= FEWEST and (why := outcome.explains(x)):
            found[name] = why
        elif FEWEST <= missing.sum() <= len(x) - FEWEST and (why := outcome.decides(missing.astype(float))):
            found[name] = f"is missing where {why}"
    for name, levels in outcome.codes.items():
        if 1 < levels.max() + 1 <= len(y) / 5 and (why := outcome.orders(levels)):
            found[name] = why
    left = {name: x for name, x in columns.items() if name not in found}
    return found | _together(left, y)


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of a panel, and what may be made of them."""

    y: np.ndarray
    firm: np.ndarray
    when: np.ndarray
    codes: dict[str, np.ndarray]

    def later(self, periods: int) -> np.ndarray:
        """Return the firm's outcome so many periods later; NaN where there is none."""
        ahead = pd.Series(self.y, pd.MultiIndex.from_arrays([self.firm, self.when]))
        return ahead.reindex(pd.MultiIndex.from_arrays([self.firm, self.when + periods])).to_numpy()

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
        for name, target in self.targets.items():
            if _function_of(x, target):
                return f"is a function of {name}"
        if _same_order(x, self.y, self.when):
            return "has the order of the outcome"
        for checked in (
            self._in_groups,
            self._in_a_part,
            self._in_decimals,
            self._mean,
            self._of_firms,
            self._smoothed,
        ):
            if why := checked(x):
                return why
        return ""

    def decides(self, indicator: np.ndarray) -> str:
        """Say which outcome decides a yes or no."""
        return next(
            (f"{name} decides it" for name, t in self.targets.items() if _function_of(indicator, t)), ""
        )

    def orders(self, levels: np.ndarray) -> str:
        """Say whether the levels of a code are ranges of the outcome."""
        means = pd.Series(self.y).groupby(levels).transform("mean").to_numpy()
        known = levels >= 0
        sizes = np.bincount(levels[known])
        several = known & (sizes[np.where(known, levels, 0)] >= 5)
        x = np.where(several, means, np.nan)
        return "has levels that are ranges of the outcome" if _function_of(x, self.y) else ""

    def _in_groups(self, x: np.ndarray) -> str:
        """Within the rows of a group: the outcome less the group's mean, or above its median."""
        for name, group in self.groups.items():
            known = np.isfinite(x) & np.isfinite(self.y)
            size = np.bincount(group[known], minlength=group.max() + 1)[group]
            at = known & (size >= 4)
            if at.sum() < FEWEST or size[at].mean() > 0.9 * known.sum():
                continue
            net = [
                pd.Series(v[at]).groupby(group[at]).transform(lambda s: s - s.mean()).to_numpy()
                for v in (x, self.y)
            ]
            if abs(_correlation(net[0], net[1])) > SAME or _function_of(x[at], self.y[at], group[at]):
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
            exact = [len(rows) for _, rows in of_part.groupby("part") if len(rows) >= 8 and _is_copy(rows)]
            if sum(exact) >= FEWEST:
                return f"is the outcome in {len(exact)} of {of_part['part'].nunique()} parts by {name}"
        return ""

    def _in_decimals(self, x: np.ndarray) -> str:
        """In decimals beyond those to which the rest is rounded."""
        known = np.isfinite(x) & np.isfinite(self.y)
        for decimals in range(6) if known.any() else ():
            rest = x[known] - np.round(x[known], decimals)
            if (
                0 < np.abs(rest).max() < 0.2 * 10.0**-decimals
                and abs(_correlation(rest, self.y[known])) > 0.98
            ):
                return f"holds the outcome behind its decimal {decimals}"
        return ""

    def _mean(self, x: np.ndarray) -> str:
        """The mean of a group's outcomes, with the own one or without."""
        rows = pd.Series(self.y)
        for name, group in self.groups.items():
            total, count = (rows.groupby(group).transform(how).to_numpy() for how in ("sum", "count"))
            whole = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 1)
            own = np.nan_to_num(self.y)
            others = np.divide(total - own, count - 1, out=np.full(len(total), np.nan), where=count > 1)
            for mean in (whole, others):
                at = np.isfinite(x) & np.isfinite(mean)
                if len(np.unique(mean[at])) >= 5 and at.sum() >= FEWEST and np.ptp(x[at]) > 0:
                    if abs(_correlation(x[at], mean[at])) > 0.9999:
                        return f"is the mean outcome of {name}"
        return ""

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
            first = rows.groupby("firm").first()["x"]
            for how in ("mean", "median", "std", "max", "min", "sum"):
                if abs(_correlation(first, firms.agg(how))) > 0.999:
                    return f"is the {how} of the firm's outcomes over all periods"
        total = firms.transform("sum")
        for after in (total - firms.cumsum(), total - firms.cumsum() + rows["y"]):
            net = [v - v.groupby(rows["firm"]).transform("mean") for v in (rows["x"], after)]
            if abs(_correlation(net[0], net[1])) > SAME:
                return "is a sum of the firm's later outcomes"
        return ""

    def _smoothed(self, x: np.ndarray) -> str:
        """A moving average of outcomes that reaches beyond what was known."""
        lags, leads = [self.later(-k) for k in (1, 2)], [self.y, *(self.later(k) for k in (1, 2))]
        at = np.isfinite(x) & np.all(np.isfinite([*lags, *leads]), axis=0)
        if at.sum() < 2 * FEWEST:
            return ""
        both, past = (_explained(np.column_stack(parts)[at], x[at]) for parts in ([*lags, *leads], lags))
        return (
            "is a moving average of outcomes, later ones included"
            if both > SAME and past < 0.9 * both
            else ""
        )


def made_of_later(numbers: pd.DataFrame, firm: np.ndarray, when: np.ndarray) -> dict[str, str]:
    """Return the columns that average another over earlier and later periods, or fill it from later ones, and how."""
    index = pd.MultiIndex.from_arrays([firm, when])
    columns = {str(name): column.to_numpy(dtype=float) for name, column in numbers.items()}
    moved = {
        (name, k): pd.Series(x, index).reindex(pd.MultiIndex.from_arrays([firm, when + k])).to_numpy()
        for name, x in columns.items()
        for k in (-2, -1, 0, 1, 2)
    }
    found: dict[str, str] = {}
    for name, x in columns.items():
        for other in columns:
            if other == name or name in found or other in found:
                continue
            if _centred(x, [moved[other, k] for k in (-2, -1, 0, 1, 2)]):
                found[name] = f"averages {other!r} over earlier and later periods"
            elif _filled(x, *(moved[other, k] for k in (-1, 0, 1))):
                found[name] = f"takes {other!r} from later periods"
            elif _ahead(x, columns[other], moved[other, 1], moved[name, 1], moved[other, -1]):
                found[name] = f"is {other!r} of the next period"
    return found


def _centred(x: np.ndarray, around: list[np.ndarray]) -> bool:
    """Tell whether x needs both earlier and later values to be explained, and is with them."""
    at = np.isfinite(x) & np.all(np.isfinite(around), axis=0)
    if at.sum() < 2 * FEWEST:
        return False
    table = np.column_stack(around)[at]
    whole, past, later = (
        _explained(table[:, part], x[at]) for part in (slice(None), slice(0, 3), slice(2, 5))
    )
    return whole > SAME and max(past, later) < 0.95


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


def _ahead(
    x: np.ndarray, other: np.ndarray, after: np.ndarray, own_next: np.ndarray, before: np.ndarray
) -> bool:
    """Tell a lead from a lag: x is the other's next value, known or made up at a firm's end, where the other is as elsewhere.

    A column and its lag look the same from the lag's side; but a lag lacks its first value (or has a true one), a lead its last.
    """
    at = np.isfinite(x) & np.isfinite(after)
    if at.sum() < 2 * FEWEST or np.abs(x - after)[at].max() > 1e-12 * np.nanmax(np.abs(x)):
        return False
    last, first = ~np.isfinite(own_next) & np.isfinite(other), ~np.isfinite(before) & np.isfinite(other)
    made_up = (
        np.abs(x[last & np.isfinite(x)]).std() < 0.5 * np.std(np.abs(x[at]))
        if (last & np.isfinite(x)).any()
        else True
    )
    whole = np.abs(other[first]).std() > 0.5 * np.nanstd(np.abs(other)) if first.sum() >= 8 else False
    return bool(last.sum() >= 8 and made_up and whole)


def _together(columns: dict[str, np.ndarray], y: np.ndarray) -> dict[str, str]:
    """Return columns that make the outcome together: a sum, a ratio or a product of them."""
    names, at = list(columns), np.isfinite(y)
    for name in names:
        at = at & np.isfinite(columns[name])
    if at.sum() < 3 * len(names) + FEWEST or not names:
        return {}
    table = np.column_stack([columns[name][at] for name in names])
    table = (table - table.mean(axis=0)) / np.where(table.std(axis=0) > 0, table.std(axis=0), 1.0)
    if _explained(table, y[at]) > 0.98:
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
            if any(np.isfinite(m).all() and abs(_correlation(m, y[at])) > 0.98 for m in made):
                return {names[k]: "makes up the outcome with another" for k in (a, b)}
    return {}


def _explained(table: np.ndarray, x: np.ndarray) -> float:
    """Return R² of least squares with a constant."""
    design = np.column_stack([np.ones(len(x)), table])
    rest = x - design @ np.linalg.lstsq(design, x, rcond=None)[0]
    total = np.sum((x - x.mean()) ** 2)
    return float(1 - rest @ rest / total) if total > 0 else 0.0


def _is_copy(rows: pd.DataFrame) -> bool:
    return abs(_correlation(rows["x"], rows["y"], 8)) > 0.9999


def _function_of(x: np.ndarray, y: np.ndarray, group: np.ndarray | None = None) -> bool:
    """Tell whether x hardly differs between rows whose y is next to each other (von Neumann's ratio; Chatterjee 2021)."""
    at = np.isfinite(x) & np.isfinite(y)
    x, y = x[at], y[at]
    group = np.zeros(len(x), dtype=int) if group is None else group[at]
    if len(x) < FEWEST or len(np.unique(y)) < 0.5 * len(y):
        return False
    values = pd.Series(x).rank().to_numpy() if group.max() == 0 else _net(x, group)
    order = np.lexsort((y, group))
    step = np.diff(values[order])[np.diff(group[order]) == 0]
    spread = np.mean((values - values.mean()) ** 2)
    n_values, n_groups = len(np.unique(x)), group.max() + 1
    steps = (
        2.2 * n_groups * (n_values - 1) / len(x) if n_values <= 4 else 0.0
    )  # of the few values, in each group
    ratio = np.sum(step**2) / (2 * len(x) * spread) if spread > 0 else 1.0
    return bool(ratio < max(FUNCTION, min(steps, 0.3)) and _varies(x, group))


def _varies(x: np.ndarray, group: np.ndarray) -> bool:
    """Tell whether x differs within groups at all."""
    return bool(np.any(np.abs(_net(x, group)) > 1e-12 * max(np.abs(x).max(), 1e-300)))


def _net(x: np.ndarray, group: np.ndarray) -> np.ndarray:
    return x - (np.bincount(group, x) / np.maximum(np.bincount(group), 1))[group]


def _same_order(x: np.ndarray, y: np.ndarray, when: np.ndarray) -> bool:
    """Tell whether x orders rows as the outcome does, over all rows or within every period."""
    at = np.isfinite(x) & np.isfinite(y)
    rows = pd.DataFrame({"x": x[at], "y": y[at], "t": when[at]})
    within = rows.groupby("t")[["x", "y"]].rank()
    within -= within.groupby(rows["t"]).transform("mean")
    return any(abs(_correlation(r["x"], r["y"])) > SAME_ORDER for r in (rows[["x", "y"]].rank(), within))


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
    near = [_correlation(rows["x"][known], mean[known]) for mean in (whole, others, past)]
    return max(near[:2]) > SAME and 1 - max(near[:2]) < 0.2 * (1 - near[2])


def _correlation(a: Any, b: Any, fewest: int = FEWEST) -> float:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if len(a) < fewest or np.ptp(a) <= 1e-12 * np.abs(a).max() or np.ptp(b) <= 1e-12 * np.abs(b).max():
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def network_made_of_outcomes(given: Any, y: pd.Series, train: np.ndarray, tested: np.ndarray) -> str:
    """Say how the weights of a network follow the outcomes of tested periods; empty where they do not.

    Parameters
    ----------
    given : PeerNetwork, DataFrame or dict
    y : Series indexed by firm and period
    train : ndarray
        Positions of the rows that are learned from.
    tested : ndarray
        Tested periods, as whole numbers in time order.
    """
    network = given if isinstance(given, PeerNetwork) else given_network(given)
    table = y.unstack(0).sort_index()  # periods by firms
    learned = table.loc[table.index.isin(y.index.get_level_values(1)[train])]
    known = network.periods
    for t in tested:
        period = table.index[t]
        dated = network.is_dated
        if dated and period not in known:
            continue
        W = network.matrix(period if dated else None)
        here = table.loc[period].dropna()
        firms = W.index.intersection(W.columns).intersection(here.index)[:SHOWN]
        if len(firms) < 8:
            continue
        weights, outcome = W.loc[firms, firms].to_numpy(dtype=float), here[firms].to_numpy()
        center = outcome - outcome.mean()
        together = table[firms].corr(min_periods=3).to_numpy()
        before = (
            learned[firms].corr(min_periods=3).to_numpy()
            if len(learned) > 2
            else np.full_like(together, np.nan)
        )
        made_of = {
            "the closeness of outcomes": -np.abs(outcome[:, None] - outcome),
            "the product of outcomes": np.outer(center, center),
            "the size of peers' outcomes": np.tile(outcome, (len(firms), 1)),
            "the correlation of outcomes over all periods": together,
        }
        for what, feature in made_of.items():
            order = _in_order(weights, feature)
            if order > PEERS_IN_ORDER and not (
                what.endswith("periods") and _in_order(weights, before) >= order
            ):
                return f"in {period} {order:.0%} of its pairs of peers have the order of {what}"
    return ""


def _in_order(weights: np.ndarray, feature: np.ndarray) -> float:
    """Return the share of pairs of peers of a firm, of different weight, whose feature has the order of their weights."""
    agree = count = 0
    for i in range(len(weights)):
        j = np.delete(np.arange(len(weights)), i)
        j = j[np.isfinite(feature[i, j])]
        w, f = (np.subtract.outer(v, v) for v in (weights[i, j], feature[i, j]))
        larger = w > 1e-12
        agree, count = agree + int((f[larger] > 0).sum()), count + int(larger.sum())
    return agree / count if count else 0.0
