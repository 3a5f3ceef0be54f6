"""The firms' own past outcomes: a table of firms and periods, of which a period sees what lies before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from peerattn.models.own.bounds import CLIP
from peerattn.models.pools import Section

WINDOW = 96  # past periods that a firm's history reaches back
FEW = 6.0  # squared length below which a firm's past counts less


@dataclass(frozen=True, eq=False)
class History:
    """Outcomes of firms (rows) and periods (columns, increasing); NaN where unknown.

    Examples
    --------
    >>> table = pd.DataFrame([[1.0, 5.0], [3.0, 3.0]], ["A", "B"], [2001, 2002])
    >>> History(table).before(2002, pd.Index(["B", "C"]), 3).tolist()  # the latest period last; 2002 itself is not seen
    [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    table: pd.DataFrame

    @classmethod
    def of(cls, sections: Iterable[Section]) -> History:
        """Return the known outcomes of dated cross-sections: of the peers, and of focal firms that are not among them."""
        known = [
            pd.Series(rows.y[there], rows.label[there], name=section.period)
            for section in sections
            for rows in (section.focal, section.peers)
            # of several classes there is no one number to remember
            if section.period is not None and rows.y is not None and rows.y.ndim == 1
            for there in [np.isfinite(rows.y)]
            if there.any()
        ]
        if not known:
            return cls(pd.DataFrame(np.zeros((0, 0))))
        firm, firms = pd.factorize(known[0].index.append([each.index for each in known[1:]]), sort=True)
        period, periods = pd.factorize(pd.Index([each.name for each in known]), sort=True)
        raw = np.full((len(firms), len(periods)), np.nan)
        raw[firm, period.repeat([len(each) for each in known])] = np.concatenate(known)
        return cls(pd.DataFrame(raw, firms, periods))

    def told(self, seen: Sequence[Section]) -> list[Section]:
        """Return cross-sections with what is known of the firms' past: this history, and the outcomes that they show."""
        later = History.of([section.unknown() for section in seen]).table
        new = later.loc[:, ~later.columns.isin(self.table.columns)]
        past = self if new.empty else History(_in_order(self.table, new))
        return [replace(section, past=past) for section in seen]

    def since(self, period: Any) -> History:
        """Return what periods after this one may still read: it, and those of the window before it."""
        start = max(0, int(self.table.columns.searchsorted(period, side="right")) - WINDOW)
        return History(self.table.iloc[:, start:].dropna(how="all"))

    @cached_property
    def standardised(self) -> np.ndarray:
        """``(y_is − ȳ_s) / sd_s``, clipped to ±``CLIP``; zero where unknown."""
        raw = self.table.to_numpy(float)
        known = np.isfinite(raw)
        n = np.maximum(known.sum(axis=0), 1)
        mean = np.nansum(raw, axis=0) / n
        deviation = np.where(known, raw - mean, 0.0)
        spread = np.sqrt((deviation**2).sum(axis=0) / n)
        scaled = deviation / np.where(spread > 1e-12 * np.abs(mean), spread, 1.0)
        return np.clip(scaled, -CLIP, CLIP).astype(np.float32)

    def before(self, period: Any, firms: pd.Index, window: int = WINDOW) -> np.ndarray:
        """Return the last ``window`` standardised outcomes strictly before a period, (n, window), the latest last."""
        return self._before(self.standardised, 0.0, period, firms, window)

    def _before(
        self, values: np.ndarray, unknown: float, period: Any, firms: pd.Index, window: int, purge: int = 0
    ) -> np.ndarray:
        past = np.full((len(firms), window), unknown)
        end = 0 if period is None else max(0, int(self.table.columns.searchsorted(period)) - purge)
        start = max(0, end - window)
        if end > start:
            at = self.table.index.get_indexer(firms)
            past[at >= 0, window - (end - start) :] = values[at[at >= 0], start:end]
        return past

    def own_past(
        self, sections: Sequence[Section], purge: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each focal firm's last known outcome in the window before its period, their mean, and their number, (n,) each.

        Outcomes of the last ``purge`` periods before it are not known by then. Zero where there is none.
        """
        raw, window = self.table.to_numpy(float), min(WINDOW, self.table.shape[1])
        found = [np.zeros((3, 0))]
        for section in sections:
            past = self._before(raw, np.nan, section.period, section.focal.label, window, purge)
            known = np.isfinite(past)
            n = known.sum(axis=1)
            latest = window - 1 - known[:, ::-1].argmax(axis=1) if window else n
            last = past[np.arange(len(n)), latest] if window else np.zeros(len(n))
            mean = np.nansum(past, axis=1) / np.maximum(n, 1)
            found.append(np.stack([np.where(n > 0, last, 0.0), mean, n]))
        last, mean, n = np.concatenate(found, axis=1)
        return last, mean, n

    def components(self, period: Any, firms: pd.Index, window: int = WINDOW) -> tuple[np.ndarray, np.ndarray]:
        """Return the firms' past in the principal components of all firms' past, and the components' strengths.

        Each firm's past is first divided by its length (by √6 where it is shorter, so that few observations count less). The
        coordinates (n, window) come with ``log(λ_k / mean λ)`` (window,), λ the eigenvalues of ``H'H`` over all firms of the
        table; a rotation changes no inner product, and the strengths let those that many firms share count more.
        """
        everyone = _of_length_one(self.before(period, self.table.index, window))
        moments, axes = np.linalg.eigh(everyone.T @ everyone)
        strength = np.log((moments / max(moments.mean(), 1e-12)).clip(1e-3))
        return _of_length_one(self.before(period, firms, window)) @ axes, strength


def _in_order(earlier: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """Return two tables beside each other, periods in order."""
    return later if earlier.empty else pd.concat([earlier, later], axis=1).sort_index(axis=1)


def _of_length_one(past: np.ndarray) -> np.ndarray:
    return past / np.sqrt(np.maximum((past**2).sum(axis=1, keepdims=True), FEW))
