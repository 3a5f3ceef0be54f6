"""The one input gate of estimators: scikit-learn's contract on one side, a checked panel on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import get_tags
from sklearn.utils.validation import check_X_y, validate_data

from peerattn.exceptions import InputError, UnitWarning, checked, did_you_mean, warn_user
from peerattn.panel.columns import leak_warning, named_like_return, possible_leaks
from peerattn.panel.frames import as_pandas
from peerattn.panel.labels import warn_of_labels
from peerattn.panel.panel import Panel
from peerattn.panel.reading import assemble, read_rows, refusing, with_codes

PER_CENT = 1.5  # median size of returns above which they are per cent
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
        given, y = _numbers(estimator, given, y, fitting, codes)
    frame, labels, index = read_rows(X if named else given, firm, period, undated=undated)
    if labels is None and fitting:
        warn_of_labels(frame)
    if named:
        _check_columns(estimator, frame, fitting)
    if not fitting:
        frame = _match_columns(estimator, frame)
        codes = estimator.code_columns_
    names = X.names if isinstance(X, Panel) else (firm, period)
    if isinstance(X, Panel) and fitting:
        panel = with_codes(X, codes)
    elif isinstance(X, Panel) and X.columns == tuple(frame.columns) and set(X.codes) == set(codes):
        panel = X.with_outcomes(None)
    else:
        panel = assemble(frame, labels, index, names, codes=codes, only_declared=not fitting)
    if fitting:
        estimator.column_names_ = panel.columns if named else None
        estimator.code_columns_ = tuple(panel.codes)
    if isinstance(y, Panel):  # the same rows, with the outcomes to be shown
        panel = replace(panel, outcomes=y.outcomes)
    elif y is not None:
        panel = panel.with_outcomes(_checked_y(estimator, panel, y, fitting), "y" if fitting else "outcomes")
    if fitting and panel.outcomes is not None and panel.firm is not None:
        warn_of_leaks(panel)
        if not isinstance(X, Panel):  # of a fold of a comparison, which has warned of the whole
            warn_of_constants(panel)
        learned = panel.codes.drop(columns=list(groupings))
        if not (isinstance(X, Panel) and X.codes_are_groups and set(learned) <= set(X.codes)):
            refuse_identities(learned, codes, panel.firm, universe, (firm, period))
    return panel


def _numbers(estimator: Any, X: Any, y: Any, fitting: bool, codes: Sequence[str]) -> tuple[np.ndarray, Any]:
    """Return an array that scikit-learn has checked, as it checks those of every estimator."""
    if codes:
        raise InputError(
            f"codes={list(codes)} names columns, but X is an array without names: pass a DataFrame."
        )
    options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "reset": fitting}
    if fitting and y is not None:
        return validate_data(estimator, X, y, y_numeric=True, ensure_min_samples=2, **options)
    X = validate_data(estimator, X, **options)
    if not fitting and estimator.code_columns_:
        raise InputError(
            f"X is an array, but fit read codes in {', '.join(map(repr, estimator.code_columns_))}: pass a DataFrame with "
            "the columns of fit."
        )
    return X, y


def _check_columns(estimator: Any, frame: pd.DataFrame, fitting: bool) -> None:
    if frame.columns.is_unique and all(isinstance(name, str) for name in frame.columns):
        try:
            validate_data(estimator, frame, reset=fitting, skip_check_array=True)
        except ValueError as error:
            raise InputError(f"{_other_columns(estimator, frame)}{error}") from error
    elif frame.columns.is_unique:  # scikit-learn knows names of text only; ours are compared below
        validate_data(
            estimator, frame.set_axis(range(frame.shape[1]), axis=1), reset=fitting, skip_check_array=True
        )
    for count, what in ((frame.shape[1], "feature"), (len(frame), "sample")):
        if not count:
            raise InputError(f"X has 0 {what}(s) (shape={frame.shape}) while a minimum of 1 is required.")


def _other_columns(estimator: Any, frame: pd.DataFrame) -> str:
    """Return which columns of fit X lacks, and which others it has."""
    fitted, have = estimator.column_names_, list(frame.columns)
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


def _match_columns(estimator: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame under fit's column names: by position where either side is an array."""
    fitted = estimator.column_names_
    have = tuple(frame.columns)
    if fitted is None:
        return frame.set_axis(range(len(have)), axis=1)
    if have == tuple(range(len(have))):
        return frame.set_axis(list(fitted), axis=1)
    if have != fitted:  # names that are not text, which scikit-learn does not compare
        raise InputError(
            f"X has columns {list(have)}, but fit had {list(fitted)}: pass the same columns in the same order."
        )
    return frame


def _checked_y(estimator: Any, panel: Panel, y: Any, fitting: bool) -> Any:
    """Return y; without labels it is checked as scikit-learn checks it."""
    if panel.firm is not None or not fitting:
        return y
    options: dict[str, Any] = {"ensure_all_finite": "allow-nan", "y_numeric": True, "ensure_min_samples": 2}
    return np.asarray(check_X_y(np.zeros((len(panel), 1)), y, estimator=estimator, **options)[1], dtype=float)


def warn_of_leaks(panel: Panel) -> None:
    """Warn of characteristics that look like the outcome itself."""
    assert panel.outcomes is not None
    leaks = possible_leaks(panel.characteristics, panel.outcomes)
    if leaks:
        warn_user(leak_warning(leaks, panel.outcome))
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
    codes: pd.DataFrame,
    declared: Sequence[str],
    firm: pd.Index,
    universe: Any = None,
    names: tuple[str, str] = ("firm", "period"),
) -> None:
    """Raise when a code has nearly one level per firm, of the universe too: it would be learned as the firm's name."""
    if universe is not None and codes.shape[1]:
        frame, labels, index = read_rows(universe, *names, undated=True)
        if labels is not None and set(codes) <= set(frame.columns):
            others = assemble(frame[list(codes)], labels, index, names, codes=list(codes))
            firm, codes = firm.append(labels.firm), pd.concat([codes, others.codes])
    n_firms = firm.nunique()
    for name in codes.columns:
        levels = codes[name].nunique()
        if n_firms >= 10 and levels >= IDENTITY_SHARE * n_firms:
            origin = "codes" if name in declared else "X"
            raise InputError(
                f"{origin}: code {name!r} has {levels} levels for {n_firms} firms, nearly one a firm: it is an identity, not a "
                "group. Drop it, or use a coarser one (of SIC codes the first two digits, say)."
            )
