"""Firm and period labels: where a frame carries them, which columns look like them, and how a reader may spell them."""

import operator
import re
from collections.abc import Callable, Hashable
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, LabelWarning, did_you_mean, reworded, validate_arguments, warn_user
from peerattn.panel.codes import LARGEST_WHOLE
from peerattn.panel.time_order import in_time, is_date, plain, span_of
from peerattn.types import LabelsLike, PanelLike

_ID = r"(_?(id|code|key|name|no|nr|number|abb))?"
#: Names of columns in the usual sources, the surest first; names that begin alike (``idiovol``, ``datadate_lag``) are others.
_FIRM = (
    rf"l?permno|gvkey|firm{_ID}|permco|(ib)?tic(ker)?|cusip\d?|isin|sedol|ric|cik",
    rf"(company|stock|bank|fund|entity|issuer){_ID}|id(_?(firm|company|stock))?|identifier|code|conm|comnam|co_?code",
)
_PERIOD = (
    r"period|(data|report_?|fiscal_?|calendar_?|trade_?|trading_?)?date|eom|yyyy_?mm|f?yearq?|datacqtr|ym",
    r"(fiscal_?|calendar_?|year_?)?(month|quarter|year|week|day)(_?(end|id))?|date_?(id|key)|time|t",
)
_SURE = re.compile(r"l?permno|gvkey|firm_?id|fyearq?|yyyymm|datadate", re.IGNORECASE)
_COVERED = 0.25  # least share of all pairs of firms and periods that a panel of numbered firms has


class Labels(NamedTuple):
    """Firm and period of every row, in the order of the rows."""

    firm: pd.Index
    period: pd.Index
    dated: bool  #: False for a reference that carries firms but no period, which is then one constant
    in_columns: tuple[str, ...]  #: names that were taken from columns; they are not characteristics

    @property
    def pairs(self) -> pd.MultiIndex:
        """Both labels as one index."""
        return pd.MultiIndex.from_arrays([self.firm, self.period], names=["firm", "period"])


def panel_labels(X: PanelLike, firm: str = "firm", period: str = "period", *, undated: bool = False) -> Labels | None:
    """Return the firm and period labels of ``X``, found by name in its index or its columns.

    Parameters
    ----------
    X : pandas.DataFrame or anything else
        Only a pandas frame can carry labels.
    firm, period : str, default "firm", "period"
        Names of the two index levels (in either order), or of two columns.
    undated : bool, default False
        Accept a frame with firms and no period (an undated reference universe).

    Returns
    -------
    Labels or None
        None when ``X`` carries neither name: it is one cross-section.

    Raises
    ------
    InputError
        When one of the two is missing, a label is missing, or periods cannot be sorted.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"firm": ["A", "B"], "period": [2001, 2001], "size": [1.0, 2.0]})
    >>> panel_labels(X).firm.tolist()
    ['A', 'B']
    """
    if not isinstance(X, pd.DataFrame | pd.Series):
        return None
    names = (firm, period)
    levels = list(X.index.names)
    columns = list(getattr(X, "columns", ()))
    found = {name: pd.Index(X[name]) for name in names if name in columns and name not in levels}
    in_columns = tuple(found)
    found |= {name: X.index.get_level_values(name) for name in names if name in levels}
    missing = [name for name in names if name not in found]
    near = "".join(did_you_mean(name, [*levels, *columns]) for name in missing)
    if len(missing) == 2:
        if X.index.nlevels == 2:
            two = f"X has a two-level index named {levels}, but firm={firm!r} and period={period!r} were expected"
            raise InputError(f"{two}: rename the levels, or pass their names as firm= and period=.")
        if columns and names != ("firm", "period"):
            neither = f"X carries neither firm={firm!r} nor period={period!r}, as index level or column"
            raise InputError(f"{neither}. Columns: {columns[:12]}.{near}")
        return None
    if missing and not (undated and missing == [period]):
        one = f"X carries {next(iter(found))!r} but no {missing[0]!r}: a panel needs both, as index levels or columns"
        remedy = "Name yours with firm= and period="
        if missing == [period]:
            remedy += f"; if X is one cross-section, add a column {period!r} with one value"
        raise InputError(f"{one}. Index levels: {levels}.{near} {remedy}.")
    for name, labels in found.items():
        absent = np.flatnonzero(labels.isna() | labels.astype(object).isin(["", "."]))
        if len(absent):
            raise InputError(f"{name!r} is missing in {len(absent)} rows (first: row {absent[0]}): every row needs one.")
    periods = pd.Index(np.zeros(len(X), dtype=int))
    with reworded(f"labels of {firm!r} and {period!r} must be numbers, text or dates", kinds=TypeError):
        if period in found:
            periods = in_time(found[period], period)
        return Labels(of_one_type(found[firm], firm), periods, period in found, in_columns)


def of_one_type(firms: pd.Index, name: str = "firm") -> pd.Index:
    """Return firm labels of one type; whole floats and decimals, which are numbers beside missing ones, as integers.

    Raises
    ------
    InputError
        For labels of two types, 1004 and "1004", which would be two firms, for tuples, and floats that have lost digits.

    Examples
    --------
    >>> of_one_type(pd.Index([1004.0, 1013.0])).tolist()
    [1004, 1013]
    """
    if isinstance(firms, pd.CategoricalIndex):  # an order of firms means nothing here
        firms = firms.astype(firms.categories.dtype)
    firms = plain(firms)
    # one example of each type of label is enough for the message
    examples: dict[str, object] = {}
    if firms.dtype == object:
        for label in firms.unique():
            examples.setdefault(_type_of(label), label)
    if len(examples) > 1:
        (one, first), (other, second), *_ = examples.items()
        remedy = "give all firms one type, with .astype(str), for example"
        raise InputError(f"{name!r} holds {one} such as {first!r} and {other} such as {second!r}: {remedy}.")
    if (pair := examples.get("labels of type tuple")) is not None:
        raise InputError(f"{name!r} holds tuples such as {pair!r}: join each into one text, with '-'.join, for example.")
    if not pd.api.types.is_float_dtype(firms.dtype) and "numbers" not in examples:
        return firms
    # 1004.0, read beside a missing label, is firm 1004
    numbers = firms.unique()
    if any(isinstance(label, float) and abs(label) >= LARGEST_WHOLE for label in numbers):
        raise InputError(f"{name!r} holds floats above 2^53, which have lost digits: read whole numbers or text.")
    if all(label == int(label) for label in numbers):
        return pd.Index([int(label) for label in firms], name=firms.name)
    return firms


def _type_of(label: object) -> str:
    """Return the kind of a label in a word."""
    if isinstance(label, bool | np.bool_):
        return "truth values"
    if isinstance(label, str):
        return "text"
    if isinstance(label, Number):
        return "numbers"
    return f"labels of type {type(label).__name__}"


def kind_of_firms(firms: pd.Index) -> str:
    """Return whether firms are numbers, text, or of another kind: those of two kinds never match."""
    if not len(firms):
        return ""
    return _type_of(firms[0])


@validate_arguments
def find_period(label: Hashable, periods: pd.Index) -> Any:
    """Return the period that ``label`` means among ``periods``.

    A string may be less exact than the labels: ``"2012-06"`` finds the one month-end of June 2012.

    Parameters
    ----------
    label : object
        A period of the index itself, a string, an integer (year, yyyymm), a Timestamp or a Period.
    periods : pandas.Index

    Raises
    ------
    InputError
        When nothing matches (near matches are shown) or several periods do.

    Examples
    --------
    >>> import pandas as pd
    >>> find_period("2012-06", pd.DatetimeIndex(["2012-05-31", "2012-06-29"]))
    Timestamp('2012-06-29 00:00:00')
    >>> find_period("2012-06", pd.Index([201205, 201206]))
    201206
    """
    matches = _matching_periods(label, periods)
    if len(matches) == 1:
        return matches.tolist()[0]
    if len(matches) > 1:
        several = f"{len(matches)} periods ({', '.join(map(_spell, matches[:3]))}{', ...' * (len(matches) > 3)})"
        raise InputError(f"period {_spell(label)!r} means {several}: name one.")
    listed = [_spell(p) for p in periods.sort_values()]
    span = "there are no periods"
    if listed:
        span = f"periods run from {listed[0]} to {listed[-1]}"
    raise InputError(f"unknown period {_spell(label)!r}: {span}.{did_you_mean(_spell(label), listed)}")


def _spell(label: object) -> str:
    if isinstance(label, pd.Timestamp) and label == label.normalize():
        return label.strftime("%Y-%m-%d")
    return str(label)


def _matching_periods(label: object, periods: pd.Index) -> pd.Index:
    """Return the periods that are the label, or start inside the time it spans, or contain that."""
    # equal labels first: "2001" is then a year, where years are the periods
    same = np.array([p == label or str(p) == str(label) for p in periods], dtype=bool)
    if isinstance(label, pd.Timestamp) and isinstance(periods, pd.DatetimeIndex):
        # with a time zone on one side only, what the clock shows is compared
        return periods[same | np.asarray(periods.tz_localize(None) == label.tz_localize(None))]
    span = span_of(label)
    if same.any() or span is None:
        return periods[same]
    # else all that start within the label's time, or contain it
    start, end = _times(periods)
    inside = (start >= span.start_time) & (start <= span.end_time)
    return periods[np.asarray(inside | ((start <= span.start_time) & (end >= span.end_time)))]


def _times(periods: pd.Index) -> tuple[pd.DatetimeIndex, pd.DatetimeIndex]:
    """Return when each period starts and ends; a date is a moment, and what is no date NaT."""
    if isinstance(periods, pd.DatetimeIndex):
        return (periods.tz_localize(None),) * 2
    spans = [span_of(period) for period in periods]
    start, end = ([getattr(span, at, pd.NaT) for span in spans] for at in ("start_time", "end_time"))
    return pd.DatetimeIndex(start), pd.DatetimeIndex(end)


def within_or_before(periods: pd.Index, until: object) -> np.ndarray:
    """Return which periods start no later than ``until`` ends: ``"2000-06"`` ends with June, ``2000`` with December.

    Raises
    ------
    InputError
        When ``until`` and the periods are of kinds that cannot be compared.

    Examples
    --------
    >>> import pandas as pd
    >>> within_or_before(pd.DatetimeIndex(["2000-05-31", "2000-06-30", "2000-07-31"]), "2000-06").tolist()
    [True, True, False]
    >>> within_or_before(pd.Index([200005, 200101]), 2000).tolist()
    [True, False]
    """
    return _compared(periods, until, "end_time", operator.le)


def periods_before(periods: pd.Index, label: object) -> np.ndarray:
    """Return which periods start before ``label`` does: ``"2000-06"`` begins with June, ``2000`` with January.

    Raises
    ------
    InputError
        When ``label`` and the periods are of kinds that cannot be compared.

    Examples
    --------
    >>> import pandas as pd
    >>> periods_before(pd.DatetimeIndex(["2000-05-31", "2000-06-30"]), "2000-06").tolist()
    [True, False]
    >>> periods_before(pd.Index([199912, 200001]), 2000).tolist()
    [True, False]
    """
    return _compared(periods, label, "start_time", operator.lt)


def starting_by(periods: pd.Index, label: object) -> np.ndarray:
    """Return which periods start no later than ``label`` does."""
    return _compared(periods, label, "start_time", operator.le)


def _compared(periods: pd.Index, label: object, end: str, compare: Callable[[Any, Any], Any]) -> np.ndarray:
    """Compare when periods start with the start or the end of the time that a label spans."""
    moment = getattr(span_of(label), end, None)
    if moment is not None and isinstance(label, pd.Timestamp):
        moment = label.tz_localize(None)
    starts, _ = _times(periods)
    if moment is not None and not starts.hasnans:
        return np.asarray(compare(starts, moment))
    numbers = pd.api.types.is_integer_dtype(periods.dtype) and isinstance(label, int | np.integer)
    texts = isinstance(label, str) and periods.inferred_type == "string"
    if not (numbers or texts):
        such = ", ".join(map(repr, periods[:1]))
        raise InputError(f"{label!r} cannot be compared with the periods of X (such as {such}): convert it to their type.")
    return np.asarray(compare(periods, label))


@validate_arguments
def find_firm(label: Hashable, firms: pd.Index) -> Any:
    """Return the firm that ``label`` means among ``firms`` (``10107`` finds ``"10107"`` and the reverse).

    Raises
    ------
    InputError
        When there is no such firm; near matches of names are shown.

    Examples
    --------
    >>> import pandas as pd
    >>> find_firm("IBM", pd.Index(["IBM", "XOM"]))
    'IBM'
    """
    if isinstance(label, Hashable) and label in firms:
        return label
    spelled = np.flatnonzero(firms.astype(str) == str(label))
    if len(spelled) == 1:
        return firms[spelled].tolist()[0]
    letters = sum(character.isalpha() for character in str(label))
    near = ""
    if 2 * letters > len(str(label)):  # near numbers are other firms
        near = did_you_mean(label, firms)
    such = ""
    if len(firms) and not near:
        such = f", such as {', '.join(map(repr, firms[:3].tolist()))}"
    raise InputError(f"unknown firm {label!r} among {len(firms)} firms{such}.{near}")


class Likely(NamedTuple):
    """The columns that look most like firm and period; None where none does."""

    firm: Any
    period: Any


def likely_labels(frame: pd.DataFrame) -> Likely:
    """Return the columns that look like firm and period: by their names, else by what they hold.

    >>> frame = pd.DataFrame({"idiovol": [0.1, 0.2, 0.3, 0.4], "ST_ABB": list("ABAB"), "YEAR": [2001, 2001, 2002, 2002]})
    >>> likely_labels(frame)
    Likely(firm='ST_ABB', period='YEAR')
    """
    names = [name for name in frame.columns if _may_be_label(frame[name])]
    found = Likely(_named(names, _FIRM), _named(names, _PERIOD))
    if None not in found:
        return found
    dates = [found.period]
    if found.period is None:
        dates = [name for name in names if is_date(frame[name])]
    firms = [found.firm]
    if found.firm is None:
        firms = [name for name in names if name not in dates]
    # names alone do not tell: try which pair of columns identifies the rows
    pairs = (Likely(one, date) for date in dates for one in firms if is_panel(frame, one, date))
    return next(pairs, found)


def _may_be_label(column: pd.Series) -> bool:
    """Return whether a column holds text, dates, or whole numbers."""
    if not pd.api.types.is_float_dtype(column.dtype):
        return not pd.api.types.is_bool_dtype(column.dtype)
    return bool((column.dropna() % 1 == 0).all())


def _named(names: list[Any], patterns: tuple[str, ...]) -> Any:
    """Return the name that the first of these patterns finds."""
    found = (name for pattern in patterns for name in names if re.fullmatch(pattern, str(name), re.IGNORECASE))
    return next(found, None)


def is_panel(frame: pd.DataFrame, firm: LabelsLike, period: LabelsLike) -> bool:
    """Return whether two columns are labels of a panel: no pair occurs twice, and each firm and each period more than once."""
    firms, periods = frame[firm].nunique(), frame[period].nunique()
    if min(firms, periods) < 2 or len(frame) < 1.5 * max(firms, periods) or frame.duplicated([firm, period]).any():
        return False
    numbered = pd.api.types.is_numeric_dtype(frame[firm].dtype)
    return not numbered or len(frame) >= _COVERED * firms * periods


def warn_of_labels(X: object) -> None:
    """Warn where a frame without labels looks like a panel."""
    if not isinstance(X, pd.DataFrame):
        return
    frame = X
    if any(name is not None for name in X.index.names):
        frame = X.reset_index()
    if not frame.columns.is_unique:
        return
    found = likely_labels(frame)
    if None not in found and is_panel(frame, *found):
        both = f"{str(found.firm)!r} and {str(found.period)!r} look like labels"
        remedy = f"did you mean firm={str(found.firm)!r}, period={str(found.period)!r}?"
    elif sure := [str(name) for name in frame.columns if _SURE.fullmatch(str(name))]:
        both = f"{', '.join(map(repr, sure))} look{'s' * (len(sure) == 1)} like labels"
        remedy = "name them with firm= and period=."
    else:
        return
    warn_user(LabelWarning(f"X has no 'firm' and no 'period' and is taken as one cross-section, but {both}: {remedy}"))
