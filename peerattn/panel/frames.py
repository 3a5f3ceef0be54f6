"""Frames of every kind in, pandas frames out: files, lazy frames, database relations, Arrow's C stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.exceptions import InputError, MissingExtraError, extra


def as_pandas(frame: Any) -> Any:
    """Return a pandas frame of whatever offers a frame: collected if lazy, read from Arrow's C stream; else what came.

    Parameters
    ----------
    frame : object
        polars DataFrame, Series or LazyFrame, pyarrow Table, DuckDB relation, or any object with ``__arrow_c_stream__`` (of
        Ibis, nanoarrow, ADBC, cuDF ...). Columns travel as Arrow, without a copy by rows.

    Examples
    --------
    >>> import polars as pl
    >>> lazy = pl.LazyFrame({"size": [1.0, 2.0]}).filter(pl.col("size") > 1)
    >>> as_pandas(lazy)["size"].tolist()
    [2.0]
    """
    home = type(frame).__module__.split(".")[0].lstrip("_")
    if home in ("pandas", "numpy", "peerattn", "builtins"):
        return frame
    if hasattr(frame, "collect") and home == "polars":
        frame = frame.collect()
    if home in ("polars", "pyarrow") and hasattr(frame, "to_pandas"):
        return frame.to_pandas()
    if hasattr(frame, "__arrow_c_stream__"):
        import pyarrow

        return pyarrow.table(frame).to_pandas()
    if hasattr(frame, "to_arrow_table"):  # a DuckDB relation of a version without the stream
        return frame.to_arrow_table().to_pandas()
    return frame


def read_frame(source: Any) -> pd.DataFrame:
    """Read a Parquet, CSV, Arrow, Stata, SAS or SPSS file, or pass a frame of another tool through.

    Raises
    ------
    InputError
        When the file is missing, of an unknown kind, or damaged; or ``source`` is not a frame.
    MissingExtraError
        For a file of Stata, SAS or SPSS where pyreadstat, of the extra ``stata``, is not installed.
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
    if path.suffix.lower() not in _READERS:
        raise InputError(
            f"{path}: unknown kind of file {path.suffix!r}; known are {', '.join(sorted(_READERS))}."
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    kind, read = _READERS[path.suffix.lower()]
    try:
        return read(path)
    except (InputError, MissingExtraError):
        raise
    except (
        Exception
    ) as error:  # pyarrow and pandas raise a dozen classes for one cause: the file is not whole
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        raise InputError(f"{path}: not a readable {kind} file ({reason}). Is it complete?") from error


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file, without the numbers of rows that pandas writes; "." is missing in SAS and Stata."""
    frame = pd.read_csv(path, na_values=["."])
    first = str(frame.columns[0]) if frame.shape[1] else ""
    if frame.shape[1] == 1 and ";" in first:
        raise InputError(f"{path}: has one column only, {first[:60]!r}: separate columns by commas.")
    if first == "Unnamed: 0" and frame[first].tolist() == list(range(len(frame))):
        return frame.drop(columns=first)
    return frame


def _statistical(function: str) -> tuple[str, Callable[[Path], pd.DataFrame]]:
    """Return a reader of Stata, SAS or SPSS: codes stay codes, dates are dates, missing values of every letter are NaN."""

    def read(path: Path) -> pd.DataFrame:
        pyreadstat = extra("pyreadstat", "stata", f"{path.name}, a file of Stata, SAS or SPSS,")
        frame: pd.DataFrame = getattr(pyreadstat, function)(path)[0]
        return frame

    return "statistical", read


_READERS: dict[str, tuple[str, Callable[[Path], pd.DataFrame]]] = {
    **dict.fromkeys((".parquet", ".pq"), ("Parquet", pd.read_parquet)),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), ("Arrow", pd.read_feather)),
    ".csv": ("CSV", _read_csv),
    ".dta": _statistical("read_dta"),
    ".sas7bdat": _statistical("read_sas7bdat"),
    ".xpt": _statistical("read_xport"),
    ".sav": _statistical("read_sav"),
}
