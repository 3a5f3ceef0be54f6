"""The loop of a comparison: every model on every fold, here or on other processes and machines."""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerattn.evaluation.running.entries import Entry, FoldRows
from peerattn.evaluation.running.fold_results import CapturedWarning, FoldResult, fit_fold
from peerattn.evaluation.running.store import FoldStore
from peerattn.exceptions import PeerAttnWarning, PossibleLeakWarning
from peerattn.panel import Panel
from peerattn.render import progress_bar

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
    from rich.console import Console

    n, results = len(folds), Results()
    shows = {(e.name, k): k == n - 1 and e.native and not e.control for e in entries for k in range(n)}
    keys: dict[tuple[str, int], str] = {}
    if kept is not None:
        keys = {(e.name, k): kept.key(e, *folds[k], shows[e.name, k]) for e in entries for k in range(n)}
        results = {at: found for at, key in keys.items() if (found := kept.load(key, FoldResult))}
    failed: set[str] = set()
    screen = Console(stderr=True)
    terminal = screen.is_terminal or screen.is_jupyter
    waiting = [{e.name for e in entries if (e.name, k) not in results} for k in range(n)]

    def left() -> Iterator[Any]:
        """Yield the calls to make; rows are shared by the models of a fold, and made when their turn comes."""
        for k, (train, test) in enumerate(folds):
            rows = None
            for entry in entries:
                if (entry.name, k) in results or entry.name in failed:
                    continue
                advance(f"{entry.name}, fold {k + 1} of {n}", 0)
                rows = rows or FoldRows(panel, train, test)
                yield delayed(fit_fold)(entry, rows, k, shows[entry.name, k])

    total = n * len(entries)
    with progress_bar("fitting" if verbose and terminal else None, total, len(results)) as advance:
        for result in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(left()):
            at = result.model, result.fold
            results[at] = result
            if result.error is not None:
                failed.add(result.model)
            elif kept is not None:
                kept.save(keys[at], result)
            advance(f"{result.model}, fold {result.fold + 1} of {n}", 1)
            for k in range(result.fold, n if result.error is not None else result.fold + 1):
                waiting[k].discard(result.model)
                if not waiting[k] and verbose and not terminal:
                    print(f"fitted: fold {k + 1} of {n}, {len(entries)} models", file=sys.stderr, flush=True)
    return results


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
        notes.append(f"{', '.join(names)}: {message}")
        warnings.warn(kind(notes[-1]), stacklevel=3)
    return notes
