"""The rows of an attention estimator: whose peers they may be, how they are weighted, and what a reference adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from peerattn.exceptions import expect
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.reference import Reference
from peerattn.models.row_weights import row_weights
from peerattn.panel.panel import Panel
from peerattn.types import OutcomesLike

OF_ARRAYS = 'on arrays self-attention attends to the training rows; use attention="cross".'


def check_reference(given: Reference, task: str, scale: str | None) -> None:
    """Raise where a reference has no outcomes and the task needs them, or the other way round."""
    if task == "nowcast":
        expect(given.y is not None, "reference", "(X_ref, y_ref)", 'no outcomes with task="nowcast"')
    else:
        expect(given.y is None, "reference", "X_ref alone", 'outcomes with task="forecast"')
    remedy = "Ranks are taken among the rows of one call, which a reference splits in two."
    expect(scale != "rank", "scale", '"standard" beside reference=', '"rank"', remedy)


def weighted(
    panel: Panel, training: Rows, sample_weight: OutcomesLike, loss_weight: OutcomesLike, peer_weight: OutcomesLike
) -> Rows:
    """Return training rows with the loss and peer weights of a panel."""
    given = {"loss_weight": loss_weight, "peer_weight": peer_weight}
    fields = {"loss_weight": "loss_weight", "peer_weight": "weight"}  # of Rows
    for name, weight in given.items():
        if weight is None:
            continue
        expect(panel.dated, name, "a panel", "arrays", "They take sample_weight=.")
        remedy = "A frequency weight is both: pass one of them."
        expect(sample_weight is None, name, "no sample_weight= beside it", "both", remedy)
        found: Any = {fields[name]: row_weights(panel, weight, name)}
        training = replace(training, **found)
    return training


def peers_of_known_outcome(sections: Iterator[CrossSection]) -> Iterator[CrossSection]:
    """Yield cross-sections whose peers of known outcome alone may be attended to; the others still help to encode."""
    for section in sections:
        yield replace(section, answering=np.isfinite(section.peers.outcomes))
