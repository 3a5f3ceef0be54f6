"""Heads of a peer module: taken, added, and weighed."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from peerattn import nn
from peerattn.models.batches import Batch, make_batch
from peerattn.models.linear_attention import LinearAttention
from peerattn.models.losses import Loss
from peerattn.models.peer_module import PeerModule, PeerSpec
from peerattn.models.pools import Section
from peerattn.models.priors import PairTerms

IMPORTANCE_SECTIONS = 24  # cross-sections over which importance is measured
CURVES = 128  # functions of own inputs that a head's contribution is freed of

AnyModule = PeerModule | LinearAttention


def make_module(
    spec: PeerSpec, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64
) -> AnyModule:
    """Return a module of this shape, at its random start."""
    return (LinearAttention if spec.similarity == "linear" else PeerModule)(spec, generator, dtype)


@dataclass(frozen=True)
class Settings:
    """How a peer module is trained."""

    n_rows: float
    max_steps: int
    queries_per_step: int
    learning_rate: float
    alpha: float
    prune: bool
    refit: bool
    loss: Loss
    terms: PairTerms
    dtype: torch.dtype
    device: str
    progress: str | None
    curves: bool = False  # search net of smooth functions of own characteristics and period means

    def steps(self, share: float) -> int:
        """Return this share of ``max_steps``."""
        return max(1, round(self.max_steps * share))


def with_heads(module: AnyModule, keep: Tensor) -> AnyModule:
    """Return a copy of the module with only these heads."""
    pruned = copy.deepcopy(module)
    pruned.spec = replace(module.spec, n_heads=len(keep))
    for name, parameter in module.per_head().items():
        setattr(pruned, name, nn.take_heads(parameter, 0, module.spec.n_heads, keep))
    return pruned


def with_fresh_heads(module: AnyModule, n_heads: int, generator: torch.Generator) -> AnyModule:
    """Return a copy of the module with this many heads more, at their random start."""
    like = module.head_values
    fresh = make_module(replace(module.spec, n_heads=n_heads), generator, like.dtype)
    grown = copy.deepcopy(module)
    grown.spec = replace(module.spec, n_heads=module.spec.n_heads + n_heads)
    for name, parameter in fresh.per_head().items():
        both = torch.cat([getattr(module, name).detach(), parameter.detach().to(like.device)])
        setattr(grown, name, torch.nn.Parameter(both))
    return grown


@torch.no_grad()
def head_importance(module: AnyModule, sections: Sequence[Section], settings: Settings) -> np.ndarray:
    """Return each head's importance: the standard deviation of its contribution within a cross-section, (H,)."""
    if not module.spec.n_heads:
        return np.zeros(0)
    return spread_within(lambda batch: module(batch.focal, batch.peers, batch.pairs)[1], sections, settings)


def spread_within(
    heads_of: Callable[[Batch], Tensor], sections: Sequence[Section], settings: Settings
) -> np.ndarray:
    """Return the standard deviation of contributions within some cross-sections, (..., H).

    ``heads_of`` gives the contributions (..., 1, H, n, K) of a batch of one cross-section.
    """
    at = np.unique(np.linspace(0, len(sections) - 1, IMPORTANCE_SECTIONS).astype(int))
    variances = []
    for k in at:
        batch = make_batch([sections[k]], settings.terms, settings.dtype, settings.device)
        heads = heads_of(batch)[..., 0, :, :, :]
        share = (batch.weight / batch.weight.sum())[0, :, None]
        mean = (heads * share).sum(-2, keepdim=True)
        variances.append(((heads - mean) ** 2 * share).sum((-2, -1)).double().cpu().numpy())
    return np.asarray(np.sqrt(np.mean(variances, axis=0)))


def head_worth(module: AnyModule, sections: Sequence[Section], settings: Settings) -> np.ndarray:
    """Return what each head explains of the rest that is left without it, (H,).

    The contribution net of own inputs, c, is set against the residual without it, r: ``cov(c, r) |cov(c, r)| / var(c)``, the
    fall of the squared error at the best slope, negative where the slope is. Net of own inputs, since a head may stand in
    for the own term; at the best slope, since many heads together are learned too large. The residual is minus half the
    gradient of the loss.
    """
    columns: list[list[Tensor]] = [[], [], [], []]
    for section in sections:
        batch = make_batch([section], settings.terms, settings.dtype, settings.device)
        with torch.no_grad():
            predicted, heads = module(batch.focal, batch.peers, batch.pairs)
            own = module.design(batch.focal, batch.peers, batch.pairs, heads=False)
        predicted.requires_grad_(True)
        (slope,) = torch.autograd.grad(settings.loss(predicted, batch.y).sum(), predicted)
        weight = batch.weight[0].double().cpu()
        for column, part in zip(columns, (-slope[0] / 2, heads[0].transpose(0, 1), own[0]), strict=False):
            part = part.double().cpu()
            column.append(part - torch.tensordot(weight / weight.sum(), part, dims=1))
        columns[3].append(weight)
    rest, heads, own, weight = (torch.cat(column) for column in columns)  # (N, K), (N, H, K), (N, q), (N,)
    root = weight.sqrt()[:, None]
    own = torch.cat([own, Curves(own)(own)], dim=1)
    by_own = torch.linalg.lstsq(own * root, heads.flatten(1) * root, driver="gelsd").solution
    net = heads - (own @ by_own).view_as(heads)
    cov, var, gross = (
        (weight[:, None, None] * a * b).sum((0, 2)) / weight.sum()
        for a, b in ((net, rest[:, None] + net), (net, net), (heads, heads))
    )
    return np.asarray(cov * cov.abs() / var.clamp(min=1e-30).maximum(1e-9 * gross))


class Curves:
    """Smooth functions ``tanh(z'd + s)`` of standardised columns, with random d and s, one for every 20 rows at most.

    Rahimi and Recht (2007), Random features for large-scale kernel machines.
    """

    def __init__(self, rows: Tensor) -> None:
        n, p = rows.shape
        generator = torch.Generator().manual_seed(0)
        draw = torch.randn(p + 1, min(CURVES, n // 20), generator=generator, dtype=torch.float64).to(
            rows.dtype
        )
        self.center, self.spread = rows.mean(0), rows.std(0).clamp(min=1e-12)
        self.direction, self.shift = draw[:p] * 2 / math.sqrt(max(p, 1)), draw[p]

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the functions of rows (..., p), (..., n_functions)."""
        return torch.tanh((rows - self.center) / self.spread @ self.direction + self.shift)
