"""The loop of a comparison: every model on every fold, here or on other processes and machines.

The results are independent, so they are made in any order, anywhere.
"""

import copy
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from peerattn.evaluation.running.entries import BOOSTING, Entry
from peerattn.evaluation.running.information import PEERS, last_step
from peerattn.evaluation.running.inputs import FoldRows
from peerattn.evaluation.running.pipelines import chosen_model, trials
from peerattn.evaluation.running.store import FoldStore
from peerattn.exceptions import WHERE_ISOLATES, InputError, PeerAttnWarning, PossibleLeakWarning, SharedPeriodWarning, warn_user
from peerattn.models.forecasters import model_title
from peerattn.models.learners.heads.search_profile import SearchProfile
from peerattn.models.stacking.evidence import GROUPS, STEPS
from peerattn.models.stacking.fit import Stack
from peerattn.network import PeerNetwork
from peerattn.panel import Panel
from peerattn.render import CLEAR, progress_bar
from peerattn.training import one_thread

Folds = list[tuple[np.ndarray, np.ndarray]]
STACK = model_title("stack")


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
    warnings : tuple of (class, str)
        Those that the model gave.
    network : PeerNetwork or None
        Of the last scored period, where it is wanted and the model gives one.
    profile : SearchProfile or None
        What its heads search for, where the model has one.
    error : Exception or None
        Why the model failed.
    seconds : float
        Time of fit and prediction.
    steps : ndarray or None
        Predictions after each group of information, (n, steps); of a model that has a version without peers.
    selected : dict of str to tuple of str
        Of a stack, for each group: the parts that were selected.
    untested : dict of str to str
        Of a stack, for each group that could not be tested: why.
    errors : tuple of float
        Sums of squared errors of the model, of the prevailing mean, and of the model's version without peers.
    """

    model: str
    fold: int
    predicted: np.ndarray | None
    trials: int = 1
    warnings: tuple[tuple[type[Warning], str], ...] = ()
    network: PeerNetwork | None = None
    profile: SearchProfile | None = field(default=None, repr=False)
    error: Exception | None = None
    seconds: float = 0.0
    steps: np.ndarray | None = field(default=None, repr=False)
    selected: dict[str, tuple[str, ...]] = field(default_factory=dict)
    untested: dict[str, str] = field(default_factory=dict)
    errors: tuple[float, ...] = (0.0, 0.0, 0.0)


def fit_fold(entry: Entry, rows: FoldRows, fold: int, with_network: bool) -> FoldResult:
    """Fit a model on a fold and predict its test rows; a model that fails gives a result with its error.

    One thread is used, whatever the machine has: figures then depend neither on the number of cores nor on how many
    fits run at once.
    """
    # the clock of the log includes prediction, not the network
    start = perf_counter()
    try:
        with one_thread(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # NewFirms; other splits share no periods
            warnings.simplefilter("ignore", SharedPeriodWarning)
            model = entry.fit(rows)
            steps = entry.predict_steps(model, rows)
            found: dict[str, Any] = {"seconds": perf_counter() - start, "trials": trials(model)}
            final = last_step(chosen_model(model))
            if with_network:
                found |= {"network": _last_network(entry, model, rows), "profile": _profile(final)}
        if steps.shape[1] > 1:
            found["steps"] = steps
        found["selected"], found["untested"] = _selected(final, steps)
        found["warnings"] = tuple((warning.category, str(warning.message)) for warning in caught)
        y = rows.call.y.to_numpy(dtype=float)[rows.scored]
        # of a model without steps the version without peers is the model itself
        compared = steps[:, -1], rows.train.y.mean(), steps[:, -2:][:, 0]
        found["errors"] = tuple(float(np.nansum((y - of) ** 2)) for of in compared)
        return FoldResult(entry.name, fold, steps[:, -1], **found)
    except Exception as error:  # whatever a model raises is its own row of the table, not the end of the run
        return FoldResult(entry.name, fold, None, error=_named(error, entry.name))


def _last_network(entry: Entry, model: Any, rows: FoldRows) -> PeerNetwork | None:
    """Return the network of the last scored period; a peer model without one gives a warning, its predictions are kept."""
    y = rows.call.y
    when = y.index.get_level_values(1)
    last = when == when[y.notna().to_numpy()].max()
    try:
        return entry.network(model, rows, last)
    except InputError as error:
        warn_user(PeerAttnWarning(f"no network can be shown: {error}"))
        return None


def _profile(final: object) -> SearchProfile | None:
    """Return the search profile of a fitted attention model; None where there is no head or no such matrix."""
    with suppress(InputError):  # scores that are not inner products have none
        if hasattr(final, "search_profile") and (profile := final.search_profile()).heads:
            return profile
    return None


def _selected(final: object, steps: np.ndarray) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the parts that a stack selected in each group, and why groups were not tested.

    ``steps`` are its predictions after each group: those of firms without a past have weights of their own, whose parts count
    where some of these firms were predicted.
    """
    stack = getattr(final, "stack_", None)
    if not isinstance(stack, Stack):
        return {}, {}
    selected = {}
    untested = {}
    for k, (step, group) in enumerate(zip(STEPS[1:], GROUPS, strict=True)):
        columns = stack.stages[group].selected()
        if not columns and stack.without_history is not None and (steps[:, k + 1] != steps[:, k]).any():
            columns = stack.without_history.stages[group].selected()
        selected[step] = tuple(dict.fromkeys(column.candidate for column in columns))
        if not (selected[step] or stack.evidence.loc[group, "tested"]):
            untested[step] = str(stack.evidence.loc[group, "reason"])
    return selected, untested


def _named(error: Exception, name: str) -> Exception:
    """Name in an error the model it came from, and let it survive the way from another process, where joblib pickles it."""
    if isinstance(error, InputError) and f"model {name!r}" in str(error):
        return error
    if isinstance(error, InputError):
        return InputError(f"model {name!r}: {error}")
    try:
        copy.deepcopy(error)
    except Exception:  # exceptions with arguments of their own often cannot be rebuilt
        error = RuntimeError(f"{type(error).__name__}: {error}")
    # the traceback of another process does not show which model ran
    error.add_note(f"This came from model {name!r} of the comparison.")
    return error


#: The result of each (name of the model, number of the fold).
Results = dict[tuple[str, int], FoldResult]


class How(NamedTuple):
    """How fits and audits are run: on how many processes, where finished ones are kept, and whether progress is shown."""

    n_jobs: int | None
    kept: FoldStore
    verbose: bool


def fit_all(entries: list[Entry], panel: Panel, folds: Folds, how: How) -> Results:
    """Return the result of every model on every fold: from the store, or run by joblib on whatever backend is set.

    A model that fails on a fold is not fitted on later ones. The networks are those of the last fold: of the models passed, and
    of gradient boosting.
    """
    from joblib import Parallel, delayed

    n = len(folds)
    # networks are large: kept of the last fold, and of controls only where a reader knows them
    displayed = {(e.name, n - 1) for e in entries if not e.control or e.name in (BOOSTING, STACK)}
    keys = {(e.name, k): how.kept.key(e, *folds[k], (e.name, k) in displayed) for e in entries for k in range(n)}
    results = {at: found for at, key in keys.items() if (found := how.kept.load(key, FoldResult))}
    # what failed once would fail on later folds, too
    failed = set[str]()
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
                yield delayed(fit_fold)(entry, rows, k, (entry.name, k) in displayed)

    total = n * len(entries)
    if how.verbose:
        stored = f", {len(results)} found in the store" * bool(results)
        print(f"{total - len(results)} fits{stored}", file=sys.stderr, flush=True)
    with progress_bar("fitting" if how.verbose and terminal else None, total, len(results)) as advance:
        for result in Parallel(n_jobs=how.n_jobs, return_as="generator_unordered")(left()):
            at = result.model, result.fold
            results[at] = result
            if result.error is not None:
                failed.add(result.model)
            else:
                how.kept.save(keys[at], result)
            if how.verbose:  # above the bar, or into a log
                line = f"{len(results)}/{total} {_fit_of(*at, n)}: {_outcome(result, results)}"
                print(f"{CLEAR * terminal}{line}", file=sys.stderr, flush=True)
            advance(_fit_of(*at, n), 1)
    return results


def _fit_of(model: str, fold: int, n: int) -> str:
    return f"{model}, fold {fold + 1} of {n}"


def _outcome(result: FoldResult, results: Results) -> str:
    """Return how long a fit took, R² of its model over the folds finished so far, and whether it found no peers."""
    if result.error is not None:
        return f"failed, {type(result.error).__name__}"
    ours, base, _ = squared_errors(result.model, results)
    r2 = f"{1 - ours / base:.3f}" if base > 0 else "n/a"
    wording = f"{result.seconds:.1f} s, R² so far {r2.replace('-', '−')}"
    if result.selected and not result.selected[PEERS]:
        wording += "; no peers selected"
    return wording


def squared_errors(name: str, results: Results) -> np.ndarray:
    """Return the sums of squared errors of a model, the prevailing mean and the model without peers over the folds predicted."""
    return np.sum([result.errors for result in results.values() if result.model == name], axis=0)


def failures_of(entries: list[Entry], results: Results) -> tuple[Failure, ...]:
    """Return the first failure of each model, in the order of the models.

    Raises the error of the first model where all models that were passed (not the controls) fail.
    """
    # later folds are overwritten by earlier ones: the first failure counts
    last_first = sorted(results.values(), key=lambda result: -result.fold)
    errors = {result.model: (result.fold, result.error) for result in last_first if result.error}
    passed = [entry.name for entry in entries if not entry.control]
    if set(passed) <= set(errors):
        raise errors[passed[0]][1]
    found = []
    for name in (entry.name for entry in entries if entry.name in errors):
        k, error = errors[name]
        wording = " ".join(str(error).split()).removeprefix(f"model {name!r}: ")
        found.append(Failure(name, k + 1, f"{type(error).__name__}: {wording}"))
    return tuple(found)


def warn_once(results: Sequence[FoldResult]) -> list[str]:
    """Give each kind of warning once a model, under the names of the models that gave it; return those of this package."""
    wording: dict[tuple[str, type[Warning]], dict[int, str]] = defaultdict(dict)  # the first message of each fit
    for result in results:
        for category, message in result.warnings:
            wording[result.model, category].setdefault(result.fold, message)
    # models with the same warning share one
    together: dict[tuple[type[Warning], str], list[str]] = defaultdict(list)
    for (name, kind), fits in wording.items():
        first = next(iter(fits.values()))
        if len(fits) > 1:
            first += f" (The first of {len(fits)} fits with this warning.)"
        together[kind, first].append(name)
    notes = []
    for (kind, message), names in together.items():
        if issubclass(kind, PossibleLeakWarning):  # given once, for the whole panel
            continue
        warn_user(kind(f"{'; '.join(names)}: {message}"))
        if issubclass(kind, PeerAttnWarning):  # no code in a table's notes
            notes.append(f"{'; '.join(names)}: {message.replace(WHERE_ISOLATES, '')}")
    return notes
