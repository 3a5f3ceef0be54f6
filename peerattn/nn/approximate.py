"""Approximate attention: to few keys (sparse), or kernelized by a feature map (linear in the rows); with their errors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from peerattn.exceptions import InputError
from peerattn.nn.attention import attention_weights

STRETCH = 128  # rows that are gone through at once


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
) -> tuple[Tensor, Tensor | None]:
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
    weights : Tensor, shape (..., n_queries, n_keys), or None
        Zero where a key was not kept; rows sum to one.

    Raises
    ------
    InputError
        When ``keep`` is less than one.

    Notes
    -----
    The error is bounded by the dropped mass :math:`1 - m_i`. Fewer neighbours, not fewer operations: all scores are
    computed, in stretches of queries, so that without gradients memory is linear in the keys.

    References
    ----------
    Zhao et al. (2019), Explicit sparse transformer.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> sparse_attention(x, x, x, keep=1)[0].flatten()
    tensor([0., 2., 2.])
    """
    if keep < 1:
        raise InputError(f"keep: expected an integer of at least 1, got {keep}.")
    n_before = key.shape[-2] - query.shape[-2]  # keys before the first query's own row
    column, outputs, kept = torch.arange(key.shape[-2], device=key.device), [], []
    for start, rows in zip(range(0, max(query.shape[-2], 1), STRETCH), query.split(STRETCH, -2), strict=True):
        may, added = (
            x if x is None or x.shape[-2] == 1 else x[..., start : start + STRETCH, :] for x in (mask, bias)
        )
        if causal:
            own = start + n_before + torch.arange(rows.shape[-2], device=key.device)
            past = column <= own[:, None]
            may = past if may is None else may & past
        weights = _largest(attention_weights(rows, key, mask=may, bias=added, scale=scale), keep)
        outputs.append((weights @ value.to(weights.dtype)).to(value.dtype))
        if return_weights:
            kept.append(weights)
    return torch.cat(outputs, -2), torch.cat(kept, -2) if return_weights else None


def _largest(weights: Tensor, keep: int) -> Tensor:
    """Return weights of which only the ``keep`` largest of a row are left, with the sum of one."""
    if keep >= weights.shape[-1]:
        return weights
    kept = weights.topk(keep, dim=-1, sorted=False).indices
    weights = weights * torch.zeros_like(weights).scatter(-1, kept, 1.0)
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    n_features: int,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    r"""Kernelized (feature-map) linear attention: scaled dot-product attention by positive random features.

    .. math:: \phi_r(x) = \tfrac{1}{\sqrt R} \exp\big(w_r' x - \tfrac12 \|x\|^2\big), \quad
              E\,\phi(q)'\phi(k) = e^{q'k}, \quad
              o_i = \frac{\phi(q_i)' \sum_j \phi(k_j) v_j'}{\phi(q_i)' \sum_j \phi(k_j)}

    with q and k divided by :math:`d^{1/4}` and w standard normal, orthogonal within blocks of d. Time is linear in the rows.

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
    return_weights : bool, default False
        Also return the weights that the features imply, an array of all pairs.

    Returns
    -------
    output : Tensor, shape (..., n_queries, d_value)
    weights : Tensor, shape (..., n_queries, n_keys), or None

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
    >>> bool((linear_attention(x, x, x, 256)[0] - exact).abs().max() < 0.01)
    True
    """
    if bias is not None:
        raise InputError("bias: kernelized linear attention does not support one. Use exact attention.")
    scale = query.shape[-1] ** -0.25
    dtype = torch.promote_types(query.dtype, torch.float32)
    projection = _orthogonal(n_features, query.shape[-1]).to(query.device, dtype)  # (R, d)
    looking = _features(query.to(dtype) * scale, projection, per_row=True)  # (..., Nq, R)
    shown = _features(key.to(dtype) * scale, projection, per_row=False)  # (..., Nk, R)
    if mask is not None and mask.shape[-2] != 1:
        raise InputError(
            f"mask: kernelized linear attention takes a mask of keys, (..., 1, {key.shape[-2]}), and causal=True; got shape "
            f"{tuple(mask.shape)}. Use exact attention for others."
        )
    if mask is not None:
        shown = shown * mask.mT
    tiny = torch.finfo(dtype).tiny
    if return_weights:
        products = looking @ shown.mT
        products = products.tril(key.shape[-2] - query.shape[-2]) if causal else products
        weights = products / products.sum(-1, keepdim=True).clamp_min(tiny)
        return (weights @ value.to(dtype)).to(value.dtype), weights
    counted = F.pad(
        value.to(dtype), (0, 1), value=1.0
    )  # (..., Nk, d_value + 1): the last column adds up to the sum of weights
    sums = _causal_sums(looking, shown, counted) if causal else looking @ (shown.mT @ counted)
    return (sums[..., :-1] / sums[..., -1:].clamp_min(tiny)).to(value.dtype), None


def _causal_sums(looking: Tensor, shown: Tensor, value: Tensor) -> Tensor:
    """Return the sums of values over the keys up to each query's own row, the queries being the last rows of the keys."""
    before = shown.shape[-2] - looking.shape[-2]
    past, found = shown[..., :before, :].mT @ value[..., :before, :], []  # (..., R, d_value)
    rows = (looking, shown[..., before:, :], value[..., before:, :])
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
    generator = torch.Generator().manual_seed(0)
    blocks = []
    for _ in range(-(-n // d)):
        directions, upper = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
        directions = (
            directions * upper.diagonal().sign()
        )  # only then is every direction as likely as any other
        lengths = torch.randn(d, d, generator=generator, dtype=torch.float64).norm(dim=1, keepdim=True)
        blocks.append(directions.T * lengths)
    return torch.cat(blocks)[:n]
