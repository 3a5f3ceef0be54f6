"""Columns and networks that were made of outcomes nobody knew when they were needed."""

from __future__ import annotations

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
FEWEST = 20  # rows, or firms with a mean
SHOWN = 60  # firms of a period that are looked at


def labels_of(firm: pd.Index, period: pd.Index) -> Labels:
    """Return firm and period of each row as whole numbers, periods in time order."""
    return pd.factorize(firm)[0], sorted_periods(period)[0]


def made_of_outcomes(
    numbers: pd.DataFrame, y: np.ndarray, firm: np.ndarray, when: np.ndarray
) -> dict[str, str]:
    """Return the columns that are a monotone copy of the outcome or a firm's mean outcome with its future in it, and why."""
    found = {}
    for name, column in numbers.items():
        x = column.to_numpy(dtype=float)
        both = np.isfinite(x) & np.isfinite(y)
        if both.sum() < FEWEST:
            continue
        rows = pd.DataFrame({"x": x[both], "y": y[both], "firm": firm[both], "t": when[both]})
        if _same_order(rows):
            found[str(name)] = "has the order of the outcome"
        elif _future_mean(rows):
            found[str(name)] = "is a mean of the firm's outcomes, later ones included"
    return found


def _same_order(rows: pd.DataFrame) -> bool:
    """Tell whether x orders rows as the outcome does, over all rows or within every period."""
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


def _correlation(a: pd.Series, b: pd.Series) -> float:
    if len(a) < FEWEST or np.ptp(a) <= 1e-12 * np.abs(a).max() or np.ptp(b) <= 1e-12 * np.abs(b).max():
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
