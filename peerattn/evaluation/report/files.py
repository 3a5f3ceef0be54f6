"""The files of a comparison: predictions, edges, and a workbook."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from peerattn.evaluation.claims import Claims
from peerattn.evaluation.compared import Compared
from peerattn.evaluation.report.table import table
from peerattn.render import atomic_path, write_workbook


def edges_of(compared: Compared, *, top_k: int | None = None) -> pd.DataFrame:
    """Return the edges of all networks: columns model, period, firm, peer, weight; with ``top_k`` the strongest."""
    parts = [network.edges(top_k=top_k).assign(model=name) for name, network in compared.networks.items()]
    columns = ["model", "period", "firm", "peer", "weight"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def to_parquet(
    compared: Compared,
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
    _write(path, compared.predictions)
    if edges is not None:
        _write(edges, edges_of(compared, top_k=top_k))
    return Path(path)


def _write(path: str | os.PathLike[str], frame: pd.DataFrame) -> None:
    with atomic_path(path) as temporary:
        frame.to_parquet(temporary, index=False)


def to_excel(
    compared: Compared, claims: Claims, finding: Sequence[str], path: str | os.PathLike[str]
) -> Path:
    """Write a workbook: finding, decomposition, scores, tests, losses by period, sample and settings, a sheet each."""
    columns = ["model", "baseline", "gain", "statistic", "p_value", "n_periods", "freedom"]
    tests = [[getattr(test, column) for column in columns] for test in compared.tests.values()]
    models = [(m.name, m.step, m.reads, m.settings) for m in compared.models]
    settings = [*compared.settings.items(), *(("limit of the panel", said) for said in compared.panel.limits)]
    sheets = {
        "Summary": pd.DataFrame({"Finding": finding}),
        "Decomposition": claims.to_frame().reset_index(),
        "Scores": compared.scores.reset_index(),
        "Table": table(compared).reset_index(),
        "Tests": pd.DataFrame(tests, columns=columns),
        "Losses by period": compared.losses.reset_index(),
        "Failures": pd.DataFrame([vars(failure) for failure in compared.failures]),
        **{f"Audit {name}": audit.to_frame() for name, audit in compared.audit.items()},
        "Sample": compared.panel.sample_loss,
        "Models": pd.DataFrame(models, columns=["model", "step", "reads", "settings"]),
        "Settings": pd.DataFrame(settings, columns=["setting", "value"]),
    }
    return write_workbook(path, {k: sheet for k, sheet in sheets.items() if len(sheet)})
