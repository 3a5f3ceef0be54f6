"""Factor returns from a file, for the alphas of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peerattn.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd

    from peerattn.panel import Panel


def read_factors(path: str | None, panel: Panel) -> pd.DataFrame | None:
    """Return factor returns by period: a CSV or Parquet file whose first column is the period, the others in decimals.

    Raises
    ------
    InputError
        When the file cannot be read, its labels are not those of the panel's periods, or its figures are per cent.
    """
    if path is None:
        return None
    import pandas as pd

    try:
        frame = pd.read_parquet(path).reset_index() if str(path).endswith(".parquet") else pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(f"--factors: cannot read {str(path)!r}: {error}.") from error
    frame = frame.drop(columns=[name for name in frame.columns if name == "index"])
    table = frame.iloc[:, 1:].set_axis(_labels(frame.iloc[:, 0], panel.period, path), axis=0)
    numbers = table.select_dtypes("number").astype(float)
    if not numbers.shape[1]:
        raise InputError(f"--factors: {str(path)!r} holds no column of numbers beside the period.")
    if float(numbers.abs().median().max()) > 0.2:
        raise InputError(
            "--factors: returns in decimals are expected (0.01 = 1 %); these look like per cent. Divide by 100."
        )
    return numbers


def _labels(column: pd.Series, periods: pd.Index, path: Any) -> pd.Index:
    """Return the file's periods in the type of the panel's: months match whatever day of theirs is written."""
    import pandas as pd

    try:
        if isinstance(periods, pd.DatetimeIndex):
            given = pd.DatetimeIndex(pd.to_datetime(column.astype(str)))
            by_month = dict(zip(periods.to_period("M"), periods))
            return pd.DatetimeIndex([by_month.get(m, d) for m, d in zip(given.to_period("M"), given)])
        if isinstance(periods, pd.PeriodIndex):
            return pd.PeriodIndex(column.astype(str), freq=periods.freq)
        return pd.Index(column.astype(periods.dtype))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"--factors: the first column of {str(path)!r} ({column.iloc[0]!r}, ...) is not read as a period such as "
            f"{periods[0]!r}: {error}."
        ) from error
