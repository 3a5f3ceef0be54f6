"""Rules for one column: does it hold statistics, trends or windows of a firm's own outcomes, or the time until its exit?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.outcomes import Outcomes
from peerattn.evaluation.leak_audit.relations import (
    FEWEST,
    LEFT,
    SAME,
    SAME_ORDER,
    correlation,
    explained,
    function_of,
    left_by,
    needs,
    net,
)


def firm_statistic(x: np.ndarray, of: Outcomes) -> str:
    """Mean, spread or extremes of all of a firm's outcomes, or the sum of its later ones."""
    at = np.isfinite(x) & np.isfinite(of.y)
    rows = pd.DataFrame({"x": x, "y": of.y, "firm": of.firm, "t": of.when})[at].sort_values("t")
    firms = rows.groupby("firm")["y"]
    count, total = firms.transform("count"), firms.transform("sum")
    earlier = firms.cumcount()
    if rows.loc[count > 1, "firm"].nunique() >= FEWEST:
        past = (firms.cumsum() - rows["y"]) / earlier.clip(lower=1)
        means = total / count, (total - rows["y"]) / (count - 1).clip(lower=1), past
        near = [correlation(rows["x"][earlier > 0], mean[earlier > 0]) for mean in means]
        if max(near[:2]) > SAME and 1 - max(near[:2]) < 0.2 * (1 - near[2]):
            return "is a mean of the firm's outcomes, later ones included"
    if rows.loc[count > 2, "firm"].nunique() < FEWEST:
        return ""
    if rows.groupby("firm")["x"].transform(np.ptp).max() <= 1e-12 * np.abs(rows["x"]).max():
        return _lasting(rows, of)
    after = total - firms.cumsum()
    summed = any(abs(correlation(rows["x"], later)) > SAME for later in (after, after + rows["y"]))
    return "is a sum of the firm's later outcomes" if summed else ""


def _lasting(rows: pd.DataFrame, of: Outcomes) -> str:
    """A firm's statistic: of its outcomes over all periods, alone or beside its mean characteristics."""
    by_firm = rows.groupby("firm")
    first, firms = by_firm["x"].first(), by_firm["y"]
    common = rows["y"].groupby(rows["t"]).transform("mean")
    y, common = (v - v.groupby(rows["firm"]).transform("mean") for v in (rows["y"], common))
    statistics = {
        how: firms.agg(how) for how in ("mean", "median", "std", "max", "min", "sum", "last", "count")
    }
    statistics["beta"] = (y * common).groupby(rows["firm"]).sum() / (common**2).groupby(rows["firm"]).sum()
    error = (firms.var() / firms.count()).mean()  # of a firm's mean, which no honest column comes closer to
    for how, values in statistics.items():
        left = (1 - correlation(first, values) ** 2) * values.var()
        if how in ("mean", "median") and left > 0.3 * error:
            continue
        if (
            abs(correlation(first, values)) > 0.999
            or abs(correlation(first.rank(), values.rank())) > SAME_ORDER
            or (first.nunique() <= len(first) / 5 and function_of(first.to_numpy(), values.to_numpy()))
        ):
            return f"is the {how} of the firm's outcomes over all periods, or its order"
    means = pd.DataFrame(of.columns).groupby(of.firm).mean().loc[first.index].dropna(axis=1)
    table = means.loc[:, [not np.allclose(means[c], first) for c in means]].to_numpy()
    both, mean = np.column_stack([table, first]), statistics["mean"].to_numpy()
    near = len(first) > both.shape[1] + FEWEST and left_by(both, mean).var() < 0.3 * error
    if near and needs(np.column_stack([table, mean]), table, first.to_numpy()):
        return "is the mean of the firm's outcomes over all periods, net of its characteristics"
    return ""


def periods_left(x: np.ndarray, of: Outcomes) -> str:
    """The number of periods that the firm will still be in the panel."""
    rows = pd.DataFrame({"x": x, "firm": of.firm, "t": of.when})
    firms, at = rows.groupby("firm")["t"], np.isfinite(x)
    count = firms.rank(ascending=False)
    for left in (firms.transform("max") - rows["t"], count):
        own, stays = (net(v[at], of.when[at]) for v in (x, left.to_numpy(dtype=float)))
        if abs(correlation(own, stays)) > 0.999:
            return "is the number of periods the firm stays in the panel"
    leave = rows[firms.transform("max") < of.when.max()].assign(left=count).dropna()
    decided = leave.groupby("left")["x"].nunique().max() == 1 and leave["x"].nunique() > 1
    several = leave["firm"].nunique() >= FEWEST / 2
    of_period = leave.groupby("t")["x"].nunique().max() <= 1  # a year is the same for all
    if several and decided and not of_period:
        return "is decided by the number of periods until the firm leaves the panel"
    return ""


def trend(x: np.ndarray, of: Outcomes) -> str:
    """A line or curve through a firm's outcomes over all periods."""
    at = np.isfinite(x) & np.isfinite(of.y)
    for name, fitted in of.trends.items():
        here = at & np.isfinite(fitted)
        own, curve = (net(v[here], of.firm[here]) for v in (x, fitted))
        if abs(correlation(own, curve, 2 * FEWEST)) > 0.9999:
            return f"is a {name} through the firm's outcomes over all periods"
    return ""


def moving_average(x: np.ndarray, of: Outcomes) -> str:
    """A moving average of outcomes that reaches beyond what was known."""
    for width, enough in ((2, SAME), (4, 0.98)):
        lags = [of.later(-k) for k in range(1, width + 1)]
        both = np.column_stack([*lags, *(of.later(k) for k in range(width + 1))])
        at = np.isfinite(x) & np.isfinite(both).all(axis=1)
        if at.sum() < 2 * FEWEST + 3 * both.shape[1]:
            return ""
        whole, past = (explained(table[at], x[at]) for table in (both, both[:, :width]))
        if whole > enough and (past < 0.9 * whole if width == 2 else 1 - whole < LEFT * (1 - past)):
            return "is a moving average of outcomes, later ones included"
    return ""


def window(x: np.ndarray, of: Outcomes) -> str:
    """Spread or extremes of the firm's outcomes in a window that reaches beyond what was known."""
    for (how, first, last), values in of.windows.items():
        near = abs(correlation(x, values))
        if near > 0.9999:
            known = of.moved(values, -last - 1)  # the same window, all of it known
            if 1 - near < 0.2 * (1 - abs(correlation(x, known))):
                return f"is the {how} of the outcomes of periods {first} to {last} from the tested one"
    return ""
