"""Attention along edges against plain loops and against the dense mask."""

from __future__ import annotations

import math

import pytest
import torch

from peerattn.exceptions import InputError
from peerattn.nn import GraphAttention, attention, edge_attention, edge_softmax


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_edges(n_queries: int, n_keys: int, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a random mask without anything in row 2, and its edges in random order."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(n_queries, n_keys, generator=generator) < 0.4
    mask[2] = False
    edges = mask.nonzero().T
    return mask, edges[:, torch.randperm(edges.shape[1], generator=generator)]


def test_equals_attention_with_a_mask_values_weights_and_gradients():
    mask, edges = some_edges(9, 7)
    inputs = [draw(2, 3, n, 5, seed=n + s).requires_grad_() for s, n in enumerate((9, 7, 7))]
    bias = draw(9, 7, seed=8)
    sparse, weights = edge_attention(*inputs, edges, bias=bias[edges[0], edges[1]], return_weights=True)
    dense, dense_weights = attention(*inputs, mask=mask, bias=bias, return_weights=True)
    torch.testing.assert_close(sparse, dense, rtol=0, atol=1e-14)
    torch.testing.assert_close(weights, dense_weights[..., edges[0], edges[1]], rtol=0, atol=1e-14)
    assert (sparse[..., 2, :] == 0).all()
    goal = draw(2, 3, 9, 5, seed=4)
    for one, two in zip(torch.autograd.grad((sparse * goal).sum(), inputs), torch.autograd.grad((dense * goal).sum(), inputs)):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-13)


def test_excluded_edges_weigh_nothing_and_carry_no_gradient():
    scores = torch.tensor([-math.inf, -math.inf, 1.0, -math.inf], requires_grad=True)
    weights = edge_softmax(scores, torch.tensor([0, 0, 1, 1]), 3)
    assert weights.tolist() == [0.0, 0.0, 1.0, 0.0]
    (weights * torch.arange(4.0)).sum().backward()
    assert scores.grad.tolist() == [0.0] * 4


def test_large_scores_do_not_overflow_and_half_precision_is_lifted():
    weights = edge_softmax(torch.tensor([1000.0, 1000.0, -1000.0]), torch.tensor([0, 0, 1]), 2)
    assert weights.tolist() == [0.5, 0.5, 1.0]
    assert edge_softmax(torch.zeros(1, dtype=torch.bfloat16), torch.tensor([0]), 1).dtype == torch.float32


@pytest.mark.parametrize("heads", ["concatenate", "mean"])
def test_graph_attention_is_the_papers_equation(heads):
    """Equations 3, 5 and 6 of Veličković et al. by loops."""
    _, edges = some_edges(6, 6)
    layer = GraphAttention(4, n_heads=2, d_head=3, heads=heads).double()
    x = draw(6, 4)
    output, weights = layer(x, edges, return_weights=True)
    W = layer.value.weight.unflatten(0, (2, 3))  # (H, d, d_input)
    by_head = []
    for h in range(2):
        z = x @ W[h].T
        rows = torch.zeros(6, 3, dtype=torch.float64)
        for i in range(6):
            to = edges[1, edges[0] == i]
            if len(to):
                score = torch.stack([layer.combine[h] @ torch.cat([z[i], z[j]]) for j in to])
                alpha = torch.where(score > 0, score, 0.2 * score).softmax(0)
                torch.testing.assert_close(weights[h, edges[0] == i], alpha, rtol=0, atol=1e-14)
                rows[i] = alpha @ z[to]
        by_head.append(rows)
    want = torch.cat(by_head, 1) if heads == "concatenate" else torch.stack(by_head).mean(0)
    torch.testing.assert_close(output, want + layer.bias, rtol=0, atol=1e-14)


def test_graph_attention_is_attention_with_leaky_relu_scores():
    mask, edges = some_edges(6, 6)
    layer, x = GraphAttention(4, n_heads=2, d_head=3).double(), draw(6, 4)
    value = (x @ layer.value.weight.T).unflatten(-1, (2, 3)).transpose(0, 1)
    a, b = layer.combine.chunk(2, dim=-1)
    scores = (value @ a[..., None]) + (value @ b[..., None]).mT
    scores = torch.nn.functional.leaky_relu(scores, 0.2)
    dense = attention(value * 0, value, value, mask=mask, bias=scores).transpose(0, 1).flatten(1)
    torch.testing.assert_close(layer(x, edges), dense + layer.bias, rtol=0, atol=1e-14)


def test_dropout_is_for_training_only_and_repeats_itself():
    _, edges = some_edges(6, 6)
    x, plain = draw(6, 4).float(), GraphAttention(4, 2, 3)
    layers = [GraphAttention(4, 2, 3, dropout=0.5) for _ in range(2)]
    trained = [layer(x, edges) for layer in layers]
    assert torch.equal(*trained) and not torch.equal(trained[0], plain(x, edges))
    assert torch.equal(layers[0].eval()(x, edges), plain(x, edges))


def test_sparse_rows_equal_dense_rows():
    _, edges = some_edges(6, 6)
    layer, x = GraphAttention(4, n_heads=2, d_head=3).double(), draw(6, 4)
    x[x < 0.5] = 0
    torch.testing.assert_close(layer(x.to_sparse(), edges), layer(x, edges), rtol=0, atol=1e-14)


def test_memory_is_linear_in_edges():
    """A ring of 300,000 rows: a dense mask would take 90 GB."""
    n = 300_000
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    x = torch.arange(n, dtype=torch.float32)[:, None]
    assert torch.equal(edge_attention(x, x, x, ring), x.roll(-1, 0))


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        (torch.tensor([[0.0], [1.0]]), "int64 of shape"),
        (torch.tensor([[0, 1, 2]]), "(2, n_edges)"),
        (torch.tensor([[0], [5]]), "0 to 4 in row 1, got 5"),
        (torch.tensor([[-1], [0]]), "0 to 4 in row 0, got -1"),
    ],
)
def test_bad_edges_are_named(edges, words):
    x = torch.zeros(5, 2)
    with pytest.raises(InputError) as caught:
        edge_attention(x, x, x, edges)
    assert words in str(caught.value)


def test_unknown_options_are_named():
    with pytest.raises(InputError, match="heads"):
        GraphAttention(4, 2, 3, heads="sum")
