"""What bears the mark of tested rows: standardised columns, what an unfitted model brings along, networks of outcomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.columns import FEWEST, Rows, function_of, made_of_unknown
from peerattn.models.given_network import given_network

SHOWN = 60  # firms of a network that are looked at
SAME = 0.85  # coefficient of weights that are a function of outcomes: firms without one blur it


def scaled_over_all(rows: Rows, train: np.ndarray) -> dict[str, str]:
    """Return the columns standardised over all rows, or all rows of a firm, but not over training rows nor by period.

    Standardised: of mean 0, or of range 0 to 1 with one row at each end.
    """
    every = pd.DataFrame(rows.columns)
    every = every[[name for name, x in every.items() if x.count() >= FEWEST and x.nunique() > 1]]
    learned = np.where(np.isin(np.arange(len(rows.y)), train), 0, -1)
    parts = (np.zeros(len(rows.y), dtype=int), rows.when, learned, rows.firm)
    everywhere, period, training, firm = (_standardised(every, part) for part in parts)
    whole = everywhere & ~period & ~training
    found = dict.fromkeys(every.columns[firm & ~whole], "standardised or centred by firm over all periods")
    return dict.fromkeys(every.columns[whole], "standardised or centred over all rows") | found


def _standardised(columns: pd.DataFrame, group: np.ndarray) -> np.ndarray:
    """Tell which have mean 0, or reach 0 and 1 once each, in nine groups of ten; those without variation left out."""
    columns, group = columns[group >= 0], group[group >= 0]
    rows, ends = columns.groupby(group), columns.isin([0.0, 1.0]).groupby(group).sum() == 2
    sd = rows.std()
    varied = (rows.count() >= 4) & (sd > 1e-9)
    centred = (rows.mean().abs() <= 1e-6 * sd) | ((rows.min() == 0) & (rows.max() == 1) & ends)
    return ((centred & varied).sum() > 0.9 * varied.sum()).to_numpy()


def brought_along(model: Any, panel: Any, rows: Rows) -> list[str]:
    """Return what an unfitted model knows before it is fitted: fitted parts, tables of rows, of firms and of periods."""
    firm, period = (panel.y.index.get_level_values(level) for level in (0, 1))
    keys = {"firm": firm, "period": period}
    keys |= {name: pd.Index(panel.X[name]) for name in panel.X.select_dtypes(exclude="number")}
    found: list[str] = []
    tables: dict[str, np.ndarray] = {}
    for name, value in model.get_params().items():
        if hasattr(value, "get_params") and not isinstance(value, type):
            learned = [part for part in vars(value) if part.endswith("_") and not part.startswith("_")]
            found += [f"{name}.{part}, fitted before" for part in learned]
        elif isinstance(value, pd.DataFrame | pd.Series | np.ndarray) and len(value) >= len(panel) / 2:
            found.append(f"{name}, a table of {len(value):,} rows")
        table = pd.Series(value) if isinstance(value, dict) and value else value
        if isinstance(table, pd.Series) and pd.api.types.is_numeric_dtype(table.dtype):
            table = table[~table.index.duplicated()]
            tables |= {f"{name}, by {key}": table.reindex(of).to_numpy(float) for key, of in keys.items()}
    known = {name: x for name, x in tables.items() if np.isfinite(x).sum() >= FEWEST}
    leaks = made_of_unknown(replace(rows, codes={}, columns=known)) if known else {}
    return [*found, *(f"the table {name}, which {why}" for name, why in leaks.items())]


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
        unknown = {
            "the closeness of outcomes": -np.abs(now[:, None] - now)[off],
            "the size of peers' outcomes": np.tile(now, (len(firms), 1))[off],
            "the correlation of outcomes over all periods": then,
        }
        for what, u in unknown.items():
            earlier = u is then and function_of(w, before, focal, SAME)
            if not earlier and function_of(w, u, focal, SAME):
                return f"in {period} its weights are a function of {what}"
    return ""
