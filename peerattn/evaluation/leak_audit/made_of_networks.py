"""Networks whose weights were made of the outcomes they help to predict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from peerattn.models.given_network import given_network
from peerattn.network import PeerNetwork

IN_ORDER = 0.95  # share of pairs of peers whose weights have the order of what they would be made of
SHOWN = 60  # firms of a period that are looked at
WINDOWS = (3, 4, 5, 6, 8, 10, 12, 24, 36, 48, 60)  # periods over which outcomes may be correlated


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
    dated, known = network.is_dated, network.periods
    for t in tested:
        period = table.index[t]
        if dated and period not in known:
            continue
        W = network.matrix(period if dated else None)
        here = table.loc[period].dropna()
        firms = W.index.intersection(W.columns).intersection(here.index)[:SHOWN]
        if len(firms) < 8:
            continue
        weights = W.loc[firms, firms].to_numpy(dtype=float)
        for what, feature, before in _made_of(table[firms], learned[firms], int(t)):
            order = _in_order(weights, feature)
            if order > IN_ORDER and (before is None or _in_order(weights, before) < order):
                return f"in {period} {order:.0%} of its pairs of peers have the order of {what}"
        last = table[firms].iloc[t - 1].to_numpy() if t else np.full(len(firms), np.nan)
        of_all = table[firms].mean().to_numpy(), learned[firms].mean().to_numpy()
        for what, now, before in (
            ("the period's outcomes", here[firms].to_numpy(), last),
            ("mean outcomes over all periods", *of_all),
        ):
            share = _ranges(weights, now)
            if share > IN_ORDER and not _ranges(weights, before) > 0.8:
                return f"in {period} the strong peers of {share:.0%} of the firms are a range of {what}"
    return ""


def _made_of(
    table: pd.DataFrame, learned: pd.DataFrame, t: int
) -> list[tuple[str, np.ndarray, np.ndarray | None]]:
    """Return what weights may be made of, (n, n), and the same from earlier outcomes, which is allowed."""
    outcome = table.iloc[t].to_numpy()
    center = outcome - outcome.mean()
    found: list[tuple[str, np.ndarray, np.ndarray | None]] = [
        ("the closeness of outcomes", -np.abs(outcome[:, None] - outcome), None),
        ("the product of outcomes", np.outer(center, center), None),
        ("the size of peers' outcomes", np.tile(outcome, (len(outcome), 1)), None),
        ("the correlation of outcomes over all periods", _correlations(table), _correlations(learned)),
    ]
    found.append(("the nearness of outcomes over all periods", _nearness(table), _nearness(learned)))
    for k in WINDOWS:
        if t + k <= len(table):
            what = f"the correlation of outcomes over {k} periods from the tested one on"
            found.append((what, _correlations(table.iloc[t : t + k]), _correlations(learned)))
        if k <= t:
            what = f"the correlation of outcomes over {k} periods, the tested one among them"
            found.append(
                (what, _correlations(table.iloc[t + 1 - k : t + 1]), _correlations(table.iloc[t - k : t]))
            )
    return found


def _correlations(table: pd.DataFrame) -> np.ndarray:
    return table.corr(min_periods=3).to_numpy()


def _nearness(table: pd.DataFrame) -> np.ndarray:
    filled = table.fillna(table.stack().mean()).to_numpy()
    return -np.square(filled[:, :, None] - filled[:, None, :]).sum(axis=0)


def _ranges(weights: np.ndarray, values: np.ndarray) -> float:
    """Return the share of firms whose peers of more weight have values next to each other, of those with two sorts of peers."""
    agree = count = 0
    for i, row in enumerate(weights):
        j = np.delete(np.arange(len(weights)), i)
        j = j[np.isfinite(values[j])]
        if len(j) < 8:
            continue
        strong = row[j] > (row[j].max() + row[j].min()) / 2
        if 3 <= strong.sum() <= len(j) - 3:
            count += 1
            agree += np.sum(np.diff(strong[np.argsort(values[j], kind="stable")].astype(int)) != 0) <= 2
    return agree / count if count >= 8 else 0.0


def _in_order(weights: np.ndarray, feature: np.ndarray) -> float:
    """Return the share of pairs of peers of a firm, of different weight, whose feature has the order of their weights.

    It is that of all peers or, where it is larger, of each firm's weaker half: weights may be made of industries besides, say,
    which decide the order of the stronger peers.
    """
    agree, count = np.zeros(2), np.zeros(2)
    for i in range(len(weights)):
        j = np.delete(np.arange(len(weights)), i)
        j = j[np.isfinite(feature[i, j])]
        for part, peers in enumerate((j, j[np.argsort(weights[i, j])[: len(j) // 2]])):
            w, f = (np.subtract.outer(v, v) for v in (weights[i, peers], feature[i, peers]))
            larger = w > 1e-12
            agree[part] += (f[larger] > 0).sum()
            count[part] += larger.sum()
    enough = count >= (1, len(weights))  # a few pairs have an order by chance
    return float(np.max(np.divide(agree, count, out=np.zeros(2), where=enough & (count > 0))))
