"""Fitted panel models as one safetensors file: arrays, and a JSON tree of the rest. Loading never runs code of the file."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator

from peerattn.exceptions import InputError, PeerAttnWarning, checked
from peerattn.store.sealed import read_state, write_state, written_by_us
from peerattn.store.sklearn_models import KNOWN, from_state, state_of

KIND = "~"  # key under which the tree says what a mapping stands for
_OURS = re.compile(r"peerattn\.(panel|network|models|evaluation|sequence)(\.[a-z_]+)*:[A-Za-z_]+")


def save_estimator(estimator: Any, path: str | os.PathLike[str], about: Any = None) -> None:
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


def load_estimator(path: str | os.PathLike[str], cls: type = object) -> tuple[Any, Any]:
    """Return the estimator that :func:`save_estimator` wrote, and what was said about it."""
    arrays, spec = read_state(path, "model")
    estimator = decoded(spec.get("model"), arrays)
    if not isinstance(estimator, cls):
        name = type(estimator).__name__
        raise InputError(f"path: expected a saved {cls.__name__}, got a saved {name}. Use peerattn.load.")
    return estimator, spec.get("about")


@checked
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


def decoded(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return what :func:`encoded` was given. Only classes that stand in a list here are ever made.

    Raises
    ------
    InputError
        When the tree names another class, or is not what :func:`encoded` gives.
    """
    with written_by_us():
        return _decoded(tree, arrays)


def encoded(value: Any, arrays: dict[str, np.ndarray], where: str) -> Any:
    """Return a value as JSON holds it; arrays are put aside under numbers."""

    def put(array: np.ndarray) -> str:
        name = str(len(arrays))
        arrays[name] = array
        return name

    def inner(item: Any) -> Any:
        return encoded(item, arrays, where)

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return inner(value.item() if value.dtype.kind in "biufU" else pd.Series([value]).iloc[0])
    if isinstance(value, list):
        return [inner(item) for item in value]
    if isinstance(value, tuple):
        return {KIND: "tuple", "items": [inner(item) for item in value]}
    if isinstance(value, Mapping):
        return {KIND: "dict", "items": [[inner(key), inner(item)] for key, item in value.items()]}
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {
                KIND: "objects",
                "items": [inner(item) for item in value.ravel()],
                "shape": list(value.shape),
            }
        return {KIND: "array", "name": put(value)}
    if isinstance(value, pd.Timestamp):
        return {KIND: "timestamp", "text": value.isoformat(), "unit": value.unit}
    if isinstance(value, pd.Period):
        return {KIND: "period", "text": str(value), "freq": value.freqstr}
    if isinstance(value, pd.Index):
        return _encoded_index(value, inner)
    if isinstance(value, pd.Series):
        return {
            KIND: "series",
            "values": inner(value.array),
            "index": inner(value.index),
            "name": inner(value.name),
        }
    if isinstance(value, pd.DataFrame):
        columns = [inner(value.iloc[:, k].array) for k in range(value.shape[1])]
        return {
            KIND: "frame",
            "values": columns,
            "index": inner(value.index),
            "columns": inner(value.columns),
        }
    if isinstance(value, pd.api.extensions.ExtensionArray):
        return (
            inner(pd.Index(value))
            if not isinstance(value, pd.arrays.NumpyExtensionArray)
            else inner(value.to_numpy())
        )
    if isinstance(value, sparse.csr_array):
        parts = [put(part) for part in (value.data, value.indices, value.indptr)]
        return {KIND: "csr", "parts": parts, "shape": list(value.shape)}
    if isinstance(value, type) and issubclass(value, Warning):
        return {KIND: "warning", "module": value.__module__, "name": value.__qualname__}
    named = f"{type(value).__module__}:{type(value).__name__}"
    if not isinstance(value, BaseEstimator) and _OURS.fullmatch(named) and (names := _names(type(value))):
        return {KIND: named, "fields": {name: inner(getattr(value, name)) for name in names}}
    if isinstance(value, BaseEstimator) and _OURS.fullmatch(named):
        kept = value._held() if hasattr(value, "_held") else vars(value)
        held = {name: encoded(item, arrays, f"{where}.{name}") for name, item in kept.items()}
        return {KIND: "estimator", "class": named, "attributes": held}
    if type(value).__name__ in KNOWN and type(value).__module__.startswith("sklearn."):
        held = {name: encoded(item, arrays, f"{where}.{name}") for name, item in state_of(value).items()}
        return {KIND: "sklearn", "class": type(value).__name__, "attributes": held}
    raise InputError(
        f"{where} is a {type(value).__name__}, which cannot be stored without pickle. Use pickle or joblib for this model, "
        "and open such files only where you trust their source. Stored without pickle are this package's estimators and "
        f"scikit-learn's {', '.join(sorted(KNOWN))}."
    )


def _names(kind: type) -> tuple[str, ...]:
    """Return the attributes of an object of this package that are its constructor's arguments; none for other classes."""
    return tuple(f.name for f in fields(kind) if f.init) if is_dataclass(kind) else ()


def _encoded_index(index: pd.Index, inner: Any) -> dict[str, Any]:
    if isinstance(index, pd.MultiIndex):
        levels = [inner(index.get_level_values(k)) for k in range(index.nlevels)]
        return {KIND: "multiindex", "levels": levels, "names": inner(list(index.names))}
    if isinstance(index, pd.RangeIndex):
        return {KIND: "range", "bounds": [index.start, index.stop, index.step], "name": inner(index.name)}
    if isinstance(index.dtype, pd.CategoricalDtype):
        dtype = index.dtype
        shared = {"categories": inner(dtype.categories), "ordered": bool(dtype.ordered)}
        return {
            KIND: "categories",
            "codes": inner(np.asarray(pd.Categorical(index).codes)),
            **shared,
            "name": inner(index.name),
        }
    if isinstance(index, pd.PeriodIndex):
        return {
            KIND: "periods",
            "text": [str(p) for p in index],
            "freq": index.freqstr,
            "name": inner(index.name),
        }
    text = isinstance(index.dtype, pd.StringDtype)
    plain = isinstance(index, pd.DatetimeIndex) and index.tz is None
    values = index.to_numpy() if plain or index.dtype.kind in "biuf" else index.to_numpy(dtype=object)
    if values.dtype == object:
        values = np.array(
            [None if not isinstance(v, tuple) and pd.isna(v) else v for v in values] + [None], dtype=object
        )[:-1]
    return {KIND: "index", "values": inner(values), "text": text, "name": inner(index.name)}


def _decoded(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    def inner(item: Any) -> Any:
        return _decoded(item, arrays)

    if isinstance(value, list):
        return [inner(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value[KIND]
    if kind in _DECODERS:
        return _DECODERS[kind](value, inner, arrays)
    found = _ours(kind)
    fields_ = {name.lstrip("_"): inner(item) for name, item in value["fields"].items()}
    if _names(found):
        return found(**fields_)
    raise InputError(f"path: the file names {kind!r}, which is no part of a saved model.")


def _ours(named: str) -> Any:
    """Return a class of this package by its name; nothing else can be named."""
    if not _OURS.fullmatch(named):
        raise InputError(f"path: the file names {named!r}, which is no part of a saved model.")
    module, name = named.split(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"path: the file names {named!r}, which this version of peerattn does not have."
        ) from error
    if (
        not isinstance(found, type)
        or found.__module__ != module
        or not (_names(found) or issubclass(found, BaseEstimator))
    ):
        raise InputError(f"path: the file names {named!r}, which is no part of a saved model.")
    return found


def _estimator(value: dict[str, Any], inner: Any, arrays: Any) -> Any:
    cls = _ours(value["class"])
    if not issubclass(cls, BaseEstimator):
        raise InputError(f"path: the file names {value['class']!r}, which is no estimator.")
    estimator = cls.__new__(cls)
    for name, item in value["attributes"].items():
        if name.startswith("__") or (hasattr(cls, name) and name not in cls._get_param_names()):
            raise InputError(
                f"path: the file names the attribute {name!r}, which {cls.__name__} does not store."
            )
        vars(estimator)[name] = inner(item)
    getattr(estimator, "_restore", lambda: None)()
    return estimator


def _sklearn(value: dict[str, Any], inner: Any, arrays: Any) -> Any:
    return from_state(value["class"], {name: inner(item) for name, item in value["attributes"].items()})


def _warning(value: dict[str, Any], inner: Any, arrays: Any) -> type[Warning]:
    """Return a class of warnings that is loaded already; nothing is imported for it."""
    found = getattr(sys.modules.get(value["module"]), value["name"], None)
    if isinstance(found, type) and issubclass(found, Warning):
        return found
    return PeerAttnWarning if value["module"].startswith("peerattn.") else UserWarning


def _objects(value: dict[str, Any], inner: Any, arrays: Any) -> np.ndarray:
    found = np.empty(len(value["items"]), dtype=object)
    found[:] = [inner(item) for item in value["items"]]
    return found.reshape(value["shape"])


def _index(value: dict[str, Any], inner: Any, arrays: Any) -> pd.Index:
    values, name = inner(value["values"]), inner(value["name"])
    if value["text"]:
        return pd.Index(values, dtype="str", name=name)
    return pd.Index(values, name=name, tupleize_cols=False)


def _csr(value: dict[str, Any], inner: Any, arrays: Any) -> sparse.csr_array:
    found = sparse.csr_array(tuple(arrays[part] for part in value["parts"]), shape=tuple(value["shape"]))
    found.check_format(full_check=True)  # products do not look whether positions lie inside
    return found


def _values(value: Any) -> Any:
    return value.array if isinstance(value, pd.Index) else value


_DECODERS: dict[str, Any] = {
    "tuple": lambda v, inner, a: tuple(inner(item) for item in v["items"]),
    "dict": lambda v, inner, a: {inner(key): inner(item) for key, item in v["items"]},
    "array": lambda v, inner, a: a[v["name"]],
    "objects": _objects,
    "timestamp": lambda v, inner, a: pd.Timestamp(v["text"]).as_unit(v["unit"]),
    "period": lambda v, inner, a: pd.Period(v["text"], freq=v["freq"]),
    "index": _index,
    "range": lambda v, inner, a: pd.RangeIndex(range(*v["bounds"]), name=inner(v["name"])),
    "periods": lambda v, inner, a: pd.PeriodIndex(v["text"], freq=v["freq"], name=inner(v["name"])),
    "categories": lambda v, inner, a: pd.CategoricalIndex(
        pd.Categorical.from_codes(inner(v["codes"]), inner(v["categories"]), ordered=v["ordered"]),
        name=inner(v["name"]),
    ),
    "multiindex": lambda v, inner, a: pd.MultiIndex.from_arrays(
        [inner(level) for level in v["levels"]], names=inner(v["names"])
    ),
    "series": lambda v, inner, a: pd.Series(
        _values(inner(v["values"])), index=inner(v["index"]), name=inner(v["name"])
    ),
    "frame": lambda v, inner, a: pd.DataFrame(
        dict(enumerate(_values(inner(column)) for column in v["values"])), index=inner(v["index"])
    ).set_axis(inner(v["columns"]), axis=1),
    "csr": _csr,
    "estimator": _estimator,
    "sklearn": _sklearn,
    "warning": _warning,
}
