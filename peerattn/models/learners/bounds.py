"""How far beyond the training rows a straight line is extrapolated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

CLIP = 4.0  # standard deviations that a characteristic or a past outcome counts for at most


@dataclass(frozen=True)
class Bounds:
    """The training range of each characteristic, extended by its own length on both sides.

    A value beyond them counts as the bound: lines are extrapolated to where a trend may lead, not to where only a ratio with a
    denominator near zero does. Training rows are never changed.

    Attributes
    ----------
    low, high : ndarray (p,)

    Examples
    --------
    >>> Bounds.of([np.array([[0.0], [2.0]])]).clip(np.array([[3.0], [900.0], [-5.0]])).tolist()
    [[3.0], [4.0], [-2.0]]
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, blocks: Iterable[np.ndarray]) -> Bounds:
        """Return the bounds that these blocks of training rows, (n, p) each, set."""
        rows = np.concatenate(list(blocks))
        low = rows.min(axis=0, initial=np.inf)
        high = rows.max(axis=0, initial=-np.inf)
        return cls(low - (high - low), high + (high - low))

    def clip(self, x: np.ndarray) -> np.ndarray:
        """Return the rows, (n, p), no value beyond its bound."""
        return x.clip(self.low, self.high)
