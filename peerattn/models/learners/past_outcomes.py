"""The firms' own past outcomes: a table of firms and periods, of which a period sees what lies before it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from peerattn.models.cross_section import CrossSection, check_same_kind, section_numbers
from peerattn.models.learners.linear import CLIP
from peerattn.panel.time_order import check_comparable
from peerattn.scaling import ROUNDING

WINDOW = 96  # past periods that a firm's history reaches back
FEW = 6.0  # squared length below which a firm's past counts less
FEWEST_FOR_A_TREND = 3


@dataclass(frozen=True, eq=False)
class History:
    """Outcomes of firms (rows) and periods (columns, increasing); NaN where unknown.

    Those of the last ``purge`` periods before one are not known by then: nothing reads them. ``dates``, where outcomes have some,
    are the places of the periods from which each is known, and ``place`` is that of the period that reads.

    Examples
    --------
    >>> table = pd.DataFrame([[1.0, 5.0], [3.0, 3.0]], ["A", "B"], [2001, 2002])
    >>> History(table).before(2002, pd.Index(["B", "C"]), 3).tolist()  # the latest period last; 2002 itself is not seen
    [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    table: pd.DataFrame
    purge: int = 0
    dates: pd.DataFrame | None = None
    place: int = 0

    @classmethod
    def of(cls, sections: Iterable[CrossSection], purge: int = 0) -> Self:
        """Return the known outcomes of dated cross-sections: of the peers, and of focal firms that are not among them."""
        listed = list(sections)
        table = _table(listed, "y")
        return cls(table, purge, _dates_of(listed, table))

    def informed(self, prepared: Sequence[CrossSection]) -> list[CrossSection]:
        """Return cross-sections with what is known of the firms' past: this history, and the outcomes that they show.

        Where outcomes have dates, each gets what is known by its period.
        """
        self._check_label_kinds(prepared)
        observed = [section.unknown() for section in prepared]
        later = _table(observed, "y")
        new = later.loc[:, ~later.columns.isin(self.table.columns)]
        past = self
        if not new.empty:
            table = new
            if not self.table.empty:
                table = pd.concat([self.table, new], axis=1).sort_index(axis=1)
            past = replace(self, table=table)
            given = [each for each in (self.dates, _dates_of(observed, new)) if each is not None]
            if given:
                past = replace(past, dates=pd.concat(given, axis=1).reindex_like(table))
        if past.dates is None:
            return [replace(section, past=past) for section in prepared]
        return [replace(section, past=replace(past, place=section.place)) for section in prepared]

    def _check_label_kinds(self, sections: Sequence[CrossSection]) -> None:
        """Raise where firms or periods are of another type than these: no firm would be known by its past."""
        dated = [section for section in sections if section.period is not None]
        check_comparable(pd.Index([section.period for section in dated]), self.table.columns)
        check_same_kind(self.table.index, *(section.focal.label for section in dated))

    @property
    def known(self) -> pd.DataFrame:
        """The table, without what is not known by the period that reads."""
        return self.table if self.dates is None else self.table.mask(self.dates > self.place)

    def last_before(self, period: Any) -> Any:
        """Return the last period before this one of which an outcome is known; None without one."""
        known = self.table.columns[self.known.notna().any()]
        return max(known[: known.searchsorted(period)], default=None)

    def since(self, period: Any) -> Self:
        """Return what periods after this one may still read: it, and those of the window before it."""
        start = max(0, int(self.table.columns.searchsorted(period, side="right")) - WINDOW - self.purge)
        return replace(self, table=self.known.iloc[:, start:].dropna(how="all"), dates=None)

    @cached_property
    def _standardised(self) -> np.ndarray:
        return _standardised(self.table)

    @property
    def standardised(self) -> np.ndarray:
        """``(y_is − ȳ_s) / sd_s``, clipped to ±``CLIP``; zero where unknown."""
        if self.dates is not None:  # each period reads another table, which is not kept
            return _standardised(self.known)
        return self._standardised

    def _n_before(self, period: Any) -> int:
        """Return the number of periods of the table whose outcomes are known by a period, by their purge."""
        if period is None:
            return 0
        return max(0, int(self.table.columns.searchsorted(period)) - self.purge)

    def before(self, period: Any, firms: pd.Index, window: int = WINDOW) -> np.ndarray:
        """Return the last ``window`` standardised outcomes known before a period, (n, window), the latest last."""
        past = np.zeros((len(firms), window))
        end = self._n_before(period)
        start = max(0, end - window)
        if end > start:
            at = self.table.index.get_indexer(firms)
            past[at >= 0, window - (end - start) :] = self.standardised[at[at >= 0], start:end]
        return past

    def comovement(self, period: Any, firms: pd.Index, peers: pd.Index, window: int) -> np.ndarray:
        """Return √window times the cosine of the last ``window`` standardised outcomes of firms and peers, (n, n_peers)."""
        mine, theirs = (_of_length_one(self.before(period, each, window)) for each in (firms, peers))
        return math.sqrt(window) * mine @ theirs.T

    def own_past(self, sections: Sequence[CrossSection]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each focal firm's last known outcome in the window before its period, their mean, and their number, (n,) each.

        Zero where there is none.
        """
        self._check_label_kinds(sections)
        at, end = self._places(sections)
        if self.table.empty:
            return np.zeros(len(at)), np.zeros(len(at)), np.zeros(len(at))
        last, *running = self._running if self.dates is None else _running(self.known)
        total, n = (_in_window(each, end, at) for each in running)
        return np.where(n > 0, last[end, at], 0.0), total / np.maximum(n, 1), n

    def own_trend(self, sections: Sequence[CrossSection]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the linear trend of each focal firm's known outcomes in the window before its period, (n,) each.

        Its slope by period, the squared deviations of the periods it rests on (0 with fewer than three), and the time from their
        mean to the period itself.
        """
        at, end = self._places(sections)
        if self.table.empty:
            return np.zeros(len(at)), np.zeros(len(at)), np.zeros(len(at))
        now = np.array([self.table.columns.searchsorted(section.period) for section in sections])[section_numbers(sections)]
        y = self.known.to_numpy(float).T
        time = np.where(np.isfinite(y), np.arange(len(y))[:, None], 0.0)
        moments = (np.isfinite(y), time, time**2, np.nan_to_num(y), time * np.nan_to_num(y))
        n, sum_t, sum_tt, sum_y, sum_ty = (_in_window(_before_each(each.cumsum(axis=0)), end, at) for each in moments)
        mean = sum_t / np.maximum(n, 1)
        length = np.where(n >= FEWEST_FOR_A_TREND, sum_tt - n * mean**2, 0.0)
        slope = np.where(length > 0, (sum_ty - mean * sum_y) / np.maximum(length, 1e-12), 0.0)
        return slope, length, now - mean

    def _places(self, sections: Sequence[CrossSection]) -> tuple[np.ndarray, np.ndarray]:
        """Return of each focal row the firm's row in the table (−1: none), and how many periods are known by its period."""
        labels = [section.focal.label for section in sections]
        end = np.array([self._n_before(section.period) for section in sections])
        return self.table.index.get_indexer(labels[0].append(labels[1:])), end[section_numbers(sections)]

    @cached_property
    def _running(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _running(self.table)

    def components(self, period: Any, firms: pd.Index, window: int = WINDOW) -> tuple[np.ndarray, np.ndarray]:
        """Return the firms' past in the principal components of all firms' past, and the components' strengths.

        Each firm's past is first divided by its length (by √6 where it is shorter, so that few observations count less). The
        coordinates (n, window) come with ``log(λ_k / mean λ)`` (window,), λ the eigenvalues of ``H'H`` over all firms of the
        table; a rotation changes no inner product, and the strengths let those that many firms share count more. Of a shorter
        table there are as many components as periods: the others are zero.
        """
        n = min(window, self.table.shape[1])
        everyone = _of_length_one(self.before(period, self.table.index, n))
        # of all firms, so that the components of a call do not depend on who is in it
        moments, axes = np.linalg.eigh(everyone.T @ everyone)
        strength = np.log((moments / max(moments.sum() / window, 1e-12)).clip(1e-3))
        return _of_length_one(self.before(period, firms, n)) @ axes, strength


def of_tables(sections: Sequence[CrossSection]) -> Iterator[list[CrossSection]]:
    """Yield the cross-sections that see one table of the past: most often all; with dates of knowledge each has its own."""
    return (list(group) for _, group in groupby(sections, key=lambda section: id(section.past)))


def own_pasts(sections: Sequence[CrossSection]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return :meth:`History.own_past` of cross-sections, each of which sees its own table: (n,) each."""
    found = [group[0].past.own_past(group) for group in of_tables(sections)]
    last, mean, n = (np.concatenate(column) for column in zip(*found, strict=True))
    return last, mean, n


def _table(sections: Iterable[CrossSection], name: str) -> pd.DataFrame:
    """Return finite numbers of the rows of dated cross-sections by firm and period: of peers, and of firms not among them."""
    found = []
    for section in sections:
        for rows in (section.focal, section.peers):
            numbers = getattr(rows, name)
            # of several classes there is no one number to remember
            if section.period is None or numbers is None or numbers.ndim != 1:
                continue
            there = np.isfinite(numbers)
            if there.any():
                found.append(pd.Series(numbers[there], rows.label[there], name=section.period))
    if not found:
        return pd.DataFrame(np.zeros((0, 0)))
    firm, firms = pd.factorize(found[0].index.append([each.index for each in found[1:]]), sort=True)
    period, periods = pd.factorize(pd.Index([each.name for each in found]), sort=True)
    raw = np.full((len(firms), len(periods)), np.nan)
    raw[firm, period.repeat([len(each) for each in found])] = np.concatenate(found)
    return pd.DataFrame(raw, firms, periods)


def _dates_of(sections: Sequence[CrossSection], table: pd.DataFrame) -> pd.DataFrame | None:
    """Return the places of the periods from which the outcomes of a table are known; None where they have no dates."""
    dates = _table(sections, "known_from")
    if dates.empty:
        return None
    return dates.reindex_like(table)


def _standardised(table: pd.DataFrame) -> np.ndarray:
    """Return the outcomes of each period as standard deviations from their mean, zero where unknown, (F, T)."""
    # in single precision: of many firms and periods it is the largest array of a fit
    scaled = np.zeros(table.shape, dtype=np.float32)
    some = table.notna().any().to_numpy()
    raw = table.to_numpy(float)[:, some]
    mean = np.nanmean(raw, axis=0)
    spread = np.nanstd(raw, axis=0)
    deviations = (raw - mean) / np.where(spread > ROUNDING * np.abs(mean), spread, 1.0)
    scaled[:, some] = np.nan_to_num(np.clip(deviations, -CLIP, CLIP))
    return scaled


def _running(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the last known outcome, sum and number of known ones before each period, (T + 1, F) each."""
    y = table.to_numpy(float).T
    known = ~np.isnan(y)
    numbers = np.where(known, y, 0.0)
    # where none is known yet it is that of the first period, a zero
    latest = np.maximum.accumulate(np.where(known, np.arange(len(y))[:, None], 0), axis=0)
    last = np.take_along_axis(numbers, latest, axis=0)
    return _before_each(last), _before_each(numbers.cumsum(axis=0)), _before_each(known.cumsum(axis=0))


def _in_window(running: np.ndarray, end: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return sums over the window that ends before these periods, of sums (T + 1, F) before each, for these firms (−1: none)."""
    return np.where(at >= 0, running[end, at] - running[np.maximum(end - WINDOW, 0), at], 0.0)


def _before_each(values: ArrayLike) -> np.ndarray:
    """Return values (T, F) as they were before each period, (T + 1, F): nothing is known before the first."""
    return np.pad(np.asarray(values, dtype=float), ((1, 0), (0, 0)))


def _of_length_one(past: np.ndarray) -> np.ndarray:
    return past / np.sqrt(np.maximum((past**2).sum(axis=1, keepdims=True), FEW))
