"""The audit: claims about leaks, each proved or refuted on the user's own panel, model and split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit import checks
from peerattn.evaluation.leak_audit.checks import AuditLine
from peerattn.evaluation.leak_audit.subject import Subject, quiet, seeded
from peerattn.evaluation.running.entries import Entry, Task, entries_of
from peerattn.evaluation.running.fitting import Folds, How
from peerattn.evaluation.running.inputs import comparison_panel
from peerattn.evaluation.splits import WalkForward
from peerattn.exceptions import check_count, expect, validate_arguments
from peerattn.foreign_text import visible
from peerattn.panel import Knowledge, Panel, as_panel
from peerattn.panel.knowledge import dated_by_horizon
from peerattn.render import Shown, Table, progress_bar
from peerattn.seeds import check_seed
from peerattn.training import one_thread
from peerattn.types import ColumnLike, OutcomesLike, PanelLike, ReferenceLike

#: Columns that hold when an outcome is known.
DATES = ("known_at", "outcome_known_at")
#: What is claimed of the first and of the last fit, and what tries to refute it.
CHECKS: dict[str, Callable[[Subject], checks.Found]] = {
    "the own outcome does not move the own prediction": checks.own_outcome,
    "future values change nothing": checks.future,
    "row order, index order and batch size change nothing": checks.order_and_batch,
    "the sample does not depend on labels": checks.sample,
    "scalers and everything fitted saw training rows only": checks.training_only,
    "what it knows was learned from training rows": checks.learning,
    "nothing is validated on random rows": checks.validation,
    "no network was made of tested outcomes": checks.networks,
}


@dataclass(frozen=True, repr=False)
class Audit(Shown):
    """What an audit found.

    Attributes
    ----------
    model : str
        The model as it prints itself.
    task : str
    lines : tuple of AuditLine
        A claim each: whether it passed, and the evidence.
    """

    model: str
    task: str
    lines: tuple[AuditLine, ...]
    _displayed = "as_table"

    @property
    def passed(self) -> bool:
        """Whether no claim was refuted."""
        return all(line.passed for line in self.lines)

    @property
    def refuted(self) -> list[str]:
        """The claims that were refuted."""
        return [line.claim for line in self.lines if not line.passed]

    def to_frame(self) -> pd.DataFrame:
        """Return claim, passed and evidence, one row each."""
        return pd.DataFrame([vars(line) for line in self.lines])

    def as_table(self) -> Table:
        """Return the audit as a table that renders as text and as HTML."""
        rows = [(line.claim, line.verdict, line.evidence) for line in self.lines]
        return Table(f"Audit ({self.task}) of {self.model}", ("Claim", "", "Evidence"), rows, alignment="lll")

    def __str__(self) -> str:
        return visible("\n".join([f"Audit ({self.task}) of {self.model}", *map(str, self.lines)]))

    def __repr__(self) -> str:
        refuted = f"{len(self.refuted)} of {len(self.lines)} claims" if self.refuted else "no claim"
        return f"Audit({self.task}: {refuted} refuted)"


@validate_arguments
def audit(
    model: Any,
    X: PanelLike,
    y: OutcomesLike = None,
    cv: Any = None,
    *,
    task: Task = "forecast",
    outcome: ColumnLike | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    firm: ColumnLike = "firm",
    period: ColumnLike = "period",
    industry: ColumnLike | None = None,
    reference: ReferenceLike = None,
    n_placebo: int = 19,
    random_state: int = 0,
) -> Audit:
    """Try to find a leak in a model, a panel and a split; every claim comes with its evidence.

    The models of the first and of the last fold predict the first six periods that they are tested on, then predict them
    again with one thing changed: the own outcome, later values, the order of rows, the labels.

    Parameters
    ----------
    model : estimator
        As in :func:`~peerattn.evaluation.compare`; it is cloned, and every unset ``random_state`` is set.
    X, y, outcome, characteristics, codes, firm, period, industry, reference, task
        As in :func:`~peerattn.evaluation.compare`.
    cv : splitter, optional
        By default ``WalkForward()``. One that learns from the future is refuted instead of an error.
    n_placebo : int, default 19
        Permutations of the labels.
    random_state : int, default 0

    Returns
    -------
    Audit

    Raises
    ------
    InputError
        For a panel or a model that ``compare`` would reject.

    Notes
    -----
    It proves for this panel what can be proved by trying, not for all panels. A column is held against what no row knew (the
    outcome, later ones, means over periods, industries and firms with these in them, later values of other columns) and
    against what it knew. It is refuted where it is an exact function of the former, a sum that takes it (in levels, in
    logarithms, or times another column), or a copy with noise (given the outcome, nothing that was known predicts the
    column), and is not the same of the latter. What passes: an outcome hidden in the last decimals or in some of the rows,
    groups of firms clustered by their outcomes, a firm's beta or volatility over all periods, values interpolated between
    earlier and later ones, rows missing because of outcomes, ranks over all rows, a network that was learned on tested
    periods and no longer records it (arrays and a user's own files do not; as it is, models reject it), a setting that was
    chosen on tested periods. These may pass, too: a copy of the outcome with noise as large as the outcome's own standard
    deviation (a correlation of about 0.7 or 0.8), a firm's median outcome over all periods, the outcome divided by another
    column of both signs, and the fitted values of a regression on the full sample that uses columns which are kept. Columns
    that are refuted are left out of the other checks. Eight fits, five where there is one fold; ten or six of a peer model in
    a forecast. Where X has a column ``known_at`` or
    ``outcome_known_at``, or was read with ``read_panel(known_at=)``, no fold may learn from outcomes that are known after its
    first tested period, and no characteristic may hold an outcome in a period before it is known.

    References
    ----------
    Kapoor, S. and Narayanan, A. (2023), Leakage and the reproducibility crisis in machine-learning-based science, Patterns
    4(9), 100804 (the kinds of leak).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> index = pd.MultiIndex.from_product([range(30), range(2001, 2013)], names=["firm", "period"])
    >>> X = pd.DataFrame(rng.normal(size=(360, 2)), index=index, columns=["size", "lev"])
    >>> audit(Ridge(), X, (X["size"] + rng.normal(size=360)).rename("roa"))
    Audit(forecast: no claim refuted)
    """
    check_count(n_placebo=n_placebo)
    check_seed(random_state)
    with quiet():
        panel = comparison_panel(
            X, y, cv, None, outcome=outcome, characteristics=characteristics, codes=codes, firm=firm, period=period,
            industry=industry,
        )  # fmt: skip
        known_at = None
        dates = [name for name in DATES if name in getattr(X, "columns", ())]
        if dates and not isinstance(X, Panel):
            known_at = as_panel(X, y, known_at=dates[0], characteristics=(), firm=firm, period=period).sorted().known_at
    horizon = int(getattr(cv, "horizon", 1))
    entry = entries_of({"audited": model}, task, panel, reference, (1,), horizon)[0]
    panel = dated_by_horizon(panel, task, horizon)
    return audit_entry(entry, panel, cv, n_placebo, random_state, known_at)


def audit_entry(
    entry: Entry, panel: Panel, cv: object, n_placebo: int = 19, seed: int = 0, known_at: pd.Index | None = None
) -> Audit:
    """Audit a model on a panel; ``known_at`` is when each outcome is known, by default as the panel does."""
    if cv is None:
        cv = WalkForward()
    if known_at is None:
        known_at = panel.known_at
    known = None if known_at is None else Knowledge.of(replace(panel, known_at=known_at)).known
    subject = Subject(replace(entry, model=seeded(entry.model, seed)), panel, cv, seed, known=known)
    first, offending = checks.columns(subject.rows)
    # a column that leaks would refute the other claims as well
    fine = panel.characteristics.drop(columns=offending)
    if fine.shape[1]:
        rest = tuple(name for name in panel.columns if name not in offending)
        subject = replace(subject, panel=replace(panel, characteristics=fine, columns=rest))
    expect(len(subject.folds) > 0 and bool(subject.y.notna().any()), "cv", "tested rows with known outcomes", "none")
    _ = subject.base  # a model that cannot be fitted or cannot predict at all raises here
    fits = [subject]
    if len(subject.folds) > 1:
        fits.append(replace(subject, fold=len(subject.folds) - 1))
    tried = CHECKS | {"permuted labels leave no gain": partial(checks.placebo, n_placebo=n_placebo)}
    lines = [first, *(_tried(claim, check, fits) for claim, check in tried.items())]
    lines.append(_tried("one fit leaves nothing behind for another", checks.memory, fits[:1]))
    return Audit(" ".join(str(subject.entry.model).split()), entry.task, tuple(lines))


def _tried(claim: str, check: Callable[[Subject], checks.Found], fits: list[Subject]) -> AuditLine:
    """Return the line of a check of the first fit, or of the last where it is refuted; one that raises is refuted."""
    lines = []
    for fit in fits:
        try:
            line = AuditLine(claim, *check(fit))
        except Exception as error:  # whatever the model under audit raises on changed input
            line = AuditLine.raised(claim, error)
        if not line.passed:
            return replace(line, evidence=f"in fit {fit.fold + 1}: " * (fit.fold > 0) + line.evidence)
        lines.append(line)
    return lines[0]


def run_audits(of: list[Entry], panel: Panel, cv: object, folds: Folds, how: How) -> dict[str, Audit]:
    """Return the audit of each model; one that raises is an audit whose only claim is refuted by what it raised."""
    from joblib import Parallel, delayed

    if not of:
        return {}
    train, test = (np.concatenate([fold[side] for fold in folds]) for side in (0, 1))
    keys = {e.name: how.kept.key(replace(e, name=f"audit of {e.name}"), train, test, False) for e in of}
    found = {name: audit for name, key in keys.items() if (audit := how.kept.load(key, Audit))}
    left = [entry for entry in of if entry.name not in found]
    with progress_bar("audit" if how.verbose else None, len(of), len(found)) as advance:
        calls = (delayed(_one)(entry, panel, cv) for entry in left)
        for name, audit in Parallel(n_jobs=how.n_jobs, return_as="generator_unordered")(calls):
            found[name] = audit
            how.kept.save(keys[name], audit)
            advance(name)
    return {entry.name: found[entry.name] for entry in of}


def _one(entry: Entry, panel: Panel, cv: object) -> tuple[str, Audit]:
    with one_thread():
        try:
            return entry.name, audit_entry(entry, panel, cv)
        except Exception as error:  # whatever the model raises is the finding
            model = " ".join(str(entry.model).split())
            return entry.name, Audit(model, entry.task, (AuditLine.raised("it can be audited", error),))
