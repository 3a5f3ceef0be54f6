from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork

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


@pytest.mark.parametrize("period", [None, 2001, "2001", pd.Timestamp("2001-01-31"), pd.Period("2001-01")])
@pytest.mark.parametrize("firms", LABELS)
def test_graphml_loses_nothing(firms: str, period: Any, tmp_path: Path) -> None:
    network = network_of(LABELS[firms](), period)
    network.to_graphml(tmp_path / "n.graphml")
    assert PeerNetwork.from_graphml(tmp_path / "n.graphml").equals(network)


def test_graphml_of_one_period_of_a_rectangle(tmp_path: Path) -> None:
    entry = (["a", "b"], ["x", "a", "y"], sparse.csr_array(np.full((2, 3), 1 / 3)))
    network = PeerNetwork.from_matrices({1: entry, 2: (["q"], None, sparse.csr_array((1, 1)))})
    network.to_graphml(tmp_path / "n.graphml", 1)
    back = PeerNetwork.from_graphml(tmp_path / "n.graphml")
    pd.testing.assert_frame_equal(back.matrix(1), network.matrix(1))
    nx.write_graphml(nx.DiGraph(), tmp_path / "other.graphml")
    with pytest.raises(InputError, match="read_graphml"):
        PeerNetwork.from_graphml(tmp_path / "other.graphml")


def test_gexf_has_direction_weight_isolates_and_labels(tmp_path: Path) -> None:
    network_of(LABELS["str"]()).to_gexf(tmp_path / "n.gexf")
    graph = nx.read_gexf(tmp_path / "n.gexf", relabel=True)
    assert graph.is_directed() and list(graph.nodes) == ["A", "B & <co>", "C"]
    found = nx.to_pandas_adjacency(graph).loc[LABELS["str"](), LABELS["str"]()]
    np.testing.assert_array_equal(found, W)


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


def test_networkx_rectangles_periods_and_errors() -> None:
    network = PeerNetwork.from_matrices(
        {t: (["a", "b"], ["x", "a", "y"], sparse.csr_array(np.full((2, 3), 1 / 3))) for t in (1, 2)}
    )
    back = PeerNetwork.from_networkx({t: network.to_networkx(t) for t in (1, 2)})
    assert [back.matrix(t).loc[["a", "b"], ["x", "a", "y"]].equals(network.matrix(t)) for t in (1, 2)] == [
        True
    ] * 2
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


def test_libpysal_and_back() -> None:
    pytest.importorskip("libpysal", reason="libpysal is an extra")
    network = network_of([3, 1, 2])
    graph = network.to_libpysal()
    assert graph.isolates.tolist() == [1]
    assert graph[3].to_dict() == {1: 1 / 3, 2: 2 / 3}
    back = PeerNetwork.from_libpysal(graph, name="trial")
    np.testing.assert_array_equal(back.matrix().loc[[3, 1, 2], [3, 1, 2]], W)
