"""What a reader asks of a network: edges, whom a firm looks to, who looks to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network import algebra
from peerattn.network.store import joined, position_of
from peerattn.render import show_label

if TYPE_CHECKING:
    from peerattn.network.cross_section import Array
    from peerattn.network.peer_network import PeerNetwork


def edges(network: PeerNetwork, period: Any, top_k: int | None) -> pd.DataFrame:
    """Return weights that are not zero, as :meth:`PeerNetwork.edges` says."""
    if top_k is not None and (
        isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1
    ):
        raise InputError(f"top_k: expected a positive integer or None, got {top_k!r}.")
    sections = [section for _, section in network.sections()]
    if period is None:
        chosen = range(len(sections))
    else:
        start = position_of(network.section(period)[0], network.periods)
        chosen = range(start, start + 1)
    where, focal, peers, weights = [], [], [], []
    for position in chosen:
        section = sections[position]
        i, j, w = section.entries(None if top_k is None else int(top_k))
        where.append(np.full(len(i), position))
        focal.append(section.rows[i])
        peers.append(section.columns[j])
        weights.append(w.astype(np.float64))
    return pd.DataFrame(
        {
            "period": network.periods.take(joined(where)),
            "firm": network.labels.take(joined(focal)),
            "peer": network.labels.take(joined(peers)),
            "weight": np.concatenate([np.empty(0), *weights]),
        }
    )


def peers(network: PeerNetwork, firm: Any, period: Any, k: int | None) -> pd.DataFrame:
    """Return whom a firm looks to, as :meth:`PeerNetwork.peers` says."""
    chosen = network if period is None else algebra.subset(network, None, [period])
    position = chosen.firm_position(firm)
    _require(chosen, position, "rows", "does not look")
    weights, _ = algebra.mean_rows(chosen, np.array([position]))
    return _ranked(chosen, weights[0], "peer", k)


def followers(network: PeerNetwork, firm: Any, period: Any, k: int | None) -> pd.DataFrame:
    """Return who looks to a firm, as :meth:`PeerNetwork.followers` says."""
    chosen = network if period is None else algebra.subset(network, None, [period])
    position = chosen.firm_position(firm)
    _require(chosen, position, "columns", "is not among the firms looked to")
    return _ranked(chosen, algebra.weights_to(chosen, position), "firm", k)


def _require(network: PeerNetwork, position: int, side: str, lack: str) -> None:
    if not any(position in getattr(section, side) for _, section in network.sections()):
        where = f" in period {show_label(network.periods[0])}" if len(network.periods) == 1 else ""
        where = where if network.is_dated else ""
        raise InputError(f"firm: {network.labels[position]!r} {lack}{where}.")


def _ranked(network: PeerNetwork, weights: Array, column: str, k: int | None) -> pd.DataFrame:
    order = np.argsort(-np.abs(weights), kind="stable")
    order = order[weights[order] != 0][:k]
    return pd.DataFrame({column: network.labels.take(order), "weight": weights[order]})


def equal(first: PeerNetwork, second: PeerNetwork) -> bool:
    """Return whether two networks have the same labels (with dtypes), weights, name and kind."""
    facts = [(network.name, network.signed, network.row_normalized) for network in (first, second)]
    pairs = ((first.periods, second.periods), (first.labels, second.labels))
    same = facts[0] == facts[1] and all(a.equals(b) and a.dtype == b.dtype for a, b in pairs)
    return same and all(
        np.array_equal(a.rows, b.rows)
        and np.array_equal(a.columns, b.columns)
        and a.weights.dtype == b.weights.dtype
        and a.is_sparse == b.is_sparse
        and all(np.array_equal(x, y) for x, y in zip(a.entries(), b.entries(), strict=True))
        for (_, a), (_, b) in zip(first.sections(), second.sections(), strict=True)
    )
