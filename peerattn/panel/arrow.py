"""Arrow tables as pandas frames, whole numbers with all their digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from peerattn.panel.codes import LARGEST_WHOLE

if TYPE_CHECKING:
    import pyarrow as pa


#: Pandas' integers that hold both all digits and gaps; smaller ones fit into floats.
_NULLABLE = {"int64": "Int64", "uint64": "UInt64"}


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a frame; whole numbers above 2^53 beside missing ones stay whole numbers."""
    return with_whole_numbers(table.to_pandas(), table)


def with_whole_numbers(frame: pd.DataFrame, table: pa.Table) -> pd.DataFrame:
    """Return the frame made of a table with the whole numbers above 2^53 that became floats beside missing ones.

    Codes and firms that differ in their last digits alone would be one.
    """
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        column = table.column(at)
        kind = _NULLABLE.get(str(field.type))
        if kind is None or not column.null_count or field.name not in frame.columns:
            continue
        # within the floats' exact range pandas' conversion has lost nothing
        if max(abs(end or 0) for end in pc.min_max(column).as_py().values()) >= LARGEST_WHOLE:
            frame[field.name] = pd.array(column.to_pylist(), dtype=kind)
    return frame


def as_pandas(frame: object) -> Any:
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
    # told by module, so that none of these libraries is imported
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
    if not hasattr(frame, "to_pandas"):
        return frame
    made = frame.to_pandas()
    table = frame
    if hasattr(frame, "to_arrow"):
        table = frame.to_arrow()
    if hasattr(table, "schema"):
        return with_whole_numbers(made, table)
    return made


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose labels are columns, too."""
    if frame.index.names == [None]:
        return frame
    return frame.reset_index()
