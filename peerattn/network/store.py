"""What a network holds: labels, periods, and one cross-section of weights for each period."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.cross_section import Array, CrossSection, check_rows
from peerattn.panel.labels import find_firm, find_period
from peerattn.render import show_label


class NetworkStore:
    """Labels, periods and cross-sections; :class:`PeerNetwork` adds what a reader asks of them."""

    def __init__(
        self,
        labels: pd.Index,
        periods: pd.Index,
        sections: Iterable[CrossSection],
        *,
        name: str = "",
        signed: bool = False,
        row_normalized: bool = True,
    ) -> None:
        self._labels = labels
        self._periods = periods
        self._sections = tuple(sections)
        self._name = str(name)
        self._signed = bool(signed)
        self._row_normalized = bool(row_normalized) and not signed
        if self._row_normalized:
            for period, section in self.sections():
                check_rows(section, labels.take(section.rows), where_in(period))

    def replaced(
        self,
        sections: Iterable[CrossSection],
        *,
        periods: pd.Index | None = None,
        row_normalized: bool | None = None,
        signed: bool | None = None,
    ) -> Self:
        """Return a network with the same labels and name and other cross-sections.

        Parameters
        ----------
        sections : iterable of CrossSection
            One for each period.
        periods : pandas.Index, optional
            Their labels; default: this network's.
        row_normalized, signed : bool, optional
            Default: as here.

        Returns
        -------
        PeerNetwork
        """
        return type(self)(
            self._labels,
            self._periods if periods is None else periods,
            sections,
            name=self._name,
            signed=self._signed if signed is None else signed,
            row_normalized=self._row_normalized if row_normalized is None else row_normalized,
        )

    @property
    def labels(self) -> pd.Index:
        """Every firm that looks or is looked to in any period."""
        return self._labels

    @property
    def periods(self) -> pd.Index:
        """Period labels in order; ``Index([None])`` for one undated cross-section."""
        return self._periods

    @property
    def firms(self) -> pd.Index:
        """Firms that look in any period (rows)."""
        return self._labels.take(self._occurring("rows"))

    @property
    def reference(self) -> pd.Index:
        """Firms that may be looked to in any period (columns)."""
        return self._labels.take(self._occurring("columns"))

    @property
    def name(self) -> str:
        """What made the network."""
        return self._name

    @property
    def signed(self) -> bool:
        """Whether weights may be negative."""
        return self._signed

    @property
    def row_normalized(self) -> bool:
        """Whether every row sums to one or to zero."""
        return self._row_normalized

    @property
    def is_dated(self) -> bool:
        """False for one undated cross-section."""
        return not (len(self._periods) == 1 and self._periods[0] is None)

    @property
    def isolates(self) -> pd.DataFrame:
        """Firms whose weights are all zero: columns ``period``, ``firm``."""
        where, rows = [], []
        for position, section in enumerate(self._sections):
            alone = section.rows[section.isolates()]
            rows.append(alone)
            where.append(np.full(len(alone), position))
        return pd.DataFrame(
            {"period": self._periods.take(joined(where)), "firm": self._labels.take(joined(rows))}
        )

    def _occurring(self, side: str) -> Array:
        seen = np.zeros(len(self._labels), dtype=bool)
        for section in self._sections:
            seen[getattr(section, side)] = True
        return np.flatnonzero(seen)

    def sections(self) -> Iterator[tuple[Any, CrossSection]]:
        """Iterate over (period, cross-section) in the order of :attr:`periods`."""
        return zip(self._periods, self._sections, strict=True)

    def section(self, period: Any = None) -> tuple[Any, CrossSection]:
        """Return the label and cross-section of one period.

        Parameters
        ----------
        period : label, optional
            May be left out when there is only one; strings such as ``"2012-06"`` are understood.

        Returns
        -------
        tuple
            Period label and :class:`CrossSection`.

        Raises
        ------
        InputError
            When the period is unknown, or left out though there are several.
        """
        if period is None:
            if len(self._sections) != 1:
                raise InputError(
                    f"period: the network has {len(self._sections)} periods; name one of them, or take "
                    "mean() over periods first."
                )
            return self._periods[0], self._sections[0]
        if not self.is_dated:
            raise InputError(
                f"period: got {period!r}, but this network is one undated cross-section; leave period out."
            )
        found = find_period(period, self._periods)
        return found, self._sections[position_of(found, self._periods)]

    def firm_position(self, firm: Any) -> int:
        """Return the position of a firm in :attr:`labels`.

        Raises
        ------
        InputError
            When there is no such firm; near matches are shown.
        """
        return position_of(find_firm(firm, self._labels), self._labels)


def joined(parts: list[Array]) -> Array:
    """Concatenate positions; no parts give no positions.

    Examples
    --------
    >>> joined([]).tolist(), joined([np.array([1]), np.array([2])]).tolist()
    ([], [1, 2])
    """
    return np.concatenate([np.empty(0, dtype=np.intp), *parts]).astype(np.intp)


def position_of(label: Any, index: pd.Index) -> int:
    """Return where a label stands in an index without repeats.

    Examples
    --------
    >>> position_of("B", pd.Index(["A", "B"]))
    1
    """
    return int(np.flatnonzero(index == label)[0])


def where_in(period: Any) -> str:
    """Return how an error names a period; nothing for an undated cross-section.

    Examples
    --------
    >>> where_in(2001), where_in(None)
    (' in period 2001', '')
    """
    return "" if period is None else f" in period {show_label(period)}"
