"""Tools that know graphs: networkx and its file formats, and libpysal."""

from __future__ import annotations

import io
import re
from collections.abc import Hashable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, expect, extra, reworded, validate_arguments
from peerattn.network.attributes import by_firm
from peerattn.network.base import Net, Network, as_plain, last_learned
from peerattn.network.building import from_matrices
from peerattn.render import printable, show_label, write_atomic
from peerattn.render.files import File

if TYPE_CHECKING:
    import networkx as nx
    from networkx import DiGraph
else:
    DiGraph = object  # networkx is loaded by the first graph


def to_networkx(network: Network, period: Hashable = None, *, top_k: int | None = None) -> DiGraph:
    """Return one period as a directed graph: an edge from the focal firm to the peer.

    Generic measures of graphs are networkx's: ``networkx.pagerank(graph)``, ``networkx.community.louvain_communities(graph)``.

    Parameters
    ----------
    period : label, optional
        May be left out when there is only one.
    top_k : int, optional
        Only the largest weights (by absolute size) of each firm.

    Returns
    -------
    networkx.DiGraph
        Firms are nodes (isolates too) with ``focal`` and ``candidate``; edges have ``weight``; the graph has
        ``name``, ``period``, ``signed``, ``row_normalized``, ``learned_until`` (a number or text).

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
    >>> PeerNetwork.from_edges(edges).to_networkx().edges["A", "B"]
    {'weight': 1.0}
    """
    import networkx as nx

    label, section = network.section(period)
    whole = network.row_normalized and top_k is None
    graph = nx.DiGraph(name=network.name, period=label, signed=network.signed, row_normalized=whole)
    graph.graph["learned_until"] = as_plain(network.learned_until)
    names = network.labels.to_list()
    focal = set(section.rows.tolist())
    candidate = set(section.columns.tolist())
    nodes = pd.unique(np.concatenate([section.rows, section.columns])).tolist()  # the focal firms first
    graph.add_nodes_from((names[p], {"focal": p in focal, "candidate": p in candidate}) for p in nodes)
    ends = (part.tolist() for part in section.edges(top_k))
    graph.add_weighted_edges_from((names[a], names[b], w) for a, b, w in zip(*ends, strict=True))
    return graph


def from_networkx(cls: type[Net], graphs: Any, *, weight: str = "weight", **kind: Any) -> Net:
    """Make a network from networkx graphs.

    Parameters
    ----------
    graphs : networkx graph, or mapping of period to graph
        Nodes are firms, in the graph's order. An undirected edge counts in both directions.
    weight : str, default "weight"
        The edges' attribute that holds the weight.
    **kind
        ``name``, ``signed``, ``row_normalized`` as in :meth:`PeerNetwork.from_matrices`; by default those that graphs of
        :func:`to_networkx` carry.

    Returns
    -------
    PeerNetwork
        Sparse inside. A single graph that names its ``period`` keeps it; what graphs of :func:`to_networkx` were learned from
        is kept.

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
    if hasattr(graphs, "graph"):  # one, and not one for each period
        graphs = {graphs.graph.get("period"): graphs}
    expect(isinstance(graphs, Mapping), "graphs", "a networkx graph, or a dictionary of them", type(graphs).__name__)
    parts = {period: _graph_parts(graph, weight) for period, graph in graphs.items()}
    carried = [graph.graph for graph in graphs.values()]
    # one that differs in a period is what every period may be
    kind.setdefault("name", next((str(facts["name"]) for facts in carried if facts.get("name")), ""))
    kind.setdefault("signed", any(facts.get("signed") for facts in carried))
    kind.setdefault("row_normalized", all(facts.get("row_normalized", True) for facts in carried))
    made = from_matrices(cls, parts, **kind)
    return made.replaced(learned_until=last_learned(graph.graph.get("learned_until") for graph in graphs.values()))


def _graph_parts(graph: nx.Graph, weight: str) -> tuple[list[Any], list[Any], sparse.csr_array]:
    """Focal firms, peers and weights of one networkx graph."""
    import networkx as nx

    expect(isinstance(graph, nx.Graph), "graphs", "a networkx graph, or a dictionary of them", type(graph).__name__)
    for focal, peer, facts in graph.edges(data=True):
        if weight not in facts:
            raise InputError(f"graphs: the edge from {focal!r} to {peer!r} has no {weight!r}.")
    nodes = list(graph.nodes)
    focal, candidate = (
        [n for n, (_, facts) in enumerate(graph.nodes(data=True)) if facts.get(side, True)] for side in ("focal", "candidate")
    )
    if not nodes:
        return [], [], sparse.csr_array((0, 0))
    weights = nx.to_scipy_sparse_array(graph, nodelist=nodes, weight=weight, dtype=np.float64, format="csr")
    block = sparse.csr_array(weights)[focal][:, candidate]
    return [nodes[n] for n in focal], [nodes[n] for n in candidate], block


def to_graphml(
    network: Network, path: File, period: Hashable = None, *, attributes: Any = None, top_k: int | None = None
) -> None:
    """Write one period as GraphML (for Gephi, igraph, yEd).

    Parameters
    ----------
    path : path-like
        The file. A node's id is the firm's label as text, control characters replaced; nodes carry ``label``,
        ``focal``, ``candidate`` and the attributes.
    period : label, optional
        May be left out when there is only one.
    attributes : DataFrame or Series by firm, or by firm and period, optional
        Its columns (industry, size, ...) become attributes of nodes; missing values are left out.
    top_k : int, optional
        Only the largest weights (by absolute size) of each firm: a dense network makes a large file.

    Raises
    ------
    InputError
        When ``attributes`` is not labelled by firm.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/network.graphml"
    >>> network.to_graphml(path)
    >>> float(PeerNetwork.from_graphml(path).matrix().loc["C", "A"])
    1.0
    """
    write_atomic(path, _xml(network, "graphml", period, attributes, top_k))


def to_gexf(network: Network, path: File, period: Hashable = None, **options: Any) -> None:
    """Write one period as GEXF, Gephi's own format: directed, weighted, firms as text labels.

    Parameters
    ----------
    path, period, attributes, top_k
        As in :meth:`to_graphml`.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> import tempfile
    >>> network.to_gexf(f"{tempfile.mkdtemp()}/network.gexf")
    """
    write_atomic(path, _xml(network, "gexf", period, **options))


def from_graphml(cls: type[Net], path: File) -> Net:
    """Read a network of one period from GraphML, as :meth:`to_graphml` or another tool wrote it.

    Parameters
    ----------
    path : path-like
        The file; its edges have ``weight``.

    Returns
    -------
    PeerNetwork
        Sparse inside. Labels and period come as text; for a faithful copy use :meth:`to_parquet`. What it was learned from
        is kept.

    Raises
    ------
    InputError
        When the file cannot be read, or its edges have no weight.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/network.graphml"
    >>> network.to_graphml(path)
    >>> len(PeerNetwork.from_graphml(path).firms)
    3
    """
    import networkx as nx

    # the file system, XML and networkx raise anything
    with reworded(f"path: cannot read {str(path)!r} as GraphML", " Is it cut off or changed?"):
        graph = nx.read_graphml(path)
    labels = {node: str(facts.get("label", node)) for node, facts in graph.nodes(data=True)}
    if len(set(labels.values())) == len(labels):
        graph = nx.relabel_nodes(graph, labels)
    # of a file that does not record it, rows need not sum to one
    return from_networkx(cls, graph, row_normalized=graph.graph.get("row_normalized") is True)


@validate_arguments
def _xml(network: Network, kind: str, period: Hashable, attributes: Any = None, top_k: int | None = None) -> bytes:
    """One period in a format of networkx, text that XML can hold, its nodes in the order of :func:`to_networkx`."""
    import networkx as nx

    graph = to_networkx(network, period, top_k=top_k)
    label = graph.graph["period"]
    ids = dict[str, Any]()
    for firm, facts in graph.nodes(data=True):
        facts["label"] = text = printable(show_label(firm))
        while text in ids:  # two labels may look alike once control characters are gone
            text += "'"
        ids[text] = firm
    if attributes is not None:
        # attributes of this period, where they are dated
        with reworded("attributes: expected a frame indexed by firm, or by firm and period", kinds=ValueError):
            attributes = pd.DataFrame(attributes)
        here = by_firm(network, attributes.astype(object), label, "attributes")
        for name, values in here.items():
            known = {firm: _plain(value) for firm, value in values.dropna().items()}
            nx.set_node_attributes(graph, known, printable(name))
    facts = graph.graph | {"period": show_label(label) or None}
    graph.graph = {name: _plain(value) for name, value in facts.items() if value is not None}
    # networkx writes bytes; written to disk whole or not at all later
    stream = io.BytesIO()
    getattr(nx, f"write_{kind}")(nx.relabel_nodes(graph, {firm: text for text, firm in ids.items()}), stream)
    return re.sub(rb' lastmodifieddate="[^"]*"', b"", stream.getvalue())  # the same bytes tomorrow


def _plain(value: object) -> object:
    """Return an attribute as a number (or truth value) or text."""
    if isinstance(value, Real):
        return value
    return printable(show_label(value))


def to_libpysal(network: Network, period: Hashable = None) -> Any:
    """Return one period as a ``libpysal.graph.Graph`` (spatial weights), firms as its ids.

    The way back: ``PeerNetwork.from_matrices({None: (graph.unique_ids, None, graph.sparse)})``.

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
        When focal firms and peers are not the same firms, which spatial weights cannot represent, or libpysal is not
        installed (``pip install peerattn[spatial]``).

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> network.to_libpysal().n  # needs the extra "spatial"
    3
    """
    _, section = network.section(period)
    expect(section.is_square, "to_libpysal", "focal firms that are the peers", "others")
    graph = extra("libpysal.graph", "spatial", "to_libpysal").Graph
    return graph.from_sparse(section.csr(), ids=network.labels.take(section.rows))
