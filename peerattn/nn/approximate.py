"""Approximate attention: to few keys (sparse), or kernelized by a feature map (linear in the rows); with their errors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from peerattn.exceptions import InputError
from peerattn.nn.attention import attention_weights


def sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keep: int,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Attend to the ``keep`` keys of largest weight only.

    .. math:: \tilde\alpha_{ij} = \alpha_{ij} 1[j \in T_i] / m_i, \quad m_i = \sum_{j \in T_i} \alpha_{ij},
              \qquad \|\tilde o_i - o_i\| \le 2 (1 - m_i) \max_j \|v_j\|

    Parameters
    ----------
    query, key, value, mask, bias, scale
        As in `attention`.
    keep : int
        How many keys each query keeps, :math:`|T_i|`.

    Returns
    -------
    output : Tensor, shape (..., n_queries, d_value)
    weights : Tensor, shape (..., n_queries, n_keys)
        Zero where a key was not kept; rows sum to one.

    Raises
    ------
    InputError
        When ``keep`` is less than one.

    Notes
    -----
    The error is bounded by the dropped mass :math:`1 - m_i`. Fewer neighbours, not fewer operations: all scores are
    computed (`top_k_weights` finds them in blocks).

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
    weights = attention_weights(query, key, mask=mask, bias=bias, scale=scale)
    if keep < weights.shape[-1]:
        kept = weights.topk(keep, dim=-1).indices
        weights = weights * torch.zeros_like(weights).scatter(-1, kept, 1.0)
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
    return (weights @ value.to(weights.dtype)).to(value.dtype), weights


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    n_features: int,
    *,
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
    mask : bool Tensor, default None
        Of keys, (..., 1, n_keys), or exactly `causal_mask`; others would need all pairs.
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
        With a bias, or another mask.

    Notes
    -----
    Unbiased for the exponential; relative mean squared error of one pair's exponential at most
    :math:`(e^{\|q + k\|^2} - 1)/R` (Choromanski et al., lemma 2): small where queries and keys are short, useless where
    they are long. `causal_mask` is taken with a running sum, O(n R d_value) memory.

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
    causal = mask is not None and mask.shape[-2] > 1
    if mask is not None and not causal:
        shown = shown * mask.mT
    if causal and not _is_causal(mask, query.shape[-2], key.shape[-2]):
        raise InputError(
            f"mask: kernelized linear attention takes a mask of keys, (..., 1, {key.shape[-2]}), or causal_mask with as many "
            "queries as keys. Use exact attention for others."
        )
    tiny = torch.finfo(dtype).tiny
    if return_weights:
        products = looking @ shown.mT
        products = products.tril() if causal else products
        weights = products / products.sum(-1, keepdim=True).clamp_min(tiny)
        return (weights @ value.to(dtype)).to(value.dtype), weights
    if causal:
        summed = (shown[..., None] * value.to(dtype)[..., None, :]).cumsum(-3)  # (..., N, R, d_value)
        numerator = (looking[..., None, :] @ summed)[..., 0, :]
        denominator = (looking * shown.cumsum(-2)).sum(-1, keepdim=True)
    else:
        numerator = looking @ (shown.mT @ value.to(dtype))
        denominator = looking @ shown.sum(-2)[..., None]
    return (numerator / denominator.clamp_min(tiny)).to(value.dtype), None


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


def _is_causal(mask: Tensor | None, n_queries: int, n_keys: int) -> bool:
    if mask is None or mask.shape != (n_queries, n_keys) or n_queries != n_keys:
        return False
    return bool((mask == torch.ones_like(mask).tril()).all())
