"""Arrow tables as pandas frames, whole numbers with all their digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from peerattn.panel.codes import LARGEST_WHOLE

if TYPE_CHECKING:
    import pyarrow as pa


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a frame; whole numbers above 2^53 beside missing ones stay whole numbers."""
    return with_whole_numbers(table.to_pandas(), table)


def with_whole_numbers(frame: pd.DataFrame, table: pa.Table) -> pd.DataFrame:
    """Return the frame made of a table with the whole numbers above 2^53 that became floats beside missing ones.

    Codes and firms that differ in their last digits alone would be one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        column = table.column(at)
        if not pa.types.is_integer(field.type) or not column.null_count or field.type.bit_width < 64:
            continue
        # within the floats' exact range pandas' conversion has lost nothing
        ends = pc.min_max(column).as_py()
        if field.name in frame.columns and max(abs(ends["min"] or 0), abs(ends["max"] or 0)) >= LARGEST_WHOLE:
            # pandas' nullable integers hold both the digits and the gaps
            kind = "UInt64"
            if pa.types.is_signed_integer(field.type):
                kind = "Int64"
            frame[field.name] = pd.array(column.to_pylist(), dtype=kind)
    return frame
