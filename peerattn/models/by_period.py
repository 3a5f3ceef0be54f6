"""Panels larger than memory: fitted on what :meth:`StoredPanel.sample` reads, predicted and written a period at a time."""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, warn_user
from peerattn.panel.frames import as_pandas
from peerattn.panel.panel import Panel
from peerattn.panel.stored import StoredPanel, in_files, is_stored
from peerattn.processes import gathered
from peerattn.render import atomic_path, check_writable, show_label, unfinished
from peerattn.types import OutcomesLike, PanelLike


def training_panel(model: BaseEstimator, X: PanelLike, y: OutcomesLike) -> Panel:
    """Return what ``fit`` reads of a panel in files; ``y`` names the outcome's column, unless :func:`scan_panel` named it."""
    stored = stored_panel(model, X, "y", y, codes=model._code_columns())
    if stored.outcome is None:
        raise InputError("y: the stored panel has no outcome; name its column, y= or scan_panel(outcome=).")
    return stored.sample()


def of_all_processes(model: BaseEstimator, X: PanelLike, y: OutcomesLike, *weights: Any) -> list[Any]:
    """Return rows, outcomes and weights of all processes, one process after another."""
    if is_stored(X):
        X = training_panel(model, X, y)
        y = None
    if isinstance(X, Panel):
        if y is None:
            y = X.y
        X = X.X
    parts = gathered([as_pandas(value) for value in (X, y, *weights)])
    return [_one_after_another(each) for each in zip(*parts, strict=True)]


def _one_after_another(values: Sequence[Any]) -> Any:
    if values[0] is None:
        return None
    if not isinstance(values[0], pd.Series | pd.DataFrame):
        return np.concatenate([np.asarray(value) for value in values])
    return pd.concat(values, ignore_index=not isinstance(values[0].index, pd.MultiIndex))


def stored_panel(model: BaseEstimator, X: PanelLike, name: str, column: OutcomesLike, **columns: Any) -> StoredPanel:
    """Return the panel in files; ``column`` is the argument that names its outcome."""
    if not isinstance(column, str | None):
        raise InputError(f"{name}: X is read from files, so {name} must name the column, got {type(column).__name__}.")
    return in_files(name, X, outcome=column, firm=model.firm, period=model.period, **columns)


def check_not_with_files(X: PanelLike, **given: Any) -> None:
    """Raise for values of rows beside a panel in files, whose rows are not in the order of any array."""
    for name, values in given.items():
        if values is not None and is_stored(X):
            raise InputError(f"{name}: not used with a panel read from files; pass a frame or a Panel.")


def stored_call(model: BaseEstimator, X: PanelLike, outcomes: OutcomesLike) -> StoredPanel:
    """Return the panel in files that a fitted model is called with; ``outcomes`` names their column."""
    check_is_fitted(model)
    names = model.column_names_
    codes = model.code_columns_
    if names is None:
        raise InputError("X: the model was fitted on an array, without names; files are read by name.")
    wanted = [name for name in names if name not in codes]
    return stored_panel(model, X, "outcomes", outcomes, characteristics=wanted, codes=codes)


def periods_of(model: BaseEstimator, X: PanelLike, outcomes: OutcomesLike) -> Iterator[tuple[Panel, Panel | None]]:
    """Yield each period's panel, and again as the observed outcomes where ``outcomes`` names their column."""
    names = model.column_names_
    for panel in stored_call(model, X, outcomes):
        # files may hold the columns in another order, period by period
        if set(names) == set(panel.columns):
            panel = replace(panel, columns=names)  # in the order of fit
        observed = None
        if outcomes is not None:
            observed = panel
        yield panel, observed


@contextmanager
def warn_once() -> Iterator[None]:
    """Give the first warning of each class, with the number of periods that gave one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    counts = Counter(entry.category for entry in caught)
    for category, count in counts.items():
        first = next(entry for entry in caught if entry.category is category)
        wording = str(first.message)
        if count > 1:
            wording += f" ({count} such warnings in all, of one period each.)"
        warn_user(category(wording))


@warn_once()
def predicted_periods(model: BaseEstimator, X: PanelLike, outcomes: OutcomesLike, options: Mapping[str, Any]) -> np.ndarray:
    """Return the predictions of all periods of a panel in files, in the order of the files' rows."""
    stored = stored_call(model, X, outcomes)
    calls = model._by_period(stored, outcomes=outcomes, **options)
    predicted = np.concatenate([model._predicted(*call) for call in calls])
    found = np.empty_like(predicted)
    found[stored.order] = predicted
    return found


def write_frame(panel: Panel, call: object, path: Path, *, names: Sequence[str], of: Callable[[Panel, Any], np.ndarray]) -> None:
    """Write firm, period and the predictions of one period, sorted by firm; ``names`` are those of their columns."""
    predicted = of(panel, call)
    labels = dict(zip(panel.names, (panel.firm, panel.period)))
    columns = predicted.reshape(len(panel), len(names))[panel.order].T
    written = pd.DataFrame(labels | dict(zip(names, columns, strict=True)))
    with atomic_path(path) as temporary:
        written.to_parquet(temporary, index=False)


@warn_once()
def written(out: str | os.PathLike[str], calls: Iterator[tuple[Panel, Any]], write: Callable[[Panel, Any, Path], None]) -> Path:
    """Write a Parquet file for each period, each whole or not at all, and return the folder.

    Files of the same periods, of an earlier call, are replaced.

    Raises
    ------
    InputError
        When the folder cannot be written, or holds Parquet files of other periods.
    """
    folder = check_writable(out)
    names = set[str]()
    for panel, call in calls:
        name = _file_name(show_label(panel.period[0]))
        if name in names:
            raise InputError(f"out: two periods have the same text, {name!r}, and would share a file.")
        write(panel, call, folder / name)
        names.add(name)
    others = sorted({path.name for path in folder.glob("*.parquet")} - names)
    if others:
        raise InputError(f"out: {str(folder)!r} holds {len(others)} files of other periods, such as {others[0]!r}: use another.")
    for left in unfinished(folder):  # by a call that was killed
        left.unlink()
    return folder


def _file_name(label: str) -> str:
    """Return the name of a period's file, which readers of folders do not pass over and file systems take.

    >>> _file_name("2001-01"), _file_name("_pre")
    ('2001-01.parquet', '%5Fpre.parquet')
    """
    name = quote(label, safe=" ")
    if name[0] in "_.":
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if len(name) >= 150:
        name = name[:100] + hashlib.sha256(label.encode()).hexdigest()
    return f"{name}.parquet"
