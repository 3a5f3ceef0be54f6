"""What the panels that are embedded in the package share: their files, and how these are read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel import Panel, read_panel


def stored_frame(name: str) -> pd.DataFrame:
    """Return the table of this name, which lies beside this file."""
    return pd.read_parquet(Path(__file__).with_name(f"{name}.parquet"))


def embedded_panel(name: str, outcome: str) -> Panel:
    """Return an embedded panel with the code ``sector``, an industry, and one of its outcomes, as in the data file beside.

    ``known`` there names outcomes of the row's own period, which are characteristics where another one is predicted.
    """
    facts = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))[name]
    if outcome not in facts["outcomes"]:
        known = ", ".join(map(repr, facts["outcomes"]))
        raise InputError(f"outcome must be one of {known}, got {outcome!r}.")
    characteristics = [*facts["characteristics"], *(known for known in facts["known"] if known != outcome)]
    frame = stored_frame(name)[["firm", "period", "sector", facts["industry"], *characteristics, outcome]]
    # stored as float32, which saves half of the file; figures are computed in float64
    frame = frame.astype(dict.fromkeys([*characteristics, outcome], float))
    informed = {part: facts[part] for part in ("industry", "description")}
    panel = read_panel(frame, outcome=outcome, characteristics=characteristics, codes=["sector"], **informed)
    return replace(panel, caution=facts["caution"].get(outcome, ""))


def value_after(values: pd.Series, firm: pd.Series, number: pd.Series, steps: int = 1) -> np.ndarray:
    """Return each row's value of the same firm some periods later (earlier for negative ``steps``); NaN without that row."""
    # by label: a firm may miss the year between
    table = pd.Series(values.to_numpy(dtype=float), index=pd.MultiIndex.from_arrays([firm, number]))
    return table.reindex(pd.MultiIndex.from_arrays([firm, number + steps])).to_numpy()
