"""Weights of rows: in the loss, and as peers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from peerattn.exceptions import InputError
from peerattn.models.pools import Rows
from peerattn.panel.panel import Panel
from peerattn.panel.reading import as_panel


def row_weights(panel: Panel, weight: Any, name: str) -> np.ndarray:
    """Return one weight a row, in the panel's order: aligned by label where it carries them, by position otherwise."""
    return as_panel(panel, weights={name: weight}).weights[name]


def weighted(panel: Panel, training: Rows, *, sample_weight: Any, loss_weight: Any, peer_weight: Any) -> Rows:
    """Return training rows with the loss and peer weights of a panel."""
    for name, given in (("loss_weight", loss_weight), ("peer_weight", peer_weight)):
        if given is not None and not panel.dated:
            raise InputError(f"{name}= is for panels; arrays take sample_weight=.")
        if given is not None and sample_weight is not None:
            raise InputError(
                f"{name}= and sample_weight= do not go together: a frequency weight is both. Pass one of them."
            )
    if loss_weight is not None:
        training = replace(training, loss_weight=row_weights(panel, loss_weight, "loss_weight"))
    if peer_weight is not None:
        training = replace(training, weight=row_weights(panel, peer_weight, "peer_weight"))
    return training
