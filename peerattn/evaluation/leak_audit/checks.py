"""The checks of an audit: each tries to refute one claim, and says what it saw."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from peerattn.evaluation.leak_audit.brought import brought_along, network_of_outcomes, scaled_over_all
from peerattn.evaluation.leak_audit.columns import Rows, left_out, made_of_unknown
from peerattn.evaluation.leak_audit.measures import FEWEST
from peerattn.evaluation.leak_audit.subject import Subject, skill
from peerattn.evaluation.running.inner_folds import random_rows
from peerattn.evaluation.splits.periods import learned_too_late
from peerattn.network import PeerNetwork
from peerattn.network.inference.permutation import within
from peerattn.panel.codes import are_whole, looks_like_code
from peerattn.panel.columns import looks_like_outcome
from peerattn.render import show_label

ROUNDS = 8  # own outcomes moved, one in each period at least
MOVE = 10.0  # standard deviations
REACH = 12  # periods over which an outcome may be made
Found = tuple[bool, str]  # whether the claim passed, and what was seen


@dataclass(frozen=True)
class AuditLine:
    """One claim, whether it passed, and what was seen.

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


def columns(rows: Rows) -> tuple[AuditLine, list[str]]:
    """No other outcome among the characteristics, no integer code used as a number; and which columns offend."""
    found = {}
    for name, x in rows.columns.items():
        if looks_like_outcome(name):
            found[name] = "is named like an outcome"
        elif looks_like_code(name) and are_whole(x):
            found[name] = "is a code used as a number"
    found |= made_of_unknown(rows.without(*found))
    evidence = "; ".join(f"{name!r} {why}" for name, why in found.items())
    fine = (
        f"{len(rows.columns) + len(rows.codes)} columns, none named like an outcome or made of what was not known, no undeclared "
        "code"
    )
    line = AuditLine("no outcome and no numeric code among the characteristics", not found, evidence or fine)
    return line, [name for name in found if name in rows.columns]


def own_outcome(subject: Subject) -> Found:
    """The own outcome has no effect on the own prediction.

    One outcome is moved at a time: in a later period others may read it.
    """
    if not subject.entry.shown_outcomes:
        return True, "predict is shown no outcome of the tested periods"
    if subject.entry.reference is not None:
        return True, "not tested: outcomes come with reference=, where a firm is left out by its label"
    rng, period, known = subject.rng(1), subject.period, subject.y.notna().to_numpy()
    own = others = 0.0
    shown = np.unique(period[known])
    rounds = max(ROUNDS, len(shown))
    for t in np.resize(shown, rounds):
        firm = rng.choice(np.flatnonzero((period == t) & known))
        y = subject.y.copy()
        y.iloc[firm] += MOVE * subject.scale
        change = (subject.fitted.predict(subject.X, y) - subject.base).abs().to_numpy()
        own = max(own, change[firm])
        others = max(others, np.delete(change, firm).max(initial=0.0))
    evidence = (
        f"{rounds} outcomes moved by {MOVE:g} standard deviations: the own prediction changes by at most {own:.2g}, "
        f"another firm's by up to {others:.2g}"
    )
    return own <= 1e-8 * subject.scale, evidence


def future(subject: Subject) -> Found:
    """Values dated after the first tested period, and outcomes unknown at it, change no prediction for it."""
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
            ends = train[when[train].argmax()], test[when[test].argmin()]
            last, tested = (show_label(index[k][1]) for k in ends)
            return f"the split learns from {last} to predict {tested} at horizon {ahead}"
        if unknown:
            return f"the split learns from {unknown:,} of {len(train):,} outcomes that are known after the origin"
    return ""


def _not_yet_known(subject: Subject, ahead: int) -> str:
    """Say which column holds outcomes of earlier periods that are not known when its rows are."""
    rows, known = subject.rows, subject.known
    for k in range(1, ahead if known is None else max(ahead, REACH + 1)):
        before = rows.moved(rows.y, -k)
        unknown = np.where(before == rows.moved(rows.y, -k - 1), np.nan, before)  # one that stays is known
        if k >= ahead and known is not None:
            unknown[~(rows.moved(known, -k) > subject.when)] = np.nan
        for name, x in rows.columns.items():
            both = np.isfinite(x + unknown)
            if len(np.unique(x[both])) >= FEWEST and np.isclose(x, unknown)[both].mean() > 0.99:
                return f"{name!r} is the outcome of {k} periods before, in rows in which it is not yet known"
    return ""


def _changed_after(subject: Subject, origin: int, ahead: int) -> Subject:
    rng, X = subject.rng(2), subject.panel.X.copy()
    later = subject.when > origin
    for name in X.select_dtypes("number").columns:
        column = X[name].to_numpy(copy=True)
        other = 7 * np.nanstd(column) + 3 * column[rng.permutation(np.flatnonzero(later))]
        whole = not np.any(np.nan_to_num(column) % 1)  # a number that a model takes for a code stays one
        column[later] = np.rint(other) if whole else other
        X[name] = column
    y = subject.panel.y.copy()
    unknown = subject.when > origin - ahead
    if subject.known is not None:
        unknown |= subject.known > origin
    y[unknown] = 5 * subject.scale - 3 * y[unknown]
    return subject.with_panel(X, y)


def order_and_batch(subject: Subject) -> Found:
    """Row order, index order and batch size change nothing; earlier periods stay, whose outcomes a model may read."""
    rng, X, y, fitted = subject.rng(3), subject.X, subject.y, subject.fitted
    order = rng.permutation(len(X))
    parts = [np.flatnonzero(subject.period <= t) for t in subject.tested]
    cut = [
        fitted.predict(X.iloc[at], y.iloc[at])[subject.period[at] == t]
        for t, at in zip(subject.tested, parts, strict=True)
    ]
    found = {
        "rows shuffled": fitted.predict(X.iloc[order], y.iloc[order]),
        "levels swapped": fitted.predict(X.swaplevel(), y.swaplevel()).swaplevel(),
        "later periods left out": pd.concat(cut),
    }
    if subject.entry.native:
        found["training rows shuffled"] = subject.fit(rng).predict(X, y)
    gaps = {name: _gap(other.reindex(subject.base.index), subject.base) for name, other in found.items()}
    evidence = ", ".join(f"{name} {gap:.2g}" for name, gap in gaps.items())
    return max(gaps.values()) <= _tolerance(subject), f"largest change of a prediction: {evidence}"


def sample(subject: Subject) -> Found:
    """Which rows are there, learned from and tested does not depend on their outcomes."""
    if why := left_out(subject.rows):
        return False, why
    rng, y = subject.rng(4), subject.panel.y.copy()
    later = np.flatnonzero(subject.when >= subject.tested[0])
    y.iloc[later] = y.iloc[later].to_numpy()[within(rng, subject.when[later])]
    other = subject.with_panel(subject.panel.X, y).folds
    pairs = zip(subject.folds, other, strict=False)
    same = len(other) == len(subject.folds) and all(
        np.array_equal(a, c) and np.array_equal(b, d) for (a, b), (c, d) in pairs
    )
    n, unknown = sum(len(test) for _, test in subject.folds), int(subject.y.isna().sum())
    evidence = (
        f"the same {n:,} rows are tested; rows without an outcome ({unknown:,} of those to be predicted) are predicted, too"
        if same
        else "which rows are used changes"
    )
    return same, f"outcomes of tested periods permuted: {evidence}"


def training_only(subject: Subject) -> Found:
    """What is fitted saw training rows only."""
    carried = brought_along(subject.entry.model, subject.panel, subject.rows)
    if carried:
        return False, f"the model comes with {', '.join(carried)}"
    if scaled := scaled_over_all(subject.rows, subject.train):
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
    X, y = subject.panel.X.iloc[subject.train], subject.panel.y.iloc[subject.train]
    found = list(subject.entry.random_rows(X, y))
    for name, part in getattr(subject.fitted.model, "__dict__", {}).items():
        if name.endswith("_") and isinstance(part, BaseEstimator) and not found:
            # folds by position are of its own rows
            if not any(key.split("__")[-1] == "cv" for key in part.get_params()):
                found += [f"{name}, fitted: {said}" for said in random_rows(part, X, y)]
    fine = "no search, fold or early stop inside the model mixes rows of one period"
    return not found, "; ".join(found) or fine


def networks(subject: Subject) -> Found:
    """A network that comes with the model was not made of the outcomes of tested periods."""
    params = subject.entry.model.get_params().items()
    given = {
        name: value
        for name, value in params
        if isinstance(value, PeerNetwork | pd.DataFrame | dict) and name.split("__")[-1] == "network"
    }
    found = [
        f"{name!r}: {why}"
        for name, value in given.items()
        if (why := network_of_outcomes(value, subject.panel.y, subject.train, subject.tested))
    ]
    fine = (
        f"{len(given)} networks: their weights are no function of outcomes"
        if given
        else "no network is given"
    )
    return not found, "; ".join(found) or fine


def placebo(subject: Subject, n_placebo: int) -> Found:
    """Peers at random give no gain beyond permuted labels."""
    rng, y, period = subject.rng(5), subject.y.to_numpy(), subject.period
    real, bound = skill(y, subject.base.to_numpy(), period)
    found = []
    for _ in range(n_placebo):
        order = within(rng, period)
        X, shown = subject.X, subject.y
        if subject.entry.shown_outcomes:  # every firm gets another's outcome, and is scored by it
            shown = subject.y.iloc[order].set_axis(subject.y.index)
        else:  # every firm gets another's characteristics
            X = subject.X.iloc[order].set_axis(subject.X.index)
        predicted = subject.fitted.predict(X, shown).to_numpy()
        still = np.allclose(predicted, subject.base.to_numpy(), rtol=0, atol=1e-12 * subject.scale)
        if still and not subject.entry.shown_outcomes:
            return True, "characteristics play no part in what is predicted"
        found.append(skill(shown.to_numpy(), predicted, period)[0])
    mean = float(np.mean(found))
    evidence = (
        f"correlation within periods {real:.3f} as it is; with labels permuted {n_placebo} times {mean:.3f} on average "
        f"({min(found):.3f} to {max(found):.3f}; refuted above {bound:.3f})"
    )
    return mean <= bound, evidence


def _gap(found: pd.Series, base: pd.Series) -> float:
    return float(np.max(np.abs(found.to_numpy() - base.to_numpy())))


def _tolerance(subject: Subject) -> float:
    return 1e-6 * subject.scale
