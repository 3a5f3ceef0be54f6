"""The design: from a panel to a matrix of numbers, with a role for every column."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from peerattn.exceptions import DroppedColumnWarning, InputError, check_one_of, warn_user
from peerattn.panel.panel import Panel
from peerattn.scaling import centre_and_spread
from peerattn.types import LabelsLike

Role = Literal["characteristic", "missing", "level"]
SCALES = ("standard", "rank", None)


@dataclass(frozen=True)
class Column:
    """A column of the matrix.

    Attributes
    ----------
    name : str
        Unique in the matrix: ``size``, ``size_missing``, ``sic=0100``; a name that is taken is numbered, ``size_missing (2)``.
    role : {"characteristic", "missing", "level"}
        A characteristic, the indicator that one was missing, or a level of a code.
    source : object
        Name of the column of the panel that it was made of.
    level : str or None
    """

    name: str
    role: Role
    source: Any
    level: str | None = None


@dataclass(frozen=True)
class Design:
    """How characteristics and codes become numbers, learned on training rows.

    A missing value takes the median of its cross-section; where a period has none, the training median. Characteristics with
    missing training values get an indicator; those without any training value are dropped. Codes become their training levels
    (0 = unknown or never seen).

    Attributes
    ----------
    scale : {"standard", "rank", None}
        ``"standard"``: mean 0 and standard deviation 1 over the training rows. ``"rank"``: the rank within the cross-section,
        from −1 to 1, a missing value in the middle (Gu, Kelly and Xiu 2020); on arrays the rank in the training distribution.
        Indicators and levels stay 0 or 1.
    characteristics : tuple
        Names of the characteristics kept.
    indicated : tuple
        Those with an indicator.
    medians, center, spread : ndarray (p,)
        Of the training rows; center and spread are 0 and 1 unless ``scale="standard"``.
    distributions : tuple of (ndarray, ndarray)
        Sorted training values and the share of rows up to each (``scale="rank"`` on arrays only).
    levels : dict
        Training levels of each code, in alphabetical order.

    References
    ----------
    Gu, S., Kelly, B. and Xiu, D. (2020), Empirical asset pricing via machine learning, Review of Financial Studies 33(5).

    Examples
    --------
    >>> from peerattn.panel import as_panel
    >>> panel = as_panel(pd.DataFrame({"size": [1.0, None, 3.0], "sic": ["3711", "0100", None]}))
    >>> design = Design.fit(panel)
    >>> design.names, design.transform(panel).tolist()
    (['size', 'size_missing', 'sic=0100', 'sic=3711'], [[1.0, 0.0, 0.0, 1.0], [2.0, 1.0, 1.0, 0.0], [3.0, 0.0, 0.0, 0.0]])
    >>> [column.role for column in design.columns]
    ['characteristic', 'missing', 'level', 'level']
    """

    scale: str | None
    characteristics: tuple[Any, ...]
    indicated: tuple[Any, ...]
    medians: np.ndarray
    center: np.ndarray
    spread: np.ndarray
    distributions: tuple[tuple[np.ndarray, np.ndarray], ...]
    levels: dict[Any, tuple[str, ...]]

    @classmethod
    def fit(
        cls,
        panel: Panel,
        *,
        scale: str | None = None,
        weight: np.ndarray | None = None,
        characteristics: Sequence[Any] | None = None,
        without: Sequence[Any] = (),
    ) -> Self:
        """Learn from training rows.

        Parameters
        ----------
        panel : Panel
        scale : {"standard", "rank", None}, default None
        weight : ndarray (n,), optional
            Positive frequency weights.
        characteristics : sequence, optional
            Those to use; by default all.
        without : sequence, default ()
            Codes to leave out.
        """
        check_one_of(scale=(scale, SCALES))
        frame = panel.characteristics
        if characteristics is not None:
            frame = frame[list(characteristics)]
        codes = panel.codes.drop(columns=list(without))
        known, gaps = (each.any().to_numpy() for each in (frame.notna(), frame.isna()))
        if not known.all():
            message = f"no training value at all in {', '.join(map(repr, frame.columns[~known]))}: left out."
            warn_user(DroppedColumnWarning(message))
        if not known.any() and not codes.shape[1]:
            raise InputError("X has no characteristic with a known training value, and no code; pass at least one of them.")
        # a gap may tell something by itself: a firm without R&D, say
        indicated = frame.columns[known & gaps]
        frame = frame.loc[:, known]
        p = frame.shape[1]
        columns = frame.to_numpy(dtype=float).T
        design = cls(
            scale,
            tuple(frame.columns),
            tuple(indicated),
            np.array([weighted_median(column, weight) for column in columns]),
            center=np.zeros(p),
            spread=np.ones(p),
            distributions=(),
            levels={name: tuple(sorted(set(codes[name].dropna()))) for name in codes.columns},
        )
        if scale == "rank" and not panel.dated:
            # without periods a rank is that in the training rows, which are therefore kept
            return replace(design, distributions=tuple(_distribution(column, weight) for column in columns))
        if scale != "standard" or not p:
            return design
        center, spread = centre_and_spread(design.filled(panel), weight=weight)
        return replace(design, center=center, spread=spread)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the matrix: characteristics, indicators, levels."""
        made = [Column(str(name), "characteristic", name) for name in self.characteristics]
        made += [Column(f"{name}_missing", "missing", name) for name in self.indicated]
        for name, known in self.levels.items():
            made += [Column(f"{name}={level}", "level", name, level) for level in known]
        names = unique_names([column.name for column in made])
        return tuple(replace(column, name=name) for column, name in zip(made, names, strict=True))

    @property
    def names(self) -> list[str]:
        """Names of the matrix's columns."""
        return [column.name for column in self.columns]

    @property
    def number_names(self) -> list[str]:
        """Names of the columns of :meth:`numbers`."""
        return [column.name for column in self.columns if column.role != "level"]

    def transform(self, panel: Panel) -> np.ndarray:
        """Return the matrix, (n, q): characteristics and indicators, then one column a level."""
        return np.concatenate([self.numbers(panel), one_hot(self.integers(panel), self.levels)], axis=1)

    def numbers(self, panel: Panel) -> np.ndarray:
        """Return scaled characteristics and their indicators, (n, p + indicators)."""
        indicators = panel.characteristics[list(self.indicated)].isna().to_numpy(dtype=float)
        frame = panel.characteristics[list(self.characteristics)]
        if self.scale != "rank":
            scaled = (self.filled(panel) - self.center) / self.spread
        elif panel.dated or not self.distributions:
            scaled = cross_sectional_ranks(frame, panel.period.to_numpy())
        else:
            pairs = zip(frame.to_numpy().T, self.distributions, strict=True)
            scaled = np.stack([_rank_in(column, *known) for column, known in pairs], axis=1)
        return np.concatenate([scaled, indicators], axis=1)

    def integers(self, panel: Panel) -> np.ndarray:
        """Return each code as the number of its level, from 1; 0 = unknown, below: a level without training rows, (n, c)."""
        columns = [_level_numbers(panel.codes[name].astype(object), levels) for name, levels in self.levels.items()]
        return np.array(columns, dtype=np.int64).reshape(len(columns), len(panel)).T

    def filled(self, panel: Panel) -> np.ndarray:
        """Return the characteristics as they are, without gaps, (n, p)."""
        frame = panel.characteristics[list(self.characteristics)]
        values = frame.to_numpy(dtype=float)  # of float32, mapped from a file, medians would be others
        missing = np.isnan(values)
        if not missing.any():
            return values
        fill = np.broadcast_to(self.medians, values.shape).copy()
        # the median of the firms of its period is nearer to a missing value than that of all years
        if panel.dated:
            columns = missing.any(axis=0)
            gaps = frame.loc[:, columns].astype(float)
            medians = gaps.groupby(panel.period.to_numpy()).transform("median").to_numpy()
            fill[:, columns] = np.where(np.isnan(medians), fill[:, columns], medians)
        return np.where(missing, fill, values)


def _level_numbers(labels: pd.Series, levels: Sequence[str]) -> np.ndarray:
    """Return the number of each label's level; of a new one a negative number that is the same in every call."""
    number = pd.Index(list(levels), dtype=object).get_indexer(pd.Index(labels)) + 1
    new = (number == 0) & labels.notna().to_numpy()
    # 62 bits of a hash: firms of one new industry are known to be of one, in whatever call they come
    number[new] = -1 - (pd.util.hash_array(labels[new].to_numpy(dtype=object)) >> np.uint64(2)).astype(np.int64)
    return number


def one_hot(integers: np.ndarray, levels: dict[Any, tuple[str, ...]]) -> np.ndarray:
    """Return one column a level, (n, number of levels); zeros for an unknown code."""
    blocks = [integers[:, [c]] == np.arange(1, len(known) + 1) for c, known in enumerate(levels.values())]
    return np.concatenate([np.empty((len(integers), 0)), *blocks], axis=1)


def unique_names(wanted: Sequence[str]) -> list[str]:
    """Return names that differ from each other; earlier ones stay as they are.

    >>> unique_names(["a", "a_missing", "a_missing"])
    ['a', 'a_missing', 'a_missing (2)']
    """
    names: dict[str, None] = {}
    for name in wanted:
        if name in names:
            numbered = (f"{name} ({k})" for k in count(2))
            name = next(other for other in numbered if other not in names and other not in wanted)
        names[name] = None
    return list(names)


def weighted_median(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the median of the known values, each counted ``weights`` times.

    >>> weighted_median(np.array([1.0, 2.0, np.nan]), np.array([1, 2, 5]))
    2.0
    """
    if weights is None:
        weights = np.ones(len(values))
    known = np.isfinite(values) & (weights > 0)
    if not known.any():
        return np.nan
    order = np.argsort(values[known], kind="stable")
    ordered = values[known][order]
    cumulated = np.cumsum(weights[known][order])
    middle = (cumulated[-1] - 1) / 2
    at = np.searchsorted(cumulated, [np.floor(middle), np.ceil(middle)], side="right")
    return float(ordered[np.minimum(at, len(ordered) - 1)].mean())


def cross_sectional_ranks(frame: pd.DataFrame, period: LabelsLike) -> np.ndarray:
    """Return each value's rank among the known ones of its period, from −1 to 1; a missing value is 0.

    With ``r`` the rank (ties share their mean) among ``n`` known values: ``2 (r − ½) / n − 1``.

    >>> cross_sectional_ranks(pd.DataFrame({"size": [5.0, 7.0, None, 9.0]}), [1, 1, 1, 1]).round(3).T.tolist()
    [[-0.667, 0.0, 0.0, 0.667]]
    """
    groups = frame.groupby(np.asarray(period))
    rank = groups.rank().to_numpy()
    known = groups.transform("count").to_numpy()
    return np.nan_to_num((2 * rank - 1) / np.maximum(known, 1) - 1)


def _distribution(column: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted known values, and the share of rows that are at most each of them."""
    known = np.isfinite(column)
    if weight is None:
        weight = np.ones(len(column))
    values, at = np.unique(column[known], return_inverse=True)
    total = np.bincount(at, weight[known], len(values))
    return values, np.cumsum(total) / max(total.sum(), 1e-300)


def _rank_in(column: np.ndarray, values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return ``F(x−) + F(x) − 1``: the rank in a distribution, from −1 to 1; a missing value is 0."""
    cumulated = np.r_[0.0, share]
    below, upto = (cumulated[np.searchsorted(values, column, side=side)] for side in ("left", "right"))
    return np.where(np.isfinite(column), below + upto - 1, 0.0)
