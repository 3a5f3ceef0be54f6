"""The one order of periods: labels of a kind whose own order is that of time."""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError

_YEAR = re.compile(r"^\d{4}|(?<!\d)(1[89]|2[01])\d\d(?!\d)")  # first, or anywhere in a text
_DAY = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})(?:[ T]00?:00(?::00)?)?")  # 31/12/2001, 12/31/2001


def plain(labels: pd.Index) -> pd.Index:
    """Return labels of nullable and Arrow dtypes as pandas' default ones, so that equal labels are equal everywhere."""
    if isinstance(labels.dtype, pd.StringDtype) or labels.inferred_type == "string":
        return labels.astype("str")
    if labels.inferred_type == "decimal":
        return pd.Index([int(label) if label == int(label) else float(label) for label in labels], name=labels.name)
    if isinstance(labels.dtype, pd.ArrowDtype) or pd.api.types.is_integer_dtype(labels.dtype):
        found = pd.Index(labels.to_numpy(), name=labels.name).infer_objects()
        if pd.api.types.is_integer_dtype(found.dtype) and found.dtype.itemsize < 8:
            return found.astype("int64")  # of one width, so that tables of any call merge
        return found
    return labels


def in_time(periods: pd.Index, name: str = "period", *, check: bool = True) -> pd.Index:
    """Return period labels of a kind whose own order is the order of time, the one place where that is settled.

    Integers (float years become such), timestamps (dates become such), periods, or text such as "2001-03" that sorts as time
    does. Text that spells quarters, months or days in another way ("Q4 2002", "Apr 2001") becomes periods, categories become
    their labels. Whatever comes later may sort, compare and search them.

    Parameters
    ----------
    periods : Index
        Without missing labels.
    name : str
        For messages.
    check : bool, default True
        Raise an error for text of unknown order. Of a single label there is none.

    Raises
    ------
    InputError
        For labels of several kinds, text whose order is not that of time, and ordered categories in another order than their
        labels.

    Examples
    --------
    >>> in_time(pd.Index(["Q4 2002", "Q1 2003"])).tolist()
    [Period('2002Q4', 'Q-DEC'), Period('2003Q1', 'Q-DEC')]
    """
    # categories have an order of their own, which must be that of time
    if isinstance(periods, pd.CategoricalIndex):
        categories = in_time(periods.categories, name, check=bool(periods.ordered) and check)
        if periods.ordered and not categories.is_monotonic_increasing:
            mixed = f"{name!r} holds ordered categories in another order than their labels ({_first(periods.categories)})"
            raise InputError(f"{mixed}: convert it to dates, or to integers with .cat.codes.")
        return in_time(categories.take(periods.codes), name, check=check)
    periods = plain(periods).infer_objects()
    if periods.inferred_type == "date":
        return pd.DatetimeIndex(periods)
    if pd.api.types.is_float_dtype(periods.dtype) or pd.api.types.is_integer_dtype(periods.dtype):
        for broken in periods[np.mod(periods.to_numpy(), 1) != 0]:
            raise InputError(f"{name!r} holds fractional numbers such as {broken}: use years, yyyymm or dates.")
        whole = periods.astype("int64")
        if check:
            _check_digits(np.unique(whole), name)
        return whole
    if isinstance(periods, pd.DatetimeIndex | pd.PeriodIndex):
        return periods
    codes, found = pd.factorize(periods)
    labels = _dates_of_text(pd.Index(found), name)
    if check and not isinstance(labels, pd.PeriodIndex | pd.DatetimeIndex):
        _check_order(labels, name)
    return labels.take(codes)


def timestamps(labels: pd.Index, name: str = "period") -> pd.DatetimeIndex:
    """Return labels that are dates, or text that spells dates, as timestamps; what is no date is NaT.

    >>> timestamps(pd.Index(["31/01/2001", "01/02/2001"])).strftime("%Y-%m-%d").tolist()
    ['2001-01-31', '2001-02-01']
    """
    known = labels[labels.notna()]
    dates = in_time(known, name, check=False)
    if isinstance(dates, pd.PeriodIndex):
        dates = dates.to_timestamp()
    found = pd.Series(pd.to_datetime(dates, errors="coerce"), np.flatnonzero(labels.notna()))
    return pd.DatetimeIndex(found.reindex(range(len(labels))))


def is_date(column: pd.Series) -> bool:
    """Return whether a column holds dates, periods, or numbers and text that spell years, months or days.

    >>> is_date(pd.Series([2001, 2002])), is_date(pd.Series(["2001Q1", "2001Q2"])), is_date(pd.Series([3711, 100]))
    (True, True, False)
    """
    levels = pd.Index(column.dropna().unique())[:100]
    if pd.api.types.is_datetime64_any_dtype(levels.dtype) or levels.inferred_type in ("date", "period"):
        return True
    if pd.api.types.is_float_dtype(levels.dtype):
        levels = levels.astype("int64")
    if pd.api.types.is_integer_dtype(levels.dtype):
        return len(levels) > 0 and kind_of(levels) in ("years", "yyyymm", "yyyymmdd")
    texts = levels.astype(str)
    dated = (bool(_YEAR.search(text)) and (span_of(text) is not None or _DAY.fullmatch(text)) for text in texts)
    return len(texts) > 0 and all(dated)


def _check_digits(values: np.ndarray, name: str) -> None:
    """Raise for whole numbers, sorted, whose order is not that of time: years of two digits, days or months before the year."""
    if len(values) < 3 or values[0] < 0:
        return
    year, month, day = values % 10_000, values // 10_000 % 100, values // 1_000_000
    dated = bool(((year >= 1800) & (year < 2200)).all())
    days = values[0] >= 1_000_000 and bool(((np.minimum(month, day) <= 12) & (np.maximum(month, day) <= 31)).all())
    months = values[0] >= 10_000 and bool((values < 130_000).all()) and len(np.unique(month)) > 1
    if dated and (days or months):
        first = "days or " * bool(days) + "months"
        raise InputError(f"{name!r} holds {first} before the year, such as {values[0]}: write yyyymmdd, yyyymm or dates.")
    # in order of time such numbers jump down once, from 99 to 00: sorted, one gap is very large
    for base, most in ((100, 99), (10_000, 12), (1_000_000, 31)):  # yy, yymm, yymmdd
        gaps = np.sort(np.diff(values))
        around = values[0] + base - values[-1]  # the step from 99 to 00
        last = values % 100
        turns = values[-1] < base and gaps[-1] >= base / 2 and max(gaps[-2], around) <= base / 10
        if turns and bool(((last >= min(1, base // 1000)) & (last <= most)).all()):
            why = "which do not sort as time does: write years of four digits"
            raise InputError(f"{name!r} holds years of two digits, such as {values[-1]} and {values[0]}, {why}.")


def _days_of_text(labels: pd.Index, name: str) -> pd.DatetimeIndex:
    """Return days such as 31/12/2001 as dates, where the labels show whether the day or the month is first."""
    parts = [match.groups() for label in labels if (match := _DAY.fullmatch(label))]
    first, second = ({int(part[at]) for part in parts} for at in (0, 2))
    by_day, by_month = max(first) > 12 or all(part[1] == "." for part in parts), max(second) > 12
    if by_day == by_month and (by_day or any(part[0] != part[2] for part in parts)):  # 1/1/2001 is one day
        why = "either the day or the month first"
        if by_day:
            why = "both first, the day and the month"
        remedy = "convert it with pandas.to_datetime(..., dayfirst=True) or dayfirst=False"
        raise InputError(f"{name!r} holds dates that have {why}, such as {labels[0]!r}: {remedy}.")
    # one number above 12 anywhere shows the order of all
    dates = [f"{year}-{month}-{day}" for month, _, day, year in parts]
    if by_day:
        dates = [f"{year}-{month}-{day}" for day, _, month, year in parts]
    return pd.DatetimeIndex(pd.to_datetime(dates, format="%Y-%m-%d"))


def _dates_of_text(labels: pd.Index, name: str) -> pd.Index:
    """Return text that spells dates but does not begin with the year as periods, where all is of one frequency."""
    text = labels.inferred_type == "string"
    if text and len(labels) and all(map(_DAY.fullmatch, labels)):
        return _days_of_text(labels, name)
    if not text or not all(_YEAR.search(p) and not re.match(r"\d{4}", p) for p in labels):
        return labels
    spans = [span_of(label) for label in labels if re.search("[A-Za-z]", label)]
    kinds = {getattr(span, "freqstr", "")[:1] for span in spans}
    if len(spans) == len(labels) and kinds <= {"Q", "M", "D"} and len(kinds) == 1:
        return pd.PeriodIndex(spans)
    return labels


def _first(labels: pd.Index) -> str:
    return ", ".join(map(repr, labels[:3].tolist()))


def _check_order(unique: pd.Index, name: str) -> None:
    """Raise where labels have no order, or are text that names no dates or is in another order than they."""
    try:
        ordered = list(unique.sort_values())
    except (TypeError, ValueError) as error:  # ValueError: periods of two frequencies, pandas 2
        why = str(error)
        if len(kinds := sorted({type(label).__name__ for label in unique})) > 1:
            why = f"it mixes {' and '.join(kinds)}"
        raise InputError(f"{name!r} cannot be sorted: {why}. Use one kind: timestamps, periods, yyyymm or years.") from error
    found = [span_of(label) for label in ordered if not isinstance(label, str) or _YEAR.search(label)]
    spans = [span for span in found if span is not None]
    if len(spans) < len(ordered) and len(ordered) > 1:
        text = f"{name!r} holds text that names no dates with the year in four digits ({_first(unique)})"
        raise InputError(f"{text}, so that its order is not known: convert it to dates, or to integers in the order of time.")
    # text sorts by letters: Apr-2001 before Jan-2001
    starts = [span.asfreq("s", "start").ordinal for span in spans]
    if starts != sorted(starts):
        other = f"{name!r} holds text whose alphabetical order is not the order of time ({_first(unique)}): convert it with"
        raise InputError(f"{other} pandas.to_datetime, or to integers.")


def span_of(label: object) -> pd.Period | None:
    """Return the time a label spans (a year, month, day, ...); yyyymm is a month, FY2001 a year. None where it is no date."""
    if isinstance(label, pd.Period):
        return label
    if isinstance(label, float | np.floating):
        if not float(label).is_integer():
            return None
        label = int(label)
    # pandas reads 200112 as a year
    text = re.sub(r"^(\d{4})(0[1-9]|1[0-2])$", r"\1-\2", str(label))
    text = re.sub(r"^[Qq]([1-4])[\s/-]*(\d{4})$|^([1-4])[Qq][\s/-]*(\d{4})$", r"\2\4Q\1\3", text)
    text = re.sub(r"^[Ff][Yy]\s?(\d{4})$", r"\1", text)
    try:
        if _DAY.fullmatch(text):  # not 5/1, 5 January or 1 May
            text = str(_days_of_text(pd.Index([text]), "label")[0].date())
        span = pd.Period(text)
    except (ValueError, TypeError):
        return None
    # "01-03" is no day of year 1
    if span is pd.NaT or span.year < 1000:
        return None
    return span


def kind_of(labels: pd.Index) -> str:
    """Return of which kind period labels are: the order of labels of two kinds, such as years and months, is not that of time.

    >>> kind_of(pd.Index([200001, 200012])), kind_of(pd.Index([2000, 2021])), kind_of(pd.Index(["12/2021"]))
    ('yyyymm', 'years', 'text written as 99/9999')
    """
    if isinstance(labels, pd.PeriodIndex):
        return f"period of frequency {labels.freqstr}"
    if isinstance(labels, pd.DatetimeIndex):
        return "timestamp without time zone" if labels.tz is None else "timestamp with time zone"
    unique = labels.unique()
    if pd.api.types.is_integer_dtype(labels.dtype):
        return next((kind for kind, is_kind in _NUMBERS.items() if bool(is_kind(unique.to_numpy()).all())), "integer")
    if labels.inferred_type == "string" and any(map(_YEAR.search, unique)):
        return "text written as " + " or ".join(sorted({re.sub(r"\d", "9", label) for label in unique})[:3])
    return labels.inferred_type


def _are_years(year: np.ndarray) -> np.ndarray:
    return (year >= 1800) & (year < 2200)


def _are_months(month: np.ndarray) -> np.ndarray:
    return _are_years(month // 100) & (month % 100 >= 1) & (month % 100 <= 12)


_NUMBERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "yyyymmdd": lambda day: _are_months(day // 100) & (day % 100 >= 1) & (day % 100 <= 31),
    "yyyymm": _are_months,
    "yyyyq": lambda quarter: _are_years(quarter // 10) & (quarter % 10 >= 1) & (quarter % 10 <= 4),
    "years": _are_years,
}


def comparable(one: pd.Index, other: pd.Index) -> bool:
    """Return whether labels are of one kind, so that their order is that of time; whole numbers may be counters."""
    if one.empty or other.empty:
        return True
    kinds = {kind_of(one), kind_of(other)}
    if len(kinds) == 1:
        return True
    if "integer" not in kinds or not all(pd.api.types.is_integer_dtype(each.dtype) for each in (one, other)):
        return False
    # counters of periods, some of which may be spelled as a date is, but not years beside months
    return min(one.max(), other.max()) > 10_000 or max(one.min(), other.min()) < 100_000


def check_comparable(requested: pd.Index, known: pd.Index) -> None:
    """Raise where the periods of a call are of another kind than those of fit."""
    if not comparable(requested, known):
        ours, theirs = (f"{each.tolist()[0]!r} ({kind_of(each)})" for each in (known, requested))
        raise InputError(f"periods of X such as {theirs} cannot be compared with those of fit, such as {ours}: use one type.")
