"""The panel: firms, periods, characteristics, codes and the outcome, aligned once and passed on as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, reworded
from peerattn.foreign_text import visible
from peerattn.panel.codes import canonical_codes
from peerattn.panel.columns import ColumnChoice, check_known, is_number, no_numbers
from peerattn.panel.frames import as_pandas
from peerattn.panel.labels import panel_labels, periods_before, starting_by
from peerattn.panel.time_order import in_time
from peerattn.panel.words import read_numbers
from peerattn.types import LabelsLike, OutcomesLike


@dataclass(frozen=True, repr=False, eq=False)
class Panel:
    """A checked panel; made by :func:`as_panel` or :func:`read_panel`, accepted wherever a frame is.

    All its attributes have the rows in one order, that in which they came in, so that a mask made of one fits the others:
    ``panel.X[panel.period < 2016]``. Estimators work on :meth:`arranged` rows.

    Attributes
    ----------
    characteristics : DataFrame (n, p) of float64
        NaN = missing, never infinite.
    codes : DataFrame (n, c) of strings
        NA = unknown.
    outcomes : ndarray (n,) or None
        NaN = unknown.
    firm : Index (n,) or None
        None for arrays, which carry no labels.
    period : Index (n,)
        Integers, timestamps, periods or text, whose order is that of time (see ``in_time``); one constant where undated.
    dated : bool
    order : ndarray (n,)
        ``order[k]`` is the position, in what came in, of the panel's row k; only :meth:`arranged` changes it.
    index : Index (n,)
        Of the frame that came in.
    columns : tuple
        Names of the characteristics and codes, in the order they came in.
    names : (str, str)
        Names of the firm and period labels in what came in.
    choice : ColumnChoice
        Which columns are characteristics and codes, and why others were left out.
    outcome : str
        Name of the outcome.
    weights : dict of str to ndarray (n,)
    known_at : Index (n,) or None
        When each outcome is known.
    level_orders : dict
        Levels, in order, of the codes that are ordered categories.
    industry : str or None
        The code column that baselines average over.
    description : str, default ""
    caution : str
        A sentence that reports show with their finding: how the panel was chosen, for example.
    examined : bool
        Whether it was looked through: for leaks, constants, and codes that name nearly every firm.

    Examples
    --------
    >>> from peerattn import simulate_panel
    >>> panel = simulate_panel(10, 3, 2, n_industries=2, random_state=0)
    >>> len(panel), panel.X.shape
    (30, (30, 3))
    >>> panel.before(panel.network.periods[-1]).X.shape
    (20, 3)
    """

    characteristics: pd.DataFrame
    codes: pd.DataFrame
    outcomes: np.ndarray | None
    firm: pd.Index | None
    period: pd.Index
    dated: bool
    order: np.ndarray
    index: pd.Index
    columns: tuple[Any, ...]
    names: tuple[str, str]
    choice: ColumnChoice
    outcome: str = "outcome"
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    known_at: pd.Index | None = None
    level_orders: Mapping[Any, tuple[str, ...]] = field(default_factory=dict)
    industry: Any = None
    description: str = ""
    caution: str = ""
    examined: bool = False

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def labels(self) -> pd.MultiIndex:
        """Firm and period of each row."""
        assert self.firm is not None
        return pd.MultiIndex.from_arrays([self.firm, self.period], names=["firm", "period"])

    @cached_property
    def X(self) -> pd.DataFrame:
        """Characteristics and codes, indexed by (firm, period) where there are labels."""
        both = pd.concat([self.characteristics, self.codes], axis=1)
        if tuple(both.columns) != self.columns:
            both = both[list(self.columns)]
        return both.set_axis(self._rows)

    @property
    def _rows(self) -> pd.Index:
        """The index of ``X``."""
        if self.firm is None:
            return self.index[self.order]
        return self.labels

    @cached_property
    def y(self) -> pd.Series:
        """The outcome on the index of ``X``; NaN where unknown."""
        return pd.Series(self.outcomes, index=self._rows, name=self.outcome, dtype=float)

    def before(self, period: LabelsLike) -> Panel:
        """Return the rows of earlier periods; outcomes not known (``known_at``) by the first of the others are NaN there.

        Parameters
        ----------
        period : object
            Of the type of the periods, or a date as text: ``"2012-06"`` means the beginning of that June.

        Raises
        ------
        InputError
            Where no period is earlier, or the two cannot be compared.

        Examples
        --------
        >>> from peerattn import load_grunfeld
        >>> panel = load_grunfeld()
        >>> int(panel.before(1950).period.max()), int(panel.since(1950).period.min())
        (1949, 1950)
        """
        past = periods_before(self.period, period)
        earlier = self._some(past, f"before {period}")
        if earlier.known_at is None or earlier.outcomes is None:
            return earlier
        # what is dated earlier may be announced after the first period that is left, which is predicted
        origin = min(self.period[~past].unique(), default=period)
        known = np.asarray(earlier.known_at.notna())  # what has no date is never known
        if known.any():
            known[known] = starting_by(in_time(earlier.known_at[known].infer_objects(), "known_at", check=False), origin)
        return replace(earlier, outcomes=np.where(known, earlier.outcomes, np.nan))

    def since(self, period: LabelsLike) -> Panel:
        """Return the rows of this period and later ones: all that :meth:`before` leaves out."""
        return self._some(~periods_before(self.period, period), f"since {period}")

    def _some(self, rows: np.ndarray, when: str) -> Panel:
        if not self.dated:
            raise InputError(f"the panel carries no period, so that no row is {when}: index it by firm and period.")
        if not rows.any():
            raise InputError(f"period: no row is {when}; the panel has {self.period.min()} to {self.period.max()}.")
        return self.take(np.flatnonzero(rows))

    def cross_sections(self) -> Iterator[tuple[Any, slice]]:
        """Yield each period's label and its rows, in order of time; of :meth:`arranged` rows."""
        if not self.period.is_monotonic_increasing:
            raise InputError("cross_sections: the rows are not in the order of time; call it on panel.sorted().")
        starts = np.flatnonzero(np.r_[True, self.period[1:] != self.period[:-1]]).tolist()
        for start, stop in zip(starts, [*starts[1:], len(self)], strict=True):
            yield self.period[start], slice(start, stop)

    def restore(self, values: np.ndarray) -> np.ndarray:
        """Put values of rows, (n,) or (n, k), into the order the rows came in."""
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def take(self, at: np.ndarray) -> Panel:
        """Return some rows, as if no others had come in."""
        given: dict[str, Any] = {name: getattr(self, name) for name in ("outcomes", "firm", "period", "known_at")}
        index = self._rows[at]
        if isinstance(index, pd.MultiIndex):
            index = index.remove_unused_levels()
        return replace(
            self,
            # of float32, mapped from a file, means and medians would be others
            characteristics=self.characteristics.iloc[at].reset_index(drop=True).astype(float),
            codes=self.codes.iloc[at].reset_index(drop=True),
            order=np.arange(len(index)),
            index=index,
            weights={name: values[at] for name, values in self.weights.items()},
            **{name: held[at] for name, held in given.items() if held is not None},
        )

    @cached_property
    def _ranks(self) -> np.ndarray:
        """Return the order of the rows by period, then firm."""
        if self.firm is None:
            return np.arange(len(self))
        return np.lexsort([pd.factorize(side, sort=True)[0] for side in (self.firm, self.period)])

    def arranged(self) -> Panel:
        """Return the panel with its rows sorted by period and firm; :meth:`restore` puts values back as the rows came in."""
        by = self._ranks
        if (by[1:] > by[:-1]).all():  # no copy of what may be larger than memory
            return self
        return replace(self.take(by), order=self.order[by], index=self.index)

    def sorted(self) -> Panel:
        """Return the panel as if its rows had come in sorted by period and firm."""
        arranged = self.arranged()
        if arranged is self and list(self.index.names) == ["firm", "period"]:
            return self
        return arranged.take(np.arange(len(self)))

    def align(self, values: object, name: str) -> np.ndarray:
        """Return one number a row, in the panel's order.

        Parameters
        ----------
        values : Series, one-column frame or array-like, (n,)
            Aligned by label when it has firm and period in its index, by position otherwise.
        name : str
            The argument's name, for messages.

        Raises
        ------
        InputError
            When labels differ (three are shown) or can be read in two ways, or the length differs.
        """
        values = as_pandas(values)
        if isinstance(values, pd.DataFrame):
            values = values.squeeze(axis=1)
        at = self.positions(values, name)
        if isinstance(values, str):
            raise InputError(f"{name} is the text {values!r}: pass the column itself, and X without it.")
        numbers = floats(values, f"{name} must hold numbers")
        if numbers.shape == (len(self), 1):
            numbers = numbers[:, 0]
        if numbers.shape != (len(self),):
            raise InputError(f"{name} has shape {numbers.shape}, but X has {len(self)} rows: pass one value for each row.")
        return numbers[at]

    def positions(self, values: object, name: str) -> np.ndarray:
        """Return the position of the value of each of the panel's rows."""
        if self.firm is None or not isinstance(values, pd.Series):
            return self.order
        have = values.index
        if have.nlevels == 2:
            return self._positions_by_label(values, name)
        comparable = len(have) == len(self.index) and have.nlevels == self.index.nlevels and have.is_unique
        # labels in another order are meant to be matched; that a position would do it wrongly is an error
        if comparable and not have.equals(self.index) and (have.get_indexer(self.index) >= 0).all():
            remedy = f"{name}.loc[X.index] puts them in order; pass an array to match by position."
            raise InputError(f"{name} carries the index labels of X in another order: {remedy}")
        return self.order

    def _positions_by_label(self, values: pd.Series, name: str) -> np.ndarray:
        names = list(values.index.names)
        if names == [None, None]:
            # without names either level may be the firm: both readings are tried
            readings: list[Any] = [values.index, values.swaplevel().index]
        elif ours := [each for each in (self.names, ("firm", "period")) if set(names) == {*each}]:
            labels = panel_labels(values, *ours[0])
            assert labels is not None
            readings = [labels.pairs]
        else:
            raise InputError(f"{name} has index levels {names}, but X's labels are {list(self.names)}: use the same names.")
        for have in readings:
            twice = have[have.duplicated()].unique()
            if len(twice):
                raise InputError(f"{name} has duplicated (firm, period) labels, such as {_pairs(twice)}.")
        found = [have.get_indexer(self.labels) for have in readings]
        fitting = [at for at in found if len(values) == len(self) and (at >= 0).all()]
        if len(fitting) > 1 and (fitting[0] != fitting[1]).any():
            both = f"{name} has an index without names, which can be read as (firm, period) and as (period, firm)"
            raise InputError(f"{both}: name its levels {self.names[0]!r} and {self.names[1]!r}.")
        if fitting:
            return fitting[0]
        wording = []
        if len(missing := self.labels[found[0] < 0]):
            wording.append(f"{name} lacks {_pairs(missing)}")
        if len(extra := readings[0][self.labels.get_indexer(readings[0]) < 0]):
            wording.append(f"{name} has {_pairs(extra)}, which X lacks")
        other = f"the labels of {name} are not those of X ({len(values)} against {len(self)} rows)"
        raise InputError(f"{other}: {'; '.join(wording)}. Select both from one frame, or pass an array to match by position.")

    def with_codes(self, codes: Sequence[Any]) -> Panel:
        """Return the panel with these columns as codes, too."""
        more = [name for name in codes if name not in self.codes]
        if not more:
            return self
        check_known("codes", more, self.columns)
        made = pd.concat([self.codes, *(canonical_codes(self.characteristics[name]) for name in more)], axis=1)
        made = made[[name for name in self.columns if name in made]]
        characteristics = self.characteristics.drop(columns=more)
        choice = ColumnChoice(tuple(characteristics.columns), tuple(made.columns), self.choice.left)
        return replace(self, characteristics=characteristics, codes=made, choice=choice, examined=False)

    def with_outcomes(self, y: OutcomesLike, name: str = "y") -> Panel:
        """Return the panel with these outcomes; None for none."""
        if y is None:
            return replace(self, outcomes=None)
        y = as_pandas(y)
        values = self.align(y, name)
        check_finite(values, name)
        if self.firm is not None and np.isnan(values).all():
            raise InputError(f"{name} has no known value: all {len(values)} are NaN.")
        return replace(self, outcomes=values, outcome=str(getattr(y, "name", None) or self.outcome))

    def __repr__(self) -> str:
        if self.firm is None:
            return f"Panel({len(self):,} rows, one cross-section)"
        sizes = f"{len(self):,} rows, {self.firm.nunique():,} firms, {self.period.nunique()} periods"
        return f"Panel({sizes}, outcome={self.outcome!r})"

    def __str__(self) -> str:
        known = int(self.y.notna().sum())
        since = ""
        if self.known_at is not None:
            since = f", from the period in {self.known_at.name or 'known_at'}"
        return visible(f"{self!r}\noutcome: {self.outcome} (known in {known:,} of {len(self):,} rows{since})\n{self.choice}")


def panel_digest(panel: Panel) -> str:
    """Return the SHA-256 of labels, characteristics, codes and outcomes, and of when these are known, in the order of ``X``.

    It covers all that models see, and what decides from which rows they learn. Of sorted panels equal ones have equal digests,
    from any file, with rows in any order.
    """
    digest = hashlib.sha256(f"{panel.outcome}|{list(panel.X.columns)}".encode())
    # two panels that differ in the order of categories alone give other fits
    if panel.level_orders:  # kernels and trees read the order of an ordered category
        digest.update(f"|{sorted(panel.level_orders.items())}".encode())
    columns = [*panel.X.index.to_frame(index=False).items(), *panel.X.items(), ("", panel.y)]
    if panel.known_at is not None:
        digest.update(b"|known_at")
        dates = pd.Series(panel.known_at)
        if pd.api.types.is_numeric_dtype(dates.dtype):
            dates = dates.astype(float)
        columns.append(("", dates))
    for _, values in columns:
        column = values.reset_index(drop=True)
        # mapped from a file
        if column.dtype == np.float32:
            column = column.astype(float)
        digest.update(pd.util.hash_pandas_object(column, index=False).to_numpy(dtype=np.uint64).tobytes())
    return digest.hexdigest()


#: Products of four values stay finite: variances of squared errors are such.
LARGEST = 1e60


def check_finite(values: np.ndarray, name: str) -> None:
    """Raise where an outcome is infinite, or too large to compute with."""
    if infinite := int(np.isinf(values).sum()):
        raise InputError(f"{name} contains infinity in {infinite} rows: use NaN where it is unknown.")
    largest = np.max(np.abs(values), initial=0.0, where=~np.isnan(values))
    if largest > LARGEST:
        raise InputError(f"{name} holds values up to {largest:.3g} in size, more than {LARGEST:g}: choose a larger unit.")


def as_float(column: pd.Series) -> np.ndarray:
    """Return a characteristic as numbers, finite or NaN."""
    phrase = f"column {column.name!r} of X holds {column.dtype}: a characteristic is a number, a code is text or a category"
    if (text := read_numbers(column)) is not None:
        column = text.values
    if column.dtype != object and not is_number(column):
        raise InputError(f"{phrase}.")
    values = floats(column, phrase)
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        where = f"in column {column.name!r} ({len(infinite)} rows, first: row {infinite[0]})"
        raise InputError(f"X contains infinity {where}: replace it by NaN (missing) or by a number.")
    check_finite(values, f"column {column.name!r} of X")
    return values


def floats(values: Any, refusal: str) -> np.ndarray:
    """Return numbers as floats, missing ones as NaN; where they are no numbers, raise with this text."""
    with reworded(refusal, kinds=(TypeError, ValueError, OverflowError)):
        if np.ndim(values) != 1:
            values = pd.DataFrame(np.asarray(values))
        elif not isinstance(values, pd.Series):
            values = pd.Series(values)
        if kind := no_numbers(values):
            raise TypeError(f"it holds {kind}")
        return np.asarray(values.to_numpy(dtype=float, na_value=np.nan))


def _pairs(pairs: pd.Index) -> str:
    return ", ".join(f"({firm}, {period})" for firm, period in pairs[:3])
