"""Estimation of a peer module: many heads, prune, fine-tune; the validation block decides how many remain."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from peerattn.models.batches import Batch, batches, make_batch
from peerattn.models.peer_module import PeerModule, PeerSpec
from peerattn.models.pools import Section
from peerattn.training import train

FINE_TUNE_SHARE = 0.25  # steps of a fine-tuning, as a share of max_steps


@dataclass(frozen=True)
class Settings:
    """How a peer module is trained."""

    max_steps: int
    queries_per_step: int
    learning_rate: float
    alpha: float
    prune: bool
    refit: bool
    dtype: torch.dtype
    device: str
    progress: str | None


@dataclass(frozen=True)
class Candidate:
    """A module with some number of heads, and the losses that decide on it."""

    module: PeerModule
    kept: tuple[int, ...]
    losses: np.ndarray  # one a cross-section of the deciding sample
    weights: np.ndarray

    @property
    def n_heads(self) -> int:
        """Number of heads."""
        return self.module.spec.n_heads

    @property
    def loss(self) -> float:
        """Mean loss over the deciding sample."""
        return float(np.average(self.losses, weights=self.weights))


@dataclass(frozen=True)
class Estimate:
    """A trained module, and how its heads were chosen."""

    module: PeerModule
    importance: np.ndarray  # of every head before pruning
    kept: tuple[int, ...]
    final_importance: np.ndarray  # of the kept heads, in the final module
    path: tuple[tuple[int, float], ...]  # number of heads → deciding loss


def estimate(
    spec: PeerSpec, training: Sequence[Section], validation: Sequence[Section], settings: Settings, seed: int
) -> Estimate:
    """Train many heads together, halve them by importance with fine-tuning, and keep as many as the data support.

    The number of heads is the smallest whose validation loss is within one standard error (paired by period) of the best;
    without a validation block, the one of least BIC.
    """
    generator = torch.Generator().manual_seed(seed)
    module = PeerModule(spec, generator, settings.dtype).to(settings.device)
    _optimise(module, training, settings, settings.max_steps, generator, settings.alpha)
    importance = head_importance(module, training, settings)
    kept = tuple(range(spec.n_heads))
    candidates = [_candidate(module, kept, training, validation, settings)]
    while settings.prune and candidates[-1].n_heads:
        last = candidates[-1]
        now = head_importance(last.module, training, settings)
        keep = np.sort(np.argsort(-now, kind="stable")[: last.n_heads // 2])
        module = with_heads(last.module, keep)
        if list(module.parameters()):
            _optimise(module, training, settings, _fine_tune_steps(settings), generator, 0.0)
        candidates.append(_candidate(module, tuple(last.kept[k] for k in keep), training, validation, settings))
    chosen = _by_validation(candidates) if validation else _by_bic(candidates, training)
    if validation and settings.refit and list(chosen.module.parameters()):
        _optimise(chosen.module, [*training, *validation], settings, _fine_tune_steps(settings), generator, 0.0)
    final = head_importance(chosen.module, [*training, *validation], settings)
    return Estimate(chosen.module, importance, chosen.kept, final, tuple((c.n_heads, c.loss) for c in candidates))


def _fine_tune_steps(settings: Settings) -> int:
    return max(1, round(settings.max_steps * FINE_TUNE_SHARE))


def _optimise(
    module: PeerModule, sections: Sequence[Section], settings: Settings, steps: int, generator: torch.Generator, alpha: float
) -> None:
    stream = batches(
        sections, generator, queries=settings.queries_per_step, dtype=settings.dtype, device=settings.device
    )
    label = None if settings.progress is None else f"{settings.progress} {module.spec.n_heads} heads"

    def objective(batch: Batch) -> Tensor:
        return (batch_losses(module, batch) * batch.weight).sum() / batch.weight.sum() + alpha * _head_norms(module).sum()

    train(module, objective, stream, max_steps=steps, learning_rate=settings.learning_rate, progress=label)


def batch_losses(module: PeerModule, batch: Batch) -> Tensor:
    """Return the loss of every focal row, (B, n_focal)."""
    predicted, _ = module(batch.focal, batch.peers, batch.bias)
    return (predicted - batch.y) ** 2


def _head_norms(module: PeerModule) -> Tensor:
    """Length of each head's value vector: its sum is the group penalty that empties useless heads."""
    value = module.per_head()[2]
    return value.flatten(1).norm(dim=1) if value.ndim > 1 else value.abs()


@torch.no_grad()
def head_importance(module: PeerModule, sections: Sequence[Section], settings: Settings, most: int = 24) -> np.ndarray:
    """Return each head's importance: the standard deviation of its contribution within a cross-section, (H,)."""
    if not module.spec.n_heads:
        return np.zeros(0)
    at = np.unique(np.linspace(0, len(sections) - 1, most).astype(int))
    variances = []
    for k in at:
        batch = make_batch([sections[k]], settings.dtype, settings.device)
        _, heads = module(batch.focal, batch.peers, batch.bias)
        weight = batch.weight / batch.weight.sum()
        mean = (heads * weight[:, None]).sum(-1, keepdim=True)
        variances.append(((heads - mean) ** 2 * weight[:, None]).sum(-1)[0].double().cpu().numpy())
    return np.sqrt(np.mean(variances, axis=0))


def with_heads(module: PeerModule, keep: np.ndarray) -> PeerModule:
    """Return a copy of the module with only these heads."""
    pruned = copy.deepcopy(module)
    pruned.spec = replace(module.spec, n_heads=len(keep))
    for parameter in pruned.per_head():
        parameter.data = parameter.data[torch.as_tensor(keep, dtype=torch.long, device=parameter.device)].clone()
        parameter.grad = None
    return pruned


@torch.no_grad()
def _candidate(
    module: PeerModule,
    kept: tuple[int, ...],
    training: Sequence[Section],
    validation: Sequence[Section],
    settings: Settings,
) -> Candidate:
    losses, weights = [], []
    for section in validation or training:
        batch = make_batch([section], settings.dtype, settings.device)
        loss, weight = batch_losses(module, batch), batch.weight
        losses.append(float((loss * weight).sum() / weight.sum()))
        weights.append(float(weight.sum()))
    return Candidate(copy.deepcopy(module), kept, np.array(losses), np.array(weights))


def _by_validation(candidates: Sequence[Candidate]) -> Candidate:
    """Apply the one-standard-error rule (Breiman et al. 1984), with differences paired by period."""
    best = min(candidates, key=lambda c: c.loss)
    for candidate in sorted(candidates, key=lambda c: c.n_heads):
        difference = candidate.losses - best.losses
        mean = np.average(difference, weights=best.weights)
        error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0.0
        if mean <= error:
            return candidate
    return best


def _by_bic(candidates: Sequence[Candidate], training: Sequence[Section]) -> Candidate:
    """Apply Schwarz's criterion ``n log(mean loss) + k log n``."""
    n = float(sum(c.sum() for c in (np.ones(len(s.focal)) if s.focal.weight is None else s.focal.weight for s in training)))

    def criterion(candidate: Candidate) -> float:
        k = sum(parameter.numel() for parameter in candidate.module.parameters())
        return n * float(np.log(max(candidate.loss, 1e-12))) + k * float(np.log(n))

    return min(candidates, key=criterion)
