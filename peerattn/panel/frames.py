"""Frames of every kind in, pandas frames out: files, lazy frames, database relations, Arrow's C stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.exceptions import InputError, extra


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
    if hasattr(frame, "to_arrow_table"):  # a DuckDB relation
        frame = frame.to_arrow_table()
    elif hasattr(frame, "__arrow_c_stream__") and home not in ("polars", "pyarrow"):
        import pyarrow

        frame = pyarrow.table(frame)
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame


@contextmanager
def readable(what: str, remedy: str = "", kinds: Any = Exception) -> Iterator[None]:
    """Turn what other libraries say about a file or a formula, in a dozen classes of errors, into bad input."""
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{what} ({reason}).{remedy}") from error


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
    wanted = f"expected a path or a frame (pandas, polars, pyarrow, DuckDB), got {type(source).__name__}."
    if not isinstance(frame, pd.DataFrame):
        raise InputError(wanted)
    return frame


def _read_file(path: Path) -> pd.DataFrame:
    kind, read = _READERS.get(path.suffix.lower(), ("", ""))
    known = ", ".join(sorted(_READERS))
    named = bool(path.suffix) or path.exists()
    if named and not kind:
        raise InputError(f"{path}: unknown kind of file {path.suffix!r}; known are {known}.")
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    tool: Any = pd
    if kind == "statistical":  # codes stay codes, dates are dates, missing values of every letter are NaN
        tool = extra("pyreadstat", "stata", f"{path.name}, a file of Stata, SAS or SPSS,")
    with readable(f"{path}: not a readable {kind} file", " Is it complete?"):
        found: Any = _read_csv(path) if kind == "CSV" else getattr(tool, read)(path)
    return pd.DataFrame(found if tool is pd else found[0])


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV file, without the numbers of rows that pandas writes; "." is missing in SAS and Stata."""
    frame = pd.read_csv(path, na_values=["."])
    first = str(frame.columns[0]) if frame.shape[1] else ""
    single = f"{path}: has one column only, {first[:60]!r}: separate columns by commas."
    if frame.shape[1] == 1 and ";" in first:
        raise InputError(single)
    if first == "Unnamed: 0" and frame[first].tolist() == list(range(len(frame))):
        return frame.drop(columns=first)
    return frame


#: Endings of files, what they are, and the function of pandas or pyreadstat that reads them.
_READERS = {
    **dict.fromkeys((".parquet", ".pq"), ("Parquet", "read_parquet")),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), ("Arrow", "read_feather")),
    ".csv": ("CSV", "read_csv"),
    ".dta": ("statistical", "read_dta"),
    ".sas7bdat": ("statistical", "read_sas7bdat"),
    ".xpt": ("statistical", "read_xport"),
    ".sav": ("statistical", "read_sav"),
}
