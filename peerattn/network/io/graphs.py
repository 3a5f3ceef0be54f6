"""Tools that know graphs: networkx, GraphML, GEXF and libpysal."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network.attributes import firm_level, places_of
from peerattn.network.cross_section import Array, CrossSection, place_in
from peerattn.network.io.parquet import facts_of, packed, stored_facts, unpacked_labels
from peerattn.render import printable, show_label, write_atomic

if TYPE_CHECKING:
    import networkx as nx

    from peerattn.network.peer_network import PeerNetwork


def to_networkx(network: PeerNetwork, period: Any = None) -> nx.DiGraph:
    """Return one period as a directed graph: an edge from the firm that looks to the firm looked to.

    Parameters
    ----------
    period : label, optional
        May be left out when there is only one.

    Returns
    -------
    networkx.DiGraph
        Firms are nodes (isolates too) with ``looks`` and ``looked_to``; edges have ``weight``; the graph has
        ``name``, ``period``, ``signed``, ``row_normalized``.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
    >>> PeerNetwork.from_edges(edges).to_networkx().edges["A", "B"]
    {'weight': 1.0}
    """
    import networkx as nx

    label, section = network.section(period)
    kind = {"signed": network.signed, "row_normalized": network.row_normalized}
    graph = nx.DiGraph(name=network.name, period=label, **kind)
    names = network.labels.to_list()
    looks, looked_to = set(section.rows.tolist()), set(section.columns.tolist())
    nodes = _nodes(section).tolist()
    graph.add_nodes_from((names[p], {"looks": p in looks, "looked_to": p in looked_to}) for p in nodes)
    i, j, w = section.entries()
    focal, peers = section.rows[i].tolist(), section.columns[j].tolist()
    graph.add_weighted_edges_from(
        (names[a], names[b], weight) for a, b, weight in zip(focal, peers, w.tolist(), strict=True)
    )
    return graph


def _nodes(section: CrossSection) -> Array:
    """Positions of all firms of a period, the focal firms first."""
    return np.asarray(pd.unique(np.concatenate([section.rows, section.columns])))


def from_networkx(
    cls: type[PeerNetwork],
    graphs: Any,
    *,
    weight: str = "weight",
    name: str = "",
    signed: bool = False,
    row_normalized: bool = True,
) -> PeerNetwork:
    """Make a network from networkx graphs.

    Parameters
    ----------
    graphs : networkx graph, or mapping of period to graph
        Nodes are firms, in the graph's order. An undirected edge counts in both directions.
    weight : str, default "weight"
        The edges' attribute that holds the weight.
    name, signed, row_normalized
        As in :meth:`PeerNetwork.from_matrices`.

    Returns
    -------
    PeerNetwork
        Sparse inside. A single graph that names its ``period`` keeps it.

    Raises
    ------
    InputError
        When an edge has no weight, or weights are bad.

    Examples
    --------
    >>> import networkx as nx
    >>> from peerattn.network import PeerNetwork
    >>> graph = nx.DiGraph()
    >>> graph.add_weighted_edges_from([("A", "B", 1.0), ("B", "A", 1.0)])
    >>> PeerNetwork.from_networkx(graph)
    PeerNetwork(2 firms, undated, 2 edges)
    """
    given = graphs if isinstance(graphs, Mapping) and not hasattr(graphs, "adj") else None
    if given is None:
        given = {graphs.graph.get("period"): graphs}
    matrices = {period: _graph_parts(graph, weight) for period, graph in given.items()}
    return cls.from_matrices(matrices, name=name, signed=signed, row_normalized=row_normalized)


def _graph_parts(graph: nx.Graph, weight: str) -> tuple[list[Any], list[Any] | None, sparse.csr_array]:
    """Focal firms, peers and weights of one networkx graph."""
    import networkx as nx

    for focal, peer, facts in graph.edges(data=True):
        if weight not in facts:
            raise InputError(f"graphs: the edge from {focal!r} to {peer!r} has no {weight!r}.")
    nodes = list(graph.nodes)
    looks, looked_to = (
        [n for n, (_, facts) in enumerate(graph.nodes(data=True)) if facts.get(side, True)]
        for side in ("looks", "looked_to")
    )
    if not nodes:
        return [], None, sparse.csr_array((0, 0))
    weights = nx.to_scipy_sparse_array(graph, nodelist=nodes, weight=weight, dtype=np.float64, format="csr")
    block = sparse.csr_array(weights)[looks][:, looked_to]
    peers = None if looks == looked_to else [nodes[n] for n in looked_to]
    return [nodes[n] for n in looks], peers, block


def to_graphml(
    network: PeerNetwork,
    path: str | os.PathLike[str],
    period: Any = None,
    *,
    attributes: pd.DataFrame | pd.Series | None = None,
) -> None:
    """Write one period as GraphML (for Gephi, igraph, yEd); :meth:`from_graphml` gives all of it back.

    Parameters
    ----------
    path : path-like
        The file. A node's id is the firm's label as text, control characters replaced; nodes carry ``label``,
        ``looks``, ``looked_to`` and the attributes.
    period : label, optional
        May be left out when there is only one.
    attributes : DataFrame or Series by firm, or by firm and period, optional
        Its columns (industry, size, ...) become attributes of nodes; missing values are left out.

    Raises
    ------
    InputError
        When ``attributes`` is not labelled by firm.
    """
    import networkx as nx

    found, section = network.section(period)
    graph = _text_graph(network, period, attributes)
    facts = facts_of(network) | {
        "labels": packed(network.labels.take(_nodes(section))),
        "period": packed(network.periods[network.periods == found]) if network.is_dated else "",
        "rows": place_in(_nodes(section), section.rows).tolist(),
        "columns": place_in(_nodes(section), section.columns).tolist(),
    }
    graph.graph["peerattn"] = json.dumps(facts)
    stream = io.BytesIO()
    nx.write_graphml(graph, stream)
    write_atomic(path, stream.getvalue())


def from_graphml(cls: type[PeerNetwork], path: str | os.PathLike[str]) -> PeerNetwork:
    """Read a network of one period that :meth:`to_graphml` wrote.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    PeerNetwork
        Sparse inside; weights, isolates, the order of firms and label dtypes as written.

    Raises
    ------
    InputError
        When the file was written by another tool; read it with networkx then, and use :meth:`from_networkx`.
    """
    import networkx as nx

    try:
        graph = nx.read_graphml(path)
        return _of_graph(cls, graph, path)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"path: cannot read {str(path)!r}: {error.strerror}.") from error
    except Exception as error:  # XML and networkx raise anything
        raise InputError(
            f"path: {str(path)!r} cannot be read as GraphML ({type(error).__name__}: {error}); it may be cut off or changed."
        ) from error


def _of_graph(cls: type[PeerNetwork], graph: nx.DiGraph, path: Any) -> PeerNetwork:
    """Return the network that a graph of :func:`to_graphml` holds."""
    import networkx as nx

    if "peerattn" not in graph.graph:
        raise InputError(
            f"path: {str(path)!r} was not written by to_graphml; use "
            "PeerNetwork.from_networkx(networkx.read_graphml(path))."
        )
    facts = json.loads(graph.graph["peerattn"])
    labels = unpacked_labels(facts["labels"])
    period = unpacked_labels(facts["period"])[0] if facts["period"] else None
    rows, columns = np.array(facts["rows"], dtype=np.intp), np.array(facts["columns"], dtype=np.intp)
    weights = nx.to_scipy_sparse_array(graph, nodelist=list(graph.nodes), format="csr")
    peers = None if np.array_equal(rows, columns) else labels.take(columns)
    kind = stored_facts(facts)
    more = {name: kind.pop(name) for name in ("stability", "top_k", "learned_until")}
    return cls.from_matrices(
        {period: (labels.take(rows), peers, weights[rows][:, columns])}, **kind
    ).replaced(**more)


def to_gexf(
    network: PeerNetwork,
    path: str | os.PathLike[str],
    period: Any = None,
    *,
    attributes: pd.DataFrame | pd.Series | None = None,
) -> None:
    """Write one period as GEXF, Gephi's own format: directed, weighted, firms as text labels.

    Parameters
    ----------
    path, period, attributes
        As in :meth:`to_graphml`.
    """
    import networkx as nx

    stream = io.BytesIO()
    nx.write_gexf(_text_graph(network, period, attributes), stream)
    write_atomic(
        path, re.sub(rb' lastmodifieddate="[^"]*"', b"", stream.getvalue())
    )  # the same bytes tomorrow


def _text_graph(network: PeerNetwork, period: Any, attributes: pd.DataFrame | pd.Series | None) -> nx.DiGraph:
    """One period as a graph of text that XML can hold, its nodes in the order of :func:`to_networkx`."""
    import networkx as nx

    graph = to_networkx(network, period)
    ids: dict[Any, str] = {}
    taken: set[str] = set()
    for firm, facts in graph.nodes(data=True):
        facts["label"] = text = printable(show_label(firm))
        while text in taken:  # two labels may look alike once control characters are gone
            text += "'"
        ids[firm] = text
        taken.add(text)
    if attributes is not None:
        frame = attributes.to_frame() if isinstance(attributes, pd.Series) else attributes
        level = firm_level(network, frame.index, "attributes")
        when, section = network.section(period)
        place = places_of(network, frame.index, level, _nodes(section), when)
        for name, values in frame.items():
            for facts, row in zip(graph.nodes.values(), place.tolist(), strict=True):
                if row >= 0 and not pd.isna(values.iloc[row]):
                    facts[printable(name)] = _plain(values.iloc[row])
    shown = {"name": printable(network.name)}
    shown |= {"period": printable(show_label(graph.graph["period"]))} if network.is_dated else {}
    graph.graph = shown
    return nx.relabel_nodes(graph, ids)


def _plain(value: Any) -> Any:
    """Return an attribute as a truth value, a number or text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float) else printable(show_label(value))


def to_libpysal(network: PeerNetwork, period: Any = None) -> Any:
    """Return one period as a :class:`libpysal.graph.Graph` (spatial weights), firms as its ids.

    Parameters
    ----------
    period : label, optional
        May be left out when there is only one.

    Returns
    -------
    libpysal.graph.Graph
        Isolates are isolates there too.

    Raises
    ------
    InputError
        When focal firms and peers are not the same firms, which spatial weights cannot represent.
    ImportError
        When libpysal is not installed.
    """
    graph = import_module("libpysal.graph").Graph
    _, section = network.section(period)
    if not section.is_square:
        raise InputError("to_libpysal: focal firms and peers differ; libpysal has no such graph.")
    i, j, w = section.entries()
    alone = np.flatnonzero(section.isolates())
    firms = network.labels.take(section.rows)
    focal, neighbor = np.concatenate([i, alone]), np.concatenate([j, alone])
    order = np.lexsort((neighbor, focal))
    weights = np.concatenate([w, np.zeros(len(alone))])[order]
    return graph.from_arrays(firms.take(focal[order]), firms.take(neighbor[order]), weights)


def from_libpysal(
    cls: type[PeerNetwork], graph: Any, *, name: str = "", signed: bool = False, row_normalized: bool = True
) -> PeerNetwork:
    """Make an undated network from a :class:`libpysal.graph.Graph`.

    Parameters
    ----------
    graph : libpysal.graph.Graph
        Binary weights need ``graph.transform("R")`` first, or ``row_normalized=False``.
    name, signed, row_normalized
        As in :meth:`PeerNetwork.from_matrices`.

    Returns
    -------
    PeerNetwork
        Sparse inside.
    """
    given = {None: (pd.Index(graph.unique_ids), None, graph.sparse)}
    return cls.from_matrices(given, name=name, signed=signed, row_normalized=row_normalized)
