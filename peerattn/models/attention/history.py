"""The firms' own past outcomes: a table of firms and periods, of which a period sees what lies before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.models.pools import Section

WINDOW = 96  # past periods that a firm's history reaches back
CLIP = 4.0  # standard deviations of the period
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

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> past = History(pd.Index(["A", "B"]), pd.Index([2001, 2002]), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    >>> past.before(2002, pd.Index(["B", "C"]), 3).tolist()  # the latest period last; 2002 itself is not seen
    [[0.0, 0.0, -1.0], [0.0, 0.0, 0.0]]
    """

    firms: pd.Index
    periods: pd.Index
    values: np.ndarray

    @classmethod
    def of(cls, sections: Iterable[Section]) -> History:
        """Return the known outcomes of dated cross-sections: of the peers, and of focal firms that are not among them."""
        columns: dict[Any, pd.Series] = {}
        for section in sections:
            if section.period is None:
                continue
            known: dict[Any, float] = {}
            for rows in (section.focal, section.peers):
                if rows.y is not None:
                    known.update(
                        zip(rows.label[np.isfinite(rows.y)], rows.y[np.isfinite(rows.y)], strict=True)
                    )
            y = pd.Series(known, dtype=float)
            spread = float(y.std(ddof=0)) if len(y) else 0.0
            if spread > 0:
                columns[section.period] = ((y - y.mean()) / spread).clip(-CLIP, CLIP)
        table = pd.DataFrame(columns).sort_index(axis=1).fillna(0.0)
        return cls(table.index, table.columns, table.to_numpy(np.float32))

    def joined(self, later: History) -> History:
        """Return this history with the periods of another one; where both have a period, this one's is kept."""
        tables = [pd.DataFrame(h.values, h.firms, h.periods) for h in (self, later)]
        new = tables[1].loc[:, ~tables[1].columns.isin(self.periods)]
        if not len(new.columns):
            return self
        table = (
            pd.concat([tables[0], new], axis=1).sort_index(axis=1).fillna(0.0) if len(self.periods) else new
        )
        return History(table.index, table.columns, table.to_numpy(np.float32))

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
        kept = self.values[:, start:]
        there = np.flatnonzero(kept.any(axis=1))
        return History(self.firms[there], self.periods[start:], kept[there])

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


def _of_length_one(past: np.ndarray) -> np.ndarray:
    return past / np.sqrt(np.maximum((past**2).sum(axis=1, keepdims=True), FEW))
