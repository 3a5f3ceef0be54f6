"""When outcomes are known: the one object that every path uses before it learns from an outcome, or uses one as a firm's past."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, reworded
from peerattn.panel.panel import Panel
from peerattn.panel.time_order import comparable, in_time, kind_of
from peerattn.types import LabelsLike


@dataclass(frozen=True, eq=False)
class Knowledge:
    """When the outcome of each row of a panel is known.

    That of period t is known ``horizon`` periods later, and not before its date (``known_at``) where the panel has dates.

    Attributes
    ----------
    periods : Index (T,)
        In order of time.
    row : ndarray (n,)
        Place of each row's period among them.
    known : ndarray (n,)
        Place of the first period by which the row's outcome is known; at least T where it is not known by any.

    Examples
    --------
    >>> from peerattn.panel import as_panel
    >>> X = pd.DataFrame({"firm": "A", "period": [2001, 2002, 2003], "size": 1.0, "filed": [2003, 2003, 2004]})
    >>> knowledge = Knowledge.of(as_panel(X, [1.0, 2.0, 3.0], known_at="filed", characteristics=["size"]))
    >>> knowledge.by(2002).tolist(), knowledge.by(2003).tolist()
    ([False, False, False], [True, True, False])
    """

    periods: pd.Index
    row: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, panel: Panel, horizon: int = 0) -> Knowledge:
        """Return it of a panel's rows, in their order."""
        row, periods = sorted_periods(panel.period)
        # an outcome is known a horizon after its row, or later where dates say so
        known = row + horizon
        if panel.known_at is not None:
            known = np.maximum(known, first_known(panel.known_at, periods))
        return cls(periods, row, known)

    def by(self, period: LabelsLike) -> np.ndarray:
        """Return the rows whose outcome is known by a period of the panel."""
        return self.known <= self.place(period)

    def place(self, period: LabelsLike) -> int:
        """Return the place of a period of the panel."""
        return int(self.periods.get_indexer(pd.Index([period]))[0])


def dated_by_horizon(panel: Panel, task: str, horizon: int) -> Panel:
    """Return the panel of a nowcast with the dates that a longer horizon implies, so that no past is read before it is known.

    A nowcast observes the outcomes of a firm's peers in its own period; those of the ``horizon`` less one before are not known by
    then, of no firm. Forecasts observe no outcomes.
    """
    if task == "forecast" or horizon == 1:
        return panel
    knowledge = Knowledge.of(panel, horizon)
    return replace(panel, known_at=pd.Index(pd.Series(knowledge.periods).reindex(knowledge.known)))


def sorted_periods(period: LabelsLike) -> tuple[np.ndarray, pd.Index]:
    """Return each row's period as its rank among the distinct period labels, and those labels in order.

    >>> codes, periods = sorted_periods([2002, 2001, 2002])
    >>> codes.tolist(), periods.tolist()
    ([1, 0, 1], [2001, 2002])
    """
    with reworded("period: expected one label for each row: a date, a number or text", kinds=(TypeError, ValueError)):
        if not isinstance(period, pd.Index | pd.Series):
            period = np.asarray(period).reshape(-1)
        labels = pd.Index(period)
        if labels.hasnans:
            raise InputError("period: a label is missing in some rows; every row needs one.")
        codes, periods = pd.factorize(in_time(labels), sort=True)
    return codes, pd.Index(periods)


def first_known(given: pd.Index, periods: pd.Index) -> np.ndarray:
    """Return the first period by which each row's outcome is known, as a position; beyond the last: never."""
    at = np.full(len(given), len(periods))
    known = ~np.asarray(given.isna())
    labels = in_time(given[known].infer_objects(), "known_at", check=False)
    if not comparable(labels, periods):
        wanted = f"labels of the type of X's periods (such as {periods[0]}, {kind_of(periods)})"
        raise InputError(f"known_at: expected {wanted}, got {labels.tolist()[0]!r}, {kind_of(labels)}: convert it.")
    at[known] = periods.searchsorted(labels)
    return at
