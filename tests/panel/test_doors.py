"""Frames of other tools come in as they are; files of Stata, SAS and SPSS."""

import sys

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError, MissingExtraError
from peerattn.panel import as_panel, read_panel

FRAME = pd.DataFrame(
    {
        "firm": list("ABAB"),
        "period": [2001, 2001, 2002, 2002],
        "roa": [0.1, 0.2, 0.3, np.nan],
        "assets": [1.0, 2.0, 3.0, 4.0],
        "sic": ["3711", "0100", "3711", "0100"],
    }
)


def same(source):
    found = read_panel(source, outcome="roa", codes=["sic"])
    expected = read_panel(FRAME, outcome="roa", codes=["sic"])
    pd.testing.assert_frame_equal(found.X, expected.X, check_dtype=False, check_index_type=False)
    pd.testing.assert_series_equal(found.y, expected.y, check_index_type=False)


def test_lazy_frames_and_the_c_stream_of_arrow():
    pl = pytest.importorskip("polars")
    same(pl.from_pandas(FRAME).lazy())
    same(pl.from_pandas(FRAME))

    class Stream:  # whatever offers Arrow's C stream
        def __arrow_c_stream__(self, requested_schema=None):
            import pyarrow

            return pyarrow.Table.from_pandas(FRAME, preserve_index=False).__arrow_c_stream__(requested_schema)

    same(Stream())
    assert as_panel(pl.from_pandas(FRAME.drop(columns="roa")).lazy(), FRAME["roa"].to_numpy()).outcomes is not None


def test_relations_of_duckdb(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    FRAME.to_parquet(tmp_path / "panel.parquet")
    same(duckdb.sql(f"select * from '{tmp_path}/panel.parquet' where assets > 0"))


@pytest.mark.parametrize("kind", ["dta", "xport", "sav"])
def test_files_of_stata_sas_and_spss(tmp_path, kind):
    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / f"panel.{kind.replace('xport', 'xpt')}"
    options = {"file_format_version": 8} if kind == "xport" else {}
    getattr(pyreadstat, f"write_{kind}")(FRAME, str(path), **options)
    same(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError) as refused:
        read_panel(path, outcome="roa")
    assert str(path) in str(refused.value)


def test_without_pyreadstat_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    path = tmp_path / "panel.dta"
    FRAME.to_stata(path)
    with pytest.raises(MissingExtraError) as refused:
        read_panel(path, outcome="roa")
    assert "peerattn[stata]" in str(refused.value)
