"""The loop of a comparison: every model on every fold, here or on other processes and machines."""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerattn.evaluation.running.effort import expected_seconds
from peerattn.evaluation.running.entries import Entry
from peerattn.evaluation.running.fold_results import CapturedWarning, FoldResult, fit_fold
from peerattn.evaluation.running.fold_rows import FoldRows
from peerattn.evaluation.running.store import FoldStore
from peerattn.exceptions import WHERE_ISOLATES, PeerAttnWarning, PossibleLeakWarning, warn_user
from peerattn.panel import Panel
from peerattn.render.progress import CLEAR, progress_bar

Folds = list[tuple[np.ndarray, np.ndarray]]
#: The result of each (name of the model, number of the fold).
Results = dict[tuple[str, int], FoldResult]


@dataclass(frozen=True)
class Failure:
    """A model that could not be fitted, or could not predict.

    Attributes
    ----------
    model : str
    fold : int
        The first fold in which it failed, from 1.
    error : str
        What it raised.
    """

    model: str
    fold: int
    error: str


def fit_all(
    entries: list[Entry],
    panel: Panel,
    folds: Folds,
    *,
    n_jobs: int | None,
    kept: FoldStore | None,
    verbose: bool,
) -> Results:
    """Return the result of every model on every fold: from the store, or run by joblib on whatever backend is set.

    A model that fails on a fold is not fitted on later ones. The networks are those of the last fold.
    """
    from joblib import Parallel, delayed

    n, results = len(folds), Results()
    shows = {(e.name, k): k == n - 1 and e.shows_peers for e in entries for k in range(n)}
    keys: dict[tuple[str, int], str] = {}
    if kept is not None:
        keys = {(e.name, k): kept.key(e, *folds[k], shows[e.name, k]) for e in entries for k in range(n)}
        results = {at: found for at, key in keys.items() if (found := kept.load(key, FoldResult))}
    failed: set[str] = set()
    terminal = sys.stderr.isatty()

    def left() -> Iterator[Any]:
        """Yield the calls to make; rows are shared by the models of a fold, and made when their turn comes."""
        for k, (train, test) in enumerate(folds):
            rows = None
            for entry in entries:
                if (entry.name, k) in results or entry.name in failed:
                    continue
                advance(_fit_of(entry.name, k, n), 0)
                rows = rows or FoldRows(panel, train, test)
                yield delayed(fit_fold)(entry, rows, k, shows[entry.name, k])

    total = n * len(entries)
    if verbose:
        _say_effort(entries, panel, folds, results)
    with progress_bar("fitting" if verbose and terminal else None, total, len(results)) as advance:
        for result in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(left()):
            at = result.model, result.fold
            results[at] = result
            if result.error is not None:
                failed.add(result.model)
            elif kept is not None:
                kept.save(keys[at], result)
            if verbose:  # above the bar, or into a log
                said = _outcome(result, panel, folds, results)
                line = f"{len(results)}/{total} {_fit_of(result.model, result.fold, n)}: {said}"
                print(f"{CLEAR * terminal}{line}", file=sys.stderr, flush=True)
            advance(_fit_of(result.model, result.fold, n), 1)
    return results


def _fit_of(model: str, fold: int, n: int) -> str:
    return f"{model}, fold {fold + 1} of {n}"


def _outcome(result: FoldResult, panel: Panel, folds: Folds, results: Results) -> str:
    """Return how long a fit took, R² of its model over the folds finished so far, and whether it found no peers."""
    if result.error is not None:
        return f"failed, {type(result.error).__name__}"
    errors, y = np.zeros(2), panel.y.to_numpy()
    for k, (train, test) in enumerate(folds):
        if (done := results.get((result.model, k))) is not None and done.predicted is not None:
            errors += [
                np.nansum((y[test] - values) ** 2) for values in (done.predicted, np.nanmean(y[train]))
            ]
    r2 = f"{1 - errors[0] / errors[1]:.3f}" if errors[1] > 0 else "n/a"
    none = "; kept 0 heads: no peers found" if result.empty else ""
    return f"{result.seconds:.1f} s, R² so far {r2.replace('-', '−')}{none}"


def _say_effort(entries: list[Entry], panel: Panel, folds: Folds, done: Results) -> None:
    """Say how many fits are to be made, and about how long they take on one core."""
    left = [
        (entry, train)
        for k, (train, _) in enumerate(folds)
        for entry in entries
        if (entry.name, k) not in done
    ]
    seconds = sum(expected_seconds(entry, panel, train) for entry, train in left)
    found = f", {len(done)} found in the store" if done else ""
    about = (
        f"{seconds / 60:,.0f} min"
        if seconds > 90
        else f"{max(5, round(seconds, -1 if seconds > 15 else 0)):.0f} s"
    )
    print(f"{len(left)} fits{found}; roughly {about} on one core", file=sys.stderr, flush=True)


def failures_of(entries: list[Entry], results: Results) -> tuple[Failure, ...]:
    """Return the first failure of each model, in the order of the models.

    Raises the error of the first model where all models that were passed (not the controls) fail.
    """
    errors: dict[str, tuple[int, Exception]] = {}
    for (name, k), result in sorted(results.items(), key=lambda item: item[0][1]):
        if result.error is not None:
            errors.setdefault(name, (k, result.error))
    passed = [entry.name for entry in entries if not entry.control]
    if set(passed) <= set(errors):
        raise errors[passed[0]][1]
    found = []
    for name in (entry.name for entry in entries if entry.name in errors):
        k, error = errors[name]
        said = " ".join(str(error).split()).removeprefix(f"model {name!r}: ")
        found.append(Failure(name, k + 1, f"{type(error).__name__}: {said}"))
    return tuple(found)


def warn_once(results: Sequence[FoldResult]) -> list[str]:
    """Give each of this package's warnings once, under the names of its models, and return them.

    Warnings of other packages are given as they came.
    """
    others: dict[CapturedWarning, None] = {}
    first: dict[tuple[str, type[Warning]], str] = {}
    fits: Counter[tuple[str, type[Warning]]] = Counter()
    for result in results:
        fits.update({(result.model, caught.category) for caught in result.warnings})
        for caught in result.warnings:
            if not issubclass(caught.category, PeerAttnWarning):
                others.setdefault(caught)
            elif not issubclass(caught.category, PossibleLeakWarning):  # given once, for the whole panel
                first.setdefault((result.model, caught.category), caught.message)
    for caught in others:
        warnings.warn_explicit(caught.message, caught.category, caught.filename, caught.line)
    together: dict[tuple[type[Warning], str], list[str]] = defaultdict(list)
    for (name, kind), message in first.items():
        often = f" (The first of {fits[name, kind]} fits with this warning.)" if fits[name, kind] > 1 else ""
        together[kind, message + often].append(name)
    notes = []
    for (kind, message), names in together.items():
        warn_user(kind(f"{'; '.join(names)}: {message}"))
        # no code in a table's notes
        notes.append(f"{'; '.join(names)}: {message.replace(WHERE_ISOLATES, '')}")
    return notes
