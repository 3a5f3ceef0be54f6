"""The same rows in memory, in one file, and in files of other types: the same bits, or an error that names the column."""

import importlib.util
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.panel import scan_panel

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "same_panel.py"


def test_the_same_bits_or_a_named_refusal(tmp_path):
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
