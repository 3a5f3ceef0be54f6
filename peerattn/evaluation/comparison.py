"""The results of ``compare``: of one outcome, or of several, and how they are shown and written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from peerattn.evaluation.claims import Judged
from peerattn.evaluation.gains import Gain, gain_by, gain_by_firm, gain_of
from peerattn.evaluation.inference.multiple_tests import ConfidenceSet, model_confidence_set
from peerattn.evaluation.measures.groups import scores_by
from peerattn.evaluation.measures.portfolios import portfolios_of
from peerattn.evaluation.report import page, words
from peerattn.evaluation.report import table as tables
from peerattn.exceptions import check_names, checked
from peerattn.render import Table


@checked
class Comparison(Judged):
    """Models compared out of sample on one common sample; made by :func:`peerattn.evaluation.compare`.

    Its attributes are those of :class:`~peerattn.evaluation.compared.Compared`: ``predictions``, ``scores``, ``networks``,
    ``failures``, ... It prints as a table with the finding under it.

    Attributes
    ----------
    claims : Claims
        What may be said: the decomposition of held-out R², whether peers help and why, how small a network could have been found.
    """

    # How it is shown and written: functions that take a comparison, bound as methods.
    summary = words.summary
    methods = words.methods_paragraph
    as_table = tables.as_table
    table = tables.table
    text = tables.text
    to_latex = tables.to_latex
    to_markdown = tables.to_markdown
    to_html = page.to_html
    to_excel = tables.to_excel
    to_parquet = tables.to_parquet
    edges = tables.edges_of
    portfolios = portfolios_of
    by = scores_by

    def test(self, model: str, against: str | None = None) -> Gain:
        """Return how much more a model explains than another (by default the baseline), with its interval and test."""
        return gain_of(self, model, self.baseline if against is None else against)

    def gain_by_firm(self, model: str | None = None, against: str | None = None) -> pd.DataFrame:
        """Return the squared error saved on each firm, by default by the best model with peers over the best without."""
        return gain_by_firm(self, *self._pair(model, against))

    def gain_by(
        self, groups: pd.Series, model: str | None = None, against: str | None = None
    ) -> pd.DataFrame:
        """Return the squared error saved in each group of rows, as :meth:`gain_by_firm`."""
        return gain_by(self, groups, *self._pair(model, against))

    def _pair(self, model: str | None, against: str | None) -> tuple[str, str]:
        return str(model or self.claims.peer), str(against or self.claims.control)

    def confidence_set(self, *, size: float = 0.1) -> ConfidenceSet:
        """Return the models that may be the best; see :func:`model_confidence_set`."""
        return model_confidence_set(self.losses, size=size, horizon=self.horizon)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.as_table().html()

    def to_frame(self) -> pd.DataFrame:
        """Return :meth:`table`."""
        return self.table()


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

    def to_html(self, path: tables.PathLike) -> Path:
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
