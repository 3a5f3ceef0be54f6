"""The nested model: own term, then each part by a factor in [0, 1] that held-out periods decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize_scalar

from peerattn.models.attention.clusters import FEW_PERIODS, firm_keys
from peerattn.models.attention.convex import minimised
from peerattn.models.attention.cross_fitting import Block, cross_fit, fit_chosen
from peerattn.models.attention.evidence import (
    LEVEL,
    NOTHING,
    Evidence,
    Judged,
    origins,
    weigh,
)
from peerattn.models.attention.losses import Loss, squared_error
from peerattn.models.attention.own_model import LinearOwn, Own, OwnSettings, row_weight
from peerattn.models.attention.parts import Candidate, Part
from peerattn.models.attention.stability import MOST_STARTS, stable
from peerattn.models.attention.stages import remembered
from peerattn.models.pools import Section
from peerattn.training import Checkpoint

MOST_STEP = 16.0  # times the working residual, where the loss is not the squared error
NO_COMPARISON = pd.DataFrame(columns=["part", "comparison", "correlation", "common_top5"])


@dataclass(frozen=True)
class Added:
    """A part that entered, by its factor: the mean of one or more fits."""

    parts: tuple[Part, ...]
    factor: float

    def additions(self, sections: Sequence[Section]) -> list[np.ndarray]:
        """Return what the part adds to every focal row of each cross-section, (n_focal, K), before its factor."""
        each = [part.additions(sections) for part in self.parts]
        return [np.mean(one, axis=0) for one in zip(*each, strict=True)]


@dataclass(frozen=True)
class Nested:
    """The own model, the parts that entered by name, the evidence on every part, and how alike networks of other fits are.

    Effects of periods enter by ``of_period``: 1, less what parts took the place of. ``level`` (K,) is added to every prediction:
    once parts explain some of the spread, a quantile lies elsewhere.
    """

    own: Own
    of_period: float
    level: np.ndarray
    parts: dict[str, Added]
    evidence: pd.DataFrame
    stability: pd.DataFrame
    pool: list[np.ndarray]  # out-of-fold own term of the training peers


@dataclass(frozen=True)
class Plan:
    """How parts are judged: the own model and loss, whether outcomes are read, and periods purged before an origin.

    ``checkpoint`` keeps each own model, each fit of a part, and what it adds to the rows.
    """

    own: OwnSettings
    outcomes: bool
    purge: int
    checkpoint: Checkpoint | None = None

    @property
    def loss(self) -> Loss:
        """Loss of a row."""
        return self.own.loss

    @property
    def dated(self) -> bool:
        """Whether rows have periods."""
        return self.own.dated


def fit_nested(
    sections: Sequence[Section], candidates: Sequence[Candidate], plan: Plan, judge: bool
) -> Nested:
    """Fit the own model, then part after part on what is left, each by the factor that later periods give it.

    Without ``judge`` every part enters in full, unseen.
    """
    candidates = [replace(each, fit=partial(_kept_fit, plan, each)) for each in candidates]
    own, whole = _kept_own(sections, plan)
    trials = [
        _Trial.start(origin.training, origin.judged, plan)
        for origin in (origins(sections, plan.purge, plan.dated) if judge and candidates else [])
    ]
    parts: dict[str, Added] = {}
    of_period = 1.0
    rows, compared = [], []
    for candidate in candidates:
        tried = _judged(candidate, trials, plan, LEVEL / len(candidates)) if judge else _InFull()
        evidence = tried.evidence
        if evidence.factor > 0:
            left = _left(candidate, whole, plan)
            learn = partial(candidate.fit, left)
            fits, agreement = stable(learn, tried.parts, left) if judge else ((learn(0),), None)
            if agreement is not None:
                compared.append(agreement.assign(part=candidate.name))
            if fits:
                added = Added(fits, evidence.factor)
                moves = _moves(candidate, added, whole, plan)
                factor = evidence.factor * step_length(whole, moves, plan.loss)
                if candidate.replaces:
                    parts = {n: replace(p, factor=(1 - factor) * p.factor) for n, p in parts.items()}
                    of_period *= 1 - factor
                parts[candidate.name] = replace(added, factor=factor)
                whole = whole.plus(moves, factor)
                if candidate is not candidates[-1]:
                    each = zip(trials, tried.parts, tried.rows, strict=True)
                    trials = [t.plus(candidate, part, seen, evidence.factor, plan) for t, part, seen in each]
            else:  # as many starts, as many networks
                evidence = replace(evidence, factor=0.0)
        rows.append({"part": candidate.name, **vars(evidence)})
    columns = ["part", *vars(NOTHING)]
    if parts and not plan.outcomes and isinstance(own, LinearOwn) and plan.loss is squared_error:
        own = _beside_parts(whole, plan)
    return Nested(
        own,
        of_period,
        _level(whole, plan) if parts else np.zeros(plan.own.n_outputs),
        parts,
        pd.DataFrame(rows, columns=columns).set_index("part"),
        pd.concat(compared, ignore_index=True) if compared else NO_COMPARISON,
        whole.pool,
    )


def _beside_parts(block: Block, plan: Plan) -> Own:
    """Fit the own model again, to what the parts leave: alone, its curves took what peers of like firms have in common.

    One step of backfitting (Buja, Hastie and Tibshirani 1989). Parts that read outcomes are made of what the own model left,
    and keep it.
    """
    sections = []
    for section, offset, own in zip(block.sections, block.offset, block.own, strict=True):
        assert section.focal.y is not None
        y = section.focal.y - (offset - own)[:, 0]
        sections.append(replace(section, focal=replace(section.focal, y=y)))
    return fit_chosen(sections, plan.own)


def _kept_fit(plan: Plan, candidate: Candidate, sections: Sequence[Section], start: int) -> Part:
    """Fit a part, or read what was fitted before."""
    return remembered(plan.checkpoint, lambda: candidate.fit(sections, start))


def _kept_own(sections: Sequence[Section], plan: Plan) -> tuple[Own, Block]:
    """Cross-fit the own model, or read what was fitted before; one that is an estimator may not go into a file."""
    if not isinstance(plan.own.own, str):
        return cross_fit(sections, plan.own)

    def fitted() -> tuple[Own, list[np.ndarray], list[np.ndarray]]:
        own, block = cross_fit(sections, plan.own)
        return own, block.own, block.pool

    own, focal, pool = remembered(plan.checkpoint, fitted)
    return own, Block(list(sections), focal, focal, pool).from_effects(own)


@dataclass(frozen=True)
class _Trial:
    """One origin: rows learned from, and later rows judged by."""

    training: Block
    judged: Block

    @classmethod
    def start(cls, training: Sequence[Section], judged: Sequence[Section], plan: Plan) -> _Trial:
        own, block = _kept_own(training, plan)
        return cls(block, Block.of(own, judged))

    def plus(self, candidate: Candidate, part: Part, seen: Judged, factor: float, plan: Plan) -> _Trial:
        """Return the trial with a part in its predictions; ``seen`` is what it added to the judged rows."""
        step = self.step(candidate, part, plan)
        training = self.training.plus(_moves(candidate, part, self.training, plan), step * factor)
        ends = np.cumsum([len(section.focal) for section in self.judged.sections])[:-1]
        return _Trial(training, self.judged.plus(np.split(seen.addition, ends), factor))

    def step(self, candidate: Candidate, part: Part, plan: Plan) -> float:
        """Return the part's step length on the rows it was learned from."""
        if plan.loss is squared_error:
            return 1.0
        return step_length(self.training, _moves(candidate, part, self.training, plan), plan.loss)


def _left(candidate: Candidate, block: Block, plan: Plan) -> list[Section]:
    """Return what a part learns from: what the parts before leave, or all that the own model leaves."""
    return (block.at_own() if candidate.replaces else block).residuals(plan.loss, outcomes=plan.outcomes)


def _moves(candidate: Candidate, part: Part | Added, block: Block, plan: Plan) -> list[np.ndarray]:
    """Return by how much the part, in full, would move the prediction of every focal row."""
    found = remembered(plan.checkpoint, lambda: part.additions(_left(candidate, block, plan)))
    if not candidate.replaces:
        return found
    return [own + a - offset for own, a, offset in zip(block.own, found, block.offset, strict=True)]


@dataclass(frozen=True)
class _InFull:
    """A part that enters without being judged."""

    evidence: Evidence = replace(NOTHING, factor=1.0)
    parts: tuple[Part, ...] = ()
    rows: tuple[Judged, ...] = ()


@dataclass(frozen=True)
class _Tried:
    evidence: Evidence
    parts: tuple[Part, ...]
    rows: tuple[Judged, ...]


def _judged(candidate: Candidate, trials: Sequence[_Trial], plan: Plan, level: float) -> _Tried:
    """Fit a part at every origin and weigh what it adds later; give up once its shrunken factor would be 0."""
    evidence, parts = NOTHING, list[Part]()
    rows: list[Judged] = []
    forecast = plan.dated and not plan.outcomes
    n_periods = sum(len(trial.judged.sections) for trial in trials)
    if forecast and n_periods < FEW_PERIODS:  # they could not speak for a forecast
        return _Tried(replace(NOTHING, periods=n_periods), (), ())
    for number, trial in enumerate(trials):
        part = candidate.fit(_left(candidate, trial.training, plan), MOST_STARTS + number)
        parts.append(part)
        rows.append(_held_out(candidate, part, trial, plan, number))
        together = Judged(
            *(np.concatenate(column) for column in zip(*(vars(r).values() for r in rows), strict=True))
        )
        evidence = weigh(
            together, plan.loss, forecast=forecast, mutual=plan.dated and plan.outcomes, level=level
        )
        if not evidence.t > 1:
            return _Tried(replace(evidence, factor=0.0), tuple(parts), tuple(rows))
    return _Tried(evidence, tuple(parts), tuple(rows))


def step_length(block: Block, additions: Sequence[np.ndarray], loss: Loss) -> float:
    """Return the multiple of additions of least loss (Friedman 2001); 1 for squared errors, which parts minimise themselves."""
    if loss is squared_error:
        return 1.0
    y, weight = _outcomes(block)
    base, g = torch.as_tensor(np.concatenate(block.offset)), torch.as_tensor(np.concatenate(additions))
    return float(
        minimize_scalar(
            lambda c: float(np.average(loss(base + c * g, torch.as_tensor(y)).numpy(), weights=weight)),
            bounds=(0.0, MOST_STEP),
            method="bounded",
        ).x
    )


def _level(block: Block, plan: Plan) -> np.ndarray:
    """Return the constant of least loss beside the predictions, (K,); own models and parts minimise squared errors without."""
    if plan.loss is squared_error:
        return np.zeros(plan.own.n_outputs)
    y, weight = _outcomes(block)
    ones, offset = np.ones((len(y), 1)), np.concatenate(block.offset)
    return minimised(ones, y, weight, plan.loss, plan.own.n_outputs, offset=offset)[0]


def _outcomes(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Return outcomes and loss weights of all focal rows."""
    rows = [section.focal for section in block.sections]
    y = np.concatenate([r.y for r in rows if r.y is not None])
    return y, np.concatenate([row_weight(r) for r in rows])


def _held_out(candidate: Candidate, part: Part, trial: _Trial, plan: Plan, number: int) -> Judged:
    judged, step = trial.judged, trial.step(candidate, part, plan)
    additions = _moves(candidate, part, judged, plan)
    rows = [section.focal for section in judged.sections]
    period = [np.full(len(r), number + k * 1j if plan.dated else 0) for k, r in enumerate(rows)]
    return Judged(
        np.concatenate(judged.offset),
        step * np.concatenate(additions),
        *_outcomes(judged),
        np.concatenate(period),
        np.concatenate([firm_keys(r, plan.dated) for r in rows]),
    )
