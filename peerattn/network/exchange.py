"""To and from other tools that know graphs: networkx, GraphML, GEXF, libpysal; and the explorer."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network import parquet
from peerattn.network.building import sections_from_matrices
from peerattn.network.exchange_tables import TableExchange
from peerattn.render import show_label, write_atomic

if TYPE_CHECKING:
    import networkx as nx

    from peerattn.network.peer_network import PeerNetwork


class NetworkExchange(TableExchange):
    """A network that other tools can read and write; :class:`PeerNetwork` is one."""

    def to_networkx(self, period: Any = None) -> nx.DiGraph:
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

        label, section = self.section(period)
        graph = nx.DiGraph(
            name=self.name, period=label, signed=self.signed, row_normalized=self.row_normalized
        )
        names = self.labels.to_list()
        looks, looked_to = set(section.rows.tolist()), set(section.columns.tolist())
        order = [*section.rows.tolist(), *(j for j in section.columns.tolist() if j not in looks)]
        graph.add_nodes_from((names[p], {"looks": p in looks, "looked_to": p in looked_to}) for p in order)
        i, j, w = section.entries()
        focal, peers = section.rows[i].tolist(), section.columns[j].tolist()
        graph.add_weighted_edges_from(
            (names[a], names[b], weight) for a, b, weight in zip(focal, peers, w.tolist(), strict=True)
        )
        return graph

    @classmethod
    def from_networkx(
        cls,
        graphs: Any,
        *,
        weight: str = "weight",
        name: str = "",
        signed: bool = False,
        row_normalized: bool = True,
    ) -> Self:
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
        labels, periods, sections = sections_from_matrices(matrices)
        return cls(labels, periods, sections, name=name, signed=signed, row_normalized=row_normalized)

    def to_graphml(self, path: str | os.PathLike[str], period: Any = None) -> None:
        """Write one period as GraphML (for Gephi, igraph, yEd); :meth:`from_graphml` gives all of it back.

        Parameters
        ----------
        path : path-like
            The file. Nodes are numbered and carry the firm as ``label``.
        period : label, optional
            May be left out when there is only one.
        """
        import networkx as nx

        found, section = self.section(period)
        used = np.union1d(section.rows, section.columns)
        graph = _plain_graph(self, period)
        graph.graph["peerattn"] = json.dumps(
            {
                "labels": parquet.packed(pd.DataFrame({"label": self.labels.take(used)})),
                "period": parquet.packed(pd.DataFrame({"label": self.periods[self.periods == found]}))
                if self.is_dated
                else "",
                "rows": np.searchsorted(used, section.rows).tolist(),
                "columns": np.searchsorted(used, section.columns).tolist(),
                "name": self.name,
                "signed": self.signed,
                "row_normalized": self.row_normalized,
            }
        )
        stream = io.BytesIO()
        nx.write_graphml(graph, stream)
        write_atomic(path, stream.getvalue())

    @classmethod
    def from_graphml(cls, path: str | os.PathLike[str]) -> Self:
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

        graph = nx.read_graphml(path)
        if "peerattn" not in graph.graph:
            raise InputError(
                f"path: {str(path)!r} was not written by to_graphml; use "
                "PeerNetwork.from_networkx(networkx.read_graphml(path))."
            )
        facts = json.loads(graph.graph["peerattn"])
        labels = pd.Index(parquet.unpacked(facts["labels"])["label"]).rename(None)
        period = pd.Index(parquet.unpacked(facts["period"])["label"])[0] if facts["period"] else None
        rows, columns = np.array(facts["rows"], dtype=np.intp), np.array(facts["columns"], dtype=np.intp)
        weights = nx.to_scipy_sparse_array(graph, nodelist=[str(n) for n in range(len(labels))], format="csr")
        block = weights[rows][:, columns]
        entry = (labels.take(rows), None if np.array_equal(rows, columns) else labels.take(columns), block)
        common, periods, sections = sections_from_matrices({period: entry})
        return cls(
            common,
            periods,
            sections,
            name=facts["name"],
            signed=facts["signed"],
            row_normalized=facts["row_normalized"],
        )

    def to_gexf(self, path: str | os.PathLike[str], period: Any = None) -> None:
        """Write one period as GEXF, Gephi's own format: directed, weighted, firms as text labels.

        Parameters
        ----------
        path : path-like
            The file.
        period : label, optional
            May be left out when there is only one.
        """
        import networkx as nx

        stream = io.BytesIO()
        nx.write_gexf(_plain_graph(self, period), stream)
        write_atomic(path, stream.getvalue())

    def to_libpysal(self, period: Any = None) -> Any:
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
            When those who look are not those who are looked to, which spatial weights cannot say.
        ImportError
            When libpysal is not installed.
        """
        graph = import_module("libpysal.graph").Graph
        label, section = self.section(period)
        if not section.is_square:
            raise InputError(
                "to_libpysal: those who look and those who are looked to differ; libpysal has no such graph."
            )
        i, j, w = section.entries()
        alone = np.flatnonzero(section.isolates())
        firms = self.labels.take(section.rows)
        focal, neighbor = np.concatenate([i, alone]), np.concatenate([j, alone])
        order = np.lexsort((neighbor, focal))
        weights = np.concatenate([w, np.zeros(len(alone))])[order]
        return graph.from_arrays(firms.take(focal[order]), firms.take(neighbor[order]), weights)

    @classmethod
    def from_libpysal(
        cls, graph: Any, *, name: str = "", signed: bool = False, row_normalized: bool = True
    ) -> Self:
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
        firms = pd.Index(graph.unique_ids)
        labels, periods, sections = sections_from_matrices({None: (firms, None, graph.sparse)})
        return cls(labels, periods, sections, name=name, signed=signed, row_normalized=row_normalized)

    def to_explorer(
        self,
        path: str | os.PathLike[str],
        *,
        codes: pd.Series | None = None,
        top_k: int = 10,
        intervals: pd.DataFrame | None = None,
        title: str | None = None,
    ) -> Path:
        """Write an interactive page that opens offline; see :func:`peerattn.network.write_explorer`."""
        from peerattn.network.explorer import write_explorer

        return write_explorer(
            cast("PeerNetwork", self), path, codes=codes, top_k=top_k, intervals=intervals, title=title
        )


def _graph_parts(graph: nx.Graph, weight: str) -> tuple[list[Any], list[Any] | None, sparse.csr_array]:
    """Firms that look, firms looked to, and weights of one networkx graph."""
    import networkx as nx

    for focal, peer, facts in graph.edges(data=True):
        if weight not in facts:
            raise InputError(f"graphs: the edge from {focal!r} to {peer!r} has no {weight!r}.")
    nodes = list(graph.nodes)
    looks = [n for n, (_, facts) in enumerate(graph.nodes(data=True)) if facts.get("looks", True)]
    looked_to = [n for n, (_, facts) in enumerate(graph.nodes(data=True)) if facts.get("looked_to", True)]
    if not nodes:
        return [], None, sparse.csr_array((0, 0))
    weights = nx.to_scipy_sparse_array(graph, nodelist=nodes, weight=weight, dtype=np.float64, format="csr")
    block = sparse.csr_array(weights)[looks][:, looked_to]
    peers = None if looks == looked_to else [nodes[n] for n in looked_to]
    return [nodes[n] for n in looks], peers, block


def _plain_graph(network: NetworkExchange, period: Any) -> nx.DiGraph:
    """One period as a graph of numbered nodes with text labels, as file formats want it."""
    import networkx as nx

    label, section = network.section(period)
    used = np.union1d(section.rows, section.columns)
    graph = nx.DiGraph(name=network.name)
    if network.is_dated:
        graph.graph["period"] = show_label(label)
    firms = network.labels.take(used)
    graph.add_nodes_from((str(n), {"label": show_label(firm)}) for n, firm in enumerate(firms))
    i, j, w = section.entries()
    focal, peers = np.searchsorted(used, section.rows[i]), np.searchsorted(used, section.columns[j])
    graph.add_weighted_edges_from(
        (str(a), str(b), weight)
        for a, b, weight in zip(focal.tolist(), peers.tolist(), w.tolist(), strict=True)
    )
    return graph
