"""The audit: claims about leaks, each proved or refuted on the user's own panel, model and split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from peerattn.evaluation.leak_audit import checks
from peerattn.evaluation.leak_audit.checks import AuditLine
from peerattn.evaluation.leak_audit.subject import Subject, quiet, seeded
from peerattn.evaluation.running.entries import Entry, Task, entries_of
from peerattn.evaluation.running.inputs import comparison_panel
from peerattn.evaluation.splits.periods import first_known, sorted_periods
from peerattn.evaluation.splits.walk_forward import WalkForward
from peerattn.exceptions import InputError, checked
from peerattn.panel import Panel, as_panel
from peerattn.render import Table

#: Columns that say when an outcome is known.
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
class Audit:
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
        rows = [(line.claim, "passed" if line.passed else "REFUTED", line.evidence) for line in self.lines]
        return Table(f"Audit ({self.task}) of {self.model}", ("Claim", "", "Evidence"), rows, alignment="lll")

    def __str__(self) -> str:
        return "\n".join([f"Audit ({self.task}) of {self.model}", *map(str, self.lines)])

    def __repr__(self) -> str:
        found = (
            f"{len(self.refuted)} of {len(self.lines)} claims refuted" if self.refuted else "no claim refuted"
        )
        return f"Audit({self.task}: {found})"

    def _repr_html_(self) -> str:
        return self.as_table().html()


@checked
def audit(
    model: Any,
    X: Any,
    y: Any = None,
    cv: Any = None,
    *,
    task: Task = "forecast",
    outcome: str | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    firm: str = "firm",
    period: str = "period",
    industry: str | None = None,
    reference: Any = None,
    n_placebo: int = 19,
    random_state: int = 0,
) -> Audit:
    """Try to find a leak in a model, a panel and a split; every claim comes with its evidence.

    The models of the first and of the last fold predict the first six periods that they are tested on, then predict them
    again with one thing changed: the own outcome, later values, the order of rows, the labels.

    Parameters
    ----------
    model : estimator
        As in :func:`peerattn.compare`; it is cloned, and every unset ``random_state`` is set.
    X, y, outcome, characteristics, codes, firm, period, industry, reference, task
        As in :func:`peerattn.compare`.
    cv : splitter, optional
        By default ``WalkForward()``. One that learns from the future is not refused but refuted.
    n_placebo : int, default 19
        Permutations of the labels.
    random_state : int, default 0

    Returns
    -------
    Audit

    Raises
    ------
    InputError
        For a panel or a model that ``compare`` would refuse.

    Notes
    -----
    It proves for this panel what can be proved by trying, not for all panels. A column is held against what no row knew (the
    outcome, later ones, means over periods, industries and firms with these in them, later values of other columns) and
    against what it knew. It is refuted where it is an exact function of the former, a sum that takes it (in levels or in
    logarithms), or a copy with noise (given the outcome, nothing that was known says anything of the column), and is not the
    same of the latter. What passes: an outcome hidden in the last decimals or in some of the rows, groups of firms clustered
    by their outcomes, values interpolated between earlier and later ones, rows missing because of outcomes, ranks over
    all rows, a network that was learned on tested periods and no longer says so (arrays and a user's own
    files do not; as it is, models refuse it), a setting that was chosen on tested periods. Columns that are refuted are left
    out of the other checks. About six fits of each of the two folds. Where X has a column ``known_at`` or
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
    with quiet():
        panel = comparison_panel(
            X,
            y,
            outcome=outcome,
            characteristics=characteristics,
            codes=codes,
            firm=firm,
            period=period,
            industry=industry,
        )
        dates = next((name for name in DATES if name in getattr(X, "columns", ())), None)
        known_at = None
        if dates is not None and not isinstance(X, Panel):
            dated = as_panel(X, y, known_at=dates, characteristics=(), firm=firm, period=period)
            known_at = dated.sorted().known_at
    entry = entries_of({"audited": model}, task, panel, reference)[0]
    return audit_entry(entry, panel, cv, task, n_placebo, random_state, known_at)


def audit_entry(
    entry: Entry,
    panel: Panel,
    cv: Any,
    task: str,
    n_placebo: int = 19,
    random_state: int = 0,
    known_at: pd.Index | None = None,
) -> Audit:
    """Audit a model on a panel; ``known_at`` says when each outcome is known, by default as the panel does."""
    known_at = panel.known_at if known_at is None else known_at
    known = None if known_at is None else first_known(known_at, sorted_periods(panel.period)[1])
    entry = replace(entry, model=seeded(entry.model, random_state))
    cv = WalkForward() if cv is None else cv
    subject = Subject(entry, panel, cv, random_state, known=known)
    first, offending = checks.columns(subject.rows)
    if any(name not in offending for name in map(str, panel.characteristics)):
        fine = panel.characteristics.drop(columns=offending)
        rest = tuple(name for name in panel.columns if name not in offending)
        subject = replace(subject, panel=replace(panel, characteristics=fine, columns=rest))
    if not subject.folds or not subject.y.notna().any():
        raise InputError("cv: no row with a known outcome is tested; test other periods.")
    _ = subject.base  # a model that cannot be fitted or asked at all raises here
    fits = [subject, *([replace(subject, fold=len(subject.folds) - 1)] if len(subject.folds) > 1 else [])]
    tried = CHECKS | {"permuted labels leave no gain": partial(checks.placebo, n_placebo=n_placebo)}
    lines = [first, *(_tried(claim, check, fits) for claim, check in tried.items())]
    lines.append(_tried("one fit leaves nothing behind for another", checks.memory, fits[:1]))
    return Audit(" ".join(str(entry.model).split()), task, tuple(lines))


def _tried(claim: str, check: Callable[[Subject], checks.Found], fits: list[Subject]) -> AuditLine:
    """Return the line of a check of the first fit, or of the last where it is refuted; one that raises is refuted."""
    lines = []
    for fit in fits:
        try:
            lines.append(AuditLine(claim, *check(fit)))
        except Exception as error:  # whatever the model under audit raises on changed input
            lines.append(AuditLine.raised(claim, error))
        if not lines[-1].passed:
            later = f"in fit {fit.fold + 1}: " if fit.fold else ""
            return replace(lines[-1], evidence=later + lines[-1].evidence)
    return lines[0]
