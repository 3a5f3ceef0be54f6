"""Fitted panel models as one safetensors file: arrays, and a JSON tree of the rest. Loading never runs code of the file."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, PeerAttnWarning, checked
from peerattn.store.sealed import read_state, write_state, written_by_us
from peerattn.store.sklearn_models import KNOWN, from_state, state_of

KIND = "~"  # key under which the tree says what a mapping represents
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
    """Return the estimator that :func:`save_estimator` wrote, and the description saved with it."""
    arrays, spec = read_state(path, "model")
    estimator = decoded(spec.get("model"), arrays)
    if not isinstance(estimator, cls):
        name = type(estimator).__name__
        raise InputError(f"path: expected a saved {cls.__name__}, got a saved {name}. Use peerattn.load.")
    return estimator, spec.get("about")


class Saved:
    """A fitted estimator that goes into a file and comes back."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, atomically: safetensors and JSON, no pickle.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        InputError
            When it holds an estimator that cannot be stored without pickle (``own=RandomForestRegressor()``, say), or the file
            cannot be written.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that :meth:`save` wrote; no code of the file is run.

        Raises
        ------
        InputError
            When the file is of another origin or class, damaged, or written by a newer version.

        Examples
        --------
        >>> import tempfile
        >>> from peerattn import NadarayaWatsonRegressor
        >>> model = NadarayaWatsonRegressor(bandwidth=1.0).fit([[1.0], [2.0]], [1.0, 2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/kernel.model")
        ...     again = NadarayaWatsonRegressor.load(f"{folder}/kernel.model")
        >>> bool((again.predict([[1.2]]) == model.predict([[1.2]])).all())
        True
        """
        found: Self = load_estimator(path, cls)[0]
        return found


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
    """Return what :func:`encoded` was given. Only listed classes are ever made.

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

    def tagged(kind: str, **parts: Any) -> dict[str, Any]:
        return {KIND: kind} | {name: encoded(part, arrays, where) for name, part in parts.items()}

    def held(named: Mapping[str, Any]) -> dict[str, Any]:
        return {name: encoded(item, arrays, f"{where}.{name}") for name, item in named.items()}

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        plain = value.item() if value.dtype.kind in "biufU" else pd.Series([value]).iloc[0]
        return encoded(plain, arrays, where)
    if isinstance(value, list):
        return [encoded(item, arrays, where) for item in value]
    if isinstance(value, tuple):
        return tagged("tuple", items=list(value))
    if isinstance(value, Mapping):
        return tagged("dict", items=[list(pair) for pair in value.items()])
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return tagged("objects", items=list(value.ravel()), shape=list(value.shape))
        return {KIND: "array", "name": put(value)}
    if isinstance(value, pd.Timestamp):
        return tagged("timestamp", text=value.isoformat(), unit=value.unit)
    if isinstance(value, pd.Period):
        return tagged("period", text=str(value), freq=value.freqstr)
    if isinstance(value, pd.Index):
        kind, parts = _parts_of_index(value)
        return tagged(kind, **parts)
    if isinstance(value, pd.Series):
        return tagged("series", values=value.array, index=value.index, name=value.name)
    if isinstance(value, pd.DataFrame):
        columns = [value.iloc[:, k].array for k in range(value.shape[1])]
        return tagged("frame", values=columns, index=value.index, columns=value.columns)
    if isinstance(value, pd.api.extensions.ExtensionArray):
        numbers = isinstance(value, pd.arrays.NumpyExtensionArray)
        return encoded(value.to_numpy() if numbers else pd.Index(value), arrays, where)
    if isinstance(value, sparse.csr_array):
        names = [put(part) for part in (value.data, value.indices, value.indptr)]
        return tagged("csr", parts=names, shape=list(value.shape))
    if isinstance(value, type) and issubclass(value, Warning):
        return tagged("warning", module=value.__module__, name=value.__qualname__)
    named = f"{type(value).__module__}:{type(value).__name__}"
    if isinstance(value, BaseEstimator) and _OURS.fullmatch(named):
        kept = value._held() if hasattr(value, "_held") else vars(value)
        return {KIND: "estimator", "class": named, "attributes": held(kept)}
    if _OURS.fullmatch(named) and (kept_fields := _names(type(value))):
        return {
            KIND: named,
            "fields": {name: encoded(getattr(value, name), arrays, where) for name in kept_fields},
        }
    if type(value).__name__ in KNOWN and type(value).__module__.startswith("sklearn."):
        return {KIND: "sklearn", "class": type(value).__name__, "attributes": held(state_of(value))}
    raise InputError(
        f"{where} is a {type(value).__name__}, which cannot be stored without pickle. Use pickle or joblib for this model, "
        "and open such files only where you trust their source. Stored without pickle are this package's estimators and "
        f"scikit-learn's {', '.join(sorted(KNOWN))}."
    )


def _names(kind: type) -> tuple[str, ...]:
    """Return the attributes of an object of this package that are its constructor's arguments; none for other classes."""
    return tuple(f.name for f in fields(kind) if f.init) if is_dataclass(kind) else ()


def _parts_of_index(index: pd.Index) -> tuple[str, dict[str, Any]]:
    """Return the kind of an index, and of what `_DECODERS` makes it again."""
    if isinstance(index, pd.MultiIndex):
        levels = [index.get_level_values(k) for k in range(index.nlevels)]
        return "multiindex", {"levels": levels, "names": list(index.names)}
    name = {"name": index.name}
    if isinstance(index, pd.RangeIndex):
        return "range", {"bounds": [index.start, index.stop, index.step]} | name
    if isinstance(index, pd.CategoricalIndex):
        parts = {
            "codes": np.asarray(index.codes),
            "categories": index.categories,
            "ordered": bool(index.ordered),
        }
        return "categories", parts | name
    if isinstance(index, pd.PeriodIndex):
        return "periods", {"text": [str(p) for p in index], "freq": index.freqstr} | name
    text = isinstance(index.dtype, pd.StringDtype)
    plain = isinstance(index, pd.DatetimeIndex) and index.tz is None
    values = index.to_numpy() if plain or index.dtype.kind in "biuf" else index.to_numpy(dtype=object)
    if values.dtype == object:
        values = np.array(
            [None if not isinstance(v, tuple) and pd.isna(v) else v for v in values] + [None], dtype=object
        )[:-1]
    return "index", {"values": values, "text": text} | name


def _decoded(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value[KIND]
    if kind == "array":
        return arrays[value["name"]]
    if kind == "csr":
        return _csr([arrays[part] for part in value["parts"]], value["shape"])
    if kind in _DECODERS:
        return _DECODERS[kind](
            **{name: _decoded(part, arrays) for name, part in value.items() if name != KIND}
        )
    held = value["fields" if "fields" in value else "attributes"]
    held = {name: _decoded(item, arrays) for name, item in held.items()}
    if kind == "estimator":
        return _estimator(value["class"], held)
    if kind == "sklearn":
        return from_state(value["class"], held)
    found = _ours(kind)
    if not _names(found):
        raise InputError(f"path: the file names {kind!r}, which is no part of a saved model.")
    return found(**{name.lstrip("_"): item for name, item in held.items()})


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


def _estimator(named: str, attributes: dict[str, Any]) -> Any:
    cls = _ours(named)
    if not issubclass(cls, BaseEstimator):
        raise InputError(f"path: the file names {named!r}, which is no estimator.")
    estimator = cls.__new__(cls)
    for name, item in attributes.items():
        if name.startswith("__") or (hasattr(cls, name) and name not in cls._get_param_names()):
            raise InputError(
                f"path: the file names the attribute {name!r}, which {cls.__name__} does not store."
            )
        vars(estimator)[name] = item
    getattr(estimator, "_restore", lambda: None)()
    return estimator


def _warning(module: str, name: str) -> type[Warning]:
    """Return a class of warnings by its name, where its module is loaded: nothing is imported for a file."""
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, type) and issubclass(found, Warning):
        return found
    return PeerAttnWarning if module.startswith("peerattn.") else UserWarning


def _objects(items: list[Any], shape: list[int]) -> np.ndarray:
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found.reshape(shape)


def _index(values: Any, text: bool, name: Any) -> pd.Index:
    return (
        pd.Index(values, dtype="str", name=name) if text else pd.Index(values, name=name, tupleize_cols=False)
    )


def _csr(parts: list[np.ndarray], shape: list[int]) -> sparse.csr_array:
    found = sparse.csr_array(tuple(parts), shape=tuple(shape))
    found.check_format(full_check=True)  # products do not look whether positions lie inside
    return found


def _categories(codes: np.ndarray, categories: pd.Index, ordered: bool, name: Any) -> pd.CategoricalIndex:
    return pd.CategoricalIndex(pd.Categorical.from_codes(codes, categories, ordered=ordered), name=name)


def _frame(values: list[Any], index: pd.Index, columns: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(dict(enumerate(map(_values, values))), index=index).set_axis(columns, axis=1)


def _values(value: Any) -> Any:
    return value.array if isinstance(value, pd.Index) else value


_DECODERS: dict[str, Callable[..., Any]] = {
    "tuple": lambda items: tuple(items),
    "dict": lambda items: dict(items),
    "objects": _objects,
    "timestamp": lambda text, unit: pd.Timestamp(text).as_unit(unit),
    "period": lambda text, freq: pd.Period(text, freq=freq),
    "index": _index,
    "range": lambda bounds, name: pd.RangeIndex(range(*bounds), name=name),
    "periods": lambda text, freq, name: pd.PeriodIndex(text, freq=freq, name=name),
    "categories": _categories,
    "multiindex": lambda levels, names: pd.MultiIndex.from_arrays(levels, names=names),
    "series": lambda values, index, name: pd.Series(_values(values), index=index, name=name),
    "frame": _frame,
    "warning": _warning,
}
