"""The firms' own past outcomes: a table of firms and periods, of which a period sees what lies before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from peerattn.models.attention.bounds import CLIP
from peerattn.models.pools import Section

WINDOW = 96  # past periods that a firm's history reaches back
FEW = 6.0  # squared length below which a firm's past counts less


@dataclass(frozen=True)
class History:
    """Outcomes standardised within their period and clipped; zero where unknown.

    Attributes
    ----------
    firms : pandas.Index (F,)
        Firm labels.
    periods : pandas.Index (T,)
        Period labels, increasing.
    values : ndarray (F, T)
        ``(y_is − ȳ_s) / sd_s``, clipped to ±4.
    raw : ndarray (F, T)
        ``y_is`` itself, NaN where unknown.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> table = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> past = History(pd.Index(["A", "B"]), pd.Index([2001, 2002]), table, table)
    >>> past.before(2002, pd.Index(["B", "C"]), 3).tolist()  # the latest period last; 2002 itself is not seen
    [[0.0, 0.0, -1.0], [0.0, 0.0, 0.0]]
    """

    firms: pd.Index
    periods: pd.Index
    values: np.ndarray
    raw: np.ndarray

    @classmethod
    def of(cls, sections: Iterable[Section]) -> History:
        """Return the known outcomes of dated cross-sections: of the peers, and of focal firms that are not among them."""
        known = [
            (section.period, rows.label[there], rows.y[there])
            for section in sections
            for rows in (section.focal, section.peers)
            # of several classes there is no one number to remember
            if section.period is not None and rows.y is not None and rows.y.ndim == 1
            for there in [np.isfinite(rows.y)]
            if there.any()
        ]
        if not known:
            return cls(pd.Index([]), pd.Index([]), np.zeros((0, 0), np.float32), np.zeros((0, 0)))
        labels = known[0][1].append([label for _, label, _ in known[1:]])
        firm, firms = pd.factorize(labels, sort=True)
        period, periods = pd.factorize(pd.Index([period for period, *_ in known]), sort=True)
        raw = np.full((len(firms), len(periods)), np.nan)
        raw[firm, period.repeat([len(y) for *_, y in known])] = np.concatenate([y for *_, y in known])
        return cls(firms, periods, _standardised(raw).astype(np.float32), raw)

    def joined(self, later: History) -> History:
        """Return this history with the periods of another one; where both have a period, this one's is kept."""
        new = ~later.periods.isin(self.periods)
        if not new.any():
            return self
        if not len(self.periods):
            return later

        def both(mine: np.ndarray, theirs: np.ndarray) -> pd.DataFrame:
            tables = [
                pd.DataFrame(mine, self.firms, self.periods),
                pd.DataFrame(theirs[:, new], later.firms, later.periods[new]),
            ]
            return pd.concat(tables, axis=1).sort_index(axis=1)

        values, raw = both(self.values, later.values).fillna(0.0), both(self.raw, later.raw)
        raw = raw.reindex(index=values.index)
        return History(values.index, values.columns, values.to_numpy(np.float32), raw.to_numpy(float))

    def before(self, period: Any, firms: pd.Index, window: int = WINDOW) -> np.ndarray:
        """Return the last ``window`` periods strictly before this one, (n, window), the latest last."""
        past = np.zeros((len(firms), window))
        end = 0 if period is None else int(self.periods.searchsorted(period))
        start = max(0, end - window)
        at = self.firms.get_indexer(firms)
        if end > start:
            past[at >= 0, window - (end - start) :] = self.values[at[at >= 0], start:end]
        return past

    def since(self, period: Any) -> History:
        """Return what periods after this one may still read: it, and those of the window before it."""
        start = max(0, int(self.periods.searchsorted(period, side="right")) - WINDOW)
        raw = self.raw[:, start:]
        there = np.flatnonzero(np.isfinite(raw).any(axis=1))
        return History(self.firms[there], self.periods[start:], self.values[there, start:], raw[there])

    def own_past(
        self, sections: Sequence[Section], purge: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each focal firm's last known outcome in the window before its period, their mean, and their number, (n,) each.

        Outcomes of the last ``purge`` periods before it are not known by then. Zero where there is none.
        """
        firms = [section.focal.label for section in sections]
        ends = [0 if s.period is None else int(self.periods.searchsorted(s.period)) - purge for s in sections]
        end = np.repeat(np.maximum(ends, 0), [len(each) for each in firms])
        at, start = self.firms.get_indexer(firms[0].append(firms[1:])), np.maximum(end - WINDOW, 0)
        if not len(self.firms):
            return np.zeros(len(at)), np.zeros(len(at)), np.zeros(len(at))
        last, total, count = self._running
        n, sum_ = (np.where(at >= 0, table[end, at] - table[start, at], 0.0) for table in (count, total))
        return np.where(n > 0, last[end, at], 0.0), sum_ / np.maximum(n, 1), n

    @cached_property
    def _running(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Last known outcome, sum and number of known ones before each period, (T + 1, F)."""
        table = self.raw.T
        known = np.isfinite(table)
        latest = np.maximum.accumulate(np.where(known, np.arange(1, len(table) + 1)[:, None], 0), axis=0)
        padded = np.vstack([np.zeros((1, table.shape[1])), np.nan_to_num(table)])
        start = np.zeros((1, table.shape[1]), dtype=int)
        last = np.take_along_axis(padded, np.vstack([start, latest]), axis=0)
        return last, np.cumsum(padded, axis=0), np.vstack([start, np.cumsum(known, axis=0)])

    def components(self, period: Any, firms: pd.Index, window: int = WINDOW) -> tuple[np.ndarray, np.ndarray]:
        """Return the firms' past in the principal components of all firms' past, and the components' strengths.

        Each firm's past is first divided by its length (by √6 where it is shorter, so that few observations count less). The
        coordinates (n, window) come with ``log(λ_k / mean λ)`` (window,), λ the eigenvalues of ``H'H`` over all firms of the
        table; a rotation changes no inner product, and the strengths let those that many firms share count more.
        """
        everyone = _of_length_one(self.before(period, self.firms, window))
        moments, axes = np.linalg.eigh(everyone.T @ everyone)
        strength = np.log((moments / max(moments.mean(), 1e-12)).clip(1e-3))
        return _of_length_one(self.before(period, firms, window)) @ axes, strength


def _standardised(raw: np.ndarray) -> np.ndarray:
    """Return outcomes less the mean of their period, in its standard deviations, at most ``CLIP``; zero where unknown."""
    known = np.isfinite(raw)
    n = known.sum(axis=0)
    mean = np.nansum(raw, axis=0) / n
    deviation = np.where(known, raw - mean, 0.0)
    spread = np.sqrt((deviation**2).sum(axis=0) / n)
    return np.clip(deviation / np.where(spread > 1e-12 * np.abs(mean), spread, 1.0), -CLIP, CLIP)


def _of_length_one(past: np.ndarray) -> np.ndarray:
    return past / np.sqrt(np.maximum((past**2).sum(axis=1, keepdims=True), FEW))
