"""How candidates are tested: by what they predict for periods later than those they learned from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import pandas as pd

from peerattn.models.cross_section import CrossSection, effective_number, section_numbers
from peerattn.models.learners.common import SLOPES
from peerattn.models.learners.linear import by_section, stacked_rows
from peerattn.models.learners.losses import loss_of, squared_error
from peerattn.models.learners.protocol import Part
from peerattn.models.learners.training import Problem, Training
from peerattn.models.stacking.groups import COMMON, GROUPS, PEERS, Candidate, Parts, difference, predictions
from peerattn.models.stacking.origins import Origin
from peerattn.models.stacking.weights import FEW_PERIODS, Column, HeldOut, Scope, Stage, conditional_power, too_few, weigh

#: What a prediction has after each step, in the order of information: the linear part, then the groups.
STEPS = ("own characteristics (linear)", "nonlinear own-firm models", "firm history", "common shocks", "peers")
EQUAL = 1e-9  # relative difference of columns that are one
#: κ counts twice for peers, so that about 5 % of panels without any select some.
TIMES = {PEERS: 2}
#: Of heads that stand alone.
BEYOND = "tested beyond nonlinear models of own characteristics"
POWER = 0.2  # conditional power below which a candidate is given up


@dataclass(frozen=True)
class GivenUp:
    """A candidate that is not fitted at all origins, and the t of what it adds to the others of its group at the later ones."""

    name: str
    group: str
    t: float


@dataclass(frozen=True)
class OriginResult:
    """One origin: the later cross-sections as seen, the parts fitted before them, and what these predict, by group.

    ``left`` are these cross-sections with residuals of observed outcomes from the stack of own characteristics and history,
    ``controls`` what the controls of candidates predict, by the candidate; ``given_up`` candidates that were fitted here, whose
    predictions are not used.
    """

    origin: Origin
    prepared: list[CrossSection]
    found: dict[str, dict[str, list[np.ndarray]]]
    parts: dict[str, Part]
    left: Sequence[CrossSection] = ()
    controls: dict[str, list[np.ndarray]] = field(default_factory=dict)
    given_up: list[GivenUp] = field(default_factory=list)

    @classmethod
    def of(cls, origin: Origin, training: Training) -> Self:
        """Return an origin at which nothing has been fitted."""
        prepared = training.history.informed(training.prepared(origin.held_out))
        return cls(origin, prepared, {g: {} for g in GROUPS}, {})

    def without(self, *candidates: Candidate) -> Self:
        """Return the origin as if these candidates had not been fitted."""
        names = {each.name for each in candidates}
        found = {group: {name: p for name, p in of.items() if name not in names} for group, of in self.found.items()}
        return replace(self, found=found)

    def nothing(self) -> list[np.ndarray]:
        """Return the prediction for each cross-section of a part that could not be fitted here: NaN."""
        return [np.full_like(section.own_term, np.nan) for section in self.prepared]

    def fit(self, candidate: Candidate, training: Training, earlier: Parts) -> Parts:
        """Fit a candidate, and its control, add what they predict, and return the fitted parts."""
        observed = (self.prepared, self.left, training.problem.dtype)
        parts = candidate.fit(training, earlier)
        self.parts.update(parts)
        self.found[candidate.group].update(predictions(parts, *observed))
        if candidate.control is None:
            return parts
        control = candidate.control.fit(training, earlier)
        (self.controls[candidate.name],) = predictions(control, *observed).values()
        return {**parts, **control}


@dataclass(frozen=True)
class Evidence:
    """The problem of each group in turn, over the held-out rows of all origins.

    In forecasts of whole cross-sections (``problem.within``) peers have a weight for differences within periods and, where that
    is positive, one for the period's mean. ``tested`` is the stage of peers beside controls: what is not selected there has no
    weight, and t is from there.
    """

    held_out: Sequence[OriginResult]
    problem: Problem
    kappa: float
    tested: Stage | None = None

    def stages(self, without: str | None = None) -> tuple[dict[str, Stage], list[np.ndarray]]:
        """Return the weights of each group given those before it, and the stack before and after each; one may be left out."""
        if not self.held_out:
            return dict.fromkeys(GROUPS, Stage()), []
        held = self._held_out()
        stages = {}
        bases = [held.base]
        for group in GROUPS:
            held = replace(held, base=bases[-1])
            columns: dict[Column, np.ndarray] = {}
            if group != without and not self.untested(group):
                columns = self._columns(group, held)
            stages[group] = self._weighed(group, held, columns)
            if group == PEERS and self.tested is not None:
                stages[group] = stages[group].where_selected(self.tested)
            bases.append(held.base + sum(w * columns[c] for c, w in stages[group].weights.items() if w > 0))
        return stages, bases

    def beyond(self, controls: Sequence[Candidate]) -> Self:
        """Return the evidence without controls, where peers have weight only if they are selected beyond these, too."""
        if not controls:
            return self
        return replace(self, held_out=[each.without(*controls) for each in self.held_out], tested=self.stages()[0][PEERS])

    def _weighed(self, group: str, held: HeldOut, columns: dict[Column, np.ndarray]) -> Stage:
        """Return the weights of a group's columns."""
        tested = dict(columns)
        if group == PEERS:  # candidates with a control are tested by what they predict beyond it
            for name in self.held_out[0].controls:
                tested |= self._differences(group, name, [p for each in self.held_out for p in each.controls[name]])
        loss = self.problem.loss
        solve = partial(weigh, loss=loss, kappa=self._kappa(group), mutual=self._mutual(group), tested=tested)
        if not self.problem.within or group != PEERS:
            return solve(held, columns)
        net = held
        if loss is squared_error:  # a shock that all firms share is no error of differences between them
            net = held.net_of_periods()
        stage = solve(net, {column: D for column, D in columns.items() if column.scope == Scope.WITHIN})
        # a level that wanders beside trending characteristics is by itself no evidence of peers
        if not stage.selected():
            return stage
        means = solve(held, {column: D for column, D in columns.items() if column.scope == Scope.MEAN})
        weights = stage.weights | means.weights
        added = sum((weight * columns[column] for column, weight in weights.items()), np.zeros_like(held.base))
        return replace(stage, weights=weights, loss_reduction=held.weighed_by_period(loss).loss_reduction(loss, added))

    def _mutual(self, group: str) -> bool:
        """Whether firms read each other's outcomes in a group."""
        return group in (COMMON, PEERS) and self.problem.dated and self.problem.outcomes

    def _kappa(self, group: str) -> float:
        if group == COMMON and self.problem.outcomes:  # others' outcomes show it, and variance components shrink it
            return 0.0
        return self.kappa * TIMES.get(group, 1)

    def futile(self, candidate: Candidate, done: Sequence[OriginResult]) -> GivenUp | None:
        """Return a candidate as given up where, after some of the origins, it will hardly add to the others of its group."""
        held = self._held_out()
        so_far = replace(self, held_out=done)
        tested = so_far._held_out()
        if so_far.untested(candidate.group) or len(tested.y) == len(held.y):
            return None
        _, bases = replace(self, held_out=[each.without(candidate) for each in done]).stages()
        group = GROUPS.index(candidate.group)
        columns = so_far._differences(candidate.group, candidate.name, by_section(bases[group], so_far._sections()))
        t = so_far._weighed(candidate.group, replace(tested, base=bases[group + 1]), columns).t
        least = held.threshold(self._kappa(candidate.group), self._mutual(candidate.group))
        if np.isfinite(t) and conditional_power(t, len(tested.y) / len(held.y), least) < POWER:
            return GivenUp(candidate.name, candidate.group, t)
        return None

    def untested(self, group: str) -> str:
        """Return why a group cannot be tested on the held-out cross-sections, or nothing."""
        held_out = self._sections()
        if not held_out:
            return "too few known outcomes to hold some out: 50 are needed, in two periods or more"
        n = effective_number([len(section.focal) for section in held_out])
        if group in (COMMON, PEERS) and self.problem.dated and not self.problem.outcomes and too_few(n):
            return f"held-out periods count as {n:.1f} of equal size, where a forecast needs {FEW_PERIODS}: train on more periods"
        return ""

    def _sections(self) -> list[CrossSection]:
        return [section for each in self.held_out for section in each.origin.held_out]

    def _held_out(self) -> HeldOut:
        sections = self._sections()
        rows = stacked_rows(sections)
        base = np.concatenate([section.own_term for each in self.held_out for section in each.prepared])
        firm = rows.checksums()
        if self.problem.dated:
            firm = np.concatenate([section.focal.owner.to_numpy(dtype=object) for section in sections])
        return HeldOut(base, rows.outcomes, rows.loss_weights, pd.factorize(firm)[0], section_numbers(sections))

    def _columns(self, group: str, held: HeldOut) -> dict[Column, np.ndarray]:
        """Return the problem's columns, (n, K); zero at an origin where a part was not fitted."""
        base = by_section(held.base, self._sections())
        columns = dict[Column, np.ndarray]()
        for name in dict.fromkeys(name for each in self.held_out for name in each.found[group]):
            columns |= self._differences(group, name, base)
        # two columns that are equal would share one weight arbitrarily
        added = Column(SLOPES, Scope.ADDED)
        replaced = columns.get(Column(SLOPES, Scope.WITHIN))
        if replaced is not None and np.abs(columns[added] - replaced).max() <= EQUAL * np.abs(replaced).max():
            del columns[added]
        return {column: D for column, D in columns.items() if D.any()}

    def _differences(self, group: str, name: str, base: Sequence[np.ndarray]) -> dict[Column, np.ndarray]:
        """Return what a candidate predicts beyond a base, (n, K), by the columns of the problem that it has."""
        own = [section.own_term for each in self.held_out for section in each.prepared]
        predicted = [p for each in self.held_out for p in each.found[group].get(name) or each.nothing()]
        rows = list(zip(predicted, base, own, strict=True))
        return {
            Column(name, scope): np.concatenate([difference(*each, group, scope) for each in rows])
            for scope in self._scopes(group, name)
        }

    def _scopes(self, group: str, name: str) -> list[Scope]:
        """Return for what of a prediction there is a column."""
        if name == SLOPES:
            return [Scope.WITHIN, Scope.ADDED]
        if self.problem.within and group == PEERS:
            return [Scope.WITHIN, Scope.MEAN]
        return [Scope.WHOLE]

    def tables(self, tried: set[str], stages: dict[str, Stage], bases: list[np.ndarray]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the evidence on every group of which candidates were tried, and held-out R² step by step."""
        untested = dict.fromkeys(GROUPS, "not tried") | {group: self.untested(group) for group in tried}
        if not self.held_out:
            return evidence_of(stages, untested), pd.DataFrame(columns=["r2", "gain"])
        held = self._held_out()
        given_up = {each.group: each for origin in self.held_out for each in origin.given_up}
        table = evidence_of(stages, untested, round(held.n_periods, 1), given_up, beyond=self.tested is not None)
        losses = [loss_of(self.problem.loss, b, held.y) @ held.weight for b in (0 * bases[0], *bases)]
        r2 = [1 - float(each / (losses[0] or np.nan)) for each in losses[1:]]
        steps = pd.DataFrame({"r2": r2, "gain": np.diff(r2, prepend=0.0)}, index=["own characteristics", *GROUPS])
        return table, steps.rename_axis("step")


def evidence_of(
    stages: dict[str, Stage],
    untested: Mapping[str, str],
    periods: float = 0.0,
    given_up: Mapping[str, GivenUp] | None = None,
    beyond: bool = False,
) -> pd.DataFrame:
    """Return the evidence of the stages on every group, why it is ``untested``, and which candidate was given up, if any.

    ``beyond``: peers were tested beyond controls.
    """
    rows = {}
    for group, stage in stages.items():
        t = stage.t
        reasons = [untested[group]]
        if not untested[group] and not stage.selected() and stage.threshold > 0:
            reasons.append(f"none selected: t must exceed {stage.threshold:.2f}")
        if given_up and group in given_up:
            early = given_up[group]
            reasons.append(f"{early.name} given up: t = {early.t:.2f} on the later held-out rows")
            if np.isnan(t):
                t = early.t
        if beyond and group == PEERS and not untested[group]:
            reasons.append(BEYOND)
        rows[group] = {
            "factor": max((total for kind, total in stage.sums().items() if kind != Scope.MEAN), default=0.0),
            "t": t,
            "loss_reduction": stage.loss_reduction,
            "periods": periods,
            "tested": not untested[group],
            "reason": "; ".join(filter(None, reasons)),
            "selected": ", ".join(f"{column} {stage.weights[column]:.2f}" for column in stage.selected()),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("group")
