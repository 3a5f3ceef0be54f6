"""Characteristics on one scale, learned on training rows or ranked within each cross-section."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, did_you_mean
from peerattn.panel.encoding import Imputation
from peerattn.panel.gate import Panel

SCALES = ("standard", "rank", None)


@dataclass(frozen=True)
class Scaling:
    """How characteristics are filled and scaled.

    Attributes
    ----------
    imputation : Imputation
        Fills what is missing; its missing-indicators stay 0 or 1.
    how : {"standard", "rank", None}
        ``"standard"``: mean 0 and standard deviation 1 over the training rows. ``"rank"``: the rank within the cross-section,
        from −1 to 1, a missing value in the middle (Gu, Kelly and Xiu 2020); on arrays the rank in the training distribution.
    center, spread : ndarray (p,)
        Mean and standard deviation of the training rows (0 and 1 unless ``how="standard"``).
    distributions : tuple of (ndarray, ndarray)
        Sorted training values and the share of rows up to each (``how="rank"`` on arrays only).

    References
    ----------
    Gu, S., Kelly, B. and Xiu, D. (2020), Empirical asset pricing via machine learning, Review of Financial Studies 33(5).
    """

    imputation: Imputation
    how: str | None
    center: np.ndarray
    spread: np.ndarray
    distributions: tuple[tuple[np.ndarray, np.ndarray], ...] = ()

    @classmethod
    def fit(cls, panel: Panel, how: str | None, weight: np.ndarray | None = None) -> Scaling:
        """Learn from training rows; ``weight`` are frequency weights."""
        if how not in SCALES:
            names = [str(name) for name in SCALES]
            raise InputError(f"scale must be one of {list(SCALES)}, got {how!r}.{did_you_mean(how, names)}")
        imputation = Imputation.fit(panel, weight)
        p = len(imputation.kept)
        x = imputation.transform(panel)[:, :p]
        if how == "standard" and p:
            center = np.average(x, axis=0, weights=weight)
            spread = np.sqrt(np.average((x - center) ** 2, axis=0, weights=weight))
            constant = spread <= 1e-12 * (1 + np.abs(center))
            return cls(imputation, how, center, np.where(constant, 1.0, spread))
        stored = how == "rank" and not panel.dated
        columns = panel.characteristics[list(imputation.kept)].to_numpy().T if stored else ()
        return cls(
            imputation,
            how,
            np.zeros(p),
            np.ones(p),
            tuple(_distribution(column, weight) for column in columns),
        )

    @property
    def names(self) -> list[str]:
        """Names of the columns that come out."""
        return self.imputation.names

    def transform(self, panel: Panel) -> np.ndarray:
        """Return scaled characteristics and missing-indicators, (n, p + indicators)."""
        filled = self.imputation.transform(panel)
        p = len(self.imputation.kept)
        if self.how != "rank":
            x = (filled[:, :p] - self.center) / self.spread
        elif self.distributions and not panel.dated:
            raw = panel.characteristics[list(self.imputation.kept)].to_numpy()
            x = np.stack(
                [_rank_in(column, *known) for column, known in zip(raw.T, self.distributions, strict=True)],
                axis=1,
            )
        else:
            x = cross_sectional_ranks(
                panel.characteristics[list(self.imputation.kept)], panel.period.to_numpy()
            )
        return np.concatenate([x, filled[:, p:]], axis=1)


def cross_sectional_ranks(frame: pd.DataFrame, period: Any) -> np.ndarray:
    """Return each value's rank among the known ones of its period, from −1 to 1; a missing value is 0.

    With ``r`` the rank (ties share their mean) among ``n`` known values: ``2 (r − ½) / n − 1``.

    >>> cross_sectional_ranks(pd.DataFrame({"size": [5.0, 7.0, None, 9.0]}), [1, 1, 1, 1]).round(3).T.tolist()
    [[-0.667, 0.0, 0.0, 0.667]]
    """
    groups = frame.groupby(np.asarray(period))
    rank, known = groups.rank().to_numpy(), groups.transform("count").to_numpy()
    return np.nan_to_num((2 * rank - 1) / np.maximum(known, 1) - 1)


def _distribution(column: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted known values, and the share of rows that are at most each of them."""
    known = np.isfinite(column)
    weight = np.ones(len(column)) if weight is None else weight
    values, at = np.unique(column[known], return_inverse=True)
    total = np.bincount(at, weight[known], len(values))
    return values, np.cumsum(total) / max(total.sum(), 1e-300)


def _rank_in(column: np.ndarray, values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return ``F(x−) + F(x) − 1``: the rank in a distribution, from −1 to 1; a missing value is 0."""
    cumulated = np.r_[0.0, share]
    below, upto = (cumulated[np.searchsorted(values, column, side=side)] for side in ("left", "right"))
    return np.where(np.isfinite(column), below + upto - 1, 0.0)
