"""Which columns look like firm and period, where nobody has named them."""

import re
from typing import Any, NamedTuple

import pandas as pd

from peerattn.exceptions import LabelWarning, warn_user
from peerattn.panel.time_order import is_date
from peerattn.types import LabelsLike

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
