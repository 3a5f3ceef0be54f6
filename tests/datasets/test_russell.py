"""The extract of the Russell 3000 follows its rule, carries its licence, and says how the example was chosen."""

import importlib.util
import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerattn.datasets import load_russell
from peerattn.exceptions import InputError

SOURCE = Path(os.environ.get("PEERATTN_SHARED_DATA", "../shared/data")) / "firm" / "us_annual_r3000.parquet"


def test_size_and_years():
    panel = load_russell()
    assert panel.X.shape == (1968, 9) and panel.X.index.get_level_values("firm").nunique() == 500
    assert sorted(set(panel.X.index.get_level_values("period"))) == [2013, 2014, 2015, 2016]
    assert "Finance" not in set(panel.X["sector"]) and panel.industry == "industry"
    assert len(panel.X.xs(2013, level="period")) == 500
    assert (files("peerattn.datasets") / "russell.parquet").read_bytes().__sizeof__() < 150_000


@pytest.mark.skipif(not SOURCE.exists(), reason="the panel it is taken from is not here")
def test_the_rule_of_the_extract():
    spec = importlib.util.spec_from_file_location("make_russell", "data/make_russell.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    source = pd.read_parquet(SOURCE)
    with_rule = script.extract(source)
    stored = pd.read_parquet(files("peerattn.datasets") / "russell.parquet")
    pd.testing.assert_frame_equal(with_rule, stored)
    first = source[(source["year"] == 2013) & (source["sector"].astype(str) != "Finance")]
    floor = first["sales"].nlargest(500).min()
    assert sorted(first.loc[first["sales"] >= floor, "name"].astype(str).map(script.short_name)) == sorted(
        stored.loc[stored["period"] == 2013, "firm"]
    )


def test_outcomes_and_what_is_known_beside_them():
    now, later = load_russell(), load_russell("ebit_ta_next")
    assert "ebit_ta" not in now.X and "ebit_ta" in later.X
    level = now.y.unstack("period")
    coming = later.y.unstack("period")
    both = level[2014].notna() & coming[2013].notna()
    np.testing.assert_allclose(coming.loc[both, 2013], level.loc[both, 2014], rtol=1e-5)
    with pytest.raises(InputError, match="outcome: expected 'ebit_ta' or .* got 'sales'"):
        load_russell("sales")


def test_licence_and_the_choice_of_the_example():
    licence = (files("peerattn.datasets") / "russell_LICENSE.txt").read_text(encoding="utf-8")
    assert "Joachim Gassen" in licence and "MIT" in licence and "WITHOUT WARRANTY OF ANY KIND" in licence
    assert "about eight outcomes and settings" in load_russell().caution
    assert load_russell("sales_growth_next").caution == ""
