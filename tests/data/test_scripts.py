"""The scripts of data/: a panel file from a CSV, and the sample to the byte."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.panel import read_panel

FOLDER = Path(__file__).resolve().parents[2] / "data"


def script(name):
    spec = importlib.util.spec_from_file_location(f"data_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_panel = script("make_panel")
make_sample = script("make_sample")


def test_sample_is_made_again_to_the_byte(tmp_path):
    made = make_sample.main(tmp_path)
    assert made.read_bytes() == (FOLDER / make_sample.NAME).read_bytes()


def test_sample_reads_as_a_panel():
    panel = read_panel(FOLDER / make_sample.NAME, outcome="roa_next", period="year", industry="sic")
    assert panel.choice.characteristics == ("size", "leverage", "rnd", "momentum")
    assert set(panel.X["sic"].dropna()) == {"0100", "2911", "3570", "3711"}
    assert panel.X["sic"].isna().any() and panel.X["rnd"].isna().any()
    unknown = panel.y[panel.y.isna()].index.get_level_values("period")
    assert set(unknown) == {2012}
    sizes = panel.X.groupby(level="period").size()
    assert sizes.nunique() > 1 and len(panel.X) > 200


@pytest.mark.parametrize(
    ("every", "labels", "expected"),
    [
        ("year", ["2001", "2002"], [2001, 2002]),
        ("year", [2001.0, 2002.0], [2001, 2002]),
        ("year", ["2001-12-31", "2002-06-30"], [2001, 2002]),
        ("month", ["200112", "200201"], ["2001-12-31", "2002-01-31"]),
        ("month", ["2001-12-03", "2002-01-31"], ["2001-12-31", "2002-01-31"]),
        ("quarter", ["2001-11-03", "2002-01-31"], ["2001-12-31", "2002-03-31"]),
    ],
)
def test_periods_and_the_next_value(every, labels, expected):
    frame = pd.DataFrame({"firm": ["A", "A"], "when": labels, "roa": [0.1, 0.2]})
    panel = make_panel.make_panel(frame, "firm", "when", every=every, codes=[], following=["roa"])
    expected = expected if every == "year" else list(pd.to_datetime(expected))
    assert panel["when"].tolist() == expected
    np.testing.assert_array_equal(panel["roa_next"], [0.2, np.nan])


def test_next_value_is_looked_up_by_firm_and_period():
    frame = pd.DataFrame({"firm": list("BAABA"), "year": [2003, 2003, 2001, 2001, 2004], "roa": [1.0, 2.0, 3.0, 4.0, 5.0]})
    panel = make_panel.make_panel(frame, "firm", "year", every="year", codes=[], following=["roa"])
    following = {(r.firm, r.year): r.roa_next for r in panel.itertuples()}
    assert following[("A", 2003)] == 5.0
    assert all(np.isnan(value) for key, value in following.items() if key != ("A", 2003))
    assert panel[["year", "firm"]].apply(tuple, axis=1).is_monotonic_increasing


def test_from_csv_to_panel(tmp_path, capsys):
    source, target = tmp_path / "in.csv", tmp_path / "out.parquet"
    source.write_text("gvkey,datadate,sic,roa\n001690,2011-12-31,0100,0.1\n001690,2012-12-31,100,0.2\n", encoding="utf-8")
    options = [
        "--firm",
        "gvkey",
        "--period",
        "datadate",
        "--every",
        "year",
        "--codes",
        "sic",
        "--next",
        "roa",
    ]
    assert make_panel.main([str(source), str(target), *options]) == 0
    assert "2 rows, 1 firms, 2 periods" in capsys.readouterr().out
    panel = read_panel(target, outcome="roa_next", firm="gvkey", period="datadate", industry="sic")
    assert panel.X["sic"].tolist() == ["0100", "0100"]
    assert panel.X.index.tolist() == [("001690", 2011), ("001690", 2012)]
    assert panel.y.iloc[0] == 0.2


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (
            "firm,year,roa\nA,2001,1\nA,2001,2\n",
            ["--period", "year"],
            "1 rows repeat a firm and period (such as A, 2001)",
        ),
        ("firm,year,roa\nA,2001,1\n", ["--period", "yaer"], "no column 'yaer'. Near matches: 'year'"),
        ("firm,year,roa\nA,soon,1\n", ["--period", "year", "--every", "year"], "row 1 holds 'soon'"),
        ("firm,year,roa\nA,2001,1\n", ["--period", "year", "--next", "roa"], "--next needs --every"),
        ("", [], "No columns"),
    ],
)
def test_refusals_leave_no_file(tmp_path, capsys, text, options, words):
    source, target = tmp_path / "in.csv", tmp_path / "out.parquet"
    source.write_text(text, encoding="utf-8")
    assert make_panel.main([str(source), str(target), *options]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [source]


def test_missing_source(tmp_path, capsys):
    assert make_panel.main([str(tmp_path / "absent.csv"), str(tmp_path / "out.parquet")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_missing_column_is_an_input_error():
    with pytest.raises(InputError, match="no column 'sic'"):
        make_panel.make_panel(pd.DataFrame({"firm": ["A"], "period": [1]}), "firm", "period", codes=["sic"], following=[])
