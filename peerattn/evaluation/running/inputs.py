"""What a comparison is given, brought to one form, a panel in canonical row order; and the rows of one fold of it."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, check_names, expect
from peerattn.models.reference import Reference
from peerattn.panel import Knowledge, Panel, PanelEncoder, as_panel, read_panel
from peerattn.panel.frames import as_pandas, read_frame
from peerattn.panel.gate import examine
from peerattn.panel.labels import panel_labels
from peerattn.panel.stored import in_files, is_stored
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike

#: Names of the index levels of every frame that models get in a comparison.
LABELS = ("firm", "period")


def comparison_panel(X: PanelLike, y: OutcomesLike, cv: object, reference: ReferenceLike, **options: Any) -> Panel:
    """Return the panel that ``compare`` was given, its rows sorted by period and firm, with the splitter's dates of knowledge.

    ``X`` may be a panel, characteristics beside ``y``, or a whole frame (or file) of which ``outcome`` names a column. See
    :func:`peerattn.evaluation.compare` for the parameters and errors.
    """
    firm = options["firm"]
    period = options["period"]
    industry = options["industry"]
    if is_stored(X) and not (isinstance(X, str | Path) and Path(X).is_file()):
        expect(y is None, "y", "none beside files, whose outcome is a column", "values", "Leave it out, and name outcome=.")
        panel = in_files("outcome", X, **options).mapped()
    elif options["outcome"] is not None and y is None and not isinstance(X, Panel):
        panel = read_panel(X, **options)
    else:
        if isinstance(X, Panel) and X.outcomes is not None and y is not None:
            raise InputError("X is a Panel, which holds its outcome; leave out y, or pass X.X and your y.")
        if isinstance(y, str):
            raise InputError(f"y is the text {y!r}; name a column of X with outcome={y!r}.")
        expect(y is not None or isinstance(X, Panel), "y", "outcomes beside X, or outcome=, the name of their column", None)
        if industry is not None and hasattr(X, "columns"):
            check_names("industry", "column", [industry], X.columns)
        if not (isinstance(X, Panel) and X.dated or panel_labels(as_pandas(X), firm, period) is not None):
            named = f"X must be a panel with firm and period, as index levels or columns named {firm!r} and {period!r}"
            raise InputError(f"{named}; got {type(X).__name__}. Name yours with firm= and period=.")
        panel = as_panel(X, y, **options)
    panel = panel.with_outcomes(panel.y)  # some must be known
    codes = list(panel.codes)
    return _dated(examine(panel, codes, codes, Reference.of(reference).X, (firm, period)).sorted(), cv)


def _dated(panel: Panel, cv: object) -> Panel:
    """Return the panel with the dates of knowledge that a splitter has, so that whatever uses its outcomes respects them.

    Raises
    ------
    InputError
        Where they are not labelled by firm and period, or are not those of the panel.
    """
    walk: Any = getattr(cv, "walk", cv)
    known_at = getattr(walk, "known_at", None)
    if known_at is None:
        return panel
    if not isinstance(known_at, pd.Series) or known_at.index.nlevels != 2:
        remedy = "A column is named in read_panel(..., known_at=column): leave known_at out here."
        raise InputError(f"cv: known_at must be a Series indexed by {walk.firm!r} and {walk.period!r}. {remedy}")
    dates = known_at.rename_axis(index={walk.firm: panel.names[0], walk.period: panel.names[1]})
    dated = as_panel(panel, known_at=dates)
    if panel.known_at is not None and not panel.known_at.equals(dated.known_at):
        raise InputError("cv: the panel has other dates (known_at) than the splitter: leave known_at out of the splitter.")
    return dated


def frames_by_outcome(X: PanelLike, outcomes: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the frame of each outcome, without the other outcomes."""
    different = 0 < len(outcomes) == len(set(outcomes))
    expect(different, "outcome", "one or more different column names", repr(outcomes))
    frame = read_frame(X)
    check_names("outcome", "column", outcomes, frame.columns)
    return {name: frame.drop(columns=[other for other in outcomes if other != name]) for name in outcomes}


class Frames(NamedTuple):
    """Rows in an order that a Panel does not keep, such as an audit's."""

    X: pd.DataFrame
    y: pd.Series


class FoldRows:
    """Training and test rows of one fold, as every model gets them: ``train`` and ``call``.

    Models are called with all rows of the tested periods, so that no firm loses a peer; ``scored`` are the positions of the test
    rows among them. For the same reason rows whose outcomes are not known by the first tested period stay in ``train``, without
    these outcomes; ``learned`` is without them. ``dated``: whether outcomes have dates at which they are known.
    """

    train: Panel
    learned: Panel
    call: Panel | Frames

    def __init__(self, panel: Panel, train: np.ndarray, test: np.ndarray) -> None:
        when = panel.X.index.get_level_values(1)
        call = np.flatnonzero(when.isin(when[test].unique()))
        plain = replace(panel, weights={})
        late = _late_peers(panel, train, test, call)
        self.learned = self.train = plain.take(train)
        if len(late):
            outcomes = np.concatenate([panel.y.to_numpy()[train], np.full(len(late), np.nan)])
            self.train = replace(plain.take(np.concatenate([train, late])), outcomes=outcomes)
        self.call = replace(plain, known_at=None).take(call)
        self.scored = np.searchsorted(call, test)
        self.dated = panel.known_at is not None
        self._encoder: PanelEncoder | None = None
        self._encoded: dict[bool, pd.DataFrame] = {}

    def with_call(self, X: pd.DataFrame, y: pd.Series) -> Self:
        """Return the same training rows with other rows to predict."""
        # the encoding stays that of the training rows
        other = copy(self)
        other.call = Frames(X, y)
        other.scored = np.arange(len(X))
        other._encoded = {}
        return other

    def encoded(self, training: bool) -> pd.DataFrame:
        """Return the training rows, or those of the call, as numbers, by an encoding fitted on the training rows alone.

        All plain regressors share it; it is made when the first of them needs it.
        """
        if self._encoder is None:
            self._encoder = PanelEncoder().fit(_given(self.train))
        if training not in self._encoded:
            self._encoded[training] = self._encoder.transform(_given(self.train if training else self.call))
        return self._encoded[training]


def _late_peers(panel: Panel, train: np.ndarray, test: np.ndarray, call: np.ndarray) -> np.ndarray:
    """Return the other rows of the periods learned from whose outcomes are not known by the first tested period."""
    if panel.known_at is None or panel.firm is None:
        return np.empty(0, dtype=int)
    knowledge = Knowledge.of(panel)
    late = np.isin(knowledge.row, knowledge.row[train]) & (knowledge.known > knowledge.row[test].min())
    late[train] = False
    if len(test) < len(call):  # firms that are new where they are tested are no peers in training
        late &= ~panel.firm.isin(panel.firm[test].difference(panel.firm[train]))
    return np.flatnonzero(late)


def _given(rows: Panel | Frames) -> Panel | pd.DataFrame:
    return rows if isinstance(rows, Panel) else rows.X
