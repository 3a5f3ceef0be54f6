"""Heads of a peer module: taken, added, and weighed."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from peerattn import nn
from peerattn.models.attention.batches import Batch, SectionTensors, make_batch
from peerattn.models.attention.linear_attention import LinearAttention
from peerattn.models.attention.losses import Loss
from peerattn.models.attention.peer_module import PeerModule, PeerSpec
from peerattn.models.attention.priors import PairTerms
from peerattn.models.pools import Section

IMPORTANCE_SECTIONS = 24  # cross-sections over which importance is measured
WORTH_ROWS = 2**15  # that worth is measured on at most
CURVES = 128  # functions of own inputs that a head's contribution is freed of

AnyModule = PeerModule | LinearAttention
M = TypeVar("M", bound=AnyModule)


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
    loss: Loss
    terms: PairTerms
    dtype: torch.dtype
    device: str
    progress: str | None


@torch.no_grad()
def average_unseen_codes(module: AnyModule, sections: Sequence[Section]) -> None:
    """Let codes that no training row has (the unknown code, as a rule) stand where the average training row does."""
    for c, table in enumerate(module.code_tables):
        codes = np.concatenate([section.focal.codes[:, c] for section in sections])
        count = torch.as_tensor(np.bincount(codes, minlength=len(table)), dtype=table.dtype)
        table[count.to(table.device) == 0] = (count.to(table.device) @ table) / count.sum()


def with_heads(module: M, keep: Tensor) -> M:
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
    """Return what each head adds to those of more worth, (H,): the fall of the mean squared error.

    Forward selection: of the heads that are left, the one whose peers' features (or outcomes) take most off the squared
    error by least squares. Net of period means, own inputs and curves of them, since a head may stand in for the own term;
    by least squares, since the attention of a head may be right long before its value vector is. Of losses other than the
    squared one, minus half the gradient stands for the residual.
    """
    n_heads, n_outputs = module.spec.n_heads, module.spec.n_outputs
    gram, n_own = _mean_products(module, sections, settings)
    tiny = 1e-9 * (gram.diagonal() + gram.diagonal().mean()) + 1e-30
    target = slice(len(gram) - n_outputs, len(gram))
    places = torch.arange(n_own, len(gram) - n_outputs).view(n_heads, -1)
    gram = _partialled(gram, torch.arange(n_own), tiny)
    worth, left = np.full(n_heads, np.inf), set(range(n_heads))
    while left:
        without = {h: _partialled(gram, places[h], tiny) for h in left}
        error = {h: float(rest[target, target].trace()) for h, rest in without.items()}
        best = min(error, key=error.__getitem__)
        gain = float(gram[target, target].trace()) - error[best]
        worth[best] = min(gain, np.nextafter(worth.min(), 0))  # less than any chosen before
        gram = without[best]
        left.remove(best)
    return worth


def _mean_products(module: AnyModule, sections: Sequence[Section], settings: Settings) -> tuple[Tensor, int]:
    """Return the mean products of own inputs and curves, every head's columns and the target, and how many are own.

    All are net of their period's mean. The target is the residual with what the heads contribute: what is left to explain.
    """
    curves = Curves(torch.as_tensor(np.concatenate([section.focal.x for section in sections])))
    gram, total, n_own = torch.zeros((), dtype=torch.float64), 0.0, 0
    for batch in thinned(sections, settings, WORTH_ROWS):
        with torch.no_grad():
            predicted, heads = module(batch.focal, batch.peers, batch.pairs)
            own = module.design(batch.focal, batch.peers, batch.pairs, heads=False)[0]
            design = module.design(batch.focal, batch.peers, batch.pairs)[0, :, own.shape[1] :]
        predicted.requires_grad_(True)
        (slope,) = torch.autograd.grad(settings.loss(predicted, batch.y).sum(), predicted)
        target = heads[0].sum(0) - slope[0] / 2
        x, own, design, target = (part.double().cpu() for part in (batch.focal.x[0], own, design, target))
        own = torch.cat([curves(x), own], dim=1) if module.spec.own == "linear" else own
        rows, weight = torch.cat([own, design, target], dim=1), batch.weight[0].double().cpu()
        rows = rows - torch.tensordot(weight / weight.sum(), rows, dims=1)
        gram = gram + (rows * weight[:, None]).T @ rows
        total, n_own = total + float(weight.sum()), own.shape[1]
    return gram / total, n_own


def thinned(sections: Sequence[Section], settings: Settings, most: float) -> Iterator[Batch]:
    """Yield one cross-section after another with all its peers, and every so-many-th focal row if all are more than ``most``."""
    every = max(1, math.ceil(settings.n_rows / most))
    for section in sections:
        tensors = SectionTensors([section], settings.terms, settings.dtype, settings.device)
        yield tensors.batch([0], None if every == 1 else [np.arange(0, len(section.focal), every)])


def _partialled(gram: Tensor, at: Tensor, tiny: Tensor) -> Tensor:
    """Return mean products net of the columns at these places (a Schur complement)."""
    inner = gram[at][:, at] + torch.diag(tiny[at])
    return gram - gram[:, at] @ torch.linalg.solve(inner, gram[at])


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
