"""The same rows in memory, in one file, and in files of other types: the same bits, or an error that names the column."""

import importlib.util
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerattn import read_panel
from peerattn.exceptions import InputError
from peerattn.panel import scan_panel

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "same_panel.py"


def test_the_same_bits_or_a_named_error(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = importlib.util.spec_from_file_location("same_panel", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    ends = Counter(end for where, end in script.tried(20, tmp_path, seed=2) if where != "memory")
    assert set(ends) == {"same bits", "named error"}, ends
    assert ends["same bits"] > 20


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("period", ["int64", "str"]), ("period", ["int64", "datetime64[ns]"]), ("y", ["float64", "str"])],
)
def test_types_that_have_nothing_in_common_are_named(tmp_path, name, kinds):
    for t, kind in enumerate(kinds):
        frame = pd.DataFrame({"firm": [1, 2], "period": 2001 + t, "size": [1.0, 2.0], "y": [1.0, 2.0]})
        frame.astype({name: kind}).to_parquet(tmp_path / f"{t}.parquet")
    with pytest.raises(InputError, match=rf"column '{name}' holds .* in .*1.parquet, .* in .*0.parquet"):
        scan_panel(tmp_path, outcome="y")


@pytest.mark.parametrize("other", ["int64", "float64", "decimal"])
def test_decimals_are_numbers_in_memory_and_in_files(tmp_path, other):
    frames = []
    for t, places in enumerate((1, 2)):
        size = [Decimal(1).scaleb(-places)] * 3 if t == 0 or other == "decimal" else np.ones(3, other)
        frames.append(pd.DataFrame({"firm": [1, 2, 3], "period": 2001 + t, "size": size, "lev": 1.0, "y": Decimal(2)}))
        frames[-1].to_parquet(tmp_path / f"{t}.parquet")
    memory, files = read_panel(pd.concat(frames, ignore_index=True), outcome="y").sorted(), scan_panel(tmp_path, outcome="y")
    assert memory.choice.characteristics == files.choice.characteristics == ("size", "lev")
    pd.testing.assert_frame_equal(files.sample().X, memory.X)
    assert files.sample().y.tolist() == [2.0] * 6


@pytest.mark.parametrize("cells", [["5.1%", "6%", "7%"], ["5,1", "6,2", "7,3"], ["$5", "$6", "n.a."]])
def test_numbers_written_as_text_are_no_characteristics_of_files(tmp_path, cells):
    frame = pd.DataFrame({"firm": [1, 2, 3], "period": 2001, "size": cells, "lev": 1.0, "y": 1.0})
    frame.to_parquet(tmp_path / "a.parquet")
    for named in (None, ["size"]):
        with pytest.raises(InputError, match="column 'size' holds numbers as text, such as .*: write them as numbers"):
            scan_panel(tmp_path, outcome="y", characteristics=named)
    assert scan_panel(tmp_path, outcome="y", characteristics=["lev"]).choice.characteristics == ("lev",)


def test_whole_numbers_beside_missing_ones_keep_their_digits(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ids = [9007199254740992, 9007199254740993, None]
    table = pa.table({"firm": ["A", "B", "C"], "period": [2001] * 3, "group": ids, "y": [1.0, 2.0, 3.0]})
    pq.write_table(table, tmp_path / "a.parquet")
    table.to_pandas()[["firm", "period", "y"]].assign(group=["9007199254740992", "9007199254740993", ""]).to_csv(
        tmp_path / "a.csv", index=False
    )
    polars = pytest.importorskip("polars")
    for source in (tmp_path / "a.parquet", tmp_path / "a.csv", table, polars.from_arrow(table)):
        codes = read_panel(source, outcome="y", codes=["group"]).codes["group"]
        assert codes.fillna("").tolist() == ["9007199254740992", "9007199254740993", ""]
    codes = scan_panel(tmp_path / "a.parquet", outcome="y", codes=["group"]).sample().codes["group"]
    assert codes.nunique() == 2
