"""Fitted panel models as one safetensors file: arrays, and a JSON tree of the rest. Loading never runs code of the file."""

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator

from peerattn.exceptions import InputError, PeerAttnWarning, reworded, validate_arguments
from peerattn.store.sealed import FOREIGN, read_state, write_state
from peerattn.store.sklearn_models import KNOWN, from_state, state_of, with_attributes

KIND = "~"  # key under which the tree says what a mapping represents
_OURS = re.compile(r"peerattn\.(panel|network|models|evaluation|sequence)(\.[a-z_]+)*:[A-Za-z_]+")


@validate_arguments
def save_estimator(estimator: BaseEstimator, path: str | os.PathLike[str], about: object = None) -> None:
    """Write parameters and fitted attributes of an estimator, atomically, and what JSON holds ``about`` it.

    Raises
    ------
    InputError
        When it holds what cannot be stored without pickle: an estimator that is not in :mod:`~peerattn.store.sklearn_models`, a
        function.
    """
    arrays: dict[str, np.ndarray] = {}
    tree = encoded(estimator, arrays, type(estimator).__name__)
    write_state(path, arrays, {"model": tree, "about": about}, "model")


@validate_arguments
def load_estimator(path: str | os.PathLike[str], cls: type = object) -> tuple[Any, Any]:
    """Return the estimator that :func:`save_estimator` wrote, and the description saved with it."""
    arrays, spec = read_state(path, "model")
    estimator = decoded(spec.get("model"), arrays)
    if not isinstance(estimator, cls):
        name = type(estimator).__name__
        raise InputError(f"path: expected a saved {cls.__name__}, got a saved {name}. Use peerattn.load.")
    return estimator, spec.get("about")


@validate_arguments
def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted model that ``save`` or ``peerattn fit`` wrote, whatever its class; no code of the file is run.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    fitted estimator

    Raises
    ------
    InputError
        When the file is missing, of another origin (a pickle, for example), cut off or damaged, written by another version of
        the format, or names a class that is no part of a saved model.

    Notes
    -----
    The file is safetensors with a JSON header and a seal, the SHA-256 of the file: a changed bit is found. The seal is no
    signature: whoever writes the file can seal it, and can choose the model's numbers, but no code.

    Examples
    --------
    >>> import tempfile
    >>> from peerattn import NadarayaWatsonRegressor
    >>> model = NadarayaWatsonRegressor(bandwidth=1.0).fit([[1.0], [2.0]], [1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/kernel.model")
    ...     load(f"{folder}/kernel.model")
    NadarayaWatsonRegressor(bandwidth=1.0)
    """
    return load_estimator(path)[0]


def decoded(tree: object, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return what :func:`encoded` was given. Only listed classes are ever made.

    Raises
    ------
    InputError
        When the tree names another class, or is not what :func:`encoded` gives.
    """
    with reworded(FOREIGN):
        return _decoded(tree, arrays)


def encoded(value: object, arrays: dict[str, np.ndarray], where: str) -> Any:
    """Return a value as JSON holds it; arrays are put aside under numbers."""

    def held(named: Mapping[str, Any], path: str) -> dict[str, Any]:
        return {name: encoded(item, arrays, path.format(name)) for name, item in named.items()}

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        if value.dtype.kind in "biufU":
            return value.item()
        return encoded(pd.Series([value]).iloc[0], arrays, where)
    if isinstance(value, list):
        return [encoded(item, arrays, where) for item in value]
    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays[name := str(len(arrays))] = value
        return {KIND: "array", "name": name}
    if isinstance(value, pd.api.extensions.ExtensionArray):
        if isinstance(value, pd.arrays.NumpyExtensionArray):
            return encoded(value.to_numpy(), arrays, where)
        return encoded(pd.Index(value), arrays, where)
    if isinstance(value, type) and issubclass(value, Warning):
        return {KIND: "warning", "module": value.__module__, "name": value.__qualname__}
    # in order: a MultiIndex is an Index, too
    for kind, (types, parts, _) in _CODECS.items():
        if isinstance(value, types):
            return {KIND: kind} | held(parts(value), where)
    name = type(value).__name__
    module = type(value).__module__
    named = f"{module}:{name}"
    inside = f"{where}.{{}}"
    if isinstance(value, BaseEstimator) and _OURS.fullmatch(named):
        # an estimator may hold what can be made again: it says what a file needs
        kept = getattr(value, "_held", lambda: vars(value))()
        return {KIND: "estimator", "class": named, "attributes": held(kept, inside)}
    if is_dataclass(value) and _OURS.fullmatch(named):
        # a private field may hold what an argument without the underscore gave
        used = signature(type(value)).parameters
        kept = {f.name: getattr(value, f.name) for f in fields(value) if f.name.lstrip("_") in used}
        return {KIND: named, "fields": held(kept, where)}
    if name in KNOWN and module.startswith("sklearn."):
        return {KIND: "sklearn", "class": name, "attributes": held(state_of(value), inside)}
    stored = f"Stored are this package's estimators and scikit-learn's {', '.join(sorted(KNOWN))}."
    remedy = "Use pickle or joblib for this model, and open such files only where you trust their source."
    raise InputError(f"{where} is a {name}, which cannot be stored without pickle. {remedy} {stored}")


def _decoded(value: object, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value[KIND]
    if kind == "array":
        return arrays[value["name"]]
    if kind == "warning":
        return _warning(value["module"], value["name"])
    if kind in _CODECS:
        return _CODECS[kind][2](**{key: _decoded(part, arrays) for key, part in value.items() if key != KIND})
    # parts first: an object is made of finished ones
    (held,) = (value[name] for name in ("fields", "attributes") if name in value)
    held = {name: _decoded(item, arrays) for name, item in held.items()}
    if kind == "sklearn":
        return from_state(value["class"], held)
    if kind != "estimator":
        return _ours(kind, is_dataclass)(**{name.lstrip("_"): item for name, item in held.items()})
    return with_attributes(_ours(value["class"], lambda found: issubclass(found, BaseEstimator)), held)


def _ours(named: str, is_stored: Callable[[type], bool]) -> Any:
    """Return a class of this package by its name; nothing else can be named."""
    module, _, name = named.partition(":")
    found = None
    with reworded(f"path: the file names {named!r}, which this version does not have", kinds=(ImportError, AttributeError)):
        if _OURS.fullmatch(named):
            found = getattr(importlib.import_module(module), name)
    if not isinstance(found, type) or found.__module__ != module or not is_stored(found):
        raise InputError(f"path: the file names {named!r}, which is no part of a saved model.")
    return found


def _warning(module: str, name: str) -> type[Warning]:
    """Return a class of warnings by its name, where its module is loaded: nothing is imported for a file."""
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, type) and issubclass(found, Warning):
        return found
    if module.startswith("peerattn."):
        return PeerAttnWarning
    return UserWarning


def _parts_of_index(index: pd.Index) -> dict[str, Any]:
    """Return the values of an index, dates as numbers of their unit, text and missing labels as JSON holds them."""
    values = index.to_numpy()
    if isinstance(index, pd.DatetimeIndex | pd.TimedeltaIndex):
        values = index.asi8
    if values.dtype == object:
        items = index
        if isinstance(index, pd.PeriodIndex):
            items = index.astype(str)
        plain = [None if not isinstance(v, tuple) and pd.isna(v) else v for v in items]
        values = _objects(plain, [len(plain)])
    return {"values": values, "dtype": str(index.dtype), "name": index.name}


def _objects(items: list[Any], shape: list[int]) -> np.ndarray:
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found.reshape(shape)


def _csr(parts: list[np.ndarray], shape: list[int]) -> sparse.csr_array:
    found = sparse.csr_array(tuple(parts), shape=tuple(shape))
    found.check_format(full_check=True)  # products do not look whether positions lie inside
    return found


def _frame(values: list[Any], index: pd.Index, columns: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(dict(enumerate(map(_values, values))), index=index).set_axis(columns, axis=1)


def _values(value: object) -> Any:
    if isinstance(value, pd.Index):
        return value.array
    return value


#: By kind: of which types it is (the first that fits), its parts, and what is made of them.
_CODECS: dict[str, tuple[Any, Callable[[Any], dict[str, Any]], Callable[..., Any]]] = {
    "tuple": (tuple, lambda v: {"items": list(v)}, lambda items: tuple(items)),
    "dict": (Mapping, lambda v: {"items": [list(pair) for pair in v.items()]}, lambda items: dict(items)),
    "objects": (np.ndarray, lambda v: {"items": list(v.ravel()), "shape": list(v.shape)}, _objects),
    "time": (pd.Timestamp | pd.Period | pd.Timedelta, lambda v: {"one": pd.Index([v])}, lambda one: one[0]),
    "csr": (sparse.csr_array, lambda v: {"parts": [v.data, v.indices, v.indptr], "shape": list(v.shape)}, _csr),
    "multiindex": (
        pd.MultiIndex,
        lambda v: {"levels": [v.get_level_values(k) for k in range(v.nlevels)], "names": list(v.names)},
        lambda levels, names: pd.MultiIndex.from_arrays(levels, names=names),
    ),
    "categories": (
        pd.CategoricalIndex,
        lambda v: {"codes": v.codes, "categories": v.categories, "ordered": bool(v.ordered), "name": v.name},
        lambda name, **parts: pd.CategoricalIndex(pd.Categorical.from_codes(**parts), name=name),
    ),
    "index": (pd.Index, _parts_of_index, lambda values, dtype, name: pd.Index(values, dtype, name=name, tupleize_cols=False)),
    "series": (
        pd.Series,
        lambda v: {"values": v.array, "index": v.index, "name": v.name},
        lambda values, index, name: pd.Series(_values(values), index=index, name=name),
    ),
    "frame": (
        pd.DataFrame,
        lambda v: {"values": [part.array for _, part in v.items()], "index": v.index, "columns": v.columns},
        _frame,
    ),
}
