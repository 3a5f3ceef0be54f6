"""The one order of periods: labels of a kind whose own order is that of time."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError

_YEAR = re.compile(r"(?<!\d)(1[89]|2[01])\d\d(?!\d)")  # anywhere in a text


def plain(labels: pd.Index) -> pd.Index:
    """Return labels of nullable and Arrow dtypes as pandas' default ones, so that equal labels are equal everywhere."""
    if isinstance(labels.dtype, pd.StringDtype) or labels.inferred_type == "string":
        return labels.astype("str")
    if isinstance(labels.dtype, pd.ArrowDtype) or pd.api.types.is_integer_dtype(labels.dtype):
        found = pd.Index(labels.to_numpy(), name=labels.name).infer_objects()
        small = pd.api.types.is_integer_dtype(found.dtype) and found.dtype.itemsize < 8
        return found.astype("int64") if small else found  # of one width, so that tables of any call merge
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
        Refuse text of unknown order. Of a single label there is none.

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
    if isinstance(periods, pd.CategoricalIndex):
        categories = in_time(periods.categories, name, check=bool(periods.ordered) and check)
        mixed = f"{name!r} holds ordered categories in another order than their labels ({_first(periods.categories)})"
        remedy = "convert it to dates, or to integers with .cat.codes."
        if periods.ordered and not categories.is_monotonic_increasing:
            raise InputError(f"{mixed}: {remedy}")
        return in_time(categories.take(periods.codes), name, check=check)
    periods = plain(periods).infer_objects()
    if periods.inferred_type == "date":
        return pd.DatetimeIndex(periods)
    if pd.api.types.is_float_dtype(periods.dtype) or pd.api.types.is_integer_dtype(periods.dtype):
        for broken in periods[np.mod(periods.to_numpy(), 1) != 0]:
            fraction = f"{name!r} holds fractional numbers such as {broken}: use years, yyyymm or dates."
            raise InputError(fraction)
        return periods.astype("int64")
    if isinstance(periods, pd.DatetimeIndex | pd.PeriodIndex):
        return periods
    codes, found = pd.factorize(periods)
    labels = _dates_of_text(pd.Index(found))
    if check and not isinstance(labels, pd.PeriodIndex):
        _check_order(labels, name)
    return labels.take(codes)


def _dates_of_text(labels: pd.Index) -> pd.Index:
    """Return text that spells dates but does not begin with the year as periods, where all is of one frequency."""
    text = labels.inferred_type == "string"
    if not text or not all(_YEAR.search(p) and not re.match(r"\d{4}", p) for p in labels):
        return labels
    spans = [span_of(label) if re.search("[A-Za-z]", label) else None for label in labels]
    kinds = {"" if span is None else span.freqstr for span in spans}
    return pd.PeriodIndex(spans) if len(kinds) == 1 and kinds.pop()[:1] in {"Q", "M", "D"} else labels


def _first(labels: pd.Index) -> str:
    return ", ".join(map(repr, labels[:3].tolist()))


def _check_order(unique: pd.Index, name: str) -> None:
    """Raise where labels have no order, or are text that names no dates or is in another order than they."""
    try:
        ordered = list(unique.sort_values())
    except (TypeError, ValueError) as error:  # ValueError: periods of two frequencies, pandas 2
        kinds = sorted({type(label).__name__ for label in unique})
        why = f"it mixes {' and '.join(kinds)}" if len(kinds) > 1 else str(error)
        remedy = "Use one kind: timestamps, periods, yyyymm or years."
        raise InputError(f"{name!r} cannot be sorted: {why}. {remedy}") from error
    spans = [span_of(label) for label in ordered]
    text = f"{name!r} holds text that names no dates with the year in four digits ({_first(unique)}), so that its order is not"
    remedy = "convert it to dates, or to integers in the order of time."
    if None in spans and len(ordered) > 1:
        raise InputError(f"{text} known: {remedy}")
    starts = [span.asfreq("s", "start").ordinal for span in spans if span is not None]
    other = f"{name!r} holds text whose alphabetical order is not the order of time ({_first(unique)}): convert it with"
    if starts != sorted(starts):
        raise InputError(f"{other} pandas.to_datetime, or to integers.")


def span_of(label: object) -> pd.Period | None:
    """Return the time a label spans (a year, month, day, ...); yyyymm is a month, FY2001 a year. None where it is no date."""
    if isinstance(label, pd.Period):
        return label
    if isinstance(label, float | np.floating):
        label = int(label) if float(label).is_integer() else None
    text = re.sub(r"^(\d{4})(0[1-9]|1[0-2])$", r"\1-\2", str(label))
    text = re.sub(r"^[Qq]([1-4])[\s/-]*(\d{4})$|^([1-4])[Qq][\s/-]*(\d{4})$", r"\2\4Q\1\3", text)
    text = re.sub(r"^[Ff][Yy]\s?(\d{4})$", r"\1", text)
    try:
        span = pd.Period(text)
    except (ValueError, TypeError):
        return None
    return None if span is pd.NaT or span.year < 1000 else span  # "01-03" is no day of year 1


def kind_of(labels: pd.Index) -> str:
    """Return of which kind period labels are: those of two kinds cannot be compared."""
    if isinstance(labels, pd.PeriodIndex):
        return f"period of frequency {labels.freqstr}"
    if isinstance(labels, pd.DatetimeIndex):
        return f"timestamp {'without' if labels.tz is None else 'with'} time zone"
    whole = pd.api.types.is_integer_dtype(labels.dtype)
    return "yyyymm" if whole and labels.min() >= 100_000 else labels.inferred_type


def check_comparable(requested: pd.Index, known: pd.Index) -> None:
    """Raise where the periods of a call are of another kind than those of fit; whole numbers above 10,000 are counters."""
    if not (len(requested) and len(known)):
        return
    kinds = {kind_of(requested), kind_of(known)}
    counters = kinds == {"integer", "yyyymm"} and min(requested.max(), known.max()) > 10_000
    if len(kinds) > 1 and not counters:
        ours, theirs = (f"{each.tolist()[0]!r} ({kind_of(each)})" for each in (known, requested))
        raise InputError(
            f"periods of X such as {theirs} cannot be compared with those of fit, such as {ours}: give them one type."
        )
