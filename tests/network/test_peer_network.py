from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network import (
    Difference,
    PeerNetwork,
    common_peers,
    concentration,
    connectedness,
    dyadic_regression,
    effective_peers,
    group_flows,
    in_strength,
    network_correlation,
    overlap,
    placebo,
    reciprocity,
    validate,
)

LABELS: dict[str, Callable[[], Any]] = {
    "str": lambda: ["B", "A", "C", "D"],
    "int": lambda: [10107, 3, 20, 7],
    "object int": lambda: pd.Index([4, 3, 2, 1], dtype=object),
    "timestamp": lambda: pd.date_range("2001-01-31", periods=4, freq="ME"),
    "timezone": lambda: pd.date_range("2001-01-31", periods=4, freq="ME", tz="Europe/Paris"),
    "period": lambda: pd.period_range("2001-01", periods=4, freq="M"),
    "categorical": lambda: pd.CategoricalIndex(["d", "c", "b", "a"], categories=list("dcbaz"), ordered=True),
}


def random_weights(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    weights = rng.random((rows, columns)) * (rng.random((rows, columns)) < 0.7)
    if rows == columns:
        np.fill_diagonal(weights, 0.0)
    sums = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)


def panel_network(seed: int = 0, *, as_sparse: bool = False, **options: Any) -> PeerNetwork:
    """Three years; firms enter and leave; one isolate."""
    rng = np.random.default_rng(seed)
    matrices = {}
    for period, firms in {2003: "ABCD", 2001: "CABE", 2002: "EDCBAF"}.items():
        weights = random_weights(rng, len(firms), len(firms))
        if period == 2001:
            weights[0] = 0.0
        matrices[period] = (list(firms), list(firms), sparse.coo_array(weights) if as_sparse else weights)
    return PeerNetwork.from_matrices(matrices, name="trial", **options)


def test_periods_are_sorted_and_rows_keep_their_order() -> None:
    network = panel_network()
    assert network.periods.tolist() == [2001, 2002, 2003]
    assert network.matrix(2002).index.tolist() == list("EDCBAF")
    assert network.firms.tolist() == list("ABCDEF")
    assert network.isolates.to_dict("records") == [{"period": 2001, "firm": "C"}]
    assert repr(network).startswith("PeerNetwork('trial', 6 firms, 3 periods, ")
    assert len(repr(network).splitlines()) == 1


def test_edges_are_the_matrix() -> None:
    network = panel_network()
    edges = network.edges()
    assert edges.columns.tolist() == ["period", "firm", "peer", "weight"]
    for period in network.periods:
        matrix = network.matrix(period)
        block = edges[edges.period == period]
        back = block.pivot(index="firm", columns="peer", values="weight")
        back = back.reindex(index=matrix.index, columns=matrix.columns).fillna(0.0)
        np.testing.assert_array_equal(back, matrix)
        assert (block.weight != 0).all()
    pd.testing.assert_frame_equal(network.edges(2002), edges[edges.period == 2002].reset_index(drop=True))
    pd.testing.assert_frame_equal(network.to_frame(), edges)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("top_k", [1, 2, 3, 99])
def test_top_k_is_exact_with_ties(top_k: int, as_sparse: bool) -> None:
    rng = np.random.default_rng(1)
    weights = rng.integers(-3, 4, size=(40, 12)).astype(float)
    given = sparse.csr_array(weights) if as_sparse else weights
    network = PeerNetwork.from_matrices({None: (range(40), range(100, 112), given)}, signed=True)
    found = network.edges(top_k=top_k)
    expected = []
    for i, row in enumerate(weights):
        order = sorted((j for j in range(12) if row[j]), key=lambda j: (-abs(row[j]), j))
        expected += [(i, 100 + j, row[j]) for j in order[:top_k]]
    assert list(found[["firm", "peer", "weight"]].itertuples(index=False, name=None)) == expected


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "3"])
def test_top_k_must_be_a_positive_integer(bad: object) -> None:
    with pytest.raises(InputError, match="top_k"):
        panel_network().edges(top_k=bad)  # type: ignore[arg-type]


def test_peers_followers_and_mean_tell_the_same_story() -> None:
    network = panel_network()
    mean = network.mean().matrix()
    looked = {f: [t for t in network.periods if f in network.matrix(t).index] for f in network.firms}
    looked["C"].remove(2001)
    for firm in network.firms:
        rows = [network.matrix(t).loc[firm].reindex(network.firms, fill_value=0.0) for t in looked[firm]]
        np.testing.assert_allclose(mean.loc[firm], np.mean(rows, axis=0), atol=1e-15)
        peers = network.peers(firm, k=None).set_index("peer").weight
        np.testing.assert_allclose(peers.reindex(network.firms).fillna(0.0), mean.loc[firm], atol=1e-15)
        followers = network.followers(firm, k=None).set_index("firm").weight
        np.testing.assert_allclose(followers.reindex(network.firms).fillna(0.0), mean[firm], atol=1e-15)
        assert peers.is_monotonic_decreasing
    np.testing.assert_allclose(mean.sum(axis=1), 1.0)
    np.testing.assert_allclose(panel_network(as_sparse=True).mean().matrix(), mean, atol=1e-15)


def test_peers_say_that_they_are_means_over_periods() -> None:
    W = np.array([[0.0, 1.0], [1.0, 0.0]])
    network = PeerNetwork.from_matrices({2001: (list("AB"), None, W), 2002: (list("AB"), None, W)})
    assert network.peers("A").columns.name == "mean over periods: 1.0 effective peers, 100.0% shown"
    assert network.peers("A", period=2001).columns.name == "1.0 effective peers, 100.0% shown"
    alone = PeerNetwork.from_matrices({None: (list("AB"), None, np.eye(2))})
    assert alone.peers("A").columns.name.endswith("shown, the firm itself included")


def test_peers_of_one_period() -> None:
    network = panel_network()
    row = network.matrix(2003).loc["B"].sort_values(ascending=False)
    assert network.peers("B", 2003, k=2).weight.tolist() == row.iloc[:2].tolist()
    assert network.peers("C", "2001").empty
    with pytest.raises(InputError, match="'D' is not a focal firm in period 2001"):
        network.peers("D", 2001)


@pytest.mark.parametrize("signed", [False, True])
def test_peers_say_of_how_many_they_are_the_first(signed: bool) -> None:
    weights = np.full((400, 400), 1 / 399) - np.eye(400) / 399
    weights = weights * np.where(np.arange(400) % 2, 1, -1) if signed else weights
    network = PeerNetwork.from_matrices({1: (range(400), None, weights)}, signed=signed)
    shown = network.peers(0, k=3)
    share = "0.8% of all |w| shown" if signed else "0.8% shown"
    assert shown.columns.name == f"399.0 effective peers, {share}"
    assert shown.columns.name in str(shown).splitlines()[0]
    assert shown.columns.tolist() == ["peer", "weight"] and "399.0 effective peers" in shown._repr_html_()
    empty = PeerNetwork.from_matrices({1: (["A", "B"], None, np.zeros((2, 2)))})
    assert empty.peers("A").empty and empty.peers("A").columns.name is None


def test_a_network_cannot_be_changed() -> None:
    network = panel_network()
    for name in ("labels", "periods", "name", "signed", "row_normalized", "stability", "firms"):
        with pytest.raises(AttributeError):
            setattr(network, name, None)
    assert pickle.loads(pickle.dumps(network)).equals(network)


def test_unknown_labels_show_near_ones() -> None:
    firms = ["XOM", "IBM", "MSFT"]
    dates = pd.to_datetime(["2012-05-31", "2012-06-29"])
    network = PeerNetwork.from_matrices({date: (firms, firms, np.full((3, 3), 1 / 3)) for date in dates})
    assert network.edges("2012-06").period.unique().tolist() == [dates[1]]
    with pytest.raises(InputError, match="XOM"):
        network.peers("XON")
    with pytest.raises(InputError, match="2013-06"):
        network.matrix("2013-06")
    with pytest.raises(InputError, match="2 periods; choose one"):
        network.matrix()
    with pytest.raises(InputError, match="undated"):
        network.mean().matrix("2012-06")


@pytest.mark.parametrize("periods", sorted(LABELS.keys() - {"categorical"}))
@pytest.mark.parametrize("firms", LABELS)
def test_labels_of_every_dtype_survive_parquet(firms: str, periods: str, tmp_path: Path) -> None:
    labels, dates = pd.Index(LABELS[firms]()), pd.Index(LABELS[periods]())
    weights = random_weights(np.random.default_rng(2), 4, 4)
    weights[1] = 0.0
    edges = pd.concat(
        PeerNetwork.from_matrices({date: (labels, None, weights)}).edges().assign(period=dates[[t] * int((weights > 0).sum())])
        for t, date in enumerate(dates)
    )
    network = PeerNetwork.from_edges(edges, firms=labels, name="t")
    assert network.periods.dtype == dates.infer_objects().dtype
    assert network.labels.dtype == labels.infer_objects().dtype
    network.to_parquet(tmp_path / "n.parquet")
    back = PeerNetwork.from_parquet(tmp_path / "n.parquet")
    assert back.equals(network)
    pd.testing.assert_frame_equal(back.edges(), network.edges())
    pd.testing.assert_frame_equal(back.isolates, network.isolates)
    firm, date = network.firms[2], network.periods[1]
    pd.testing.assert_frame_equal(back.peers(firm, date), network.peers(firm, date))


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parquet_keeps_kind_dtype_and_rectangles(tmp_path: Path, dtype: str, as_sparse: bool) -> None:
    rng = np.random.default_rng(3)
    first = rng.normal(size=(3, 5)).astype(dtype)
    second = np.zeros((2, 4), dtype=dtype)
    third = rng.normal(size=(2, 2)).astype(dtype)
    wrap: Callable[[Any], Any] = sparse.csr_array if as_sparse else np.asarray
    network = PeerNetwork.from_matrices(
        {
            pd.Period("2001Q1"): (["a", "b", "c"], list("vwxyz"), wrap(first)),
            pd.Period("2001Q2"): (["a", "d"], list("vwxy"), wrap(second)),
            pd.Period("2001Q3"): (["a", "d"], ["d", "a"], wrap(third)),
        },
        name="ridge",
        signed=True,
    )
    network.to_parquet(tmp_path / "n.parquet")
    back = PeerNetwork.from_parquet(tmp_path / "n.parquet")
    assert back.equals(network) and back.signed and back.name == "ridge"
    assert back.matrix("2001Q1").to_numpy().dtype == dtype
    np.testing.assert_array_equal(back.matrix("2001Q1"), first)
    assert pd.read_parquet(tmp_path / "n.parquet").columns.tolist() == ["period", "firm", "peer", "weight"]


def test_parquet_of_an_undated_network_and_of_many_row_groups(tmp_path: Path) -> None:
    size = 1100  # more edges than one row group takes
    weights = np.full((size, size), 1 / size)
    network = PeerNetwork.from_matrices({1: (range(2), None, np.zeros((2, 2))), 2: (range(size), None, weights)})
    network.to_parquet(tmp_path / "n.parquet")
    assert PeerNetwork.from_parquet(tmp_path / "n.parquet").equals(network)
    network.mean().to_parquet(tmp_path / "m.parquet")
    back = PeerNetwork.from_parquet(tmp_path / "m.parquet")
    assert back.equals(network.mean()) and not back.is_dated


def test_bad_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.parquet"
    panel_network().to_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cut off"):
        PeerNetwork.from_parquet(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="cut off"):
        PeerNetwork.from_parquet(path)
    with pytest.raises(InputError, match="No such file"):
        PeerNetwork.from_parquet(tmp_path / "absent.parquet")
    panel_network().edges().to_parquet(path)
    with pytest.raises(InputError, match="from_edges"):
        PeerNetwork.from_parquet(path)
    with pytest.raises(InputError, match="cannot write"):
        panel_network().to_parquet(tmp_path / "absent" / "n.parquet")


def test_a_file_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        panel_network(seed).to_parquet(tmp_path / name, place=f"model {name}")
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "b").rename(tmp_path / "a")
    with pytest.raises(InputError, match=r"is for 'model b', not for 'model a'"):
        PeerNetwork.from_parquet(tmp_path / "a", place="model a")
    assert PeerNetwork.from_parquet(tmp_path / "c", place="model a").equals(panel_network(0))
    assert PeerNetwork.from_parquet(tmp_path / "a").equals(panel_network(1))  # nobody asked


FIRMS = ["A", "B", "C"]
RING = np.eye(3)[[1, 2, 0]]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ((["A", "A", "C"], None, RING), "'A'.*once per period"),
        ((["A", None, "C"], None, RING), "missing"),
        ((["A", 1, "C"], None, RING), "mix int and str"),
        ((FIRMS, [1, 2, 3], RING), "mix int and str"),
        (([("A", 1), ("B", 1), ("C", 1)], None, RING), "tuples"),
        ((FIRMS, None, RING[:2]), "shape"),
        ((FIRMS, None, RING * np.nan), "NaN or infinite"),
        ((FIRMS, None, np.full((3, 3), np.inf)), "NaN or infinite"),
        ((FIRMS, None, [["x"] * 3] * 3), "numbers"),
        ((FIRMS, None, RING * 0.5), "sum neither to 1 nor to 0.*'A'"),
        ((FIRMS, None, RING + [[2e-6, 0, 0], [0] * 3, [0] * 3]), "sum neither"),
        ((FIRMS, None, RING + [[0.5, -0.5, 0], [0] * 3, [0.5, 0, -0.5]]), "negative.*signed=True"),
        ((FIRMS, None, sparse.csr_array(RING * 0.5)), "sum neither"),
        ((FIRMS, RING), "expected"),
    ],
)
def test_bad_matrices_are_refused(entry: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PeerNetwork.from_matrices({2001: entry})


def test_rounding_is_not_refused() -> None:
    weights = np.random.default_rng(4).random((500, 500)).astype(np.float32)
    weights /= weights.sum(axis=1, keepdims=True)
    PeerNetwork.from_matrices({1: (range(500), None, weights)})
    PeerNetwork.from_matrices({1: (FIRMS, None, RING * (1 - 5e-7))})


def test_bad_periods_are_refused() -> None:
    entry = (FIRMS, None, RING)
    for bad in ({None: entry, 1: entry}, {"a": entry, 1: entry}, [entry]):
        with pytest.raises(InputError, match="period|dictionary"):
            PeerNetwork.from_matrices(bad)  # type: ignore[arg-type]


def test_the_callers_array_stays_the_callers() -> None:
    weights = RING.copy()
    network = PeerNetwork.from_matrices({1: (FIRMS, None, weights)})
    weights[:] = 0.0
    np.testing.assert_array_equal(network.matrix(), RING)
    shown = network.matrix()
    shown.iloc[:] = 0.0
    np.testing.assert_array_equal(network.matrix(), RING)


def test_edges_and_back() -> None:
    network = panel_network(as_sparse=True)
    members = [{"period": t, "firm": f} for t in network.periods for f in network.matrix(t).index]
    back = PeerNetwork.from_edges(network.edges().sample(frac=1.0, random_state=0), pd.DataFrame(members), name="trial")
    assert back.equals(network)
    plain = PeerNetwork.from_edges(network.edges())
    np.testing.assert_array_equal(plain.matrix(2002), network.matrix(2002).loc[list("ABCDEF"), list("ABCDEF")])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.drop(columns="peer"), "edges: no column is named 'peer'"),
        (lambda e: pd.concat([e, e.head(1)]), "given twice"),
        (lambda e: e.assign(weight=-1.0), "negative"),
        (lambda e: e.assign(weight=np.nan), "NaN"),
        (lambda e: e.assign(peer="Z"), "not among firms="),
    ],
)
def test_bad_edges_are_refused(change: Any, message: str) -> None:
    edges = pd.DataFrame({"period": 1, "firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
    with pytest.raises(InputError, match=message):
        PeerNetwork.from_edges(change(edges), firms=["A", "B"])


def test_firms_that_are_no_list_of_labels_raise() -> None:
    edges = pd.DataFrame({"firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
    with pytest.raises(InputError, match="firms: no column is named 'firm'"):
        PeerNetwork.from_edges(edges, firms=pd.DataFrame({"a": ["A"]}))
    with pytest.raises(InputError, match=r"firms: expected labels in one dimension, got an array of shape \(2, 1\)"):
        PeerNetwork.from_edges(edges, firms=np.array([["A"], ["B"]]))


def test_weighted_averages_go_by_label() -> None:
    network = panel_network()
    size = pd.Series(np.arange(1.0, 7.0), index=list("ABCDEF"), name="size").sample(frac=1, random_state=1)
    found = network @ size
    assert found.name == "size"
    for period in network.periods:
        matrix = network.matrix(period)
        expected = matrix @ size[matrix.columns]
        np.testing.assert_allclose(found.xs(period, level="period")[matrix.index], expected)
    rows = [(t, f) for t in network.periods for f in network.matrix(t).index]
    index = pd.MultiIndex.from_tuples(rows, names=["year", "gvkey"])
    panel = pd.DataFrame({"x": np.arange(len(rows)), "one": 1.0}, index=index)
    averages = network @ panel.sample(frac=1, random_state=2)
    assert list(averages.index.names) == ["year", "gvkey"] and averages.columns.tolist() == ["x", "one"]
    matrix = network.matrix(2003)
    np.testing.assert_allclose(averages.x.xs(2003)[matrix.index], matrix @ panel.x.xs(2003)[matrix.columns])
    assert averages.one[2001, "C"] == 0.0 and averages.one.drop((2001, "C")).round(12).eq(1.0).all()


def test_unknown_values_reach_only_those_who_look() -> None:
    network = PeerNetwork.from_matrices({None: (FIRMS, None, RING)})
    found = network @ pd.Series([np.nan, 2.0, 3.0], index=FIRMS)
    assert found.isna().tolist() == [False, False, True]
    with pytest.raises(InputError, match="no value for 1 peers .*'C'"):
        network @ pd.Series([1.0, 2.0], index=["A", "B"])
    with pytest.raises(InputError, match="labelled"):
        network @ np.ones(3)  # type: ignore[type-var]
    with pytest.raises(InputError, match="twice"):
        network @ pd.Series(1.0, index=["A", "A", "B", "C"])
    with pytest.raises(InputError, match=r"W @ x: expected numbers in x, got .*'small'"):
        network @ pd.Series(["small", "large", "large"], index=FIRMS)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_subset_normalized(as_sparse: bool) -> None:
    network = panel_network(as_sparse=as_sparse)
    small = network.subset(firms=["A", "B", "E"], periods=[2001, 2002])
    assert small.periods.tolist() == [2001, 2002] and not small.row_normalized
    matrix = small.matrix(2002)
    assert matrix.index.tolist() == ["E", "B", "A"]
    np.testing.assert_array_equal(matrix, network.matrix(2002).loc[matrix.index, matrix.columns])
    again = small.normalized()
    sums = again.matrix(2002).sum(axis=1)
    np.testing.assert_allclose(sums[sums != 0], 1.0)
    assert network.subset(periods=2001).row_normalized
    with pytest.raises(InputError, match="signed"):
        PeerNetwork.from_matrices({1: (FIRMS, None, -RING)}, signed=True).normalized()


def test_no_heavy_import() -> None:
    heavy = "{'torch', 'matplotlib', 'networkx', 'pyarrow.parquet'}"
    code = f"import sys, peerattn.network, peerattn.render; print({heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def cut(k: int = 2) -> PeerNetwork:
    """The k largest weights of each of five firms in two periods."""
    rng = np.random.default_rng(0)
    whole = {}
    for t in (1, 2):
        W = rng.random((5, 5)) * (1 - np.eye(5))
        whole[t] = W / W.sum(axis=1, keepdims=True)
    kept = {t: np.where(W >= np.sort(W, axis=1)[:, [-k]], W, 0) for t, W in whole.items()}
    made = {t: (list("ABCDE"), None, W) for t, W in kept.items()}
    return PeerNetwork.from_matrices(made, row_normalized=False).replaced(top_k=k)


def test_a_network_that_was_cut_measures_nothing_that_needs_the_whole(tmp_path: Path) -> None:
    network = cut()
    kept = float(np.median(np.concatenate([section.row_sums() for _, section in network.sections()])))
    words = f"2 largest weights of each firm, {kept:.1%} of all weight (median firm)"
    assert words in repr(network) and words in str(network) and "n/a" in str(network)
    codes = pd.Series(list("xxyyy"), index=list("ABCDE"))
    size = pd.Series(range(5), index=list("ABCDE"), dtype=float)
    measures = [
        PeerNetwork.asymmetry, in_strength, effective_peers, concentration, connectedness, reciprocity,
        lambda n: overlap(n, codes),
        lambda n: group_flows(n, codes, 1), lambda n: network_correlation(n, n),
        lambda n: common_peers(n, n, k=3), lambda n: dyadic_regression(n, {"size": Difference(size)}),
    ]  # fmt: skip
    for measure in measures:
        with pytest.raises(InputError, match=re.escape(words)):
            measure(network)
    assert common_peers(network, network, k=2) == 1.0  # of what was kept
    own = network.normalized()
    assert own.top_k is None and own.asymmetry().by_period.notna().any(axis=None)
    shown = network.peers("A", period=1, k=1)
    assert shown.columns.name == f"top 2 kept, {shown['weight'].sum():.1%} shown"
    assert network.subset(periods=[1]).top_k == network.mean().top_k == 2
    network.to_parquet(tmp_path / "n.parquet")
    assert PeerNetwork.from_parquet(tmp_path / "n.parquet").equals(network)
    network.to_explorer(tmp_path / "n.html", codes=codes)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_positive_part_of_a_signed_network(kind) -> None:
    rng = np.random.default_rng(3)
    weights = {t: rng.normal(size=(6, 6)) for t in (2001, 2002)}
    weights[2002][4] = -np.abs(weights[2002][4])
    signed = PeerNetwork.from_matrices({t: (list("ABCDEF"), None, kind(w)) for t, w in weights.items()}, name="cov", signed=True)
    found = signed.positive()
    assert not found.signed and found.row_normalized and found.name == "cov"
    assert all(section.is_sparse == sparse.issparse(kind(np.eye(2))) for _, section in found.sections())
    for t, w in weights.items():
        expected = np.where(np.eye(6, dtype=bool), 0.0, np.maximum(w, 0.0))
        sums = expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.matrix(t), expected / np.where(sums > 0, sums, 1.0), atol=1e-15)
    assert found.isolates.to_numpy().tolist() == [[2002, "E"]]
    cut = PeerNetwork.from_edges(signed.edges(top_k=2), list("ABCDEF"), signed=True).replaced(top_k=2)
    assert cut.positive().top_k is None and (cut.positive().edges().weight > 0).all()
    reference = PeerNetwork.from_matrices({None: (["A"], ["X", "A", "Y"], [[0.5, 2.0, -1.0]])}, signed=True)
    assert reference.positive().matrix().to_numpy().tolist() == [[1.0, 0.0, 0.0]]


def test_a_network_without_periods_prints():
    empty = PeerNetwork.from_matrices({1: pd.DataFrame([[0, 1.0], [1, 0]], list("AB"), list("AB"))}).subset(periods=[])
    assert "empty" in str(empty)
    assert "<table" in empty._repr_html_()


def test_a_network_without_periods_or_firms_raises_errors_that_name_it_or_is_written(tmp_path):
    two = PeerNetwork.from_matrices({1: (["A", "B"], None, [[0, 1.0], [1, 0]]), 2: ([], None, np.zeros((0, 0)))})
    assert placebo(two, random_state=0).edges().equals(two.edges())  # nobody to exchange in the second period
    empty = two.subset(periods=[])
    assert empty.to_explorer(tmp_path / "page.html").exists()
    with pytest.raises(InputError, match="no period in common"):
        network_correlation(empty, two)
    with pytest.raises(InputError, match="network: expected at least one period"):
        validate(empty, two)
    with pytest.raises(InputError, match="is a firm of the network"):
        PeerNetwork.from_matrices({}) @ pd.Series([1.0], ["A"])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({"weight": ["much"]}, r"edges\['weight'\]: expected numbers, got 'much'"),
        ({"firm": [["a"]]}, r"edges\['firm'\]: expected single labels, got \['a'\]"),
        ({"period": [[2000]]}, r"edges\['period'\]: expected single labels"),
    ],
)
def test_edges_of_wrong_kinds_are_named(edges, message):
    with pytest.raises(InputError, match=message):
        PeerNetwork.from_edges(pd.DataFrame({"firm": ["a"], "peer": ["b"], "weight": [1.0]} | edges))
