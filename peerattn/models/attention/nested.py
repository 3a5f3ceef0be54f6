"""The nested model: own term, then each part by a factor in [0, 1] that held-out periods decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize_scalar

from peerattn.models.attention.evidence import (
    LEVEL,
    NOTHING,
    Evidence,
    Judged,
    origins,
    weigh,
)
from peerattn.models.attention.losses import Loss, squared_error
from peerattn.models.attention.own_model import Block, Own, OwnSettings, cross_fit, firm_keys, row_weight
from peerattn.models.pools import Section

COVARIANCE, HEADS = "covariance", "heads"  # names of the parts
MOST_STEP = (
    16.0  # times the working residual: curvature of the losses is at least 1/16 of the squared error's
)


class Part(Protocol):
    """What is learned of peers beyond the own model."""

    def additions(self, sections: Sequence[Section]) -> list[np.ndarray]:
        """Return what the part adds to every focal row of each cross-section, (n_focal, K)."""

    def weights(self, section: Section, rows: slice) -> np.ndarray:
        """Return the weights that these focal rows put on all peers, (n_rows, n_peers)."""


Fitter = Callable[[Sequence[Section]], Part]


@dataclass(frozen=True)
class Added:
    """A part that entered, by its factor; ``trials`` are the fits of the origins, by which it was judged."""

    part: Part
    factor: float
    trials: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Nested:
    """The own model, the parts that entered by name, and the evidence on every part that was tried."""

    own: Own
    parts: dict[str, Added]
    evidence: pd.DataFrame
    pool: list[np.ndarray]  # out-of-fold own term of the training peers


@dataclass(frozen=True)
class Plan:
    """How parts are judged: the own model and loss, whether outcomes are read, and periods purged before an origin."""

    own: OwnSettings
    outcomes: bool
    purge: int

    @property
    def loss(self) -> Loss:
        """Loss of a row."""
        return self.own.loss

    @property
    def dated(self) -> bool:
        """Whether rows have periods."""
        return self.own.dated


def fit_nested(sections: Sequence[Section], fitters: Mapping[str, Fitter], plan: Plan, judge: bool) -> Nested:
    """Fit the own model, then part after part on what is left, each by the factor that later periods give it.

    Without ``judge`` every part enters in full, unseen.
    """
    own, whole = cross_fit(sections, plan.own)
    trials = [
        _Trial.start(origin.training, origin.judged, plan)
        for origin in (origins(sections, plan.purge, plan.dated) if judge and fitters else [])
    ]
    parts: dict[str, Added] = {}
    rows = []
    for name, fit in fitters.items():
        tried = _judged(trials, fit, plan, LEVEL / len(fitters)) if judge else _InFull()
        rows.append({"part": name, **vars(tried.evidence)})
        if not tried.evidence.factor > 0:
            continue
        left = whole.residuals(plan.loss, outcomes=plan.outcomes)
        part = fit(left)
        additions = part.additions(left)
        factor = tried.evidence.factor * step_length(whole, additions, plan.loss)
        parts[name] = Added(part, factor, tried.parts)
        if name != list(fitters)[-1]:
            whole = whole.plus(additions, factor)
            trials = [trial.plus(p, factor, plan) for trial, p in zip(trials, tried.parts, strict=True)]
    columns = ["part", *vars(NOTHING)]
    return Nested(own, parts, pd.DataFrame(rows, columns=columns).set_index("part"), whole.pool)


@dataclass(frozen=True)
class _Trial:
    """One origin: rows learned from, and later rows judged by."""

    training: Block
    judged: Block

    @classmethod
    def start(cls, training: Sequence[Section], judged: Sequence[Section], plan: Plan) -> _Trial:
        own, block = cross_fit(training, plan.own)
        return cls(block, Block.of(own, judged))

    def plus(self, part: Part, factor: float, plan: Plan) -> _Trial:
        additions, held_out = self.additions(part, plan)
        return _Trial(self.training.plus(additions, factor), self.judged.plus(held_out, factor))

    def additions(self, part: Part, plan: Plan) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return what a part adds to the training rows and to the judged rows, times its step length."""
        both = [
            part.additions(block.residuals(plan.loss, outcomes=plan.outcomes))
            for block in (self.training, self.judged)
        ]
        if plan.loss is squared_error:
            return both[0], both[1]
        step = step_length(self.training, both[0], plan.loss)
        return [step * a for a in both[0]], [step * a for a in both[1]]


@dataclass(frozen=True)
class _InFull:
    """A part that enters without being judged."""

    evidence: Evidence = replace(NOTHING, factor=1.0)
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class _Tried:
    evidence: Evidence
    parts: tuple[Part, ...]


def _judged(trials: Sequence[_Trial], fit: Fitter, plan: Plan, level: float) -> _Tried:
    """Fit a part at every origin and weigh what it adds later; give up once it does worse than nothing."""
    evidence, parts, rows = NOTHING, [], []
    forecast = plan.dated and not plan.outcomes
    for trial in trials:
        part = fit(trial.training.residuals(plan.loss, outcomes=plan.outcomes))
        parts.append(part)
        rows.append(_held_out(trial.additions(part, plan)[1], trial.judged, plan, number=len(rows)))
        together = Judged(
            *(np.concatenate(column) for column in zip(*(vars(r).values() for r in rows), strict=True))
        )
        evidence = weigh(together, plan.loss, forecast=forecast, level=level)
        if not evidence.t > 0:
            return _Tried(replace(evidence, factor=0.0), tuple(parts))
    return _Tried(evidence, tuple(parts))


def step_length(block: Block, additions: Sequence[np.ndarray], loss: Loss) -> float:
    """Return the multiple of additions of least loss (Friedman 2001); 1 for squared errors, which parts minimise themselves."""
    if loss is squared_error:
        return 1.0
    rows = [section.focal for section in block.sections]
    base, g = torch.as_tensor(np.concatenate(block.offset)), torch.as_tensor(np.concatenate(additions))
    y = torch.as_tensor(np.concatenate([r.y for r in rows if r.y is not None]))
    weight = np.concatenate([row_weight(r) for r in rows])
    return float(
        minimize_scalar(
            lambda c: float(np.average(loss(base + c * g, y).numpy(), weights=weight)),
            bounds=(0.0, MOST_STEP),
            method="bounded",
        ).x
    )


def _held_out(additions: Sequence[np.ndarray], judged: Block, plan: Plan, number: int) -> Judged:
    rows = [section.focal for section in judged.sections]
    period = [np.full(len(r), number + k * 1j if plan.dated else 0) for k, r in enumerate(rows)]
    return Judged(
        np.concatenate(judged.offset),
        np.concatenate(additions),
        np.concatenate([r.y for r in rows if r.y is not None]),
        np.concatenate([row_weight(r) for r in rows]),
        np.concatenate(period),
        np.concatenate([firm_keys(r, plan.dated) for r in rows]),
    )
