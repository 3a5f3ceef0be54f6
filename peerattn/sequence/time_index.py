"""Labels of the rows of a series: in the order of time, of an even step, and those that follow."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, expect

_ANEW = "number the rows anew, X.reset_index(drop=True), where they are in order and equally spaced"


@dataclass(frozen=True)
class Times:
    """Labels of rows as numbers, timestamps, periods or durations, and how later ones are written like the labels."""

    index: pd.Index
    written: Callable[[pd.Index], pd.Index]


def times_of(labels: pd.Index) -> Times:
    """Return the times of rows, oldest first, each once.

    Numbers of six or eight digits that all are months or days of 1800 to 2199 (200112, 20011231) are these, and so is text as
    pandas writes periods ("2001-12", "2001Q4", "2001-12-31").

    Raises
    ------
    InputError
        When labels have several levels, repeat, run backwards, are missing, or are of no known order.
    """
    if isinstance(labels, pd.MultiIndex):
        remedy = f"Give each series a column of its own, X.unstack({labels.names[0] or 0!r}), or take one, X.xs(...)."
        raise InputError(f"X: expected one label for each row, got the levels {list(labels.names)}. {remedy}")
    expect(len(labels) > 0, "X", "at least one row", "none")
    # text, categories and Arrow's types are read as what they spell
    plain = labels
    if not isinstance(labels, pd.DatetimeIndex | pd.PeriodIndex | pd.TimedeltaIndex | pd.RangeIndex):
        # categories, nullable numbers, text, and what Arrow holds
        plain = pd.Index(labels.to_numpy(), name=labels.name).infer_objects()
    if plain.hasnans:
        raise InputError(f"X: expected a label for each row, got a missing one at row {int(plain.isna().argmax())}.")
    found = _read(plain)
    if found is None:
        got = f"{plain[0]!r} ({plain.inferred_type}), whose order in time is not known"
        remedy = f"Convert them, pd.to_datetime(X.index) or pd.PeriodIndex(X.index, freq=...), or {_ANEW}."
        raise InputError(f"X: expected dates, periods or numbers as labels of the rows, got {got}. {remedy}")
    _check_order(found.index)
    return found


def _read(labels: pd.Index) -> Times | None:
    """Return the times of labels in their order; None where these are not known."""
    if isinstance(labels, pd.DatetimeIndex | pd.PeriodIndex | pd.TimedeltaIndex | pd.RangeIndex):
        return Times(labels, lambda later: later)
    if labels.inferred_type == "date":
        return Times(pd.DatetimeIndex(labels), lambda later: pd.Index(pd.DatetimeIndex(later).date))
    if labels.inferred_type == "string":
        return _periods([str(label) for label in labels], lambda text: text)
    if labels.dtype.kind not in "iuf":
        return None
    if labels.dtype.kind != "f":
        text = labels.astype(str)
        # written as text with hyphens, 200112 is a month and 20011231 a day
        if len(text[0]) in (6, 8) and labels.min() >= 180_000 and labels.max() < 21_999_999:
            parts = [f"{label[:4]}-{label[4:6]}-{label[6:]}".removesuffix("-") for label in text]
            days = _periods(parts, lambda later: later.str.replace("-", "").astype(labels.dtype))
            if days is not None and "1800" <= text[0][:4] < "2200":
                return days
    return Times(labels, lambda later: later.astype(labels.dtype))


def _periods(text: list[str], written: Callable[[pd.Index], pd.Index]) -> Times | None:
    """Return the times of periods as pandas writes them; None where one is not, or they are of several frequencies."""
    try:
        periods = pd.PeriodIndex([pd.Period(label) for label in text])
    except (ValueError, TypeError):
        return None
    if periods.astype(str).tolist() != text:
        return None
    frequency = periods.freqstr
    if frequency[0] in "AYQM":
        return Times(periods, lambda later: written(later.astype(str)))
    # days may be the ends of months: their step is found as that of timestamps
    return Times(periods.to_timestamp(), lambda later: written(pd.DatetimeIndex(later).to_period(frequency).astype(str)))


def _check_order(times: pd.Index) -> None:
    twice = times.duplicated()
    if twice.any():
        got = f"{times[twice][0]} {int((times == times[twice][0]).sum())} times"
        remedy = "Give each series a column of its own: series below each other are not one series."
        raise InputError(f"X: expected one row for each date, got {got}. {remedy}")
    if times.is_monotonic_increasing:
        return
    place = int(np.argmax(np.asarray(times[1:] < times[:-1])))
    order = "not in order"
    if times.is_monotonic_decreasing:
        order = "backwards, newest first"
    got = f"labels that are {order}: {times[place + 1]} follows {times[place]}"
    raise InputError(f"X: expected rows in the order of time, oldest first, got {got}. Sort them, X.sort_index(), or {_ANEW}.")


def frequency_of(labels: pd.Index) -> str | None:
    """Return the frequency of dates as text, to be used for later rows of the same series; None where labels are others.

    Raises
    ------
    InputError
        When labels are not in order, or have no even step.
    """
    times = times_of(labels).index
    if len(times) < 2:
        return None
    if not isinstance(times, pd.DatetimeIndex):
        _step(times)
        return None
    step = _step_of_dates(times)
    if type(step) is pd.DateOffset:
        return None
    return step.freqstr


def later_labels(labels: pd.Index, n: int, frequency: str | None = None) -> pd.Index:
    """Return the next n labels of rows, of the same kind as theirs.

    Parameters
    ----------
    labels : Index
        Oldest first, each once, of an even step: numbers, timestamps, periods, durations, text as pandas writes periods.
    n : int
    frequency : str, default None
        Of the dates of the series that was fitted, used where these labels are of it: a week of days alone does not show
        whether the series has weekends.

    Raises
    ------
    InputError
        When labels are not in order, or have no even step.

    Examples
    --------
    >>> later_labels(pd.date_range("2024-01-31", periods=3, freq="ME"), 2)[-1]
    Timestamp('2024-05-31 00:00:00')
    >>> later_labels(pd.Index([1968, 1969, 1970], name="year"), 2)
    Index([1971, 1972], dtype='int64', name='year')
    >>> later_labels(pd.Index(["2001Q3", "2001Q4"]), 1).tolist()
    ['2002Q1']
    """
    times = times_of(labels)
    index = times.index
    if isinstance(index, pd.DatetimeIndex):
        later: pd.Index = pd.date_range(index[-1], periods=n + 1, freq=_step_of_dates(index, frequency))[1:]
    elif isinstance(index, pd.TimedeltaIndex):
        later = index[-1] + pd.to_timedelta(_step(index) * np.arange(1, n + 1), unit=index.unit)
    else:
        later = pd.Index(index[-1] + _step(index) * np.arange(1, n + 1))
    return times.written(later).rename(labels.name)


def _step(times: pd.Index) -> float:
    """Return the even step of numbers, periods or durations."""
    if len(times) < 2:
        return 1
    values = times.to_numpy()
    if isinstance(times, pd.PeriodIndex | pd.TimedeltaIndex):
        values = times.asi8
    steps = np.diff(values)
    if steps.dtype.kind in "iu":
        step = steps[0]
        uneven = steps != step
    else:
        step = (values[-1] - values[0]) / len(steps)
        uneven = np.abs(steps - step) > 1e-6 * step
    if uneven.any():
        raise _uneven(times, int(uneven.argmax()))
    return step


def _step_of_dates(dates: pd.DatetimeIndex, frequency: str | None = None) -> pd.offsets.BaseOffset:
    """Return the even step of dates: their own, that of the fitted series where they are of it, or the one they suggest."""
    if dates.freq is not None:
        return dates.freq
    known = pd.tseries.frequencies.to_offset(frequency)
    if known is not None and dates.equals(pd.date_range(dates[0], periods=len(dates), freq=known)):
        return known
    found = pd.infer_freq(dates) if len(dates) > 2 else None
    if found is not None:
        return pd.tseries.frequencies.to_offset(found)
    # the same day of every month, quarter or year has no name among the frequencies
    months = np.diff(12 * dates.year.to_numpy() + dates.month.to_numpy())
    offset: pd.offsets.BaseOffset | None = None
    if len(months) and months[0] > 0:
        offset = pd.DateOffset(months=int(months[0]))
        if dates.is_month_end.all():
            offset = pd.offsets.MonthEnd(int(months[0]))
    if offset is not None and dates.equals(pd.date_range(dates[0], periods=len(dates), freq=offset)):
        return offset
    steps = np.diff(dates.asi8)
    raise _uneven(dates, int(np.argmax(np.append(False, steps[1:] != steps[:1]))))


def _uneven(times: pd.Index, place: int) -> InputError:
    near = ", ".join(map(str, times[max(0, place - 1) : place + 2]))
    remedy = f'Fill the gap, convert dates, X.index.to_period("M"), or {_ANEW}.'
    return InputError(f"X: expected labels of an even step, so that those that follow are known, got {near}. {remedy}")
