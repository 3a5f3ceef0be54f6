"""Other scores, against plain loops."""

from __future__ import annotations

import math

import pytest
import torch

from peerattn.exceptions import InputError
from peerattn.nn import (
    MultiheadAttention,
    additive_scores,
    attention,
    attention_weights,
    causal_mask,
    kernel_attention,
    kernel_weights,
    score_terms,
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


def test_what_cannot_be_done_is_said():
    q = draw(4, 2)
    with pytest.raises(InputError, match="score: expected one of"):
        MultiheadAttention(4, 2, score="cosine")
    with pytest.raises(InputError, match="combine: expected the learned vectors of score='additive'"):
        score_terms(q, q, "additive")
    with pytest.raises(InputError, match=r"mask: expected a bool tensor"):
        kernel_attention(q, q, q, mask=torch.ones(4, 4))
    with pytest.raises(InputError, match=r"key: expected the width of the queries \(2\), got 1"):
        kernel_attention(q, q[:, :1], q)


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
        torch.testing.assert_close(means[i], sums[i] / total if total else torch.zeros(2, dtype=torch.float64))
    nothing = torch.zeros(4, 1, dtype=torch.float64)  # with a Gaussian score, these are the weights of attention
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
