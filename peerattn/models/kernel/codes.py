"""Codes as product kernels see them: levels, and for ordered codes their places on a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.models.kernel.local_regression import CodeKernel
from peerattn.panel.design import weighted_median
from peerattn.panel.panel import Panel


@dataclass(frozen=True)
class KernelCodes:
    """The codes of the training rows.

    Attributes
    ----------
    names : tuple
    levels : tuple of tuple of str
        Training levels of each code, in order.
    places : tuple of (tuple of float or None)
        Places of the levels of an ordered code: whole numbers themselves, ordered categories 0, 1, 2, ...; None = unordered.
    median : tuple of int
        Median level of an ordered code, taken where it is unknown.
    """

    names: tuple[Any, ...]
    levels: tuple[tuple[str, ...], ...]
    places: tuple[tuple[float, ...] | None, ...]
    median: tuple[int, ...]

    @classmethod
    def fit(cls, panel: Panel, ordered: Sequence[Any], weight: np.ndarray | None = None) -> KernelCodes:
        """Learn levels, places and medians from the training rows.

        Ordered are the ordered categories, and the columns named in ``ordered``, whose levels are then whole numbers.
        """
        levels = []
        places = []
        medians = []
        codes = panel.codes
        orders = dict.fromkeys(ordered, ()) | dict(panel.level_orders)
        for name in codes.columns:
            known = sorted(set(codes[name].dropna()))
            place: tuple[float, ...] | None = None
            if name in orders:
                known, place = _ordered(name, known, orders[name])
            middle = 0.0
            if place:
                at = _places(codes[name], known).astype(float)
                middle = np.nan_to_num(weighted_median(np.where(at < 0, np.nan, at), weight))
            levels.append(tuple(known))
            places.append(place)
            medians.append(int(middle))
        return cls(tuple(codes.columns), tuple(levels), tuple(places), tuple(medians))

    @property
    def kernels(self) -> tuple[CodeKernel, ...]:
        """The kernel of each code."""
        return tuple(CodeKernel(len(levels), place) for levels, place in zip(self.levels, self.places, strict=True))

    def transform(self, codes: pd.DataFrame) -> np.ndarray:
        """Return the level of each code, (n, c): −1 = unknown; unseen levels of unordered codes follow the training ones."""
        out = np.empty((len(codes), len(self.names)), dtype=np.int64)
        for column, name in enumerate(self.names):
            at = _places(codes[name], self.levels[column])
            if self.places[column] is not None:
                at = np.where(at < 0, self.median[column], at)
            else:
                # firms of one unseen level are alike
                new = (at < 0) & codes[name].notna().to_numpy()
                at[new] = len(self.levels[column]) + pd.factorize(codes[name][new])[0]
            out[:, column] = at
        return out


def _places(codes: pd.Series, levels: Sequence[Any]) -> np.ndarray:
    """Return the position of each code among the levels, −1 where it is none of them."""
    return pd.Index(levels, dtype=object).get_indexer(pd.Index(codes.astype(object)))


def _ordered(name: str, levels: list[str], order: tuple[str, ...]) -> tuple[list[str], tuple[float, ...]]:
    if order:
        return list(order), tuple(float(place) for place in range(len(order)))
    try:
        numbers = sorted(float(level) for level in levels)
    except ValueError as error:
        raise InputError(
            f"ordered: column {name!r} holds text, whose order is not known; make it an ordered category "
            "(pandas.Categorical(..., ordered=True))."
        ) from error
    return sorted(levels, key=float), tuple(numbers)
