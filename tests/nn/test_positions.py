"""Masks, positions and biases: what they are, and that position-only attention is convolution."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from peerattn.exceptions import InputError
from peerattn.nn import (
    Encoder,
    InputEmbedding,
    LearnedPositions,
    LearnedPositions2d,
    MultiheadAttention,
    PairBias,
    TokenEmbedding,
    attention,
    attention_weights,
    block_mask,
    causal_mask,
    hop_distance,
    local_mask,
    padding_mask,
    relative_distance,
    rotary,
    sinusoidal_positions,
)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_masks_against_plain_loops():
    n, groups = 6, torch.tensor([0, 0, 1, 2, 2, 2])
    for i in range(n):
        for j in range(n):
            assert causal_mask(n)[i, j] == (j <= i)
            assert local_mask(n, 2)[i, j] == (abs(i - j) <= 2)
            assert block_mask(groups)[i, j] == (groups[i] == groups[j])
    assert torch.equal(causal_mask(2, 6), causal_mask(6)[4:])
    assert padding_mask(torch.tensor([2, 0]), 3).squeeze().tolist() == [[True, True, False], [False] * 3]
    with pytest.raises(InputError, match="n_keys: expected at least n_queries=3, got 2"):
        causal_mask(3, 2)
    with pytest.raises(InputError, match="n_keys: expected at least n_queries=3, got 2"):
        local_mask(3, 1, 2)
    assert torch.equal(local_mask(2, 1, 6), local_mask(6, 1)[4:])
    assert padding_mask(torch.zeros(0, dtype=torch.int64)).shape == (0, 1, 1, 0)
    with pytest.raises(InputError, match="window: expected"):
        local_mask(3, -1)


def test_the_causal_mask_keeps_the_future_out():
    stack, x = Encoder(2, 8, 2).double(), draw(1, 5, 8)
    later = x.clone()
    later[:, 3:] += 1
    mask = causal_mask(5)
    torch.testing.assert_close(stack(later, mask=mask)[:, :3], stack(x, mask=mask)[:, :3], rtol=0, atol=0)


def test_sinusoids_against_the_formula():
    want = [
        [np.sin(t / 10000 ** (2 * (k // 2) / 6)) if k % 2 == 0 else np.cos(t / 10000 ** (2 * (k // 2) / 6)) for k in range(6)]
        for t in range(3, 8)
    ]  # fmt: skip
    np.testing.assert_allclose(sinusoidal_positions(5, 6, start=3).numpy(), want, atol=1e-5)
    with pytest.raises(InputError, match="d_model or d_head: expected an even width"):
        sinusoidal_positions(2, 5)


def test_rotary_scores_depend_on_the_distance_only():
    q, k = draw(1, 8).expand(9, 8), draw(1, 8, seed=1).expand(9, 8)
    scores = rotary(q) @ rotary(k).T
    for offset in range(-8, 9):
        diagonal = scores.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    torch.testing.assert_close(rotary(q, start=100) @ rotary(k, start=100).T, scores)
    torch.testing.assert_close(rotary(q).norm(dim=-1), q.norm(dim=-1))
    turned = torch.view_as_complex(q.reshape(9, 4, 2).contiguous()) * torch.exp(
        1j * torch.arange(9)[:, None] * 10_000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    )
    torch.testing.assert_close(rotary(q), torch.view_as_real(turned).flatten(1), rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="memory: expected None with rotary positions"):
        MultiheadAttention(4, 2, rotary=True)(torch.zeros(2, 4), memory=torch.zeros(3, 4))


def test_learned_positions_end():
    table = LearnedPositions(4, 2)
    assert torch.equal(table(2, start=2), table.weight[2:])
    with pytest.raises(InputError, match="sequence: expected at most 4 positions, got 5"):
        table(3, start=2)
    grid = LearnedPositions2d(2, 3, 4)
    torch.testing.assert_close(grid()[1 * 3 + 2], grid.rows[1] + grid.columns[2])


def test_an_embedding_is_one_hot_times_a_matrix():
    embedding, symbols = TokenEmbedding(7, 4), torch.tensor([[3, 0, 6], [1, 1, 2]])
    torch.testing.assert_close(embedding(symbols), F.one_hot(symbols, 7).float() @ embedding.weight)
    torch.testing.assert_close(embedding.logits(embedding(symbols)), embedding(symbols) @ embedding.weight.T)
    reading = InputEmbedding(7, 4, 5, n_segments=2, norm=True)
    segments = torch.tensor([[0, 0, 1], [0, 1, 1]])
    summed = reading.tokens(symbols) + reading.learned(3) + reading.segments(segments)
    torch.testing.assert_close(reading(symbols, segments=segments), F.layer_norm(summed, (4,)))
    with pytest.raises(InputError, match=r"positions must be one of \['learned'"):
        InputEmbedding(7, 4, 5, positions="absolute")


def test_one_mechanism_for_distances_hops_and_pair_vectors():
    bias = PairBias(5, 2).double()
    with torch.no_grad():
        bias.weight.copy_(draw(5, 2))
    codes = relative_distance(4, 2)
    torch.testing.assert_close(bias(codes), bias(F.one_hot(codes, 5).double()))
    for i in range(4):
        for j in range(4):
            assert codes[i, j] == max(-2, min(2, j - i)) + 2
            torch.testing.assert_close(bias(codes)[:, i, j], bias.weight[codes[i, j]])
    x = draw(3, 4, 8)
    layer = MultiheadAttention(8, 2).double()
    torch.testing.assert_close(layer(x, bias=PairBias(5, 2).double()(codes)), layer(x))


def test_hops_equal_shortest_paths():
    graph = nx.gnp_random_graph(12, 0.12, seed=3, directed=True)
    found = hop_distance(torch.tensor(nx.to_numpy_array(graph)) > 0, 3)
    paths = dict(nx.all_pairs_shortest_path_length(graph))
    want = [[min(paths[i].get(j, 4), 4) for j in graph] for i in graph]
    assert found.tolist() == want


def test_attention_by_position_alone_is_convolution():
    """Scores that depend on the distance only give a Toeplitz matrix: on a ring, a circular convolution exactly."""
    n, d = 10, 3
    kernel = draw(n)
    offset = (torch.arange(n) - torch.arange(n)[:, None]) % n  # (i, j) -> j - i round the ring
    nothing = torch.zeros(n, 1, dtype=torch.float64)
    weights = attention_weights(nothing, nothing, bias=kernel[offset])
    for i in range(n):
        torch.testing.assert_close(weights[i], weights[0].roll(i))
    x = draw(n, d, seed=1)
    padded = torch.cat([x, x[:-1]]).T[:, None]  # (d, 1, 2n - 1)
    convolved = F.conv1d(padded, kernel.softmax(0)[None, None])[:, 0].T
    torch.testing.assert_close(attention(nothing, nothing, x, bias=kernel[offset]), convolved)
    # on a line with a window: Toeplitz away from the ends
    bias, window = PairBias(5, 1).double(), 2
    with torch.no_grad():
        bias.weight.copy_(draw(5, 1, seed=2))
    line = attention_weights(nothing, nothing, bias=bias(relative_distance(n, window))[0], mask=local_mask(n, window))
    inner = line[window : n - window]
    for k in range(1, len(inner)):
        torch.testing.assert_close(inner[k], inner[0].roll(k))
    convolved = F.conv1d(x.T[:, None], bias.weight.softmax(0).T[None])[:, 0].T
    torch.testing.assert_close((line @ x)[window : n - window], convolved)
