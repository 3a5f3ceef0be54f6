from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network import (
    PeerNetwork,
    concentration,
    effective_peers,
    in_strength,
    overlap,
    paths,
    reciprocity,
    rollout,
    turnover,
)


def weights_of(n: int, seed: int, share: float = 0.6) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = rng.random((n, n)) * (rng.random((n, n)) < share)
    np.fill_diagonal(weights, 0.0)
    sums = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)


def network_of(weights: np.ndarray, *, as_sparse: bool = False, period: object = None) -> PeerNetwork:
    given = sparse.csr_array(weights) if as_sparse else weights
    return PeerNetwork.from_matrices({period: ([f"F{i:02d}" for i in range(len(weights))], None, given)})


@pytest.mark.parametrize("as_sparse", [False, True])
def test_strength_and_spread(as_sparse: bool) -> None:
    weights = weights_of(12, 0)
    weights[3] = 0.0
    network = network_of(weights, as_sparse=as_sparse)
    np.testing.assert_allclose(in_strength(network).in_strength, weights.sum(axis=0))
    expected = [1 / (row @ row) if row.any() else np.nan for row in weights]
    np.testing.assert_allclose(effective_peers(network).effective_peers, expected)
    strength = weights.sum(axis=0)
    differences = np.abs(strength[:, None] - strength[None]).sum()
    row = concentration(network).iloc[0]
    assert row.gini == pytest.approx(differences / (2 * 12**2 * strength.mean()))
    assert row.herfindahl == pytest.approx(((strength / strength.sum()) ** 2).sum())
    assert row.effective_peers == pytest.approx(np.nanmedian(expected))
    assert concentration(network_of(np.eye(4)[[1, 1, 1, 1]] * [[1], [0], [1], [1]])).gini.iloc[0] == 0.75
    assert np.isnan(concentration(network_of(np.zeros((3, 3)))).gini.iloc[0])


def test_an_empty_network_says_so() -> None:
    empty, ring = network_of(np.zeros((3, 3))), network_of(np.eye(3)[[1, 2, 0]])
    assert "The network is empty: no firm has a peer." in str(empty)
    assert "empty" not in str(ring)


def test_reciprocity_equals_networkx_on_a_binary_graph_and_its_formula() -> None:
    weights = weights_of(10, 1)
    total = sum(min(weights[i, j], weights[j, i]) for i in range(10) for j in range(10) if i != j)
    assert reciprocity(network_of(weights)).iloc[0] == pytest.approx(total / weights.sum())
    assert reciprocity(network_of(weights, as_sparse=True)).iloc[0] == pytest.approx(total / weights.sum())
    with_own = 0.5 * weights + 0.5 * np.eye(10)
    assert reciprocity(network_of(with_own)).iloc[0] == pytest.approx(total / weights.sum())
    binary = (weights > 0).astype(float)
    network = PeerNetwork.from_matrices({None: (range(10), None, binary)}, row_normalized=False)
    assert reciprocity(network).iloc[0] == pytest.approx(nx.overall_reciprocity(network.to_networkx()))
    both_ways = PeerNetwork.from_matrices({None: (range(10), None, weights + weights.T)}, row_normalized=False)
    assert reciprocity(both_ways).iloc[0] == pytest.approx(1.0)


def test_codes_without_the_networks_firms() -> None:
    network = PeerNetwork.from_matrices({2001: (["A", "B"], None, np.eye(2)[::-1])})
    with pytest.raises(InputError, match="codes: none of its labels .such as 0. is a firm of the network .such as 'A'"):
        overlap(network, pd.Series(["x", "y"]))


@pytest.mark.parametrize("as_sparse", [False, True])
def test_overlap_by_a_double_loop(as_sparse: bool) -> None:
    weights = weights_of(12, 5)
    network = network_of(weights, as_sparse=as_sparse, period=2001)
    codes = pd.Series(["28", "36", None, "28", "36", "36"] * 2, index=network.firms)
    codes.loc["F99"] = "28"  # not in this period
    within = weight = expected = 0.0
    for i, a in enumerate(network.firms):
        others = [b for b in network.firms if b != a and codes[b] is not None and pd.notna(codes[b])]
        if pd.isna(codes[a]):
            continue
        for j, b in enumerate(network.firms):
            if pd.notna(codes[b]):
                weight += weights[i, j]
                within += weights[i, j] * (codes[a] == codes[b])
                expected += weights[i, j] * np.mean([codes[c] == codes[a] for c in others])
    row = overlap(network, codes).iloc[0]
    assert row["share"] == pytest.approx(within / weight)
    assert row["chance"] == pytest.approx(expected / weight)
    assert row["lift"] == pytest.approx(within / expected) and row["firms"] == 10
    by_period = pd.concat({2000: codes[::-1].set_axis(codes.index), 2001: codes}, names=["period", "firm"])
    pd.testing.assert_frame_equal(overlap(network, by_period), overlap(network, codes))


@pytest.mark.parametrize("as_sparse", [False, True])
def test_overlap_of_signed_weights_counts_sizes_and_leaves_out_firms_own(as_sparse: bool) -> None:
    rng = np.random.default_rng(3)
    weights, firms, peers = rng.normal(size=(4, 6)), list("DACF"), list("ABCDEG")
    given = sparse.csr_array(weights) if as_sparse else weights
    network = PeerNetwork.from_matrices({1: (firms, peers, given)}, signed=True)
    codes = pd.Series(list("xxyyxyx"), index=list("ABCDEFG"))
    within = total = 0.0
    for i, a in enumerate(firms):
        for j, b in enumerate(peers):
            total += abs(weights[i, j]) * (a != b)
            within += abs(weights[i, j]) * (a != b) * (codes[a] == codes[b])
    assert overlap(network, codes)["share"].item() == pytest.approx(within / total)
    assert network.section()[1].on_itself().tolist() == [weights[0, 3], weights[1, 0], weights[2, 2], 0.0]
    nobody = PeerNetwork.from_matrices({1: (firms, [], np.zeros((4, 0)))})
    assert nobody.section()[1].on_itself().tolist() == [0.0] * 4 and np.isnan(overlap(nobody, codes)["share"].item())


def test_even_weights_have_lift_one_and_unknown_codes_say_so() -> None:
    weights = np.full((6, 6), 0.2) - 0.2 * np.eye(6)
    network = network_of(weights)
    codes = pd.Series(list("aabbbb"), index=network.firms)
    assert overlap(network, codes).lift.iloc[0] == pytest.approx(1.0)
    assert np.isnan(overlap(network, codes.where(codes == "c")).share.iloc[0])
    with pytest.raises(InputError, match="codes: expected Series, got"):
        overlap(network, list("aabbbb"))  # type: ignore[arg-type]


def test_turnover_by_formula() -> None:
    first, second = weights_of(8, 6), weights_of(8, 7)
    firms = list("ABCDEFGH")
    moved = list("BADCHGFX")
    network = PeerNetwork.from_matrices({1: (firms, None, first), 2: (moved, None, second)})
    a, b = network.matrix(1), network.matrix(2)
    union = sorted({*firms, *moved})
    stayed = [f for f in firms if f in moved]
    x = a.reindex(index=stayed, columns=union, fill_value=0.0)
    y = b.reindex(index=stayed, columns=union, fill_value=0.0)
    tops = [[set(r[r > 0].nlargest(3).index) for _, r in frame.iterrows()] for frame in (x, y)]
    jaccard = np.mean([len(p & q) / len(p | q) for p, q in zip(*tops, strict=True)])
    row = turnover(network, top_k=3).loc[2]
    assert row["turnover"] == pytest.approx(np.abs(x - y).to_numpy().sum() / (2 * len(stayed)))
    assert row["jaccard"] == pytest.approx(jaccard) and row["firms"] == 7


def test_paths_add_up_to_the_square() -> None:
    weights = weights_of(9, 8)
    network = network_of(weights, as_sparse=True)
    found = paths(network, "F00", "F05", k=None)
    assert found.weight.sum() == pytest.approx((weights @ weights)[0, 5])
    assert found.weight.is_monotonic_decreasing
    with pytest.raises(InputError, match="unknown firm"):
        paths(network, "F00", "Q77")


def test_rollout_closed_forms_and_product() -> None:
    size = 5
    identity, uniform = np.eye(size), np.full((size, size), 1 / size)
    as_networks = [network_of(weights_of(size, seed)) for seed in (9, 10, 11)]
    np.testing.assert_array_equal(rollout([network_of(identity)] * 3).matrix(), identity)
    depth = 4
    expected = 0.5**depth * identity + (1 - 0.5**depth) * uniform
    np.testing.assert_allclose(rollout([network_of(uniform)] * depth).matrix(), expected)
    product = identity
    for network in as_networks:
        product = (0.5 * network.matrix().to_numpy() + 0.5 * identity) @ product
    np.testing.assert_allclose(rollout(as_networks).matrix(), product)
    plain = rollout(as_networks, residual=0.0).matrix()
    a, b, c = (network.matrix().to_numpy() for network in as_networks)
    np.testing.assert_allclose(plain, c @ b @ a)
    lone = weights_of(size, 12)
    lone[2] = 0.0
    np.testing.assert_allclose(rollout([network_of(lone)]).matrix().to_numpy()[2], identity[2])
    with pytest.raises(InputError, match="layer 1"):
        rollout([network_of(identity), network_of(np.eye(4))])


def test_networkx_measures_what_is_generic() -> None:
    """Ranks and communities are one line each, of the strongest ties where a network is dense."""
    group = np.repeat([0, 1, 2], [12, 10, 8])
    weights = np.random.default_rng(3).random((30, 30)) + 5.0 * (group[:, None] == group[None])
    np.fill_diagonal(weights, 0.0)
    network = network_of(weights / weights.sum(axis=1, keepdims=True))
    graph = network.to_networkx(top_k=5)
    assert set(dict(graph.out_degree).values()) == {5} and not graph.graph["row_normalized"]
    found = nx.community.louvain_communities(graph, seed=1)
    assert sorted(map(sorted, found)) == [sorted(network.firms[group == g]) for g in range(3)]
    assert sum(nx.pagerank(network.to_networkx()).values()) == pytest.approx(1.0)
