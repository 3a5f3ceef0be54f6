"""The loop of a comparison: every model on every fold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.evaluation.contestants import Contestant, FoldRows, trials
from peerattn.evaluation.inputs import ComparisonPanel
from peerattn.exceptions import InputError, PeerAttnWarning, PossibleLeakWarning

if TYPE_CHECKING:
    from peerattn.network import PeerNetwork

Folds = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Run:
    """What the loop over folds and models leaves behind.

    Attributes
    ----------
    predictions : DataFrame
        Columns firm, period, outcome and one for each model.
    training_mean : ndarray
        Mean of the training outcomes of each row's fold.
    networks : dict of str to PeerNetwork
        Of each peer model, for the last scored period.
    notes : list of str
        Warnings of the models, one for each kind.
    trials : dict of str to int
        Settings that each model's search tried in a fit; 1 without a search.
    """

    predictions: pd.DataFrame
    training_mean: np.ndarray
    networks: dict[str, PeerNetwork]
    notes: list[str]
    trials: dict[str, int]


def run(chosen: list[Contestant], panel: ComparisonPanel, folds: Folds, *, verbose: bool) -> Run:
    """Fit every model on every fold and keep predictions, and the networks of the last scored period."""
    tested = np.concatenate([test for _, test in folds])
    predicted = {contestant.name: np.empty(len(tested)) for contestant in chosen}
    means = np.empty(len(tested))
    networks: dict[str, PeerNetwork] = {}
    tried: dict[str, int] = {}
    heard = _Warnings()
    start = 0
    with _progress(len(folds) * len(chosen), verbose) as advance:
        for number, (train, test) in enumerate(folds, 1):
            rows = FoldRows(panel, train, test)
            at = slice(start, start + len(test))
            start += len(test)
            means[at] = rows.y_train.mean()
            for contestant in chosen:
                advance(f"{contestant.name}, fit {number} of {len(folds)}", 0)
                with _named(contestant.name), heard.of(contestant.name):
                    model = contestant.fit(rows)
                    predicted[contestant.name][at] = contestant.predict(model, rows)
                    tried[contestant.name] = max(tried.get(contestant.name, 1), trials(model))
                    if number == len(folds) and contestant.native and not contestant.control:
                        networks |= _last_network(contestant, model, rows)
                advance("", 1)
    labels = panel.X.index[tested]
    frame = pd.DataFrame(
        {
            "firm": labels.get_level_values(0),
            "period": labels.get_level_values(1),
            "outcome": panel.y.to_numpy()[tested],
            **predicted,
        }
    )
    return Run(frame, means, networks, heard.tell(), tried)


def _last_network(contestant: Contestant, model: Any, rows: FoldRows) -> dict[str, PeerNetwork]:
    """Return the network of the last scored period; a model without one is warned of, its predictions stand."""
    when = rows.X_call.index.get_level_values(1)
    last = when == when[rows.y_call.notna().to_numpy()].max()
    try:
        return {contestant.name: contestant.network(model, rows.X_call[last], rows.y_call[last])}
    except InputError as error:
        warnings.warn(PeerAttnWarning(f"no network can be shown: {error}"), stacklevel=2)
        return {}


@dataclass
class _Warnings:
    """Gather this package's warnings, so that a hundred fits say a thing once, under the model's name."""

    first: dict[tuple[str, type[Warning]], str] = field(default_factory=dict)
    fits: dict[tuple[str, type[Warning]], int] = field(default_factory=dict)
    shown: dict[Any, Any] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Listen to a model; what is not ours goes on as it came."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        kinds = set()
        for entry in caught:
            if not issubclass(entry.category, PeerAttnWarning):
                warnings.warn_explicit(
                    entry.message, entry.category, entry.filename, entry.lineno, registry=self.shown
                )
            elif not issubclass(
                entry.category, PossibleLeakWarning
            ):  # given once already, for the whole panel
                kinds.add(entry.category)
                self.first.setdefault((name, entry.category), str(entry.message))
        for kind in kinds:
            self.fits[name, kind] = self.fits.get((name, kind), 0) + 1

    def tell(self) -> list[str]:
        """Give each kind of warning once, and return what was said."""
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


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say in an error which model it came from."""
    try:
        yield
    except InputError as error:
        if f"model {name!r}" in str(error):
            raise
        raise InputError(f"model {name!r}: {error}") from error
    except Exception as error:
        error.add_note(f"This came from model {name!r} of the comparison.")
        raise


@contextmanager
def _progress(total: int, verbose: bool) -> Iterator[Any]:
    """Give a function ``advance(description, steps)`` that moves a bar on stderr, or does nothing."""
    if not verbose:
        yield lambda description, steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)

        def advance(description: str, steps: int) -> None:
            bar.update(task, advance=steps, description=description or None)

        yield advance
