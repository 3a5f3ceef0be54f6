"""The one input gate of estimators: scikit-learn's contract on one side, a checked panel on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import get_tags
from sklearn.utils.validation import check_X_y, validate_data

from peerattn.exceptions import InputError, PossibleLeakWarning, UnitWarning, checked, did_you_mean, warn_user
from peerattn.panel.columns import (
    LEAK_CORRELATION,
    ColumnChoice,
    all_columns,
    named_like_return,
    possible_leaks,
)
from peerattn.panel.frames import as_pandas
from peerattn.panel.labels import warn_of_labels
from peerattn.panel.panel import Panel
from peerattn.panel.reading import as_panel, assemble, read_rows, refusing

PER_CENT = 1.5  # median size of returns above which they are per cent
_CHECKS_OF_Y: dict[str, Any] = {"ensure_all_finite": "allow-nan", "y_numeric": True, "ensure_min_samples": 2}
IDENTITY_SHARE = 0.9  # a code with this many levels per firm names the firm itself


@checked
@refusing()
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
    universe: Any = None,
) -> Panel:
    """Return the :class:`Panel` of what an estimator was given; a Panel that fits it is returned as it is.

    Parameters
    ----------
    estimator : BaseEstimator
        Receives ``n_features_in_`` and ``feature_names_in_`` when ``fitting``; is compared with them otherwise.
    X : Panel, frame or array-like, (n, p)
    y : Panel, Series or array-like (n,), optional
        By default the outcomes of a Panel when ``fitting``, and none otherwise.
    fitting : bool
    firm, period : str
        Names of the labels.
    codes : sequence of str
        Columns declared to be codes; columns of dtype category or string are codes in any case.
    groupings : sequence of str
        Codes that are not learned, and so may have nearly one level a firm.
    undated : bool
        Accept firms without a period (a reference universe).
    universe : frame, optional
        The firms that answer, where these are others: levels of codes are counted over them, too.

    Raises
    ------
    InputError
        As :func:`as_panel`; and for codes that name nearly every firm, or other columns than those of fit.
    """
    has_outcome = y is not None or (isinstance(X, Panel) and X.outcomes is not None)
    if fitting and not has_outcome and get_tags(estimator).target_tags.required:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    given = as_pandas(X)
    named = isinstance(given, pd.DataFrame | Panel)
    if not named:
        given = _numbers(estimator, given, fitting, codes)
    if isinstance(given, Panel):
        columns, n_rows = given.columns, len(given)
    else:
        rows = read_rows(X if named else given, firm, period, undated=undated)
        columns, n_rows = tuple(rows.frame.columns), len(rows.frame)
        if fitting and rows.labels is None:
            warn_of_labels(rows.frame)
    names = _names(estimator, columns, n_rows, fitting, named)
    declared = codes if fitting else estimator.code_columns_
    if isinstance(given, Panel):
        panel = given.with_codes(declared) if names == columns else given
        if not fitting:
            panel = panel.with_outcomes(None)
            if names != columns or {*panel.codes} != {*declared}:
                raise InputError(
                    f"X is a Panel with columns {list(columns)}, of which {list(panel.codes)} are codes, but fit had "
                    f"{list(names)} and {list(declared)}: declare the same, or pass X.X."
                )
    else:
        frame = rows.frame if names == columns else rows.frame.set_axis(list(names), axis=1)
        choice = ColumnChoice(tuple(name for name in names if name not in declared), tuple(declared))
        panel = assemble(rows._replace(frame=frame), all_columns(frame, declared) if fitting else choice)
    if fitting:
        estimator.column_names_ = panel.columns if named else None
        estimator.code_columns_ = tuple(panel.codes)
    if isinstance(y, Panel):  # the same rows, with the outcomes to be shown
        panel = replace(panel, outcomes=y.outcomes)
    elif y is not None:
        if fitting and panel.firm is None:  # as scikit-learn checks it
            y = check_X_y(np.zeros((n_rows, 1)), y, estimator=estimator, **_CHECKS_OF_Y)[1].astype(float)
        panel = panel.with_outcomes(y, "y" if fitting else "outcomes")
    if fitting and panel.outcomes is not None and panel.firm is not None:
        warn_of_leaks(panel)
        if not isinstance(X, Panel):  # of a fold of a comparison, which has warned of the whole
            warn_of_constants(panel)
        learned = [name for name in panel.codes if name not in groupings]
        if not (isinstance(X, Panel) and X.codes_are_groups and {*learned} <= {*X.codes}):
            refuse_identities(panel, learned, codes, universe, (firm, period))
    return panel


def _numbers(estimator: Any, X: Any, fitting: bool, codes: Sequence[str]) -> np.ndarray:
    """Return an array that scikit-learn has checked, as it checks those of every estimator."""
    if codes:
        raise InputError(
            f"codes={list(codes)} names columns, but X is an array without names: pass a DataFrame."
        )
    options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "reset": fitting}
    X = validate_data(estimator, X, **options)
    if not fitting and estimator.code_columns_:
        raise InputError(
            f"X is an array, but fit read codes in {', '.join(map(repr, estimator.code_columns_))}: pass a DataFrame with "
            "the columns of fit."
        )
    return np.asarray(X)


def _names(
    estimator: Any, columns: tuple[Any, ...], n_rows: int, fitting: bool, named: bool
) -> tuple[Any, ...]:
    """Return the names of the columns, those of fit where either side is an array; refuse other columns than those of fit."""
    fitted, numbers = columns if fitting else estimator.column_names_, tuple(range(len(columns)))
    if named and len({*columns}) == len(columns):  # scikit-learn knows names of text only
        text = all(isinstance(name, str) for name in columns)
        try:
            frame = pd.DataFrame(columns=columns if text else numbers)
            validate_data(estimator, frame, reset=fitting, skip_check_array=True)
        except ValueError as error:
            raise InputError(f"{_other_columns(fitted, columns)}{error}") from error
    if not columns or not n_rows:
        what = "sample" if columns else "feature"
        raise InputError(
            f"X has 0 {what}(s) (shape={n_rows, len(columns)}) while a minimum of 1 is required."
        )
    if fitted is None:
        return numbers
    if columns not in (fitted, numbers):
        raise InputError(
            f"X has columns {list(columns)}, but fit had {list(fitted)}: pass the same columns in the same order."
        )
    return tuple(fitted)


def _other_columns(fitted: Sequence[Any] | None, have: Sequence[Any]) -> str:
    """Return which columns of fit X lacks, and which others it has."""
    if fitted is None:
        return ""
    lacks = [name for name in fitted if name not in have]
    more = [name for name in have if name not in fitted]
    said = [f"it has {', '.join(map(repr, more))} besides"] if more else []
    if lacks:
        said.insert(0, f"it lacks {', '.join(map(repr, lacks))}{did_you_mean(lacks[0], more).rstrip('.')}")
    differ = "; ".join(said) or "their order is another"
    shown = ", ".join(map(str, fitted))
    return f"The columns of X differ from those passed to fit: {differ}. Pass X[[...]] with {shown}. "


def warn_of_leaks(panel: Panel) -> None:
    """Warn of characteristics that look like the outcome itself."""
    assert panel.outcomes is not None
    if leaks := possible_leaks(panel.characteristics, panel.outcomes):
        said = f"{', '.join(map(repr, leaks))}: correlation with the outcome {panel.outcome!r} is above {LEAK_CORRELATION} in "
        warn_user(
            PossibleLeakWarning(
                said + "absolute value. Is it known at the time of the row, and not the outcome itself?"
            )
        )
    usual = np.nanmedian(np.abs(panel.outcomes))
    if usual > PER_CENT and named_like_return(panel.outcome):
        message = f"outcome {panel.outcome!r} is named like a return and has a median size of {usual:.3g}: "
        warn_user(UnitWarning(message + "returns are decimals here, divide those in per cent by 100."))


def warn_of_constants(panel: Panel) -> None:
    """Warn of characteristics and codes that are the same in all rows: no model can use them."""
    columns = {**panel.characteristics, **panel.codes}.items()
    same = [str(name) for name, x in columns if len(x) > 1 and x.notna().all() and x.nunique() == 1]
    if same:
        message = "the same value in all rows; leave out, or is it the right column?"
        warn_user(UnitWarning(f"{', '.join(map(repr, same))}: {message}"))


def refuse_identities(
    panel: Panel, learned: Sequence[Any], declared: Sequence[Any], universe: Any, names: tuple[str, str]
) -> None:
    """Raise when a code has nearly one level per firm, of the universe too: it would be learned as the firm's name."""
    assert panel.firm is not None
    firm, codes = panel.firm, panel.codes[list(learned)]
    if learned and {*learned} <= {*getattr(universe, "columns", ())}:
        options: dict[str, Any] = {"firm": names[0], "period": names[1], "undated": True}
        others = as_panel(universe, codes=list(learned), characteristics=(), **options)
        if others.firm is not None:
            firm, codes = firm.append(others.firm), pd.concat([codes, others.codes[list(learned)]])
    n_firms = firm.nunique()
    for name, levels in codes.nunique().items():
        if n_firms >= 10 and levels >= IDENTITY_SHARE * n_firms:
            origin = "codes" if name in declared else "X"
            raise InputError(
                f"{origin}: code {name!r} has {levels} levels for {n_firms} firms, nearly one a firm: it is an identity, not a "
                "group. Drop it, or use a coarser one (of SIC codes the first two digits, say)."
            )
