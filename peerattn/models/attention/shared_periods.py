"""The cross-sections of several processes as one sequence: of the others' all is known but the characteristics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.models.pools import Rows, Section, identities
from peerattn.panel.panel import Panel
from peerattn.processes import gathered, joined, n_processes, process
from peerattn.render import show_label

PERIODS = 10  # a process, at least: each needs some in every part of the training periods


def refuse_unshared(model: Any, panel: Panel, reference: Any) -> None:
    """Raise for what several processes cannot fit together."""
    if not joined():
        return
    for wrong, said in (
        (not panel.dated, "X: several processes share periods, which X does not carry"),
        (not isinstance(model.own, str), "own: an estimator is fitted on all rows, which no process holds"),
        (reference is not None, "reference: it is not shared among processes"),
    ):
        if wrong:
            raise InputError(f"{said}. Leave it out, or fit in one process, outside data_parallel().")


def one_numbering(panel: Panel, rows: Rows) -> Rows:
    """Return the rows with identities that are equal where owners are, over all processes, as one process numbers them."""
    if not joined():
        return rows
    parts = gathered((panel.period, rows.owner))
    order = np.argsort(_places([period for period, _ in parts]), kind="stable")
    owners = pd.Index([owner for _, part in parts for owner in part.tolist()], tupleize_cols=False)
    identity = np.empty(len(order), dtype=np.int64)
    identity[order] = identities(owners[order])[0]
    start = sum(len(part) for _, part in parts[: process()])
    return replace(rows, identity=identity[start : start + len(rows)])


def of_all_processes(panel: Panel, sections: Sequence[Section], purge: int) -> list[Section]:
    """Return the sections of all processes in order of time; of the others' the characteristics have no column.

    Raises
    ------
    InputError
        Where a period is in two processes, or a process has none of some successive tenth of the periods.
    """
    if not joined():
        return list(sections)
    starts = [section.at.start for section in sections if isinstance(section.at, slice)]
    parts = gathered((panel.period[starts], [_without_x(section) for section in sections]))
    owner = np.repeat(np.arange(len(parts)), [len(part) for _, part in parts])
    places = _places([period for period, _ in parts])
    order = np.argsort(places, kind="stable")
    every = [section for _, part in parts for section in part]
    if len(twice := np.flatnonzero(np.diff(places[order]) == 0)):
        label = show_label(every[order[twice[0]]].period)
        raise InputError(f"X: period {label} is in two processes. Give each process periods of its own.")
    owner, window = owner[order], (len(order) - 2 * purge) // PERIODS
    for start in range(max(1, len(order) - window + 1)):
        if len(lacking := np.setdiff1d(np.arange(n_processes()), owner[start : start + window])):
            raise InputError(
                f"X: {n_processes()} processes for {len(order)} periods (less {2 * purge} for purge), of which process "
                f"{lacking[0]} has none in some tenth. Each needs every so many-th period, and ten at least: start fewer."
            )
    mine = iter(sections)
    return [next(mine) if owner[k] == process() else every[at] for k, at in enumerate(order)]


def _places(periods: Sequence[pd.Index]) -> np.ndarray:
    """Return the place of each label of several indexes among all labels, in order of time."""
    joint = periods[0].append(list(periods[1:]))
    distinct = joint.unique()
    return np.asarray(distinct.take(distinct.argsort()).get_indexer(joint))


def _without_x(section: Section) -> Section:
    focal, peers = (replace(rows, x=np.zeros((len(rows), 0))) for rows in (section.focal, section.peers))
    return replace(section, focal=focal, peers=peers, here=False)
