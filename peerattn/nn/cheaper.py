"""Cheaper attention: to few keys (sparse), within a window (local), or by a feature map (linear in the rows)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torch.utils.checkpoint import checkpoint

from peerattn.exceptions import InputError, check_at_least, expect
from peerattn.nn.attention import attention, attention_weights, leading

STRETCH = 128  # rows per step


def cheaper_attention(
    *, window: int | None = None, keep: int | None = None, n_features: int | None = None, causal: bool = False
) -> Callable[..., Any]:
    """Return the attention that one of these options selects, as `MultiheadAttention` takes it.

    Parameters
    ----------
    window, keep, n_features : int, default None
        Of `local_attention`, `sparse_attention` and `linear_attention`. None of them: `attention` to all.
    causal : bool, default False
        With one of the three: whether rows attend to themselves and rows before only, without a mask.

    Returns
    -------
    callable
        With the arguments of `attention`.

    Raises
    ------
    InputError
        When more than one is given.

    Examples
    --------
    >>> x = torch.arange(3.0)[:, None]
    >>> cheaper_attention(window=1)(0 * x, 0 * x, x).flatten()
    tensor([0.5000, 1.0000, 1.5000])
    """
    options = {"window": window, "keep": keep, "n_features": n_features}
    ways: tuple[Callable[..., Any], ...] = (local_attention, sparse_attention, linear_attention)
    given = {name: (way, n) for way, (name, n) in zip(ways, options.items()) if n is not None}
    expect(len(given) <= 1, next(iter(given), ""), f"one of {list(options)} at most", list(given))
    for name, (way, n) in given.items():
        check_at_least(1, **{name: n})
        return partial(way, **{name: n}, causal=causal)
    return attention


def sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keep: int,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Attend to the ``keep`` keys of largest weight only.

    .. math:: \tilde\alpha_{ij} = \alpha_{ij} 1[j \in T_i] / m_i, \quad m_i = \sum_{j \in T_i} \alpha_{ij},
              \qquad \|\tilde o_i - o_i\| \le 2 (1 - m_i) \max_j \|v_j\|

    Parameters
    ----------
    query, key, value, mask, bias, scale
        As in `attention`.
    keep : int
        How many keys each query keeps, :math:`|T_i|`.
    causal : bool, default False
        Whether a query attends to its own row and to rows before it only, as `causal_mask` says.
    return_weights : bool, default False
        Also return the weights, an array of all pairs.

    Returns
    -------
    output : Tensor, shape (..., n_queries, d_value)
    weights : Tensor, shape (..., n_queries, n_keys)
        Only with ``return_weights=True``. Zero where a key was not kept; rows sum to one.

    Raises
    ------
    InputError
        When ``keep`` is less than one.

    Notes
    -----
    The error is bounded by the dropped mass :math:`1 - m_i`. Fewer neighbours, not fewer operations: all scores are
    computed, in stretches of 128 queries, so that memory is linear in the keys; for a gradient each stretch is
    computed a second time.

    References
    ----------
    Zhao et al. (2019), Explicit sparse transformer.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> sparse_attention(x, x, x, keep=1).flatten()
    tensor([0., 2., 2.])
    """
    check_at_least(1, keep=keep)
    if return_weights:
        attend = partial(sparse_attention, keep=keep, causal=causal, mask=mask, bias=bias, scale=scale)
        return _with_weights(attend, query, key, value)
    n = query.shape[-2]
    n_keys = key.shape[-2]
    column = torch.arange(n_keys, device=key.device)
    own = column[n_keys - n :, None]  # positions of the queries' own rows among the keys

    def stretch(query: Tensor, key: Tensor, value: Tensor, rows: slice) -> Tensor:
        may, added = (x if x is None or x.shape[-2] == 1 else x[..., rows, :] for x in (mask, bias))
        if causal:
            past = column <= own[rows]
            may = past if may is None else may & past
        weights = attention_weights(query[..., rows, :], key, mask=may, bias=added, scale=scale)
        weights = _largest(weights, keep)
        return (weights @ value.to(weights.dtype)).to(value.dtype)

    # Filled in place: rows kept apart would lie between the freed arrays of all keys, and hold their memory.
    lead = leading(query, key, value)
    found = value.new_empty(*lead, n, value.shape[-1])
    for start in range(0, n, STRETCH):
        rows = slice(start, start + STRETCH)
        part = checkpoint(stretch, query, key, value, rows, use_reentrant=False, preserve_rng_state=False)
        found[..., rows, :] = part
    return found


def _with_weights(attend: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor) -> Any:
    """Return the output of an attention without weights, and its weights: the means of the unit vectors."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    units = torch.eye(key.shape[-2], dtype=dtype, device=key.device).expand(*value.shape[:-1], -1)
    found = attend(query, key, torch.cat([value.to(dtype), units], -1))
    output, weights = found.tensor_split([value.shape[-1]], -1)
    return output.to(value.dtype), weights


def _largest(weights: Tensor, keep: int) -> Tensor:
    """Return weights of which only the ``keep`` largest of a row are left, with the sum of one."""
    if keep >= weights.shape[-1]:
        return weights
    best, kept = weights.topk(keep, dim=-1, sorted=False)
    shares = best / best.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
    return torch.zeros_like(weights).scatter(-1, kept, shares)


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    n_features: int,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: None = None,
    scale: float | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Kernelized (feature-map) linear attention: scaled dot-product attention by positive random features.

    .. math:: \phi_r(x) = \tfrac{1}{\sqrt R} \exp\big(w_r' x - \tfrac12 \|x\|^2\big), \quad
              E\,\phi(q)'\phi(k) = e^{q'k}, \quad
              o_i = \frac{\phi(q_i)' \sum_j \phi(k_j) v_j'}{\phi(q_i)' \sum_j \phi(k_j)}

    with q and k times :math:`\sqrt s` and w standard normal, orthogonal within blocks of d. Time is linear in the rows.

    Parameters
    ----------
    query : Tensor, shape (..., n_queries, d)
    key : Tensor, shape (..., n_keys, d)
    value : Tensor, shape (..., n_keys, d_value)
    n_features : int
        R. They are always the same ones (drawn with seed 0).
    causal : bool, default False
        Whether a query attends to its own row and to rows before it only, as `causal_mask` says.
    mask : bool Tensor, default None
        Of keys, (..., 1, n_keys); others would need all pairs.
    bias : None
        A bias cannot be taken.
    scale : float, default None
        :math:`s`; None means :math:`1/\sqrt d`.
    return_weights : bool, default False
        Also return the weights that the features imply, an array of all pairs.

    Returns
    -------
    output : Tensor, shape (..., n_queries, d_value)
    weights : Tensor, shape (..., n_queries, n_keys)
        Only with ``return_weights=True``.

    Raises
    ------
    InputError
        With a bias, or a mask of pairs.

    Notes
    -----
    Unbiased for the exponential; relative mean squared error of one pair's exponential at most
    :math:`(e^{\|q + k\|^2} - 1)/R` (Choromanski et al., lemma 2): small where queries and keys are short, useless where
    they are long. Memory is linear in the rows, too: causal attention goes through them in stretches, with a running sum.

    References
    ----------
    Choromanski et al. (2021), Rethinking attention with performers, ICLR.

    Examples
    --------
    >>> x = torch.tensor([[0.1, 0.0], [0.0, 0.3]])
    >>> exact = attention_weights(x, x) @ x
    >>> bool((linear_attention(x, x, x, 256) - exact).abs().max() < 0.01)
    True
    """
    if bias is not None:
        raise InputError("bias: kernelized linear attention does not support one. Use exact attention.")
    shape = (1, 1) if mask is None else tuple(mask.shape)
    takes = f"mask: kernelized linear attention takes a mask of keys, (..., 1, {key.shape[-2]})"
    if shape[-2] != 1:
        raise InputError(f"{takes}, and causal=True; got shape {shape}. Use exact attention for others.")
    if return_weights:
        attend = partial(linear_attention, n_features=n_features, causal=causal, mask=mask, scale=scale)
        return _with_weights(attend, query, key, value)
    root = query.shape[-1] ** -0.25 if scale is None else math.sqrt(scale)
    dtype = torch.promote_types(query.dtype, torch.float32)
    projection = _orthogonal(n_features, query.shape[-1]).to(query.device, dtype)  # (R, d)
    query_features = _features(query.to(dtype) * root, projection, per_row=True)  # (..., Nq, R)
    key_features = _features(key.to(dtype) * root, projection, per_row=False)  # (..., Nk, R)
    if mask is not None:
        key_features = key_features * mask.mT
    counted = F.pad(value.to(dtype), (0, 1), value=1.0)  # the last column adds up to the sum of weights
    sums = _causal_sums(query_features, key_features, counted) if causal else query_features @ (key_features.mT @ counted)
    return (sums[..., :-1] / sums[..., -1:].clamp_min(torch.finfo(dtype).tiny)).to(value.dtype)


def _causal_sums(query_features: Tensor, key_features: Tensor, value: Tensor) -> Tensor:
    """Return the sums of values over the keys up to each query's own row, the queries being the last rows of the keys."""
    before = key_features.shape[-2] - query_features.shape[-2]
    past = key_features[..., :before, :].mT @ value[..., :before, :]
    found = []  # (..., R, d_value)
    rows = (query_features, key_features[..., before:, :], value[..., before:, :])
    for q, k, v in zip(*(x.split(STRETCH, -2) for x in rows), strict=True):
        found.append((q @ k.mT).tril() @ v + q @ past)
        past = past + k.mT @ v
    return torch.cat(found, -2)


def _features(x: Tensor, projection: Tensor, *, per_row: bool) -> Tensor:
    """Return φ(x) up to a factor that cancels: of the row for queries, of the whole set for keys."""
    exponent = x @ projection.T - 0.5 * x.square().sum(-1, keepdim=True)
    largest = exponent.detach().amax((-1,) if per_row else (-2, -1), keepdim=True)
    return (exponent - largest).exp() / math.sqrt(len(projection))


def _orthogonal(n: int, d: int) -> Tensor:
    """Return n vectors of standard normal length, orthogonal within blocks of d."""
    generator = Generator().manual_seed(0)
    # on the CPU, whose generator draws alike for every device
    drawn = torch.randn(-(-n // d), 2, d, d, generator=generator, dtype=torch.float64, device="cpu")
    directions, upper = torch.linalg.qr(drawn[:, 0])
    # with signs of their own, so that every direction is as likely as any other
    directions = directions * upper.diagonal(dim1=1, dim2=2).sign()[:, None]
    return (directions.mT * drawn[:, 1].norm(dim=2, keepdim=True)).flatten(0, 1)[:n]


def local_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: int,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Return what `attention` does with `local_mask`, without that mask: exact, block by block.

    .. math:: o_i = \sum_{j : |i - j| \le w} \alpha_{ij} v_j, \qquad j \le i \text{ where causal}

    Parameters
    ----------
    query : Tensor, shape (..., n_queries, d)
        The last rows of the keys, all of them as a rule.
    key : Tensor, shape (..., n, d)
    value : Tensor, shape (..., n, d_value)
    window : int
        :math:`w`, rows on either side of a row's own that it may attend to.
    causal : bool, default False
        Whether a row attends to itself and to rows before it only.
    mask, bias, scale, return_weights
        As in `attention`.

    Returns
    -------
    output : Tensor, shape (..., n_queries, d_value)
    weights : Tensor, shape (..., n_queries, n)
        Only with ``return_weights=True``.

    Raises
    ------
    InputError
        When the window is less than one.

    Notes
    -----
    Takes O(n w d) time and O(n (w + d)) memory: rows are cut into blocks of w, and each block attends to itself and its
    neighbours. With a bias, a mask of pairs, other queries than keys, or weights to return, it is `attention` under a
    mask, at the cost of all pairs.

    References
    ----------
    Beltagy, Peters and Cohan (2020), Longformer: the long-document transformer, section 3.1.

    Examples
    --------
    >>> x = torch.arange(5.0)[:, None]
    >>> local_attention(0 * x, 0 * x, x, window=1).flatten()  # means of neighbours
    tensor([0.5000, 1.0000, 2.0000, 3.0000, 3.5000])
    """
    check_at_least(1, window=window)
    n = query.shape[-2]
    n_keys = key.shape[-2]
    of_pairs = bias is not None or (mask is not None and mask.shape[-2] != 1)
    whole = of_pairs or return_weights or n != n_keys
    size = max(1, n_keys) if whole else max(window, STRETCH)
    places = torch.arange(n_keys, device=key.device).split(size)
    keys = key.split(size, -2)
    values = value.split(size, -2)
    found = []
    for k, rows in enumerate(query.split(size, -2)):
        around = slice(max(k - 1, 0), k + 1 if causal else k + 2)  # blocks that the window reaches
        near = torch.cat(places[around])
        distance = near - places[k][-rows.shape[-2] :, None]  # of key from query
        may = (distance.abs() <= window) & (distance <= (0 if causal else window))
        may = may if mask is None else may & mask[..., near]
        blocks = (rows, torch.cat(keys[around], -2), torch.cat(values[around], -2))
        found.append(attention(*blocks, mask=may, bias=bias, scale=scale, return_weights=return_weights))
    return found[0] if len(found) == 1 else torch.cat(found, -2)
