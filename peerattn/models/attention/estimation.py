"""Estimation of a peer module: many heads, prune, fine-tune; the validation block decides how many remain."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from peerattn import nn
from peerattn.models.attention.batches import Batch, batches, make_batch
from peerattn.models.attention.heads import (
    AnyModule,
    Curves,
    Settings,
    average_unseen_codes,
    head_importance,
    head_worth,
    make_module,
    thinned,
    with_fresh_heads,
    with_heads,
)
from peerattn.models.attention.losses import Loss, squared_error
from peerattn.models.attention.peer_module import PeerSpec
from peerattn.models.pools import Section
from peerattn.training import train

JOINT_SHARE = 0.5  # steps of all heads together, and after each cut, as a share of max_steps
FINE_TUNE_SHARE = 0.25  # steps of a round of fine-tuning few heads, and of the refit
FEW_HEADS = 2
MAX_ROUNDS = 8  # of fine-tuning with few heads
WITHOUT_WEAKEST = (2, 3)  # starts in vain, modulo 4, after which the weakest kept head is left out
ERRORS_AGAIN = 2.0  # standard errors by which a later start must be better: the more starts, the likelier a gain by chance
WORTH_A_ROUND = 0.003  # relative fall of the validation loss that calls for another round
ROWS_PER_COLUMN = 10  # that least squares on heads asks for
MOST_STARTS, MANY_STARTS = 6, 16  # the second in samples between FEW_ROWS and MANY_ROWS
PATIENCE = 2  # how many starts in a row may find nothing
LONG_PATIENCE = 5  # the same where a network may be missed (heads explain under LITTLE of the loss) or blended with another
LITTLE = 0.2  # (several are kept), and rows are neither so few that a weak network cannot be found nor so many that it shows
FEW_ROWS, MANY_ROWS = 5_000, 2**16  # of larger samples least squares takes a share, before the last fit


@dataclass(frozen=True)
class Candidate:
    """A module with some number of heads, and its losses over the sample that decides, one a cross-section."""

    module: AnyModule
    kept: tuple[int, ...]
    losses: np.ndarray
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

    module: AnyModule
    importance: np.ndarray  # of every head, before pruning
    kept: tuple[int, ...]
    kept_importance: np.ndarray  # of the kept heads, in the final module
    path: tuple[tuple[int, int, float], ...]  # start, number of heads, and the loss that decided


def estimate(
    spec: PeerSpec, training: Sequence[Section], validation: Sequence[Section], settings: Settings, seed: int
) -> Estimate:
    """Train heads together, halve them with fine-tuning, and keep as many as the data support; then start again beside them.

    The number of heads is the smallest whose validation loss is within one standard error (paired by period) of the best;
    without a validation block, the one of least BIC. With one, fresh heads join the kept ones and all is repeated until
    some starts in a row find nothing better by two standard errors: a start may miss a network, and many find one by chance.
    Two things lead past other wrong turns: every other start searches net of own curves (:class:`OwnCurves`), and after two
    starts in vain two leave out the weakest kept head. At last the module is fine-tuned on all sections.
    """
    generator = torch.Generator().manual_seed(seed)
    module = make_module(spec, generator, settings.dtype).to(settings.device)
    numbers, n_fresh = tuple(range(spec.n_heads)), spec.n_heads
    importance, path = np.zeros(0), []
    chosen: Candidate | None = None
    again = settings.prune and validation and spec.similarity != "linear"
    in_vain, without = 0, 0.0
    most = MANY_STARTS if _weak_may_hide(settings.n_rows) else MOST_STARTS
    for start in range(most if again else 1):
        search = replace(settings, curves=start % 2 == 1)
        steps = search.steps(JOINT_SHARE if search.prune else 1.0)
        optimise(module, training, search, steps, generator, together=True)
        measured = head_importance(module, training, settings)
        importance = np.append(importance, measured[len(measured) - n_fresh :])
        known = [] if chosen is None else [chosen]
        candidates = _prune(module, numbers, chosen, training, validation, search, generator)
        path += [(start, c.n_heads, c.loss) for c in candidates]
        known += [c for c in candidates if c.n_heads <= spec.n_heads]
        errors = ERRORS_AGAIN if start else 1.0
        found = by_validation(known, errors) if validation else by_bic(known, settings.n_rows)
        in_vain = in_vain + 1 if found is chosen else 0
        chosen = found
        without = without if start else candidates[-1].loss
        if in_vain == _patience(chosen, without, settings.n_rows) or chosen.n_heads == spec.n_heads:
            break
        beside, kept = _to_start_beside(chosen, in_vain, [*training, *validation], settings)
        many = len(kept) > FEW_HEADS  # a wrong turn as a rule: a whole set starts beside them
        n_fresh = spec.n_heads if many else spec.n_heads - len(kept)
        module = with_fresh_heads(beside, n_fresh, generator)
        numbers = (*kept, *range(len(importance), len(importance) + n_fresh))
    assert chosen is not None
    everything = [*training, *validation]
    if validation and settings.refit:
        optimise(chosen.module, everything, settings, settings.steps(FINE_TUNE_SHARE), generator)
    average_unseen_codes(chosen.module, everything)
    refit_linear(chosen.module.double(), everything, replace(settings, dtype=torch.float64), whole=True)
    final = head_importance(chosen.module, everything, replace(settings, dtype=torch.float64))
    return Estimate(chosen.module, importance, chosen.kept, final, tuple(path))


def _weak_may_hide(n_rows: float) -> bool:
    """Return whether a weak network can be found in so many rows, but a start may miss it."""
    return FEW_ROWS < n_rows < MANY_ROWS


def _patience(chosen: Candidate, without: float, n_rows: float) -> int:
    """Return how many starts in a row may find nothing, given the loss without heads."""
    explained = 1 - chosen.loss / without if without > 0 else 1.0
    doubtful = explained < LITTLE or chosen.n_heads > 1
    return LONG_PATIENCE if doubtful and _weak_may_hide(n_rows) else PATIENCE


def _to_start_beside(
    chosen: Candidate, in_vain: int, sections: Sequence[Section], settings: Settings
) -> tuple[AnyModule, tuple[int, ...]]:
    """Return the heads beside which fresh ones start: the kept ones, or after two starts in vain all but the weakest."""
    if not chosen.kept or in_vain % 4 not in WITHOUT_WEAKEST:
        return chosen.module, chosen.kept
    return _strongest(chosen.module, chosen.kept, chosen.n_heads - 1, sections, settings)


def _prune(
    module: AnyModule,
    numbers: tuple[int, ...],
    chosen: Candidate | None,
    training: Sequence[Section],
    validation: Sequence[Section],
    settings: Settings,
    generator: torch.Generator,
) -> list[Candidate]:
    """Return candidates of H, H/2, ... heads, each fine-tuned after the cut.

    The first start cuts down to none; a later one to one head, but no further than to one more than are chosen by now
    unless it beats these.
    """
    candidates = [_candidate(module, numbers, training, validation, settings)]
    fewest = 0 if chosen is None else 1
    while settings.prune and candidates[-1].n_heads > fewest:
        last = candidates[-1]
        if chosen is not None and last.n_heads <= chosen.n_heads + 1 and last.loss >= chosen.loss:
            break
        n_heads = max(fewest, last.n_heads // 2)
        module, kept = _strongest(last.module, last.kept, n_heads, [*training, *validation], settings)
        candidates.append(_fine_tuned(module, kept, training, validation, settings, generator))
    return candidates


def _strongest(
    module: AnyModule, numbers: tuple[int, ...], n_heads: int, sections: Sequence[Section], settings: Settings
) -> tuple[AnyModule, tuple[int, ...]]:
    """Return a copy of the module with its heads of most worth, and their numbers."""
    keep = nn.most_important(torch.as_tensor(head_worth(module, sections, settings)), n_heads)
    return with_heads(module, keep), tuple(numbers[k] for k in keep)


def _fine_tuned(
    module: AnyModule,
    kept: tuple[int, ...],
    training: Sequence[Section],
    validation: Sequence[Section],
    settings: Settings,
    generator: torch.Generator,
) -> Candidate:
    """Fine-tune few heads in rounds for as long as each lowers the validation loss by ``WORTH_A_ROUND``; return the best.

    Many heads, and a sample without validation block (its training loss would fall for ever), get one round.
    """
    if not kept and settings.loss is squared_error and not module.spec.code_levels:
        return _candidate(module, kept, training, validation, settings)  # least squares is exact
    refit_linear(module, training, settings)
    few = 0 < len(kept) <= FEW_HEADS
    steps = settings.steps(FINE_TUNE_SHARE if few else JOINT_SHARE)
    best: Candidate | None = None
    for _ in range(MAX_ROUNDS if validation and few else 1):
        optimise(module, training, settings, steps, generator)
        now = _candidate(module, kept, training, validation, settings)
        if best is not None and now.loss > best.loss * (1 - WORTH_A_ROUND):
            return min(best, now, key=lambda candidate: candidate.loss)
        best = now
    assert best is not None
    return best


def optimise(
    module: AnyModule,
    sections: Sequence[Section],
    settings: Settings,
    steps: int,
    generator: torch.Generator,
    together: bool = False,
) -> None:
    """Minimise the mean loss; while all heads train ``together``, plus alpha times the summed length of their value vectors.

    For linear attention, which has one head, alpha is the decay of the learned features' weights.
    """
    if not module.spec.n_heads and module.spec.own == "none":
        return  # nothing to learn
    linear = module.spec.similarity == "linear"
    stream = batches(
        sections,
        settings.terms,
        generator,
        queries=settings.queries_per_step,
        dtype=settings.dtype,
        device=settings.device,
    )

    searching = settings.curves and not linear and module.spec.n_heads > FEW_HEADS
    nuisance = OwnCurves(module, sections, settings) if searching else None

    def objective(batch: Batch) -> Tensor:
        if nuisance is None:
            loss = mean_loss(module, batch, settings.loss)
        else:
            loss = nuisance.loss(module, batch, settings.loss)
        return loss + settings.alpha * module.head_values.flatten(1).norm(dim=1).sum() if penalised else loss

    penalised = together and not linear
    label = None if settings.progress is None else f"{settings.progress}, heads: {module.spec.n_heads}"
    train(
        [*module.parameters(), *([] if nuisance is None else [nuisance.slope])],
        objective,
        stream,
        max_steps=steps,
        learning_rate=settings.learning_rate,
        weight_decay=settings.alpha if linear else 0.0,
        progress=label,
    )


class OwnCurves:
    """Smooth functions of own characteristics, and the period's mean, beside the heads while networks are searched.

    Sharp attention looks to extreme peers, and so follows own characteristics along a curve and the period's mean even if it
    looks to the wrong ones; freed of both, a head is led by what its own peers add.
    """

    def __init__(self, module: AnyModule, sections: Sequence[Section], settings: Settings) -> None:
        rows = torch.as_tensor(
            np.concatenate([section.focal.x for section in sections]), dtype=settings.dtype
        )
        self.curves = Curves(rows)
        self.slope = torch.zeros(
            len(self.curves.shift), module.spec.n_outputs, dtype=rows.dtype, requires_grad=True
        )

    def loss(self, module: AnyModule, batch: Batch, loss: Loss) -> Tensor:
        """Return the mean loss with the curves beside the heads; squared errors about the period's mean."""
        predicted, _ = module(batch.focal, batch.peers, batch.pairs)
        predicted = predicted + self.curves(batch.focal.x) @ self.slope
        return _weighted_mean(
            loss, _about_mean(predicted, batch) if loss is squared_error else predicted, batch
        )


def mean_loss(module: AnyModule, batch: Batch, loss: Loss) -> Tensor:
    """Return the weighted mean loss over the focal rows of a batch."""
    predicted, _ = module(batch.focal, batch.peers, batch.pairs)
    return _weighted_mean(loss, predicted, batch)


def _about_mean(predicted: Tensor, batch: Batch) -> Tensor:
    """Return predictions moved so that each period's errors have mean zero."""
    rest = (batch.y - predicted[..., 0]) * batch.weight
    return predicted + (rest.sum(1, keepdim=True) / batch.weight.sum(1, keepdim=True))[..., None]


def _weighted_mean(loss: Loss, predicted: Tensor, batch: Batch) -> Tensor:
    return (loss(predicted, batch.y) * batch.weight).sum() / batch.weight.sum()


@torch.no_grad()
def refit_linear(
    module: AnyModule, sections: Sequence[Section], settings: Settings, whole: bool = False
) -> None:
    """Solve what is linear, own term and value vectors, by least squares given the weights: without heads it is OLS exactly.

    A head that was cut thereby leaves its part to those that look alike. Only for squared error, and only where there are
    rows enough: least squares on as many columns as rows would learn the sample by heart. Of a very large sample, and with
    heads, every so many-th row is taken, unless the ``whole`` is asked for.
    """
    if settings.loss is not squared_error:
        return
    gram, moment = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for batch in thinned(sections, settings, math.inf if whole or not module.spec.n_heads else MANY_ROWS):
        design = module.design(batch.focal, batch.peers, batch.pairs)[0].double().cpu()  # (n, columns)
        weighted = design * batch.weight[0].double().cpu()[:, None]
        gram = gram + weighted.T @ design
        moment = moment + weighted.T @ batch.y[0].double().cpu()
    few_rows = module.spec.n_heads and settings.n_rows < ROWS_PER_COLUMN * len(moment)
    if gram.numel() > 1 and not few_rows:
        module.set_linear(torch.linalg.pinv(gram, hermitian=True) @ moment)


@torch.no_grad()
def _candidate(
    module: AnyModule,
    kept: tuple[int, ...],
    training: Sequence[Section],
    validation: Sequence[Section],
    settings: Settings,
) -> Candidate:
    module = copy.deepcopy(module)
    refit_linear(module, training, settings)
    losses, weights = [], []
    for section in validation or training:
        batch = make_batch([section], settings.terms, settings.dtype, settings.device)
        losses.append(float(_deciding_loss(module, batch, settings.loss, bool(validation))))
        weights.append(float(batch.weight.sum()))
    return Candidate(module, kept, np.array(losses), np.array(weights))


def _deciding_loss(module: AnyModule, batch: Batch, loss: Loss, held_out: bool) -> Tensor:
    """Return the mean loss; in forecasts of held-out periods, of squared errors about their period's mean.

    Periods are few: a head that only follows their common level is chance as a rule. (Peers' outcomes carry the level.)
    """
    predicted, _ = module(batch.focal, batch.peers, batch.pairs)
    if held_out and loss is squared_error and module.spec.values == "characteristics":
        predicted = _about_mean(predicted, batch)
    return _weighted_mean(loss, predicted, batch)


def by_validation(candidates: Sequence[Candidate], errors: float = 1.0) -> Candidate:
    """Apply the one-standard-error rule (Breiman et al. 1984), or one of more errors, with differences paired by period."""
    best = min(candidates, key=lambda c: c.loss)
    for candidate in sorted(candidates, key=lambda c: c.n_heads):
        difference = candidate.losses - best.losses
        error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0.0
        if np.average(difference, weights=best.weights) <= errors * error:
            return candidate
    return best


def by_bic(candidates: Sequence[Candidate], n: float) -> Candidate:
    """Apply Schwarz's criterion ``n log(mean loss) + k log n``."""

    def criterion(candidate: Candidate) -> float:
        k = sum(parameter.numel() for parameter in candidate.module.parameters())
        return n * float(np.log(max(candidate.loss, 1e-12))) + k * float(np.log(n))

    return min(candidates, key=criterion)
