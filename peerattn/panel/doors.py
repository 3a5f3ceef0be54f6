"""Doors for frames of other tools: lazy frames, database relations, Arrow's C stream; files of Stata, SAS and SPSS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.exceptions import extra

#: Files that pyreadstat reads, by its function.
STATISTICAL = {
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
    ".sav": "read_sav",
}


def from_other_tools(frame: Any) -> Any:
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
    >>> from_other_tools(lazy)["size"].tolist()
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


def read_statistical(path: Path) -> pd.DataFrame:
    """Read a file of Stata, SAS or SPSS: codes stay codes, dates are dates, missing values of every letter are NaN.

    Raises
    ------
    MissingExtraError
        Where pyreadstat, of the extra ``stata``, is not installed.
    """
    pyreadstat = extra("pyreadstat", "stata", f"{path.name}, a file of Stata, SAS or SPSS,")
    frame: pd.DataFrame = getattr(pyreadstat, STATISTICAL[path.suffix.lower()])(path)[0]
    return frame
