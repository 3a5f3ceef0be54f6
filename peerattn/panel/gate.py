"""The one input gate of estimators: scikit-learn's contract on one side, a checked panel on the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_X_y, validate_data

from peerattn.exceptions import (
    CodeWarning,
    InputError,
    LabelWarning,
    LostPeriodWarning,
    PossibleLeakWarning,
    UnitWarning,
    did_you_mean,
    naming,
    reworded_values,
    validate_arguments,
    warn_user,
)
from peerattn.panel.columns import LEAK_CORRELATION, ColumnChoice, all_columns, check_known, named_like_return, possible_leaks
from peerattn.panel.frames import as_pandas
from peerattn.panel.labels import kind_of_firms, warn_of_labels
from peerattn.panel.panel import Panel
from peerattn.panel.reading import as_panel, panel_of
from peerattn.types import ColumnLike, OutcomesLike, PanelLike

PER_CENT = 1.5  # median size of returns above which they are per cent
IDENTITY_SHARE = 0.9  # a code with this many levels per firm names the firm itself
SINGLE_VALUE = 0.75  # share of a characteristic's squared deviations from which one value is an outlier
FEW_VALUES = 50  # known values below which one may well have that share


@validate_arguments
@reworded_values()
def check_panel(
    estimator: BaseEstimator,
    X: PanelLike,
    y: OutcomesLike = None,
    *,
    fitting: bool,
    firm: ColumnLike = "firm",
    period: ColumnLike = "period",
    codes: Sequence[str] = (),
    groupings: Sequence[str] = (),
    undated: bool = False,
    universe: PanelLike = None,
) -> Panel:
    """Return the :class:`Panel` of what an estimator was given, its rows sorted by period and firm.

    Parameters
    ----------
    estimator : BaseEstimator
        Receives ``n_features_in_`` and ``feature_names_in_`` when ``fitting``; is compared with them otherwise.
    X : Panel, frame or array-like, (n, p)
    y : Panel, Series or array-like (n,), optional
        By default the outcomes of a Panel when ``fitting``, and none otherwise.
    fitting : bool
    firm, period : str, default "firm", "period"
        Names of the labels.
    codes : sequence of str, default ()
        Columns declared to be codes; columns of dtype category or string are codes in any case.
    groupings : sequence of str, default ()
        Codes that are not learned, and so may have nearly one level a firm.
    undated : bool, default False
        Accept firms without a period (a reference universe).
    universe : frame, optional
        The candidate peers, where these are other firms: levels of codes are counted over them, too.

    Raises
    ------
    InputError
        As :func:`as_panel`; and for codes that name nearly every firm, or other columns than those of fit.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.base import BaseEstimator
    >>> from peerattn.panel import check_panel
    >>> index = pd.MultiIndex.from_product([["A", "B"], [2001, 2002]], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0]}, index)
    >>> panel = check_panel(BaseEstimator(), X, fitting=True)
    >>> len(panel)
    4
    """
    # scikit-learn's own message, which its checks look for
    known = y is not None or (isinstance(X, Panel) and X.outcomes is not None)
    if fitting and not known and get_tags(estimator).target_tags.required:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    given = as_pandas(X)
    declared = codes
    if not fitting:
        declared = estimator.code_columns_
    named = isinstance(given, pd.DataFrame | Panel)

    def choose(frame: pd.DataFrame) -> tuple[pd.DataFrame, ColumnChoice]:
        names = list(_names(estimator, tuple(frame.columns), len(frame), fitting, named))
        frame = frame.set_axis(names, axis=1)
        if not fitting:
            return frame, ColumnChoice(tuple(name for name in names if name not in declared), tuple(declared))
        # declared as industry=, so that is the argument to name where the column is missing
        check_known("industry", [getattr(estimator, "industry", None)], names)
        return frame, all_columns(frame, declared, labels=(firm, period))

    if isinstance(given, Panel):
        panel = _of_panel(estimator, given, declared, fitting)
    else:
        if not named:
            X = _numbers(estimator, given, fitting, codes)
        panel = panel_of(X, choose, firm, period, undated=undated)
        if fitting and panel.firm is None:
            warn_of_labels(given)
            _warn_of_labelled_outcomes(given, y)
    kind = ""
    if panel.firm is not None and not undated:
        kind = kind_of_firms(panel.firm)
    if fitting:
        _keep_columns(estimator, panel, kind, named)
    else:
        _check_firms(firm, kind, getattr(estimator, "firm_kind_", ""))
        _check_codes(panel.codes, getattr(estimator, "code_values_", {}), groupings)
    panel = _with_outcomes(panel, y, estimator, fitting).arranged()
    if fitting and panel.outcomes is not None and panel.firm is not None:
        learned = [name for name in panel.codes if name not in groupings]
        panel = examine(panel, learned, codes, universe, (firm, period))
    return panel


def _of_panel(estimator: Any, given: Panel, codes: Sequence[Any], fitting: bool) -> Panel:
    """Return a panel with these columns declared to be codes; other columns or codes than those of fit raise an error."""
    names = _names(estimator, given.columns, len(given), fitting, named=True)
    panel = given
    if names == given.columns:
        panel = given.with_codes(codes)
    if not fitting and (names != given.columns or {*panel.codes} != {*codes}):
        had = f"X is a Panel with columns {list(given.columns)}, of which {list(panel.codes)} are codes, but fit had "
        raise InputError(f"{had}{list(names)} and {list(codes)}: declare the same, or pass X.X.")
    return panel


def _keep_columns(estimator: Any, panel: Panel, kind: str, named: bool) -> None:
    """Keep in an estimator the columns, codes and kind of firms that later calls are compared with."""
    estimator.column_names_ = None
    if named:
        estimator.column_names_ = panel.columns
    estimator.code_columns_ = tuple(panel.codes)
    estimator.code_values_ = {name: tuple(sorted(panel.codes[name].dropna().unique())) for name in panel.codes}
    estimator.firm_kind_ = kind


def _with_outcomes(panel: Panel, y: OutcomesLike, estimator: BaseEstimator, fitting: bool) -> Panel:
    """Return a panel with the outcomes that were passed beside it."""
    if isinstance(y, Panel):  # the same rows, with the outcomes to be shown
        return replace(panel, outcomes=y.outcomes)
    if not fitting:
        return panel.with_outcomes(y, "outcomes")
    if y is None:
        return panel
    if panel.firm is None:  # as scikit-learn checks it
        options: dict[str, Any] = {"ensure_all_finite": "allow-nan", "y_numeric": True, "ensure_min_samples": 2}
        y = check_X_y(np.zeros((len(panel), 1)), y, estimator=estimator, **options)[1]
    return panel.with_outcomes(y)


def _check_firms(name: str, kind: str, fitted: str) -> None:
    """Raise where firms are of another kind than those of fit; an empty kind is of no firm."""
    # 1004 and "1004" never match: models that know firms would see only strangers
    if kind and fitted and kind != fitted:
        remedy = "give them the type of fit, with .astype(str) or .astype(int), for example"
        raise InputError(f"{name!r}: firms of X are {kind}, those of fit {fitted}: {remedy}.")


def _check_codes(codes: pd.DataFrame, fitted: Mapping[Any, Sequence[str]], groupings: Sequence[str]) -> None:
    """Raise where codes differ from those of fit in zeros before them alone; warn where none that is learned was in fit."""
    for name, known in fitted.items():
        present = pd.Index(codes[name].dropna().unique())
        new = present.difference(list(known)).tolist()
        spelled = {value.lstrip("0"): value for value in known}
        for value in new:
            if value.isdigit() and (fitted_as := spelled.get(value.lstrip("0"))):
                remedy = "a reader has dropped or added the zeros before it: read the column as text in both."
                raise InputError(f"code {name!r} holds {value!r}, and fit had {fitted_as!r}: {remedy}")
        if known and new and len(new) == len(present) and name not in groupings:
            such = f"(such as {known[0]!r}) but {', '.join(map(repr, new[:3]))}"
            warn_user(CodeWarning(f"code {name!r} holds no value of fit {such}: all count as unknown."))


def _warn_of_labelled_outcomes(X: PanelLike, y: OutcomesLike) -> None:
    """Warn where outcomes have labels that their rows had, too, before something dropped them."""
    frames = pd.Series | pd.DataFrame
    if isinstance(X, frames) and X.index.nlevels == 2:
        return
    if isinstance(y, frames) and y.index.nlevels == 2:
        warn_of_lost_labels(f"y carries {' and '.join(map(repr, y.index.names))} but X does not")


def warn_of_lost_labels(lost: str) -> None:
    """Warn that rows without labels are taken as one cross-section; ``lost`` is the reason why they should have some."""
    remedy = "In a Pipeline, set_output(transform='pandas') keeps the index."
    warn_user(LostPeriodWarning(f"{lost}: X is one cross-section, all periods in one. {remedy}"))


def _numbers(estimator: Any, X: PanelLike, fitting: bool, codes: Sequence[str]) -> np.ndarray:
    """Return an array that scikit-learn has checked, as it checks those of every estimator."""
    if codes:
        raise InputError(f"codes={list(codes)} names columns, but X is an array without names: pass a DataFrame.")
    X = validate_data(estimator, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=fitting)
    if not fitting and estimator.code_columns_:
        read = f"X is an array, but fit read codes in {', '.join(map(repr, estimator.code_columns_))}"
        raise InputError(f"{read}: pass a DataFrame with the columns of fit.")
    return np.asarray(X)


def _names(estimator: Any, columns: tuple[Any, ...], n_rows: int, fitting: bool, named: bool) -> tuple[Any, ...]:
    """Return the names of the columns, those of fit where either side is an array; other columns raise an error."""
    fitted = columns
    if not fitting:
        fitted = estimator.column_names_
    numbers = tuple(range(len(columns)))
    if named and len({*columns}) == len(columns):
        known_names = columns
        if not all(isinstance(name, str) for name in columns):  # scikit-learn has names of text only
            known_names = numbers
        try:
            validate_data(estimator, pd.DataFrame(columns=known_names), reset=fitting, skip_check_array=True)
        except ValueError as error:
            wording = str(error)
            if fitted:
                lacks = [name for name in fitted if name not in columns]
                near = "".join(did_you_mean(name, columns) for name in lacks[:1])
                remedy = f"Pass X[[...]] with {', '.join(map(str, fitted))}."
                wording = f"The columns of X are not those of fit.{near} {remedy} {error}"
            raise InputError(wording) from error
    for what, count in {"feature": len(columns), "sample": n_rows}.items():
        if not count:
            raise InputError(f"X has 0 {what}(s) (shape={(n_rows, len(columns))}) while a minimum of 1 is required.")
    if fitted is None:
        return numbers
    if columns not in (fitted, numbers):
        raise InputError(f"X has columns {list(columns)}, but fit had {list(fitted)}: pass the same columns in the same order.")
    return tuple(fitted)


def _warn_of_single_values(panel: Panel) -> None:
    """Warn where one value has most of the squared deviations of a characteristic: beside it all others look the same."""
    for name, x in panel.characteristics.items():
        deviation = (x - x.median()).abs()
        if x.count() < FEW_VALUES or deviation.median() == 0:  # an indicator has few values that differ
            continue
        row = int(np.nanargmax(deviation))
        share = float(deviation.iloc[row] ** 2 / (deviation**2).sum())
        if share > SINGLE_VALUE:
            where = ", ".join(map(str, panel.labels[row]))
            found = f"{name!r}: one value, {x.iloc[row]:.3g} ({where}), makes up {share:.0%} of its variance"
            warn_user(UnitWarning(f"{found}, and all others look the same beside it: check it, or use ranks or logarithms."))


def _warn_of_blanks(firms: pd.Index) -> None:
    """Warn where labels of firms, each once, differ by blanks around them alone."""
    if kind_of_firms(firms) != "text":
        return
    stripped = firms.str.strip()
    if not stripped.is_unique:
        pair = firms[stripped == stripped[stripped.duplicated()][0]][:2].tolist()
        differ = f"firms {pair[0]!r} and {pair[1]!r} differ by blanks alone and count as two"
        warn_user(LabelWarning(f"{differ} ({len(firms) - stripped.nunique()} such): strip them, with .str.strip()."))


def examine(panel: Panel, learned: Sequence[Any], declared: Sequence[Any], universe: PanelLike, names: tuple[str, str]) -> Panel:
    """Warn of characteristics that look like the outcome or are constant; codes that identify the firm raise an error.

    A panel is examined once, and records it: of a fold of a comparison, or of the rows of an inner fit, the whole was.

    Parameters
    ----------
    panel : Panel
        With firms and outcomes.
    learned, declared : sequence
        Codes that a model learns from, and those that were declared.
    universe : frame, optional
        The candidate peers, where these are other firms: levels of codes are counted over them, too.
    names : (str, str)
        Of the universe's firm and period labels.
    """
    assert panel.firm is not None and panel.outcomes is not None
    if panel.examined:
        return panel
    if leaks := possible_leaks(panel.characteristics, panel.outcomes):
        wording = f"{', '.join(map(repr, leaks))}: correlation with the outcome {panel.outcome!r} is above {LEAK_CORRELATION} in "
        question = "absolute value. Is it known at the time of the row, and not the outcome itself?"
        warn_user(PossibleLeakWarning(wording + question))
    # in decimals half of the returns would be above 150 per cent in size: they are in per cent
    usual = np.nanmedian(np.abs(panel.outcomes))
    if usual > PER_CENT and named_like_return(panel.outcome):
        message = f"outcome {panel.outcome!r} is named like a return and has a median size of {usual:.3g}: "
        warn_user(UnitWarning(message + "returns are decimals here, divide those in per cent by 100."))
    columns = {**panel.characteristics, **panel.codes}.items()
    if same := [str(name) for name, x in columns if len(x) > 1 and x.notna().all() and x.nunique() == 1]:
        message = "the same value in all rows; leave out, or is it the right column?"
        warn_user(UnitWarning(f"{', '.join(map(repr, same))}: {message}"))
    _warn_of_single_values(panel)
    _warn_of_blanks(panel.firm.unique())
    # a code names the firm only if it does so among all firms that can be peers
    firm = panel.firm
    codes = panel.codes[list(learned)]
    if learned and {*learned} <= {*getattr(universe, "columns", ())}:
        with naming("reference"):
            others = as_panel(universe, codes=learned, characteristics=(), firm=names[0], period=names[1], undated=True)
        if others.firm is not None:
            firm = firm.append(others.firm)
            codes = pd.concat([codes, others.codes])
    n_firms = firm.nunique()
    levels = codes.nunique()
    for name in levels.index[(levels >= IDENTITY_SHARE * n_firms) & (n_firms >= 10)]:
        # firms that change their industry have more levels over all periods than in one
        in_period = panel.codes[name].groupby(panel.period if panel.dated else np.zeros(len(panel))).nunique()
        if in_period.sum() < IDENTITY_SHARE * len(panel):
            continue
        origin = "codes" if name in declared else "X"
        identity = f"{origin}: code {name!r} has {levels[name]} levels for {n_firms} firms, nearly one a firm: it is an identity"
        remedy = "Drop it, or use a coarser one (for example the first two digits of SIC codes)."
        raise InputError(f"{identity}, not a group. {remedy}")
    return replace(panel, examined=True)
