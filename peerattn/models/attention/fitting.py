"""The fit: candidates in the order of what they read, one stack over held-out forward origins, one refit on all periods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pandas as pd

from peerattn.models.attention.head_starts import HeadStarts
from peerattn.models.attention.history import History
from peerattn.models.attention.lines import Lines
from peerattn.models.attention.origins import Origin, forward_origins, row_keys, row_weight
from peerattn.models.attention.stack import FEW_PERIODS, HeldOut, Stage, loss_of, weigh
from peerattn.models.attention.stages import remembered
from peerattn.models.attention.training import Problem, Training
from peerattn.models.pools import Section
from peerattn.training import Checkpoint

SHAPE, HISTORY, COMMON, PEERS = GROUPS = ("shape", "history", "common", "peers")
OTHERS = 2  # times κ for what reads other firms, so that about 5 % of panels without peers let any in
WITHIN, MEAN = " (within period)", " (period mean)"


class Fitted(Protocol):
    """What a candidate gives for cross-sections as peers are learned from (their ``past`` set)."""

    def predict(self, sections: Sequence[Section]) -> Any:
        """Return the prediction of every focal row of each cross-section, (n_focal, K), NaN without one; or several by name."""


def predictions(name: str, part: Fitted, seen: Sequence[Section]) -> dict[str, list[np.ndarray]]:
    """Return a candidate's predictions by name: one, or those of each of its starts."""
    found = part.predict(seen)
    return found if isinstance(found, dict) else {name: found}


@dataclass(frozen=True)
class Candidate:
    """One way to predict: its group, and how it is fitted, from where it stood at an earlier origin; None: not on these data."""

    name: str
    group: str
    fit: Callable[[Training, Any], Fitted | None]


@dataclass(frozen=True)
class Stack:
    r"""``ŷ = ols + Σ_m w_m (P_m − ols)``: own lines, fitted candidates, and the weights of each group given those before it.

    Group after group :math:`B_g = B_{g-1} + \sum_{m \in g} w_m (P_m - B_{g-1})` from :math:`B_0 = ols`, which is the sum above
    with each weight times one less those of later groups. A firm without a past has no prediction from history: it gets the stack
    that was weighed without that group.

    Attributes
    ----------
    lines, limit, history
        Own lines, the bound of a shown outcome beyond them, and what they leave of training outcomes.
    fitted : dict
        Candidates that entered, by name.
    stages, newcomers : dict of Stage
        By group; the second of firms without a past.
    evidence, steps : DataFrame
        See ``PeerAttentionRegressor.evidence_`` and ``explain_gain``.
    trials : dict
        The candidates fitted at each origin, by name: what the reported stability compares.
    """

    lines: Lines
    limit: float
    history: History
    fitted: dict[str, Any]
    stages: dict[str, Stage]
    newcomers: dict[str, Stage]
    evidence: pd.DataFrame
    steps: pd.DataFrame
    trials: dict[str, list[Any]] = field(default_factory=dict, repr=False)

    def peers(self) -> dict[str, Any]:
        """Return the parts that read peers and entered."""
        return {name: part for name, part in self.fitted.items() if hasattr(part, "derivative")}

    def heads(self) -> Any:
        """Return the softmax heads that entered, mixed by their weights, or None."""
        found = self.fitted.get("heads")
        return None if found is None else found.part

    def weight(self, name: str) -> float:
        """Return the weight of a part that reads peers (of differences within a period, where it has two)."""
        return _total(self.stages[PEERS], name)

    def predict(self, seen: Sequence[Section]) -> list[np.ndarray]:
        """Return predictions of the focal rows of cross-sections as peers are learned from, (n_focal, K) each."""
        found: dict[str, list[np.ndarray]] = {}
        for name, part in self.fitted.items():
            found |= predictions(name, part, seen)
        return [
            self._section(section, {name: each[k] for name, each in found.items()})
            for k, section in enumerate(seen)
        ]

    def _section(self, section: Section, found: dict[str, np.ndarray]) -> np.ndarray:
        base = self._weighed(section, found, self.stages)
        past = [p for name, p in found.items() if _name_in(name, self.stages[HISTORY])]
        if not past or (spoken := np.isfinite(past[0][:, :1])).all():
            return base
        return np.where(spoken, base, self._weighed(section, found, self.newcomers))

    def _weighed(
        self, section: Section, found: dict[str, np.ndarray], stages: dict[str, Stage]
    ) -> np.ndarray:
        base = self.lines.predict(section.focal)
        for group, stage in stages.items():
            used = {name: p for name, p in found.items() if _name_in(name, stage)}
            columns = differences(used, base, group == COMMON, splits(stage))
            moves = [w * columns[c] for c, w in stage.weights.items() if w > 0 and c in columns]
            base = base + sum(moves) if moves else base
        return base


def _total(stage: Stage, name: str = "") -> float:
    """Return the sum of a group's weights (of differences within a period, where there are two), or of one part of it."""
    found = (w for c, w in stage.weights.items() if c.startswith(name) and not c.endswith(MEAN))
    return float(sum(found))


def _name_in(name: str, stage: Stage) -> bool:
    return any(name + end in stage.weights for end in ("", WITHIN))


def splits(stage: Stage) -> bool:
    """Tell whether a group's candidates have a weight for the period's mean and one for the differences within it."""
    return any(column.endswith(MEAN) for column in stage.weights)


def differences(
    found: dict[str, np.ndarray], base: np.ndarray, adds: bool, split: bool
) -> dict[str, np.ndarray]:
    """Return ``P_m − B`` of the candidates in one cross-section, by column of the problem, (n_focal, K).

    What is common to a period ``adds``: it is what others leave, not a prediction of its own.
    """
    columns: dict[str, np.ndarray] = {}
    for name, p in found.items():
        D = p if adds else np.where(np.isfinite(p), p - base, 0.0)
        if split:
            mean = D.mean(axis=0, keepdims=True) if len(D) else D
            columns |= {name + WITHIN: D - mean, name + MEAN: np.broadcast_to(mean, D.shape)}
        else:
            columns[name] = D
    return columns


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
    origins = (
        forward_origins(sections, problem.purge, problem.dated) if kappa is not None and candidates else []
    )
    fit = partial(_fit, checkpoint=checkpoint)
    trials: dict[str, list[Any]] = {each.name: [] for each in candidates}
    judged = []
    for origin in origins:
        training = Training.of(origin.training, problem)
        seen = with_past(training, [training.seen(s) for s in origin.judged])
        found: dict[str, tuple[str, list[np.ndarray]]] = {}
        for each in candidates:
            part = fit(each, training, next((p for p in reversed(trials[each.name]) if p), None))
            trials[each.name].append(part)
            if part is not None:
                found |= {column: (each.group, p) for column, p in predictions(each.name, part, seen).items()}
        judged.append(_Judged(origin, seen, training, found))
    weighed = None if kappa is None else _Weighed(candidates, judged, problem, kappa, split)
    newcomers = weighed.stages(without=HISTORY) if weighed else _in_full(candidates)
    stages = weighed.stages() if weighed else _in_full(candidates)
    training = Training.of(sections, problem)
    fitted = {}
    for each in candidates:
        both = (known[each.group].weights.items() for known in (newcomers, stages))
        weights = {c: w for of in both for c, w in of if c.startswith(each.name) and w > 0}
        if weights:
            part = fit(each, training, next((p for p in reversed(trials[each.name]) if p), None))
            if isinstance(part, HeadStarts):
                part = part.weighed(_of_starts(weights))
            if part is not None:
                fitted[each.name] = part
    evidence, steps = weighed.tables(stages) if weighed else (_no_evidence(stages), pd.DataFrame())
    compared = {name: [p for p in parts if p is not None] for name, parts in trials.items()}
    seen_by = (training.lines, training.limit, training.history)
    return Stack(*seen_by, fitted, stages, newcomers, evidence, steps, compared)


def _of_starts(weights: dict[str, float]) -> dict[str, float]:
    """Return the weights of the starts that entered: of differences within a period, where there are two."""
    entered = {c.removesuffix(WITHIN).removesuffix(MEAN) for c, w in weights.items() if w > 0}
    return {name: weights.get(name, weights.get(name + WITHIN, 0.0)) for name in sorted(entered)}


def with_past(training: Training, seen: Sequence[Section]) -> list[Section]:
    """Return cross-sections with what is known of the firms' past: that of training, and of the call where outcomes are shown."""
    past = known_past(training.history, seen)
    return [replace(section, past=past) for section in seen]


def known_past(history: History, seen: Sequence[Section]) -> History:
    """Return a history with the periods whose outcomes are shown."""
    return history.joined(History.of([replace(s, focal=replace(s.focal, y=None)) for s in seen]))


def _fit(
    candidate: Candidate, training: Training, start: Any, checkpoint: Checkpoint | None
) -> Fitted | None:
    """Fit a candidate, or read what was fitted before; own models of other packages are fitted again."""
    if candidate.group == SHAPE:
        return candidate.fit(training, start)
    return remembered(checkpoint, lambda: candidate.fit(training, start))


def _in_full(candidates: Sequence[Candidate]) -> dict[str, Stage]:
    stages = {group: Stage({}, float("nan"), 0.0) for group in GROUPS}
    for each in candidates:
        stages[each.group] = Stage({each.name: 1.0}, float("nan"), 0.0)
    return stages


@dataclass(frozen=True)
class _Judged:
    """One origin: the later cross-sections as seen, and what every candidate says of them."""

    origin: Origin
    seen: list[Section]
    training: Training
    found: dict[str, tuple[str, list[np.ndarray]]]


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
        self.candidates, self.judged, self.problem, self.kappa = candidates, judged, problem, kappa
        self.split, self.bases = split, [self._own_lines()]
        self.rows = self._rows() if judged else None
        self._common = {c.name for c in candidates if c.group == COMMON}

    def _own_lines(self) -> list[np.ndarray]:
        return [each.training.lines.predict(s.focal) for each in self.judged for s in each.seen]

    def _rows(self) -> HeldOut:
        origin = [s for each in self.judged for s in each.origin.judged]
        rows = [s.focal for s in origin]
        firm = np.concatenate(
            [r.owner.to_numpy(dtype=object) if self.problem.dated else row_keys(r) for r in rows]
        )
        period = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        y, weight = np.concatenate([r.y for r in rows]), np.concatenate([row_weight(r) for r in rows])
        return HeldOut(np.concatenate(self.bases[0]), y, weight, pd.factorize(firm)[0], period)

    def stages(self, without: str = "") -> dict[str, Stage]:
        """Return the weights of each group given those before it, one group left out."""
        self.bases = self.bases[:1]
        return {group: self._stage(group, left_out=group == without) for group in GROUPS}

    def _stage(self, group: str, left_out: bool) -> Stage:
        base, split = self.bases[-1], self.split and group == PEERS
        names = list(
            dict.fromkeys(n for each in self.judged for n, (g, _) in each.found.items() if g == group)
        )
        if self.rows is None or not names or left_out or (group == PEERS and self._unjudged()):
            self.bases.append(base)
            return Stage({}, float("nan"), 0.0)
        columns = self._columns(names, base, split)
        held = replace(self.rows, base=np.concatenate(base))
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        others = group in (COMMON, PEERS)  # groups that read other firms
        kappa = self.kappa * (OTHERS if others else 1)
        stage = weigh(held, joined, self.problem.loss, kappa, mutual=others and self._mutual())
        moved = [
            b + sum(stage.weights[name] * parts[k] for name, parts in columns.items())
            for k, b in enumerate(base)
        ]
        self.bases.append(moved)
        return stage

    def _mutual(self) -> bool:
        return self.problem.dated and self.problem.outcomes

    def _columns(self, names: list[str], base: list[np.ndarray], split: bool) -> dict[str, list[np.ndarray]]:
        """Return the problem's columns, cross-section by cross-section; zero at an origin where a candidate was not fitted."""
        columns: dict[str, list[np.ndarray]] = {}
        k = 0
        for each in self.judged:
            here = {name: each.found[name][1] for name in names if name in each.found}
            for at in range(len(each.seen)):
                now = {name: p[at] for name, p in here.items()}
                found = differences(now, base[k], names[0] in self._common, split)
                for name in names:
                    for end in (WITHIN, MEAN) if split else ("",):
                        D = found.get(name + end, np.zeros_like(base[k]))
                        columns.setdefault(name + end, []).append(D)
                k += 1
        return {name: parts for name, parts in columns.items() if any(p.any() for p in parts)}

    def _unjudged(self) -> str:
        """Return why peers cannot be judged, or nothing."""
        if self.rows is None:
            return "fewer than 50 known outcomes, or one period to learn from and to judge by"
        if self.problem.dated and not self.problem.outcomes and self.rows.n_periods < FEW_PERIODS - 0.5:
            return f"{self.rows.n_periods:.1f} periods to judge by, where a forecast needs {FEW_PERIODS}"
        return ""

    def tables(self, stages: dict[str, Stage]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the evidence on every group, and held-out R² step by step."""
        evidence = _no_evidence(stages)
        tried = {c.group for c in self.candidates}
        for group in GROUPS:
            reason = (
                (self._unjudged() if group == PEERS or self.rows is None else "")
                if group in tried
                else "not tried"
            )
            evidence.loc[group, "judged"], evidence.loc[group, "reason"] = not reason, reason
        evidence["periods"] = 0.0 if self.rows is None else round(self.rows.n_periods, 1)
        if self.rows is None:
            return evidence, pd.DataFrame(columns=["r2", "gain"])
        zero = loss_of(self.problem.loss, np.zeros_like(self.rows.base), self.rows.y) @ self.rows.weight
        r2 = [
            1 - float(loss_of(self.problem.loss, np.concatenate(b), self.rows.y) @ self.rows.weight) / zero
            for b in self.bases
        ]
        steps = pd.DataFrame({"r2": r2, "gain": np.diff(r2, prepend=0.0)}, index=["own lines", *GROUPS])
        return evidence, steps.rename_axis("step")


def _no_evidence(stages: dict[str, Stage]) -> pd.DataFrame:
    rows = {
        group: {
            "factor": _total(stage),
            "t": stage.t,
            "gain": stage.gain,
            "periods": 0.0,
            "judged": False,
            "reason": "entered in full" if stage.weights else "not judged",
            "entered": ", ".join(f"{name} {w:.2f}" for name, w in stage.weights.items() if w > 0),
        }
        for group, stage in stages.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("group")
