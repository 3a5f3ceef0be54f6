"""The embedded panel holds the published figures, with next year's investment beside them."""

import math

import pandas as pd
import pytest
from statsmodels.datasets import grunfeld

from peerattn.datasets import load_grunfeld


@pytest.fixture(scope="module")
def panel():
    return load_grunfeld()


def test_next_year_by_firm_and_year(panel):
    source = grunfeld.load_pandas().data
    invest = {(row.firm, int(row.year)): row.invest for row in source.itertuples()}
    assert len(panel.y) == len(invest) == 220
    for (firm, year), value in panel.y.items():
        expected = invest.get((firm, year + 1), math.nan)
        assert value == expected or (math.isnan(value) and math.isnan(expected)), (firm, year)
        assert panel.X.loc[(firm, year), "invest"] == invest[firm, year]


def test_last_year_is_unknown_and_stays(panel):
    unknown = panel.y[panel.y.isna()]
    assert set(unknown.index.get_level_values("period")) == {1954}
    assert len(unknown) == 11


def test_known_figures(panel):
    """General Motors and IBM as published; the pooled regression of investment on value and capital for the ten firms."""
    assert panel.X.loc[("General Motors", 1935), ["invest", "value", "capital"]].tolist() == [
        317.6,
        3078.5,
        2.8,
    ]
    import numpy as np

    ten = panel.X.drop("American Steel", level="firm")
    design = np.column_stack([np.ones(len(ten)), ten["value"], ten["capital"]])
    slopes = np.linalg.lstsq(design, ten["invest"].to_numpy(), rcond=None)[0]
    assert slopes[1:] == pytest.approx([0.1156, 0.2307], abs=5e-5)


def test_codes(panel):
    sic = panel.X["sic"].groupby(level="firm").unique()
    assert sic.map(len).eq(1).all()
    assert sic.map(lambda codes: codes[0]).to_dict() == {
        "General Motors": "3711", "US Steel": "3312", "General Electric": "3600", "Chrysler": "3711",
        "Atlantic Refining": "2911", "IBM": "3570", "Union Oil": "2911", "Westinghouse": "3600",
        "Goodyear": "3011", "Diamond Match": "3990", "American Steel": "3325",
    }  # fmt: skip
    assert panel.industry == "sic"


def test_index_and_columns(panel):
    assert panel.X.index.names == ["firm", "period"]
    assert pd.api.types.is_integer_dtype(panel.X.index.get_level_values("period").dtype)
    assert list(panel.X) == ["invest", "value", "capital", "sic"]
    assert panel.X.index.equals(panel.y.index)
