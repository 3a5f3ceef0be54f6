"""Frames of every kind in, pandas frames out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.exceptions import InputError

_READERS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".feather": "Arrow",
    ".arrow": "Arrow",
    ".ipc": "Arrow",
}


def as_pandas(frame: Any) -> Any:
    """Return polars frames and pyarrow tables as pandas; leave everything else as it came.

    >>> import pyarrow as pa
    >>> as_pandas(pa.table({"size": [1.0]})).columns.tolist()
    ['size']
    """
    if type(frame).__module__.split(".")[0] in {"polars", "pyarrow"}:
        if hasattr(frame, "collect"):
            raise InputError("expected a frame, got a polars LazyFrame: call .collect() on it first.")
        return frame.to_pandas()
    return frame


def read_frame(source: Any) -> pd.DataFrame:
    """Read a Parquet, CSV or Arrow file, or pass a pandas, polars or pyarrow frame through.

    Raises
    ------
    InputError
        When the file is missing, of an unknown kind, or damaged; or ``source`` is not a frame.
    """
    if isinstance(source, str | Path):
        return _read_file(Path(source))
    frame = as_pandas(source)
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"expected a path or a frame (pandas, polars, pyarrow), got {type(source).__name__}."
        )
    return frame


def _read_file(path: Path) -> pd.DataFrame:
    kind = _READERS.get(path.suffix.lower())
    if kind is None:
        raise InputError(
            f"{path}: unknown kind of file {path.suffix!r}; known are {', '.join(sorted(_READERS))}."
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    try:
        if kind == "Parquet":
            return pd.read_parquet(path)
        if kind == "CSV":
            return _plain_csv(pd.read_csv(path, na_values=["."]), path)  # "." is missing in SAS and Stata
        return pd.read_feather(path)
    except InputError:
        raise
    except (
        Exception
    ) as error:  # pyarrow and pandas raise a dozen classes for one cause: the file is not whole
        reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
        raise InputError(f"{path}: not a readable {kind} file ({reason}). Is it complete?") from error


def _plain_csv(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Leave out the row numbers that pandas writes, and refuse a file of another separator."""
    if frame.shape[1] == 1 and ";" in str(frame.columns[0]):
        raise InputError(
            f"{path}: has one column only, {str(frame.columns[0])[:60]!r}: separate columns by commas."
        )
    first = frame.columns[0] if frame.shape[1] else ""
    if first == "Unnamed: 0" and frame[first].tolist() == list(range(len(frame))):
        return frame.drop(columns=first)
    return frame
