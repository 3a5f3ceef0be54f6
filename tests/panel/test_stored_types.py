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


def test_the_same_bits_or_a_named_refusal(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = importlib.util.spec_from_file_location("same_panel", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    ends = Counter(end for where, end in script.tried(50, tmp_path) if where != "memory")
    assert set(ends) == {"same bits", "named refusal"}, ends
    assert ends["same bits"] > 50


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


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.CodeWarning")  # that it is left out
@pytest.mark.parametrize("other", ["int64", "float64", "decimal"])
def test_decimals_are_no_numbers_in_memory_or_in_files(tmp_path, other):
    frames = []
    for t, places in enumerate((1, 2)):
        size = [Decimal(1).scaleb(-places)] * 3 if t == 0 or other == "decimal" else np.ones(3, other)
        frames.append(
            pd.DataFrame({"firm": [1, 2, 3], "period": 2001 + t, "size": size, "lev": 1.0, "y": 2.0})
        )
        frames[-1].to_parquet(tmp_path / f"{t}.parquet")
    choice = read_panel(pd.concat(frames, ignore_index=True), outcome="y").choice
    assert choice.characteristics == scan_panel(tmp_path, outcome="y").choice.characteristics == ("lev",)
    with pytest.raises(InputError, match=r"column 'size' holds .* in .*1.parquet, decimal.* in .*0.parquet"):
        scan_panel(tmp_path, characteristics=["size"])
