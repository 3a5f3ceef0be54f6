"""What a comparison writes: a page, tables for papers and spreadsheets, predictions and edges."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pandas as pd

from peerattn.render import atomic_path, markdown_text, write_atomic

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

PRINTED = ("r2_zero", "r2_mean", "r2_within", "rmse", "rank_ic", "rank_ic_t", "dm_t", "dm_p")


class ComparisonFiles:
    """The files of a :class:`~peerattn.evaluation.Comparison`, which alone derives from this class."""

    @property
    def _whole(self) -> Comparison:
        return cast("Comparison", self)

    def edges(self, *, top_k: int | None = None) -> pd.DataFrame:
        """Return the edges of all networks: columns model, period, firm, peer, weight; with ``top_k`` the strongest."""
        parts = [
            network.edges(top_k=top_k).assign(model=name) for name, network in self._whole.networks.items()
        ]
        columns = ["model", "period", "firm", "peer", "weight"]
        return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)

    def methods(self) -> str:
        """Return a paragraph on method and sample, ready to be edited into a paper."""
        from peerattn.evaluation.report.methods import methods

        return methods(self._whole)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        edges: str | os.PathLike[str] | None = None,
        top_k: int | None = None,
    ) -> Path:
        """Write all predictions to a Parquet file, and the networks' edges to another.

        Parameters
        ----------
        path : path-like
            Columns firm, period, outcome and one for each model.
        edges : path-like, optional
            As :meth:`edges` gives them.
        top_k : int, optional
            So many edges of each firm.

        Raises
        ------
        InputError
            When a file cannot be written.
        """
        with atomic_path(path) as temporary:
            self._whole.predictions.to_parquet(temporary, index=False)
        if edges is not None:
            with atomic_path(edges) as temporary:
                self._whole.edges(top_k=top_k).to_parquet(temporary, index=False)
        return Path(path)

    def to_latex(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        metrics: Sequence[str] = PRINTED,
        stars: bool = False,
    ) -> str:
        """Return the table as LaTeX (package booktabs), and write it where a path is given; see :meth:`table`."""
        return _written(self._whole.as_table(metrics, stars=stars).latex(), path)

    def to_markdown(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        metrics: Sequence[str] = PRINTED,
        stars: bool = False,
    ) -> str:
        """Return the table and the finding as Markdown, and write it where a path is given; see :meth:`table`."""
        words = "\n\n".join(map(markdown_text, self._whole.summary()))
        return _written(f"{self._whole.as_table(metrics, stars=stars).markdown()}\n\n{words}\n", path)

    def to_excel(self, path: str | os.PathLike[str]) -> Path:
        """Write a workbook: scores, tests, losses by period, ladder, sample and settings, a sheet each.

        Raises
        ------
        InputError
            When the file cannot be written, or openpyxl (the extra ``excel``) is missing.
        """
        from peerattn.evaluation.report.workbook import workbook_sheets
        from peerattn.render import write_workbook

        return write_workbook(path, workbook_sheets(self._whole))

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report: one self-contained page that opens offline.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        from peerattn.evaluation.report.page import report_page

        return write_atomic(path, report_page(self._whole))


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        write_atomic(path, text)
    return text
