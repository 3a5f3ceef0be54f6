"""Scores that are not inner products: they enter `attention` as its bias."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def additive_scores(query: Tensor, key: Tensor, combine: Tensor) -> Tensor:
    r"""Return the additive scores of Bahdanau.

    .. math:: e_{ij} = \sum_c w_c \tanh(q_{ic} + k_{jc})

    Parameters
    ----------
    query : Tensor, shape (..., H, n_queries, d)
    key : Tensor, shape (..., H, n_keys, d)
    combine : Tensor, shape (H, d)
        :math:`w`, one vector per head.

    Returns
    -------
    Tensor, shape (..., H, n_queries, n_keys)

    Notes
    -----
    One column at a time, so that memory is O(n_queries n_keys) and not d times that.

    References
    ----------
    Bahdanau, Cho and Bengio (2015), Neural machine translation by jointly learning to align and translate, ICLR.

    Examples
    --------
    >>> additive_scores(torch.zeros(1, 2, 1), torch.ones(1, 3, 1), torch.ones(1, 1)).shape
    torch.Size([1, 2, 3])
    """
    scores = query.new_zeros(())
    for c in range(query.shape[-1]):
        scores = scores + combine[:, c, None, None] * torch.tanh(
            query[..., :, None, c] + key[..., None, :, c]
        )
    return scores


def leaky_relu_scores(query: Tensor, key: Tensor, combine: Tensor, *, slope: float = 0.2) -> Tensor:
    r"""Return the scores of graph attention networks.

    .. math:: e_{ij} = \operatorname{LeakyReLU}(a' q_i + b' k_j)

    Parameters
    ----------
    query : Tensor, shape (..., H, n_queries, d)
    key : Tensor, shape (..., H, n_keys, d)
    combine : Tensor, shape (H, 2 d)
        a and b, one pair per head.
    slope : float, default 0.2
        Of the negative part.

    Returns
    -------
    Tensor, shape (..., H, n_queries, n_keys)

    References
    ----------
    Veličković et al. (2018), Graph attention networks, ICLR, equation 3.

    Examples
    --------
    >>> leaky_relu_scores(torch.ones(1, 1, 1), torch.ones(1, 2, 1), -torch.ones(1, 2))
    tensor([[[-0.4000, -0.4000]]])
    """
    a, b = combine.chunk(2, dim=-1)  # (H, d) each
    looking = (query * a[:, None]).sum(-1)[..., :, None]  # (..., H, Nq, 1)
    shown = (key * b[:, None]).sum(-1)[..., None, :]  # (..., H, 1, Nk)
    return F.leaky_relu(looking + shown, slope)
