"""The checks of an audit: each tries to refute one claim, and says what it saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from peerattn.evaluation.leak_audit.brought_along import brought_along
from peerattn.evaluation.leak_audit.fitted_on_all import fitted_on_all
from peerattn.evaluation.leak_audit.labels import Labels, at_later
from peerattn.evaluation.leak_audit.made_of_later import REACH, made_of_later, reach_of_outcome
from peerattn.evaluation.leak_audit.made_of_networks import network_made_of_outcomes
from peerattn.evaluation.leak_audit.made_of_outcomes import made_of_outcomes
from peerattn.evaluation.leak_audit.relations import FEWEST, closer
from peerattn.evaluation.leak_audit.subject import Subject, skill, within
from peerattn.evaluation.running.inner_folds import random_rows
from peerattn.evaluation.splits.periods import learned_too_late
from peerattn.network import PeerNetwork
from peerattn.panel.codes import are_whole, looks_like_code
from peerattn.panel.columns import looks_like_outcome, possible_leaks
from peerattn.render import show_label

ROUNDS = 8  # own outcomes moved, one firm a period each
MOVE = 10.0  # standard deviations
Found = tuple[bool, str]  # whether the claim stands, and what was seen
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
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        if looks_like_outcome(name):
            found[name] = "is named like an outcome"
        elif name not in declared and looks_like_code(name) and numeric:
            if are_whole(column.to_numpy(dtype=float, na_value=np.nan)):
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


def own_outcome(subject: Subject) -> Found:
    """The own outcome has no effect on the own prediction."""
    if not subject.entry.shown_outcomes:
        return True, "predict is shown no outcome of the tested periods"
    if subject.entry.reference is not None:
        return True, "not tested: outcomes come with reference=, where a firm is left out by its label"
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
    return own <= 1e-8 * subject.scale, evidence


def future(subject: Subject) -> Found:
    """Values dated after the first tested period, and outcomes unknown at it, change no prediction for it."""
    if not getattr(subject.cv, "forecasts", True):
        return True, f"not asked: {type(subject.cv).__name__} is no forecast and says so"
    ahead = int(getattr(subject.cv, "horizon", 1))
    if why := _learns_too_late(subject, ahead) or _not_yet_known(subject, ahead):
        return False, why
    changed = _changed_after(subject, subject.tested[0], ahead)
    first = np.flatnonzero(subject.period == subject.tested[0])
    if not np.array_equal(changed.train, subject.train):
        return False, "the rows learned from change with values that are not known yet"
    y = subject.y.where(subject.period == subject.tested[0], changed.y)
    gap = _gap(changed.fitted.predict(changed.X, y).iloc[first], subject.base.iloc[first])
    evidence = (
        f"all characteristics after {show_label(subject.X.index[first[0]][1])} and all outcomes not known at it changed, model "
        f"refitted: its predictions change by at most {gap:.2g}"
    )
    return gap <= _tolerance(subject), evidence


def _learns_too_late(subject: Subject, ahead: int) -> str:
    """Say how the split learns from outcomes that are not known at the first period it tests."""
    when, index = subject.when, subject.panel.X.index
    for train, test in subject.folds:
        late, unknown = learned_too_late(train, test, when, subject.known, ahead)
        if late:
            last, tested = (
                show_label(index[k][1]) for k in (train[when[train].argmax()], test[when[test].argmin()])
            )
            return f"the split learns from {last} to predict {tested} at horizon {ahead}"
        if unknown:
            return f"the split learns from {unknown:,} of {len(train):,} outcomes that are known after the origin"
    numbers, y = subject.panel.X.select_dtypes("number"), subject.panel.y.to_numpy(dtype=float)
    reach, of = reach_of_outcome(numbers, y, subject.firm, when)
    if reach > ahead:
        return f"the outcome is made of {of!r} of up to {reach} periods later, the split waits {ahead}"
    return ""


def _not_yet_known(subject: Subject, ahead: int) -> str:
    """Say which column holds outcomes of earlier periods that are not known when its rows are."""
    y, firm = subject.panel.y.to_numpy(dtype=float), subject.firm
    known = None if subject.known is None else subject.known.astype(float)
    back = range(1, ahead if known is None else max(ahead, REACH + 1))
    before = {k: at_later(y, firm, subject.when, -k) for k in (*back, len(back) + 1)}
    for name, column in subject.panel.X.select_dtypes("number").items():
        x = column.to_numpy(dtype=float)
        for k in back:
            at = np.isfinite(x) & np.isfinite(before[k])
            at &= before[k] != before[k + 1]  # one that stays is known
            if k >= ahead and known is not None:
                at &= at_later(known, firm, subject.when, -k) > subject.when
            several = at.sum() >= FEWEST and np.ptp(x[at]) > 0
            if several and np.allclose(x[at], before[k][at], rtol=1e-6, atol=0.0):
                return f"{name!r} is the outcome of {k} periods before, in {at.sum():,} rows in which it is not yet known"
    return ""


def _changed_after(subject: Subject, origin: int, ahead: int) -> Subject:
    rng, X = subject.rng(2), subject.panel.X.copy()
    later = subject.when > origin
    for name in X.select_dtypes("number").columns:
        column = X[name].to_numpy(copy=True)
        column[later] = 7 * np.nanstd(column) + 3 * column[rng.permutation(np.flatnonzero(later))]
        X[name] = column
    y = subject.panel.y.copy()
    unknown = subject.when > origin - ahead
    if subject.known is not None:
        unknown |= subject.known > origin
    y[unknown] = 5 * subject.scale - 3 * y[unknown]
    return subject.with_panel(X, y)


def order_and_batch(subject: Subject) -> Found:
    """Row order, index order and batch size change nothing."""
    gaps = {
        name: _gap(found.reindex(subject.base.index), subject.base) for name, found in _reordered(subject)
    }
    worst = max(gaps, key=lambda name: gaps[name])
    evidence = ", ".join(f"{name} {gap:.2g}" for name, gap in gaps.items())
    return gaps[worst] <= _tolerance(subject), f"largest change of a prediction: {evidence}"


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


def sample(subject: Subject) -> Found:
    """Which rows are learned from and tested does not depend on the labels of the tested periods."""
    rng, y = subject.rng(4), subject.panel.y.copy()
    later = np.flatnonzero(subject.when >= subject.tested[0])
    y.iloc[later] = y.iloc[later].to_numpy()[within(rng, subject.when[later])]
    other = subject.with_panel(subject.panel.X, y).folds
    same = len(other) == len(subject.folds) and all(
        np.array_equal(a, c) and np.array_equal(b, d) for (a, b), (c, d) in zip(subject.folds, other)
    )
    if not same:
        return False, "permuting the outcomes of tested periods changes which rows are used"
    n = sum(len(test) for _, test in subject.folds)
    unknown = int(subject.y.isna().sum())
    return (
        True,
        f"outcomes of tested periods permuted: the same {n:,} rows are tested; rows without an outcome "
        f"({unknown:,} of those asked for) are predicted, too",
    )


def training_only(subject: Subject) -> Found:
    """What is fitted saw training rows only."""
    carried = brought_along(subject)
    if carried:
        return False, f"the model comes with {', '.join(carried)}"
    numbers = subject.panel.X.select_dtypes("number").astype(float)
    scaled = fitted_on_all(numbers, subject.train, subject.firm, subject.when)
    if scaled:
        return False, "; ".join(f"{name!r} is {why}, tested ones included" for name, why in scaled.items())
    first = subject.period == subject.tested[0]
    X = subject.X.copy()
    for name in X.select_dtypes("number").columns:
        X[name] = X[name].where(first, 100 * X[name] + 100)
    gap = _gap(subject.fitted.predict(X, subject.y)[first], subject.base[first])
    evidence = (
        f"no fitted part comes with the model, no column is standardised over all rows; other tested periods times 100 "
        f"change predictions by {gap:.2g}"
    )
    return gap <= _tolerance(subject), evidence


def lookups(subject: Subject) -> Found:
    """Predictions come from characteristics, not from a table of rows that the model brought along or kept."""
    first = subject.base
    hair = subject.X.copy()
    for name in hair.select_dtypes("number").columns:
        hair[name] = hair[name] + 1e-6 * float(np.nanstd(subject.panel.X[name].to_numpy(dtype=float)))
    moved = (subject.fitted.predict(hair, subject.y) - first).abs().to_numpy()
    jumps = float(np.mean(moved > 1e-2 * subject.scale))
    renamed, said = _renamed(subject), ""
    if renamed is not None:
        said = f"; firms and periods renamed, model refitted: by at most {_gap(renamed, first):.2g}"
    evidence = (
        f"characteristics moved by a millionth of their deviation: {jumps:.0%} of predictions jump{said}"
    )
    gap = 0.0 if renamed is None else _gap(renamed, first)
    return jumps <= 0.1 and gap <= 1e-3 * subject.scale, evidence


def _renamed(subject: Subject) -> pd.Series | None:
    """Return predictions where firms and periods have other names, in the same order; None where names come with the model."""
    firm, period = subject.panel.firm, subject.panel.period
    params = subject.entry.model.get_params().items()
    named = any(v is not None for k, v in params if k.split("__")[-1] in BY_NAME)
    if subject.entry.reference is not None or named or firm is None or period is None:
        return None
    tables = any(isinstance(v, pd.DataFrame | pd.Series | dict) for _, v in params)
    other = _other_firms(firm), period if tables else _other_periods(period)
    return subject.with_labels(*other).base.set_axis(subject.base.index)


def _other_firms(firm: pd.Index) -> pd.Index:
    """Return other names of the same order, or numbers of the same distances."""
    if pd.api.types.is_integer_dtype(firm.dtype):
        return firm + (int(firm.max()) - int(firm.min()) + 1)
    return firm + "'" if pd.api.types.is_string_dtype(firm.dtype) or firm.inferred_type == "string" else firm


def _other_periods(period: pd.Index) -> pd.Index:
    """Return the same months and days 28 years later, when the calendar is the same."""
    if isinstance(period, pd.DatetimeIndex):
        return pd.DatetimeIndex(period.map(lambda t: t.replace(year=t.year + 28)))
    if pd.api.types.is_integer_dtype(period.dtype):
        return period + (2800 if period.min() > 100_000 else 28)  # months as yyyymm, or years
    return period


def learning(subject: Subject) -> Found:
    """What a forecast knows, it learned from the training rows: opposite outcomes there give opposite forecasts."""
    if subject.entry.shown_outcomes or getattr(subject.entry.model, "reads_outcomes", False):
        return True, "not asked: it reads the outcomes of peers, which need no learning"
    y = subject.panel.y.copy()
    learned = y.iloc[subject.train]
    y.iloc[subject.train] = learned.max() + learned.min() - learned  # of the same range
    other = subject.with_panel(subject.panel.X, y).fitted.predict(subject.X, subject.y)
    outcome = subject.y.to_numpy()
    known, bound = skill(outcome, subject.base.to_numpy(), subject.period)
    kept = skill(outcome, other.to_numpy(), subject.period)[0]
    moved = (other - subject.base).groupby(subject.period).transform(lambda v: v - v.mean()).abs().to_numpy()
    same = float(np.mean(moved <= 1e-6 * subject.scale))
    evidence = (
        f"training outcomes turned upside down, model refitted: {same:.0%} of forecasts stay as they are, their correlation "
        f"with outcomes within periods goes from {known:.3f} to {kept:.3f} (refuted above {bound:.3f})"
    )
    return known <= bound or (same <= 0.2 and kept <= bound), evidence


def memory(subject: Subject) -> Found:
    """A model fitted on other rows in between is the same again."""
    before = subject.base
    subject.fit(rows=np.flatnonzero(subject.panel.y.notna()))
    gap = _gap(replace(subject).base, before)
    evidence = "fitted on all rows in between, then on its own again"
    return gap <= 1e-3 * subject.scale, f"{evidence}: its predictions change by at most {gap:.2g}"


def validation(subject: Subject) -> Found:
    """Nothing inside the model is validated on random rows."""
    panel = subject.panel
    X, y = panel.X.iloc[subject.train], panel.y.iloc[subject.train]
    found = subject.entry.random_rows(X, y)
    found += [
        f"{name}, fitted: {said}"
        for name, part in getattr(subject.fitted.model, "__dict__", {}).items()
        if name.endswith("_") and isinstance(part, BaseEstimator) and not found
        if not any(
            key.split("__")[-1] == "cv" for key in part.get_params()
        )  # folds by position are of its own rows
        for said in random_rows(part, X, y)
    ]
    fine = "no search, fold or early stop inside the model mixes rows of one period"
    return not found, "; ".join(found) or fine


def networks(subject: Subject) -> Found:
    """A network that comes with the model was not made of the outcomes of tested periods."""
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
    return not found, evidence or fine


def placebo(subject: Subject, n_placebo: int) -> Found:
    """Peers at random give no gain beyond permuted labels."""
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
                return True, "characteristics play no part in what is predicted"
            found.append(skill(y, predicted, period)[0])
    mean = float(np.mean(found))
    evidence = (
        f"correlation within periods {real:.3f} as it is; with labels permuted {n_placebo} times {mean:.3f} on average "
        f"({min(found):.3f} to {max(found):.3f}; refuted above {bound:.3f})"
    )
    return mean <= bound, evidence


def shuffled(subject: Subject) -> Found:
    """A model that learned from shuffled outcomes has no skill on shuffled outcomes."""
    order = within(subject.rng(6), subject.when)
    y = subject.panel.y.iloc[order].set_axis(subject.panel.y.index)
    other = subject.with_panel(subject.panel.X, y)
    found, bound = skill(other.y.to_numpy(), other.base.to_numpy(), subject.period)
    evidence = (
        f"outcomes shuffled within periods, model refitted: correlation within periods {found:.3f} "
        f"(refuted above {bound:.3f})"
    )
    return found <= bound, evidence


def _gap(found: pd.Series, base: pd.Series) -> float:
    return float(np.max(np.abs(found.to_numpy() - base.to_numpy())))


def _tolerance(subject: Subject) -> float:
    return 1e-6 * subject.scale
