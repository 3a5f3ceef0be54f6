"""Arguments of the core whose values cannot be right are errors that name them, and never a silent result."""

from __future__ import annotations

import math

import pytest
import torch

from peerattn import nn
from peerattn.exceptions import InputError

Q, K, V = torch.ones(3, 4), torch.ones(5, 4), torch.ones(5, 6)
EDGES = torch.tensor([[0, 1], [4, 2]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.MultiheadAttention(8, 2, temperature=0.0), "temperature: expected a positive number"),
        (lambda: nn.TokenEmbedding(3, 2, std=-1.0), "std: expected a number of at least 0"),
        (lambda: nn.InputEmbedding(3, 2, 4)(EDGES[:1], segments=EDGES[:1]), "segments: expected None of an embedding"),
        (lambda: nn.LearnedPositions(4, 2)(1, -1), "start: expected an integer of at least 0, got -1"),
        (lambda: nn.causal_mask(-1), "n_queries: expected an integer of at least 0"),
        (lambda: nn.attention(Q, K, V, scale=math.inf), "scale: expected a finite number, got inf"),
        (lambda: nn.padding_mask(torch.tensor([0.5])), "lengths: expected whole numbers"),
        (lambda: nn.relative_distance(3, -1), "longest: expected an integer of at least 0"),
        (lambda: nn.hop_distance(torch.ones(2, 2), 1), "adjacency: expected a bool tensor"),
        (lambda: nn.most_important(torch.ones(3), -1), "n_keep: expected a number of heads from 0 to 3, got -1"),
        (lambda: nn.take_heads(torch.ones(7, 2), 0, 2, torch.tensor([0])), "parameter: expected a multiple of n_heads=2"),
        (lambda: nn.keep_heads(nn.MultiheadAttention(8, 2), {"": [0]}), "module: expected a module that holds the layer"),
        (lambda: nn.top_k_weights(Q, K, 2, block_size=0), "block_size: expected an integer of at least 1"),
        # broadcasting, or columns left out, made silent results of these
        (lambda: nn.additive_scores(Q[None], K[None], torch.ones(1, 5)), r"combine: .* shape \(1, 4\), got \(1, 5\)"),
        (lambda: nn.additive_scores(Q[None], torch.ones(1, 5, 6), torch.ones(1, 4)), r"key: expected the width of the queries"),
        (lambda: nn.edge_attention(Q, K[:, :1], V, EDGES), r"key: expected the width of the queries"),
        (lambda: nn.edge_attention(Q, K, torch.ones(6, 2), EDGES), "value: expected one row per key"),
        (lambda: nn.edge_attention(Q, K, V, EDGES, bias=torch.ones(2, 3)), "bias: expected one number per edge"),
        (lambda: nn.edge_softmax(torch.ones(2), torch.tensor([0]), 1), "rows: expected one row per edge"),
        (lambda: nn.edge_mean(torch.ones(2), V, torch.ones(4, 2).long(), 3), "edges: expected shape"),
        (
            lambda: nn.kernel_weights(torch.ones(3, 1), mask=torch.ones(3, 5).bool()),
            r"mask: expected a shape that broadcasts to \(3, 1\)",
        ),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_distances_end_with_the_nodes_and_positions_may_be_large():
    line = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).bool()
    assert nn.hop_distance(line, 10**15)[1].tolist() == [10**15 + 1, 0, 1]  # it counted to the longest
    assert nn.sinusoidal_positions(3, 4, start=2**40).shape == (3, 4)  # steps of single precision: none was left
