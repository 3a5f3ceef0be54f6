"""Labels of the rows of a series: those that follow, and what is not one series in the order of time."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.sequence import AttentionAnomalyDetector, AttentionForecaster
from peerattn.sequence.time_index import later_labels

N = 60
DAYS = pd.date_range("2000-01-03", periods=N + 3, freq="D")
ENDS = pd.date_range("2000-01-31", periods=N + 3, freq="ME")
MONTHS = ENDS.to_period("M")
#: All labels of a longer series: the last three are those that follow.
EVEN = {
    "years": pd.Index(range(1871, 1871 + N + 3), name="year"),
    "years as fractions": pd.Index(np.arange(1871.0, 1871 + N + 3)),
    "quarters as fractions": pd.Index(1990 + 0.25 * np.arange(N + 3)),
    "every fifth year": pd.Index(range(1700, 1700 + 5 * (N + 3), 5)),
    "nullable years": pd.Index(range(1871, 1871 + N + 3), dtype="Int64"),
    "small whole numbers": pd.Index(range(N + 3), dtype="int16"),
    "numbers of rows": pd.RangeIndex(N + 3),
    "every other row": pd.RangeIndex(10, 10 + 2 * (N + 3), 2),
    "yyyymm": pd.Index(MONTHS.strftime("%Y%m").astype(int)),
    "yyyymm of quarters": pd.Index(MONTHS.asfreq("M")[2::3].strftime("%Y%m").astype(int)),
    "yyyymmdd": pd.Index(DAYS.strftime("%Y%m%d").astype(int)),
    "yyyymmdd of ends of months": pd.Index(ENDS.strftime("%Y%m%d").astype(int)),
    "days": DAYS,
    "business days": pd.bdate_range("2000-01-03", periods=N + 3, name="date"),
    "ends of months": ENDS,
    "ends of quarters": pd.date_range("2000-03-31", periods=N + 3, freq="QE"),
    "fiscal years": pd.date_range("1950-06-30", periods=N + 3, freq="YE-JUN"),
    "weeks": pd.date_range("2000-01-05", periods=N + 3, freq="W-WED"),
    "hours with a zone": pd.date_range("2024-03-30", periods=N + 3, freq="h", tz="Europe/Berlin"),
    "the 15th of a month": pd.DatetimeIndex([d + pd.Timedelta("15D") for d in ENDS]).map(lambda d: d.replace(day=15)),
    "periods": MONTHS,
    "quarters": pd.period_range("1990Q1", periods=N + 3, freq="Q"),
    "every third month": pd.period_range("1990-01", periods=3 * (N + 3), freq="M")[::3],
    "durations": pd.timedelta_range("0h", periods=N + 3, freq="6h"),
    "dates of Python": pd.Index([d.date() for d in ENDS]),
    "years as text": pd.Index([str(y) for y in range(1871, 1871 + N + 3)]),
    "months as text": MONTHS.astype(str),
    "quarters as text": pd.period_range("1990Q1", periods=N + 3, freq="Q").astype(str),
    "ends of months as text": pd.Index(ENDS.strftime("%Y-%m-%d"), name="date"),
    "business days as text": pd.Index(pd.bdate_range("2000-01-03", periods=N + 3).strftime("%Y-%m-%d")),
    "dates of Arrow": pd.Index(pd.Series(ENDS).astype("timestamp[ns][pyarrow]")),
}


@pytest.mark.parametrize("kept", [True, False], ids=["with its frequency", "without"])
@pytest.mark.parametrize("labels", EVEN.values(), ids=EVEN)
def test_the_labels_that_follow_are_those_of_the_longer_series(labels, kept):
    before = labels[:-3]
    if not kept and isinstance(labels, pd.DatetimeIndex):
        before = pd.DatetimeIndex(before.to_list(), name=labels.name)
    found = later_labels(before, 3)
    assert found.tolist() == [getattr(label, "to_pydatetime", lambda each=label: each)() for label in labels[-3:]]
    assert found.name == labels.name
    # one year of months, or a month of days, has no label that shows where the next begins
    assert later_labels(before[:9], 1)[0] == labels[9]


@pytest.mark.parametrize("last", ["2024-02-29", "2024-06-30"])
@pytest.mark.parametrize("months", [1, 3])
def test_two_ends_of_months_are_followed_by_ends(last, months):
    ends = pd.date_range(end=last, periods=2, freq=pd.offsets.MonthEnd(months))
    expected = pd.date_range(last, periods=4, freq=pd.offsets.MonthEnd(months))[1:]
    assert later_labels(pd.DatetimeIndex(ends.to_list()), 3).tolist() == expected.tolist()


def test_a_week_of_a_series_of_business_days_is_followed_by_a_monday():
    days = pd.bdate_range("2024-01-01", periods=60)
    wave = pd.Series(np.sin(np.arange(60)), days)
    model = AttentionForecaster(2, 5, patch=1, d_model=8, n_heads=2, n_layers=1, max_steps=1, random_state=0).fit(wave)
    week = pd.Series(wave.to_numpy()[-5:], pd.DatetimeIndex(days[-5:].to_list()))
    assert model.predict(week).index[0].day_name() == "Monday"


UNEVEN = {
    "a year is missing": pd.Index([*range(1900, 1930), *range(1931, 1961)]),
    "a month is missing": ENDS[:N].delete(20),
    "a holiday": pd.bdate_range("2000-01-03", periods=N).delete(17),
    "a period is missing": MONTHS[:N].delete(3),
    "years and a half": pd.Index([*np.arange(1900.0, 1959), 1959.5]),
    "yyyymm, one missing": pd.Index(MONTHS[:N].strftime("%Y%m").astype(int)).delete(5),
    "months as text, one missing": MONTHS[:N].astype(str).delete(5),
    "any dates": pd.DatetimeIndex(ENDS[0] + pd.to_timedelta(np.arange(N) ** 2, unit="D")),
}
DISORDERED = {
    "newest first": (ENDS[:N][::-1], "newest first"),
    "years, newest first": (pd.Index(range(1960, 1900, -1)), "newest first"),
    "rows, newest first": (pd.RangeIndex(N)[::-1], "newest first"),
    "text, newest first": (MONTHS[:N].astype(str)[::-1], "newest first"),
    "periods, newest first": (MONTHS[:N][::-1], "newest first"),
    "shuffled": (ENDS[np.random.default_rng(0).permutation(N)], "not in order"),
    "below each other": (ENDS[: N // 2].append(ENDS[: N // 2]), "series below each other"),
    "years below each other": (pd.Index([*range(30), *range(30)]), "series below each other"),
    "one date twice": (ENDS[[*range(20), *range(19, N - 1)]], "2 times"),
    "firms and years": (pd.MultiIndex.from_product([["A", "B"], range(30)], names=["firm", "year"]), "unstack"),
    "names": (pd.Index([f"row {k}" for k in range(N)]), "order in time is not known"),
    "months in words": (pd.Index(ENDS[:N].strftime("%b %Y")), "pd.to_datetime"),
    "a missing date": (ENDS[: N - 1].insert(5, pd.NaT), "missing one at row 5"),
}


@pytest.mark.parametrize("labels", UNEVEN.values(), ids=UNEVEN)
def test_labels_of_no_even_step_are_an_error_of_the_forecaster(labels):
    series = pd.Series(np.arange(float(len(labels))), labels)
    model = AttentionForecaster(3, 12, patch=4, d_model=8, n_heads=2, n_layers=1, max_steps=1, random_state=0)
    with pytest.raises(InputError, match="an even step"):
        model.fit(series)
    model.fit(series.reset_index(drop=True))
    with pytest.raises(InputError, match="an even step"):
        model.predict(series)
    assert model.predict(series.reset_index(drop=True)).index.tolist() == [len(series) + k for k in range(3)]


def test_a_series_without_rows_is_an_error():
    years = pd.Series(np.arange(40.0), pd.Index(np.arange(1980, 2020)))
    with pytest.raises(InputError, match="X: expected at least one row"):
        AttentionForecaster(3, 12).fit(years[years.index > 2050])


@pytest.mark.parametrize(("labels", "words"), DISORDERED.values(), ids=DISORDERED)
def test_rows_that_are_not_one_series_in_order_are_an_error(labels, words):
    rows = np.arange(float(N))
    series = pd.Series(rows, labels)
    options = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_steps": 1, "random_state": 0}
    forecaster = AttentionForecaster(3, 12, patch=4, **options)
    detector = AttentionAnomalyDetector(window=16, **options)
    for model in (forecaster, detector):
        with pytest.raises(InputError, match=words):
            model.fit(series)
    for call in (forecaster.fit(rows[:, None]).predict, detector.fit(rows[:, None]).score_samples):
        with pytest.raises(InputError, match=words):
            call(series)


@pytest.mark.parametrize("dates", [ENDS, MONTHS], ids=["dates", "periods"])
def test_dates_in_a_column_are_to_be_the_index(dates):
    frame = pd.DataFrame({"date": dates[:N], "x": np.arange(float(N))})
    with pytest.raises(InputError, match=r"dates in 'date'. Make them the index: X.set_index\('date'\)"):
        AttentionForecaster(3, 12).fit(frame)


@pytest.mark.parametrize("cells", ["2020-01-01 0:00", datetime.date(2024, 1, 31)])
def test_text_in_a_column_is_named(cells):
    frame = pd.DataFrame({"x": map(str, range(N)), "date": cells})  # numbers as text are numbers
    with pytest.raises(InputError, match=r"got .*20.* in 'date'\. Leave it out.* X.set_index\(pd.to_datetime\(X\['date'\]\)\)"):
        AttentionForecaster(3, 12).fit(frame)


def test_the_date_type_of_python_stays():
    assert later_labels(pd.Index([datetime.date(2024, 1, 31), datetime.date(2024, 2, 29), datetime.date(2024, 3, 31)]), 1)[
        0
    ] == datetime.date(2024, 4, 30)
