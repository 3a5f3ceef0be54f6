from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork
from peerattn.render import show_label

LABELS: dict[str, Callable[[], Any]] = {
    "str": lambda: ["B & <co>", "A", "C"],
    "int": lambda: [10107, 3, 20],
    "timestamp": lambda: pd.date_range("2001-01-31", periods=3, freq="ME"),
    "period": lambda: pd.period_range("2001-01", periods=3, freq="M"),
    "categorical": lambda: pd.CategoricalIndex(list("cab"), categories=list("cbaz"), ordered=True),
}
W = np.array([[0.0, 1 / 3, 2 / 3], [0.0, 0.0, 0.0], [0.1, 0.9, 0.0]])


def network_of(firms: Any, period: Any = None, **options: Any) -> PeerNetwork:
    return PeerNetwork.from_matrices({period: (firms, None, sparse.csr_array(W))}, name="trial", **options)


@pytest.mark.parametrize("period", [None, 2001, pd.Timestamp("2001-01-31"), pd.Period("2001-01")])
@pytest.mark.parametrize("firms", LABELS)
def test_graphml_keeps_all_but_the_kinds_of_labels(firms: str, period: Any, tmp_path: Path) -> None:
    network = network_of(LABELS[firms](), period)
    network.to_graphml(tmp_path / "n.graphml")
    back = PeerNetwork.from_graphml(tmp_path / "n.graphml")
    assert back.name == "trial" and back.row_normalized and not back.signed
    assert back.periods.tolist() == [None if period is None else show_label(period)]
    shown = [show_label(firm) for firm in network.matrix().index]
    assert back.matrix().index.tolist() == back.matrix().columns.tolist() == shown
    np.testing.assert_array_equal(back.matrix(), W)
    assert len(back.isolates) == 1


def test_graphml_of_rectangles_signs_and_other_tools(tmp_path: Path) -> None:
    entry = (["a", "b"], ["x", "a", "y"], sparse.csr_array(np.full((2, 3), -1 / 3)))
    network = PeerNetwork.from_matrices({1: entry, 2: (["q"], None, sparse.csr_array((1, 1)))}, signed=True)
    network.to_graphml(tmp_path / "n.graphml", 1)
    back = PeerNetwork.from_graphml(tmp_path / "n.graphml")
    assert back.signed
    pd.testing.assert_frame_equal(back.matrix().loc[["a", "b"], ["x", "a", "y"]], network.matrix(1), check_names=False)
    nx.write_graphml(nx.DiGraph([("n0", "n1", {"weight": 0.5})]), tmp_path / "other.graphml")
    other = PeerNetwork.from_graphml(tmp_path / "other.graphml")
    assert other.edges()[["firm", "peer", "weight"]].to_numpy().tolist() == [["n0", "n1", 0.5]]
    nx.write_graphml(nx.DiGraph([("n0", "n1")]), tmp_path / "other.graphml")
    with pytest.raises(InputError, match="'n0' to 'n1' has no 'weight'"):
        PeerNetwork.from_graphml(tmp_path / "other.graphml")


@pytest.mark.parametrize("kind", ["graphml", "gexf"])
def test_only_the_strongest_ties_are_written(kind: str, tmp_path: Path) -> None:
    network = network_of(LABELS["str"]())
    getattr(network, f"to_{kind}")(tmp_path / "n", top_k=1)
    graph = getattr(nx, f"read_{kind}")(tmp_path / "n")
    assert sorted(graph.edges(data="weight")) == [("B & <co>", "C", 2 / 3), ("C", "A", 0.9)]
    with pytest.raises(InputError, match="top_k: expected at least 1"):
        getattr(network, f"to_{kind}")(tmp_path / "n", top_k=0)


def test_gexf_has_direction_weight_isolates_and_labels(tmp_path: Path) -> None:
    network_of(LABELS["str"]()).to_gexf(tmp_path / "n.gexf")
    graph = nx.read_gexf(tmp_path / "n.gexf", relabel=True)
    assert graph.is_directed() and list(graph.nodes) == ["B & <co>", "A", "C"]
    found = nx.to_pandas_adjacency(graph).loc[LABELS["str"](), LABELS["str"]()]
    np.testing.assert_array_equal(found, W)


HOSTILE = ["a\x00\x1b[31m", "a\x01\x1b[31m", "=1+1 <b>&\n\ufffe", "plain"]


@pytest.mark.parametrize("kind", ["graphml", "gexf"])
def test_labels_that_xml_cannot_hold_are_parsed_again(kind: str, tmp_path: Path) -> None:
    weights = sparse.csr_array(np.eye(4)[[1, 2, 3, 0]])
    network = PeerNetwork.from_matrices({"p\x02": (HOSTILE, None, weights)}, name="n\x03")
    getattr(network, f"to_{kind}")(tmp_path / "n", attributes=pd.Series("s\x04", index=HOSTILE, name="c\x05"))
    ElementTree.parse(tmp_path / "n")
    graph = getattr(nx, f"read_{kind}")(tmp_path / "n")
    assert len(graph) == 4 and graph.number_of_edges() == 4
    assert [facts["label"] for facts in graph.nodes.values()][0] == "a\ufffd\ufffd[31m"
    assert graph.nodes["plain"]["c\ufffd"] == "s\ufffd"


def test_nodes_of_graphml_are_firms_with_attributes(tmp_path: Path) -> None:
    firms = pd.date_range("2001-01-31", periods=2, freq="ME")
    entry = (firms[:1], firms[1:], np.ones((1, 1)))
    network = PeerNetwork.from_matrices({2001: entry, 2002: (firms, None, np.eye(2)[::-1])})
    index = pd.MultiIndex.from_product([[2001, 2002], firms], names=["period", "firm"])
    facts = pd.DataFrame({"sic": ["0100", None, "9", "9"], "size": [1.5, 2.5, 0.0, 0.0]}, index=index)
    network.to_graphml(tmp_path / "n.graphml", 2001, attributes=facts)
    assert dict(nx.read_graphml(tmp_path / "n.graphml").nodes(data=True)) == {
        "2001-01-31": {"label": "2001-01-31", "focal": True, "candidate": False, "sic": "0100", "size": 1.5},
        "2001-02-28": {"label": "2001-02-28", "focal": False, "candidate": True, "size": 2.5},
    }
    assert PeerNetwork.from_graphml(tmp_path / "n.graphml").matrix().to_numpy().tolist() == [[1.0]]
    with pytest.raises(InputError, match="attributes: none of its labels"):
        network.to_gexf(tmp_path / "n.gexf", 2001, attributes=pd.Series({"A": 1.0}))


@pytest.mark.parametrize("firms", LABELS)
def test_networkx_and_back(firms: str) -> None:
    network = network_of(LABELS[firms](), 2001)
    graph = network.to_networkx()
    assert list(graph.nodes) == network.matrix().index.tolist()
    np.testing.assert_array_equal(nx.to_numpy_array(graph), W)
    back = PeerNetwork.from_networkx(graph, name="trial")
    assert back.matrix(2001).index.tolist() == network.matrix(2001).index.tolist()
    np.testing.assert_array_equal(back.matrix(2001), W)
    assert back.isolates.to_dict("records") == network.isolates.to_dict("records")


def test_graphs_carry_what_kind_of_network_they_are() -> None:
    signed = PeerNetwork.from_matrices(
        {1: (list("ab"), None, sparse.csr_array([[0, 1.5], [-0.5, 0]]))}, signed=True, row_normalized=False
    )
    back = PeerNetwork.from_networkx(signed.to_networkx())
    assert back.signed and not back.row_normalized and back.matrix(1).equals(signed.matrix(1))
    strongest = PeerNetwork.from_networkx(network_of(list("abc")).to_networkx(top_k=1), name="strongest")
    assert not strongest.row_normalized and strongest.name == "strongest"


def test_networkx_rectangles_periods_and_errors() -> None:
    network = PeerNetwork.from_matrices(
        {t: (["a", "b"], ["x", "a", "y"], sparse.csr_array(np.full((2, 3), 1 / 3))) for t in (1, 2)}
    )
    back = PeerNetwork.from_networkx({t: network.to_networkx(t) for t in (1, 2)})
    assert [back.matrix(t).loc[["a", "b"], ["x", "a", "y"]].equals(network.matrix(t)) for t in (1, 2)] == [True] * 2
    undirected = PeerNetwork.from_networkx(nx.Graph([("a", "b", {"weight": 1.0})]))
    assert undirected.edges()[["firm", "peer"]].to_numpy().tolist() == [["a", "b"], ["b", "a"]]
    with pytest.raises(InputError, match="'a' to 'b' has no 'weight'"):
        PeerNetwork.from_networkx(nx.DiGraph([("a", "b")]))


def test_scipy_is_a_copy() -> None:
    network = network_of(list("abc"))
    found = network.to_scipy()
    np.testing.assert_array_equal(found.toarray(), W)
    found.data[:] = 0.0
    np.testing.assert_array_equal(network.matrix(), W)


@pytest.mark.parametrize("period", [None, 2001])
def test_csv_and_back(period: Any, tmp_path: Path) -> None:
    network = network_of(["NA", "b", "0100"], period)
    network.to_csv(tmp_path / "n.csv")
    back = PeerNetwork.from_csv(tmp_path / "n.csv", name="trial")
    assert back.isolates.firm.tolist() == ["b"]
    firms = ["NA", "b", "0100"]
    np.testing.assert_array_equal(back.matrix().loc[firms, firms], W)
    with pytest.raises(InputError, match="no file"):
        PeerNetwork.from_csv(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("firms", "period", "kinds"),
    [
        ([10107, 3, -20], 2001, (int, int)),
        (["0100", "3", "20"], "2001-03", (str, str)),
        (["10", "3", "x"], 200103, (str, int)),
        ([10107, 3, 20], None, (int, type(None))),
    ],
)
def test_whole_numbers_come_back_from_csv_as_whole_numbers(firms: Any, period: Any, kinds: Any, tmp_path: Path) -> None:
    """A panel of integer firms and years takes the network it gave."""
    network = network_of(firms, period)
    network.to_csv(tmp_path / "n.csv")
    back = PeerNetwork.from_csv(tmp_path / "n.csv")
    assert (type(back.labels.tolist()[0]), type(back.periods.tolist()[0])) == kinds
    assert back.isolates.firm.tolist() == firms[1:2] and back.periods.equals(network.periods)
    np.testing.assert_array_equal(back.matrix(period).loc[firms, firms], W)
    learned = network.replaced(learned_until=2000)
    learned.to_csv(tmp_path / "n.csv")
    assert PeerNetwork.from_csv(tmp_path / "n.csv").learned_until == 2000


def test_csv_holds_no_formula_and_comes_back(tmp_path: Path) -> None:
    firms = ["=HYPERLINK(1)", "'=x", "-5", "@a", "+b", "\tc", "d\ne", "''", "it's", 'plain, "x"']
    network = PeerNetwork.from_matrices({"=2001": (firms, None, np.eye(10)[np.r_[1:10, 0]])})
    network.to_csv(tmp_path / "n.csv")
    written = pd.read_csv(tmp_path / "n.csv", dtype=str, keep_default_na=False)
    for side in ("period", "firm", "peer"):
        assert not written[side].str.match(r"[=+\-@\t\r]").any()
    assert 'plain, "x"' in set(written.firm) and "it's" in set(written.firm)
    back = PeerNetwork.from_csv(tmp_path / "n.csv")
    assert back.periods.tolist() == ["=2001"]
    np.testing.assert_array_equal(back.matrix().loc[firms, firms], network.matrix())


def test_libpysal_and_back() -> None:
    pytest.importorskip("libpysal", reason="libpysal is an extra")
    network = network_of([3, 1, 2])
    graph = network.to_libpysal()
    assert graph.isolates.tolist() == [1]
    assert graph[3].to_dict() == {1: 1 / 3, 2: 2 / 3}
    back = PeerNetwork.from_matrices({None: (graph.unique_ids, None, graph.sparse)}, name="trial")
    np.testing.assert_array_equal(back.matrix().loc[[3, 1, 2], [3, 1, 2]], W)
