"""What was fitted, as text."""

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

SHOWN = 20  # rows of a table in a summary


def summary_of(model: BaseEstimator, n_features: int, learned: tuple[np.ndarray, np.ndarray] | None) -> str:
    """Return options that differ from their defaults, training rows, tables and numbers of a fitted model.

    Parameters
    ----------
    model : estimator
        Its fitted attributes, whose names end in ``_``, are shown under their names.
    n_features : int
        Columns that it was fitted on.
    learned : pair of ndarray, or None
        Training periods and rows; None where they had no dates.
    """
    properties = [n for n in dir(type(model)) if isinstance(getattr(type(model), n, None), property)]
    names = [n for n in (*vars(model), *properties) if n.endswith("_") and not n.startswith("_")]
    fitted = {name: getattr(model, name) for name in names}
    size = ""
    if learned is not None:
        periods, rows = learned
        size = f"{len(rows):,} rows, {len(periods):,} periods, "
    wording = [f"{model!r}: {size}{n_features} columns"]
    numbers = [f"{name} {value:.6g}" for name, value in fitted.items() if isinstance(value, float)]
    if numbers:
        wording.append(", ".join(numbers))
    for name, value in fitted.items():
        if isinstance(value, pd.DataFrame | pd.Series) and len(value):
            wording.append(f"{name}\n{value.to_string(max_rows=SHOWN)}")
        elif hasattr(value, "_repr_html_") and type(value).__module__.startswith("peerattn"):
            wording.append(f"{name}\n{value}")
    return "\n\n".join(wording)
