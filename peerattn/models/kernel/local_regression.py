"""Local regression with mixed product kernels, as attention: the weights are a fixed kernel of characteristics and codes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from peerattn import nn
from peerattn.exceptions import reworded
from peerattn.panel.design import weighted_median

KERNELS = ("gaussian", "epanechnikov", "uniform", "triangular", "biweight")
FLAT = 1e-10  # variance of the peers, as a share of the squares it comes from, that counts as none


@dataclass(frozen=True)
class Points:
    """Rows as a kernel sees them.

    Attributes
    ----------
    x : Tensor (n, p)
        Characteristics, centred: far from zero the Gaussian's inner products lose digits.
    codes : Tensor (n, c) of int
        Level of each code; −1 = unknown, alike to no level.
    line : Tensor (n, k)
        Columns of the local line; no column = the local mean.
    log_weight : Tensor (n,) or None
        Log of the rows' frequency weights.
    """

    x: Tensor
    codes: Tensor
    line: Tensor
    log_weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def take(self, at: slice | Tensor) -> Self:
        """Return the rows at these positions."""
        weight = None if self.log_weight is None else self.log_weight[at]
        return replace(self, x=self.x[at], codes=self.codes[at], line=self.line[at], log_weight=weight)


@dataclass(frozen=True)
class Bandwidths:
    """The bandwidths of characteristics, ``h`` (p,), and of codes, ``mixing`` (c,), which is λ."""

    h: Tensor
    mixing: Tensor


@dataclass(frozen=True)
class CodeKernel:
    """Kernel of one code.

    Unordered (Aitchison and Aitken 1976): ``1 − λ`` for the same level, else ``λ / (c − 1)``. Ordered (Wang and van Ryzin
    1981): ``1 − λ``, else ``½ (1 − λ) λ^|d|``.

    Attributes
    ----------
    n_levels : int
        c, the number of training levels.
    places : tuple of float or None
        Places of the levels on the line for an ordered code; None = unordered.
    """

    n_levels: int
    places: tuple[float, ...] | None = None

    @property
    def most(self) -> float:
        """The λ at which an unordered code counts for nothing, ``(c − 1) / c``; 1 for an ordered one."""
        if self.places is not None:
            return 1.0
        return max(self.n_levels - 1, 1) / max(self.n_levels, 2)

    def log_kernel(self, mixing: Tensor, focal: Tensor, peers: Tensor) -> Tensor:
        """Return the log kernel, up to a constant a row, (m, n)."""
        tiny = torch.finfo(mixing.dtype).tiny
        if self.places is not None:
            places = mixing.new_tensor(self.places)
            distance = (places[:, None] - places).abs()
            apart = distance * mixing.clamp(min=tiny).log() + math.log(0.5)
            return torch.where(distance > 0, apart, 0.0)[focal][:, peers]
        same = (focal[:, None] == peers) & (focal >= 0)[:, None]
        over = (1 - mixing).clamp(min=tiny) * max(self.n_levels - 1, 1) / mixing.clamp(min=tiny)
        return torch.where(same, over.log(), 0.0)


@dataclass(frozen=True)
class LocalRegression:
    """Kernel-weighted mean, or a line in the columns ``Points.line`` where there are any, around each focal row.

    Attributes
    ----------
    kernel : {"gaussian", "epanechnikov", "uniform", "triangular", "biweight"}
        Of the characteristics; their product over characteristics and codes weighs a peer.
    code_kernels : tuple of CodeKernel
    neighbors : int or None
        Adaptive bandwidth: at each focal row h is multiplied by the distance, in bandwidths, to its k-th nearest peer.
    """

    kernel: str = "gaussian"
    code_kernels: tuple[CodeKernel, ...] = ()
    neighbors: int | None = None

    @property
    def streams(self) -> bool:
        """Whether a fit needs no array of focal rows × peers (besides a mask)."""
        return self.kernel == "gaussian" and self.neighbors is None and not self.code_kernels

    def fit(
        self, focal: Points, peers: Points, bandwidths: Bandwidths, values: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return fitted values (m, d) and slopes of the local line (m, k, d) at the focal rows.

        ``values`` is (n, d); ``mask`` (m, n), True = may be a peer. A row without any peer is all zeros.
        """
        payload = values
        if peers.line.shape[1]:
            payload = torch.cat([values, _moment_columns(peers.line, values)], dim=1)
        if self.kernel == "gaussian":
            q, k, bias = self._columns(focal, peers, bandwidths, mask)
            mean = nn.attention(q, k, payload, mask=mask, bias=bias, scale=1.0)
        else:
            mean = self._means_weights(focal, peers, bandwidths, mask) @ payload
        if not peers.line.shape[1]:
            return mean, mean.new_zeros(len(focal), 0, values.shape[1])
        return _local_line(mean, focal.line, values.shape[1])

    def weights(self, focal: Points, peers: Points, bandwidths: Bandwidths, mask: Tensor | None = None) -> Tensor:
        """Return the weights of the peers in each fitted value, (m, n); signed where they are of a line.

        Rows sum to one, or are all zero where there is no peer.
        """
        W = self._means_weights(focal, peers, bandwidths, mask)
        if not peers.line.shape[1]:
            return W
        center, inverse = _spread(W @ _moment_columns(peers.line, W.new_zeros(len(peers), 0)), peers.line.shape[1])
        tilt = (inverse @ (focal.line - center)[..., None])[..., 0]  # (m, k)
        return W * (1 + tilt @ peers.line.T - (tilt * center).sum(1, keepdim=True))

    # ------------------------------------------------------------------ kernels

    def _means_weights(self, focal: Points, peers: Points, bandwidths: Bandwidths, mask: Tensor | None) -> Tensor:
        """Return the normalised kernel, (m, n)."""
        if self.kernel == "gaussian":
            q, k, bias = self._columns(focal, peers, bandwidths, mask)
            return nn.attention_weights(q, k, mask=mask, bias=bias, scale=1.0)
        scale = self._local_scale(focal, peers, bandwidths, mask)
        kernel = torch.ones(len(focal), len(peers), dtype=focal.x.dtype)
        for column, h in enumerate(bandwidths.h):
            kernel = kernel * _compact(self.kernel, (focal.x[:, column, None] - peers.x[:, column]) / h / scale)
        factors = (self._of_codes(focal, peers, bandwidths.mixing), peers.log_weight)
        log_kernel = sum((each for each in factors if each is not None), kernel.new_zeros(1, 1))
        # the largest of a row becomes one, lest all of them underflow
        kernel = kernel * (log_kernel - log_kernel.detach().amax(-1, keepdim=True)).exp()
        if mask is not None:
            kernel = kernel * mask
        total = kernel.sum(1, keepdim=True)
        return kernel / torch.where(total > 0, total, 1.0)

    def _columns(
        self, focal: Points, peers: Points, bandwidths: Bandwidths, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return queries (m, w), keys (n, w) and a bias (m, n) or None.

        Inner product and bias are the log of the Gaussian kernel, up to a constant a row.
        """
        z = focal.x / bandwidths.h
        z_peers = peers.x / bandwidths.h
        scale = self._local_scale(focal, peers, bandwidths, mask)
        one = torch.ones(len(focal), 1, dtype=z.dtype)
        q = [z * scale**-2, one * scale**-2]
        k = [z_peers, -0.5 * (z_peers**2).sum(1, keepdim=True)]
        if peers.log_weight is not None:
            q.append(one)
            k.append(peers.log_weight[:, None])
        return torch.cat(q, dim=1), torch.cat(k, dim=1), self._of_codes(focal, peers, bandwidths.mixing)

    def _of_codes(self, focal: Points, peers: Points, mixing: Tensor) -> Tensor | None:
        """Return the log of the product of the codes' kernels, up to a constant a row, (m, n); None without codes."""
        if not self.code_kernels:
            return None
        parts = zip(self.code_kernels, mixing, focal.codes.T, peers.codes.T)
        return sum((kernel.log_kernel(each, mine, theirs) for kernel, each, mine, theirs in parts), mixing.new_zeros(1, 1))

    def _local_scale(self, focal: Points, peers: Points, bandwidths: Bandwidths, mask: Tensor | None) -> Tensor:
        """Return the distance to the k-th nearest peer (the nearest at all where fewer differ), (m, 1), or ones."""
        if self.neighbors is None:
            return focal.x.new_ones(len(focal), 1)
        z = focal.x / bandwidths.h
        z_peers = peers.x / bandwidths.h
        squared = (z**2).sum(1, keepdim=True) + (z_peers**2).sum(1) - 2 * z @ z_peers.T
        squared = squared.clamp(min=0.0)
        if mask is not None:
            squared = squared.masked_fill(~mask, math.inf)
        nearest = _kth(squared, self.neighbors, peers.log_weight)
        # peers at the same point are no distance: the nearest that differs counts
        floor = 1e-10 * (1 + (z**2).sum(1, keepdim=True))  # rounding of the difference of squares
        positive = squared.masked_fill(squared <= floor, math.inf).amin(1, keepdim=True)
        nearest = torch.where(nearest > floor, nearest, positive)
        return torch.where(nearest.isfinite(), nearest, 1.0).sqrt()


def _kth(squared: Tensor, k: int, log_weight: Tensor | None) -> Tensor:
    """Return the k-th smallest of each row, each value counted as often as its frequency weight, (m, 1)."""
    if log_weight is None:
        return squared.kthvalue(min(k, squared.shape[1]), dim=1, keepdim=True).values
    ordered, at = squared.sort(dim=1)
    before = (log_weight.exp()[at].cumsum(1) < k - 1e-9).sum(1, keepdim=True)
    return ordered.gather(1, before.clamp(max=squared.shape[1] - 1))


def _compact(kernel: str, u: Tensor) -> Tensor:
    """Return a kernel that is zero beyond one bandwidth, up to its constant."""
    if kernel == "uniform":
        return (u.abs() <= 1).to(u.dtype)
    if kernel == "triangular":
        return (1 - u.abs()).clamp(min=0.0)
    return (1 - u**2).clamp(min=0.0) ** {"epanechnikov": 1, "biweight": 2}[kernel]


# ---------------------------------------------------------------------- the local line


def _moment_columns(line: Tensor, values: Tensor) -> Tensor:
    """Return columns whose weighted means are the moments of the local line: ``l``, ``l l'`` and ``l v'``, flattened."""
    outer = line[:, :, None] * torch.cat([line, values], dim=1)[:, None, :]  # (n, k, k + d)
    return torch.cat([line, outer.flatten(1)], dim=1)


def _spread(moments: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the weighted mean of the line's columns (m, k) and the inverse of their covariance C (m, k, k), where there is one.

    An eigenvalue λ becomes ``λ (λ + 3τ) / (λ + τ)³``: ``1/λ`` up to ``3 (τ/λ)²``, and 0 for λ far below τ, where rounding would
    decide. It falls smoothly in between: a cut-off would make a criterion jump in the bandwidths.
    """
    center = moments[:, :k]
    second = moments[:, k:].unflatten(1, (k, -1))[:, :, :k]
    covariance = second - center[:, :, None] * center[:, None, :]
    size = 1e-3 + second.detach().diagonal(dim1=1, dim2=2).sum(1)
    one = torch.eye(k, dtype=moments.dtype)
    tau = (FLAT * size)[:, None, None] * one
    damped = torch.linalg.inv(covariance + tau)
    return center, damped @ covariance @ damped @ (one + 2 * tau @ damped)


def _local_line(mean: Tensor, at: Tensor, d: int) -> tuple[Tensor, Tensor]:
    """Return the local lines' values (m, d) and slopes (m, k, d) at ``at`` (m, k), from the weighted moments.

    The line through the weighted mean: ``v̄ + (l_i − l̄)'β``, ``β = C⁻¹c`` with weighted covariances C of the columns and c with
    the values. In directions in which the peers do not differ the slope is 0, and the line is the local mean.
    """
    k = at.shape[1]
    fitted = mean[:, :d]
    moments = mean[:, d:]
    center, inverse = _spread(moments, k)
    cross = moments[:, k:].unflatten(1, (k, k + d))[:, :, k:] - center[:, :, None] * fitted[:, None, :]
    slopes = inverse @ cross
    return fitted + ((at - center)[:, :, None] * slopes).sum(1), slopes


@dataclass(frozen=True)
class KernelCode:
    """A code of the training rows.

    Attributes
    ----------
    levels : tuple of str
        Training levels, in order.
    kernel : CodeKernel
        Places of the levels of an ordered code are whole numbers themselves, of ordered categories 0, 1, 2, ...
    median : int
        Median level of an ordered code, taken where it is unknown.
    """

    levels: tuple[str, ...]
    kernel: CodeKernel
    median: int = 0

    @classmethod
    def fit(cls, codes: pd.Series, order: Sequence[str] | None, weight: np.ndarray | None = None) -> Self:
        """Learn levels, places and median from training rows; ``order`` holds ordered levels, or none of whole numbers."""
        levels = sorted(set(codes.dropna()))
        if order is None:
            return cls(tuple(levels), CodeKernel(len(levels)))
        places: Sequence[Any] = range(len(order))
        if order:
            levels = list(order)
        else:
            remedy = "make it an ordered category (pandas.Categorical(..., ordered=True))"
            with reworded(f"ordered: column {codes.name!r} holds text, whose order is not known; {remedy}", kinds=ValueError):
                places = levels = sorted(levels, key=float)
        at = _places(codes, levels).astype(float)
        middle = np.nan_to_num(weighted_median(np.where(at < 0, np.nan, at), weight))
        return cls(tuple(levels), CodeKernel(len(levels), tuple(map(float, places))), int(middle))

    def transform(self, codes: pd.Series) -> np.ndarray:
        """Return the level of each row, (n,): −1 = unknown; unseen levels of unordered codes follow the training ones."""
        at = _places(codes, self.levels)
        if self.kernel.places is not None:
            return np.where(at < 0, self.median, at)
        # firms of one unseen level are alike
        new = (at < 0) & codes.notna().to_numpy()
        at[new] = len(self.levels) + pd.factorize(codes[new])[0]
        return at


def _places(codes: pd.Series, levels: Sequence[Any]) -> np.ndarray:
    """Return the position of each code among the levels, −1 where it is none of them."""
    return pd.Index(levels, dtype=object).get_indexer(pd.Index(codes.astype(object)))
