"""The loop of a comparison: every model on every fold, here or on other processes and machines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.evaluation.running.contestants import Contestant, FoldRows
from peerattn.evaluation.running.pieces import Heard, Piece, run_piece
from peerattn.evaluation.running.store import PieceStore
from peerattn.exceptions import PeerAttnWarning, PossibleLeakWarning
from peerattn.panel import Panel
from peerattn.render import progress_bar

if TYPE_CHECKING:
    from peerattn.models.attention.search_profile import SearchProfile
    from peerattn.network import PeerNetwork

Folds = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Failure:
    """A model that could not be fitted or asked.

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


@dataclass(frozen=True)
class Run:
    """What the loop over folds and models leaves behind.

    Attributes
    ----------
    predictions : DataFrame
        Columns firm, period, outcome and one for each model that did not fail.
    training_mean : ndarray
        Mean of the training outcomes of each row's fold.
    networks : dict of str to PeerNetwork
        Of each peer model, for the last scored period.
    profiles : dict of str to SearchProfile
        Of each attention model, as fitted for that period.
    notes : list of str
        Warnings of the models, one for each kind.
    trials : dict of str to int
        Settings that each model's search tried in a fit; 1 without a search.
    failures : tuple of Failure
    """

    predictions: pd.DataFrame
    training_mean: np.ndarray
    networks: dict[str, PeerNetwork]
    profiles: dict[str, SearchProfile]
    notes: list[str]
    trials: dict[str, int]
    failures: tuple[Failure, ...]


def run(
    chosen: list[Contestant],
    panel: Panel,
    folds: Folds,
    *,
    n_jobs: int | None,
    kept: PieceStore | None,
    verbose: bool,
) -> Run:
    """Fit every model on every fold and keep predictions, and the networks of the last scored period.

    Raises the error of the first model where all models that were passed (not the controls) fail.
    """
    pieces = _gather(chosen, panel, folds, n_jobs, kept, verbose)
    failures = _failures(chosen, pieces)
    _refuse_nothing_left(chosen, pieces, failures)
    failed = {failure.model for failure in failures}
    names = [contestant.name for contestant in chosen if contestant.name not in failed]
    last = len(folds) - 1
    tested = np.concatenate([test for _, test in folds])
    labels = panel.X.index[tested]
    frame = pd.DataFrame(
        {
            "firm": labels.get_level_values(0),
            "period": labels.get_level_values(1),
            "outcome": panel.y.to_numpy()[tested],
            **{
                name: np.concatenate([pieces[name, k].predicted for k in range(len(folds))]) for name in names
            },
        }
    )
    means = [np.full(len(test), panel.y.iloc[train].mean()) for train, test in folds]
    found = {name: pieces[name, last] for name in names}
    return Run(
        frame,
        np.concatenate(means),
        {name: piece.network for name, piece in found.items() if piece.network is not None},
        {name: piece.profile for name, piece in found.items() if piece.profile is not None},
        _Warnings.of([pieces[name, k] for k in range(len(folds)) for name in names]).tell(),
        {name: max(pieces[name, k].trials for k in range(len(folds))) for name in names},
        failures,
    )


def _gather(
    chosen: list[Contestant],
    panel: Panel,
    folds: Folds,
    n_jobs: int | None,
    kept: PieceStore | None,
    verbose: bool,
) -> dict[tuple[str, int], Piece]:
    """Return the piece of every (model, fold): from the store, or run by joblib on whatever backend is set."""
    from joblib import Parallel, delayed

    last = len(folds) - 1
    keys: dict[tuple[str, int], str] = {}
    pieces: dict[tuple[str, int], Piece] = {}
    if kept is not None:
        for k, (train, test) in enumerate(folds):
            for contestant in chosen:
                at = contestant.name, k
                keys[at] = kept.key(contestant, train, test, _shows_network(contestant, k == last))
                if (piece := kept.load(keys[at])) is not None:
                    pieces[at] = piece
    failed: set[str] = set()

    def left() -> Iterator[Any]:
        """Yield the calls to make; rows are shared by the models of a fold, and made when their turn comes."""
        for k, (train, test) in enumerate(folds):
            rows = None
            for contestant in chosen:
                if (contestant.name, k) in pieces or contestant.name in failed:
                    continue
                rows = rows or FoldRows(panel, train, test)
                yield delayed(run_piece)(contestant, rows, k, _shows_network(contestant, k == last))

    total = len(folds) * len(chosen)
    with progress_bar("fitting" if verbose else None, total, len(pieces)) as advance:
        for piece in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(left()):
            at = piece.model, piece.fold
            pieces[at] = piece
            if piece.error is not None:
                failed.add(piece.model)
            elif kept is not None:
                kept.save(keys[at], piece)
            advance(f"{piece.model}, fit {piece.fold + 1} of {len(folds)}")
    return pieces


def _shows_network(contestant: Contestant, is_last: bool) -> bool:
    return is_last and contestant.native and not contestant.control


def _failures(chosen: list[Contestant], pieces: dict[tuple[str, int], Piece]) -> tuple[Failure, ...]:
    """Return the first failure of each model, in the order of the models."""
    found = []
    for contestant in chosen:
        of_model = [p for (name, _), p in pieces.items() if name == contestant.name and p.error is not None]
        if of_model:
            first = min(of_model, key=lambda piece: piece.fold)
            said = " ".join(str(first.error).split()).removeprefix(f"model {contestant.name!r}: ")
            found.append(Failure(contestant.name, first.fold + 1, f"{type(first.error).__name__}: {said}"))
    return tuple(found)


def _refuse_nothing_left(
    chosen: list[Contestant], pieces: dict[tuple[str, int], Piece], failures: tuple[Failure, ...]
) -> None:
    """Raise the first error where every model that was passed failed: there is nothing to compare."""
    passed = [contestant.name for contestant in chosen if not contestant.control]
    failed = {failure.model: failure for failure in failures}
    if set(passed) <= set(failed):
        error = pieces[passed[0], failed[passed[0]].fold - 1].error
        assert error is not None
        raise error


@dataclass
class _Warnings:
    """Gather this package's warnings, so that a hundred fits say a thing once, under the model's name."""

    first: dict[tuple[str, type[Warning]], str] = field(default_factory=dict)
    fits: dict[tuple[str, type[Warning]], int] = field(default_factory=dict)
    others: dict[Heard, None] = field(default_factory=dict)

    @classmethod
    def of(cls, pieces: list[Piece]) -> _Warnings:
        """Listen to all pieces, in the order of folds and models."""
        heard = cls()
        for piece in pieces:
            kinds = set()
            for entry in piece.warnings:
                if not issubclass(entry.category, PeerAttnWarning):
                    heard.others.setdefault(entry)
                elif not issubclass(entry.category, PossibleLeakWarning):  # given once, for the whole panel
                    kinds.add(entry.category)
                    heard.first.setdefault((piece.model, entry.category), entry.message)
            for kind in kinds:
                heard.fits[piece.model, kind] = heard.fits.get((piece.model, kind), 0) + 1
        return heard

    def tell(self) -> list[str]:
        """Give each of our warnings once and return what was said; what is not ours goes on as it came."""
        for entry in self.others:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.line)
        together: dict[tuple[type[Warning], str], list[str]] = {}
        for (name, kind), message in self.first.items():
            fits = self.fits[name, kind]
            often = f" (The first of {fits} fits that say so.)" if fits > 1 else ""
            together.setdefault((kind, message + often), []).append(name)
        said = []
        for (kind, message), names in together.items():
            said.append(f"{', '.join(names)}: {message}")
            warnings.warn(kind(said[-1]), stacklevel=4)
        return said
