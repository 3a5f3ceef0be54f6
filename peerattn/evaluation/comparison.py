"""The result of ``compare``: the data of a comparison, and how it is shown and written."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pandas as pd

from peerattn.evaluation.claims import Claims, claims_of
from peerattn.evaluation.compared import Compared
from peerattn.evaluation.gains import Gain, gain_by, gain_by_firm, gain_of
from peerattn.evaluation.inference.multiple_tests import ConfidenceSet, model_confidence_set
from peerattn.evaluation.measures.groups import scores_by
from peerattn.evaluation.measures.portfolios import portfolios_of
from peerattn.evaluation.report import files, page, words
from peerattn.evaluation.report import table as tables
from peerattn.evaluation.report.methods import methods_paragraph
from peerattn.exceptions import checked


@checked
class Comparison(Compared):
    """Models compared out of sample on one common sample; made by :func:`peerattn.evaluation.compare`.

    Its attributes are those of :class:`~peerattn.evaluation.compared.Compared`: ``predictions``, ``scores``, ``networks``,
    ``failures``, ... It prints as a table with the finding under it.

    Attributes
    ----------
    claims : Claims
        What may be said: the decomposition of held-out R², whether peers help and why, how small a network could have been found.
    """

    # How it is shown and written: functions that take a comparison, bound as methods.
    as_table = tables.as_table
    table = tables.table
    to_latex = tables.to_latex
    edges = files.edges_of
    to_parquet = files.to_parquet
    portfolios = portfolios_of
    by = scores_by

    @cached_property
    def claims(self) -> Claims:
        """What may be said of this comparison, computed once."""
        return claims_of(self)

    def summary(self) -> list[str]:
        """Return the finding in plain words, a sentence or two each."""
        return words.summary(self, self.claims)

    def text(self, width: int | None = None) -> str:
        """Return the table and the finding as text, no wider than ``width`` (by default the terminal)."""
        return tables.text(self, self.summary(), width)

    def to_markdown(self, path: tables.PathLike | None = None, **options: Any) -> str:
        """Return the table and the finding as Markdown, and write it where a path is given; options as in :meth:`table`."""
        return tables.to_markdown(self, self.summary(), path, **options)

    def to_html(self, path: tables.PathLike) -> tables.Path:
        """Write the report: one self-contained page that opens offline.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        return page.to_html(self, self.claims, path)

    def to_excel(self, path: tables.PathLike) -> tables.Path:
        """Write a workbook: finding, scores, decomposition, tests, losses, sample and settings, a sheet each.

        Raises
        ------
        InputError
            When the file cannot be written, or openpyxl (the extra ``excel``) is missing.
        """
        return files.to_excel(self, self.claims, self.summary(), path)

    def methods(self) -> str:
        """Return a paragraph on method and sample (models, tests, versions), ready to be edited into a paper."""
        return methods_paragraph(self)

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
        pair = (str(model or self.claims.peer), str(against or self.claims.control))
        self.check_model(*pair)
        return pair

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
