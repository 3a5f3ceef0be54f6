"""Candidates, and how they are judged: by what they say of periods later than those they learned from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch

from peerattn.models.attention.lines import Lines
from peerattn.models.attention.origins import Origin, outcomes_of, row_keys
from peerattn.models.attention.stack import FEW_PERIODS, HeldOut, Stage, effective_number, loss_of, weigh
from peerattn.models.attention.training import Problem, Training
from peerattn.models.pools import Section

SHAPE, HISTORY, COMMON, PEERS = GROUPS = ("shape", "history", "common", "peers")
OTHERS = 2  # times κ for what reads other firms, so that about 5 % of panels without peers let any in
WHOLE, WITHIN, MEAN = "", " (within period)", " (period mean)"
Column = tuple[str, str, str]  # candidate, which of its predictions, and what of it (WHOLE, WITHIN or MEAN)


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


def difference(predicted: np.ndarray, base: np.ndarray, group: str, of: str) -> np.ndarray:
    """Return ``P − B`` in one cross-section (n_focal, K), its mean, or what it has beside that; zero without a prediction.

    What is common to a period adds to the base: it is what others leave, not a prediction of its own.
    """
    D = predicted if group == COMMON else np.where(np.isfinite(predicted), predicted - base, 0.0)
    if of == WHOLE or not len(D):
        return D
    mean = np.broadcast_to(D.mean(axis=0), D.shape)
    return mean if of == MEAN else D - mean


def peers_unjudged(judged: Sequence[Section], problem: Problem) -> str:
    """Return why peers cannot be judged on these held-out cross-sections, or nothing."""
    if not judged:
        return "fewer than 50 known outcomes, or one period to learn from and to judge by"
    n = effective_number([len(section.focal) for section in judged])
    if problem.dated and not problem.outcomes and n < FEW_PERIODS - 0.5:
        return f"{n:.1f} periods to judge by, where a forecast needs {FEW_PERIODS}"
    return ""


@dataclass(frozen=True)
class Judged:
    """One origin: the later cross-sections as seen, own lines, and what every candidate says of them."""

    origin: Origin
    seen: list[Section]
    lines: Lines
    found: Predictions


class Weighed:
    """The problem of each group in turn, over the held-out rows of all origins."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        judged: Sequence[Judged],
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
        return peers_unjudged([s for each in self.judged for s in each.origin.judged], self.problem)

    def tables(
        self, stages: dict[str, Stage], bases: list[list[np.ndarray]]
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the evidence on every group, and held-out R² step by step."""
        evidence = no_evidence(stages)
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


def no_evidence(stages: dict[str, Stage]) -> pd.DataFrame:
    """Return what the stages say of every group, unjudged."""
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
