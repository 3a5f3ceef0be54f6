"""The checks of an audit: each tries to refute one claim, and reports what it found."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from peerattn.evaluation.leak_audit import columns as marks
from peerattn.evaluation.leak_audit.columns import FEWEST, Rows
from peerattn.evaluation.leak_audit.subject import Subject, skill
from peerattn.evaluation.running.inner_folds import random_rows
from peerattn.evaluation.splits import too_late
from peerattn.foreign_text import visible
from peerattn.models import FirmMeanRegressor, LastValueRegressor
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
    def raised(cls, claim: str, error: Exception) -> "AuditLine":
        """Return a claim that is refuted by what trying it raised."""
        return cls(claim, False, f"raised {type(error).__name__}: {' '.join(str(error).split())[:200]}")

    def __str__(self) -> str:
        return visible(f"{self.verdict:7}  {self.claim}: {self.evidence}")

    @property
    def verdict(self) -> str:
        """Whether it passed, in a word."""
        return "passed" if self.passed else "REFUTED"


def columns(rows: Rows) -> tuple[AuditLine, list[str]]:
    """No other outcome among the characteristics, no integer code used as a number; and which columns offend."""
    codes = [name for name, x in rows.columns.items() if looks_like_code(name) and are_whole(x)]
    found = dict.fromkeys(codes, "is a code used as a number")
    found |= dict.fromkeys(filter(looks_like_outcome, rows.columns), "is named like an outcome")
    found |= marks.made_of_unknown(rows.without(*found))
    fine = "columns, none named like an outcome or made of what was not known, no undeclared code"
    evidence = "; ".join(f"{name!r} {why}" for name, why in found.items()) or f"{len(rows.columns) + len(rows.codes)} {fine}"
    line = AuditLine("no outcome and no numeric code among the characteristics", not found, evidence)
    return line, [name for name in found if name in rows.columns]


def own_outcome(subject: Subject) -> Found:
    """The own outcome has no effect on the own prediction.

    One outcome is moved at a time: in a later period others may read it.
    """
    if not subject.entry.observed_outcomes:
        return True, "predict observes no outcome of the tested periods"
    if subject.entry.reference is not None:
        return True, "not tested: outcomes come with reference=, where a firm is left out by its label"
    rng = subject.rng(1)
    period = subject.period
    own = 0.0
    others = 0.0
    observed = np.unique(period[known := subject.y.notna().to_numpy()])
    # every tested period at least once
    rounds = max(ROUNDS, len(observed))
    for t in np.resize(observed, rounds):
        firm = rng.choice(np.flatnonzero((period == t) & known))
        moved = np.where(np.arange(len(period)) == firm, MOVE * subject.scale, 0.0)
        change = (subject.fitted.predict(subject.X, subject.y + moved) - subject.base).abs().to_numpy()
        own = max(own, change[firm])
        others = max(others, np.delete(change, firm).max(initial=0.0))
    changes = f"the own prediction changes by at most {own:.2g}, another firm's by up to {others:.2g}"
    return own <= 1e-8 * subject.scale, f"{rounds} outcomes moved by {MOVE:g} standard deviations: {changes}"


def future(subject: Subject) -> Found:
    """Values dated after the first tested period, and outcomes unknown at it, change no prediction for it."""
    ahead = int(getattr(subject.cv, "horizon", 1))
    unknown = subject.panel.y.isna().to_numpy()
    late = (too_late(fold, subject.knowledge, ahead, unknown) for fold in subject.folds)
    if why := next(filter(None, late), ""):
        return False, f"the split {why}"
    if why := _not_yet_known(subject, ahead):
        return False, why
    # the fold is made anew, too: a splitter may read outcomes
    changed = _changed_after(subject, subject.tested[0], ahead)
    first = np.flatnonzero(subject.period == subject.tested[0])
    if not np.array_equal(changed.train, subject.train):
        return False, "the rows learned from change with values that are not known yet"
    y = subject.y.where(subject.period == subject.tested[0], changed.y)
    gap = _gap(changed.fitted.predict(changed.X, y).iloc[first], subject.base.iloc[first])
    origin = show_label(subject.X.index[first[0]][1])
    wording = f"all characteristics after {origin} and all outcomes not known at it changed, model refitted"
    return gap <= _tolerance(subject), f"{wording}: its predictions change by at most {gap:.2g}"


def _not_yet_known(subject: Subject, ahead: int) -> str:
    """Name the column that holds outcomes of earlier periods that are not known when its rows are."""
    rows = subject.rows
    known = subject.known
    for k in range(1, ahead if known is None else max(ahead, REACH + 1)):
        # the outcome of k periods before, in the rows where it differs from the one before that
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
    rng = subject.rng(2)
    X = subject.panel.X.copy()
    later = subject.when > origin
    for name, column in X.select_dtypes("number").items():
        other = 7 * np.nanstd(column) + 3 * column.to_numpy()[rng.permutation(np.flatnonzero(later))]
        if not np.any(np.nan_to_num(column) % 1):  # a number that a model takes for a code stays one
            other = np.rint(other)
        X.loc[later, name] = other
    y = subject.panel.y
    unknown = subject.when > origin - ahead
    if subject.known is not None:
        unknown |= subject.known > origin
    return subject.with_panel(X, y.where(~unknown, 5 * subject.scale - 3 * y))


def order_and_batch(subject: Subject) -> Found:
    """Row order, index order and batch size change nothing; earlier periods stay, whose outcomes a model may read."""
    rng = subject.rng(3)
    X = subject.X
    y = subject.y
    fitted = subject.fitted
    order = rng.permutation(len(X))
    parts = [(t, np.flatnonzero(subject.period <= t)) for t in subject.tested]
    # each period predicted as if it were the last
    cut = [fitted.predict(X.iloc[at], y.iloc[at])[subject.period[at] == t] for t, at in parts]
    found = {
        "rows shuffled": fitted.predict(X.iloc[order], y.iloc[order]),
        "levels swapped": fitted.predict(X.swaplevel(), y.swaplevel()).swaplevel(),
        "later periods left out": pd.concat(cut),
    }
    if subject.entry.native:
        found["training rows shuffled"] = subject.fit(rng.permutation(subject.train)).predict(X, y)
    gaps = {name: _gap(other.reindex(subject.base.index), subject.base) for name, other in found.items()}
    evidence = ", ".join(f"{name} {gap:.2g}" for name, gap in gaps.items())
    return max(gaps.values()) <= _tolerance(subject), f"largest change of a prediction: {evidence}"


def sample(subject: Subject) -> Found:
    """Which rows are there, learned from and tested does not depend on their outcomes."""
    if why := marks.left_out(subject.rows):
        return False, why
    y = subject.panel.y.copy()
    later = np.flatnonzero(subject.when >= subject.tested[0])
    y.iloc[later] = y.iloc[later].to_numpy()[within(subject.rng(4), subject.when[later])]
    both = (subject, subject.with_panel(subject.panel.X, y))
    before, after = ([rows for fold in of.folds for rows in fold] for of in both)
    if len(before) != len(after) or not all(map(np.array_equal, before, after)):
        return False, "outcomes of tested periods permuted: which rows are used changes"
    n = sum(map(len, before[1::2]))
    unknown = int(subject.y.isna().sum())
    tested = f"the same {n:,} rows are tested; rows without an outcome ({unknown:,} of those to be predicted) are predicted, too"
    return True, f"outcomes of tested periods permuted: {tested}"


def training_only(subject: Subject) -> Found:
    """What is fitted saw training rows only."""
    if carried := marks.brought_along(subject.entry.model, subject.panel, subject.rows):
        return False, f"the model comes with {', '.join(carried)}"
    if scaled := marks.scaled_over_all(subject.rows, subject.train):
        return False, "; ".join(f"{name!r} is {why}, tested ones included" for name, why in scaled.items())
    first = subject.period == subject.tested[0]
    X = subject.X
    numbers = X.select_dtypes("number")
    # a scaler fitted in predict would see other tested periods
    X = X.assign(**{str(name): x.where(first, 100 * x + 100) for name, x in numbers.items()})
    gap = _gap(subject.fitted.predict(X, subject.y)[first], subject.base[first])
    none = "no fitted part comes with the model, no column is standardised over all rows"
    return gap <= _tolerance(subject), f"{none}; other tested periods times 100 change predictions by {gap:.2g}"


def learning(subject: Subject) -> Found:
    """What a forecast knows, it learned from the training rows: opposite outcomes there give opposite forecasts."""
    if subject.entry.observed_outcomes:
        return True, "not tested: it uses the outcomes of peers, which need no learning"
    y = subject.panel.y.copy()
    outcome = subject.y.to_numpy()
    learned = y.iloc[subject.train]
    y.iloc[subject.train] = learned.max() + learned.min() - learned  # of the same range
    other = subject.with_panel(subject.panel.X, y).fitted.predict(subject.X, subject.y)
    known, bound = skill(outcome, subject.base.to_numpy(), subject.period)
    # a forecast that was learned turns around with the outcomes it was learned from
    kept, _ = skill(outcome, other.to_numpy(), subject.period)
    gain = other - subject.base
    moved = (gain - gain.groupby(subject.period).transform("mean")).abs()
    same = float((moved <= 1e-6 * subject.scale).mean())
    evidence = f"training outcomes turned upside down, model refitted: {same:.0%} of forecasts stay as they are, their"
    evidence += f" correlation with outcomes within periods goes from {known:.3f} to {kept:.3f} (refuted above {bound:.3f})"
    return known <= bound or (same <= 0.2 and kept <= bound), evidence


def memory(subject: Subject) -> Found:
    """A model fitted on other rows in between is the same again."""
    before = subject.base
    # what a model keeps outside itself would show now
    subject.fit(np.flatnonzero(subject.panel.y.notna()))
    gap = _gap(replace(subject).base, before)
    how = "fitted on all rows in between, then on its own again"
    return gap <= 1e-3 * subject.scale, f"{how}: its predictions change by at most {gap:.2g}"


def validation(subject: Subject) -> Found:
    """Nothing inside the model is validated on random rows."""
    X = subject.panel.X.iloc[subject.train]
    y = subject.panel.y.iloc[subject.train]
    horizon = int(getattr(subject.cv, "horizon", 1))
    found = subject.entry.random_rows(subject.panel, subject.train, horizon)
    for name, part in vars(subject.fitted.model).items():
        fitted = name.endswith("_") and isinstance(part, BaseEstimator)
        # folds by position are of its own rows
        if fitted and not any(key.split("__")[-1] == "cv" for key in part.get_params()):
            found += [f"{name}, fitted: {wording}" for wording in random_rows(part, X, y, horizon=horizon)]
    if found:
        return False, "; ".join(found)
    return True, "no search, fold or early stop inside the model mixes rows of one period"


def networks(subject: Subject) -> Found:
    """A network that comes with the model was not made of the outcomes of tested periods."""
    kinds = PeerNetwork | pd.DataFrame | dict
    params = subject.entry.model.get_params()
    given = [k for k, v in params.items() if k.split("__")[-1] == "network" and isinstance(v, kinds)]
    made = partial(marks.network_of_outcomes, y=subject.panel.y, train=subject.train, tested=subject.tested)
    if not given:
        return True, "no network is given"
    if found := [f"{name!r}: {why}" for name in given if (why := made(params[name]))]:
        return False, "; ".join(found)
    return True, f"{len(given)} networks: their weights are no function of outcomes"


def placebo(subject: Subject, n_placebo: int) -> Found:
    """Peers at random give no gain beyond permuted labels."""
    rng = subject.rng(5)
    X = subject.X
    y = subject.y
    period = subject.period
    real, bound = skill(y.to_numpy(), subject.base.to_numpy(), period)
    if not subject.entry.observed_outcomes:  # labels stay, and with them what a model knows of the firms' past
        bound += _skill_of_the_past(subject)
    found = []
    for _ in range(n_placebo):
        order = within(rng, period)
        given = X
        observed = y
        # every firm gets another's outcome, and is scored by it; or another's characteristics
        if subject.entry.observed_outcomes:
            observed = y.iloc[order].set_axis(y.index)
        else:
            given = X.iloc[order].set_axis(X.index)
        predicted = subject.fitted.predict(given, observed).to_numpy()
        if given is not X and np.allclose(predicted, subject.base, rtol=0, atol=1e-12 * subject.scale):
            return True, "characteristics play no part in what is predicted"
        found.append(skill(observed.to_numpy(), predicted, period)[0])
    mean = float(np.mean(found))
    evidence = f"correlation within periods {real:.3f} as it is; with labels permuted {n_placebo} times {mean:.3f} on average"
    return mean <= bound, f"{evidence} ({min(found):.3f} to {max(found):.3f}; refuted above {bound:.3f})"


def _skill_of_the_past(subject: Subject) -> float:
    """Return the correlation within periods of outcomes with their firm's training mean, or its last known one if larger."""
    learned = subject.panel.take(subject.train)
    pasts = [model.fit(learned).predict(subject.X) for model in (FirmMeanRegressor(), LastValueRegressor())]
    return max(0.0, *(skill(subject.y.to_numpy(), past, subject.period)[0] for past in pasts))


def _gap(found: pd.Series, base: pd.Series) -> float:
    return float(np.max(np.abs(found.to_numpy() - base.to_numpy())))


def _tolerance(subject: Subject) -> float:
    return 1e-6 * subject.scale
