"""How far two estimates of a network agree, and how a network carries what is known of that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork, common_peers, network_correlation

STABILITY = pd.DataFrame(
    {
        "comparison": ["seeds", "seeds", "folds"],
        "correlation": [0.9, 0.8, 1 / 3],
        "common_top5": [0.8, 0.6, 0.25],
    }
)


def estimate(seed: int, members: dict[Any, str], *, as_sparse: bool = False) -> PeerNetwork:
    """Random weights, some of them zero; the firm "E" is an isolate, and every firm has a weight on itself."""
    rng = np.random.default_rng(seed)
    matrices = {}
    for period, firms in members.items():
        weights = rng.random((len(firms), len(firms))) * (rng.random((len(firms), len(firms))) < 0.7)
        weights += 0.1 * np.eye(len(firms))
        weights[[firm == "E" for firm in firms]] = 0.0
        sums = weights.sum(axis=1, keepdims=True)
        weights = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
        matrices[period] = (list(firms), None, sparse.csr_array(weights) if as_sparse else weights)
    return PeerNetwork.from_matrices(matrices)


FIRST, SECOND = {1: "ABCDE", 2: "BCADEFG", 4: "ABC"}, {2: "GEDCBAH", 1: "EDCBX", 3: "ABC"}


def pairs_of(first: PeerNetwork, second: PeerNetwork) -> list[tuple[Any, str, str, float, float]]:
    """Every pair of distinct firms in both networks of a common period, by plain loops."""
    found = []
    for period in sorted({*first.periods} & {*second.periods}):
        a, b = first.matrix(period), second.matrix(period)
        for firm in [f for f in a.index if f in b.index]:
            peers = [p for p in a.columns if p in b.columns and p != firm]
            if any(a.loc[firm, p] or b.loc[firm, p] for p in peers):
                found += [(period, firm, p, a.loc[firm, p], b.loc[firm, p]) for p in peers]
    return found


@pytest.mark.parametrize("as_sparse", [(False, False), (True, True), (False, True)])
def test_correlation_and_common_peers_by_plain_loops(as_sparse: tuple[bool, bool]) -> None:
    first, second = estimate(0, FIRST, as_sparse=as_sparse[0]), estimate(1, SECOND, as_sparse=as_sparse[1])
    pairs = pd.DataFrame(pairs_of(first, second), columns=["period", "firm", "peer", "a", "b"])
    assert "E" not in set(pairs.firm) and "E" in set(pairs.peer) and set(pairs.period) == {1, 2}
    expected = np.corrcoef(pairs.a, pairs.b)[0, 1]
    assert network_correlation(first, second) == pytest.approx(expected, abs=1e-12)
    assert network_correlation(second, first) == pytest.approx(expected, abs=1e-12)
    for k in (1, 2, 5):
        shares = []
        for _, own in pairs.groupby(["period", "firm"]):
            tops = [
                set(sorted((p for p, w in zip(own.peer, own[s], strict=True) if w), key=lambda p: -by[p])[:k])
                for s, by in ((side, dict(zip(own.peer, own[side], strict=True))) for side in "ab")
            ]
            shares.append(len(tops[0] & tops[1]) / max(map(len, tops)))
        assert common_peers(first, second, k=k) == pytest.approx(np.mean(shares), abs=1e-12)


def test_a_network_agrees_with_itself_and_its_mirror_image_does_not() -> None:
    network = estimate(2, {1: "ABCD"})
    assert network_correlation(network, network) == pytest.approx(1.0)
    assert common_peers(network, network) == 1.0
    left, right = (PeerNetwork.from_matrices({1: ("ABC", None, W)}) for W in (RING, RING.T))
    assert common_peers(left, right, k=1) == 0.0


RING = np.eye(3)[[1, 2, 0]]


def test_what_does_not_vary_has_no_correlation() -> None:
    even = (1 - np.eye(7)) / 6
    empty = PeerNetwork.from_matrices({1: ("ABCDEFG", None, 0 * even)})
    flat = PeerNetwork.from_matrices({1: ("ABCDEFG", None, even)})
    other = estimate(4, {1: "ABCDEFG"})
    for pair in ((empty, empty), (empty, other), (flat, other), (flat, flat)):
        assert np.isnan(network_correlation(*pair))
    assert np.isnan(common_peers(empty, empty)) and common_peers(empty, other) == 0.0


@pytest.mark.parametrize("spread", [1e-3, 1e-6, 1e-9])
def test_weights_that_hardly_differ_have_their_correlation(spread: float) -> None:
    rng = np.random.default_rng(0)
    off = ~np.eye(7, dtype=bool)
    first, second = (off * (1 + spread * part) for part in rng.normal(size=(2, 7, 7)) @ rng.normal(size=(7, 7)))
    networks = [PeerNetwork.from_matrices({1: ("ABCDEFG", None, W)}, row_normalized=False) for W in (first, second)]
    assert network_correlation(*networks) == pytest.approx(np.corrcoef(first[off], second[off])[0, 1], abs=1e-6)


def test_agreement_refuses_what_has_nothing_in_common() -> None:
    for measure in (network_correlation, common_peers):
        with pytest.raises(InputError, match="no period in common"):
            measure(estimate(0, {1: "AB"}), estimate(0, {2: "AB"}))
    with pytest.raises(InputError, match="k: expected at least 1, got 0"):
        common_peers(estimate(0, {1: "AB"}), estimate(0, {1: "AB"}), k=0)


def known() -> PeerNetwork:
    return estimate(0, FIRST).replaced(stability=STABILITY)


def test_stability_is_kept_by_files(tmp_path: Path) -> None:
    network = known()
    network.to_parquet(tmp_path / "n")
    back = PeerNetwork.from_parquet(tmp_path / "n")
    assert back.equals(network) and not back.equals(estimate(0, FIRST))
    pd.testing.assert_frame_equal(back.stability, STABILITY)


def test_a_choice_of_periods_keeps_stability_and_other_weights_do_not() -> None:
    network = known()
    pd.testing.assert_frame_equal(network.subset(periods=[1, 2]).stability, STABILITY)
    for other in (
        network.subset(firms=["A", "B"]),
        network.mean(),
        network.positive(),
        network.replaced(),
    ):
        assert other.stability is None
    STABILITY_GIVEN = STABILITY.set_index(pd.Index([7, 8, 9])).assign(note="x")
    given = network.replaced(stability=STABILITY_GIVEN)
    pd.testing.assert_frame_equal(given.stability, STABILITY)
    assert given.stability is not STABILITY_GIVEN


def test_stability_is_said_wherever_a_network_is_shown(tmp_path: Path) -> None:
    network = known()
    sentence = (
        "Stability: weights estimated from different random starts correlate 0.85, with 70% of the five largest peers in "
        "common; from different training samples correlate 0.33, with 25% of the five largest peers in common."
    )
    assert sentence in " ".join(str(network).split())
    assert sentence in network._repr_html_()
    page = network.to_explorer(tmp_path / "n.html").read_text("utf-8")
    assert sentence in re.findall(r'"note": "([^"]*)"', page)[0]
    assert "Stability" not in str(estimate(0, FIRST)) + estimate(0, FIRST)._repr_html_()
    empty = STABILITY.assign(correlation=np.nan)
    assert "cannot be compared (a network is empty)" in " ".join(str(network.replaced(stability=empty)).split())


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (STABILITY.drop(columns="common_top5"), "stability: no column is named 'common_top5'"),
        (STABILITY.assign(comparison="runs"), "expected comparisons 'seeds' or 'folds', got 'runs'"),
    ],
)
def test_a_stability_of_another_shape_is_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        estimate(0, FIRST).replaced(stability=frame)
