"""What an unfitted model brings along: fitted parts, tables of rows, and figures of all rows, tested ones included."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.relations import SAME, correlation
from peerattn.evaluation.leak_audit.subject import Subject


def brought_along(subject: Subject) -> list[str]:
    """Return, in words, what the model under audit knows before it is fitted."""
    return _parts(subject.entry.model, len(subject.panel)) + _figures(subject)


def _parts(model: Any, n_rows: int, path: str = "", seen: frozenset[int] = frozenset()) -> list[str]:
    """Return fitted parts and tables among the attributes of an unfitted model."""
    if id(model) in seen:
        return []
    seen, found = seen | {id(model)}, []
    items = vars(model).items() if hasattr(model, "get_params") else []
    if isinstance(model, list | tuple):
        items = [(str(k), part) for k, part in enumerate(model)]
    for name, value in list(items):
        where = f"{path}.{name}" if path else str(name)
        if name.endswith("_") and not name.startswith("_"):
            found.append(f"{where}, fitted before")
        elif isinstance(value, pd.DataFrame | pd.Series | np.ndarray) and len(value) >= n_rows / 2:
            found.append(f"{where}, a table of {len(value):,} rows")
        elif hasattr(value, "get_params") or isinstance(value, list | tuple):
            found += _parts(value, n_rows, where, seen)
    return found


def _figures(subject: Subject) -> list[str]:
    """Return parameters that hold figures of all rows: mean outcomes by firm, period or code; means and the like of columns."""
    found, y = [], subject.panel.y
    numbers = subject.panel.X.select_dtypes("number").astype(float)
    levels = {"firm": y.index.get_level_values(0), "period": y.index.get_level_values(1)}
    levels |= {str(name): pd.Index(code) for name, code in subject.panel.X.drop(columns=numbers).items()}
    for name, value in _values(subject.entry.model):
        table = pd.Series(value) if isinstance(value, dict) and value else value
        if isinstance(table, pd.Series) and pd.api.types.is_numeric_dtype(table.dtype):
            for what, of in levels.items():
                means, learned = (v.groupby(of[at]).mean() for v, at in _whole_and_learned(y, subject.train))
                given = table[~table.index.duplicated()]
                near, before = (abs(correlation(given.reindex(m.index), m, 4)) for m in (means, learned))
                if near > SAME and 1 - near < 0.2 * (1 - before) or (near > SAME and what == "period"):
                    found.append(f"{name}, a table of mean outcomes by {what}, tested ones among them")
        vector = np.ravel(np.asarray(value, dtype=float)) if _is_vector(value) else np.empty(0)
        if len(vector) == numbers.shape[1]:
            for how in ("mean", "std", "median", "min", "max"):
                whole, part = (v.agg(how).to_numpy() for v in (numbers, numbers.iloc[subject.train]))
                if np.allclose(vector, whole, rtol=1e-6) and not np.allclose(vector, part, rtol=1e-6):
                    found.append(f"{name}, the {how} of each column over all rows")
    return found


def _whole_and_learned(y: pd.Series, train: np.ndarray) -> list[tuple[pd.Series, Any]]:
    return [(y, slice(None)), (y.iloc[train], train)]


def _is_vector(value: Any) -> bool:
    if isinstance(value, pd.Series | np.ndarray):
        return pd.api.types.is_numeric_dtype(value.dtype)
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(v, int | float) for v in value)


def _values(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of a model and of its parts, and what is bound to functions among them."""
    for name, value in model.get_params().items():
        yield name, value
        if isinstance(value, partial):
            yield from ((f"{name}({key})", v) for key, v in value.keywords.items())
        elif isinstance(value, dict):
            yield from ((f"{name}[{key!r}]", v) for key, v in value.items())
