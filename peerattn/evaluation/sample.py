"""The sample of a comparison: what was lost on the way to the scored rows, its groups, and the limits of the panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, unknown_name
from peerattn.panel import Panel, sic_to_fama_french

MOST_GROUPS = 30
SIZE_GROUPS = 5
FEWEST_GROUPS = 10  # of a code, from which errors are clustered by it, too
MUCH_MISSING = 0.2
FAR_OUT = 0.5  # share of all squared deviation held by one row in a hundred


def sample_loss(panel: Panel, tested: np.ndarray) -> pd.DataFrame:
    """Return how many rows, firms and periods are left after each step from the panel to the scored sample.

    Parameters
    ----------
    panel : Panel
    tested : ndarray
        Positions of the tested rows.

    Returns
    -------
    DataFrame
        One row a step, with the rows lost in it.
    """
    firm, period = panel.labels.get_level_values(0), panel.period
    known = panel.y.notna().to_numpy()
    among = np.zeros(len(known), dtype=bool)
    among[tested] = True
    in_periods = period.isin(period[among].unique())
    steps = {
        "in the panel": np.ones(len(known), dtype=bool),
        "of tested periods": in_periods,
        "tested by the split": among,
        "scored: outcome known": among & known,
    }
    rows, before = [], len(known)
    for step, kept in steps.items():
        rows.append(
            (step, int(kept.sum()), firm[kept].nunique(), period[kept].nunique(), before - int(kept.sum()))
        )
        before = int(kept.sum())
    return pd.DataFrame(rows, columns=["step", "rows", "firms", "periods", "rows lost"])


def groups_of(panel: Panel, tested: np.ndarray, names: Sequence[str]) -> dict[str, pd.Series]:
    """Return the group of each tested row, indexed by (firm, period), by the name of what groups it.

    Codes are always there where they have few enough levels, because firms of one code share its shocks; SIC codes are shown as
    Fama and French's 12 industries. Numbers are cut into fifths of each period.
    """
    for name in names:
        if name not in panel.columns:
            raise unknown_name("groups", "column", name, panel.columns)
    wanted = dict.fromkeys(
        [*names, *([] if panel.industry is None else [panel.industry]), *panel.codes.columns]
    )
    found = {}
    for name in wanted:
        column = panel.X[name].iloc[tested]
        if name in panel.characteristics:
            shares = column.groupby(level=1).rank(pct=True, method="average")
            fifth = np.ceil(shares * SIZE_GROUPS).clip(1, SIZE_GROUPS)
            found[f"{name}, fifths"] = fifth.map(lambda k: f"{k:.0f}" + _END.get(k, ""), na_action="ignore")
        elif str(name).lower() in _SIC and column.nunique() > MOST_GROUPS:
            found[f"{name}, 12 industries of Fama and French"] = sic_to_fama_french(column, 12).astype(object)
        elif column.nunique() <= MOST_GROUPS:
            found[name] = column.astype(object)
        elif name in names:
            raise InputError(
                f"groups: {name!r} has {column.nunique()} levels; at most {MOST_GROUPS} can be shown. Pass a broader code."
            )
    return {name: group.astype(object).where(group.notna(), "unknown") for name, group in found.items()}


def clusters_of(rows: pd.DataFrame, groups: Mapping[str, pd.Series]) -> dict[str, np.ndarray]:
    """Return what errors are clustered by where periods are few: labels of the rows, by firm and by each code.

    Firms of one industry share its shocks, so a code of ten groups at least clusters them, too. A firm whose code is unknown
    is a cluster of its own.
    """
    found = {"firm": rows["firm"].to_numpy()}
    for name, group in groups.items():
        labels = group.reindex(pd.MultiIndex.from_frame(rows[["firm", "period"]])).to_numpy(dtype=object)
        known = ~pd.isna(labels) & (labels != "unknown")
        if len(set(labels[known])) >= FEWEST_GROUPS and not name.endswith(", fifths"):
            found[name] = np.where(known, labels, rows["firm"].map("firm {}".format))
    return found


def market_values(panel: Panel, tested: np.ndarray, name: str) -> pd.Series:
    """Return the market value of each tested row, indexed by (firm, period); NaN where unknown."""
    if name not in panel.characteristics:
        raise unknown_name("market_value", "characteristic", name, panel.characteristics)
    found = panel.X[name].iloc[tested].astype(float)
    if (found <= 0).any():
        where = found[found <= 0]
        raise InputError(
            f"market_value: {name!r} is {where.iloc[0]:g} for {where.index[0]}, but weights of portfolios must be positive: "
            "pass the market value itself, no logarithm and no rank."
        )
    return found


_SIC = {"sic", "sic4", "siccd", "sich", "hsiccd"}
_END = {1: " (lowest)", SIZE_GROUPS: " (highest)"}


def found_limits(panel: Panel) -> list[str]:
    """Return what the panel itself shows of its limits: survivors, static codes, gaps, outliers.

    What cannot be seen in the numbers (revised data, a look-ahead in the source) has to be stated by whoever made them.
    """
    firm, period = panel.labels.get_level_values(0), panel.period
    said = [*_survivors(firm, period), *_static_codes(panel, firm)]
    missing = {name: column.isna().mean() for name, column in panel.characteristics.items()}
    gaps = [f"{name} {share:.0%}" for name, share in missing.items() if share > MUCH_MISSING]
    if gaps:
        said.append(f"Often missing: {', '.join(gaps)} of all rows.")
    deviation = np.sort((panel.y.dropna().to_numpy() - panel.y.mean()) ** 2)[::-1]
    share = deviation[: max(len(deviation) // 100, 1)].sum() / max(deviation.sum(), 1e-300)
    if len(deviation) >= 200 and share > FAR_OUT:
        said.append(
            f"Outliers decide: one outcome in a hundred holds {share:.0%} of all squared deviation from the mean. Look at the "
            "rank IC, or clip the outcome."
        )
    return said


def _survivors(firm: pd.Index, period: pd.Index) -> list[str]:
    last = pd.Series(period).groupby(np.asarray(firm)).max()
    if period.nunique() < 3 or (last < period.max()).any():
        return []
    return ["No firm leaves before the last period: these may be survivors, which flatters past predictions."]


def _static_codes(panel: Panel, firm: pd.Index) -> list[str]:
    static = [
        str(name)
        for name, column in panel.codes.items()
        if column.groupby(np.asarray(firm)).nunique().max() <= 1
    ]
    if not static or firm.value_counts().max() < 2:
        return []
    return [
        f"Codes that never change within a firm, perhaps today's and not those of the time: {', '.join(static)}."
    ]
