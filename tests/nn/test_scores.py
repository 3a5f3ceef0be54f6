"""Other scores, and attention for less, against plain loops and exact attention."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch

from peerattn.exceptions import InputError
from peerattn.nn import (
    MultiheadAttention,
    additive_scores,
    attention,
    attention_weights,
    causal_mask,
    cheaper_attention,
    kernel_attention,
    kernel_weights,
    linear_attention,
    local_attention,
    local_mask,
    score_terms,
    sparse_attention,
)
from peerattn.nn.scores import SCORES


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_scores_against_plain_loops():
    q, k, w = draw(2, 3, 4), draw(2, 5, 4, seed=1), draw(2, 4, seed=2)
    additive = additive_scores(q, k, w)
    for h in range(2):
        for i in range(3):
            for j in range(5):
                want = sum(float(w[h, c]) * math.tanh(float(q[h, i, c] + k[h, j, c])) for c in range(4))
                assert float(additive[h, i, j]) == pytest.approx(want)


@pytest.mark.parametrize("score", SCORES)
def test_layers_use_their_score(score):
    layer = MultiheadAttention(8, 2, score=score).double()
    x, mask = draw(5, 8), causal_mask(5)
    q, k = (p(x).unflatten(-1, (2, 4)).transpose(0, 1) for p in (layer.query, layer.key))
    scores = {
        "scaled_dot_product": lambda: q @ k.mT / 2,
        "dot_product": lambda: q @ k.mT,
        "gaussian": lambda: -(torch.cdist(q, k) ** 2) / 2,
        "additive": lambda: additive_scores(q, k, layer.combine),
    }[score]()
    want = scores.masked_fill(~mask, -math.inf).softmax(-1)
    output, weights = layer(x, mask=mask, return_weights=True)
    torch.testing.assert_close(weights, want)
    torch.testing.assert_close(layer(x, mask=mask), output)
    output.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


def test_without_projections_attention_is_the_function():
    layer, x = MultiheadAttention(4, 1).double(), draw(5, 4)
    with torch.no_grad():
        for projection in (layer.query, layer.key, layer.value, layer.output):
            projection.weight.copy_(torch.eye(4))
    torch.testing.assert_close(layer(x), attention(x, x, x))


@pytest.mark.parametrize("keep", [1, 3, 8, 20])
def test_sparse_attention_keeps_to_its_error(keep):
    q, k, v = draw(6, 4), draw(8, 4, seed=1), draw(8, 3, seed=2)
    output, weights = sparse_attention(q, k, v, keep, return_weights=True)
    torch.testing.assert_close(sparse_attention(q, k, v, keep), output)
    exact = attention_weights(q, k)
    kept = exact.topk(min(keep, 8)).values.sum(-1)
    assert ((weights > 0).sum(-1) == min(keep, 8)).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(6, dtype=torch.float64))
    error = (output - exact @ v).norm(dim=-1)
    assert (error <= 2 * (1 - kept) * v.norm(dim=-1).max() + 1e-12).all()
    if keep >= 8:
        torch.testing.assert_close(output, exact @ v)
    layer = MultiheadAttention(4, 2, attend=cheaper_attention(keep=keep)).double()
    assert (layer(k, return_weights=True)[1] > 0).sum(-1).max() == min(keep, 8)


@pytest.mark.parametrize(
    "causal, mask",
    [(False, None), (True, None), (False, torch.arange(8)[None] < 6), (True, torch.arange(8)[None] > 0)],
    ids=["all", "causal", "keys", "causal and keys"],
)
def test_linear_attention_nears_exact_attention_with_more_features(causal, mask):
    q, k, v = 0.4 * draw(8, 4), 0.4 * draw(8, 4, seed=1), draw(8, 3, seed=2)
    q = q[2:] if causal else q  # the last rows of the keys, as with a cache
    may = causal_mask(len(q), 8) if causal else torch.tensor(True)
    exact, told = (
        attention(q, k, v, mask=may if mask is None else may & mask),
        {"causal": causal, "mask": mask},
    )
    errors = []
    for n_features in (16, 256, 4096):
        output = linear_attention(q, k, v, n_features, **told)
        again, weights = linear_attention(q, k, v, n_features, **told, return_weights=True)
        torch.testing.assert_close(output, again)
        torch.testing.assert_close(weights.sum(-1), torch.ones(len(q), dtype=torch.float64))
        errors.append(float((output - exact).norm() / exact.norm()))
    assert errors[2] < errors[0] and errors[2] < 0.05
    layer = MultiheadAttention(4, 2, attend=cheaper_attention(n_features=64, causal=causal)).double()
    torch.testing.assert_close(layer(k, mask=mask), layer(k, mask=mask, return_weights=True)[0])


def test_causal_linear_attention_goes_through_long_rows_in_stretches():
    q, k, v = (0.4 * draw(300, 4, seed=seed) for seed in range(3))
    output, weights = linear_attention(q, k, v, 32, causal=True, return_weights=True)
    assert (weights.triu(1) == 0).all()
    torch.testing.assert_close(linear_attention(q, k, v, 32, causal=True), output)
    changed = linear_attention(q, k.clone().index_fill_(0, torch.tensor(200), 0.5), v, 32, causal=True)
    torch.testing.assert_close(changed[:200], output[:200])
    assert (changed[200:] != output[200:]).any(1).all()


def test_sparse_attention_goes_through_long_rows_in_stretches():
    q, k, v = draw(280, 4), draw(300, 4, seed=1), draw(300, 3, seed=2)
    options = {"mask": draw(280, 300, seed=3) > -0.5, "bias": draw(280, 300, seed=4)}
    whole = attention(q, k, v, mask=options["mask"] & causal_mask(280, 300), bias=options["bias"])
    found = sparse_attention(q, k, v, 300, causal=True, **options)
    torch.testing.assert_close(found, whole)
    few, weights = sparse_attention(q, k, v, 5, causal=True, return_weights=True, **options)
    assert (weights > 0).sum(-1).max() == 5 and (weights.triu(21) == 0).all()
    torch.testing.assert_close(weights @ v, few)


def test_the_mean_squared_error_of_random_features_is_as_stated():
    q, k = 0.5 * draw(1, 4), 0.5 * draw(1, 4, seed=1)
    generator, R = torch.Generator().manual_seed(0), 8
    w = torch.randn(20_000, R, 4, generator=generator, dtype=torch.float64)
    estimate = ((w @ q.T - q.square().sum() / 2).exp() * (w @ k.T - k.square().sum() / 2).exp()).mean((1, 2))
    exact = float((q @ k.T).exp())
    assert float(estimate.mean()) == pytest.approx(exact, rel=0.02)
    relative = float(((estimate - exact) / exact).square().mean())
    assert relative <= (math.exp(float((q + k).square().sum())) - 1) / R * 1.1


def test_what_cannot_be_done_is_said():
    q = draw(4, 2)
    with pytest.raises(InputError, match="keep: expected an integer of at least 1"):
        sparse_attention(q, q, q, 0)
    with pytest.raises(InputError, match="bias: kernelized linear attention does not support one"):
        linear_attention(q, q, q, 8, bias=q @ q.T)
    with pytest.raises(InputError, match="mask: kernelized linear attention takes a mask of keys"):
        linear_attention(q, q, q, 8, mask=~torch.eye(4, dtype=torch.bool))
    with pytest.raises(InputError, match="score: expected one of"):
        MultiheadAttention(4, 2, score="cosine")
    with pytest.raises(InputError, match="combine: expected the learned vectors of score='additive'"):
        score_terms(q, q, "additive")
    with pytest.raises(InputError, match="window: .* at most"):
        cheaper_attention(window=8, keep=3)
    with pytest.raises(InputError, match="keep: .* got 0"):
        cheaper_attention(keep=0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n, window", [(1, 3), (7, 1), (23, 4), (24, 4), (9, 20)])
def test_attention_within_a_window_is_attention_under_its_mask(n, window, causal):
    generator = torch.Generator().manual_seed(n)
    q, k = (torch.randn(2, 3, n, 4, generator=generator, dtype=torch.float64) for _ in "qk")
    v = torch.randn(2, 1, n, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    near = local_mask(n, window) & (causal_mask(n) if causal else torch.tensor(True))
    keys = torch.rand(2, 1, 1, n, generator=generator) < 0.7
    for mask in (None, keys):
        found = local_attention(q, k, v, window, causal=causal, mask=mask, scale=0.7)
        expected = attention(q, k, v, mask=near if mask is None else near & mask, scale=0.7)
        torch.testing.assert_close(found, expected)
        slopes = [torch.autograd.grad(out.square().sum(), v)[0] for out in (found, expected)]
        torch.testing.assert_close(*slopes)
    one = local_attention(q[0, 0], k[0, 0], v[0, 0], window, causal=causal)
    torch.testing.assert_close(one, attention(q[0, 0], k[0, 0], v[0, 0], mask=near))


def test_bad_windows_are_refused():
    q = torch.zeros(4, 2)
    with pytest.raises(InputError, match="window: .* at least 1, got 0"):
        local_attention(q, q, q, 0)


def test_a_window_with_a_bias_pairs_or_later_queries_is_attention_under_its_mask():
    q, k, v, pairs = draw(5, 4), draw(8, 4, seed=1), draw(8, 3, seed=2), draw(5, 8, seed=3)
    near = local_mask(5, 2, 8) & causal_mask(5, 8)
    for extra in ({}, {"bias": pairs}, {"mask": pairs > -1}):
        mask = near & extra.get("mask", torch.tensor(True))
        wanted = attention(q, k, v, mask=mask, bias=extra.get("bias"), return_weights=True)
        found = local_attention(q, k, v, 2, causal=True, **extra, return_weights=True)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(local_attention(q, k, v, 2, causal=True, **extra), wanted[0])


@pytest.mark.parametrize("score", SCORES)
def test_scores_are_divided_by_the_temperature(score):
    q, k, bias = draw(2, 3, 4), draw(2, 5, 4, seed=1), draw(3, 5, seed=2)
    combine = draw(2, 4, seed=3)
    cold, warm = (score_terms(q, k, score, combine=combine, bias=bias, temperature=t) for t in (1.0, 2.5))

    def scores(terms):  # of every pair, up to a constant of the row
        return attention_weights(**terms).log() - bias

    expected = scores(cold) / 2.5
    found = scores(warm)
    torch.testing.assert_close(found - found[..., :1], expected - expected[..., :1])
    with pytest.raises(InputError, match="temperature: expected a positive number, got 0"):
        score_terms(q, k, score, combine=combine, temperature=0)


def test_kernel_weights_are_shares_or_sums_of_scores():
    kernel = torch.exp(-draw(4, 6).square())
    may = torch.rand(4, 6, generator=torch.Generator().manual_seed(0)) < 0.6
    may[2] = False
    value = draw(6, 2, seed=1)
    sums = kernel_weights(kernel, mask=may, normalise=False) @ value
    means = kernel_weights(kernel, mask=may) @ value
    for i in range(4):
        found = [kernel[i, j] * value[j] for j in range(6) if may[i, j]]
        total = sum(kernel[i, j] for j in range(6) if may[i, j])
        torch.testing.assert_close(sums[i], sum(found, torch.zeros(2, dtype=torch.float64)))
        torch.testing.assert_close(
            means[i], sums[i] / total if total else torch.zeros(2, dtype=torch.float64)
        )
    nothing = torch.zeros(
        4, 1, dtype=torch.float64
    )  # with a Gaussian score, these are the weights of attention
    torch.testing.assert_close(
        kernel_weights(kernel, mask=may),
        attention_weights(nothing, torch.zeros(6, 1), mask=may, bias=kernel.log()),
    )
    with pytest.raises(InputError, match="scores: .* got -1.*normalise=False"):
        kernel_weights(-torch.ones(2, 2))


def test_scores_may_be_negative_where_sums_are_not_normalised():
    x, y, may = draw(6, 3), draw(6, 2, seed=1), causal_mask(6)
    literal = torch.stack([sum((x[i] @ x[j]) * y[j] for j in range(i + 1)) for i in range(6)])
    assert (x @ x.T < 0).any()
    torch.testing.assert_close(kernel_weights(x @ x.T, mask=may, normalise=False) @ y, literal)
    found, weights = kernel_attention(x, x, y, mask=may, scale=1.0, return_weights=True)
    torch.testing.assert_close(found, literal)
    torch.testing.assert_close(weights, (x @ x.T).tril())
    layer = MultiheadAttention(4, 2, attend=kernel_attention, score="dot_product").double()
    rows = draw(5, 4, seed=2)
    output, weights = layer(rows, mask=causal_mask(5), return_weights=True)
    query, key = (p(rows).unflatten(-1, (2, 2)).transpose(0, 1) for p in (layer.query, layer.key))
    torch.testing.assert_close(weights, (query @ key.mT).tril())
    torch.testing.assert_close(layer(rows, mask=causal_mask(5)), output)


MEMORY = """
import resource, torch
from peerattn import nn
torch.set_num_threads(1)
q, k, v = (torch.randn(1, 2, 4000, 16, generator=torch.Generator().manual_seed(s), requires_grad=True) for s in range(3))
nn.sparse_attention(q[:, :, :200], k[:, :, :200], v[:, :, :200], 16, causal=True).sum().backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
nn.sparse_attention(q, k, v, 16, causal=True).square().sum().backward()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is measured in Linux's units")
def test_the_gradient_of_sparse_attention_takes_memory_linear_in_the_rows():
    # Freed arrays go back at once: what is measured is what is held, not what the allocator keeps.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    run = [sys.executable, "-c", MEMORY]
    found = subprocess.run(run, capture_output=True, text=True, check=True, env=environment)
    assert float(found.stdout) < 50  # of all pairs: 128 MB of weights, .8 GB with what they came from


def test_the_gradient_of_sparse_attention_is_that_of_its_kept_keys():
    q, k, v = (draw(150, 4, seed=seed).requires_grad_() for seed in range(3))
    kept = torch.zeros(150, 150, dtype=torch.bool)
    kept.scatter_(1, (q @ k.T).topk(7).indices, True)
    found, wanted = sparse_attention(q, k, v, 7), attention(q, k, v, mask=kept, return_weights=True)[0]
    torch.testing.assert_close(found, wanted)
    slopes = (torch.autograd.grad(out.square().sum(), (q, k, v)) for out in (found, wanted))
    for one, other in zip(*slopes):
        torch.testing.assert_close(one, other)
