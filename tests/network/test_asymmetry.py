from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork, asymmetry
from peerattn.network.measures.asymmetry import potential


def softmax(scores: np.ndarray) -> np.ndarray:
    scores = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def network_of(weights: np.ndarray) -> PeerNetwork:
    return PeerNetwork.from_matrices({None: (range(len(weights)), None, weights)})


def least_squares(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The split by a regression on pairs, weighted by what they give each other."""
    n = len(weights)
    pairs = [(i, j) for i in range(n) for j in range(i) if weights[i, j] > 0 and weights[j, i] > 0]
    design = np.zeros((len(pairs), n))
    ratio = np.array([np.log(weights[i, j]) - np.log(weights[j, i]) for i, j in pairs])
    for row, (i, j) in enumerate(pairs):
        design[row, j], design[row, i] = 1.0, -1.0
    mutual = np.array([weights[i, j] + weights[j, i] for i, j in pairs])
    root = np.sqrt(mutual)
    c = np.linalg.lstsq(design * root[:, None], ratio * root, rcond=None)[0]
    return c, ratio, design @ c, mutual / mutual.sum()


@pytest.mark.parametrize("share_zero", [0.0, 0.5, 0.9])
def test_equals_a_regression_on_pairs(share_zero: float) -> None:
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(20, 20))
    scores[rng.random((20, 20)) < share_zero] = -np.inf
    scores[np.arange(20), (np.arange(20) + 1) % 20] = 0.0
    weights = softmax(scores)
    found = asymmetry(network_of(weights))
    c, ratio, fitted, share = least_squares(weights)
    row = found.by_period.iloc[0]
    assert row["pairs"] == len(ratio)
    assert row["log_ratio"] == pytest.approx(np.sqrt(share @ ratio**2), abs=1e-12)
    assert row["popularity"] == pytest.approx(np.sqrt(share @ fitted**2), abs=1e-8)
    assert row["direction"] == pytest.approx(np.sqrt(share @ (ratio - fitted) ** 2), abs=1e-8)
    assert row["raw"] == pytest.approx(np.linalg.norm(weights - weights.T) / np.linalg.norm(weights + weights.T), abs=1e-14)
    assert row["log_ratio"] ** 2 == pytest.approx(row["popularity"] ** 2 + row["direction"] ** 2)
    np.testing.assert_allclose(found.potential["popularity"], c, atol=1e-9)  # both of smallest norm
    both = (weights > 0) & (weights.T > 0)
    assert row["one_way"] == pytest.approx(weights[~both].sum() / weights.sum())


@pytest.mark.parametrize("kernel", ["gaussian", "dot", "cut"])
def test_a_symmetric_kernel_has_no_direction(kernel: str) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(30, 3))
    scores = x @ x.T
    if kernel != "dot":
        scores = -0.5 * ((x[:, None] - x[None]) ** 2).sum(axis=2)
    if kernel == "cut":
        scores = np.where(scores > np.median(scores), scores, -np.inf)
    found = asymmetry(network_of(softmax(scores)))
    row = found.by_period.iloc[0]
    assert row["raw"] > 0.1 and row["popularity"] > 0.1
    assert row["direction"] < 1e-10
    masked = np.where(np.eye(30, dtype=bool), 0.0, np.exp(scores))
    if kernel != "cut":  # one component: the potential is the log of the row sums
        c = np.log(masked.sum(axis=1))
        np.testing.assert_allclose(found.potential["popularity"], c - c.mean(), atol=1e-10)


def test_different_maps_have_direction() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(30, 3))
    row = asymmetry(network_of(softmax(x @ rng.normal(size=(3, 3)) @ x.T))).by_period.iloc[0]
    assert row["direction"] > 0.1


def test_pairs_of_negligible_weight_do_not_decide() -> None:
    """A reversible core, and firms that give it next to nothing in a cycle."""
    rng = np.random.default_rng(3)
    kernel = np.exp(rng.normal(size=(8, 8)))
    W = np.zeros((11, 11))
    W[:8, :8] = (kernel + kernel.T) * (1 - np.eye(8))
    tiny = 1e-7 * np.exp(6 * rng.normal(size=(3, 3)))
    W[8:, 8:] = tiny * (1 - np.eye(3))
    W[8:, :8], W[:8, 8:] = 1.0, 1e-6
    W /= W.sum(axis=1, keepdims=True)
    row = asymmetry(network_of(W)).by_period.iloc[0]
    assert row["direction_share"] < 0.01
    ratio = np.log(W[8:, 8:], where=~np.eye(3, dtype=bool), out=np.zeros((3, 3)))
    assert np.abs(ratio - ratio.T).max() > 3  # a mean of pairs without weights would be of these


def test_a_cycle_is_direction_and_a_star_is_popularity() -> None:
    cycle = np.array([[0, 0.9, 0.1], [0.1, 0, 0.9], [0.9, 0.1, 0]])
    found = network_of(cycle).asymmetry()
    assert found.by_period["popularity"].iloc[0] == pytest.approx(0.0, abs=1e-15)
    assert found.by_period["direction"].iloc[0] == pytest.approx(np.log(9))
    pairs = found.most_one_sided(3, kind="direction")
    assert sorted(zip(pairs.firm, pairs.peer, strict=True)) == [(0, 1), (1, 2), (2, 0)]
    np.testing.assert_allclose(pairs.gap, 0.8)
    assert (found.most_one_sided(kind="popularity").gap < 1e-12).all()
    star = np.array([[0, 0.5, 0.5], [0.8, 0, 0.2], [0.8, 0.2, 0]])
    found = network_of(star).asymmetry()
    assert found.by_period["direction"].iloc[0] == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_allclose(np.diff(found.potential["popularity"]), [-np.log(1.6), 0.0], atol=1e-15)


def test_gaps_are_differences_in_weight() -> None:
    rng = np.random.default_rng(8)
    weights = softmax(rng.normal(size=(12, 12)))
    found = asymmetry(network_of(weights))
    top = found.most_one_sided(5, kind="difference")
    np.testing.assert_allclose(top.gap, top.weight - top.reverse)
    gaps = np.sort((weights - weights.T).ravel())[::-1][:5]
    np.testing.assert_allclose(top.gap, gaps)
    direction = found.most_one_sided(5)
    assert (direction.direction > 0).all() and (direction.gap <= direction.weight + direction.reverse).all()
    np.testing.assert_allclose(direction.log_ratio, np.log(direction.weight / direction.reverse))
    np.testing.assert_allclose(direction.log_ratio, direction.popularity + direction.direction)


def test_unbalanced_periods_and_their_table() -> None:
    rng = np.random.default_rng(9)
    names = {pd.Timestamp("2001-01-31"): "ABCD", pd.Timestamp("2001-02-28"): "BCDEF"}
    found = PeerNetwork.from_matrices(
        {t: (list(f), None, softmax(rng.normal(size=(len(f), len(f))))) for t, f in names.items()}, name="<b>"
    ).asymmetry()
    assert found.to_frame().index.tolist() == list(names)
    assert found.most_one_sided(period="2001-02").period.eq(pd.Timestamp("2001-02-28")).all()
    assert "2001-01-31" in str(found) and "mean" in str(found)
    assert "<b>" not in found._repr_html_()
    assert len(repr(found).splitlines()) == 1
    with pytest.raises(InputError, match="kind"):
        found.most_one_sided(kind="cyclic")  # type: ignore[arg-type]


def test_signed_empty_and_rectangular() -> None:
    rng = np.random.default_rng(10)
    signed = PeerNetwork.from_matrices({None: (range(4), None, rng.normal(size=(4, 4)))}, signed=True)
    with pytest.raises(InputError, match=r"signed.*popularity.*positive\(\)"):
        signed.asymmetry()
    x = rng.normal(size=(30, 3))
    symmetric = PeerNetwork.from_matrices({None: (range(30), None, x @ x.T)}, signed=True)
    split = symmetric.positive().asymmetry().by_period.iloc[0]
    assert split["direction"] < 1e-10 < split["popularity"]  # a covariance has no direction but popularity
    empty = PeerNetwork.from_matrices({None: (range(3), None, np.zeros((3, 3)))}).asymmetry()
    assert np.isnan(empty.by_period["raw"].iloc[0]) and empty.most_one_sided().empty
    apart = PeerNetwork.from_matrices({None: (["a"], ["x", "y"], [[0.5, 0.5]])})
    with pytest.raises(InputError, match="cross-attention"):
        apart.asymmetry()


def test_what_would_not_fit_in_memory_is_refused() -> None:
    size = 20_001
    ring = sparse.csr_array((np.ones(size), (np.arange(size), np.roll(np.arange(size), 1))))
    with pytest.raises(InputError, match=r"20,001 firms; take subset"):
        PeerNetwork.from_matrices({None: (range(size), None, ring)}).asymmetry()


def test_potential_of_two_components() -> None:
    known = np.zeros((5, 5), dtype=bool)
    known[0, 1] = known[1, 0] = known[2, 3] = known[3, 2] = True
    c = np.array([1.0, -1.0, 2.0, -2.0, 0.0])
    np.testing.assert_allclose(potential(np.where(known, c[None] - c[:, None], 0.0), known), c, atol=1e-14)


@pytest.mark.filterwarnings("error")
def test_weights_of_any_size_are_compared_without_overflow() -> None:
    W = np.array([[0.0, 1.0, 1e-300], [1.0, 0.0, 5e-324], [1e-5, 1.0 - 1e-5, 0.0]])
    pairs = asymmetry(network_of(W)).pairs
    found = pairs[(pairs["firm"] == 2) & (pairs["peer"] == 0) & (pairs["kind"] == "difference")]
    assert found["log_ratio"].item() == pytest.approx(np.log(1e-5) - np.log(1e-300))
    assert np.isfinite(pairs["gap"]).all()
