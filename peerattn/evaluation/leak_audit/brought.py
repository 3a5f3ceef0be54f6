"""What bears the mark of tested rows: columns transformed over all rows, what an unfitted model brings along, networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from peerattn.evaluation.leak_audit.columns import Rows, made_of_unknown
from peerattn.evaluation.leak_audit.measures import EXACT, FEWEST, function_of
from peerattn.models.given_network import given_network

SHOWN = 60  # firms of a network that are looked at


def transformed_over_all(
    numbers: pd.DataFrame, train: np.ndarray, firm: np.ndarray, when: np.ndarray
) -> dict[str, str]:
    """Return the columns that bear the mark of a transform of all rows, which neither training rows nor periods bear.

    A standardised column has mean 0 over the rows it was standardised on, ranks are evenly spaced over the rows they were taken
    over. Where such a mark is exact over all rows, but not over the training rows, nor over those of each period, later rows
    had a part in it.
    """
    found: dict[str, str] = {}
    learned = np.isin(np.arange(len(numbers)), train)
    for name, column in numbers.items():
        x = column.to_numpy(dtype=float)
        known = np.isfinite(x)
        if known.sum() < FEWEST or np.ptp(x[known]) == 0 or (known & learned).sum() in (0, known.sum()):
            continue
        for what, bears in MARKS.items():
            parts = [x[known & (when == t)] for t in np.unique(when[known])]
            parts = [part for part in parts if len(part) > 1 and np.ptp(part) > 0]
            by_period = sum(bears(part) for part in parts) > 0.5 * len(parts)
            if bears(x[known]) and not bears(x[known & learned]) and not by_period:
                found[str(name)] = f"{what} over all rows"
                break
        rows = pd.Series(x).groupby(firm).agg(["mean", "std", "count"]).query("count >= 4 and std > 1e-9")
        if len(rows) >= FEWEST and (rows["mean"].abs() <= EXACT * rows["std"]).mean() > 0.9:
            found[str(name)] = "centred by the firm's mean of all periods"
    return found


def _centred(x: np.ndarray) -> bool:
    """Tell whether the mean is 0, up to the rounding of values."""
    unit = _rounding(x)
    near = EXACT * x.std() + 1.2 * unit / np.sqrt(len(x))  # four standard errors of a mean of rounding errors
    if unit >= 1e-4:  # rounded coarsely: of deviation 1, too
        return bool(
            abs(x.mean()) < near and min(abs(x.std(ddof=k) - 1) for k in (0, 1)) < near + unit**2 / 12
        )
    return bool(abs(x.mean()) < near)


def _robust(x: np.ndarray) -> bool:
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75])
    return bool(abs(middle) < EXACT and abs(high - low - 1) < 1e-6 and len(np.unique(x)) > 0.5 * len(x))


def _ranked(x: np.ndarray) -> bool:
    many = len(np.unique(x)) >= max(FEWEST, 0.5 * len(x))
    return bool(many and np.corrcoef(x, rankdata(x))[0, 1] > 1 - EXACT)


def _stretched(x: np.ndarray) -> bool:
    """Tell whether values reach exactly from 0, or -1, to 1."""
    ends = abs(x.max() - 1) < EXACT and min(abs(x.min()), abs(x.min() + 1)) < EXACT
    return bool(ends and len(np.unique(x)) >= max(FEWEST, 0.5 * len(x)))


def _filled(x: np.ndarray) -> bool:
    """Tell whether the commonest value is the mean, or the median, of the others, which differ."""
    values, counts = np.unique(x, return_counts=True)
    common = values[counts.argmax()]
    rest = x[x != common]
    several = (
        counts.max() >= 5 * np.sort(counts)[-2:][0] and len(rest) >= FEWEST and len(values) > 0.5 * len(rest)
    )
    return bool(
        several and min(abs(common - np.mean(rest)), abs(common - np.median(rest))) <= EXACT * rest.std()
    )


MARKS: dict[str, Callable[[np.ndarray], bool]] = {
    "standardised or centred": _centred,
    "scaled by median and quartiles": _robust,
    "ranked": _ranked,
    "scaled between its ends": _stretched,
    "filled with the mean or median": _filled,
}


def _rounding(x: np.ndarray) -> float:
    """Return the unit to which values are rounded: at most six decimals, or single precision; 0 for none."""
    for decimals in range(7):
        if np.abs(x - np.round(x, decimals)).max() <= 1e-12:
            return float(10.0**-decimals)
    return 1e-6 if (x == x.astype(np.float32)).all() else 0.0


def brought_along(model: Any, panel: Any, train: np.ndarray, rows: Rows) -> list[str]:
    """Return what an unfitted model knows before it is fitted: fitted parts, tables of rows, figures of all rows."""
    found = list(_parts(model, len(panel)))
    numbers = panel.X.select_dtypes("number").astype(float)
    levels = {"firm": panel.y.index.get_level_values(0), "period": panel.y.index.get_level_values(1)}
    levels |= {str(name): pd.Index(code) for name, code in panel.X.drop(columns=numbers).items()}
    tables: dict[str, np.ndarray] = {}
    for name, value in model.get_params().items():
        table = pd.Series(value) if isinstance(value, dict) and value else value
        if isinstance(table, pd.Series) and pd.api.types.is_numeric_dtype(table.dtype):
            given = table[~table.index.duplicated()]
            tables |= {f"{name}, by {what}": given.reindex(of).to_numpy(float) for what, of in levels.items()}
        size = np.size(value) if isinstance(value, list | tuple | np.ndarray | pd.Series) else 0
        if size == numbers.shape[1] > 0 and np.ravel(value).dtype.kind in "fi":
            whole, part = (
                v.agg(["mean", "std", "median", "min", "max"]) for v in (numbers, numbers.iloc[train])
            )
            figures = np.ravel(value)
            if any(
                np.allclose(figures, whole.loc[k]) and not np.allclose(figures, part.loc[k])
                for k in whole.index
            ):
                found.append(f"{name}, a figure of each column over all rows")
    known = {name: x for name, x in tables.items() if np.isfinite(x).sum() >= FEWEST}
    leaks = made_of_unknown(Rows(rows.y, rows.firm, rows.when, rows.codes, known)) if known else {}
    return found + [f"the table {name}, which {why}" for name, why in leaks.items()]


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
    network = given_network(given)
    table = y.unstack(0).sort_index()  # periods by firms
    learned = table.index.isin(y.index.get_level_values(1)[train])
    for period in table.index[tested]:
        if network.is_dated and period not in network.periods:
            continue
        W = network.matrix(period if network.is_dated else None)
        firms = W.index.intersection(W.columns).intersection(table.loc[period].dropna().index)[:SHOWN]
        if len(firms) < 8:
            continue
        off = ~np.eye(len(firms), dtype=bool)
        focal = np.nonzero(off)[0]
        w, now, whole = (
            W.loc[firms, firms].to_numpy(float)[off],
            table.loc[period, firms].to_numpy(),
            table[firms],
        )
        made = {
            "the closeness of outcomes": (-np.abs(now[:, None] - now), None),
            "the product of outcomes": (np.outer(now - now.mean(), now - now.mean()), None),
            "the size of peers' outcomes": (np.tile(now, (len(firms), 1)), None),
            "the correlation of outcomes over all periods": (
                _correlation(whole),
                _correlation(whole[learned]),
            ),
        }
        for what, (feature, before) in made.items():
            same = before is not None and function_of(w, before[off], focal)
            if not same and (function_of(w, feature[off], focal) or function_of(feature[off], w, focal)):
                return f"in {period} its weights are a function of {what}"
    return ""


def _correlation(table: pd.DataFrame) -> np.ndarray:
    return table.corr(min_periods=3).to_numpy()
