"""What the panels that are embedded in the package share: their files, and how these are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel import Panel, read_panel


def stored_frame(name: str) -> pd.DataFrame:
    """Return the table of this name, which lies beside this file."""
    return pd.read_parquet(Path(__file__).with_name(f"{name}.parquet"))


def embedded_panel(
    name: str,
    outcome: str,
    outcomes: Sequence[str],
    characteristics: Sequence[str],
    industry: str,
    description: str,
) -> Panel:
    """Return an embedded panel with the code ``sector``, an industry, and one of its outcomes."""
    if outcome not in outcomes:
        raise InputError(f"outcome must be one of {', '.join(map(repr, outcomes))}, got {outcome!r}.")
    numbers = [*characteristics, outcome]
    frame = stored_frame(name)[["firm", "period", "sector", industry, *numbers]]
    return read_panel(
        frame.astype(dict.fromkeys(numbers, float)),
        outcome=outcome,
        characteristics=characteristics,
        codes=["sector"],
        industry=industry,
        description=description,
    )


def value_after(
    values: pd.Series, firm: pd.Series, number: pd.Series | pd.Index, steps: int = 1
) -> np.ndarray:
    """Return each row's value of the same firm some periods later (earlier for negative ``steps``); NaN without that row."""
    table = pd.Series(values.to_numpy(dtype=float), index=pd.MultiIndex.from_arrays([firm, number]))
    return table.reindex(pd.MultiIndex.from_arrays([firm, number + steps])).to_numpy()
