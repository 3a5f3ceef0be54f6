"""Pools that reach beyond the rows of the call: a reference universe, alone or beside the own cross-section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from peerattn.exceptions import InputError
from peerattn.models.pools import Rows, Section, identities
from peerattn.panel.panel import Panel
from peerattn.render import show_label


def among_reference(panel: Panel, call: Rows, universe: Panel, rows: Rows) -> Iterator[Section]:
    """Yield each period's firms with the reference for a pool.

    A dated reference answers in its own period, an undated one in all; the focal firm is left out by its label.
    """
    if panel.firm is None or universe.firm is None:
        call = call.anonymous()
    else:
        mine, theirs = identities(call.owner, rows.owner)
        call, rows = replace(call, identity=mine), replace(rows, identity=theirs)
    pools = rows_by_period(universe, rows)
    for period, at in panel.cross_sections():
        peers = pools.get(period, rows.take(slice(0, 0))) if universe.dated else rows
        yield Section(period if panel.dated else None, at, call.take(at), peers, within=True)


def with_reference(sections: Iterator[Section], universe: Panel, rows: Rows) -> Iterator[Section]:
    """Yield the sections with the reference rows of the same period added to each pool; a firm is in it once."""
    pools = rows_by_period(universe, rows)
    for section in sections:
        more = pools.get(section.period) if universe.dated else rows
        if more is not None:
            more = more.take(~more.label.isin(section.peers.label))
            mine, theirs, added = identities(section.focal.owner, section.peers.owner, more.owner)
            peers = replace(section.peers, identity=theirs).joined(replace(more, identity=added))
            section = replace(section, focal=replace(section.focal, identity=mine), peers=peers)
        yield section


def rows_by_period(universe: Panel, rows: Rows) -> dict[Any, Rows]:
    """Return the reference rows of each period."""
    return {period: rows.take(at) for period, at in universe.cross_sections()}


def refuse_other_periods(panel: Panel, universe: Panel, *, of_fit: bool = False) -> None:
    """Raise when a dated reference can answer nowhere in the call; ``of_fit``: none was passed, it is that of fit."""
    if not universe.dated:
        return
    if not panel.dated:
        raise InputError(
            "reference: it is dated, but X carries no periods, so no row of it would answer. Drop its period level, or date X."
        )
    if panel.period.isin(universe.period).any():
        return
    theirs, mine = (f"{show_label(p.period[0])} to {show_label(p.period[-1])}" for p in (universe, panel))
    if of_fit:
        raise InputError(
            f"reference: X holds {mine}, and the reference passed to fit, {theirs}, answers in none of these periods. Pass "
            "predict(..., reference=) with the reference firms of X's periods."
        )
    raise InputError(
        f"reference: it holds {theirs}, X holds {mine}: they share no period. Pass the reference firms of X's periods, labelled "
        "alike."
    )


def answering_outcomes(section: Section) -> Section:
    """Let only peers of known outcome be looked to; the others still help to encode."""
    assert section.peers.y is not None
    return replace(section, answering=np.isfinite(section.peers.y))
