"""Files of Stata, SAS and SPSS: their dates are dates, and their value labels are names."""

import pandas as pd
import pytest

from peerattn import read_panel
from peerattn.evaluation.measures.factors import periods_per_year
from peerattn.exceptions import CodeWarning
from peerattn.panel.frames import read_frame

pyreadstat = pytest.importorskip("pyreadstat")


def panel_frame(first):
    rows = [(firm, first + t, 1.0 * t * t, 0.1) for t in range(6) for firm in "ABC"]
    return pd.DataFrame(rows, columns=["firm", "t", "size", "y"])


@pytest.mark.parametrize(
    "form, first, begins, a_year",
    [
        ("%tm", 624, "2012-01", 12),
        ("%tmMonCCYY", 624, "2012-01", 12),
        ("%tq", 208, "2012Q1", 4),
        ("%tw", 2704, "2012-01-01", 52),
        ("%th", 104, "2012-01-01", 2),
        ("%ty", 2012, "2012", 1),
        ("%tm", -12, "1959-01", 12),
    ],
)
def test_dates_of_stata(tmp_path, form, first, begins, a_year):
    pyreadstat.write_dta(panel_frame(first), tmp_path / "a.dta", variable_format={"t": form})
    periods = read_panel(tmp_path / "a.dta", outcome="y", period="t").period.unique()
    assert str(periods[0]).startswith(begins) and periods_per_year(periods) == a_year


def test_weeks_begin_on_1_january_and_missing_dates_stay_missing(tmp_path):
    frame = pd.DataFrame({"t": [2704.0, 2755.0, None, 2756.0], "m": [1.0, None, 2.0, 3.0]})
    pyreadstat.write_dta(frame, tmp_path / "a.dta", variable_format={"t": "%tw", "m": "%tm"})
    found = read_frame(tmp_path / "a.dta")
    days = [str(day)[:10] for day in found["t"]]
    assert days == ["2012-01-01", "2012-12-23", "NaT", "2013-01-01"]
    assert list(map(str, found["m"])) == ["1960-02", "NaT", "1960-03", "1960-04"]


@pytest.mark.parametrize(
    "ending, form, first",
    [
        ("sav", "MOYR8", 13546310400),
        ("sav", "QYR6", 13546310400),
        ("xpt", "MONYY7", 18993),
        ("xpt", "YYMMN6", 18993),
        ("xpt", "YYMMDDS10", 18993),
        ("xpt", "MMYYS7", 18993),
        ("xpt", "YYQ4", 18993),
        ("xpt", "NLDATE10", 18993),
    ],
)
def test_months_of_sas_and_spss(tmp_path, ending, form, first):
    write = {"sav": pyreadstat.write_sav, "xpt": pyreadstat.write_xport}[ending]
    write(pd.DataFrame({"t": [float(first)], "x": [1.0]}), tmp_path / f"a.{ending}", variable_format={"t": form})
    assert str(read_frame(tmp_path / f"a.{ending}")["t"].iloc[0])[:7] == "2012-01"


@pytest.mark.parametrize("form", ["MONEY", "YEARGRP", "QTRFMT", "WEEKS", "DATEFLAG"])
def test_formats_of_a_file_s_own_are_no_dates(tmp_path, form):
    pyreadstat.write_xport(pd.DataFrame({"t": [3.0, 4.0]}), tmp_path / "a.xpt", variable_format={"t": form})
    assert read_frame(tmp_path / "a.xpt")["t"].tolist() == [3.0, 4.0]


def test_large_values_of_one_label_stay_two(tmp_path):
    labels = {"area": {12345671: "North", 12345672: "North", 3: "South"}}
    pyreadstat.write_sav(pd.DataFrame({"area": [12345671.0, 12345672, 3]}), tmp_path / "a.sav", variable_value_labels=labels)
    assert read_frame(tmp_path / "a.sav")["area"].tolist() == ["North (12345671)", "North (12345672)", "South"]


@pytest.mark.parametrize("ending", ["dta", "sav"])
def test_labelled_numbers_are_names(tmp_path, ending):
    frame = pd.DataFrame(
        {
            "firm": list("ABCD"),
            "year": 2001,
            "size": [1.0, 2, 3, 4],
            "sector": [1, 2, 2, 3],
            "sic": [3711, 100, 100, 2911],
        }
    )
    frame["listed"], frame["y"] = [0, 1, 1, 0], [0, 1, 0, 1]
    labels = {
        "sector": {1: "Energy", 2: "Banks", 3: "Banks", 4: "None"},
        "sic": {3711: "Cars", 100: "Farms", 2911: "Oil"},
    }
    labels |= {"listed": {0: "no", 1: "yes"}, "y": {0: "no", 1: "yes"}}
    getattr(pyreadstat, {"dta": "write_dta", "sav": "write_sav"}[ending])(
        frame, tmp_path / f"a.{ending}", variable_value_labels=labels
    )
    panel = read_panel(tmp_path / f"a.{ending}", outcome="y", period="year", codes=["sector"], industry="sic")
    assert panel.choice.characteristics == ("size",) and "not a number" in panel.choice.left["listed"]
    assert panel.codes["sector"].tolist() == ["Energy", "Banks (2)", "Banks (2)", "Banks (3)"]
    assert panel.codes["sic"].tolist() == ["3711", "0100", "0100", "2911"]
    assert panel.y.tolist() == [0, 1, 0, 1]  # an outcome is a number
    named = read_panel(tmp_path / f"a.{ending}", outcome="y", period="year", characteristics=["listed"])
    assert named.X["listed"].tolist() == [0, 1, 1, 0]


def test_labels_of_some_values_leave_numbers(tmp_path):
    frame = pd.DataFrame({"firm": list("ABC"), "year": 2001, "size": [1.0, -9.0, 3.0], "y": 1.0})
    pyreadstat.write_dta(frame, tmp_path / "a.dta", variable_value_labels={"size": {-9: "refused"}})
    with pytest.warns(CodeWarning, match="column 'size': -9 is labelled 'refused', but other values have no label"):
        panel = read_panel(tmp_path / "a.dta", outcome="y", period="year")
    assert panel.choice.characteristics == ("size",)


def test_two_values_of_text_with_one_label_stay_two(tmp_path):
    frame = pd.DataFrame({"firm": ["A", "B", "C"], "area": ["N", "S", "W"]})
    labels = {"area": {"N": "North", "S": "South", "W": "South"}}
    pyreadstat.write_sav(frame, tmp_path / "a.sav", variable_value_labels=labels)
    assert read_frame(tmp_path / "a.sav")["area"].tolist() == ["North", "South ('S')", "South ('W')"]
