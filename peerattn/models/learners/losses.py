"""Losses of the attention estimators, one number a row."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
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


@dataclass(frozen=True)
class Pinball:
    """``max(q (y − ŷ), (q − 1)(y − ŷ))``, whose minimum is the q-quantile (Koenker and Bassett 1978)."""

    quantile: float

    def __call__(self, predicted: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each row."""
        error = y - predicted[..., 0]
        return (self.quantile - 0.5) * error + error.abs() / 2


def cross_entropy(predicted: Tensor, y: Tensor) -> Tensor:
    """Minus the log probability of the class; two classes have one logit."""
    if predicted.shape[-1] == 1:
        return F.binary_cross_entropy_with_logits(predicted[..., 0], y, reduction="none")
    return F.cross_entropy(predicted.flatten(0, -2), y.long().flatten(), reduction="none").view_as(y)


def regression_loss(name: str | float) -> Loss:
    """Return the loss of this name; a number is the quantile of a pinball loss."""
    losses: dict[str, Loss] = {"auto": squared_error, "squared_error": squared_error, "huber": huber}
    if isinstance(name, str):
        return losses[name]
    return Pinball(float(name))


def gradient(loss: Loss, predicted: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return each row's gradient by its prediction, (n, K)."""
    return np.asarray(slope(loss, torch.tensor(predicted, device="cpu"), torch.as_tensor(y, device="cpu")))


def slope(loss: Loss, predicted: Tensor, y: Tensor) -> Tensor:
    """Return the same of tensors, (..., n, K); where no gradient is kept, too."""
    at = predicted.detach().requires_grad_()
    with torch.enable_grad():
        (found,) = torch.autograd.grad(loss(at, y).sum(), at)
    return found


def net_of_common(values: Tensor, weight: Tensor, common: float) -> Tensor:
    r"""Return values (..., n, K) net of a share of their weighted mean over n rows: generalised least squares.

    The share is :math:`\theta = 1 - (1 + n \tau)^{-1/2}` with τ (``common``) the variance that the rows share over that of one.
    """
    total = weight.sum(-1, keepdim=True)[..., None]
    theta = 1 - (1 + common * total).rsqrt()
    mean = (values * weight[..., None]).sum(-2, keepdim=True) / total.clamp(min=1e-12)
    return values - theta * mean


def working_residual(loss: Loss, offset: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return minus half the gradient of the loss at ``offset`` (n, K): ``y − ŷ`` for squared errors; (n,) where K = 1.

    NaN where y is. What is learned of it lowers the loss to first order (Friedman 2001, Annals of Statistics 29(5)).
    """
    known = np.isfinite(y)
    found = np.full(offset.shape, np.nan)
    if known.any():
        found[known] = -gradient(loss, offset[known], y[known]) / 2
    if offset.shape[1] == 1:
        return found[:, 0]
    return found


def observed(loss: Loss, offset: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what a peer's outcome shows beyond its own model: ``y − ŷ``, or ``1[y = c] − P(c)`` of classes."""
    if loss is cross_entropy:
        return 2 * working_residual(loss, offset, y)
    return y - offset[:, 0]


def loss_of(loss: Loss, predicted: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the loss of each row, (n,)."""
    return np.asarray(loss(torch.as_tensor(predicted, device="cpu"), torch.as_tensor(y, device="cpu")))
