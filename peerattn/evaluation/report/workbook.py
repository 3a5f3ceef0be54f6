"""What a comparison's workbook holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison


def workbook_sheets(comparison: Comparison) -> dict[str, pd.DataFrame]:
    """Return the frames of the workbook by the name of their sheet."""
    sheets = {
        "Summary": pd.DataFrame({"Finding": comparison.summary()}),
        "Scores": comparison.scores.reset_index(),
        "Table": comparison.table().reset_index(),
        "Tests": tests_frame(comparison),
        "Losses by period": comparison.losses.reset_index(),
    }
    if comparison.ladder is not None:
        sheets["Ladder"] = comparison.ladder.to_frame()
    if comparison.failures:
        sheets["Failures"] = pd.DataFrame([vars(failure) for failure in comparison.failures])
    for name, audit in comparison.audit.items():
        sheets[f"Audit {name}"] = audit.to_frame()
    if len(comparison.sample_loss):
        sheets["Sample"] = comparison.sample_loss
    models = [(m.name, m.kind, m.settings) for m in comparison.models]
    sheets["Models"] = pd.DataFrame(models, columns=["model", "kind", "settings"])
    known = [*comparison.settings.items(), *(("limit of the panel", said) for said in comparison.limits)]
    sheets["Settings"] = pd.DataFrame(known, columns=["setting", "value"])
    return sheets


def tests_frame(comparison: Comparison) -> pd.DataFrame:
    """Return the Diebold–Mariano tests against the baseline, one row a model."""
    columns = ["model", "baseline", "gain", "statistic", "p_value", "n_periods", "freedom"]
    rows = [[getattr(test, column) for column in columns] for test in comparison.tests.values()]
    return pd.DataFrame(rows, columns=columns)
