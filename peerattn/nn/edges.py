"""Attention along given edges: softmax over edge lists, never a row for every pair."""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from peerattn.exceptions import check_at_least, check_one_of, expect
from peerattn.nn.attention import check_shapes, scale_of
from peerattn.nn.linear import Dropout, linear, normal, split_heads


def edge_softmax(scores: Tensor, rows: Tensor, n_rows: int) -> Tensor:
    r"""Return the weights of edges: the softmax over the edges that leave one row.

    .. math:: \alpha_e = \frac{\exp s_e}{\sum_{f : i(f) = i(e)} \exp s_f}

    Parameters
    ----------
    scores : Tensor, shape (..., n_edges)
        :math:`s_e`; ``-inf`` excludes an edge.
    rows : Tensor of int64, shape (n_edges,)
        The row i(e) that looks along edge e, in any order.
    n_rows : int
        Number of rows; those without edges are allowed.

    Returns
    -------
    Tensor, shape (..., n_edges)
        The weights of every row's edges sum to one; all zeros, with zero gradient, where all are excluded.
        Half-precision scores are computed and returned in float32.

    Notes
    -----
    Takes O(n_edges + n_rows) time and memory.

    Examples
    --------
    >>> edge_softmax(torch.tensor([0.0, 0.0, 5.0]), torch.tensor([0, 0, 1]), 2)
    tensor([0.5000, 0.5000, 1.0000])
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    expect(rows.shape == scores.shape[-1:], "rows", f"one row per edge {tuple(scores.shape[-1:])}", tuple(rows.shape))
    lead = scores.shape[:-1]
    index = rows.expand_as(scores)
    # softmax is stable when the largest score of a row is taken off
    largest = scores.new_full((*lead, n_rows), -math.inf).scatter_reduce(-1, index, scores.detach(), "amax")
    largest = largest.clamp_min(torch.finfo(scores.dtype).min)  # finite where all edges are excluded
    share = (scores - largest.gather(-1, index)).exp()
    total = share.new_zeros(*lead, n_rows).scatter_add(-1, index, share)
    return share / total.clamp_min(torch.finfo(scores.dtype).tiny).gather(-1, index)


def edge_mean(weights: Tensor, value: Tensor, edges: Tensor, n_queries: int) -> Tensor:
    r"""Return every query's weighted sum of the values at the other end of its edges.

    .. math:: o_i = \sum_{e : i(e) = i} \alpha_e v_{j(e)}

    Parameters
    ----------
    weights : Tensor, shape (..., n_edges)
        :math:`\alpha_e`.
    value : Tensor, shape (..., n_keys, d_value)
        :math:`v_j`.
    edges : Tensor of int64, shape (2, n_edges)
        i(e) attends to j(e).
    n_queries : int
        Number of rows of the output; those without edges are zero.

    Returns
    -------
    Tensor, shape (..., n_queries, d_value)

    Examples
    --------
    >>> edges = torch.tensor([[0, 0], [0, 1]])
    >>> edge_mean(torch.tensor([0.25, 0.75]), torch.tensor([[4.0], [8.0]]), edges, 2)
    tensor([[7.],
            [0.]])
    """
    expect(edges.ndim == 2 and len(edges) == 2, "edges", "shape (2, n_edges)", tuple(edges.shape))
    # one product an edge, summed by its query: no matrix of all pairs
    parts = weights[..., None].to(value.dtype) * value.index_select(-2, edges[1])  # (..., E, d_value)
    return parts.new_zeros(*parts.shape[:-2], n_queries, parts.shape[-1]).index_add(-2, edges[0], parts)


def edge_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    edges: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Return what `attention` does with a mask that is True along the edges, without that mask.

    .. math:: o_i = \sum_{e : i(e) = i} \alpha_e v_{j(e)}, \qquad
              \alpha_e \propto \exp(s\, q_{i(e)}' k_{j(e)} + b_e)

    Parameters
    ----------
    query : Tensor, shape (..., n_queries, d)
    key : Tensor, shape (..., n_keys, d)
    value : Tensor, shape (..., n_keys, d_value)
        As in `attention`.
    edges : Tensor of int64, shape (2, n_edges)
        Query ``edges[0, e]`` may attend to key ``edges[1, e]``. A pair that occurs twice counts twice.
    bias : Tensor broadcastable to (..., n_edges), default None
        :math:`b_e`, added to the scores.
    scale : float, default None
        :math:`s`; None means :math:`1/\sqrt{d}`.
    return_weights : bool, default False
        Also return the weights of the edges.

    Returns
    -------
    output : Tensor, shape (..., n_queries, d_value)
        A query without edges is all zeros.
    weights : Tensor, shape (..., n_edges)
        Only with ``return_weights=True``.

    Raises
    ------
    InputError
        When edges are not two rows of int64, or name a query or key that is not there.

    Notes
    -----
    Takes O(n_edges d) time and memory, with and without weights.

    Examples
    --------
    >>> x = torch.eye(3)
    >>> edge_attention(x, x, x, torch.tensor([[0, 1, 1], [1, 0, 2]]))
    tensor([[0.0000, 1.0000, 0.0000],
            [0.5000, 0.0000, 0.5000],
            [0.0000, 0.0000, 0.0000]])
    """
    check_shapes(query, key, None, None)
    check_edges(edges, query.shape[-2], key.shape[-2])
    n_values = value.shape[-2]
    expect(n_values == key.shape[-2], "value", f"one row per key ({key.shape[-2]})", n_values, "Pass those of the keys.")
    scale = scale_of(query, scale)
    querying = query.index_select(-2, edges[0])
    attended = key.index_select(-2, edges[1])  # (..., E, d)
    scores = scale * (querying * attended).sum(-1)
    if bias is not None:
        one = bias.ndim == 0 or bias.shape[-1] in (1, scores.shape[-1])
        expect(one, "bias", f"one number per edge ({scores.shape[-1]})", tuple(bias.shape))
        scores = scores + bias
    weights = edge_softmax(scores, edges[0], query.shape[-2])
    output = edge_mean(weights, value, edges, query.shape[-2])
    if return_weights:
        return output, weights
    return output


class GraphAttention(nn.Module):
    r"""Graph attention with several heads: attention along edges.

    .. math:: \operatorname{out}_i = b + \big\Vert_h \sum_{e : i(e) = i} \alpha^h_e W^h x_{j(e)}, \qquad
              \alpha^h_e \propto \exp \operatorname{LeakyReLU}\big(a_h' W^h x_{i(e)} + c_h' W^h x_{j(e)}\big)

    Parameters
    ----------
    d_input : int
        Width of x.
    n_heads : int
        Number of heads H.
    d_head : int
        Width of each head's values.
    heads : {"concatenate", "mean"}, default "concatenate"
        How the heads' results become one row of width ``n_heads * d_head`` or ``d_head``.
    slope : float, default 0.2
        Of the LeakyReLU below zero.
    dropout : float, default 0
        Share of values and of weights set to zero in training.
    generator : torch.Generator, default None
        Draws the initial weights; None: a new generator with torch's fixed default seed.

    Raises
    ------
    InputError
        When heads is unknown.

    Notes
    -----
    With these scores every row ranks the others alike; with those of queries and keys, `edge_attention`, it need not.

    References
    ----------
    Veličković et al. (2018), Graph attention networks, ICLR. Brody, Alon and Yahav (2022), How attentive are graph
    attention networks?, ICLR.

    Examples
    --------
    >>> layer, edges = GraphAttention(4, n_heads=2, d_head=3), torch.tensor([[0, 1], [1, 0]])
    >>> output, weights = layer(torch.eye(4), edges, return_weights=True)
    >>> output.shape, weights.shape
    (torch.Size([4, 6]), torch.Size([2, 2]))
    """

    def __init__(
        self,
        d_input: int,
        n_heads: int,
        d_head: int,
        *,
        heads: Literal["concatenate", "mean"] = "concatenate",
        slope: float = 0.2,
        dropout: float = 0.0,
        generator: Generator | None = None,
    ):
        super().__init__()
        check_at_least(1, d_input=d_input, n_heads=n_heads, d_head=d_head)
        check_one_of(heads=(heads, ["concatenate", "mean"]))
        generator = generator or Generator()
        self.n_heads = n_heads
        self.d_head = d_head
        self.slope = slope
        self.heads = heads
        self.value = linear(d_input, n_heads * d_head, bias=False, generator=generator)
        self.combine = normal(n_heads, 2 * d_head, std=math.sqrt(2 / (d_head + 1)), generator=generator)
        self.bias = nn.Parameter(torch.zeros(d_head * (n_heads if heads == "concatenate" else 1)))
        self.drop_value = Dropout(dropout, generator=generator)
        self.drop_weights = Dropout(dropout, generator=generator)

    def forward(self, x: Tensor, edges: Tensor, *, return_weights: bool = False) -> Any:
        """Let every row of x attend along its edges.

        Parameters
        ----------
        x : Tensor, shape (n, d_input)
            Dense, or sparse of a layout that torch can multiply.
        edges : Tensor of int64, shape (2, n_edges)
            Row ``edges[0, e]`` attends to row ``edges[1, e]``; include the pairs (i, i) if a row is to attend to itself.
        return_weights : bool, default False
            Also return each head's weights.

        Returns
        -------
        output : Tensor, shape (n, n_heads * d_head) or (n, d_head)
        weights : Tensor, shape (n_heads, n_edges)
            Only with ``return_weights=True``; before dropout.
        """
        check_edges(edges, len(x), len(x))
        # projected once a node, whatever its number of edges
        value = split_heads(x @ self.value.weight.T, self.d_head)  # (H, n, d)
        # a'[Wh_i, Wh_j] = a_1'Wh_i + a_2'Wh_j: one number a node instead of one vector an edge
        a, b = self.combine.chunk(2, dim=-1)  # (H, d) each
        querying = (value * a[:, None]).sum(-1)
        attended = (value * b[:, None]).sum(-1)  # (H, n)
        scores = F.leaky_relu(querying[:, edges[0]] + attended[:, edges[1]], self.slope)
        weights = edge_softmax(scores, edges[0], len(x))  # (H, E)
        found = edge_mean(self.drop_weights(weights), self.drop_value(value), edges, len(x))  # (H, n, d)
        joined = found.mean(0) if self.heads == "mean" else found.transpose(0, 1).flatten(1)
        output = joined + self.bias
        if return_weights:
            return output, weights
        return output


def check_edges(edges: Tensor, n_queries: int, n_keys: int) -> None:
    """Raise an InputError unless edges are two rows of int64 that name existing queries and keys.

    Examples
    --------
    >>> check_edges(torch.tensor([[0], [3]]), 2, 3)
    Traceback (most recent call last):
    ...
    peerattn.exceptions.InputError: edges: expected numbers from 0 to 2 in row 1, got 3. Rows are numbered from 0.
    """
    right = edges.ndim == 2 and len(edges) == 2 and edges.dtype == torch.int64
    came = f"{edges.dtype} of shape {tuple(edges.shape)}"
    expect(right, "edges", "int64 of shape (2, n_edges)", came, "Row 0 has the queries, row 1 the keys.")
    for row, (numbers, n) in enumerate(zip(edges, (n_queries, n_keys), strict=True)):
        outside = numbers[(numbers < 0) | (numbers >= n)]
        first = next(iter(outside.tolist()), None)
        expect(first is None, "edges", f"numbers from 0 to {n - 1} in row {row}", first, "Rows are numbered from 0.")
