"""The folds of a comparison: any splitter's, as long as it learns from nothing that it tests."""

import warnings
from collections.abc import Iterator

import numpy as np

from peerattn.evaluation.running.fitting import Folds
from peerattn.evaluation.running.inputs import LABELS
from peerattn.evaluation.splits.walk_forward import NewFirms, ShortPanelWarning, WalkForward
from peerattn.exceptions import InputError, warn_user
from peerattn.panel import Panel
from peerattn.panel.knowledge import Knowledge, sorted_periods
from peerattn.render import show_label


def checked_folds(cv: object, panel: Panel) -> tuple[Folds, list[str]]:
    """Return the folds of any splitter, and what a reader must know of them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folds = [(np.asarray(train), np.asarray(test)) for train, test in split_panel(cv, panel)]
    # recorded only to be noted in the report: the user sees them as well
    for entry in caught:
        warn_user(entry.message)
    _check_leaks(cv, panel, folds)
    return folds, [str(entry.message) for entry in caught if isinstance(entry.message, ShortPanelWarning)]


def split_panel(cv: object, panel: Panel) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return the folds of a splitter; ours are given the panel, others a frame and its outcome."""
    wanted = "a splitter such as WalkForward(test_periods=12)"
    if not hasattr(cv, "split"):
        raise InputError(f"cv must be {wanted}, got {type(cv).__name__}.")
    if type(cv) in (WalkForward, NewFirms):
        return cv.split(panel)
    # other splitters look for labels under names of their own
    names = [getattr(cv, "firm", LABELS[0]), getattr(cv, "period", LABELS[1])]
    return cv.split(panel.X.rename_axis(names), panel.y.rename_axis(names))


def _check_leaks(cv: object, panel: Panel, folds: Folds) -> None:
    """Raise where a tested period or a later one is learned from, or nothing is."""
    knowledge = Knowledge.of(panel)
    tested = np.concatenate([np.empty(0, dtype=int), *(test for _, test in folds)])
    if not len(tested) or len(np.unique(tested)) != len(tested):
        raise InputError("cv: expected some tested rows, and none that is tested twice; use WalkForward.")
    for train, test in folds:
        if why := too_late((train, test), knowledge, int(getattr(cv, "horizon", 1))):
            after = "a panel is tested on periods after those learned from. Use WalkForward."
            raise InputError(f"cv: {type(cv).__name__} {why}; {after}")
        if panel.y.iloc[train].notna().sum() < 2:
            few = f"in the rows that a model for {knowledge.periods[knowledge.row[test].min()]} may learn from"
            raise InputError(f"cv: fewer than two outcomes are known {few}; test fewer periods.")


def too_late(fold: tuple[np.ndarray, np.ndarray], knowledge: Knowledge, ahead: int) -> str:
    """Describe how a fold learns from outcomes that are not known at the first period it tests; empty where it does not."""
    train, test = fold
    if not len(train):
        return ""
    periods = knowledge.periods
    last = knowledge.row[train].max()
    origin = knowledge.row[test].min()
    if last > origin - ahead:
        return f"learns from {show_label(periods[last])} to predict {show_label(periods[origin])} at horizon {ahead}"
    # reports filed late are known after the period that they are of
    late = int((~knowledge.by(periods[origin])[train]).sum())
    if not late:
        return ""
    wording = f"whose outcome is not yet known (known_at) in {show_label(periods[origin])}, which it predicts"
    return f"learns from {late:,} rows {wording}: outcomes that are known after the origin"


def split_words(cv: object, dated: bool = False) -> str:
    """Return a splitter in words; ``dated``: the panel knows when its outcomes are known."""
    if isinstance(cv, NewFirms):
        return f"{split_words(cv.walk or WalkForward(), dated)}, on firms never seen ({cv.n_splits} groups)"
    if not isinstance(cv, WalkForward):
        return " ".join(str(cv).split())
    settings = ["last third of the periods", f"refit_every={cv.refit_every}", f"window {cv.window}"]
    if cv.test_periods is not None:
        settings[0] = f"test_periods={cv.test_periods}"
    if cv.train_periods is not None:
        settings.append(f"{cv.train_periods} periods")
    settings.append(f"horizon={cv.horizon}")
    if dated or cv.known_at is not None:
        settings.append("rows learned from when known (known_at)")
    return f"walk forward ({', '.join(settings)})"


def gaps_of(panel: Panel, folds: Folds, task: str) -> tuple[int, ...]:
    """Return the periods between tested rows and the last ones learned from: the least, the middle and the largest.

    A nowcast observes the outcomes of all earlier periods, so that there the gap is one; not where they have dates.
    """
    if task == "nowcast" and panel.known_at is None:
        return (1,)
    rank = sorted_periods(panel.X.index.get_level_values(1))[0]
    found = np.unique(np.concatenate([rank[test] - rank[train].max() for train, test in folds]))
    return tuple(sorted({int(found[at]) for at in (0, len(found) // 2, -1)}))
