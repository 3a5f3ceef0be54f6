"""CSV files: one type a column, words as they are written, encodings and repeated names with a remedy."""

import gzip

import numpy as np
import pandas as pd
import pytest

from peerattn import read_panel
from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork
from peerattn.panel.csv_file import read_csv_file

pytestmark = pytest.mark.filterwarnings("ignore::peerattn.exceptions.CodeWarning")


@pytest.fixture
def write(tmp_path):
    def written(text, encoding="utf-8"):
        path = tmp_path / "a.csv"
        path.write_bytes(text.encode(encoding))
        return path

    return written


def test_a_column_has_one_type(write):
    """A letter in the last row of many makes text of all."""
    rows = [f"{1000 + row % 40:06d},{2000 + row // 40},0.5,1" for row in range(20_000)]
    path = write("\n".join(["firm,period,size,y", *rows, "00123A,2600,0.5,1"]))
    assert read_panel(path, outcome="y").firm.nunique() == 41


@pytest.mark.parametrize(
    "cells, expected",
    [
        (["1", "2", "NA"], [1.0, 2.0, np.nan]),
        (["1.5", "n.a.", "."], [1.5, np.nan, np.nan]),
        (["TRUE", "false", "True"], [True, False, True]),
        (["0100", "3711", "2911"], ["0100", "3711", "2911"]),
        (["NA", "EU", "US"], ["NA", "EU", "US"]),
        (["None", "null", "N/A x"], ["None", "null", "N/A x"]),
        (["9007199254740993", "1", ""], [9007199254740993, 1, pd.NA]),
        (["18446744073709551615", "1", "2"], [18446744073709551615, 1, 2]),
        (["123456789012345678901", "1", "2"], ["123456789012345678901", "1", "2"]),
        (["0x10", "0x11", "0x12"], ["0x10", "0x11", "0x12"]),
        (['"a,b"', '"two\nlines"', '"say ""so"""'], ["a,b", "two\nlines", 'say "so"']),
    ],
)
def test_types(write, cells, expected):
    found = read_csv_file(write("\n".join(["k,x", *(f"{k},{cell}" for k, cell in enumerate(cells))])))["x"]

    def known(values):
        return ["?" if pd.isna(value) else value for value in values]

    assert known(found) == known(expected)


@pytest.mark.parametrize("firm", ["NA", "NULL", "None", "nan", "TRUE"])
def test_a_ticker_that_reads_like_missing(write, firm):
    path = write(f"firm,period,size,y\n{firm},2001,1,1\nIBM,2001,2,2\n{firm},2002,1,1\n")
    assert firm in read_panel(path, outcome="y").firm
    path = write(f"firm,peer,weight\n{firm},IBM,1\nIBM,{firm},1\n")
    assert sorted(PeerNetwork.from_edge_file(path, weight="weight").labels) == sorted([firm, "IBM"])


@pytest.mark.parametrize("twice", ["ret_next", "size", "firm"])
def test_repeated_names(write, twice):
    with pytest.raises(InputError, match=f"2 columns are named '{twice}': give each column a name of its own"):
        read_csv_file(write(f"firm,period,size,ret_next,{twice}\nA,2001,1,2,3\n"))


@pytest.mark.parametrize(
    "encoding, named",
    [
        ("cp1250", "cp1250"),
        ("latin-1", "cp1252"),
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"),
        ("utf-32", "UTF-32"),
        ("shift_jis", "not UTF-8"),
    ],
)
def test_other_encodings(write, encoding, named):
    name = "東京" if encoding == "shift_jis" else "Münch"
    with pytest.raises(InputError, match=f"its encoding.*{named}.*pandas.read_csv.*encoding=") as error:
        read_panel(write(f"firm,period,size,y\n{name},2001,1,1\n", encoding), outcome="y")
    assert "complete" not in str(error.value)


def test_a_byte_order_mark_is_no_part_of_a_name(write):
    path = write("firm,period,size,y\nMünch,2001,1,1\n", "utf-8-sig")
    assert read_panel(path, outcome="y").firm.tolist() == ["Münch"]


@pytest.mark.parametrize("before", ["\n\n", "\r\n", "\ufeff\n"])
def test_empty_lines_before_the_names(write, before):
    assert read_csv_file(write(f"{before}firm,size\nA,1.5\n")).to_dict("list") == {"firm": ["A"], "size": [1.5]}


@pytest.mark.parametrize("first", [0, 1])
def test_row_numbers_and_trailing_commas_are_no_columns(write, first):
    rows = "".join(f"{k + first},F{k},2001,{k * k}.5,\n" for k in range(12))
    assert list(read_csv_file(write(f'"",firm,period,size,\n{rows}'))) == ["firm", "period", "size"]
    rows = "".join(f"{2 * k + 3},F{k},2001,{k * k}.5,1\n" for k in range(12))  # a filter of rows
    assert read_panel(write(f",firm,period,size,y\n{rows}"), outcome="y").choice.characteristics == ("size",)


def test_rows_of_another_length(write):
    for text in ("firm,period,size,y\nA,2001,1,2,\n", "firm,period,size,y\nA,2001,1,2\nB,2001,1\n"):
        with pytest.raises(InputError, match="not a readable CSV file .*Expected 4 columns"):
            read_panel(write(text), outcome="y")


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators(write, separator):
    with pytest.raises(InputError, match="has one column only.*separate columns by commas"):
        read_csv_file(write(f"firm{separator}period\nA{separator}2001\n"))


def test_packed_edges_and_types_of_the_caller(tmp_path):
    path = tmp_path / "edges.tsv.gz"
    path.write_bytes(gzip.compress(b"firm\tpeer\tweight\n1004\t1013\t0.5\n"))
    assert PeerNetwork.from_edge_file(path, weight="weight").labels.tolist() == [1004, 1013]
    typed = PeerNetwork.from_edge_file(path, weight="weight", dtype={"firm": str, "peer": str})
    assert typed.labels.tolist() == ["1004", "1013"]
