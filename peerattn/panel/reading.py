"""From a file or frame to characteristics X and outcome y of a panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.exceptions import InputError, did_you_mean
from peerattn.panel.codes import canonical_codes
from peerattn.panel.columns import ColumnChoice, choose_columns
from peerattn.panel.frames import read_frame
from peerattn.panel.labels import panel_labels


@dataclass(frozen=True)
class PanelFrame:
    """A panel ready for ``fit``: X and y indexed by (firm, period), and what was taken from the source.

    Attributes
    ----------
    X : pandas.DataFrame
        Characteristics (float64), then codes (strings, NA where unknown), indexed by (firm, period): the levels carry these
        names whatever the source calls them, so that every estimator finds them.
    y : pandas.Series
        Outcome on the same index; NaN where unknown.
    choice : ColumnChoice
        Characteristics, codes, and the columns left out with the reason.
    industry : str or None
        The code column that baselines average over.
    description : str
    """

    X: pd.DataFrame
    y: pd.Series
    choice: ColumnChoice
    industry: str | None = None
    description: str = ""

    @property
    def outcome(self) -> str:
        """Name of the outcome."""
        return str(self.y.name)

    @property
    def firm(self) -> str:
        """Name of the firm level."""
        return str(self.X.index.names[0])

    @property
    def period(self) -> str:
        """Name of the period level."""
        return str(self.X.index.names[1])

    @property
    def characteristics(self) -> tuple[str, ...]:
        """Names of the characteristics."""
        return self.choice.characteristics

    @property
    def codes(self) -> tuple[str, ...]:
        """Names of the code columns."""
        return self.choice.codes

    @property
    def left(self) -> dict[str, str]:
        """Columns left out, with the reason."""
        return self.choice.left

    def __repr__(self) -> str:
        firms, periods = (self.X.index.get_level_values(k) for k in (0, 1))
        return (
            f"PanelFrame({len(self.X):,} rows, {firms.nunique():,} firms, {periods.nunique()} periods, "
            f"outcome={self.outcome!r})"
        )

    def __str__(self) -> str:
        known = int(self.y.notna().sum())
        return (
            f"{self!r}\noutcome: {self.outcome} (known in {known:,} of {len(self.y):,} rows)\n{self.choice}"
        )


def read_panel(
    source: Any,
    *,
    outcome: str,
    firm: str = "firm",
    period: str = "period",
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    industry: str | None = None,
    description: str = "",
) -> PanelFrame:
    """Read a panel and choose its columns.

    Parameters
    ----------
    source : path or frame
        A Parquet, CSV or Arrow file; a pandas or polars frame or a pyarrow table. One row per (firm, period).
    outcome : str
        Column of the outcome; NaN means unknown.
    firm, period : str
        Columns or index levels with the labels.
    characteristics : sequence of str, optional
        By default every numeric column except firm, period, outcome, codes and whatever looks like another outcome or
        an undeclared code. ``print`` the result to see what was taken and what was left.
    codes : sequence of str
        Columns that are codes (sector, country, ...), whatever their dtype.
    industry : str, optional
        A code column that names each firm's industry; counted among the codes.
    description : str

    Raises
    ------
    InputError
        For a missing column (near matches are shown), a damaged file, an empty frame, or labels that cannot be used.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"firm": ["A", "B"], "year": 2001, "size": [1.0, 2.0], "sic": [100, 3711], "roa_next": [0.1, 0.2]})
    >>> print(read_panel(frame, outcome="roa_next", period="year", industry="sic"))
    PanelFrame(2 rows, 2 firms, 1 periods, outcome='roa_next')
    outcome: roa_next (known in 2 of 2 rows)
    characteristics (1): size
    codes (1): sic
    """
    frame = read_frame(source).rename(columns=str)
    if not isinstance(source, str | Path) and not len(frame):
        raise InputError("the frame has no rows.")
    if not len(frame):
        raise InputError(f"{source}: the file holds no rows.")
    names = [*map(str, frame.columns), *(str(n) for n in frame.index.names if n is not None)]
    for argument, name in (("firm", firm), ("period", period), ("outcome", outcome), ("industry", industry)):
        if name is not None and name not in names:
            raise InputError(
                f"{argument}: there is no column {name!r}.{did_you_mean(name, names)} Columns: {', '.join(names)}."
            )
    labels = panel_labels(frame, firm, period)
    assert labels is not None
    declared = (
        codes if isinstance(codes, str) else tuple(dict.fromkeys([*codes, *([industry] if industry else [])]))
    )
    choice = choose_columns(
        frame, labels=(firm, period), outcome=outcome, characteristics=characteristics, codes=declared
    )
    index = pd.MultiIndex.from_arrays([labels.firm, labels.period], names=["firm", "period"])
    columns: dict[str, Any] = {
        name: frame[name].to_numpy(dtype=float, na_value=float("nan")) for name in choice.characteristics
    }
    columns |= {name: canonical_codes(frame[name]).array for name in choice.codes}
    if not pd.api.types.is_numeric_dtype(frame[outcome].dtype):
        raise InputError(f"outcome: column {outcome!r} holds {frame[outcome].dtype}, not numbers.")
    y = pd.Series(frame[outcome].to_numpy(dtype=float, na_value=float("nan")), index=index, name=outcome)
    return PanelFrame(pd.DataFrame(columns, index=index), y, choice, industry, description)
