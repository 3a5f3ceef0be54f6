"""The fit: candidates in the order of what they read, one stack over held-out forward origins, one refit on all periods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from peerattn.models.attention.head_starts import HeadStarts
from peerattn.models.attention.history import History
from peerattn.models.attention.judging import (
    GROUPS,
    HISTORY,
    MEAN,
    PEERS,
    SHAPE,
    WHOLE,
    WITHIN,
    Candidate,
    Fitted,
    Judged,
    Predictions,
    Weighed,
    difference,
    no_evidence,
    peers_unjudged,
    predictions,
    reads_peers,
)
from peerattn.models.attention.losses import squared_error
from peerattn.models.attention.origins import Origin, forward_origins, outcomes_of
from peerattn.models.attention.stack import Stage, loss_of
from peerattn.models.attention.stages import remembered
from peerattn.models.attention.training import Problem, Training, View
from peerattn.models.pools import Section
from peerattn.training import Checkpoint


@dataclass(frozen=True)
class Stack:
    r"""``ŷ = ols + Σ_m w_m (P_m − ols)``: own lines, fitted candidates, and the weights of each group given those before it.

    Group after group :math:`B_g = B_{g-1} + \sum_{m \in g} w_m (P_m - B_{g-1})` from :math:`B_0 = ols`, which is the sum above
    with each weight times one less those of later groups. A firm without a past has no prediction from history: it gets the stack
    that was weighed without that group.

    Attributes
    ----------
    view : View
        Own lines, the bound of a shown outcome beyond them, and what they leave of training outcomes.
    fitted : dict
        Candidates that entered, by name.
    stages, newcomers : dict of Stage
        By group; the second of firms without a past.
    evidence, steps : DataFrame
        See ``PeerAttentionRegressor.evidence_`` and ``explain_gain``.
    level : ndarray (K,)
        Added at the end: the constant of least loss in training where that is not the squared error, whose level candidates keep
        (a quantile comes nearer to the median as more is explained).
    trials : dict
        The candidates fitted at each origin, by name: what the reported stability compares.
    """

    view: View
    fitted: dict[str, Any]
    stages: dict[str, Stage]
    newcomers: dict[str, Stage]
    evidence: pd.DataFrame
    steps: pd.DataFrame
    level: np.ndarray
    trials: dict[str, list[Any]] = field(default_factory=dict, repr=False)

    def peers(self) -> dict[str, Any]:
        """Return the parts that read peers and entered."""
        return {name: part for name, part in self.fitted.items() if reads_peers(part)}

    def weight(self, candidate: str) -> float:
        """Return the weight of a part that reads peers (of differences within a period, where it has two)."""
        weights = self.stages[PEERS].weights.items()
        return float(sum(w for (name, _, of), w in weights if name == candidate and of != MEAN))

    def predict(self, seen: Sequence[Section]) -> list[np.ndarray]:
        """Return predictions of the focal rows of cross-sections as peers are learned from, (n_focal, K) each."""
        found = predictions(self.fitted, seen)
        return [
            self._section(own, {c: {n: p[k] for n, p in of.items()} for c, of in found.items()}) + self.level
            for k, own in enumerate(self.view.lines.of(seen))
        ]

    def _section(self, own: np.ndarray, found: dict[str, dict[str, np.ndarray]]) -> np.ndarray:
        base = self._weighed(own, found, self.stages)
        history = [found[c][name] for c, name, _ in self.stages[HISTORY].entered() if c in found]
        if not history or (spoken := np.isfinite(history[0][:, :1])).all():
            return base
        return np.where(spoken, base, self._weighed(own, found, self.newcomers))

    def _weighed(
        self, base: np.ndarray, found: dict[str, dict[str, np.ndarray]], stages: dict[str, Stage]
    ) -> np.ndarray:
        for group, stage in stages.items():
            # a candidate that could not be fitted to all periods adds nothing
            entered = [column for column in stage.entered() if column[0] in found]
            moves = [
                stage.weights[c, n, of] * difference(found[c][n], base, group, of) for c, n, of in entered
            ]
            base = base + sum(moves) if moves else base
        return base


def fit_stack(
    sections: Sequence[Section],
    candidates: Sequence[Candidate],
    problem: Problem,
    *,
    kappa: float | None,
    split: bool = False,
    checkpoint: Checkpoint | None = None,
) -> Stack:
    """Fit every candidate at each forward origin, weigh them by what they say of later periods, and refit those that enter.

    ``split``: in forecasts of whole cross-sections peers have a weight for the period's mean and one for differences within
    it. With ``kappa=None`` candidates, of which there may be one a group, enter in full, unjudged.
    """
    judges = kappa is not None and bool(candidates)
    origins = forward_origins(sections, problem.purge, problem.dated) if judges else []
    weighed = partial(Weighed, candidates, problem=problem, kappa=kappa or 0.0, split=split)
    judged, trials = _tried(origins, candidates, problem, weighed, checkpoint)
    training = Training.of(sections, problem)
    if kappa is None:
        stages = {group: Stage({}, float("nan"), 0.0) for group in GROUPS}
        for each in candidates:
            stages[each.group] = Stage({(each.name, each.name, WHOLE): 1.0}, float("nan"), 0.0)
        newcomers, evidence, steps = stages, no_evidence(stages), pd.DataFrame()
    else:
        of_all = weighed(judged)
        stages, bases = of_all.stages()
        evidence, steps = of_all.tables(stages, bases)
        newcomers = of_all.stages(without=HISTORY)[0] if stages[HISTORY].entered() else stages
    fitted = _refitted(training, candidates, trials, stages, newcomers, checkpoint)
    none = np.zeros(problem.n_outputs)
    stack = Stack(training.view, fitted, stages, newcomers, evidence, steps, none, trials)
    if problem.loss is squared_error or not fitted:
        return stack
    return replace(stack, level=_level(stack, training))


def _tried(
    origins: Sequence[Origin],
    candidates: Sequence[Candidate],
    problem: Problem,
    weighed: Callable[[list[Judged]], Weighed],
    checkpoint: Checkpoint | None,
) -> tuple[list[Judged], dict[str, list[Any]]]:
    """Fit every candidate that can be judged at each origin; return what they say of later periods, and the fitted by name."""
    judged, trials = list[Judged](), {each.name: list[Any]() for each in candidates}
    unjudged = peers_unjudged([section for origin in origins for section in origin.judged], problem)
    for origin in origins:
        training = Training.of(origin.training, problem)
        now = Judged(origin, with_past(training.history, training.seen(origin.judged)), training.lines, {})
        for each in candidates:
            if unjudged and each.group == PEERS:
                continue
            start = trials[each.name][-1] if origin.forward and trials[each.name] else None
            part = _on_trial(each, training, start, now, weighed, checkpoint)
            if part is not None:
                trials[each.name].append(part)
        judged.append(now)
    return judged, trials


def _on_trial(
    candidate: Candidate,
    training: Training,
    start: Any,
    now: Judged,
    weighed: Callable[[list[Judged]], Weighed],
    checkpoint: Checkpoint | None,
) -> Fitted | None:
    """Fit a candidate at one origin, and add to ``now`` what it says of the later periods."""
    tried = list[tuple[Fitted, Predictions]]()

    def said(part: Fitted) -> Predictions:
        known = [found for other, found in tried if other is part]
        return known[0] if known else predictions({candidate.name: part}, now.seen, training.problem.dtype)

    def helps(part: Fitted) -> bool:
        tried.append((part, said(part)))
        return weighed([replace(now, found=now.found | tried[-1][1])]).helps(candidate)

    part = _made(candidate, partial(candidate.fit, training, start, helps), checkpoint)
    if part is not None:
        now.found.update(said(part))
    return part


def _refitted(
    training: Training,
    candidates: Sequence[Candidate],
    trials: Mapping[str, list[Any]],
    stages: Mapping[str, Stage],
    newcomers: Mapping[str, Stage],
    checkpoint: Checkpoint | None,
) -> dict[str, Any]:
    """Fit the candidates that entered to all periods."""
    entered = [c for of in (stages, newcomers) for stage in of.values() for c in stage.entered()]
    fitted = {}
    for each in candidates:
        names = {name for candidate, name, _ in entered if candidate == each.name}
        if not names:
            continue
        start = _mixed(trials[each.name][-1], each.name, names, stages[PEERS]) if trials[each.name] else None
        if start is not None and each.refit is not None:
            part = _made(each, partial(each.refit, training, start), checkpoint)
        else:
            part = _made(each, partial(each.fit, training, start, lambda _: True), checkpoint)
        part = _mixed(part, each.name, names, stages[PEERS])
        if part is not None:
            fitted[each.name] = part
    return fitted


def _made(
    candidate: Candidate, make: Callable[[], Fitted | None], checkpoint: Checkpoint | None
) -> Fitted | None:
    """Fit a candidate, or read what was fitted; own models are fitted again."""
    return make() if candidate.group == SHAPE else remembered(checkpoint, make)


def _level(stack: Stack, training: Training) -> np.ndarray:
    """Return the constant of least loss that predictions lack, (K,)."""
    predicted = np.concatenate(stack.predict(with_past(training.history, training.residuals)))
    y, weight = outcomes_of(training.sections)
    loss = lambda level: float(loss_of(training.loss, predicted + level, y) @ weight)  # noqa: E731
    return np.atleast_1d(minimize(loss, np.zeros(training.n_outputs), method="Powell").x)


def _mixed(part: Any, candidate: str, names: set[str], stage: Stage) -> Any:
    """Return a candidate; of heads, the starts that entered, mixed by their weight: within a period, where there are two."""
    if not isinstance(part, HeadStarts):
        return part
    weight = {
        name: sum(stage.weights.get((candidate, name, of), 0.0) for of in (WHOLE, WITHIN))
        for name in sorted(names)
    }
    return part.weighed(weight)


def with_past(history: History, seen: Sequence[Section]) -> list[Section]:
    """Return cross-sections with what is known of the firms' past: that of training, and of the call where outcomes are shown."""
    past = known_past(history, seen)
    return [replace(section, past=past) for section in seen]


def known_past(history: History, seen: Sequence[Section]) -> History:
    """Return a history with the periods whose outcomes are shown."""
    return history.joined(History.of([replace(s, focal=replace(s.focal, y=None)) for s in seen]))
