"""Factor returns from a file, for the alphas of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerattn.exceptions import InputError

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
    import pandas as pd

    try:
        frame = pd.read_parquet(path).reset_index() if str(path).endswith(".parquet") else pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(f"--factors: cannot read {str(path)!r}: {error}.") from error
    frame = frame.drop(columns=[name for name in frame.columns if name == "index"])
    table = frame.set_index(frame.columns[0])
    table.attrs["path"] = repr(str(path))
    return table
