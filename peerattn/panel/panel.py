"""The panel: firms, periods, characteristics, codes and the outcome, aligned once and passed on as it is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import CodeWarning, InputError, did_you_mean
from peerattn.panel.codes import canonical_codes, looks_like_code
from peerattn.panel.columns import ColumnChoice, choose_columns, holds_text, refuse_outcomes
from peerattn.panel.frames import as_pandas, read_frame
from peerattn.panel.labels import Labels, panel_labels


@dataclass(frozen=True, repr=False, eq=False)
class Panel:
    """A checked panel; made by :func:`as_panel` or :func:`read_panel`, accepted wherever a frame is.

    Its arrays are sorted by period and firm, whatever order the rows came in; ``X`` and ``y`` keep the order they came in.

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
        Integers, timestamps, periods, text or ordered categories; one constant where undated.
    dated : bool
    order : ndarray (n,)
        ``order[k]`` is the position, in what came in, of the panel's row k.
    index : Index (n,)
        Of the frame that came in.
    returns_series : bool
        Whether predictions are Series on ``index``: a pandas frame with firm and period came in.
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
    description : str
    """

    characteristics: pd.DataFrame
    codes: pd.DataFrame
    outcomes: np.ndarray | None
    firm: pd.Index | None
    period: pd.Index
    dated: bool
    order: np.ndarray
    index: pd.Index
    returns_series: bool
    columns: tuple[Any, ...]
    names: tuple[str, str]
    choice: ColumnChoice
    outcome: str = "outcome"
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    known_at: pd.Index | None = None
    level_orders: Mapping[Any, tuple[str, ...]] = field(default_factory=dict)
    industry: Any = None
    description: str = ""

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def labels(self) -> pd.MultiIndex:
        """Firm and period of each row, in the panel's order."""
        return pd.MultiIndex.from_arrays([self.firm, self.period], names=["firm", "period"])

    @cached_property
    def X(self) -> pd.DataFrame:
        """Characteristics and codes in the order they came in, indexed by (firm, period) where there are labels."""
        both = pd.concat([self.characteristics, self.codes], axis=1)[list(self.columns)]
        back = np.argsort(self.order)
        return both.iloc[back].set_axis(self.index if self.firm is None else self.labels[back])

    @cached_property
    def y(self) -> pd.Series:
        """The outcome on the index of ``X``; NaN where unknown."""
        values = np.full(len(self), np.nan) if self.outcomes is None else self.outcomes
        return pd.Series(values[np.argsort(self.order)], index=self.X.index, name=self.outcome)

    def cross_sections(self) -> Iterator[tuple[Any, slice]]:
        """Yield each period's label and its rows, in order of time."""
        starts = np.flatnonzero(np.r_[True, self.period[1:] != self.period[:-1]]).tolist()
        for start, stop in zip(starts, [*starts[1:], len(self)], strict=True):
            yield self.period[start], slice(start, stop)

    def restore(self, values: np.ndarray, name: object = None) -> np.ndarray | pd.Series:
        """Put one value a row into the order the rows came in: a Series when a pandas frame carried firm and period."""
        out = np.empty_like(values)
        out[self.order] = values
        return pd.Series(out, index=self.index, name=name) if self.returns_series else out

    def take(self, at: np.ndarray) -> Panel:
        """Return some rows, in the panel's order; their order is then the one they came in."""
        pick = lambda values: None if values is None else values[at]  # noqa: E731
        firm, period = pick(self.firm), self.period[at]
        index = self.index[self.order][at] if firm is None else self.labels[at].remove_unused_levels()
        return replace(
            self,
            characteristics=self.characteristics[at].reset_index(drop=True),
            codes=self.codes[at].reset_index(drop=True),
            outcomes=pick(self.outcomes),
            firm=firm,
            period=period,
            order=np.arange(len(period)),
            index=index,
            returns_series=self.dated,
            weights={name: values[at] for name, values in self.weights.items()},
            known_at=pick(self.known_at),
        )

    def sorted(self) -> Panel:
        """Return the panel as if its rows had come in sorted by period and firm."""
        return self.take(np.ones(len(self), dtype=bool))

    def align(self, values: Any, name: str) -> np.ndarray:
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
        if isinstance(values, pd.DataFrame) and values.shape[1] == 1:
            values = values.iloc[:, 0]
        at = self.positions(values, name)
        return _numbers(values, len(self), name)[at]

    def positions(self, values: Any, name: str) -> np.ndarray:
        """Return where the value of each of the panel's rows stands."""
        if self.firm is None or not isinstance(values, pd.Series):
            return self.order
        if values.index.nlevels == 2:
            return self._positions_by_label(values, name)
        have = values.index
        same_labels = len(have) == len(self.index) and have.nlevels == self.index.nlevels and have.is_unique
        if same_labels and not have.equals(self.index) and (have.get_indexer(self.index) >= 0).all():
            raise InputError(
                f"{name} carries the index labels of X in another order: {name}.loc[X.index] puts them in order; pass an "
                "array to match by position."
            )
        return self.order

    def _positions_by_label(self, values: pd.Series, name: str) -> np.ndarray:
        names, own = list(values.index.names), ("firm", "period")
        for firm, period in (self.names, own):
            if set(names) == {firm, period}:
                found = panel_labels(values, firm, period)
                assert found is not None
                readings = [pd.MultiIndex.from_arrays([found.firm, found.period])]
                break
        else:
            if names != [None, None]:
                raise InputError(
                    f"{name} has index levels {names}, but X's labels are {list(self.names)}: use the same names."
                )
            readings = [values.index, values.index.swaplevel()]
        for have in readings:
            if have.has_duplicates:
                pairs = have[have.duplicated()].unique()[:3].tolist()
                raise InputError(f"{name} has duplicated (firm, period) labels, such as {_pairs(pairs)}.")
        found_at = [have.get_indexer(self.labels) for have in readings]
        fitting = [at for at in found_at if len(values) == len(self) and (at >= 0).all()]
        if not fitting:
            self._refuse_labels(readings[0], found_at[0], name)
        if len(fitting) > 1 and (fitting[0] != fitting[1]).any():
            raise InputError(
                f"{name} has an index without names, which can be read as (firm, period) and as (period, firm): name its "
                f"levels {self.names[0]!r} and {self.names[1]!r}."
            )
        return fitting[0]

    def _refuse_labels(self, have: pd.Index, at: np.ndarray, name: str) -> None:
        missing = self.labels[at < 0][:3].tolist()
        extra = have[self.labels.get_indexer(have) < 0][:3].tolist()
        said = [f"{name} lacks {_pairs(missing)}"] if missing else []
        said += [f"{name} has {_pairs(extra)}, which X lacks"] if extra else []
        raise InputError(
            f"the labels of {name} are not those of X ({len(have)} against {len(self)} rows): {'; '.join(said)}. "
            "Select both from one frame, or pass an array to match by position."
        )

    def with_outcomes(self, y: Any, name: str = "y") -> Panel:
        """Return the panel with these outcomes; None for none."""
        if y is None:
            return replace(self, outcomes=None)
        y = as_pandas(y)
        values = self.align(y, name)
        _refuse_infinity(values, name)
        if np.isnan(values).all() and self.firm is not None:
            raise InputError(f"{name} has no known value: all {len(values)} are NaN.")
        return replace(self, outcomes=values, outcome=str(getattr(y, "name", None) or self.outcome))

    def __repr__(self) -> str:
        if self.firm is None:
            return f"Panel({len(self):,} rows, one cross-section)"
        return (
            f"Panel({len(self):,} rows, {self.firm.nunique():,} firms, {self.period.nunique()} periods, "
            f"outcome={self.outcome!r})"
        )

    def __str__(self) -> str:
        known = 0 if self.outcomes is None else int(np.isfinite(self.outcomes).sum())
        return f"{self!r}\noutcome: {self.outcome} (known in {known:,} of {len(self):,} rows)\n{self.choice}"


def as_panel(
    X: Any,
    y: Any = None,
    *,
    outcome: str | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    industry: str | None = None,
    weights: Mapping[str, Any] | None = None,
    known_at: Any = None,
    firm: str = "firm",
    period: str = "period",
    undated: bool = False,
    description: str = "",
) -> Panel:
    """Return ``X`` and what belongs to its rows as a :class:`Panel`; a Panel is returned as it is.

    Parameters
    ----------
    X : Panel, frame (pandas, polars, pyarrow) or array-like, (n, p)
        Firm and period are found by name in the index or the columns; without them it is one cross-section.
    y : Series or array-like (n,), optional
        The outcome, aligned by label where it carries firm and period; NaN = unknown.
    outcome : str, optional
        The column of ``X`` that is the outcome. Columns are then chosen as by :func:`read_panel`.
    characteristics : sequence of str, optional
        Take these columns only, beside the codes.
    codes : sequence of str
        Columns that are codes, whatever their dtype; columns of text are in any case.
    industry : str, optional
        A code column that names each firm's industry; counted among the codes.
    weights : mapping of str to array-like (n,), optional
        Weights of the rows by name, aligned like ``y``; at least 0.
    known_at : str, Series or array-like (n,), optional
        When each outcome is known, as period labels: a column of ``X``, or values aligned like ``y``.
    firm, period : str
        Names of the labels.
    undated : bool, default False
        Accept firms without a period (a reference universe).
    description : str

    Raises
    ------
    InputError
        For duplicated (firm, period), infinite values, outcomes among the characteristics, labels of ``y`` that are not
        ``X``'s; the message names the argument and shows examples.

    Examples
    --------
    >>> X = pd.DataFrame({"firm": ["B", "A"], "period": 2001, "size": [1.0, 2.0]})
    >>> panel = as_panel(X, [0.1, 0.2])
    >>> panel.firm.tolist(), panel.outcomes.tolist(), as_panel(panel) is panel
    (['A', 'B'], [0.2, 0.1], True)
    """
    if isinstance(X, Panel):
        if outcome is not None or characteristics is not None:
            raise InputError(
                "X is a Panel, which holds its outcome and characteristics; leave out outcome and characteristics, or pass "
                "X.X."
            )
        panel = X
        added = [name for name in dict.fromkeys([*codes, *_given(industry)]) if name not in X.codes]
        if added:
            frame, labels, index = _rows_of(X)
            made = assemble(frame, labels, index, X.names, codes=[*X.codes, *added])
            choice = replace(made.choice, left=X.choice.left)
            panel = replace(X, characteristics=made.characteristics, codes=made.codes, choice=choice)
        panel = panel if industry is None else replace(panel, industry=industry)
    else:
        frame, labels, index = read_rows(X, firm, period, undated=undated)
        declared = codes if isinstance(codes, str) else tuple(dict.fromkeys([*codes, *_given(industry)]))
        choice, source = None, frame
        if outcome is not None:
            if y is not None:
                raise InputError("pass y, or outcome= (a column of X), not both.")
            source = frame.rename(columns=str)
            choice = choose_columns(
                source, labels=(), outcome=outcome, characteristics=characteristics, codes=declared
            )
            frame = source[[*choice.characteristics, *choice.codes]]
        elif characteristics is not None:
            frame = _selected(frame, [*characteristics, *declared])
        panel = assemble(frame, labels, index, (firm, period), codes=declared, choice=choice)
        panel = replace(panel, industry=industry, description=description)
        if outcome is not None:
            panel = replace(panel, outcomes=_outcome_of(source, outcome)[panel.order], outcome=outcome)
            _refuse_infinity(panel.outcomes, outcome)
        if isinstance(known_at, str) and known_at in source:
            known_at = pd.Index(source[known_at])
    if y is not None:
        panel = panel.with_outcomes(y)
    if weights:
        panel = replace(panel, weights=dict(panel.weights) | _weights(panel, weights))
    return panel if known_at is None else replace(panel, known_at=_known_at(panel, known_at))


def read_panel(
    source: Any,
    *,
    outcome: str,
    firm: str = "firm",
    period: str = "period",
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    industry: str | None = None,
    description: str = "",
) -> Panel:
    """Read a panel and choose its columns.

    Parameters
    ----------
    source : path or frame
        A Parquet, CSV or Arrow file; a pandas or polars frame or a pyarrow table. One row per (firm, period).
    outcome : str
        Column of the outcome; NaN means unknown.
    firm, period : str
        Columns or index levels with the labels.
    characteristics : sequence of str, optional
        By default every numeric column except firm, period, outcome, codes and whatever looks like another outcome or
        an undeclared code. ``print`` the result to see what was taken and what was left.
    codes : sequence of str
        Columns that are codes (sector, country, ...), whatever their dtype.
    industry : str, optional
        A code column that names each firm's industry; counted among the codes.
    description : str

    Returns
    -------
    Panel
        ``X`` and ``y`` are indexed by (firm, period), in the order of the source.

    Raises
    ------
    InputError
        For a missing column (near matches are shown), a damaged file, an empty frame, or labels that cannot be used.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"firm": ["A", "B"], "year": 2001, "size": [1.0, 2.0], "sic": [100, 3711], "roa_next": [0.1, 0.2]})
    >>> print(read_panel(frame, outcome="roa_next", period="year", industry="sic"))
    Panel(2 rows, 2 firms, 1 periods, outcome='roa_next')
    outcome: roa_next (known in 2 of 2 rows)
    characteristics (1): size
    codes (1): sic
    """
    frame = read_frame(source).rename(columns=str)
    if not len(frame):
        what = f"{source}: the file" if isinstance(source, str | Path) else "the frame"
        raise InputError(f"{what} has no rows.")
    names = [*frame.columns, *(str(n) for n in frame.index.names if n is not None)]
    for argument, name in (("firm", firm), ("period", period), ("outcome", outcome), ("industry", industry)):
        if name is not None and name not in names:
            raise InputError(
                f"{argument}: there is no column {name!r}.{did_you_mean(name, names)} Columns: {', '.join(names)}."
            )
    panel = as_panel(
        frame,
        outcome=outcome,
        characteristics=characteristics,
        codes=codes,
        industry=industry,
        firm=firm,
        period=period,
        description=description,
    )
    return replace(panel, index=panel.X.index)


def read_rows(
    X: Any, firm: str, period: str, *, undated: bool = False
) -> tuple[pd.DataFrame, Labels | None, pd.Index | None]:
    """Return the frame without its label columns, its labels, and the index of a pandas frame."""
    if isinstance(X, Panel):
        return _rows_of(X)
    frame = as_pandas(X)
    if not isinstance(frame, pd.DataFrame):
        frame = pd.DataFrame(_matrix(frame))
        return frame, None, frame.index
    labels = panel_labels(frame, firm, period, undated=undated)
    index = frame.index if isinstance(X, pd.DataFrame) else None
    return (frame if labels is None else frame.drop(columns=list(labels.in_columns))), labels, index


def _rows_of(panel: Panel) -> tuple[pd.DataFrame, Labels | None, pd.Index | None]:
    index = panel.index if panel.returns_series or panel.firm is None else None
    if panel.firm is None:
        return panel.X, None, index
    back = np.argsort(panel.order)
    return panel.X, Labels(panel.firm[back], panel.period[back], panel.dated, ()), index


def assemble(
    frame: pd.DataFrame,
    labels: Labels | None,
    index: pd.Index | None,
    names: tuple[str, str],
    *,
    codes: Sequence[Any] = (),
    only_declared: bool = False,
    choice: ColumnChoice | None = None,
) -> Panel:
    """Return a Panel of rows whose labels are known; ``only_declared``: columns of text that are not declared are refused."""
    if not frame.columns.is_unique:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise InputError(f"X has several columns named {repeated!r}: column names must be unique.")
    if not len(frame):
        raise InputError("X has no rows.")
    refuse_outcomes(list(frame.columns))
    characteristics, code_columns = _split_columns(frame, codes, only_declared)
    level_orders = {
        name: tuple(canonical_codes(pd.Series(dtype.categories, name=name)).dropna())
        for name, dtype in frame[list(code_columns)].dtypes.items()
        if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered
    }
    order = np.arange(len(frame))
    if labels is not None:
        _refuse_duplicates(labels)
        order = _canonical_order(labels)
    return Panel(
        characteristics.iloc[order].reset_index(drop=True),
        code_columns.iloc[order].reset_index(drop=True),
        None,
        None if labels is None else labels.firm[order],
        pd.Index(np.zeros(len(frame), dtype=int)) if labels is None else labels.period[order],
        labels is not None and labels.dated,
        order,
        frame.index if index is None else index,
        index is not None and labels is not None and labels.dated,
        tuple(frame.columns),
        names,
        ColumnChoice(tuple(characteristics), tuple(code_columns)) if choice is None else choice,
        level_orders=level_orders,
    )


def _given(industry: Any) -> list[Any]:
    return [] if industry is None else [industry]


def _matrix(X: Any) -> np.ndarray:
    try:
        values = np.asarray(X, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"X must be a frame or a matrix of numbers: {error}") from error
    if values.ndim != 2:
        raise InputError(f"X must be a frame or a matrix of numbers, got {values.ndim} dimensions.")
    return values


def _selected(frame: pd.DataFrame, wanted: Sequence[Any]) -> pd.DataFrame:
    for name in wanted:
        if name not in frame.columns:
            raise InputError(
                f"characteristics: there is no column {name!r}.{did_you_mean(name, map(str, frame.columns))}"
            )
    return frame[[name for name in frame.columns if name in set(wanted)]]


def _outcome_of(frame: pd.DataFrame, outcome: str) -> np.ndarray:
    if not pd.api.types.is_numeric_dtype(frame[outcome].dtype):
        raise InputError(f"outcome: column {outcome!r} holds {frame[outcome].dtype}, not numbers.")
    return frame[outcome].to_numpy(dtype=float, na_value=np.nan)


def _refuse_infinity(values: np.ndarray | None, name: str) -> None:
    infinite = 0 if values is None else int(np.isinf(values).sum())
    if infinite:
        raise InputError(f"{name} contains infinity in {infinite} rows: use NaN where it is unknown.")


def _weights(panel: Panel, weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
    found = {name: panel.align(values, name) for name, values in weights.items()}
    for name, values in found.items():
        bad = int((~(values >= 0)).sum())
        if bad:
            raise InputError(f"{name} must be at least 0 and known in every row; {bad} rows are not.")
    return found


def _known_at(panel: Panel, given: Any) -> pd.Index:
    """Return when each outcome is known, in the panel's order; missing = never."""
    if isinstance(given, str):
        raise InputError(
            f"known_at: there is no column {given!r} in X.{did_you_mean(given, map(str, panel.columns))}"
        )
    given = as_pandas(given)
    by_label = isinstance(given, pd.Series) and given.index.nlevels == 2
    if not by_label and len(given) != len(panel):
        raise InputError(
            f"known_at has {len(given)} values for {len(panel)} rows of X: one for each row is expected."
        )
    return pd.Index(given)[panel.positions(given, "known_at")]


def _canonical_order(labels: Labels) -> np.ndarray:
    """Return the positions that sort rows by period, then firm."""
    try:
        firm_rank = pd.factorize(labels.firm, sort=True)[0]
    except TypeError:  # labels of mixed types have no order of their own
        firm_rank = pd.factorize(labels.firm.astype(str), sort=True)[0]
    return np.lexsort((firm_rank, pd.factorize(labels.period, sort=True)[0]))


def _split_columns(
    frame: pd.DataFrame, codes: Sequence[Any], only_declared: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split a frame into characteristics (float64) and codes (strings)."""
    if isinstance(codes, str):
        raise InputError(
            f"codes: a list of column names was expected, the text {codes!r} came: write [{codes!r}]."
        )
    for name in codes:
        if name not in frame.columns:
            raise InputError(f"codes: there is no column {name!r} in X.{did_you_mean(name, frame.columns)}")
    numbers: dict[Any, np.ndarray] = {}
    code_columns: dict[Any, Any] = {}
    for name in frame.columns:
        column = frame[name]
        if name in codes or (not only_declared and holds_text(column)):
            code_columns[name] = canonical_codes(column).array
            continue
        numbers[name] = _as_float(column)
        if not only_declared and looks_like_code(name) and _is_whole(numbers[name]):
            message = f"column {name!r} looks like a code but is used as a number; declare it in codes=, or drop it from X."
            warnings.warn(message, CodeWarning, stacklevel=5)
    both = (pd.DataFrame(part, index=frame.index) for part in (numbers, code_columns))
    return next(both), next(both)


def _is_whole(values: np.ndarray) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known) and (known == np.round(known)).all() and (known > 1).any())


def _as_float(column: pd.Series) -> np.ndarray:
    try:
        number = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(
            column.dtype
        )
        if not number and column.dtype != object:
            raise TypeError
        values = column.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"column {column.name!r} of X holds {column.dtype}: a characteristic is a number, a code is text or a category."
        ) from error
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise InputError(
            f"X contains infinity in column {column.name!r} ({len(infinite)} rows, first: row {infinite[0]}): "
            "replace it by NaN (missing) or by a number."
        )
    return values


def _numbers(values: Any, n_rows: int, name: str) -> np.ndarray:
    """Return a column of numbers as floats; its length is checked where it is matched by position."""
    try:
        numbers = (
            pd.Series(values).to_numpy(dtype=float, na_value=np.nan)
            if np.ndim(values) < 2
            else np.asarray(values, dtype=float)
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers: {error}") from error
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.shape != (n_rows,):
        raise InputError(
            f"{name} has shape {numbers.shape}, but X has {n_rows} rows: pass one value for each row."
        )
    return numbers


def _refuse_duplicates(labels: Labels) -> None:
    pairs = pd.MultiIndex.from_arrays([labels.firm, labels.period])
    repeated = pairs[pairs.duplicated()]
    if len(repeated):
        shown = ", ".join(f"({f}, {p})" if labels.dated else str(f) for f, p in repeated.unique()[:3])
        raise InputError(
            f"X has {len(repeated)} duplicated (firm, period) rows, such as {shown}: keep one row for each firm and period."
        )


def _pairs(pairs: list[Any]) -> str:
    return ", ".join(f"({firm}, {period})" for firm, period in pairs)
