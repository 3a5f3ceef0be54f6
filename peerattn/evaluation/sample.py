"""The sample of a comparison: what was lost on the way to the scored rows, its groups, and the limits of the panel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from peerattn.datasets import SimulatedPanel
from peerattn.evaluation.compared import PanelFacts
from peerattn.evaluation.description import Labels, describe_panel
from peerattn.evaluation.measures.portfolios import as_return
from peerattn.exceptions import InputError, check_names
from peerattn.panel import Panel, sic_to_fama_french

MOST_GROUPS = 30
SIZE_GROUPS = 5
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
    left = {step: (kept.sum(), firm[kept].nunique(), period[kept].nunique()) for step, kept in steps.items()}
    frame = pd.DataFrame.from_dict(left, orient="index", columns=["rows", "firms", "periods"])
    frame["rows lost"] = -frame["rows"].diff().fillna(0).astype(int)
    return frame.rename_axis("step").reset_index()


def groups_of(panel: Panel, tested: np.ndarray, names: Sequence[str]) -> dict[str, pd.Series]:
    """Return the group of each tested row, indexed by (firm, period), by the name of what groups it.

    Codes are always there where they have few enough levels, because firms of one code share its shocks; SIC codes are shown as
    Fama and French's 12 industries. Numbers are cut into fifths of each period, and so is how long each firm has been in the
    panel, where firms differ in it.
    """
    check_names("groups", "column", names, panel.columns)
    wanted = dict.fromkeys([*names, *([panel.industry] if panel.industry else []), *panel.codes.columns])
    found = {}
    for name in wanted:
        column = panel.X[name].iloc[tested]
        if name in panel.characteristics:
            found[f"{name}, fifths"] = _fifths(column)
        elif str(name).lower() in _SIC and column.nunique() > MOST_GROUPS:
            found[f"{name}, 12 industries of Fama and French"] = sic_to_fama_french(column, 12).astype(object)
        elif column.nunique() <= MOST_GROUPS:
            found[name] = column.astype(object)
        elif name in names:
            raise InputError(
                f"groups: {name!r} has {column.nunique()} levels; at most {MOST_GROUPS} can be shown. Pass a broader code."
            )
    when = pd.Series(pd.factorize(panel.X.index.get_level_values(1), sort=True)[0], panel.X.index)
    age = (when - when.groupby(level=0).transform("min")).iloc[tested]
    if age.groupby(level=1).nunique().median() >= SIZE_GROUPS:
        found["periods in the panel, fifths"] = _fifths(age)
    return {name: group.astype(object).where(group.notna(), "unknown") for name, group in found.items()}


def _fifths(values: pd.Series) -> pd.Series:
    """Return the fifth of its period that each value is in."""
    fifth = np.ceil(values.groupby(level=1).rank(pct=True) * SIZE_GROUPS).clip(1, SIZE_GROUPS)
    return fifth.map(lambda k: f"{k:.0f}" + _END.get(k, ""), na_action="ignore")


def market_values(panel: Panel, tested: np.ndarray, name: str) -> pd.Series:
    """Return the market value of each tested row, indexed by (firm, period); NaN where unknown."""
    check_names("market_value", "characteristic", [name], panel.characteristics)
    found = panel.X[name].iloc[tested].astype(float)
    if (found <= 0).any():
        where = found[found <= 0]
        raise InputError(
            f"market_value: {name!r} is {where.iloc[0]:g} for {where.index[0]}, but weights of portfolios must be positive: "
            "pass the market value itself, no logarithm and no rank."
        )
    return found


_SIC = {"sic", "sic4", "siccd", "sich", "hsiccd"}
_STATIC = "Codes that never change within a firm, perhaps today's and not those of the time"
_SURVIVORS = "No firm leaves before the last period: these may be survivors, which flatters past predictions."
_END = {1: " (lowest)", SIZE_GROUPS: " (highest)"}


def found_limits(panel: Panel) -> list[str]:
    """Return what the panel itself shows of its limits: survivors, static codes, gaps, outliers.

    What cannot be seen in the numbers (revised data, a look-ahead in the source) has to be stated by their author.
    """
    said = [_SURVIVORS] if survivors(panel) else []
    firm = np.asarray(panel.firm)
    changes = {str(name): column.groupby(firm).nunique().max() for name, column in panel.codes.items()}
    static = [name for name, most in changes.items() if most <= 1]
    if static and len(set(firm)) < len(firm):
        said.append(f"{_STATIC}: {', '.join(static)}.")
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


def survivors(panel: Panel) -> bool:
    """Tell whether no firm leaves before the last period."""
    last = pd.Series(panel.period).groupby(np.asarray(panel.firm)).max()
    return panel.period.nunique() >= 3 and not (last < panel.period.max()).any()


def panel_facts(
    X: Any,
    panel: Panel,
    tested: np.ndarray,
    *,
    factors: pd.DataFrame | None,
    groups: Sequence[str],
    limits: Sequence[str],
    is_return: bool | None,
    market_value: str | None,
    labels: Labels | None,
) -> tuple[PanelFacts, list[str]]:
    """Return what the report says of the panel, and what to note."""
    returns, percent = as_return(panel.outcome, panel.y.to_numpy(dtype=float), is_return)
    sizes = [market_value] if market_value in panel.columns and market_value not in groups else []
    numbers = panel.X[list(panel.choice.characteristics)].iloc[tested].astype(float)
    spread = numbers.std().replace(0.0, 1.0)
    last = panel.X.index[tested].get_level_values(1).max()
    facts = PanelFacts(
        choice=panel.choice,
        sample_loss=sample_loss(panel, tested),
        groups=groups_of(panel, tested, [*groups, *map(str, sizes)]),
        limits=(*map(str, limits), *found_limits(panel)),
        survivors=survivors(panel),
        is_return=returns,
        market_value=None if market_value is None else market_values(panel, tested, market_value),
        caution=panel.caution,
        truth=X.network.subset(periods=[last]) if isinstance(X, SimulatedPanel) else None,
        factors=factors,
        description=describe_panel(panel, labels=labels),
        numbers=((numbers - numbers.mean()) / spread).fillna(0.0).to_numpy(),
    )
    return facts, percent
