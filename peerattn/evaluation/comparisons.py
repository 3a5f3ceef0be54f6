"""Several outcomes: one comparison for each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from peerattn.evaluation.claims import Claims
from peerattn.evaluation.compared import Compared
from peerattn.evaluation.comparison import Comparison
from peerattn.evaluation.report.page import outcomes_table, outcomes_to_html
from peerattn.exceptions import InputError, unknown_name
from peerattn.panel.frames import read_frame
from peerattn.render import Table


@dataclass(frozen=True, repr=False, eq=False)
class Comparisons(Mapping[str, Comparison]):
    """Comparisons of the same models on several outcomes, by the name of the outcome; prints one block each."""

    blocks: dict[str, Comparison]

    def __getitem__(self, outcome: str) -> Comparison:
        if outcome not in self.blocks:
            raise unknown_name("outcome", "outcome", outcome, self.blocks)
        return self.blocks[outcome]

    def __contains__(self, outcome: object) -> bool:
        return outcome in self.blocks

    def __iter__(self) -> Iterator[str]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def to_frame(self) -> pd.DataFrame:
        """Return the scores of all outcomes, one row for each (outcome, model)."""
        return pd.concat({name: block.scores for name, block in self.blocks.items()}, names=["outcome"])

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the reports of all outcomes as one self-contained page that opens offline.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        return outcomes_to_html(self._with_claims(), path)

    def as_table(self) -> Table:
        """Return one line an outcome: horizon, R² without and with peers and their standard errors, the gain and its test."""
        return outcomes_table(self._with_claims())

    def _with_claims(self) -> dict[str, tuple[Compared, Claims]]:
        return {name: (block, block.claims) for name, block in self.blocks.items()}

    def __repr__(self) -> str:
        return f"Comparisons({len(self.blocks)} outcomes: {', '.join(self.blocks)})"

    def __str__(self) -> str:
        return "\n\n".join([self.as_table().text(), *map(str, self.blocks.values())])

    def _repr_html_(self) -> str:
        return "\n".join(block._repr_html_() for block in self.blocks.values())


def frames_by_outcome(X: Any, y: Any, outcomes: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the frame of each outcome, without the other outcomes."""
    if not outcomes or len(set(outcomes)) < len(outcomes):
        raise InputError(f"outcome: expected one or more different column names, got {outcomes!r}.")
    if y is not None:
        raise InputError("y: outcome= names columns of X; pass one of the two, not both.")
    frame = read_frame(X)
    for name in outcomes:
        if name not in frame.columns:
            raise unknown_name("outcome", "column", name, frame.columns)
    return {name: frame.drop(columns=[other for other in outcomes if other != name]) for name in outcomes}
