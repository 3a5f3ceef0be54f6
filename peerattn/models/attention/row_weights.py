"""Weights of rows: in the loss, and as peers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from peerattn.exceptions import InputError
from peerattn.models.pools import Rows
from peerattn.panel.alignment import align_outcome, position_outcome
from peerattn.panel.frames import as_pandas
from peerattn.panel.gate import Panel
from peerattn.panel.labels import panel_labels


def row_weights(X: Any, panel: Panel, weight: Any, name: str, *, firm: str, period: str) -> np.ndarray:
    """Return one weight a row, in the panel's order: aligned by label where it carries them, by position otherwise."""
    X, weight = as_pandas(X), as_pandas(weight)
    labels = panel_labels(X, firm, period, undated=True)
    if labels is None:
        values = position_outcome(weight, len(panel), name)[panel.order]
    else:
        values = align_outcome(weight, X, labels, firm=firm, period=period, name=name)[panel.order]
    bad = int((~(values >= 0)).sum())
    if bad:
        raise InputError(f"{name} must be at least 0 and known in every row; {bad} rows are not.")
    return values


def weighted(
    X: Any,
    panel: Panel,
    training: Rows,
    *,
    sample_weight: Any,
    loss_weight: Any,
    peer_weight: Any,
    firm: str,
    period: str,
) -> Rows:
    """Return training rows with the loss and peer weights of a panel."""
    for name, given in (("loss_weight", loss_weight), ("peer_weight", peer_weight)):
        if given is not None and not panel.dated:
            raise InputError(f"{name}= is for panels; arrays take sample_weight=.")
        if given is not None and sample_weight is not None:
            raise InputError(
                f"{name}= and sample_weight= do not go together: a frequency weight is both. Pass one of them."
            )
    if loss_weight is not None:
        values = row_weights(X, panel, loss_weight, "loss_weight", firm=firm, period=period)
        training = replace(training, loss_weight=values)
    if peer_weight is not None:
        values = row_weights(X, panel, peer_weight, "peer_weight", firm=firm, period=period)
        training = replace(training, weight=values)
    return training
