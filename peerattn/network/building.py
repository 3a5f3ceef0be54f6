"""From what a user has (matrices, frames of edges) to labels, periods and cross-sections of a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals
from scipy import sparse

from peerattn.exceptions import InputError, did_you_mean
from peerattn.network.base import Net
from peerattn.network.cross_section import Array, CrossSection, checked_weights, place_in, where_in
from peerattn.panel.labels import in_time


def from_matrices(
    cls: type[Net],
    matrices: Mapping[Any, Any],
    *,
    name: str = "",
    signed: bool = False,
    row_normalized: bool = True,
) -> Net:
    """Make a network from one matrix of weights for each period.

    Parameters
    ----------
    matrices : mapping of period to (firms, peers, W) or DataFrame
        ``W`` has shape (n_firms, n_peers), dense or scipy sparse (it stays sparse); firms label its rows,
        peers its columns. ``peers=None`` means the firms. A frame carries its own labels. One undated
        cross-section has the key ``None``. Firms may differ from period to period.
    name : str, default ""
        What made the network.
    signed : bool, default False
        Whether weights may be negative.
    row_normalized : bool, default True
        Whether rows must sum to one (to 1e-6) or zero.

    Returns
    -------
    PeerNetwork
        With own copies of the weights.

    Raises
    ------
    InputError
        When labels repeat, are missing or do not fit the shape; when weights are NaN, infinite, negative
        (unless signed) or do not sum to one.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> frame = pd.DataFrame([[0.0, 1.0], [1.0, 0.0]], index=["A", "B"], columns=["A", "B"])
    >>> PeerNetwork.from_matrices({2001: frame, 2002: frame}).periods.tolist()
    [2001, 2002]
    """
    if not isinstance(matrices, Mapping):
        raise InputError(
            f"matrices: expected a mapping of period to (firms, peers, W), got {type(matrices).__name__}; "
            "for one undated cross-section pass {None: (firms, peers, W)}."
        )
    periods = _as_periods(matrices.keys())
    parts = [_parts(entry, where_in(period)) for period, entry in matrices.items()]
    labels = _common_labels([index for firms, peers, _ in parts for index in (firms, peers)])
    sections = []
    for period, (firms, peers, weights) in zip(periods, parts, strict=True):
        rows = labels.get_indexer_for(firms)
        columns = rows if peers is firms else labels.get_indexer_for(peers)
        checked = checked_weights(weights, (len(rows), len(columns)), where_in(period))
        sections.append(CrossSection(rows, columns, checked))
    order = _order_of(periods)
    sections = [sections[position] for position in order]
    return cls(labels, periods.take(order), sections, name=name, signed=signed, row_normalized=row_normalized)


def _parts(entry: Any, where: str) -> tuple[pd.Index, pd.Index, Any]:
    if isinstance(entry, pd.DataFrame):
        entry = (entry.index, entry.columns, entry.to_numpy())
    if not isinstance(entry, tuple | list) or len(entry) != 3:
        raise InputError(
            f"matrices{where}: expected (firms, peers, W) or a frame, got {type(entry).__name__}."
        )
    firms = _as_labels(entry[0], "firms" + where)
    _check_unique(firms, "firms" + where)
    if entry[1] is None or entry[1] is entry[0]:
        return firms, firms, entry[2]
    peers = _as_labels(entry[1], "peers" + where)
    if peers.equals(firms) and peers.dtype == firms.dtype:
        return firms, firms, entry[2]
    _check_unique(peers, "peers" + where)
    return firms, peers, entry[2]


def _order_of(periods: pd.Index) -> Array:
    if len(periods) == 1:
        return np.zeros(1, dtype=np.intp)
    try:
        return np.asarray(periods.argsort())
    except TypeError as error:
        raise InputError(f"periods cannot be sorted: {', '.join(map(repr, periods[:3]))}, ...") from error


def from_edges(
    cls: type[Net],
    edges: pd.DataFrame,
    firms: Any = None,
    *,
    name: str = "",
    signed: bool = False,
    row_normalized: bool = True,
) -> Net:
    """Make a network from a frame of edges.

    Parameters
    ----------
    edges : pandas.DataFrame
        Columns ``firm``, ``peer``, ``weight`` and, unless undated, ``period``.
    firms : DataFrame with columns period and firm, or iterable of labels, optional
        All firms of each period (or of every period), isolates included. By default the firms of a
        period are those its edges name.
    name, signed, row_normalized
        As in :meth:`from_matrices`.

    Returns
    -------
    PeerNetwork
        Square and sparse inside.

    Raises
    ------
    InputError
        When a column is missing, an edge is given twice or names an unknown firm, or weights are bad.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"period": 2001, "firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
    >>> PeerNetwork.from_edges(edges, firms=["A", "B", "C"]).isolates
       period firm
    0    2001    C
    """
    for column in ("firm", "peer", "weight"):
        if column not in edges.columns:
            raise InputError(
                f"edges: column {column!r} is missing; expected period, firm, peer, weight, got "
                f"{list(map(str, edges.columns))}.{did_you_mean(column, edges.columns)}"
            )
    focal, peers = _as_labels(edges["firm"], "edges['firm']"), _as_labels(edges["peer"], "edges['peer']")
    weights = pd.to_numeric(edges["weight"], errors="coerce").to_numpy(dtype=np.float64)
    periods, when = _period_codes(edges, firms)
    labels, members = _members(firms, focal, peers, periods, when)
    i, j = labels.get_indexer_for(focal), labels.get_indexer_for(peers)
    sections = []
    for position, period in enumerate(periods):
        here = when == position
        positions = members[position]
        _refuse_strangers(labels, positions, np.concatenate([i[here], j[here]]), where_in(period))
        shape = (len(positions), len(positions))
        ends = place_in(positions, i[here]), place_in(positions, j[here])
        entries = sparse.coo_array((weights[here], ends), shape=shape)
        _refuse_repeats(entries, labels.take(positions), where_in(period))
        sections.append(CrossSection(positions, positions, checked_weights(entries, shape, where_in(period))))
    return cls(labels, periods, sections, name=name, signed=signed, row_normalized=row_normalized)


def _period_codes(edges: pd.DataFrame, firms: Any) -> tuple[pd.Index, Array]:
    """Sorted periods and, for each edge, the position of its period."""
    dated = "period" in edges.columns and not (len(edges) and edges["period"].isna().all())
    listed = isinstance(firms, pd.DataFrame) and "period" in firms.columns
    if not dated and not listed:
        return pd.Index([None], dtype=object), np.zeros(len(edges), dtype=np.intp)
    given = [_dates(edges["period"], "edges['period']")]
    given += [_dates(firms["period"], "firms['period']")] if listed else []
    periods = _common_labels(given)
    return periods, np.asarray(periods.get_indexer_for(given[0]))


def _members(
    firms: Any, focal: pd.Index, peers: pd.Index, periods: pd.Index, when: Array
) -> tuple[pd.Index, list[Array]]:
    """Labels, and the positions of each period's firms, in the order given or sorted."""
    if firms is None:
        labels = _common_labels([focal, peers])
        i, j = labels.get_indexer_for(focal), labels.get_indexer_for(peers)
        return labels, [np.unique(np.concatenate([i[when == t], j[when == t]])) for t in range(len(periods))]
    listed = _as_labels(firms["firm"] if isinstance(firms, pd.DataFrame) else firms, "firms")
    labels = _common_labels([listed, focal, peers])
    found = labels.get_indexer_for(listed)
    if not isinstance(firms, pd.DataFrame) or "period" not in firms.columns:
        _check_unique(listed, "firms")
        return labels, [found] * len(periods)
    codes = periods.get_indexer_for(_dates(firms["period"], "firms['period']"))
    for position, period in enumerate(periods):
        _check_unique(labels.take(found[codes == position]), "firms" + where_in(period))
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


def _as_labels(labels: Any, argument: str) -> pd.Index:
    """Return labels (strings, integers, timestamps, periods, categories) as an index of one kind, none missing.

    Object columns that hold one kind become that kind.
    """
    given = labels if isinstance(labels, pd.Index | pd.Series | np.ndarray) else list(labels)
    index = pd.Index(given, tupleize_cols=False) if not isinstance(given, pd.Series) else pd.Index(given)
    if isinstance(index, pd.MultiIndex) or any(isinstance(label, tuple) for label in index[:1]):
        raise InputError(f"{argument}: expected single labels, got tuples such as {index[0]!r}.")
    if index.hasnans:
        raise InputError(f"{argument}: {int(np.sum(index.isna()))} labels are missing.")
    return _of_one_kind(index.rename(None), argument)


def _dates(labels: Any, argument: str) -> pd.Index:
    return in_time(_as_labels(labels, argument), argument, check=False)


def _of_one_kind(index: pd.Index, argument: str) -> pd.Index:
    index = index.infer_objects()
    if index.dtype == object and len(kinds := sorted({type(label).__name__ for label in index})) > 1:
        raise InputError(f"{argument}: labels mix {' and '.join(kinds)}; use one kind.")
    return index


def _common_labels(indexes: Sequence[pd.Index]) -> pd.Index:
    """Return every label that occurs in ``indexes`` once, sorted where labels can be sorted."""
    distinct: list[pd.Index] = []
    for index in indexes:
        if not any(
            index is seen or (index.dtype == seen.dtype and index.equals(seen)) for seen in distinct[-2:]
        ):
            distinct.append(index)
    everything = _joined(distinct).unique()
    try:
        return everything.sort_values()
    except TypeError:
        return everything


def _joined(indexes: Sequence[pd.Index]) -> pd.Index:
    if not indexes:
        return pd.Index([], dtype=str)
    if all(isinstance(index.dtype, pd.CategoricalDtype) for index in indexes):
        same = all(index.dtype == indexes[0].dtype for index in indexes)
        return pd.CategoricalIndex(
            union_categoricals([pd.Categorical(index) for index in indexes], ignore_order=not same)
        )
    plain = [index for index in indexes if len(index)] or list(indexes[:1])
    return _of_one_kind(plain[0].append(list(plain[1:])), "firms")


def _as_periods(keys: Iterable[Any]) -> pd.Index:
    """Return period labels as an index; ``None`` alone stands for one undated cross-section."""
    labels = list(keys)
    if len(labels) == 1 and labels[0] is None:
        return pd.Index([None], dtype=object)
    if any(label is None for label in labels):
        raise InputError("periods: None stands for a single undated cross-section, not for one of several.")
    periods = in_time(_as_labels(labels, "periods"), "periods", check=False)
    if periods.has_duplicates:
        raise InputError(f"periods: {periods[periods.duplicated()][0]!r} is given twice.")
    return periods


def _check_unique(labels: pd.Index, argument: str) -> None:
    """Refuse a firm that is given twice in one cross-section, showing up to three."""
    if labels.has_duplicates:
        repeated = labels[labels.duplicated()].unique()
        shown = ", ".join(repr(label) for label in repeated[:3])
        raise InputError(f"{argument}: repeated labels ({shown}); a firm appears once per period.")
