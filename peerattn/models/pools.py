"""Candidate peers of a call's rows: those of the same period, or the training rows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from peerattn.models.cross_section import CrossSection, Rows, check_same_kind
from peerattn.models.learned import clipped
from peerattn.panel.panel import Panel


def row_labels(panel: Panel) -> pd.Index:
    """Return the firm of each row, or its number where rows have no labels."""
    return pd.RangeIndex(len(panel)) if panel.firm is None else panel.firm


def places_of(panel: Panel) -> Iterator[tuple[int, Any, slice]]:
    """Yield the place in time, the period (None where undated) and the rows of each cross-section."""
    for place, (period, at) in enumerate(panel.cross_sections()):
        yield place, period if panel.dated else None, at


def within_periods(
    panel: Panel, call: Rows, known: bool, bounds: tuple[float, float], unit: tuple[float, float]
) -> Iterator[CrossSection]:
    """Yield the rows of each period, which are each other's candidate peers.

    Parameters
    ----------
    panel, call
        The rows, in the order of the panel.
    known : bool
        Whether peers are rows of known outcome only.
    bounds, unit
        What the outcomes of peers are bounded by, see :func:`~peerattn.models.learned.clipped`.
    """
    for place, period, at in places_of(panel):
        focal = peers = call.take(at)
        if known:
            peers = focal.known()
        if peers.y is not None:  # one outcome must not move a period at will
            peers = replace(peers, y=clipped(peers.y, bounds, unit))
        yield CrossSection(period, at, focal, peers, within=True, place=place)


def against_training(panel: Panel, call: Rows, training: Rows | None, labelled: bool) -> Iterator[CrossSection]:
    """Yield the rows of each period with the training rows for candidate peers, the firm's own past among them."""
    assert training is not None
    if panel.firm is not None and labelled:
        check_same_kind(call.owner, training.owner)
    call = call.anonymous()
    for place, period, at in places_of(panel):
        yield CrossSection(period, at, call.take(at), training, place=place)


def peers_of_known_outcome(sections: Iterator[CrossSection]) -> Iterator[CrossSection]:
    """Yield cross-sections whose peers of known outcome alone may be attended to; the others still help to encode."""
    for section in sections:
        yield replace(section, attendable=np.isfinite(section.peers.outcomes))
