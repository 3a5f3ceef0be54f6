"""From what a user has (matrices, frames of edges) to labels, periods and cross-sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, did_you_mean
from peerattn.network.cross_section import Array, CrossSection, checked_weights
from peerattn.network.labels import as_labels, as_periods, check_unique, common_labels
from peerattn.network.store import where_in

Built = tuple[pd.Index, pd.Index, list[CrossSection]]


def sections_from_matrices(matrices: Mapping[Any, Any]) -> Built:
    """Return labels, sorted periods and checked cross-sections of ``{period: (firms, peers, W) or frame}``.

    Raises
    ------
    InputError
        As :meth:`PeerNetwork.from_matrices` says.
    """
    if not isinstance(matrices, Mapping):
        raise InputError(
            f"matrices: expected a mapping of period to (firms, peers, W), got {type(matrices).__name__}; "
            "for one undated cross-section pass {None: (firms, peers, W)}."
        )
    periods = as_periods(matrices.keys())
    parts = [_parts(entry, where_in(period)) for period, entry in matrices.items()]
    labels = common_labels([index for firms, peers, _ in parts for index in (firms, peers)])
    sections = []
    for period, (firms, peers, weights) in zip(periods, parts, strict=True):
        rows = labels.get_indexer_for(firms)
        columns = rows if peers is firms else labels.get_indexer_for(peers)
        checked = checked_weights(weights, (len(rows), len(columns)), where_in(period))
        sections.append(CrossSection(rows, columns, checked))
    order = _order_of(periods)
    return labels, periods.take(order), [sections[position] for position in order]


def _parts(entry: Any, where: str) -> tuple[pd.Index, pd.Index, Any]:
    if isinstance(entry, pd.DataFrame):
        entry = (entry.index, entry.columns, entry.to_numpy())
    if not isinstance(entry, tuple | list) or len(entry) != 3:
        raise InputError(
            f"matrices{where}: expected (firms, peers, W) or a frame, got {type(entry).__name__}."
        )
    firms = as_labels(entry[0], "firms" + where)
    check_unique(firms, "firms" + where)
    if entry[1] is None or entry[1] is entry[0]:
        return firms, firms, entry[2]
    peers = as_labels(entry[1], "peers" + where)
    if peers.equals(firms) and peers.dtype == firms.dtype:
        return firms, firms, entry[2]
    check_unique(peers, "peers" + where)
    return firms, peers, entry[2]


def _order_of(periods: pd.Index) -> Array:
    if len(periods) == 1:
        return np.zeros(1, dtype=np.intp)
    try:
        return np.asarray(periods.argsort())
    except TypeError as error:
        raise InputError(f"periods cannot be sorted: {', '.join(map(repr, periods[:3]))}, ...") from error


def network_from_edges(edges: pd.DataFrame, firms: Any) -> Built:
    """Return labels, sorted periods and sparse square cross-sections of a frame of edges.

    Raises
    ------
    InputError
        As :meth:`PeerNetwork.from_edges` says.
    """
    for column in ("firm", "peer", "weight"):
        if column not in edges.columns:
            raise InputError(
                f"edges: column {column!r} is missing; expected period, firm, peer, weight, got "
                f"{list(map(str, edges.columns))}.{did_you_mean(column, edges.columns)}"
            )
    focal, peers = as_labels(edges["firm"], "edges['firm']"), as_labels(edges["peer"], "edges['peer']")
    weights = pd.to_numeric(edges["weight"], errors="coerce").to_numpy(dtype=np.float64)
    dated = "period" in edges.columns and not (len(edges) and edges["period"].isna().all())
    dated = dated or (isinstance(firms, pd.DataFrame) and "period" in firms.columns)
    periods, when = _period_codes(edges, firms, dated)
    labels, members = _members(firms, focal, peers, periods, when)
    i, j = labels.get_indexer_for(focal), labels.get_indexer_for(peers)
    sections = []
    for position, period in enumerate(periods):
        here = when == position
        positions = members[position]
        _refuse_strangers(labels, positions, np.concatenate([i[here], j[here]]), where_in(period))
        place = np.full(len(labels), -1, dtype=np.intp)
        place[positions] = np.arange(len(positions))
        shape = (len(positions), len(positions))
        entries = sparse.coo_array((weights[here], (place[i[here]], place[j[here]])), shape=shape)
        _refuse_repeats(entries, labels.take(positions), where_in(period))
        sections.append(CrossSection(positions, positions, checked_weights(entries, shape, where_in(period))))
    return labels, periods, sections


def _period_codes(edges: pd.DataFrame, firms: Any, dated: bool) -> tuple[pd.Index, Array]:
    """Sorted periods and, for each edge, the position of its period."""
    if not dated:
        return pd.Index([None], dtype=object), np.zeros(len(edges), dtype=np.intp)
    given = [as_labels(edges["period"], "edges['period']")]
    if isinstance(firms, pd.DataFrame) and "period" in firms.columns:
        given.append(as_labels(firms["period"], "firms['period']"))
    periods = common_labels(given)
    return periods, np.asarray(periods.get_indexer_for(given[0]))


def _members(
    firms: Any, focal: pd.Index, peers: pd.Index, periods: pd.Index, when: Array
) -> tuple[pd.Index, list[Array]]:
    """Labels, and the positions of each period's firms, in the order given or sorted."""
    if firms is None:
        labels = common_labels([focal, peers])
        i, j = labels.get_indexer_for(focal), labels.get_indexer_for(peers)
        return labels, [np.unique(np.concatenate([i[when == t], j[when == t]])) for t in range(len(periods))]
    if not isinstance(firms, pd.DataFrame) or "period" not in firms.columns:
        listed = as_labels(firms["firm"] if isinstance(firms, pd.DataFrame) else firms, "firms")
        check_unique(listed, "firms")
        labels = common_labels([listed, focal, peers])
        return labels, [labels.get_indexer_for(listed)] * len(periods)
    listed = as_labels(firms["firm"], "firms['firm']")
    codes = periods.get_indexer_for(as_labels(firms["period"], "firms['period']"))
    labels = common_labels([listed, focal, peers])
    found = labels.get_indexer_for(listed)
    for position, period in enumerate(periods):
        check_unique(labels.take(found[codes == position]), "firms" + where_in(period))
    return labels, [found[codes == position] for position in range(len(periods))]


def _refuse_strangers(labels: pd.Index, members: Array, used: Array, where: str) -> None:
    strangers = labels.take(np.setdiff1d(used, members))
    if len(strangers):
        shown = ", ".join(repr(label) for label in strangers[:3])
        raise InputError(
            f"edges{where}: {len(strangers)} firms are not among firms= ({shown}); add them there."
        )


def _refuse_repeats(entries: sparse.coo_array, firms: pd.Index, where: str) -> None:
    keys = entries.row.astype(np.int64) * entries.shape[1] + entries.col
    unique, counts = np.unique(keys, return_counts=True)
    if len(unique) < len(keys):
        first = int(unique[counts > 1][0])
        pair = (firms[first // entries.shape[1]], firms[first % entries.shape[1]])
        raise InputError(
            f"edges{where}: {int((counts > 1).sum())} edges are given twice, such as {pair[0]!r} to {pair[1]!r}; "
            "add their weights up or keep one."
        )
