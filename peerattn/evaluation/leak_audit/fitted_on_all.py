"""Columns that were transformed by figures of all rows, tested ones included: exact marks that hold in the whole sample only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata

from peerattn.evaluation.leak_audit.relations import FEWEST

EXACT = 1e-9
SHARES = (0.005, 0.01, 0.02, 0.025, 0.05, 0.1)  # cut off at each end
MOST_COLUMNS = 30  # whose correlations are looked at


def fitted_on_all(
    numbers: pd.DataFrame, train: np.ndarray, firm: np.ndarray, when: np.ndarray
) -> dict[str, str]:
    """Return the columns that bear the mark of a transform of all rows, which neither training rows nor periods bear.

    A standardised column has mean 0 over the rows it was standardised on, ranks are evenly spaced over the rows they were taken
    over, components are uncorrelated over theirs. Where such a mark is exact over all rows, but over the training rows is not,
    and over the rows of each period is not, later rows had a part in it.
    """
    found: dict[str, str] = {}
    for name, column in numbers.items():
        x = column.to_numpy(dtype=float)
        known = np.isfinite(x)
        learned = known & np.isin(np.arange(len(x)), train)
        if known.sum() < FEWEST or np.ptp(x[known]) == 0 or learned.sum() in (0, known.sum()):
            continue
        for what, bears in MARKS.items():
            if bears(x[known]) and not bears(x[learned]) and not _by_period(bears, x[known], when[known]):
                found[str(name)] = f"{what} over all rows"
                break
        else:
            stand_ins: dict[str, Callable[[np.ndarray], Any]] = {"mean": np.mean, "median": np.median}
            for what, stands_for in stand_ins.items():
                if _filled(x[known], stands_for) and not _filled(x[learned], stands_for):
                    found[str(name)] = f"filled with the {what} of all rows"
            if _by_firm(x, firm, when):
                found[str(name)] = "centred, or filled, by the firm's mean of all periods"
    for one, other in _uncorrelated(numbers, train):
        found.setdefault(one, f"uncorrelated with {other!r} over all rows, to the last digit")
    return found


def _centred(values: np.ndarray) -> bool:
    """Tell whether the mean is 0, up to the rounding of values."""
    unit = _rounding(values)
    if unit > 0.05 * values.std():
        return False
    error = 1.2 * unit / np.sqrt(len(values))  # four standard errors of a mean of rounding errors
    near = EXACT * values.std() + error
    return bool(abs(values.mean()) < near) if unit < 1e-4 else _unit_variance(values, near, unit)


def _unit_variance(values: np.ndarray, near: float, unit: float) -> bool:
    """Tell whether values rounded coarsely have mean 0 and deviation 1."""
    spread = near + unit**2 / 12
    return bool(abs(values.mean()) < near and min(abs(values.std(ddof=k) - 1) for k in (0, 1)) < spread)


def _robust(values: np.ndarray) -> bool:
    """Tell whether the median is 0 and the quartiles are 1 apart."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return bool(
        abs(middle) < EXACT and abs(high - low - 1) < 1e-6 and len(np.unique(values)) > 0.5 * len(values)
    )


def _ranked(values: np.ndarray) -> bool:
    """Tell whether values are ranks, or normal scores of ranks: evenly spaced, ties apart."""
    if len(np.unique(values)) < max(FEWEST, 0.5 * len(values)):
        return False
    rank = rankdata(values)
    spaced = [values] if np.abs(values).max() > 8 else [values, norm.cdf(values)]
    return any(np.corrcoef(v, rank)[0, 1] > 1 - EXACT for v in spaced)


def _stretched(values: np.ndarray) -> bool:
    """Tell whether values are scaled to [0, 1] or [-1, 1]: one row has each end, and the others differ."""
    ends = [int((values == end).sum()) for end in (values.min(), values.max())]
    scaled = values.max() == 1 and values.min() in (0, -1)
    return bool(scaled and ends == [1, 1] and len(np.unique(values)) >= FEWEST)


def _cut(values: np.ndarray) -> bool:
    """Tell whether the same round share of the rows lies at each end, and none beyond: winsorised."""
    low, high = ((values == end).sum() for end in (values.min(), values.max()))
    due = [int(np.floor(share * (len(values) - 1))) + 1 for share in SHARES]
    distinct = len(np.unique(values)) > 0.5 * len(values)
    return bool(
        distinct and min(low, high) >= 4 and abs(low - high) <= 1 and any(abs(low - n) <= 1 for n in due)
    )


def _even(values: np.ndarray) -> bool:
    """Tell whether few levels have as many rows each: quantiles."""
    count = np.unique(values, return_counts=True)[1]
    return bool(3 <= len(count) <= 20 and count.min() >= FEWEST and np.ptp(count) <= 1)


MARKS: dict[str, Callable[[np.ndarray], bool]] = {
    "standardised or centred": _centred,
    "scaled by median and quartiles": _robust,
    "ranked": _ranked,
    "scaled between its ends": _stretched,
    "winsorised": _cut,
    "cut into quantiles": _even,
}


def _by_period(bears: Callable[[np.ndarray], bool], x: np.ndarray, when: np.ndarray) -> bool:
    """Tell whether the mark holds in most periods, too: a transform of each period's rows is allowed."""
    parts = [x[when == t] for t in np.unique(when)]
    parts = [part for part in parts if len(part) > 1 and np.ptp(part) > 0]
    if bears is _centred:
        return bool(parts) and np.median([abs(p.mean()) / p.std() for p in parts]) < 1e-6 + _rounding(x)
    return sum(bears(part) for part in parts) > 0.5 * len(parts)


def _filled(values: np.ndarray, stands_for: Callable[[np.ndarray], Any]) -> bool:
    """Tell whether the commonest value is the mean, or the median, of the others."""
    distinct, counts = np.unique(values, return_counts=True)
    common = distinct[counts.argmax()]
    rest = values[values != common]
    continuous = len(distinct) - 1 > 0.5 * len(rest)
    return bool(
        counts.max() >= 5
        and len(rest) >= FEWEST
        and continuous
        and abs(common - stands_for(rest)) <= EXACT * rest.std()
    )


def _by_firm(x: np.ndarray, firm: np.ndarray, when: np.ndarray) -> bool:
    """Tell whether a firm's values sum to 0, or one of them is the mean of the others, earlier and later."""
    rows = pd.DataFrame({"x": x, "firm": firm, "t": when}).dropna().sort_values(["firm", "t"])
    rows = rows[rows.groupby("firm")["x"].transform("count") >= 4]
    firms = rows.groupby("firm")["x"]
    spread = firms.std()
    varying = spread > 1e-6 * max(rows["x"].std(), 1e-300) if len(rows) else spread > 0
    if varying.sum() >= FEWEST and (firms.mean().abs() <= EXACT * spread)[varying].mean() > 0.9:
        return True
    if rows["x"].nunique() < 0.5 * len(rows):
        return False
    total, count = firms.transform("sum"), firms.transform("count")
    same = rows.groupby(["firm", "x"])["t"].transform("count")
    others = (total - same * rows["x"]) / (count - same).where(count - same > 2)
    last = rows.groupby("firm")["t"].transform("max") == rows["t"]
    exact = (others - rows["x"]).abs() <= EXACT * rows["firm"].map(spread)
    straight = (firms.shift(1) + firms.shift(-1) - 2 * rows["x"]).abs() <= EXACT * rows[
        "x"
    ].std()  # an age, a year
    exact &= rows["firm"].map(varying) & ~last & ~straight
    return bool(exact.sum() >= FEWEST / 2)


def _uncorrelated(numbers: pd.DataFrame, train: np.ndarray) -> Iterator[tuple[str, str]]:
    """Yield pairs of columns whose correlation is 0 over all rows, to the last digit, and not over the training rows."""
    table = numbers.loc[:, numbers.notna().all() & (numbers.nunique() >= FEWEST)].iloc[:, :MOST_COLUMNS]
    if table.shape[1] < 2 or len(train) < FEWEST:
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        whole, learned = (
            np.abs(np.corrcoef(part.to_numpy(dtype=float).T)) for part in (table, table.iloc[train])
        )
    for a, b in zip(*np.nonzero((whole < EXACT) & (learned > 1e-6)), strict=True):
        yield str(table.columns[a]), str(table.columns[b])


def _rounding(values: np.ndarray) -> float:
    """Return the unit to which values are rounded: single precision, or at most six decimals; 0 for none."""
    for decimals in range(7):
        if np.abs(values - np.round(values, decimals)).max() <= 1e-12:
            return float(10.0**-decimals)
    return 1e-6 if (values == values.astype(np.float32)).all() else 0.0
