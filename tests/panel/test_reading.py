"""Files and frames of every kind give the same panel; what cannot be read is said in one line."""

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.panel import read_panel


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "gvkey": ["A", "B", "A", "B"],
            "year": [2001, 2001, 2002, 2002],
            "size": [1.0, np.nan, 3.0, 4.0],
            "age": [1, 2, 3, 4],
            "sic": [100, 3711, 0, 9999],
            "sector": ["x", "y", None, "y"],
            "roa_next": [0.1, 0.2, np.nan, 0.4],
            "ret_next": [0.1, 0.2, 0.3, 0.4],
        }
    )


def read(source, **options):
    settings = {
        "outcome": "roa_next",
        "firm": "gvkey",
        "period": "year",
        "codes": ["sector"],
        "industry": "sic",
    }
    return read_panel(source, **settings | options)


def test_what_was_taken(frame):
    panel = read(frame, description="four rows")
    assert panel.X.index.names == ["firm", "period"]
    assert panel.choice.characteristics == ("size", "age")
    assert panel.choice.codes == ("sector", "sic")
    assert panel.X.columns.tolist() == ["size", "age", "sector", "sic"]
    assert panel.X["age"].dtype == "float64"
    assert panel.X["sic"].fillna("?").tolist() == ["0100", "3711", "?", "?"]
    assert panel.outcome == "roa_next"
    assert panel.y.index.equals(panel.X.index)
    assert panel.y.isna().tolist() == [False, False, True, False]
    assert panel.choice.left == {"ret_next": "looks like another outcome"}
    assert (panel.industry, panel.description) == ("sic", "four rows")


def test_text(frame):
    panel = read(frame)
    assert repr(panel) == "Panel(4 rows, 2 firms, 2 periods, outcome='roa_next')"
    assert str(panel).splitlines()[1:] == [
        "outcome: roa_next (known in 3 of 4 rows)",
        "characteristics (2): size, age",
        "codes (2): sector, sic",
        "left out: ret_next (looks like another outcome)",
    ]


def test_every_source_gives_the_same(frame, tmp_path):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "panel.parquet")
    frame.to_csv(tmp_path / "panel.csv", index=False)
    frame.to_feather(tmp_path / "panel.feather")
    frame.to_feather(tmp_path / "panel.arrow")
    frame.set_index(["year", "gvkey"]).to_parquet(tmp_path / "indexed.pq")
    expected = read(frame)
    sources = [
        *sorted(tmp_path.iterdir()),
        str(tmp_path / "panel.parquet"),
        frame.set_index(["gvkey", "year"]),
        frame.convert_dtypes(),
        frame.convert_dtypes(dtype_backend="pyarrow"),
        frame.assign(sector=frame["sector"].astype("category")),
        polars.from_pandas(frame),
        pyarrow.Table.from_pandas(frame),
    ]
    assert len(sources) == 12
    for source in sources:
        panel = read(source)
        pd.testing.assert_frame_equal(panel.X, expected.X)
        pd.testing.assert_series_equal(panel.y, expected.y)


def test_columns_that_are_no_text(frame):
    panel = read_panel(frame.rename(columns={"size": 7}), outcome="roa_next", firm="gvkey", period="year")
    assert "7" in panel.choice.characteristics


@pytest.mark.parametrize(
    "options, message",
    [
        ({"outcome": "roa"}, "outcome: no column is named 'roa'.*Near matches: .*Known: gvkey, year"),
        ({"firm": "gvkeys"}, "firm: no column is named 'gvkeys'.*'gvkey'"),
        ({"period": "date"}, "period: no column is named 'date'"),
        ({"industry": "sic4"}, "industry: no column is named 'sic4'.*'sic'"),
        ({"codes": ["sect"]}, "codes: no column is named 'sect'.*'sector'"),
        ({"codes": "sector"}, "codes: expected a list of names, got 'sector'"),
        ({"characteristics": ["ret_next"]}, "'ret_next' hold next period's outcomes"),
        (
            {"outcome": "sector", "codes": []},
            "outcome: column 'sector' holds (str|object|category) such as .*, not numbers",
        ),
    ],
)
def test_bad_columns(frame, options, message):
    with pytest.raises(InputError, match=message):
        read(frame, **options)


def test_empty_frames_and_files(frame, tmp_path):
    with pytest.raises(InputError, match="the frame has no rows"):
        read(frame.iloc[:0])
    frame.iloc[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(InputError, match="empty.parquet: the file has no rows"):
        read(tmp_path / "empty.parquet")
    (tmp_path / "nothing.csv").touch()
    with pytest.raises(InputError, match="nothing.csv: not a readable CSV file"):
        read(tmp_path / "nothing.csv")


def test_file_cut_in_half(frame, tmp_path):
    path = tmp_path / "panel.parquet"
    pd.concat([frame] * 100, ignore_index=True).to_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="panel.parquet: not a readable Parquet file .*Is it complete?"):
        read(path)


def test_no_file_and_no_known_kind(tmp_path):
    with pytest.raises(InputError, match="panel.parquet: no such file"):
        read(tmp_path / "panel.parquet")
    with pytest.raises(InputError, match="panel.xlsx: unknown kind of file '.xlsx'; known are .arrow, .csv"):
        read(tmp_path / "panel.xlsx")
    with pytest.raises(InputError, match="expected a path or a frame .*, got list"):
        read([1, 2])


def test_csv_of_other_programs(frame, tmp_path):
    path = tmp_path / "panel.csv"
    frame.to_csv(path, na_rep=".")  # as SAS and Stata write missing values, with pandas' row numbers
    panel = read(path)
    assert panel.choice.characteristics == ("size", "age") and panel.X["size"].isna().sum() == 1
    frame.to_csv(path, sep=";", index=False)
    with pytest.raises(InputError, match="has one column only, 'gvkey;year;.*separate columns by commas"):
        read(path)


def test_labels_that_cannot_be_used(frame):
    with pytest.raises(InputError, match="'year' is missing in 1 rows"):
        read(frame.assign(year=[2001, None, 2002, 2002]))
    with pytest.raises(InputError, match="'year' cannot be sorted: it mixes int and str"):
        read(frame.assign(year=[2001, "2001Q1", 2002, 2002]))
