"""From what a user has (matrices, frames of edges) to labels, periods and cross-sections of a network."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, expect, validate_arguments
from peerattn.network.base import Net, last_learned
from peerattn.network.cross_section import Array, CrossSection, checked_weights, where_in
from peerattn.panel.columns import check_known
from peerattn.panel.time_order import in_time
from peerattn.render import show_label

Matrices = Mapping[Any, Any]  # by period


@validate_arguments
def from_matrices(
    cls: type[Net], matrices: Matrices, *, name: str = "", signed: bool = False, row_normalized: bool = True
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
        With own copies of the weights. Frames of :meth:`PeerNetwork.matrix` record what they were learned from; for other weights
        that were learned from outcomes give it: ``network.replaced(learned_until=2004)``.

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
    parts = [_parts(entry, where_in(period)) for period, entry in matrices.items()]
    periods = _as_periods(matrices.keys())
    # one list of labels for all periods: a firm is the same position in each
    labels = _common_labels([index for firms, peers, _ in parts for index in (firms, peers)])
    sections = []
    for period, (firms, peers, weights) in zip(periods, parts, strict=True):
        own = checked_weights(weights, (len(firms), len(peers)), where_in(period))
        sections.append(CrossSection(labels.get_indexer_for(firms), labels.get_indexer_for(peers), own))
    # sections in order of time, whatever order the matrices came in
    order = periods.argsort()
    return cls(
        labels, periods.take(order), [sections[position] for position in order],
        name=name, signed=signed, row_normalized=row_normalized,
        learned_until=last_learned(getattr(entry, "attrs", {}).get("learned_until") for entry in matrices.values()),
    )  # fmt: skip


def _parts(entry: Any, where: str) -> tuple[pd.Index, pd.Index, Any]:
    if isinstance(entry, pd.DataFrame):
        entry = (entry.index, entry.columns, entry.to_numpy())
    three = isinstance(entry, tuple | list) and len(entry) == 3
    expect(three, f"matrices{where}", "(firms, peers, W) or a frame", type(entry))
    firms, peers, weights = entry
    own = _check_unique(_as_labels(firms, "firms" + where), "firms" + where)
    if peers is None:
        return own, own, weights
    return own, _check_unique(_as_labels(peers, "peers" + where), "peers" + where), weights


def from_edges(cls: type[Net], edges: pd.DataFrame, firms: Iterable[Any] | None = None, **kind: Any) -> Net:
    """Make a network from a frame of edges.

    Parameters
    ----------
    edges : pandas.DataFrame
        Columns ``firm``, ``peer``, ``weight`` and, unless undated, ``period``; and ``learned_until``, where the weights were
        learned from outcomes and neither :meth:`PeerNetwork.edges` nor a file of :meth:`PeerNetwork.to_csv` records it.
    firms : DataFrame with columns period and firm, or iterable of labels, optional
        All firms of each period (or of every period), isolates included. By default the firms of a
        period are those its edges name.
    **kind
        ``name``, ``signed``, ``row_normalized`` as in :meth:`from_matrices`.

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
    check_known("edges", ("firm", "peer", "weight"), edges.columns)
    ends = [_as_labels(edges[side], f"edges[{side!r}]") for side in ("firm", "peer")]
    weights = pd.to_numeric(edges["weight"], errors="coerce").to_numpy(dtype=np.float64)
    for text in edges["weight"][np.isnan(weights) & edges["weight"].notna()]:
        raise InputError(f"edges['weight']: expected numbers, got {text!r}.")
    listed = None
    if isinstance(firms, pd.DataFrame):
        check_known("firms", ("firm",), firms.columns)
        listed = _as_labels(firms["firm"], "firms")
    elif firms is not None:
        listed = _as_labels(firms, "firms")
    # a firm may be listed though it has no edge: it is an isolate, not absent
    periods, when, when_listed = _period_codes(edges, firms)
    matrices = {}
    for position, period in enumerate(periods):
        where = where_in(period)
        here = when == position
        focal, peers = (end[here] for end in ends)
        members = _common_labels([focal, peers]) if listed is None else listed
        if when_listed is not None:
            members = members[when_listed == position]
        _check_unique(members, "firms" + where)
        # a label that is not a member has the position −1
        i, j = (members.get_indexer_for(end) for end in (focal, peers))
        if len(strangers := focal[i < 0].append(peers[j < 0]).unique()):
            displayed = ", ".join(map(repr, strangers[:3]))
            raise InputError(f"edges{where}: add {len(strangers)} firms that are not among firms= ({displayed}).")
        if (again := pd.Series(i * len(members) + j).duplicated()).any():
            such = f"{focal.tolist()[again.argmax()]!r} to {peers.tolist()[again.argmax()]!r}; add their weights up or keep one"
            raise InputError(f"edges{where}: {again.sum()} edges are given twice, such as {such}.")
        # sparse until it is known how many edges there are
        entries = sparse.coo_array((weights[here], (i, j)), shape=(len(members), len(members)))
        matrices[period] = (members, None, entries)
    written = edges.get("learned_until", pd.Series(dtype=object)).dropna().unique()
    learned = last_learned([edges.attrs.get("learned_until"), *(label for label in written if label != "")])
    return from_matrices(cls, matrices, **kind).replaced(learned_until=learned)


def _period_codes(edges: pd.DataFrame, firms: object) -> tuple[pd.Index, Array, Array | None]:
    """Sorted periods, and the position of the period of each edge and of each firm listed (None: of every period)."""
    frames = {"edges": edges}
    if isinstance(firms, pd.DataFrame) and "period" in firms.columns:
        frames["firms"] = firms
    elif "period" not in edges.columns or (len(edges) and edges["period"].isna().all()):
        return pd.Index([None], dtype=object), np.zeros(len(edges), dtype=np.intp), None
    dates = {name: _dates(frame["period"], f"{name}['period']") for name, frame in frames.items()}
    periods = _common_labels(list(dates.values()))
    places = {name: periods.get_indexer_for(found) for name, found in dates.items()}
    return periods, places["edges"], places.get("firms")


def _as_labels(labels: Iterable[object], argument: str) -> pd.Index:
    """Return labels (strings, integers, timestamps, periods, categories) as an index of one kind, none missing.

    Object columns that hold one kind become that kind.
    """
    if isinstance(labels, np.ndarray):
        expect(labels.ndim == 1, argument, "labels in one dimension", f"an array of shape {labels.shape}")
    elif not isinstance(labels, pd.Index | pd.Series):
        labels = list(labels)
    index = pd.Index(labels, tupleize_cols=False)
    if isinstance(index, pd.MultiIndex) or any(isinstance(label, tuple) for label in index[:1]):
        raise InputError(f"{argument}: expected single labels, got tuples such as {index.tolist()[0]!r}.")
    if index.hasnans:
        raise InputError(f"{argument}: {int(np.sum(index.isna()))} labels are missing.")
    for label in index[:1]:
        expect(isinstance(label, Hashable), argument, "single labels", repr(label))
    return _of_one_kind(index.rename(None), argument)


def _dates(labels: Iterable[object], argument: str) -> pd.Index:
    return in_time(_as_labels(labels, argument), argument, check=False)


def _of_one_kind(index: pd.Index, argument: str) -> pd.Index:
    index = index.infer_objects()
    if index.dtype == object and len(kinds := sorted({type(label).__name__ for label in index})) > 1:
        raise InputError(f"{argument}: labels mix {' and '.join(kinds)}; use one kind.")
    return index


def _common_labels(indexes: Sequence[pd.Index]) -> pd.Index:
    """Return every label that occurs in ``indexes`` once, sorted where labels can be sorted."""
    if not indexes:
        return pd.Index([], dtype=str)
    # an empty index has no type of its own and would turn all labels into objects
    plain = [index for index in indexes if len(index)] or list(indexes[:1])
    everything = _of_one_kind(plain[0].append(plain[1:]).unique(), "firms")
    try:
        return everything.sort_values()
    except TypeError:
        return everything


def _as_periods(keys: Iterable[Any]) -> pd.Index:
    """Return period labels as an index; ``None`` alone denotes one undated cross-section."""
    labels = list(keys)
    if len(labels) == 1 and labels[0] is None:
        return pd.Index([None], dtype=object)
    if any(label is None for label in labels):
        raise InputError("periods: None denotes a single undated cross-section, not one of several.")
    periods = _dates(labels, "periods")
    if periods.has_duplicates:
        raise InputError(f"periods: {show_label(periods[periods.duplicated()][0])} is given twice.")
    return periods


def _check_unique(labels: pd.Index, argument: str) -> pd.Index:
    """Return labels, none of them given twice in one cross-section."""
    if labels.has_duplicates:
        repeated = ", ".join(map(repr, labels[labels.duplicated()].unique()[:3]))
        raise InputError(f"{argument}: repeated labels ({repeated}); a firm appears once per period.")
    return labels
