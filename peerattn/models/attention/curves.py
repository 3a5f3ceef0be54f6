"""A curve of each characteristic, linear between the quartiles of its ranks: what a straight line leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerattn.processes import mean_of, of_columns

KNOTS = (0.25, 0.5, 0.75)  # ranks at which the slope may change
MOST_VALUES = 200  # distinct values whose ranks are kept; between them ranks are interpolated


@dataclass(frozen=True)
class Curves:
    r"""Columns in which a curve of every characteristic is linear.

    For a characteristic with training ranks :math:`r \in [0, 1]` (mid-ranks, linear between known values, constant beyond
    them) they are :math:`r, (r - 1/4)_+, (r - 1/2)_+, (r - 3/4)_+`, each scaled to unit variance. A rank bounds what an
    outlier can say.

    Attributes
    ----------
    values, ranks : tuple of ndarray
        For each characteristic, distinct training values in increasing order, and their ranks.
    center, spread : ndarray (q,)
        Mean and standard deviation of the columns over the training rows.
    """

    values: tuple[np.ndarray, ...]
    ranks: tuple[np.ndarray, ...]
    center: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, weight: np.ndarray) -> Curves:
        """Return the columns' scales for these training rows (n, p) and weights (n,): a weight of 2 equals a repeated row."""
        tables = of_columns(_mid_ranks, x.T, weight)
        values, ranks = (tuple(part) for part in zip(*tables, strict=True)) if tables else ((), ())
        width = x.shape[1] * (1 + len(KNOTS))
        unscaled = cls(values, ranks, np.zeros(width), np.ones(width)).columns(x)
        center = mean_of(unscaled, weight)
        spread = np.sqrt(mean_of((unscaled - center) ** 2, weight))
        return cls(values, ranks, center, np.where(spread > 1e-9, spread, np.inf))

    def columns(self, x: np.ndarray) -> np.ndarray:
        """Return the columns of these rows, (n, q)."""
        r = np.empty(x.shape)
        for k, (values, ranks) in enumerate(zip(self.values, self.ranks, strict=True)):
            r[:, k] = np.interp(x[:, k], values, ranks)
        columns = np.concatenate([r, *((r - knot).clip(0) for knot in KNOTS)], axis=1)
        scaled: np.ndarray = (columns - self.center) / self.spread
        return scaled


def _mid_ranks(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct values and the share of weight below each, half of its own included."""
    values, at = np.unique(x, return_inverse=True)
    own = np.bincount(at, weight) / weight.sum()
    ranks = own.cumsum() - own / 2
    kept = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_VALUES)).round().astype(int))
    return values[kept], ranks[kept]
