"""Labels are found by name, checked once, and looked up as a reader spells them."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError, LabelWarning
from peerattn.panel import find_firm, find_period
from peerattn.panel.labels import panel_labels, warn_of_labels

MONTHS = pd.date_range("2012-01-31", periods=12, freq="ME")


def frame(**columns):
    return pd.DataFrame({"firm": ["A", "B", "A"], "period": [2001, 2001, 2002], "size": [1.0, 2.0, 3.0]} | columns)


def test_found_in_columns_in_the_index_and_in_both():
    columns = frame()
    for X, in_columns in [
        (columns, ("firm", "period")),
        (columns.set_index(["firm", "period"]), ()),
        (columns.set_index(["period", "firm"]), ()),
        (columns.set_index("firm"), ("period",)),
        (columns.set_index("period"), ("firm",)),
    ]:
        labels = panel_labels(X)
        assert labels.firm.tolist() == ["A", "B", "A"]
        assert labels.period.tolist() == [2001, 2001, 2002]
        assert labels.in_columns == in_columns
        assert labels.dated


def test_other_names_and_further_levels():
    X = frame().rename(columns={"firm": "permno", "period": "date"}).set_index(["date", "permno", "size"])
    labels = panel_labels(X, "permno", "date")
    assert labels.firm.tolist() == ["A", "B", "A"]


def test_neither_is_one_cross_section():
    assert panel_labels(np.zeros((3, 2))) is None
    assert panel_labels(pd.DataFrame({"size": [1.0]})) is None


def test_one_of_two_is_an_error_that_shows_near_names():
    with pytest.raises(InputError, match=r"carries 'firm' but no 'period'.*Near matches: 'periods'.*period="):
        panel_labels(frame().rename(columns={"period": "periods"}))
    with pytest.raises(InputError, match=r"carries 'period' but no 'firm'"):
        panel_labels(frame().drop(columns="firm"))
    with pytest.raises(InputError, match=r"if X is one cross-section, add a column 'period' with one value\.$"):
        panel_labels(frame().drop(columns="period"))


def test_firms_without_period_where_a_reference_is_expected():
    labels = panel_labels(frame().drop(columns="period"), undated=True)
    assert not labels.dated
    assert labels.period.nunique() == 1


@pytest.mark.parametrize("names", [[None, None], ["company", "month"]])
def test_two_level_index_of_other_names_is_refused(names):
    X = frame().set_index(["firm", "period"]).rename_axis(names)
    with pytest.raises(InputError, match="two-level index named .* rename the levels, or pass their names"):
        panel_labels(X)


@pytest.mark.parametrize(
    "column, labels",
    [("firm", [1.0, None, 2.0]), ("period", [1.0, np.nan, 2.0]), ("period", ["2001", "", "2002"])],
)
def test_missing_labels_are_refused(column, labels):
    with pytest.raises(InputError, match=f"'{column}' is missing in 1 rows .first: row 1."):
        panel_labels(frame(**{column: labels}))


@pytest.mark.parametrize(
    "periods, expected",
    [
        ([2001.0, 2001.0, 2002.0], [2001, 2001, 2002]),
        (pd.array([200112, 200112, 200201], dtype="Int64"), [200112, 200112, 200201]),
        (pd.Series([2001, 2001, 2002], dtype=object), [2001, 2001, 2002]),
        (pd.PeriodIndex(["2001Q1", "2001Q1", "2001Q2"], freq="Q"), None),
        (pd.DatetimeIndex(["2001-01-31", "2001-01-31", "2001-02-28"]), None),
        (pd.Series(pd.PeriodIndex(["2001-01", "2001-01", "2001-02"], freq="M"), dtype=object), None),
        (["2001Q4", "2001Q4", "2002Q1"], None),
        (["200112", "200112", "200201"], None),
        (["2001-12-31", "2001-12-31", "2002-01-31"], None),
        (pd.Categorical([2001, 2001, 2002]), [2001, 2001, 2002]),
        ([Decimal(2001), Decimal(2001), Decimal(2002)], [2001, 2001, 2002]),
        (["31/01/2001", "31/01/2001", "01/02/2001"], None),
        (["01/31/2001", "01/31/2001", "01/31/2002"], None),
        (["05.03.2001", "05.03.2001", "01.04.2001"], None),
        (pd.Categorical(["31-01-2001", "31-01-2001", "01-02-2001"]), None),
        (pd.Categorical(["2001Q4", "2001Q4", "2002Q1"]), None),
        ([datetime.date(2001, 12, 31)] * 2 + [datetime.date(2002, 1, 31)], None),
    ],
)
def test_periods_of_every_kind(periods, expected):
    labels = panel_labels(frame(period=periods))
    ranks = pd.factorize(labels.period, sort=True)[0]
    assert ranks.tolist() == [0, 0, 1]
    if expected is not None:
        assert labels.period.dtype == "int64"
        assert labels.period.tolist() == expected


def test_dates_become_timestamps():
    days = [datetime.date(2012, 6, 29)] * 2 + [datetime.date(2012, 7, 31)]
    periods = panel_labels(frame(period=days)).period
    assert isinstance(periods, pd.DatetimeIndex)
    assert find_period("2012-07", periods.unique()) == pd.Timestamp("2012-07-31")


def test_categorical_firms_become_their_labels():
    assert panel_labels(frame(firm=pd.Categorical(["A", "B", "A"]))).firm.tolist() == ["A", "B", "A"]


@pytest.mark.parametrize(
    "periods, message",
    [
        ([2001.5, 2001.5, 2002.0], "'period' holds fractional numbers such as 2001.5: use years"),
        ([2001, "2001Q1", 2002], "cannot be sorted: it mixes int and str"),
        ([pd.Period("2001-01"), pd.Period("2001"), pd.Period("2002")], "cannot be sorted: .*freq"),
        (["05/01/2001", "05/01/2001", "03/02/2001"], "either the day or the month first, such as '05/01/2001'"),
        (["01-04-2001", "01-04-2001", "01-05-2001"], "either the day or the month first"),
        (["13/02/2001", "13/02/2001", "02/13/2001"], "have both first, the day and the month"),
        (["31/12/99", "31/12/99", "31/01/00"], "names no dates with the year in four digits"),
        (["Jan-99", "Jan-99", "Mar-99"], "names no dates with the year in four digits"),
        ([90, 99, 0], "years of two digits, such as 99 and 0, which do not sort"),
        ([9911, 9912, 1], "years of two digits, such as 9912 and 1"),
        ([31012001, 28022001, 31032001], "days or months before the year, such as 28022001"),
        ([12001, 22001, 122001], "months before the year, such as 12001"),
        (["t1", "t2", "t10"], "names no dates .*convert it to dates, or to integers"),
        (["post", "pre", "pre"], "names no dates .*convert it to dates, or to integers"),
    ],
)
def test_periods_without_an_order_are_refused(periods, message):
    with pytest.raises(InputError, match=message):
        panel_labels(frame(period=periods))


def test_names_that_are_not_there():
    X = pd.DataFrame({"gvkey": [1, 2], "fyear": [2001, 2001], "size": [1.0, 2.0]})
    assert panel_labels(X) is None
    with pytest.warns(LabelWarning, match="'gvkey', 'fyear' look like labels: name them with firm= and period="):
        warn_of_labels(X)
    with pytest.raises(InputError, match="neither firm='gvky' nor period='yr'.*Near matches: 'gvkey'"):
        panel_labels(X, firm="gvky", period="yr")
    assert panel_labels(X[["size"]]) is None


@pytest.mark.parametrize(
    "label, periods, found",
    [
        ("2012-06", MONTHS, MONTHS[5]),
        (201206, MONTHS, MONTHS[5]),
        ("2012-06-30", MONTHS, MONTHS[5]),
        (datetime.date(2012, 6, 30), MONTHS, MONTHS[5]),
        (MONTHS[5], MONTHS, MONTHS[5]),
        (pd.Period("2012-06"), MONTHS, MONTHS[5]),
        ("2012-06", MONTHS.tz_localize("UTC"), MONTHS[5].tz_localize("UTC")),
        (MONTHS[5], MONTHS.tz_localize("UTC"), MONTHS[5].tz_localize("UTC")),
        ("2012-06", pd.DatetimeIndex(["2012-05-31", "2012-06-29"]), pd.Timestamp("2012-06-29")),
        ("2012Q2", pd.period_range("2012Q1", periods=4, freq="Q"), pd.Period("2012Q2")),
        ("2012-06-15", pd.period_range("2012-01", periods=12, freq="M"), pd.Period("2012-06")),
        (pd.Timestamp("2012-06-15"), pd.period_range("2012-01", periods=12, freq="M"), pd.Period("2012-06")),
        ("2012-06", pd.Index([201205, 201206]), 201206),
        (pd.Period("2012-06"), pd.Index([201205, 201206]), 201206),
        ("2012", pd.Index([2011, 2012]), 2012),
        (2012.0, pd.Index([2011, 2012]), 2012),
        (pd.Timestamp("2012-12-31"), pd.Index([2011, 2012]), 2012),
        ("2012-06", pd.Index(["2012-05-31", "2012-06-30"]), "2012-06-30"),
        ("wave 2", pd.Index(["wave 1", "wave 2"]), "wave 2"),
    ],
)  # fmt: skip
def test_find_period(label, periods, found):
    assert find_period(label, periods) == found


@pytest.mark.parametrize(
    "label, periods, message",
    [
        ("2013-01", MONTHS, "unknown period '2013-01': periods run from 2012-01-31 to 2012-12-31"),
        (
            2012,
            MONTHS,
            "period '2012' means 12 periods .2012-01-31, 2012-02-29, 2012-03-31, ....: name one",
        ),
        (pd.Timestamp("2012-06-15"), MONTHS, "unknown period '2012-06-15'"),
        ("2001", pd.Index([2011, 2012]), "unknown period '2001'.*Near matches: .*'2011'"),
        ("soon", MONTHS, "unknown period 'soon'"),
        (None, pd.Index([2011]), "unknown period 'None'"),
        ("2012", pd.Index([]), "there are no periods"),
    ],
)
def test_unknown_period(label, periods, message):
    with pytest.raises(InputError, match=message):
        find_period(label, periods)


def test_find_firm():
    assert find_firm("XOM", pd.Index(["IBM", "XOM"])) == "XOM"
    assert find_firm(10107, pd.Index(["10107", "10108"])) == "10107"
    assert find_firm("10107", pd.Index([10107, 10108])) == 10107
    with pytest.raises(InputError, match="unknown firm 'XON' among 2 firms. Near matches: 'XOM'"):
        find_firm("XON", pd.Index(["IBM", "XOM"]))


def test_numbers_near_a_firm_are_other_firms():
    with pytest.raises(InputError, match="unknown firm 10109 among 3 firms, such as 10107, 10108, 14593.$"):
        find_firm(10109, pd.Index([10107, 10108, 14593]))
    with pytest.raises(InputError, match="unknown firm 'Aple' among 2 firms. Near matches: 'Apple'.$"):
        find_firm("Aple", pd.Index(["Apple", "Microsoft"]))


@pytest.mark.parametrize("dtype", [object, "category"])
@pytest.mark.parametrize(
    "firms", [[1004, "1004", "1013"], ["A", 1.5, 2.5], [True, "B", "C"], ["A", datetime.date(2001, 1, 1), "B"]]
)
def test_firms_of_two_types_are_refused(firms, dtype):
    with pytest.raises(InputError, match="'firm' holds .* such as .* and .* such as .*: give all firms one type"):
        panel_labels(frame(firm=pd.Series(firms, dtype=object).astype(dtype)))


@pytest.mark.parametrize("firms", [[1004.0, 1013.0, 1004.0], [Decimal(1004), Decimal(1013), Decimal(1004)], [1004, 1013.0, 1004]])
def test_whole_numbers_are_one_type(firms):
    assert panel_labels(frame(firm=pd.Series(firms, dtype=object))).firm.equals(pd.Index([1004, 1013, 1004]))
    with pytest.raises(InputError, match="floats above 2.53, which have lost digits"):
        panel_labels(frame(firm=[2.0**53, 2.0**60, 1.0]))


@pytest.mark.parametrize("dtype", ["int64", "Int64", "uint64", "int64[pyarrow]", "category"])
def test_firms_above_2_53_stay_different(dtype):
    firms = [9007199254740992, 9007199254740993, 9007199254740994]
    assert panel_labels(frame(firm=pd.Series(firms, dtype=dtype))).firm.tolist() == firms


def test_dates_in_look_ups():
    days = panel_labels(frame(period=["31/01/2001", "31/01/2001", "05/02/2001"])).period.unique()
    assert find_period("31/01/2001", days) == pd.Timestamp("2001-01-31")
    assert find_period("05.02.2001", days) == pd.Timestamp("2001-02-05")
    with pytest.raises(InputError, match="unknown period '05/02/2001'"):
        find_period("05/02/2001", days)  # or 2 May


def test_firms_that_are_tuples_are_an_error():
    """Pairs are what a firm and its excluded group are inside; all firms with one second part would be one group."""
    index = pd.MultiIndex.from_product([[("A", 1), ("B", 1)], [2001, 2002]], names=["firm", "period"])
    with pytest.raises(InputError, match="'firm' holds tuples such as .'A', 1.: join each into one text"):
        panel_labels(pd.DataFrame({"size": 1.0}, index=index))
