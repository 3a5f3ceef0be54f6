"""The fit: candidates in the order of what they read, one stack over held-out forward origins, one refit on all periods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize

from peerattn.models.attention.head_starts import HeadStarts
from peerattn.models.attention.history import History
from peerattn.models.attention.lines import Lines
from peerattn.models.attention.losses import squared_error
from peerattn.models.attention.origins import Origin, forward_origins, outcomes_of, row_keys
from peerattn.models.attention.stack import FEW_PERIODS, HeldOut, Stage, effective_number, loss_of, weigh
from peerattn.models.attention.stages import remembered
from peerattn.models.attention.training import Problem, Training, View
from peerattn.models.pools import Section
from peerattn.training import Checkpoint

SHAPE, HISTORY, COMMON, PEERS = GROUPS = ("shape", "history", "common", "peers")
OTHERS = 2  # times κ for what reads other firms, so that about 5 % of panels without peers let any in
WHOLE, WITHIN, MEAN = "", " (within period)", " (period mean)"
Column = tuple[
    str, str, str
]  # of the problem: candidate, which of its predictions, and what of it (WHOLE, WITHIN or MEAN)


class Fitted(Protocol):
    """What a candidate gives for cross-sections as peers are learned from (their ``past`` set).

    ``predict`` of one that reads peers, which has a ``derivative``, also takes the ``dtype`` to compute in.
    """

    def predict(self, sections: Sequence[Section]) -> Any:
        """Return the prediction of every focal row of each cross-section, (n_focal, K), NaN without one; or several by name."""


Helps = Callable[[Fitted], bool]
Predictions = dict[str, dict[str, list[np.ndarray]]]  # by candidate and name: of each cross-section


def predictions(
    parts: Mapping[str, Any], seen: Sequence[Section], dtype: torch.dtype = torch.float64
) -> Predictions:
    """Return what candidates predict: one prediction each, or several by name."""
    found = {
        candidate: part.predict(seen, dtype) if reads_peers(part) else part.predict(seen)
        for candidate, part in parts.items()
    }
    return {c: p if isinstance(p, dict) else {c: p} for c, p in found.items()}


def reads_peers(part: Any) -> bool:
    """Whether a fitted candidate reads peers, so that its prediction has a derivative by their outcomes."""
    return hasattr(part, "derivative")


@dataclass(frozen=True)
class Candidate:
    """One way to predict: its group, and how it is fitted.

    ``fit(training, start, helps)`` goes on from where it stood at an earlier origin; ``helps(part)`` tells whether what is fitted
    so far is worth going on with. None: not on these data. ``refit`` fits it to all periods from where it stood at the last
    origin; without it, ``fit`` does.
    """

    name: str
    group: str
    fit: Callable[[Training, Any, Helps], Fitted | None]
    refit: Callable[[Training, Any], Fitted] | None = None


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


def difference(predicted: np.ndarray, base: np.ndarray, group: str, of: str) -> np.ndarray:
    """Return ``P − B`` in one cross-section (n_focal, K), its mean, or what it has beside that; zero without a prediction.

    What is common to a period adds to the base: it is what others leave, not a prediction of its own.
    """
    D = predicted if group == COMMON else np.where(np.isfinite(predicted), predicted - base, 0.0)
    if of == WHOLE or not len(D):
        return D
    mean = np.broadcast_to(D.mean(axis=0), D.shape)
    return mean if of == MEAN else D - mean


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
    weighed = partial(_Weighed, candidates, problem=problem, kappa=kappa or 0.0, split=split)
    judged, trials = _tried(origins, candidates, problem, weighed, checkpoint)
    training = Training.of(sections, problem)
    if kappa is None:
        stages = {group: Stage({}, float("nan"), 0.0) for group in GROUPS}
        for each in candidates:
            stages[each.group] = Stage({(each.name, each.name, WHOLE): 1.0}, float("nan"), 0.0)
        newcomers, evidence, steps = stages, _no_evidence(stages), pd.DataFrame()
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


def _peers_unjudged(judged: Sequence[Section], problem: Problem) -> str:
    """Return why peers cannot be judged on these held-out cross-sections, or nothing."""
    if not judged:
        return "fewer than 50 known outcomes, or one period to learn from and to judge by"
    n = effective_number([len(section.focal) for section in judged])
    if problem.dated and not problem.outcomes and n < FEW_PERIODS - 0.5:
        return f"{n:.1f} periods to judge by, where a forecast needs {FEW_PERIODS}"
    return ""


def _tried(
    origins: Sequence[Origin],
    candidates: Sequence[Candidate],
    problem: Problem,
    weighed: Callable[[list[_Judged]], _Weighed],
    checkpoint: Checkpoint | None,
) -> tuple[list[_Judged], dict[str, list[Any]]]:
    """Fit every candidate that can be judged at each origin; return what they say of later periods, and the fitted by name."""
    judged, trials = list[_Judged](), {each.name: list[Any]() for each in candidates}
    unjudged = _peers_unjudged([section for origin in origins for section in origin.judged], problem)
    for origin in origins:
        training = Training.of(origin.training, problem)
        now = _Judged(origin, with_past(training.history, training.seen(origin.judged)), training.lines, {})
        for each in candidates:
            if unjudged and each.group == PEERS:
                continue

            def helps(part: Fitted, of: Candidate = each, now: _Judged = now) -> bool:
                trial = replace(now, found=now.found | predictions({of.name: part}, now.seen, problem.dtype))
                return weighed([trial]).helps(of)

            start = trials[each.name][-1] if origin.forward and trials[each.name] else None
            part = _made(each, partial(each.fit, training, start, helps), checkpoint)
            if part is not None:
                trials[each.name].append(part)
                now.found.update(predictions({each.name: part}, now.seen, problem.dtype))
        judged.append(now)
    return judged, trials


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


@dataclass(frozen=True)
class _Judged:
    """One origin: the later cross-sections as seen, own lines, and what every candidate says of them."""

    origin: Origin
    seen: list[Section]
    lines: Lines
    found: Predictions


class _Weighed:
    """The problem of each group in turn, over the held-out rows of all origins."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        judged: Sequence[_Judged],
        problem: Problem,
        kappa: float,
        split: bool,
    ):
        self.candidates, self.judged, self.problem, self.kappa, self.split = (
            candidates, judged, problem, kappa, split,
        )  # fmt: skip
        self.lines = [p for each in judged for p in each.lines.of(each.seen)]
        self.rows = self._rows() if judged else None

    def _rows(self) -> HeldOut:
        sections = [section for each in self.judged for section in each.origin.judged]
        rows = [section.focal for section in sections]
        firm = np.concatenate(
            [r.owner.to_numpy(dtype=object) if self.problem.dated else row_keys(r) for r in rows]
        )
        period = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        return HeldOut(np.concatenate(self.lines), *outcomes_of(sections), pd.factorize(firm)[0], period)

    def stages(self, without: str = "") -> tuple[dict[str, Stage], list[list[np.ndarray]]]:
        """Return the weights of each group given those before it, one group left out, and the stack before and after each."""
        stages, bases = {}, [self.lines]
        for group in GROUPS:
            unjudged = group == without or self.rows is None or (group == PEERS and self._unjudged())
            columns = {} if unjudged else self._columns(group, bases[-1])
            stages[group] = self._weigh(group, columns, bases[-1])
            moves = [(w, columns[c]) for c, w in stages[group].weights.items() if w > 0]
            bases.append([b + sum(w * D[k] for w, D in moves) for k, b in enumerate(bases[-1])])
        return stages, bases

    def helps(self, candidate: Candidate) -> bool:
        """Tell whether a candidate enters, given the groups before its own and the others of its group."""
        base = self.stages()[1][GROUPS.index(candidate.group)]
        stage = self._weigh(candidate.group, self._columns(candidate.group, base), base)
        return any(name == candidate.name for name, *_ in stage.entered())

    def _weigh(self, group: str, columns: dict[Column, list[np.ndarray]], base: list[np.ndarray]) -> Stage:
        if not columns or self.rows is None:
            return Stage({}, float("nan"), 0.0)
        held = replace(self.rows, base=np.concatenate(base))
        joined = {column: np.concatenate(parts) for column, parts in columns.items()}
        others = group in (COMMON, PEERS)  # groups that read other firms
        mutual = others and self.problem.dated and self.problem.outcomes
        kappa = self.kappa * (OTHERS if others else 1)
        return weigh(held, joined, self.problem.loss, kappa, mutual=mutual, kinds=[of for *_, of in joined])

    def _columns(self, group: str, base: list[np.ndarray]) -> dict[Column, list[np.ndarray]]:
        """Return the problem's columns, cross-section by cross-section; zero at an origin where a candidate was not fitted."""
        of_group = {each.name for each in self.candidates if each.group == group}
        names = dict.fromkeys(
            (c, name) for each in self.judged for c, of in each.found.items() if c in of_group for name in of
        )
        ends = (WITHIN, MEAN) if self.split and group == PEERS else (WHOLE,)
        columns: dict[Column, list[np.ndarray]] = {(*name, end): [] for name in names for end in ends}
        k = 0
        for each in self.judged:
            for at in range(len(each.seen)):
                for (candidate, name, of), parts in columns.items():
                    found = each.found.get(candidate, {}).get(name)
                    none = np.zeros_like(base[k])
                    parts.append(none if found is None else difference(found[at], base[k], group, of))
                k += 1
        return {column: parts for column, parts in columns.items() if any(p.any() for p in parts)}

    def _unjudged(self) -> str:
        """Return why peers cannot be judged, or nothing."""
        return _peers_unjudged([s for each in self.judged for s in each.origin.judged], self.problem)

    def tables(
        self, stages: dict[str, Stage], bases: list[list[np.ndarray]]
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the evidence on every group, and held-out R² step by step."""
        evidence = _no_evidence(stages)
        tried = {c.group for c in self.candidates}
        for group in GROUPS:
            unjudged = self._unjudged() if group == PEERS or self.rows is None else ""
            reason = unjudged if group in tried else "not tried"
            evidence.loc[group, "judged"], evidence.loc[group, "reason"] = not reason, reason
        evidence["periods"] = 0.0 if self.rows is None else round(self.rows.n_periods, 1)
        if self.rows is None:
            return evidence, pd.DataFrame(columns=["r2", "gain"])
        loss, y, weight = self.problem.loss, self.rows.y, self.rows.weight
        zero = loss_of(loss, np.zeros_like(self.rows.base), y) @ weight
        r2 = [1 - float(loss_of(loss, np.concatenate(b), y) @ weight) / zero for b in bases]
        steps = pd.DataFrame({"r2": r2, "gain": np.diff(r2, prepend=0.0)}, index=["own lines", *GROUPS])
        return evidence, steps.rename_axis("step")


def _no_evidence(stages: dict[str, Stage]) -> pd.DataFrame:
    rows = {
        group: {
            "factor": float(sum(w for (_, _, of), w in stage.weights.items() if of != MEAN)),
            "t": stage.t,
            "gain": stage.gain,
            "periods": 0.0,
            "judged": False,
            "reason": "entered in full" if stage.weights else "not judged",
            "entered": ", ".join(
                f"{name}{of} {stage.weights[c, name, of]:.2f}" for c, name, of in stage.entered()
            ),
        }
        for group, stage in stages.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("group")
