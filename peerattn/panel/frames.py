"""Frames of every kind in, pandas frames out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.exceptions import InputError, MissingExtraError
from peerattn.panel.doors import STATISTICAL, from_other_tools, read_statistical

_READERS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".feather": "Arrow",
    ".arrow": "Arrow",
    ".ipc": "Arrow",
}


def as_pandas(frame: Any) -> Any:
    """Return frames of other tools as pandas; leave everything else as it came.

    >>> import pyarrow as pa
    >>> as_pandas(pa.table({"size": [1.0]})).columns.tolist()
    ['size']
    """
    return from_other_tools(frame)


def read_frame(source: Any) -> pd.DataFrame:
    """Read a Parquet, CSV, Arrow, Stata, SAS or SPSS file, or pass a frame of another tool through.

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
            f"expected a path or a frame (pandas, polars, pyarrow, DuckDB), got {type(source).__name__}."
        )
    return frame


def _read_file(path: Path) -> pd.DataFrame:
    kind = _READERS.get(path.suffix.lower()) or (
        "statistical" if path.suffix.lower() in STATISTICAL else None
    )
    if kind is None:
        raise InputError(
            f"{path}: unknown kind of file {path.suffix!r}; known are {', '.join(sorted([*_READERS, *STATISTICAL]))}."
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    try:
        if kind == "statistical":
            return read_statistical(path)
        if kind == "Parquet":
            return pd.read_parquet(path)
        if kind == "CSV":
            return _plain_csv(pd.read_csv(path, na_values=["."]), path)  # "." is missing in SAS and Stata
        return pd.read_feather(path)
    except (InputError, MissingExtraError):
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
