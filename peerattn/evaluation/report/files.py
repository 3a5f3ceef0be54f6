"""The files of a comparison: predictions, edges, and a workbook."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from peerattn.evaluation.report.table import table
from peerattn.render import atomic_path, write_workbook

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison


def edges(comparison: Comparison, *, top_k: int | None = None) -> pd.DataFrame:
    """Return the edges of all networks: columns model, period, firm, peer, weight; with ``top_k`` the strongest."""
    parts = [network.edges(top_k=top_k).assign(model=name) for name, network in comparison.networks.items()]
    columns = ["model", "period", "firm", "peer", "weight"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def to_parquet(
    comparison: Comparison,
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
        Number of edges kept of each firm.

    Raises
    ------
    InputError
        When a file cannot be written.
    """
    with atomic_path(path) as temporary:
        comparison.predictions.to_parquet(temporary, index=False)
    if edges is not None:
        with atomic_path(edges) as temporary:
            comparison.edges(top_k=top_k).to_parquet(temporary, index=False)
    return Path(path)


def to_excel(comparison: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write a workbook: scores, tests, losses by period, ladder, sample and settings, a sheet each.

    Raises
    ------
    InputError
        When the file cannot be written, or openpyxl (the extra ``excel``) is missing.
    """
    columns = ["model", "baseline", "gain", "statistic", "p_value", "n_periods", "freedom"]
    tests = [[getattr(test, column) for column in columns] for test in comparison.tests.values()]
    models = [(m.name, m.kind, m.settings) for m in comparison.models]
    settings = [*comparison.settings.items(), *(("limit of the panel", said) for said in comparison.limits)]
    ladder = comparison.ladder
    sheets = {
        "Summary": pd.DataFrame({"Finding": comparison.summary()}),
        "Scores": comparison.scores.reset_index(),
        "Table": table(comparison).reset_index(),
        "Tests": pd.DataFrame(tests, columns=columns),
        "Losses by period": comparison.losses.reset_index(),
        "Ladder": None if ladder is None else ladder.to_frame(),
        "Failures": pd.DataFrame([vars(failure) for failure in comparison.failures]),
        **{f"Audit {name}": audit.to_frame() for name, audit in comparison.audit.items()},
        "Sample": comparison.sample_loss,
        "Models": pd.DataFrame(models, columns=["model", "kind", "settings"]),
        "Settings": pd.DataFrame(settings, columns=["setting", "value"]),
    }
    return write_workbook(path, {k: sheet for k, sheet in sheets.items() if sheet is not None and len(sheet)})
