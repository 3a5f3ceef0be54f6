"""Factor returns from a file, for the alphas of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def read_factors(path: str | None) -> pd.DataFrame | None:
    """Return factor returns by period: a CSV or Parquet file whose first column is the period, the others in decimals.

    Raises
    ------
    InputError
        When the file cannot be read.
    """
    if path is None:
        return None
    from peerattn.panel.frames import read_frame

    frame = read_frame(path)
    frame = frame if frame.index.names == [None] else frame.reset_index()
    table = frame.set_index(frame.columns[0])
    table.attrs["path"] = repr(str(path))
    return table
