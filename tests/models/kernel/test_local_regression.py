"""The kernel engine against statsmodels' KernelReg and plain code, float64."""

import numpy as np
import pytest
import torch
from statsmodels.nonparametric.kernel_regression import KernelReg

from peerattn import nn
from peerattn.models.kernel.local_regression import KERNELS, Bandwidths, CodeKernel, LocalRegression, Points

KERNEL_REG = {"c": None, "o": CodeKernel(4, (0.0, 1.0, 2.0, 3.0)), "u": CodeKernel(3), "w": CodeKernel(40)}


def columns(types, n, seed):
    rng = np.random.default_rng(seed)
    draw = {
        "c": lambda: rng.normal(size=n),
        "o": lambda: rng.integers(0, 4, n),
        "u": lambda: rng.integers(0, 3, n),
        "w": lambda: rng.permutation(np.arange(n) % 40),
    }
    return np.column_stack([draw[kind]() for kind in types]).astype(float)


def points(X, types, line=None):
    continuous = [k for k, kind in enumerate(types) if kind == "c"]
    codes = [k for k, kind in enumerate(types) if kind != "c"]
    tensor = torch.tensor(X)
    return Points(tensor[:, continuous], tensor[:, codes].long(), tensor if line else tensor[:, :0])


def split(values, types):
    values = torch.tensor(values)
    code = torch.tensor([kind != "c" for kind in types])
    return Bandwidths(values[~code], values[code])


@pytest.mark.parametrize("degree", [0, 1], ids=["lc", "ll"])
@pytest.mark.parametrize("types", ["c", "cc", "cco", "ccu", "ccou", "ou", "cw", "cwuw"])
def test_equals_kernel_reg(types, degree):
    X, at = columns(types, 150, 0), columns(types, 30, 1)
    y = np.sin(X[:, 0]) + X[:, -1] + 0.1 * np.random.default_rng(2).normal(size=150)
    bandwidth = np.where(np.array(list(types)) == "c", 0.6, 0.3)
    theirs = KernelReg(y, X, types.replace("w", "u"), ("lc", "ll")[degree], bw=bandwidth, rng=0)
    mean, slopes = theirs.fit(at)
    # KernelReg's local line has a slope in the numbers of codes, too
    ours = LocalRegression("gaussian", tuple(KERNEL_REG[kind] for kind in types if kind != "c"))
    focal, pool = points(at, types, degree), points(X, types, degree)
    fitted, line = ours.fit(focal, pool, split(bandwidth, types), torch.tensor(y)[:, None])
    np.testing.assert_allclose(fitted[:, 0], mean, atol=1e-10)
    W = ours.weights(focal, pool, split(bandwidth, types))
    np.testing.assert_allclose(W @ torch.tensor(y), mean, atol=1e-10)
    np.testing.assert_allclose(W.sum(1), 1.0, atol=1e-10)
    if degree:
        np.testing.assert_allclose(line[:, :, 0], slopes, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_product_kernels_by_hand(kernel):
    X, at = columns("cc", 60, 3), columns("cc", 10, 4)
    formula = {
        "gaussian": lambda u: np.exp(-0.5 * u**2),
        "epanechnikov": lambda u: np.maximum(1 - u**2, 0),
        "uniform": lambda u: 1.0 * (abs(u) <= 1),
        "triangular": lambda u: np.maximum(1 - abs(u), 0),
        "biweight": lambda u: np.maximum(1 - u**2, 0) ** 2,
    }[kernel]
    K = formula((at[:, None] - X) / 1.5).prod(axis=2)
    K = np.divide(K, K.sum(axis=1, keepdims=True), out=np.zeros_like(K), where=K.sum(axis=1, keepdims=True) > 0)
    bandwidths = Bandwidths(torch.full((2,), 1.5, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))
    W = LocalRegression(kernel).weights(points(at, "cc"), points(X, "cc"), bandwidths)
    np.testing.assert_allclose(W, K, atol=1e-12)


def test_gaussian_is_attention_with_gaussian_scores():
    X = torch.tensor(columns("cc", 20, 5))
    scores = -0.5 * ((X[:, None] - X) ** 2).sum(-1) / 0.7**2
    h = Bandwidths(torch.full((2,), 0.7, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))
    empty = X[:, :0]
    W = LocalRegression().weights(Points(X, empty.long(), empty), Points(X, empty.long(), empty), h)
    torch.testing.assert_close(W, nn.attention_weights(empty, empty, bias=scores, scale=1.0), atol=1e-12, rtol=0)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_a_frequency_weight_is_a_repeated_row(kernel):
    X, at, w = columns("ccu", 40, 6), columns("ccu", 10, 7), np.random.default_rng(8).integers(1, 4, 40)
    y, bandwidths = torch.tensor(X[:, :1] + X[:, 2:]), split(np.array([1.0, 2.0, 0.4]), "ccu")
    for degree in (0, 1):
        for neighbors in (None, 7):
            model = LocalRegression(kernel, (CodeKernel(3),), neighbors)
            pool = points(X, "ccu")
            line = pool.x if degree else pool.line
            weighted = Points(pool.x, pool.codes, line, torch.tensor(w).double().log())
            copies = torch.repeat_interleave(torch.arange(40), torch.tensor(w))
            repeated = Points(pool.x, pool.codes, line).take(copies)
            focal = points(at, "ccu")
            focal = Points(focal.x, focal.codes, focal.x if degree else focal.line)
            one, _ = model.fit(focal, weighted, bandwidths, y)
            other, _ = model.fit(focal, repeated, bandwidths, y[copies])
            torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("kernel", ["gaussian", "triangular"])
def test_a_row_without_peers_is_zero(kernel, degree):
    X = columns("cc", 12, 9)
    focal = points(X, "cc", degree)
    mask = ~torch.eye(12, dtype=torch.bool)
    mask[4] = False
    h = split(np.array([1.0, 1.0]), "cc")
    model = LocalRegression(kernel)
    fitted, _ = model.fit(focal, focal, h, torch.ones(12, 1, dtype=torch.float64), mask)
    W = model.weights(focal, focal, h, mask)
    assert fitted[4] == 0 and (W[4] == 0).all() and torch.isfinite(W).all()
    assert (W[~mask] == 0).all()


def test_unknown_and_unseen_levels_are_like_no_other():
    x = torch.zeros(4, 1, dtype=torch.float64)
    codes = torch.tensor([[-1], [-1], [0], [5]])
    rows = Points(x, codes, x[:, :0])
    for n_levels in (3, 40):
        W = LocalRegression(code_kernels=(CodeKernel(n_levels),)).weights(rows, rows, split(np.array([1.0, 0.2]), "cu"))
        check_levels(W)


def check_levels(W):
    np.testing.assert_allclose(W[0], 0.25)  # unknown: unlike all, itself included
    assert W[3, 3] > W[3, 2] and W[2, 2] > W[2, 3] == W[2, 0]


def test_far_query_stays_finite_and_centred_data_keep_their_digits():
    X = columns("c", 50, 10)
    y = torch.tensor(np.sin(X))
    fitted, _ = LocalRegression().fit(points(X + 1e6, "c"), points(X, "c"), split(np.array([0.5]), "c"), y)
    assert torch.isfinite(fitted).all()


def test_adaptive_bandwidth_is_the_distance_to_the_kth_neighbor():
    X, at = columns("cc", 40, 11), columns("cc", 6, 12)
    h = np.array([0.5, 2.0])
    distance = np.sqrt((((at[:, None] - X) / h) ** 2).sum(-1))
    scale = np.sort(distance, axis=1)[:, 4:5]
    K = np.exp(-0.5 * (distance / scale) ** 2)
    W = LocalRegression(neighbors=5).weights(points(at, "cc"), points(X, "cc"), split(h, "cc"))
    np.testing.assert_allclose(W, K / K.sum(axis=1, keepdims=True), atol=1e-10)
