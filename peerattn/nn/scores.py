"""Scores of queries and keys, as what `attention` takes: inner products, and a bias where they are none."""

import math
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from peerattn.exceptions import InputError, expect
from peerattn.nn.attention import check_pairs, check_shapes, scale_of

Score = Literal["scaled_dot_product", "dot_product", "gaussian", "additive"]
SCORES = get_args(Score)


def score_terms(
    query: Tensor, key: Tensor, score: str, *, combine: Tensor | None = None, bias: Tensor | None = None, temperature: float = 1.0
) -> dict[str, Any]:
    r"""Return the arguments with which `attention` and its relatives compute a score.

    .. math:: e_{ij} = \tfrac{1}{\sqrt d} q_i' k_j, \qquad q_i' k_j, \qquad -\tfrac12 \|q_i - k_j\|^2, \qquad
              w' \tanh(q_i + k_j)

    Parameters
    ----------
    query : Tensor, shape (..., H, n_queries, d)
    key : Tensor, shape (..., H, n_keys, d)
    score : {"scaled_dot_product", "dot_product", "gaussian", "additive"}
    combine : Tensor, default None
        The learned vectors of `additive_scores`; other scores have none.
    bias : Tensor broadcastable to (..., H, n_queries, n_keys), default None
        Added to the scores.
    temperature : float, default 1
        Scores (not the bias) are divided by it: weights grow equal as it rises, and single out one key as it falls to 0.

    Returns
    -------
    dict
        ``query``, ``key``, ``bias`` and ``scale``. A Gaussian score is an inner product with one more column (up to a constant
        of the row, which does not matter). Additive scores are a bias, beside queries and keys of zeros.

    Raises
    ------
    InputError
        When the score is unknown, or needs ``combine``, or the temperature is not positive.

    Examples
    --------
    >>> from peerattn.nn import attention_weights
    >>> x = torch.tensor([[[0.0], [3.0]]])
    >>> attention_weights(**score_terms(x, x, "gaussian"))[0, 0]  # exp(0) to exp(-9/2)
    tensor([0.9890, 0.0110])
    """
    check_score(score, temperature)
    check_shapes(query, key, None, bias)
    scale = 1 / temperature
    if score == "scaled_dot_product":
        scale /= math.sqrt(query.shape[-1])
    if score == "gaussian":
        # −‖q − k‖²/2 = q'k − ‖k‖²/2 − ‖q‖²/2, and what depends on q alone cancels in the softmax
        height = -0.5 * key.square().sum(-1, keepdim=True)
        query = F.pad(query, (0, 1), value=1.0)
        # one column more on both sides: 1 · (−‖k‖²/2)
        key = torch.cat([key, height], dim=-1)
    elif score == "additive":
        if combine is None:
            raise InputError("combine: expected the learned vectors of score='additive', got None.")
        learned = additive_scores(query, key, combine) / temperature
        if bias is not None:
            learned = learned + bias
        bias = learned
        query = query[..., :1] * 0
        key = key[..., :1] * 0
    return {"query": query, "key": key, "bias": bias, "scale": scale}


def check_score(score: str, temperature: float) -> None:
    """Raise an InputError when there is no such score, or scores cannot be divided by the temperature."""
    expect(score in SCORES, "score", f"one of {list(SCORES)}", repr(score))
    expect(0 < temperature < math.inf, "temperature", "a positive number", temperature)


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
    check_shapes(query, key, None, None)
    wanted = (*query.shape[-3:-2], query.shape[-1])
    expect(combine.shape == wanted, "combine", f"one vector per head, shape {wanted}", tuple(combine.shape))
    # a loop over columns: all at once would take an array of queries × keys × width
    scores = query.new_zeros(())
    for c in range(query.shape[-1]):
        sums = query[..., :, None, c] + key[..., None, :, c]
        scores = scores + combine[:, c, None, None] * torch.tanh(sums)
    return scores


def kernel_weights(scores: Tensor, *, mask: Tensor | None = None, normalise: bool = True) -> Tensor:
    r"""Return weights that are scores themselves, without an exponential.

    .. math:: \alpha_{ij} = \frac{m_{ij} s_{ij}}{\sum_l m_{il} s_{il}} \qquad
              \text{or, not normalised,} \qquad \alpha_{ij} = m_{ij} s_{ij}

    Parameters
    ----------
    scores : Tensor, shape (..., n_queries, n_keys)
        A kernel, counts, market values; negative ones, such as inner products, only where sums are not normalised.
    mask : bool Tensor broadcastable to (..., n_queries, n_keys), default None
        True where a query may attend.
    normalise : bool, default True
        False: kernel sums, which also measure the number of near rows, and may be signed.

    Returns
    -------
    Tensor, shape (..., n_queries, n_keys)
        Rows without any score are all zeros.

    Raises
    ------
    InputError
        When a score is negative and rows are to be normalised: their sum may be near zero.

    References
    ----------
    Nadaraya (1964); Watson (1964): with a kernel of the distance these are the weights of kernel regression. Schlag, Irie and
    Schmidhuber (2021), Linear transformers are secretly fast weight programmers, ICML: inner products, not normalised.

    Examples
    --------
    >>> kernel_weights(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    weights = scores
    if mask is not None:
        check_pairs(mask, None, scores.shape)
        weights = scores.masked_fill(~mask, 0.0)
    if not normalise:
        return weights
    least = float(weights.min()) if weights.numel() else 0.0
    remedy = "Use normalise=False for signed sums, or attention_weights."
    expect(least >= 0, "scores", "none below 0 where rows are normalised", f"{least:.3g}", remedy)
    # a row without weight stays zero, and its gradient finite
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def kernel_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    normalise: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Return sums of the values weighed by the scores themselves, without an exponential.

    .. math:: o_i = \sum_j m_{ij} (s\, q_i' k_j + b_{ij})\, v_j

    Parameters
    ----------
    query, key, value, mask, bias, scale, return_weights
        As in `attention`.
    normalise : bool, default False
        As in `kernel_weights`: True divides by the sum of a row's scores, none of which may be negative.

    Returns
    -------
    output : Tensor, shape (..., n_queries, d_value)
    weights : Tensor, shape (..., n_queries, n_keys)
        Only with ``return_weights=True``. Signed where scores are.

    Examples
    --------
    >>> x = torch.tensor([[1.0], [-2.0]])
    >>> kernel_attention(x, x, x, scale=1.0).flatten()  # 1·1·1 + 1·(−2)·(−2), −2·1·1 + (−2)·(−2)·(−2)
    tensor([  5., -10.])
    """
    check_shapes(query, key, mask, bias)
    scale = scale_of(query, scale)
    scores = scale * query @ key.mT
    if bias is not None:
        scores = scores + bias
    weights = kernel_weights(scores, mask=mask, normalise=normalise)
    if return_weights:
        return (weights @ value, weights)
    return weights @ value
