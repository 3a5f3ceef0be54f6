"""One model fitted on one fold. The results are independent, so they are made in any order, anywhere."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from peerattn.evaluation.running.entries import Entry, trials
from peerattn.evaluation.running.fold_rows import FoldRows
from peerattn.evaluation.running.information import last_step
from peerattn.exceptions import InputError, PeerAttnWarning, SharedPeriodWarning, warn_user
from peerattn.models.attention.fitting import Stack
from peerattn.training import one_thread

if TYPE_CHECKING:
    from peerattn.models.attention.search_profile import SearchProfile
    from peerattn.network import PeerNetwork


@dataclass(frozen=True)
class CapturedWarning:
    """A warning that a model gave: its class, words, and the place in the source."""

    category: type[Warning]
    message: str
    filename: str
    line: int


@dataclass(frozen=True)
class FoldResult:
    """What one model leaves behind on one fold.

    Attributes
    ----------
    model : str
    fold : int
    predicted : ndarray or None
        One prediction for each test row; None where the model failed.
    trials : int
        Settings that its search tried; 1 without a search.
    warnings : tuple of CapturedWarning
    network : PeerNetwork or None
        Of the last scored period, where it is wanted and the model gives one.
    profile : SearchProfile or None
        What its heads search for, where the model has one.
    error : Exception or None
        Why the model failed.
    seconds : float
        Time of fit and prediction.
    parts : tuple of str or None
        The parts of a model that learns peers which entered; None for a model that does not learn whether they do.
    unjudged : str
        Why such a model could not judge its peers.
    """

    model: str
    fold: int
    predicted: np.ndarray | None
    trials: int = 1
    warnings: tuple[CapturedWarning, ...] = ()
    network: PeerNetwork | None = None
    profile: SearchProfile | None = field(default=None, repr=False)
    error: Exception | None = None
    seconds: float = 0.0
    parts: tuple[str, ...] | None = None
    unjudged: str = ""

    @property
    def empty(self) -> bool:
        """Whether the model learns peers and found none."""
        return self.parts == ()


def fit_fold(entry: Entry, rows: FoldRows, fold: int, with_network: bool) -> FoldResult:
    """Fit a model on a fold and predict its test rows; a model that fails gives a result with its error.

    One thread is used, whatever the machine has: figures then depend neither on the number of cores nor on how many
    fits run at once.
    """
    start = perf_counter()
    try:
        with one_thread(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter(
                "ignore", SharedPeriodWarning
            )  # NewFirms; other splits do not share periods
            model = entry.fit(rows)
            predicted = entry.predict(model, rows)
            seconds = perf_counter() - start
            network = _last_network(entry, model, rows) if with_network else None
            profile = _profile(model) if with_network else None
        said = tuple(CapturedWarning(w.category, str(w.message), w.filename, w.lineno) for w in caught)
        parts, unjudged = _entered(model)
        found = (trials(model), said, network, profile)
        return FoldResult(
            entry.name, fold, predicted, *found, seconds=seconds, parts=parts, unjudged=unjudged
        )
    except Exception as error:  # whatever a model raises is its own row of the table, not the end of the run
        return FoldResult(entry.name, fold, None, error=_portable(_named(error, entry.name)))


def _last_network(entry: Entry, model: Any, rows: FoldRows) -> PeerNetwork | None:
    """Return the network of the last scored period; a peer model without one gives a warning, its predictions are kept."""
    when = rows.X_call.index.get_level_values(1)
    last = when == when[rows.y_call.notna().to_numpy()].max()
    try:
        return entry.network(model, rows, last)
    except InputError as error:
        warn_user(PeerAttnWarning(f"no network can be shown: {error}"))
        return None


def _profile(model: Any) -> SearchProfile | None:
    """Return the search profile of a fitted attention model; None where there is no head or no such matrix."""
    final = last_step(getattr(model, "best_estimator_", model))
    try:
        profile = final.search_profile() if hasattr(final, "search_profile") else None
    except InputError:  # scores that are not inner products have none
        return None
    return profile if profile is not None and profile.heads else None


def _entered(model: Any) -> tuple[tuple[str, ...] | None, str]:
    """Return the parts by which peers entered a model that learns whether they do, and why they were not judged."""
    stack = getattr(last_step(getattr(model, "best_estimator_", model)), "stack_", None)
    if not isinstance(stack, Stack):
        return None, ""
    entered, of_peers = tuple(stack.peers()), stack.evidence.loc["peers"]
    return entered, "" if entered or of_peers["judged"] else str(of_peers["reason"])


def _named(error: Exception, name: str) -> Exception:
    """Say in an error which model it came from."""
    if isinstance(error, InputError):
        return error if f"model {name!r}" in str(error) else InputError(f"model {name!r}: {error}")
    error.add_note(f"This came from model {name!r} of the comparison.")
    return error


def _portable(error: Exception) -> Exception:
    """Return an error that survives the way from another process (joblib pickles what goes between processes)."""
    try:
        copy.deepcopy(error)
    except Exception:  # exceptions with arguments of their own often cannot be rebuilt
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
