"""Losses of the attention estimators, one number a row."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]
HUBER_THRESHOLD = 1.35  # standard deviations of the outcome; 95 % efficient under normal errors (Huber 1964)


def squared_error(predicted: Tensor, y: Tensor) -> Tensor:
    """``(y − ŷ)²``, (B, n); predictions come as (B, n, 1), outcomes as (B, n)."""
    return (predicted[..., 0] - y) ** 2


def huber(predicted: Tensor, y: Tensor) -> Tensor:
    """Squared up to a threshold, absolute beyond (Huber 1964, Annals of Mathematical Statistics 35)."""
    return 2 * F.huber_loss(predicted[..., 0], y, reduction="none", delta=HUBER_THRESHOLD)


def pinball(quantile: float) -> Loss:
    """Return ``max(q (y − ŷ), (q − 1)(y − ŷ))``, whose minimum is the q-quantile (Koenker and Bassett 1978)."""

    def loss(predicted: Tensor, y: Tensor) -> Tensor:
        error = y - predicted[..., 0]
        return torch.maximum(quantile * error, (quantile - 1) * error)

    return loss


def cross_entropy(predicted: Tensor, y: Tensor) -> Tensor:
    """Minus the log probability of the class; two classes have one logit."""
    if predicted.shape[-1] == 1:
        return F.binary_cross_entropy_with_logits(predicted[..., 0], y, reduction="none")
    return F.cross_entropy(predicted.mT, y.long(), reduction="none")


def regression_loss(name: str, quantile: float) -> Loss:
    """Return the loss of this name."""
    return {"squared_error": squared_error, "huber": huber, "pinball": pinball(quantile)}[name]
