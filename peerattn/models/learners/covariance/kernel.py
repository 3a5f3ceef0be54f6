"""The covariance of firms as a function of characteristics, codes and past outcomes."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from peerattn.nn.topk import equal_ids

SPARE = 1e-4  # added to the diagonal, in variances of the outcome
BOUND = 4.0  # of a log variance that depends on characteristics
SLOPES = ("low_rank", "scale", "noise", "emphasis")  # parameters that are not logarithms

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Features:
    """What the covariance reads of B cross-sections of n firms.

    ``x`` (B, n, p) ranks, ``codes`` (B, n, c) with 0 = unknown, ``past`` (B, n, L) coordinates of the past, ``strength``
    (B, 1, L) their log strengths; L = 0 where the past is not used.
    """

    x: Tensor
    z: Tensor
    codes: Tensor
    past: Tensor
    strength: Tensor

    def take(self, at: Any) -> Self:
        """Return these firms."""
        return replace(self, x=self.x[:, at], z=self.z[:, at], codes=self.codes[:, at], past=self.past[:, at])

    def standalone(self) -> Self:
        """Return each firm of a cross-section as one of its own, (n, 1, ...)."""
        x, z, codes, past = (each.transpose(0, 1) for each in (self.x, self.z, self.codes, self.past))
        return replace(self, x=x, z=z, codes=codes, past=past)


def ranked(x: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Return the mid-rank of each value among the pool's, from −1 to 1; a constant column is zero.

    >>> import numpy as np
    >>> ranked(np.array([[1.0], [3.0]]), np.array([[1.0], [2.0], [3.0]])).round(2).tolist()
    [[-0.67], [0.67]]
    """
    found = np.zeros(x.shape)
    for k in range(x.shape[1] if len(pool) else 0):
        ordered = np.sort(pool[:, k])
        sides = ordered.searchsorted(x[:, k], "left") + ordered.searchsorted(x[:, k], "right")
        found[:, k] = sides / len(ordered) - 1
    return found


def shared(parameters: Parameters, a: Features, b: Features) -> Tensor:
    """Return the covariance of firms a and b without noise, (B, n_a, n_b)."""
    v = parameters | {name: value.exp() for name, value in parameters.items() if name not in SLOPES}
    theirs = torch.cat([b.x, b.z, b.x @ v["low_rank"]], dim=-1)
    ours = torch.cat([a.x * v["linear"], a.z * v["slope"], a.x @ v["low_rank"]], dim=-1)
    near = _gaussian(a.x * v["inverse_length"], b.x * v["inverse_length"])
    # how near firms are, and how alike their pasts, where these are read
    kernels = [near]
    if "past" in v:
        kernels.append((a.past * (v["emphasis"] * a.strength).exp()) @ b.past.mT)
    K = ours @ theirs.mT + _matching(v, 0, *kernels)
    for together in kernels[1:]:
        K = torch.addcmul(K, v["past_near"] * near + v["past_squared"] * together, together)
    code, at = _same_code(a, b)
    if len(at):
        same = [pairs.flatten().index_select(0, at) for pairs in kernels]
        K = K.flatten().index_add(0, at, _matching(v, 1 + code, *same)).view(K.shape)
    # by how much each firm moves with the others, (B, n)
    of_a, of_b = (_bounded(each.x @ v["scale"]) for each in (a, b))
    return of_a[..., :, None] * K * of_b[..., None, :]


def _matching(v: Parameters, code: int | Tensor, near: Tensor, together: Tensor | None = None) -> Tensor:
    """Return what firms of one level of a code share by it, by how near they are, and by their past."""
    found = torch.addcmul(v["level"][code], v["near"][code], near)
    if together is None:
        return found
    return torch.addcmul(found, v["past"][code], together)


def _same_code(a: Features, b: Features) -> tuple[Tensor, Tensor]:
    """Return the pairs of firms of one level of a code: which code, and the place of the pair among all (B, n_a, n_b).

    They are joined by sorting, as they are few of all pairs.
    """
    ours, theirs = (codes.mT for codes in (a.codes, b.codes))  # (B, c, n)
    (B, c, n) = ours.shape
    m = theirs.shape[-1]
    levels = 1 + max((int(codes.max()) for codes in (ours, theirs) if codes.numel()), default=0)
    key = levels * torch.arange(B * c, device=ours.device).view(B, c, 1)
    sorted_ids, order = (key + theirs).flatten().sort(stable=True)
    mine = (key + ours).masked_fill(ours == 0, -1).flatten()
    left, right = equal_ids(mine, sorted_ids, order % m)
    row = torch.arange(len(mine), device=ours.device)
    start = (row // (c * n) * n + row % n) * m  # place of the pair with b's first firm
    return (row // n % c)[left], start[left] + right


def _gaussian(a: Tensor, b: Tensor) -> Tensor:
    """Return ``exp(−½ |a_i − b_j|²)``, the exponent by one product."""
    ours, theirs = (-0.5 * (z**2).sum(-1, keepdim=True) for z in (a, b))
    left = torch.cat([a, ours, torch.ones_like(ours)], dim=-1)
    right = torch.cat([b, torch.ones_like(theirs), theirs], dim=-1)
    return (left @ right.mT).exp()


def _bounded(log_variance: Tensor) -> Tensor:
    return (BOUND * torch.tanh(log_variance / BOUND)).exp()


def noise(parameters: Parameters, a: Features) -> Tensor:
    """Return the variance of what a firm shares with no other, (B, n)."""
    return _bounded(a.x @ parameters["noise"]) + SPARE


def inverse(K: Tensor) -> Tensor:
    """Return the inverse of a covariance; where rounding made it indefinite, in float64 with as much noise as it needs."""
    # most often no jitter is needed, and the check costs nothing
    L, failed = torch.linalg.cholesky_ex(K)
    if not failed.any():
        return torch.cholesky_inverse(L)
    wide = K.double()
    mean = wide.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    level = mean * torch.eye(K.shape[-1], dtype=wide.dtype, device=K.device)
    for jitter in np.logspace(-6, 0, 7):
        L, failed = torch.linalg.cholesky_ex(wide + jitter * level)
        if not failed.any():
            return torch.cholesky_inverse(L).to(K.dtype)
    raise FloatingPointError("a covariance has no inverse: it is not finite, or far from positive definite.")
