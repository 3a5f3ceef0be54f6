"""The fit: candidates in the order of what they read, one stack over held-out forward origins, one refit on all periods."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.common import CodeShocks, PeriodMean
from peerattn.models.learners.heads.heads import Heads, shares
from peerattn.models.learners.heads.selection import InFull
from peerattn.models.learners.losses import loss_of, squared_error
from peerattn.models.learners.priors import NO_TERMS
from peerattn.models.learners.protocol import OfRows, Part, PeerPart
from peerattn.models.learners.training import Problem, Training, View
from peerattn.models.stacking.evidence import Evidence, OriginResult, evidence_of
from peerattn.models.stacking.groups import COMMON, GROUPS, HISTORY, NONLINEAR, PEERS, Candidate, Parts, difference, predictions
from peerattn.models.stacking.origins import Origin, forward_origins, outcomes_of, share_learned
from peerattn.models.stacking.weights import Column, Scope, Stage


@dataclass(frozen=True)
class Stack:
    r"""``ŷ = ols + Σ_m w_m (P_m − ols)``: the linear own part, fitted candidates, and each group's weights given those before it.

    Group after group :math:`B_g = B_{g-1} + \sum_{m \in g} w_m (P_m - B_{g-1})` from :math:`B_0 = ols`, which is the sum above
    with each weight times one less those of later groups.
    A firm without a past has no prediction from history: it gets a stack of its own, weighed without that group.

    Attributes
    ----------
    view : View
        The linear own part, the bound of an observed residual, and the residuals of training outcomes.
    fitted : dict
        Parts of candidates that were selected, by name.
    stages : dict of Stage
        By group.
    without_history : Stack, optional
        The stack of firms without a past, where history has a weight.
    evidence, steps : DataFrame
        See ``PeerAttentionRegressor.evidence_`` and ``explain_gain``.
    level : ndarray (K,)
        Added at the end: the constant of least loss in training where that is not the squared error, whose level candidates keep
        (a quantile comes nearer to the median as more is explained).
    held_out : sequence of OriginResult
        The origins, with the parts fitted at each: what the reported stability compares.
    """

    view: View
    fitted: dict[str, Part]
    stages: dict[str, Stage]
    without_history: "Stack | None" = None
    evidence: pd.DataFrame = field(default_factory=pd.DataFrame)
    steps: pd.DataFrame = field(default_factory=pd.DataFrame)
    level: np.ndarray = field(default_factory=lambda: np.zeros(1))
    held_out: Sequence[OriginResult] = field(default=(), repr=False)

    def peers(self) -> dict[str, PeerPart]:
        """Return the parts that use peers and were selected."""
        return {name: part for name, part in self.fitted.items() if isinstance(part, PeerPart)}

    def with_heads(self) -> "Stack":
        """Return the stack whose heads are listed: this one, or that of firms without a past where only it has any."""
        if self._parts_of_heads() or self.without_history is None:
            return self
        return self.without_history

    def heads(self) -> Heads:
        """Return the heads of all parts, mixed by their weights in the network (evenly where all are zero)."""
        parts = self._parts_of_heads().values()
        members = tuple(member for part in parts for member in part.members)
        terms = next((part.terms for part in parts), NO_TERMS)
        return Heads(members, terms, tuple(shares(self.weights_of_heads()).tolist()))

    def weights_of_heads(self) -> np.ndarray:
        """Return the weight of each start of heads in the prediction (of differences within a period)."""
        return np.array([self.weight(name) * mix for name, p in self._parts_of_heads().items() for mix in p.mix])

    def _parts_of_heads(self) -> dict[str, Heads]:
        return {name: part for name, part in sorted(self.fitted.items()) if isinstance(part, Heads)}

    def weight(self, part: str) -> float:
        """Return the weight of a part that reads peers (of differences within a period, where it has two)."""
        return float(sum(w for c, w in self.stages[PEERS].weights.items() if c.candidate == part and c.scope != Scope.MEAN))

    def peer_parts(self) -> dict[str, PeerPart]:
        """Return the parts that use peers and were selected, for firms with a past or without."""
        if self.without_history is None:
            return self.peers()
        return self.without_history.peers() | self.peers()

    def by_past(self, section: CrossSection, of: Callable[["Stack"], OfRows]) -> OfRows:
        """Return what gives (n_rows, n_peers) for focal rows: ``of`` this stack, or of that of firms without a past for these."""
        main = of(self)
        known = self.have_past(section)
        if self.without_history is None or known.all():
            return main
        others = of(self.without_history)
        return lambda rows: np.where(known[rows, None], main(rows), others(rows))

    def summed(self, prepared: CrossSection, of: Any, part: str | None = None) -> OfRows:
        """Return the sum over parts that read peers of what ``of(fitted, prepared)`` gives for focal rows, (n_rows, n_peers).

        Each counts by its weight; one part alone, where it is named, as it is.
        """
        return self.by_past(prepared, lambda stack: stack._summed(prepared, of, part))

    def _summed(self, prepared: CrossSection, of: Any, part: str | None) -> OfRows:
        peers = self.peers()
        weights = {name: self.weight(name) for name in peers if part in (None, name)}
        if part is not None:
            weights = dict.fromkeys(weights, 1.0)
        each = [(weight, of(peers[name], prepared)) for name, weight in weights.items()]

        def total(rows: slice) -> np.ndarray:
            none = np.zeros((rows.stop - rows.start, len(prepared.peers)))
            return np.asarray(sum((weight * of_part(rows) for weight, of_part in each), none))

        return total

    def predict(self, prepared: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return predictions of the focal rows of cross-sections as candidates see them, (n_focal, K) each."""
        return [steps[:, -1] for steps in self.predict_steps(prepared)]

    def predict_steps(self, prepared: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the predictions of the linear part and after each group, (n_focal, 1 + groups, K) each."""
        known = [self.have_past(section) for section in prepared]
        parts = self.fitted
        if self.without_history is not None and not all(each.all() for each in known):
            # a part of both sets of weights predicts once
            parts = self.without_history.fitted | parts
        left: Sequence[CrossSection] = ()
        if any(isinstance(part, CodeShocks | PeriodMean) for part in parts.values()):
            left = self.left(prepared)
        found = predictions(parts, prepared, left)
        steps = []
        for k, (section, at) in enumerate(zip(prepared, known, strict=True)):
            of_section = {name: predicted[k] for name, predicted in found.items()}
            weighed = _weighed(self.stages, section.own_term, of_section)
            if self.without_history is not None and not at.all():
                others = _weighed(self.without_history.stages, section.own_term, of_section)
                weighed = np.where(at[:, None, None], weighed, others)
            steps.append(weighed + self.level)
        return steps

    def have_past(self, section: CrossSection) -> np.ndarray:
        """Return which focal rows have a known outcome of the past, (n_focal,); all where there is one set of weights."""
        if self.without_history is None or section.past is None:
            return np.ones(len(section.focal), dtype=bool)
        _, _, number = section.past.own_past([section])
        return np.asarray(number > 0)

    def left(self, prepared: Sequence[CrossSection]) -> list[CrossSection]:
        """Return cross-sections whose observed outcomes are residuals from own characteristics and history."""
        own = self._own()
        if not own.fitted:
            return list(prepared)
        pools = [section.pool() for section in prepared]
        found = own.predict(pools)
        y = [s.peers.outcomes + (pool.own_term - p)[:, 0] for s, pool, p in zip(prepared, pools, found, strict=True)]
        return [replace(s, peers=replace(s.peers, y=left)) for s, left in zip(prepared, y, strict=True)]

    def _own(self) -> Self:
        """Return the stack of own characteristics and history."""
        stages = {group: self.stages[group] for group in (NONLINEAR, HISTORY)}
        fitted = {name: self.fitted[name] for name in _selected(stages) if name in self.fitted}
        others = self.without_history and self.without_history._own()
        return replace(self, fitted=fitted, stages=stages, without_history=others)


def _weighed(stages: Mapping[str, Stage], base: np.ndarray, found: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the linear part and the stack after each group, (n_focal, 1 + groups, K)."""
    steps = [base]
    for group, stage in stages.items():  # a part that could not be fitted to all periods adds nothing
        B = steps[-1]
        selected = [column for column in stage.selected() if column.candidate in found]
        added = [stage.weights[c] * difference(found[c.candidate], B, base, group, c.scope) for c in selected]
        steps.append(B + sum(added))
    return np.stack(steps, axis=1)


def fit_stack(sections: Sequence[CrossSection], candidates: list[Candidate], problem: Problem, *, kappa: float | None) -> Stack:
    """Fit every candidate at each forward origin, weigh them by what they predict for later periods, and refit those selected.

    With ``kappa=None`` all candidates are used in full, untested.
    """
    origins: list[Origin] = []
    if candidates and kappa is not None:
        origins = forward_origins(sections, problem.purge)
    evidence = partial(Evidence, problem=problem, kappa=kappa or 0.0)
    held_out, latest = _tried(origins, candidates, evidence, problem)
    # what is selected is fitted again, to all periods
    training = Training.of(sections, problem, final=True)
    without_history = None
    if kappa is None:
        fitted = _fitted(candidates, {each.name for each in candidates}, training, latest)
        stages = _stages_in_full(candidates, fitted, problem.within)
        reasons = dict.fromkeys(GROUPS, "not tested")
        reasons |= {each.group: "predicts nothing of held-out periods" for each in candidates if each.name in fitted}
        reasons |= {group: "used in full" for group, stage in stages.items() if stage.selected()}
        table = evidence_of(stages, reasons)
        steps = pd.DataFrame()
    else:
        controls = [each for each in candidates if not each.weighed]
        of_all = evidence(held_out).beyond(controls)
        tested, bases = of_all.stages()
        stages = _of_all_rows(tested, share_learned(origins, sections))
        table, steps = of_all.tables({each.group for each in candidates if each.weighed}, stages, bases)
        fitted = _fitted(candidates, _selected(stages), training, latest)
        if stages[HISTORY].selected():
            of_new = _of_all_rows(of_all.stages(without=HISTORY)[0], share_learned(origins, sections))
            names = _selected(of_new)
            more = _fitted(candidates, names - fitted.keys(), training, latest)
            parts = {name: part for name, part in (fitted | more).items() if name in names}
            without_history = Stack(training.view, parts, of_new)
    stack = Stack(training.view, fitted, stages, without_history, table, steps, np.zeros(problem.n_outputs), held_out)
    if problem.loss is squared_error or not fitted:
        return stack
    return replace(stack, level=_level(stack, training))


def _fitted(candidates: Sequence[Candidate], names: set[str], training: Training, latest: Parts) -> dict[str, Part]:
    """Return the parts of the candidates of these names, fitted to all periods."""
    fitted = dict[str, Part]()
    for each in candidates:
        if each.name in names:
            fitted |= each.fit(training, latest)
    return fitted


def _stages_in_full(candidates: Sequence[Candidate], fitted: Parts, within: bool) -> dict[str, Stage]:
    """Return the stages where candidates are used in full: with the weights that heads have found by themselves, or one."""
    stages = dict.fromkeys(GROUPS, Stage())
    for each in candidates:
        part = fitted.get(each.name)
        if part is None:
            continue
        weights = {Column(each.name): 1.0}
        if isinstance(part, Heads | InFull):
            weights = {Column(each.name): part.size}
            if within:
                weights = {
                    Column(each.name, Scope.WITHIN): part.size,
                    Column(each.name, Scope.MEAN): part.size * part.mean_factor,
                }
        stages[each.group] = Stage(stages[each.group].weights | weights)
    return stages


def _of_all_rows(stages: dict[str, Stage], share: float) -> dict[str, Stage]:
    """Return the weights of candidates learned from all rows; what is common to a period is learned from it alone."""
    return {group: stage.of_all_rows(share) for group, stage in stages.items()} | {COMMON: stages[COMMON]}


def _tried(
    origins: Sequence[Origin], candidates: Sequence[Candidate], evidence: Any, problem: Problem
) -> tuple[list[OriginResult], dict[str, Part]]:
    """Fit every candidate that can be tested at each origin; return what they predict, and the latest part of each."""
    latest = dict[str, Part]()
    trainings = [Training.of(origin.training, problem) for origin in origins]
    held_out = [OriginResult.of(*each) for each in zip(origins, trainings, strict=True)]
    for candidate in candidates:
        if evidence(held_out).untested(candidate.group):
            continue
        # common shocks are those of what own characteristics and history leave, so that these are weighed first
        if candidate.group == COMMON and problem.outcomes and held_out and not held_out[0].left:
            stages, _ = evidence(held_out).stages()
            of_new, _ = evidence(held_out).stages(without=HISTORY)
            for k, (t, j) in enumerate(zip(trainings, held_out, strict=True)):
                stack = Stack(t.view, j.parts, stages, Stack(t.view, j.parts, of_new))
                held_out[k] = replace(j, left=stack.left(j.prepared))
        if candidate.trained:
            _fit_backwards(candidate, held_out, trainings, evidence(held_out))
            continue
        for result, training in zip(held_out, trainings, strict=True):
            earlier: Parts = {}
            if result.origin.forward:  # the parts of another fold know what this one is tested on
                earlier = latest
            latest |= result.fit(candidate, training, earlier)
    return held_out, latest


def _fit_backwards(candidate: Candidate, held_out: list[OriginResult], trainings: list[Training], evidence: Evidence) -> None:
    """Fit a candidate that is trained at length at the last origin first, which has most to learn from, until it is futile."""
    for k in reversed(range(len(held_out))):
        held_out[k].fit(candidate, trainings[k], {})
        given_up = evidence.futile(candidate, held_out[k:])
        if given_up:
            for each in held_out[k:]:
                each.found[candidate.group].pop(candidate.name)
                each.parts.pop(candidate.name)
                each.given_up.append(given_up)
            return


def _selected(stages: dict[str, Stage]) -> set[str]:
    """Return the names of candidates of positive weight."""
    return {column.candidate for stage in stages.values() for column in stage.selected()}


def _level(stack: Stack, training: Training) -> np.ndarray:
    """Return the constant of least loss that predictions lack, (K,)."""
    predicted = np.concatenate(stack.predict(training.residuals))
    y, weight = outcomes_of(training.sections)
    loss = lambda level: float(loss_of(training.problem.loss, predicted + level, y) @ weight)  # noqa: E731
    return np.atleast_1d(minimize(loss, np.zeros(training.problem.n_outputs), method="Powell").x)
