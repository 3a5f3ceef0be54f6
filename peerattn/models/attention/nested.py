"""The nested model: own term, then each part by a factor in [0, 1] that held-out periods decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize_scalar

from peerattn.models.attention.evidence import (
    FEW_PERIODS,
    LEVEL,
    NOTHING,
    Evidence,
    Judged,
    origins,
    weigh,
)
from peerattn.models.attention.losses import Loss, squared_error
from peerattn.models.attention.own_model import (
    Block,
    Own,
    OwnSettings,
    cross_fit,
    firm_keys,
    minimised,
    row_weight,
)
from peerattn.models.attention.parts import COVARIANCE, RIDGE, Fitter, Part
from peerattn.models.attention.stability import MOST_STARTS, stable
from peerattn.models.pools import Section

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
    """How parts are judged: the own model and loss, whether outcomes are read, and periods purged before an origin."""

    own: OwnSettings
    outcomes: bool
    purge: int

    @property
    def loss(self) -> Loss:
        """Loss of a row."""
        return self.own.loss

    def replaces(self, name: str) -> bool:
        """Whether a part takes the place of those before it, rather than adding to them: it reads all that own models leave.

        The ridge does; with effects of periods the covariance, whose level and codes are such effects, too.
        """
        effects = self.own.effects
        return name == RIDGE or (name == COVARIANCE and effects is not None and bool(effects.of_periods))

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
    of_period = 1.0
    rows, compared = [], []
    for name, fit in fitters.items():
        tried = _judged(name, trials, fit, plan, LEVEL / len(fitters)) if judge else _InFull()
        evidence = tried.evidence
        if evidence.factor > 0:
            left = _left(name, whole, plan)
            learn = partial(fit, left)
            fits, agreement = stable(learn, tried.parts, left) if judge else ((learn(0),), None)
            compared.append(agreement if agreement is None else agreement.assign(part=name))
            if fits:
                added = Added(fits, evidence.factor)
                moves = _moves(name, added, whole, plan)
                factor = evidence.factor * step_length(whole, moves, plan.loss)
                if plan.replaces(name):  # what was before it, by so much
                    parts = {n: replace(p, factor=(1 - factor) * p.factor) for n, p in parts.items()}
                    of_period *= 1 - factor
                parts[name] = replace(added, factor=factor)
                whole = whole.plus(moves, factor)
                if name != list(fitters)[-1]:
                    each = zip(trials, tried.parts, tried.rows, strict=True)
                    trials = [t.plus(name, part, seen, evidence.factor, plan) for t, part, seen in each]
            else:  # as many starts, as many networks
                evidence = replace(evidence, factor=0.0)
        rows.append({"part": name, **vars(evidence)})
    columns = ["part", *vars(NOTHING)]
    return Nested(
        own,
        of_period,
        _level(whole, plan) if parts else np.zeros(plan.own.n_outputs),
        parts,
        pd.DataFrame(rows, columns=columns).set_index("part"),
        pd.concat([NO_COMPARISON, *compared], ignore_index=True),
        whole.pool,
    )


@dataclass(frozen=True)
class _Trial:
    """One origin: rows learned from, and later rows judged by."""

    training: Block
    judged: Block

    @classmethod
    def start(cls, training: Sequence[Section], judged: Sequence[Section], plan: Plan) -> _Trial:
        own, block = cross_fit(training, plan.own)
        return cls(block, Block.of(own, judged))

    def plus(self, name: str, part: Part, seen: Judged, factor: float, plan: Plan) -> _Trial:
        """Return the trial with a part in its predictions; ``seen`` is what it added to the judged rows."""
        step = self.step(name, part, plan)
        training = self.training.plus(_moves(name, part, self.training, plan), step * factor)
        ends = np.cumsum([len(section.focal) for section in self.judged.sections])[:-1]
        return _Trial(training, self.judged.plus(np.split(seen.addition, ends), factor))

    def step(self, name: str, part: Part, plan: Plan) -> float:
        """Return the part's step length on the rows it was learned from."""
        if plan.loss is squared_error:
            return 1.0
        return step_length(self.training, _moves(name, part, self.training, plan), plan.loss)


def _left(name: str, block: Block, plan: Plan) -> list[Section]:
    """Return what a part learns from: what the parts before leave, or all that the own model leaves."""
    return (block.at_own() if plan.replaces(name) else block).residuals(plan.loss, outcomes=plan.outcomes)


def _moves(name: str, part: Part | Added, block: Block, plan: Plan) -> list[np.ndarray]:
    """Return by how much the part, in full, would move the prediction of every focal row."""
    found = part.additions(_left(name, block, plan))
    if not plan.replaces(name):
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


def _judged(name: str, trials: Sequence[_Trial], fit: Fitter, plan: Plan, level: float) -> _Tried:
    """Fit a part at every origin and weigh what it adds later; give up once it does worse than nothing."""
    evidence, parts = NOTHING, list[Part]()
    rows: list[Judged] = []
    forecast = plan.dated and not plan.outcomes
    n_periods = sum(len(trial.judged.sections) for trial in trials)
    if forecast and n_periods < FEW_PERIODS:  # they could not speak for a forecast
        return _Tried(replace(NOTHING, periods=n_periods), (), ())
    for number, trial in enumerate(trials):
        part = fit(_left(name, trial.training, plan), MOST_STARTS + number)
        parts.append(part)
        rows.append(_held_out(name, part, trial, plan, number))
        together = Judged(
            *(np.concatenate(column) for column in zip(*(vars(r).values() for r in rows), strict=True))
        )
        evidence = weigh(together, plan.loss, forecast=forecast, level=level)
        if not evidence.t > 0:
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


def _held_out(name: str, part: Part, trial: _Trial, plan: Plan, number: int) -> Judged:
    judged, step = trial.judged, trial.step(name, part, plan)
    additions = _moves(name, part, judged, plan)
    rows = [section.focal for section in judged.sections]
    period = [np.full(len(r), number + k * 1j if plan.dated else 0) for k, r in enumerate(rows)]
    return Judged(
        np.concatenate(judged.offset),
        step * np.concatenate(additions),
        *_outcomes(judged),
        np.concatenate(period),
        np.concatenate([firm_keys(r, plan.dated) for r in rows]),
    )
