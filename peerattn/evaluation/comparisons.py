"""The results of ``compare`` on several outcomes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from peerattn.evaluation.comparison import Comparison
from peerattn.evaluation.report import page
from peerattn.evaluation.report.table import PathLike
from peerattn.exceptions import check_names
from peerattn.render import Table


@dataclass(frozen=True, repr=False, eq=False)
class Comparisons(Mapping[str, Comparison]):
    """Comparisons of the same models on several outcomes, by the name of the outcome; prints one block each."""

    blocks: dict[str, Comparison]

    def __getitem__(self, outcome: str) -> Comparison:
        check_names("outcome", "outcome", [outcome], self.blocks)
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

    def to_html(self, path: PathLike) -> Path:
        """Write the reports of all outcomes as one self-contained page that opens offline.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        return page.outcomes_to_html(self, path)

    def as_table(self) -> Table:
        """Return one line an outcome: horizon, R² without and with peers and their standard errors, the gain and its test."""
        return page.outcomes_table(self)

    def __repr__(self) -> str:
        return f"Comparisons({len(self.blocks)} outcomes: {', '.join(self.blocks)})"

    def __str__(self) -> str:
        return "\n\n".join([self.as_table().text(), *map(str, self.blocks.values())])

    def _repr_html_(self) -> str:
        return "\n".join(block._repr_html_() for block in self.blocks.values())
