"""The one input gate: whatever came in, out comes a checked panel in canonical row order."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import get_tags
from sklearn.utils.validation import check_X_y, validate_data

from peerattn.exceptions import CodeWarning, InputError, did_you_mean
from peerattn.panel.alignment import align_outcome, position_outcome
from peerattn.panel.codes import canonical_codes, looks_like_code
from peerattn.panel.columns import leak_warning, possible_leaks, refuse_outcomes
from peerattn.panel.frames import as_pandas
from peerattn.panel.labels import PanelLabels, panel_labels, warn_of_labels

IDENTITY_SHARE = 0.9  # a code with this many levels per firm names the firm itself


@dataclass(frozen=True)
class Panel:
    """A checked panel: rows sorted by period and firm, whatever order they came in.

    Attributes
    ----------
    characteristics : pandas.DataFrame, (n, p) float64; NaN = missing, never infinite
    codes : pandas.DataFrame, (n, c) strings; NA = unknown
    y : ndarray (n,) or None; NaN = unknown
    firm : pandas.Index of length n or None (arrays carry no labels)
    period : pandas.Index of length n; one constant where undated
    dated : bool
    order : ndarray (n,), ``order[k]`` is the position in the input of the panel's row k
    index : pandas.Index of the pandas frame that came in; None for anything else
    """

    characteristics: pd.DataFrame
    codes: pd.DataFrame
    y: np.ndarray | None
    firm: pd.Index | None
    period: pd.Index
    dated: bool
    order: np.ndarray
    index: pd.Index | None

    def __len__(self) -> int:
        return len(self.order)

    def cross_sections(self) -> Iterator[tuple[Any, slice]]:
        """Yield each period's label and its rows, in order of time."""
        starts = np.flatnonzero(np.r_[True, self.period[1:] != self.period[:-1]]).tolist()
        for start, stop in zip(starts, [*starts[1:], len(self)], strict=True):
            yield self.period[start], slice(start, stop)

    def restore(self, values: np.ndarray, name: object = None) -> np.ndarray | pd.Series:
        """Put one value a row back into the input's order: a Series when a pandas frame carries firm and period."""
        out = np.empty_like(values)
        out[self.order] = values
        return pd.Series(out, index=self.index, name=name) if self.dated and self.index is not None else out


def check_panel(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    fitting: bool,
    firm: str = "firm",
    period: str = "period",
    codes: Sequence[str] = (),
    groupings: Sequence[str] = (),
    undated: bool = False,
) -> Panel:
    """Check ``X`` (and ``y``) and return them as a :class:`Panel`.

    Parameters
    ----------
    estimator : BaseEstimator
        Receives ``n_features_in_`` and ``feature_names_in_`` when ``fitting``; is compared with them otherwise.
    X : frame or array-like, (n, p)
    y : Series or array-like (n,), optional
    fitting : bool
    firm, period : str
        Names of the labels.
    codes : sequence of str
        Columns declared to be codes; columns of dtype category or string are codes in any case.
    groupings : sequence of str
        Codes that are not learned, and so may have nearly one level a firm.
    undated : bool
        Accept firms without a period (a reference universe).

    Raises
    ------
    InputError
        For duplicated (firm, period), infinite values, outcomes among the characteristics, labels of ``y`` that are not
        ``X``'s; each message names the argument and shows examples.
    """
    is_pandas = isinstance(X, pd.DataFrame)
    X, y = as_pandas(X), as_pandas(y)
    if isinstance(codes, str):
        raise InputError(
            f"codes: a sequence of column names was expected, the text {codes!r} came: write [{codes!r}]."
        )
    if fitting and y is None and get_tags(estimator).target_tags.required:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    if not isinstance(X, pd.DataFrame):
        return _check_array_panel(estimator, X, y, fitting, codes)
    labels = panel_labels(X, firm, period, undated=undated)
    if labels is None and fitting:
        warn_of_labels(X)
    frame = X.drop(columns=list(labels.in_columns)) if labels is not None else X
    if not frame.columns.is_unique:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise InputError(f"X has several columns named {repeated!r}: column names must be unique.")
    validate_data(estimator, frame, reset=fitting, skip_check_array=True)
    if not frame.shape[1]:
        raise InputError(f"X has 0 feature(s) (shape={frame.shape}) while a minimum of 1 is required.")
    if not len(frame):
        raise InputError(f"X has 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required.")
    refuse_outcomes(list(frame.columns))
    if not fitting:
        frame = _match_columns(estimator, frame)
    known_codes = codes if fitting else estimator.code_columns_
    characteristics, code_columns = _split_columns(frame, known_codes, fitting=fitting)
    if fitting:
        estimator.column_names_, estimator.code_columns_ = tuple(frame.columns), tuple(code_columns.columns)
    if labels is None:
        return _undated(estimator, characteristics, code_columns, y, X.index, fitting)
    _refuse_duplicates(labels)
    order = canonical_order(labels)
    target = "y" if fitting else "outcomes"
    outcome = None if y is None else align_outcome(y, X, labels, firm=firm, period=period, name=target)
    if fitting and outcome is not None:
        _warn_of_leaks(characteristics, outcome, getattr(y, "name", None))
        refuse_identities(code_columns.drop(columns=list(groupings)), codes, labels.firm)
    return Panel(
        characteristics.iloc[order].reset_index(drop=True),
        code_columns.iloc[order].reset_index(drop=True),
        None if outcome is None else outcome[order],
        labels.firm[order],
        labels.period[order],
        labels.dated,
        order,
        X.index if is_pandas else None,
    )


def canonical_order(labels: PanelLabels) -> np.ndarray:
    """Return the positions that sort rows by period, then firm."""
    try:
        firm_rank = pd.factorize(labels.firm, sort=True)[0]
    except TypeError:  # labels of mixed types have no order of their own
        firm_rank = pd.factorize(labels.firm.astype(str), sort=True)[0]
    return np.lexsort((firm_rank, pd.factorize(labels.period, sort=True)[0]))


def _check_array_panel(estimator: Any, X: Any, y: Any, fitting: bool, codes: Sequence[str]) -> Panel:
    if codes:
        raise InputError(
            f"codes={list(codes)} names columns, but X is an array without names: pass a DataFrame."
        )
    options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "reset": fitting}
    if fitting and y is not None:
        X, y = validate_data(estimator, X, y, y_numeric=True, ensure_min_samples=2, **options)
    else:
        X = validate_data(estimator, X, **options)
    if not fitting and estimator.code_columns_:
        raise InputError(
            f"X is an array, but fit read codes in {', '.join(map(repr, estimator.code_columns_))}: pass a DataFrame with "
            "the columns of fit."
        )
    frame = pd.DataFrame(X)
    if fitting:
        estimator.column_names_, estimator.code_columns_ = None, ()
    else:
        frame = _match_columns(estimator, frame)
    return _undated(estimator, frame, pd.DataFrame(index=range(len(X))), y, None, fitting)


def _match_columns(estimator: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame under fit's column names: by position where either side is an array."""
    fitted = estimator.column_names_
    have = tuple(frame.columns)
    if fitted is None:
        return frame.set_axis(range(len(have)), axis=1)
    if have == tuple(range(len(have))):
        return frame.set_axis(list(fitted), axis=1)
    if have != fitted:  # names that are no text, which scikit-learn does not compare
        raise InputError(
            f"X has columns {list(have)}, but fit had {list(fitted)}: pass the same columns in the same order."
        )
    return frame


def _undated(
    estimator: Any,
    characteristics: pd.DataFrame,
    codes: pd.DataFrame,
    y: Any,
    index: pd.Index | None,
    fitting: bool,
) -> Panel:
    """One cross-section without labels, in the order it came."""
    n = len(characteristics)
    if fitting and y is not None:
        numbers = characteristics.to_numpy() if characteristics.shape[1] else np.zeros((n, 1))
        _, y = check_X_y(
            numbers,
            y,
            ensure_all_finite="allow-nan",
            y_numeric=True,
            ensure_min_samples=2,
            estimator=estimator,
        )
        y = np.asarray(y, dtype=float)
    elif y is not None:
        y = position_outcome(y, n, "outcomes")
    constant = pd.Index(np.zeros(n, dtype=int))
    return Panel(
        characteristics.reset_index(drop=True),
        codes.reset_index(drop=True),
        y,
        None,
        constant,
        False,
        np.arange(n),
        index,
    )


def _split_columns(
    frame: pd.DataFrame, codes: Sequence[str], *, fitting: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split a frame into characteristics (float64) and codes (strings); after fit, ``codes`` are all there are."""
    for name in codes:
        if name not in frame.columns:
            raise InputError(f"codes: there is no column {name!r} in X.{did_you_mean(name, frame.columns)}")
    numbers: dict[Any, np.ndarray] = {}
    code_columns: dict[Any, Any] = {}
    for name in frame.columns:
        column = frame[name]
        if name in codes or (fitting and _holds_text(column)):
            code_columns[name] = canonical_codes(column).array
            continue
        numbers[name] = _as_float(column)
        if fitting and looks_like_code(name) and _is_whole(numbers[name]):
            warnings.warn(_undeclared(name), CodeWarning, stacklevel=5)
    index = frame.index
    return pd.DataFrame(numbers, index=index), pd.DataFrame(code_columns, index=index)


def _undeclared(name: object) -> str:
    return (
        f"column {name!r} looks like a code but is used as a number; declare it in codes=, or drop it from X."
    )


def _holds_text(column: pd.Series) -> bool:
    if isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype):
        return True
    if isinstance(column.dtype, pd.ArrowDtype):
        return pd.api.types.is_string_dtype(column.dtype)
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) == "string"


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


def _refuse_duplicates(labels: PanelLabels) -> None:
    pairs = pd.MultiIndex.from_arrays([labels.firm, labels.period])
    repeated = pairs[pairs.duplicated()]
    if len(repeated):
        shown = ", ".join(f"({f}, {p})" if labels.dated else str(f) for f, p in repeated.unique()[:3])
        raise InputError(
            f"X has {len(repeated)} duplicated (firm, period) rows, such as {shown}: keep one row for each firm and period."
        )


def _warn_of_leaks(characteristics: pd.DataFrame, y: np.ndarray, name: object) -> None:
    leaks = possible_leaks(characteristics, y)
    if leaks:
        warnings.warn(leak_warning(leaks, name), stacklevel=4)


def refuse_identities(codes: pd.DataFrame, declared: Sequence[str], firm: pd.Index) -> None:
    """Raise when a code has nearly one level per firm: it would be learned as the firm's name."""
    n_firms = firm.nunique()
    for name in codes.columns:
        levels = codes[name].nunique()
        if n_firms >= 10 and levels >= IDENTITY_SHARE * n_firms:
            origin = "codes" if name in declared else "X"
            raise InputError(
                f"{origin}: code {name!r} has {levels} levels for {n_firms} firms, nearly one a firm: it is an identity, not a "
                "group. Drop it, or use a coarser one."
            )
