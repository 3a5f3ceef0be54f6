"""Attention as two pure functions: the weights, and the weighted mean of the values."""

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from peerattn.exceptions import InputError, expect

NARROW = 16  # columns below which the fast kernel of a CPU is slower than at so many


def attention_weights(
    query: Tensor, key: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None, scale: float | None = None
) -> Tensor:
    r"""Return the weights of every query on every key.

    .. math:: \alpha_{ij} = \frac{m_{ij} \exp(s\, q_i' k_j + b_{ij})}
              {\sum_l m_{il} \exp(s\, q_i' k_l + b_{il})}

    Parameters
    ----------
    query : Tensor, shape (..., n_queries, d)
        What each row looks for, :math:`q_i`.
    key : Tensor, shape (..., n_keys, d)
        How each row presents itself, :math:`k_j`. Leading dimensions broadcast with those of ``query``.
    mask : bool Tensor broadcastable to (..., n_queries, n_keys), default None
        :math:`m_{ij}`: True where query i may attend to key j. None: everywhere.
    bias : Tensor broadcastable to (..., n_queries, n_keys), default None
        :math:`b_{ij}`, added to the scores; ``-inf`` excludes like a mask.
    scale : float, default None
        :math:`s`; None means :math:`1/\sqrt{d}`.

    Returns
    -------
    Tensor, shape (..., n_queries, n_keys)
        Rows sum to one. A row that may attend to nothing is all zeros, with zero gradient.
        Half-precision inputs are computed and returned in float32.

    Raises
    ------
    InputError
        When widths differ, or the mask is not boolean or does not broadcast.

    Notes
    -----
    Takes O(n_queries n_keys) memory; `attention` without weights does not.

    References
    ----------
    Vaswani et al. (2017), Attention is all you need, section 3.2.1.

    Examples
    --------
    >>> query = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> may_attend = torch.tensor([[True, False], [True, True]])
    >>> attention_weights(query, query, mask=may_attend, scale=1.0)
    tensor([[1.0000, 0.0000],
            [0.2689, 0.7311]])
    """
    check_shapes(query, key, mask, bias)
    # softmax in half precision loses small weights
    dtype = torch.promote_types(query.dtype, torch.float32)
    scale = scale_of(query, scale)
    # queries are scaled, not scores, of which there are more
    scores = (query.to(dtype) * scale) @ key.to(dtype).mT  # (..., Nq, Nk)
    if mask is None and bias is None:
        return scores.softmax(-1)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    # a row that may attend to nobody: softmax would give NaN, its gradient, too
    empty = (scores == -math.inf).all(-1, keepdim=True)  # (..., Nq, 1)
    return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Return every query's weighted mean of the values.

    .. math:: o_i = \sum_j \alpha_{ij} v_j

    Parameters
    ----------
    query, key, mask, bias, scale
        As in `attention_weights`, which defines :math:`\alpha_{ij}`.
    value : Tensor, shape (..., n_keys, d_value)
        What each row contributes, :math:`v_j`; its width need not be that of the keys.
    return_weights : bool, default False
        Also return the weights. They are then computed as a dense array.

    Returns
    -------
    output : Tensor, shape (..., n_queries, d_value)
        A row that may attend to nothing is all zeros.
    weights : Tensor, shape (..., n_queries, n_keys)
        Only with ``return_weights=True``.

    Raises
    ------
    InputError
        When shapes do not fit, or the mask is not boolean.

    Notes
    -----
    Without weights this is `torch.nn.functional.scaled_dot_product_attention`, whose fast kernel (FlashAttention: Dao et al.
    2022, NeurIPS) takes O(n) memory. On a CPU it needs 4-D inputs of one width, and is slower below 16 columns than at 16: inputs
    are reshaped, and what is narrower is padded with zeros. A bias that needs a gradient leaves the fast kernel: put it into
    extra columns of query and key if it can be written as an inner product.

    Examples
    --------
    >>> query, key = torch.zeros(1, 2), torch.zeros(4, 2)
    >>> attention(query, key, torch.tensor([[1.0], [2.0], [3.0], [6.0]]))
    tensor([[3.]])
    """
    check_shapes(query, key, mask, bias)
    n_keys = key.shape[-2]
    expect(value.ndim > 1, "value", "at least two dimensions (rows, width)", tuple(value.shape))
    n_values = value.shape[-2]
    expect(n_values == n_keys, "value", f"one row per key ({n_keys})", n_values, "Pass those of the keys.")
    if return_weights:
        weights = attention_weights(query, key, mask=mask, bias=bias, scale=scale)
        return (weights @ value.to(weights.dtype)).to(value.dtype), weights

    scale = scale_of(query, scale)
    # the fast kernel takes exactly four dimensions: others are folded into the first
    lead = leading(query, key, value)
    d_value = value.shape[-1]
    # the fast kernel wants queries, keys and values of one width: zeros change no score
    width = max(query.shape[-1], d_value, NARROW)
    query, key, value = (_as_4d(_pad(x, width), lead) for x in (query, key, value))
    allowed = _combine(mask, bias, query.dtype)
    if allowed is not None:
        allowed = torch.atleast_2d(allowed)
        allowed = _as_4d(allowed.expand(*allowed.shape[:-2], query.shape[-2], n_keys), lead)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=scale)
    # output (B, H, Nq, width)
    return output.reshape(*lead, *output.shape[-2:])[..., :d_value]


def scale_of(query: Tensor, scale: float | None) -> float:
    """Return what scores are multiplied by."""
    if scale is None:
        return 1 / math.sqrt(query.shape[-1])
    expect(math.isfinite(scale), "scale", "a finite number", scale)
    return scale


def leading(*tensors: Tensor) -> torch.Size:
    """Return the common dimensions before rows and columns (torch's broadcast_shapes imports sympy, a third of a second)."""
    sizes = [*zip_longest(*(x.shape[-3::-1] for x in tensors), fillvalue=1)]
    found = [next((n for n in each if n != 1), 1) for each in sizes]
    if not all(n in (1, size) for each, size in zip(sizes, found) for n in each):
        shapes = " and ".join(str(tuple(x.shape)) for x in tensors)
        raise InputError(f"query, key and value: expected dimensions before the rows that broadcast, got {shapes}.")
    return torch.Size(found[::-1])


def _pad(x: Tensor, width: int) -> Tensor:
    if x.shape[-1] == width:
        return x
    return F.pad(x, (0, width - x.shape[-1]))


def _as_4d(x: Tensor, lead: torch.Size) -> Tensor:
    """Give x the leading dimensions ``lead``, brought to exactly two: (B, H, rows, columns)."""
    *batch, n_heads = (1, *lead)
    x = x.expand(*lead, *x.shape[-2:]).reshape(math.prod(batch), n_heads, *x.shape[-2:])
    # the fast kernel needs contiguous rows
    if x.stride(-1) != 1:
        x = x.contiguous()
    return x


def _combine(mask: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to the scores: the bias, and −∞ where a query may not attend.

    Before heads are broadcast: given a bool mask, the fast kernel would make one such array for every head.
    """
    if bias is not None:
        bias = bias.to(dtype)
    if mask is None:
        return bias
    if bias is None:
        bias = mask.new_zeros((), dtype=dtype)
    return torch.where(mask, bias, -math.inf)


def check_shapes(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None) -> None:
    """Raise an InputError unless queries, keys, mask and bias fit each other."""
    if query.ndim < 2 or key.ndim < 2:
        both = f"{tuple(query.shape)} and {tuple(key.shape)}"
        raise InputError(f"query and key: expected at least two dimensions (rows, width), got {both}. Add it: query[None].")
    d = query.shape[-1]
    d_key = key.shape[-1]
    expect(d_key == d, "key", f"the width of the queries ({d})", d_key, "Project both to one width.")
    check_pairs(mask, bias, (*leading(query, key), query.shape[-2], key.shape[-2]))


def check_pairs(mask: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> None:
    """Raise an InputError unless mask and bias fit scores of this shape."""
    wanted = tuple(shape)
    if mask is not None:
        what = "a bool tensor (True = may attend)"
        expect(mask.dtype == torch.bool, "mask", what, mask.dtype, "Pass numbers as bias instead.")
    remedy = "Its last two dimensions are queries and keys; add those of length 1 for batch and heads."
    for name, extra in (("mask", mask), ("bias", bias)):
        if extra is None:
            continue
        got = tuple(extra.shape)
        fits = all(g in (1, w) for g, w in zip(reversed(got), reversed(wanted), strict=False))
        if not fits or len(got) > len(wanted):
            raise InputError(f"{name}: expected a shape that broadcasts to {wanted}, got {got}. {remedy}")
