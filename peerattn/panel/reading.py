"""Whatever came in, read into a panel: the one place where labels are parsed and columns become what they are."""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, expect, reworded_values, validate_arguments
from peerattn.panel.codes import canonical_codes
from peerattn.panel.columns import (
    ColumnChoice,
    all_columns,
    check_known,
    choose_columns,
    is_number,
    read_with_warning,
    warn_of_words,
)
from peerattn.panel.frames import as_pandas, read_frame
from peerattn.panel.knowledge import Knowledge
from peerattn.panel.labels import Labels, panel_labels, warn_of_labels
from peerattn.panel.panel import Panel, as_float, check_finite, floats
from peerattn.types import ColumnLike, OutcomesLike, PanelLike


@validate_arguments
@reworded_values()
def as_panel(
    X: PanelLike,
    y: OutcomesLike = None,
    *,
    outcome: ColumnLike | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    industry: ColumnLike | None = None,
    weights: Mapping[str, Any] | None = None,
    known_at: Any = None,
    firm: ColumnLike = "firm",
    period: ColumnLike = "period",
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
    codes : sequence of str, default ()
        Columns that are codes, whatever their dtype; columns of text are in any case.
    industry : str, optional
        A code column that names each firm's industry; counted among the codes.
    weights : mapping of str to array-like (n,), optional
        Weights of the rows by name, aligned like ``y``; at least 0.
    known_at : str, Series or array-like (n,), optional
        When each outcome is known, as period labels: a column of ``X``, or values aligned like ``y``.
    firm, period : str, default "firm", "period"
        Names of the labels.
    undated : bool, default False
        Accept firms without a period (a reference universe).
    description : str, default ""

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
    (['B', 'A'], [0.1, 0.2], True)
    """
    # the industry is a code, once
    declared = list(dict.fromkeys(name for name in (*codes, industry) if name is not None))
    frame = as_pandas(X)
    dates = []
    if isinstance(known_at, str):
        dates = [known_at]
    if isinstance(X, pd.DataFrame):
        X = frame = _with_numbers(X, [outcome, *(characteristics or ())])
    choose = _choice(outcome, characteristics, declared, [*dates, firm, period])
    if isinstance(X, Panel):
        if outcome is not None or characteristics:
            raise InputError("X is a Panel, which has an outcome and characteristics: leave out these arguments, or pass X.X.")
        if dates:
            raise InputError(f"known_at: a Panel has no column of dates {known_at!r}; pass a Series.")
        panel = X.with_codes(declared)
        if industry is not None:
            panel = replace(panel, industry=industry)
    else:
        if outcome is not None:
            if y is not None:
                raise InputError("y: outcome= names a column of X; pass one of the two, not both.")
            if outcome in (firm, period):
                raise InputError(f"outcome: {outcome!r} is already named as firm or period; name the column to predict.")
            if hasattr(frame, "columns"):
                frame = frame.rename(columns=str)
        panel = panel_of(X, choose, firm, period, undated=undated)
        if panel.firm is None:
            warn_of_labels(frame)
        panel = replace(panel, industry=industry, description=description)
        if outcome is not None:
            panel = replace(panel, outcome=outcome, outcomes=_outcome_of(frame, outcome))
        for name in dates:
            check_known("known_at", [name], frame.columns)
            known_at = pd.Index(frame[name])
    if y is not None:
        panel = panel.with_outcomes(y)
    for name, values in (weights or {}).items():
        panel = _with_weight(panel, name, values)
    if known_at is not None:
        panel = _with_dates(panel, as_pandas(known_at))
    return panel


def _choice(
    outcome: ColumnLike | None, characteristics: Sequence[str] | None, codes: list[Any], labels: list[Any]
) -> Callable[[pd.DataFrame], tuple[pd.DataFrame, ColumnChoice]]:
    """Return what chooses the columns of a frame without firm and period."""

    def choose(frame: pd.DataFrame) -> tuple[pd.DataFrame, ColumnChoice]:
        if outcome is not None:
            frame = frame.rename(columns=str)
            choice = choose_columns(frame, labels=labels, outcome=outcome, characteristics=characteristics, codes=codes)
            return frame[[*choice.characteristics, *choice.codes]], choice
        if characteristics is not None:
            wanted = [*characteristics, *codes]
            check_known("characteristics", wanted, frame.columns)
            frame = frame.loc[:, frame.columns.isin(wanted)]
        return frame, all_columns(frame, codes, labels=labels[-2:])

    return choose


def _with_weight(panel: Panel, name: str, values: Any) -> Panel:
    """Return a panel with one more weight of its rows."""
    weight = panel.align(values, name)
    bad = panel.order[~((weight >= 0) & np.isfinite(weight))]
    if len(bad):
        rows = f"{len(bad)} rows are not (first: row {bad.min()})"
        raise InputError(f"{name} must be at least 0, finite and known in every row; {rows}.")
    return replace(panel, weights={**panel.weights, name: weight})


def _with_dates(panel: Panel, known_at: Any) -> Panel:
    """Return a panel with the labels of the periods in which its outcomes are known."""
    expect(isinstance(known_at, Sized), "known_at", "one label for each row of X", repr(known_at))
    at = panel.positions(known_at, "known_at")
    if len(known_at) != len(panel):
        raise InputError(f"known_at has {len(known_at)} values for {len(panel)} rows of X: one for each row is expected.")
    panel = replace(panel, known_at=pd.Index(known_at)[at])
    if panel.dated:
        Knowledge.of(panel)  # raises where the dates and the periods are of kinds that cannot be compared
    return panel


@validate_arguments
@reworded_values()
def read_panel(
    source: Any,
    *,
    outcome: ColumnLike,
    firm: ColumnLike = "firm",
    period: ColumnLike = "period",
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    industry: ColumnLike | None = None,
    known_at: ColumnLike | None = None,
    description: str = "",
) -> Panel:
    """Read a panel and choose its columns.

    Parameters
    ----------
    source : path or frame
        A Parquet, CSV or Arrow file; a pandas or polars frame or a pyarrow table. One row per (firm, period).
    outcome : str
        Column of the outcome; NaN means unknown.
    firm, period : str, default "firm", "period"
        Columns or index levels with the labels.
    characteristics : sequence of str, optional
        By default every numeric column except firm, period, outcome, codes and whatever looks like another outcome or
        an undeclared code. ``print`` the result to see what was taken and what was left.
    codes : sequence of str, default ()
        Columns that are codes (sector, country, ...), whatever their dtype.
    industry : str, optional
        A code column that names each firm's industry; counted among the codes.
    known_at : str, optional
        Column with the period in which each outcome is known (the date of the report, for example); missing = never. It is no
        characteristic. ``WalkForward`` learns from no row before.
    description : str, default ""

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
        what = "the frame"
        if isinstance(source, str | Path):
            what = f"{source}: the file"
        raise InputError(f"{what} has no rows.")
    names = [*frame.columns, *(str(n) for n in frame.index.names if n is not None)]
    named: dict[str, Any] = {"firm": firm, "period": period, "outcome": outcome, "industry": industry, "known_at": known_at}
    for argument, name in named.items():
        check_known(argument, [name], names)
    if firm in frame:
        warn_of_words(frame[firm])
    panel = as_panel(frame, characteristics=characteristics, codes=codes, description=description, **named)
    return replace(panel, index=panel.X.index)


def panel_of(
    X: Any,
    choose: Callable[[pd.DataFrame], tuple[pd.DataFrame, ColumnChoice]],
    firm: ColumnLike,
    period: ColumnLike,
    *,
    undated: bool = False,
) -> Panel:
    """Return the panel of a frame or matrix; ``choose`` is shown the frame without labels, and returns what is taken of it."""
    frame = as_pandas(X)
    labels = panel_labels(frame, firm, period, undated=undated)
    if not isinstance(frame, pd.DataFrame):
        frame = pd.DataFrame(floats(frame, "X must be a frame or a matrix of numbers"))
        if np.ndim(X) != 2:
            raise InputError(f"X must be a frame or a matrix of numbers, got {np.ndim(X)} dimensions.")
    # rows without labels are one undated cross-section
    firms: pd.Index | None = None
    periods = pd.Index(np.zeros(len(frame), dtype=int))
    dated = False
    if labels is not None:
        firms, periods, dated, in_columns = labels
        frame = frame.drop(columns=list(in_columns))
    frame, choice = choose(frame)
    if not len(frame):
        raise InputError("X has no rows.")
    if labels is not None:
        _check_not_repeated(labels)
    # labels are kept apart, so that columns align by position whatever the index was
    rows = pd.RangeIndex(len(frame))
    numbers = {name: as_float(frame[name]) for name in choice.characteristics}
    codes = {name: canonical_codes(frame[name]).array for name in choice.codes}
    level_orders = {
        name: tuple(canonical_codes(pd.Series(dtype.categories, name=name)).dropna())
        for name, dtype in frame[list(choice.codes)].dtypes.items()
        if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered
    }
    return Panel(
        pd.DataFrame(numbers, index=rows, columns=list(numbers)), pd.DataFrame(codes, index=rows, columns=list(codes)),
        outcomes=None, firm=firms, period=periods, dated=dated, order=np.arange(len(frame)), index=frame.index,
        columns=tuple(frame.columns), names=(firm, period), choice=choice, level_orders=level_orders,
    )  # fmt: skip


def _with_numbers(frame: pd.DataFrame, names: Sequence[Any]) -> pd.DataFrame:
    """Return a frame of a statistical file in which these columns hold numbers again, not the labels of their values."""
    # value labels made them names in the file's frame; as outcome or characteristic they are numbers
    labels = frame.attrs.get("value_labels", {})
    again = {name: frame[name].map(labels[name]) for name in names if name in labels and name in frame}
    if again:
        return frame.assign(**again)
    return frame


def _outcome_of(frame: pd.DataFrame, outcome: str) -> np.ndarray:
    column = read_with_warning(frame[outcome], "outcome: ")
    if not is_number(column):
        held = f"{column.dtype}" + "".join(f" such as {value!r}" for value in column.dropna()[:1])
        raise InputError(f"outcome: column {outcome!r} holds {held}, not numbers: convert it with pandas.to_numeric.")
    values = column.to_numpy(dtype=float, na_value=np.nan)
    check_finite(values, outcome)
    return values


def _check_not_repeated(labels: Labels) -> None:
    pairs = labels.pairs
    repeated = pairs[pairs.duplicated()]
    if len(repeated):
        examples = [f"({firm}, {period})" for firm, period in repeated.unique()[:3]]
        if not labels.dated:
            examples = [str(firm) for firm, _ in repeated.unique()[:3]]
        duplicated = f"X has {len(repeated)} duplicated (firm, period) rows, such as {', '.join(examples)}"
        raise InputError(f"{duplicated}: keep one row for each firm and period.")
