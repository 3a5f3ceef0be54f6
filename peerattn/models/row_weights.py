"""Weights of rows: frequency weights, and weights of a panel's rows in its order."""

from dataclasses import replace
from numbers import Number

import numpy as np
import pandas as pd
from sklearn.utils.validation import _check_sample_weight

from peerattn.exceptions import expect, reworded
from peerattn.models.cross_section import Rows
from peerattn.panel.panel import Panel, floats
from peerattn.panel.reading import as_panel
from peerattn.types import OutcomesLike

MOST_COPIES = 1e9  # of a row


def row_weights(panel: Panel, weight: OutcomesLike, name: str) -> np.ndarray:
    """Return one weight a row, in the panel's order: aligned by label where it carries them, by position otherwise."""
    return as_panel(panel, weights={name: weight}).weights[name]


def frequencies(panel: Panel, weight: OutcomesLike) -> np.ndarray:
    """Return frequency weights in the panel's order, checked as scikit-learn checks them."""
    wanted = "sample_weight: expected one number for each row"
    with reworded(wanted, kinds=(TypeError, ValueError, OverflowError)):
        aligned = isinstance(weight, pd.Series)
        if aligned:
            weight = panel.align(weight, "sample_weight")
        elif not isinstance(weight, Number | None):
            weight = floats(np.asarray(weight), wanted)
        found = _check_sample_weight(weight, np.empty((len(panel), 1)), ensure_non_negative=True)
        expect(not np.iscomplexobj(found), "sample_weight", "one number for each row", "complex numbers")
    if not aligned:
        found = found[panel.order]
    counts = f"frequency weights, which count rows, from 0 to {MOST_COPIES:g}, and one above 0"
    expect(0 < found.max() <= MOST_COPIES, "sample_weight", counts, f"up to {found.max():g}")
    return found


def weighted(
    panel: Panel, training: Rows, *, sample_weight: OutcomesLike, loss_weight: OutcomesLike, peer_weight: OutcomesLike
) -> Rows:
    """Return training rows with the loss and peer weights of a panel."""

    def of_rows(name: str, weight: OutcomesLike) -> np.ndarray:
        expect(panel.dated, name, "a panel", "arrays", "They take sample_weight=.")
        remedy = "A frequency weight is both: pass one of them."
        expect(sample_weight is None, name, "no sample_weight= beside it", "both", remedy)
        return row_weights(panel, weight, name)

    if loss_weight is not None:
        training = replace(training, loss_weight=_of_mean_one(of_rows("loss_weight", loss_weight)))
    if peer_weight is not None:
        training = replace(training, weight=of_rows("peer_weight", peer_weight))
    return training


def _of_mean_one(weight: np.ndarray) -> np.ndarray:
    """Return weights in a unit in which the positive ones are 1 on average: rows count as often as there are."""
    positive = weight[weight > 0]
    if not len(positive):
        return weight
    # by the largest first, so that equal weights are 1 exactly
    share = weight / positive.max()
    return np.asarray(share / share[weight > 0].mean())
