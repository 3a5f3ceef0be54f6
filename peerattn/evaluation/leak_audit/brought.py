"""What bears the mark of tested rows: standardised columns, what an unfitted model brings along, networks of outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.columns import Rows, made_of_unknown
from peerattn.evaluation.leak_audit.measures import FEWEST, function_of, percentile
from peerattn.models.given_network import given_network

SHOWN = 60  # firms of a network that are looked at
SAME = 0.85  # coefficient of weights that are a function of outcomes: firms without one blur it


def scaled_over_all(rows: Rows, train: np.ndarray) -> dict[str, str]:
    """Return the columns standardised over all rows, or all rows of a firm, but not over training rows nor by period.

    Standardised: of mean 0, or of range 0 to 1 with one row at each end.
    """
    found: dict[str, str] = {}
    learned = np.isin(np.arange(len(rows.y)), train)
    for name, x in rows.columns.items():
        known = np.isfinite(x)
        if known.sum() < FEWEST or np.ptp(x[known]) == 0:
            continue
        parts = (np.zeros(len(x)), rows.when, np.where(learned, 0, -1), rows.firm)
        everywhere, period, training, firm = (_standardised(x, group) for group in parts)
        if everywhere and not period and not training:
            found[name] = "standardised or centred over all rows"
        elif firm:
            found[name] = "standardised or centred by firm over all periods"
    return found


def _standardised(x: np.ndarray, group: np.ndarray) -> bool:
    """Tell whether x has mean 0, or reaches 0 and 1 once each, in nine groups of ten; those without variation left out."""
    column = pd.Series(x)[group >= 0]
    rows = column.groupby(group[group >= 0]).agg(["mean", "std", "count", "min", "max"])
    rows["ends"] = column.isin([0.0, 1.0]).groupby(group[group >= 0]).sum()
    rows = rows[(rows["count"] >= 4) & (rows["std"] > 1e-9)]
    centred = rows["mean"].abs() <= 1e-6 * rows["std"]
    from_0_to_1 = (rows["min"] == 0) & (rows["max"] == 1) & (rows["ends"] == 2)
    return len(rows) > 0 and bool((centred | from_0_to_1).mean() > 0.9)


def brought_along(model: Any, panel: Any, rows: Rows) -> list[str]:
    """Return what an unfitted model knows before it is fitted: fitted parts, tables of rows, of firms and of periods."""
    levels = {"firm": panel.y.index.get_level_values(0), "period": panel.y.index.get_level_values(1)}
    levels |= {name: pd.Index(panel.X[name]) for name in panel.X.select_dtypes(exclude="number")}
    tables: dict[str, np.ndarray] = {}
    for name, value in model.get_params().items():
        table = pd.Series(value) if isinstance(value, dict) and value else value
        if isinstance(table, pd.Series) and pd.api.types.is_numeric_dtype(table.dtype):
            given = table[~table.index.duplicated()]
            tables |= {f"{name}, by {what}": given.reindex(of).to_numpy(float) for what, of in levels.items()}
    known = {name: x for name, x in tables.items() if np.isfinite(x).sum() >= FEWEST}
    leaks = made_of_unknown(replace(rows, codes={}, columns=known)) if known else {}
    return [*_parts(model, len(panel)), *(f"the table {name}, which {why}" for name, why in leaks.items())]


def _parts(part: Any, n_rows: int, path: str = "") -> Iterator[str]:
    """Yield fitted parts and tables among the attributes of an unfitted model."""
    items = vars(part).items() if hasattr(part, "get_params") else enumerate(part)
    for name, value in list(items):
        where = f"{path}.{name}".lstrip(".")
        if str(name).endswith("_") and not str(name).startswith("_"):
            yield f"{where}, fitted before"
        elif isinstance(value, pd.DataFrame | pd.Series | np.ndarray) and len(value) >= n_rows / 2:
            yield f"{where}, a table of {len(value):,} rows"
        elif (hasattr(value, "get_params") and not isinstance(value, type)) or isinstance(
            value, list | tuple
        ):
            yield from _parts(value, n_rows, where)


def network_of_outcomes(given: Any, y: pd.Series, train: np.ndarray, tested: np.ndarray) -> str:
    """Say whether the weights of a network are a function of outcomes of tested periods; empty where they are not.

    Parameters
    ----------
    given : PeerNetwork, DataFrame or dict
    y : Series indexed by firm and period
    train : ndarray
        Positions of the rows that are learned from.
    tested : ndarray
        Tested periods, as whole numbers in time order.
    """
    network, table = given_network(given), y.unstack(0).sort_index()  # periods by firms
    learned = table.index.isin(y.index.get_level_values(1)[train])
    for period in table.index[tested]:
        if network.is_dated and period not in network.periods:
            continue
        W = network.matrix(period if network.is_dated else None)
        firms = W.index.intersection(W.columns).intersection(table.loc[period].dropna().index)[:SHOWN]
        if len(firms) < 8:
            continue
        off = ~np.eye(len(firms), dtype=bool)
        focal, w = np.nonzero(off)[0], W.loc[firms, firms].to_numpy(float)[off]
        now, whole = table.loc[period, firms].to_numpy(), table[firms]
        then, before = (part.corr(min_periods=3).to_numpy()[off] for part in (whole, whole[learned]))
        pairs = {
            "the closeness of outcomes": -np.abs(now[:, None] - now)[off],
            "the size of peers' outcomes": np.tile(now, (len(firms), 1))[off],
            "the correlation of outcomes over all periods": then,
        }
        for what, feature in pairs.items():
            same = feature is then and function_of(*percentile(w, before, focal), SAME)
            if not same and function_of(*percentile(w, feature, focal), SAME):
                return f"in {period} its weights are a function of {what}"
    return ""
