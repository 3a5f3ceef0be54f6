"""The checks of an audit: each tries to refute one claim, and says what it saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.made_of_later import at_later, made_of_later, reach_of_outcome
from peerattn.evaluation.leak_audit.made_of_networks import network_made_of_outcomes
from peerattn.evaluation.leak_audit.made_of_outcomes import Labels, made_of_outcomes
from peerattn.evaluation.leak_audit.relations import SAME, closer, correlation
from peerattn.evaluation.leak_audit.subject import Subject, skill, within
from peerattn.network import PeerNetwork
from peerattn.panel.codes import looks_like_code
from peerattn.panel.columns import looks_like_outcome, possible_leaks
from peerattn.render import show_label

ROUNDS = 8  # own outcomes moved, one firm a period each
MOVE = 10.0  # standard deviations
BY_NAME = ("network", "prior", "own_group")  # parameters that may name firms


@dataclass(frozen=True)
class AuditLine:
    """One claim, whether it stands, and what was seen.

    Attributes
    ----------
    claim : str
    passed : bool
    evidence : str
    """

    claim: str
    passed: bool
    evidence: str

    @classmethod
    def raised(cls, claim: str, error: Exception) -> AuditLine:
        """Return a claim that is refuted by what trying it raised."""
        return cls(claim, False, f"raised {type(error).__name__}: {' '.join(str(error).split())[:200]}")

    def __str__(self) -> str:
        return f"{'passed ' if self.passed else 'REFUTED'}  {self.claim}: {self.evidence}"


def columns(
    frame: pd.DataFrame, y: np.ndarray, declared: set[str], labels: Labels | None = None
) -> tuple[AuditLine, list[str]]:
    """No other outcome among the characteristics, no integer code used as a number; and which columns offend.

    ``labels`` are the firm and period of each row as whole numbers, periods in time order.
    """
    found: dict[str, str] = {}
    for name in frame.columns:
        column = frame[name]
        if looks_like_outcome(name):
            found[name] = "is named like an outcome"
        elif name not in declared and looks_like_code(name) and _whole(column):
            found[name] = "is a code used as a number"
    numbers = frame.drop(columns=list(found)).select_dtypes("number").astype(float)
    past = None if labels is None else at_later(y, *labels, -1)
    for name in possible_leaks(numbers, y):
        if past is None or closer(numbers[name].to_numpy(), past, y):
            found[name] = "correlates above 0.98 with the outcome"
    if labels is not None:
        codes = frame[[name for name in frame.columns if name in declared]]
        numbers = numbers.drop(columns=[*found, *codes], errors="ignore")
        found |= made_of_outcomes(numbers, y, *labels, codes)
        found |= made_of_later(numbers.drop(columns=list(found), errors="ignore"), *labels)
    evidence = "; ".join(f"{name!r} {why}" for name, why in found.items())
    fine = f"{frame.shape[1]} columns, none named like an outcome or equal to it, no undeclared code"
    line = AuditLine("no outcome and no numeric code among the characteristics", not found, evidence or fine)
    return line, [name for name in found if name not in declared]


def _whole(column: pd.Series) -> bool:
    if not pd.api.types.is_numeric_dtype(column.dtype):
        return False
    known = column.dropna().to_numpy(dtype=float)
    return bool(len(known) and (known == np.round(known)).all() and (known > 1).any())


def own_outcome(subject: Subject) -> AuditLine:
    """The own outcome has no effect on the own prediction."""
    claim = "the own outcome does not move the own prediction"
    if not subject.entry.shown_outcomes:
        return AuditLine(claim, True, "predict is shown no outcome of the tested periods")
    if subject.entry.reference is not None:
        return AuditLine(
            claim, True, "not tested: outcomes come with reference=, where a firm is left out by its label"
        )
    rng, period, known = subject.rng(1), subject.period, subject.y.notna().to_numpy()
    own = others = 0.0
    moved = 0
    for _ in range(ROUNDS):
        focal = np.array(
            [rng.choice(np.flatnonzero((period == t) & known)) for t in np.unique(period[known])]
        )
        y = subject.y.copy()
        y.iloc[focal] += MOVE * subject.scale
        change = (subject.fitted.predict(subject.X, y) - subject.base).abs().to_numpy()
        moved += len(focal)
        own = max(own, change[focal].max())
        others = max(others, np.delete(change, focal).max(initial=0.0))
    evidence = (
        f"{moved} outcomes moved by {MOVE:g} standard deviations: the own prediction changes by at most {own:.2g}, "
        f"another firm's by up to {others:.2g}"
    )
    return AuditLine(claim, own <= 1e-8 * subject.scale, evidence)


def future(subject: Subject) -> AuditLine:
    """Values dated after the first tested period, and outcomes unknown at it, change no prediction for it."""
    claim = "future values change nothing"
    if not getattr(subject.cv, "forecasts", True):
        return AuditLine(claim, True, f"not asked: {type(subject.cv).__name__} is no forecast and says so")
    ahead = int(getattr(subject.cv, "horizon", 1))
    for train, test in subject.folds:
        if len(train) and subject.when[train].max() > subject.when[test].min() - ahead:
            late = show_label(subject.panel.X.index[train[subject.when[train].argmax()]][1])
            tested = show_label(subject.panel.X.index[test[subject.when[test].argmin()]][1])
            return AuditLine(
                claim, False, f"the split learns from {late} to predict {tested} at horizon {ahead}"
            )
    if subject.known is not None:
        for train, test in subject.folds:
            late = subject.known[train] > subject.when[test].min()
            if late.any():
                share = f"{late.sum():,} of {len(train):,}"
                return AuditLine(
                    claim, False, f"the split learns from {share} outcomes that are known after the origin"
                )
    numbers = subject.panel.X.select_dtypes("number")
    assert subject.panel.firm is not None
    firm = pd.factorize(subject.panel.firm)[0]
    reach, of = reach_of_outcome(numbers, subject.panel.y.to_numpy(dtype=float), firm, subject.when)
    if reach > ahead:
        return AuditLine(
            claim,
            False,
            f"the outcome is made of {of!r} of up to {reach} periods later, the split waits {ahead}",
        )
    changed = _changed_after(subject, subject.tested[0], ahead)
    first = np.flatnonzero(subject.period == subject.tested[0])
    if not np.array_equal(changed.train, subject.train):
        return AuditLine(claim, False, "the rows learned from change with values that are not known yet")
    y = subject.y.where(subject.period == subject.tested[0], changed.y)
    gap = _gap(changed.fitted.predict(changed.X, y).iloc[first], subject.base.iloc[first])
    origin = show_label(subject.X.index[first[0]][1])
    evidence = (
        f"all characteristics after {origin} and all outcomes not known at it changed, model refitted: "
        f"its predictions change by at most {gap:.2g}"
    )
    return AuditLine(claim, gap <= _tolerance(subject), evidence)


def _changed_after(subject: Subject, origin: int, ahead: int) -> Subject:
    rng, X = subject.rng(2), subject.panel.X.copy()
    later = subject.when > origin
    for name in X.select_dtypes("number").columns:
        column = X[name].to_numpy(copy=True)
        column[later] = 7 * np.nanstd(column) + 3 * column[rng.permutation(np.flatnonzero(later))]
        X[name] = column
    y = subject.panel.y.copy()
    unknown = subject.when > origin - ahead
    y[unknown] = 5 * subject.scale - 3 * y[unknown]
    return subject.with_panel(X, y)


def order_and_batch(subject: Subject) -> AuditLine:
    """Row order, index order and batch size change nothing."""
    claim = "row order, index order and batch size change nothing"
    gaps = {
        name: _gap(found.reindex(subject.base.index), subject.base) for name, found in _reordered(subject)
    }
    worst = max(gaps, key=lambda name: gaps[name])
    evidence = ", ".join(f"{name} {gap:.2g}" for name, gap in gaps.items())
    return AuditLine(claim, gaps[worst] <= _tolerance(subject), f"largest change of a prediction: {evidence}")


def _reordered(subject: Subject) -> Iterator[tuple[str, pd.Series]]:
    rng, X, y = subject.rng(3), subject.X, subject.y
    order = rng.permutation(len(X))
    yield "rows shuffled", subject.fitted.predict(X.iloc[order], y.iloc[order])
    swapped = subject.fitted.predict(X.swaplevel(), y.swaplevel())
    yield "levels swapped", swapped.swaplevel()
    parts = [np.flatnonzero(subject.period == t) for t in subject.tested]
    yield "a period at a time", pd.concat([subject.fitted.predict(X.iloc[at], y.iloc[at]) for at in parts])
    if subject.entry.native:
        yield "training rows shuffled", subject.fit(rng).predict(X, y)


def sample(subject: Subject) -> AuditLine:
    """Which rows are learned from and tested does not depend on the labels of the tested periods."""
    claim = "the sample does not depend on labels"
    rng, y = subject.rng(4), subject.panel.y.copy()
    later = np.flatnonzero(subject.when >= subject.tested[0])
    y.iloc[later] = y.iloc[later].to_numpy()[within(rng, subject.when[later])]
    other = subject.with_panel(subject.panel.X, y).folds
    same = len(other) == len(subject.folds) and all(
        np.array_equal(a, c) and np.array_equal(b, d) for (a, b), (c, d) in zip(subject.folds, other)
    )
    if not same:
        return AuditLine(claim, False, "permuting the outcomes of tested periods changes which rows are used")
    n = sum(len(test) for _, test in subject.folds)
    unknown = int(subject.y.isna().sum())
    return AuditLine(
        claim,
        True,
        f"outcomes of tested periods permuted: the same {n:,} rows are tested; rows without an outcome "
        f"({unknown:,} of those asked for) are predicted, too",
    )


def training_only(subject: Subject) -> AuditLine:
    """What is fitted saw training rows only."""
    claim = "scalers and everything fitted saw training rows only"
    carried = _carried(subject.entry.model, len(subject.panel.X)) + _tables(subject)
    if carried:
        return AuditLine(claim, False, f"the model comes with {', '.join(carried)}")
    scaled = _scaled_before(subject)
    if scaled:
        return AuditLine(
            claim,
            False,
            f"{', '.join(map(repr, scaled))}: standardised or ranked over all rows, tested ones included",
        )
    first = subject.period == subject.tested[0]
    X = subject.X.copy()
    for name in X.select_dtypes("number").columns:
        X[name] = X[name].where(first, 100 * X[name] + 100)
    gap = _gap(subject.fitted.predict(X, subject.y)[first], subject.base[first])
    evidence = (
        f"no fitted part comes with the model, no column is standardised over all rows; other tested periods times 100 "
        f"change predictions by {gap:.2g}"
    )
    return AuditLine(claim, gap <= _tolerance(subject), evidence)


def _scaled_before(subject: Subject) -> list[str]:
    found = []
    for name, column in subject.panel.X.select_dtypes("number").items():
        values = column.dropna().to_numpy(dtype=float)
        train = subject.panel.X[name].iloc[subject.train].dropna().to_numpy(dtype=float)
        if len(values) < 20 or np.ptp(values) == 0 or len(train) == len(values):
            continue
        rounding = _rounding(values)
        if any(scaled(values) and not scaled(train) for scaled in (_ranked, _stretched)):
            found.append(str(name))
            continue
        near = 1e-9 + 1.2 * rounding / np.sqrt(
            len(values)
        )  # four standard errors of a mean of rounding errors
        spread = near + rounding**2 / 12
        whole = abs(values.mean()) < near and min(abs(values.std(ddof=k) - 1) for k in (0, 1)) < spread
        if whole and abs(train.mean()) > 4 * near:
            periods = subject.panel.X[name].groupby(level=1).mean()
            if periods.abs().max() > 4 * near + rounding / 4:  # standardised period by period is allowed
                found.append(str(name))
    return found


def _ranked(values: np.ndarray) -> bool:
    """Tell whether values are ranks of all rows: all different, at equal distances."""
    steps = np.diff(np.sort(values))
    return bool(len(steps) >= 20 and steps.min() > 0 and np.ptp(steps) <= 1e-6 * steps.mean())


def _stretched(values: np.ndarray) -> bool:
    """Tell whether values are scaled to [0, 1]: one row has the 0, one row the 1, and the others differ."""
    ends = [int((values == end).sum()) for end in (values.min(), values.max())]
    return bool(values.min() == 0 and values.max() == 1 and ends == [1, 1] and len(np.unique(values)) >= 20)


def _rounding(values: np.ndarray) -> float:
    """Return the unit to which values are rounded: single precision, or at most six decimals; 0 for none."""
    for decimals in range(7):
        if np.abs(values - np.round(values, decimals)).max() <= 1e-12:
            return float(10.0**-decimals)
    return 1e-6 if (values == values.astype(np.float32)).all() else 0.0


def _carried(model: Any, n_rows: int, path: str = "", seen: frozenset[int] = frozenset()) -> list[str]:
    """Return fitted parts and tables among the attributes of an unfitted model."""
    if id(model) in seen:
        return []
    seen, found = seen | {id(model)}, []
    items = vars(model).items() if hasattr(model, "get_params") else []
    if isinstance(model, list | tuple):
        items = [(str(k), part) for k, part in enumerate(model)]
    for name, value in list(items):
        where = f"{path}.{name}" if path else str(name)
        if name.endswith("_") and not name.startswith("_"):
            found.append(f"{where}, fitted before")
        elif isinstance(value, pd.DataFrame | pd.Series | np.ndarray) and len(value) >= n_rows / 2:
            found.append(f"{where}, a table of {len(value):,} rows")
        elif hasattr(value, "get_params") or isinstance(value, list | tuple):
            found += _carried(value, n_rows, where, seen)
    return found


def _tables(subject: Subject) -> list[str]:
    """Return parameters that hold mean outcomes of all periods, or of all firms over all periods."""
    found, y = [], subject.panel.y
    for name, value in subject.entry.model.get_params().items():
        table = pd.Series(value) if isinstance(value, dict) and value else value
        if not isinstance(table, pd.Series) or not pd.api.types.is_numeric_dtype(table.dtype):
            continue
        for level, what in enumerate(("firm", "period")):
            means = y.groupby(level=level).mean()
            given = table[~table.index.duplicated()].reindex(means.index)
            if abs(correlation(given, means, 8)) > SAME:
                found.append(f"{name}, a table of mean outcomes by {what}, tested ones among them")
    return found


def lookups(subject: Subject) -> AuditLine:
    """Predictions come from characteristics, not from a table of rows that the model brought along or kept."""
    claim = "nothing is looked up by row"
    first = subject.base
    hair = subject.X.copy()
    for name in hair.select_dtypes("number").columns:
        hair[name] = hair[name] + 1e-6 * float(np.nanstd(subject.panel.X[name].to_numpy(dtype=float)))
    moved = (subject.fitted.predict(hair, subject.y) - first).abs().to_numpy()
    jumps = float(np.mean(moved > 1e-2 * subject.scale))
    renamed, said = _renamed(subject), ""
    if renamed is not None:
        said = f"; firms renamed, model refitted: by at most {_gap(renamed, first):.2g}"
    evidence = (
        f"characteristics moved by a millionth of their deviation: {jumps:.0%} of predictions jump{said}"
    )
    gap = 0.0 if renamed is None else _gap(renamed, first)
    return AuditLine(claim, jumps <= 0.1 and gap <= 1e-3 * subject.scale, evidence)


def _renamed(subject: Subject) -> pd.Series | None:
    """Return predictions where every firm has another name, in the same order; None where names come with the model."""
    firm = subject.panel.firm
    given = [v for k, v in subject.entry.model.get_params().items() if k.split("__")[-1] in BY_NAME]
    if subject.entry.reference is not None or any(v is not None for v in given) or firm is None:
        return None
    if not (pd.api.types.is_string_dtype(firm.dtype) or firm.inferred_type == "string"):
        return None
    other = subject.with_firms(firm + "'")
    return other.base.set_axis(subject.base.index)


def learning(subject: Subject) -> AuditLine:
    """What a forecast knows, it learned from the training rows: other outcomes there give other forecasts."""
    claim = "what it knows was learned from training rows"
    if subject.entry.shown_outcomes or getattr(subject.entry.model, "reads_outcomes", False):
        return AuditLine(claim, True, "not asked: it reads the outcomes of peers, which need no learning")
    y = subject.panel.y.copy()
    train = subject.train
    y.iloc[train] = y.iloc[train].to_numpy()[within(subject.rng(7), subject.when[train])]
    other = subject.with_panel(subject.panel.X, y).fitted.predict(subject.X, subject.y)
    known, bound = skill(subject.y.to_numpy(), subject.base.to_numpy(), subject.period)
    moved = (other - subject.base).groupby(subject.period).transform(lambda v: v - v.mean()).abs().to_numpy()
    same = float(np.mean(moved <= 1e-6 * subject.scale))
    evidence = (
        f"training outcomes permuted within periods, model refitted: {same:.0%} of forecasts stay as they are"
    )
    return AuditLine(claim, same <= 0.2 or known <= bound, evidence)


def memory(subject: Subject) -> AuditLine:
    """A model fitted on other rows in between is the same again."""
    before = subject.base
    subject.fit(rows=np.flatnonzero(subject.panel.y.notna()))
    gap = _gap(replace(subject).base, before)
    claim, evidence = (
        "one fit leaves nothing behind for another",
        "fitted on all rows in between, then on its own again",
    )
    return AuditLine(
        claim, gap <= 1e-3 * subject.scale, f"{evidence}: its predictions change by at most {gap:.2g}"
    )


def validation(subject: Subject) -> AuditLine:
    """Nothing inside the model is validated on random rows."""
    claim = "nothing is validated on random rows"
    panel = subject.panel
    found = subject.entry.random_rows(panel.X.iloc[subject.train], panel.y.iloc[subject.train])
    fine = "no search, fold or early stop inside the model mixes rows of one period"
    return AuditLine(claim, not found, "; ".join(found) or fine)


def networks(subject: Subject) -> AuditLine:
    """A network that comes with the model was not made of the outcomes of tested periods."""
    claim = "no network was made of tested outcomes"
    given = {
        name: value
        for name, value in subject.entry.model.get_params().items()
        if isinstance(value, PeerNetwork | pd.DataFrame | dict) and name.split("__")[-1] == "network"
    }
    found = {
        name: why
        for name, value in given.items()
        if (why := network_made_of_outcomes(value, subject.panel.y, subject.train, subject.tested))
    }
    evidence = "; ".join(f"{name!r}: {why}" for name, why in found.items())
    fine = (
        f"{len(given)} networks: their order of peers is not that of outcomes"
        if given
        else "no network is given"
    )
    return AuditLine(claim, not found, evidence or fine)


def placebo(subject: Subject, n_placebo: int) -> AuditLine:
    """Peers at random give no gain beyond permuted labels."""
    claim = "permuted labels leave no gain"
    rng, y, period = subject.rng(5), subject.y.to_numpy(), subject.period
    real, bound = skill(y, subject.base.to_numpy(), period)
    found = []
    for _ in range(n_placebo):
        order = within(rng, period)
        if subject.entry.shown_outcomes:  # every firm gets another's outcome, and is scored by it
            shown = subject.y.iloc[order].set_axis(subject.y.index)
            found.append(
                skill(shown.to_numpy(), subject.fitted.predict(subject.X, shown).to_numpy(), period)[0]
            )
        else:  # every firm gets another's characteristics
            X = subject.X.iloc[order].set_axis(subject.X.index)
            predicted = subject.fitted.predict(X, subject.y).to_numpy()
            if np.allclose(predicted, subject.base.to_numpy(), rtol=0, atol=1e-12 * subject.scale):
                return AuditLine(claim, True, "characteristics play no part in what is predicted")
            found.append(skill(y, predicted, period)[0])
    mean = float(np.mean(found))
    evidence = (
        f"correlation within periods {real:.3f} as it is; with labels permuted {n_placebo} times {mean:.3f} on average "
        f"({min(found):.3f} to {max(found):.3f}; refuted above {bound:.3f})"
    )
    return AuditLine(claim, mean <= bound, evidence)


def shuffled(subject: Subject) -> AuditLine:
    """A model that learned from shuffled outcomes has no skill on shuffled outcomes."""
    claim = "shuffled outcomes give no skill"
    order = within(subject.rng(6), subject.when)
    y = subject.panel.y.iloc[order].set_axis(subject.panel.y.index)
    other = subject.with_panel(subject.panel.X, y)
    found, bound = skill(other.y.to_numpy(), other.base.to_numpy(), subject.period)
    evidence = (
        f"outcomes shuffled within periods, model refitted: correlation within periods {found:.3f} "
        f"(refuted above {bound:.3f})"
    )
    return AuditLine(claim, found <= bound, evidence)


def _gap(found: pd.Series, base: pd.Series) -> float:
    return float(np.max(np.abs(found.to_numpy() - base.to_numpy())))


def _tolerance(subject: Subject) -> float:
    return 1e-6 * subject.scale
