"""The extract of multiples follows its rule, holds no ingredient of a multiple, and carries its notice."""

import importlib.util
import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerattn.datasets import load_market_values, load_multiples
from peerattn.exceptions import InputError

SOURCE = Path(os.environ.get("PEERATTN_SHARED_DATA", "../shared/data")) / "firm" / "sp500_multiples.parquet"


@pytest.mark.skipif(not SOURCE.exists(), reason="the panel it is taken from is not here")
def test_the_rule_of_the_extract():
    spec = importlib.util.spec_from_file_location("make_multiples", "data/make_multiples.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    source = pd.read_parquet(SOURCE)
    stored = pd.read_parquet(files("peerattn.datasets") / "multiples.parquet")
    pd.testing.assert_frame_equal(script.extract(source), stored)
    # the price cancels: what moves it between two quarters moves no characteristic
    chosen = source[source["period"].isin(stored["period"])].sort_values(["firm", "period"])
    made = pd.concat([chosen["firm"], script.ratios(chosen)], axis=1)
    near = chosen.groupby("firm")["period"].diff() < pd.Timedelta(days=200)
    moved = np.log(chosen["price"]).groupby(chosen["firm"]).diff()[near]
    for name in ("roe", "net_margin", "ebitda_margin", "turnover"):
        assert abs(made.groupby("firm")[name].diff().clip(-0.5, 0.5).corr(moved)) < 0.15, name


@pytest.mark.parametrize("outcome", ["log_pb", "log_ps", "log_pe", "log_cap_ebitda"])
def test_no_characteristics_make_the_multiple(outcome):
    panel = load_multiples(outcome)
    assert len(panel) == 6940 and panel.industry == "sub_industry" and panel.outcome == outcome
    assert not any(name.startswith("log_p") or "cap" in name for name in panel.X)
    known = panel.y.notna() & panel.X.select_dtypes("number").notna().all(axis=1)
    x = panel.X.loc[known].select_dtypes("number").to_numpy()
    for design in (x, np.log(np.abs(x) + 1e-9)):
        design = np.column_stack([np.ones(len(design)), design])
        y = panel.y[known].to_numpy()
        rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        assert 1 - rest.var() / y.var() < 0.8


def test_market_values_go_with_the_rows():
    values, panel = load_market_values(), load_multiples()
    assert values.index.difference(panel.X.index).empty and len(values) == len(panel)
    assert values["AAPL", "2026-09-30"] > 3000
    with pytest.raises(InputError) as refused:
        load_multiples("log_bp")
    assert "outcome" in str(refused.value) and "log_pb" in str(refused.value)


def test_notice_and_size():
    notice = (files("peerattn.datasets") / "multiples_NOTICE.txt").read_text(encoding="utf-8")
    assert "Public Domain Dedication" in notice and "Yahoo" in notice
    assert len((files("peerattn.datasets") / "multiples.parquet").read_bytes()) < 300_000
