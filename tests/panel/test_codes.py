"""A code is a name, one spelling each, whatever dtype it arrives in."""

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.panel import canonical_codes, code_scheme
from peerattn.panel.codes import looks_like_code


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([100, 3711]),
        pd.Series([100.0, 3711.0]),
        pd.Series(["100", "3711"]),
        pd.Series(["0100", " 3711 "]),
        pd.Series(["100.0", "3711.0"]),
        pd.Series(["100", 3711], dtype=object),
        pd.Series([100, 3711], dtype="Int32"),
        pd.Series([100, 3711], dtype="category"),
        pd.Series(["0100", "3711"], dtype="category"),
        pd.Series([100, 3711], dtype="int64[pyarrow]"),
        pd.Series(["100", "3711"], dtype="string[pyarrow]"),
    ],
)
def test_sic_is_four_digits_whatever_its_dtype(values):
    codes = canonical_codes(values.rename("sic"))
    assert codes.tolist() == ["0100", "3711"]
    assert codes.dtype == pd.Series(["text"]).dtype  # object before pandas 3


@pytest.mark.parametrize(
    "values",
    [
        [0, 9999, np.nan],
        ["0", "9999", None],
        ["", "nan", " "],
        pd.array([0, 9999, pd.NA], dtype="Int64"),
        pd.Categorical([0, 9999, None]),
    ],
)
def test_unknown_sic(values):
    codes = canonical_codes(pd.Series(values, name="siccd"))
    assert codes.isna().all()
    assert codes.dtype == pd.Series(["text"]).dtype  # object before pandas 3


def test_schemes_go_by_name():
    assert [code_scheme(n) for n in ("sic", "SIC4", "sich", "naics", "gsubind", "sector", "sic2")] == [
        "sic", "sic", "sic", "naics", "gics", "plain", "plain",
    ]  # fmt: skip
    assert canonical_codes(pd.Series([0, 7], name="sector")).tolist() == [
        "0",
        "7",
    ]  # 0 is a level of a plain code
    assert canonical_codes(pd.Series([0, 10], name="gsector")).isna().tolist() == [True, False]
    assert canonical_codes(pd.Series([100], name="group"), "sic").tolist() == ["0100"]
    assert canonical_codes(pd.Series([True, False], name="listed")).tolist() == ["True", "False"]


def test_index_is_kept():
    column = pd.Series([100, 200], index=["b", "a"], name="sic", dtype="category")
    assert canonical_codes(column).index.tolist() == ["b", "a"]


def test_fractions_and_infinity_are_no_codes():
    with pytest.raises(InputError, match="'sic' is declared as a code but holds 0.5.*Drop it from codes="):
        canonical_codes(pd.Series([100.0, 0.5], name="sic"))
    with pytest.raises(InputError, match="'sic' is declared as a code but holds infinity"):
        canonical_codes(pd.Series([100.0, np.inf], name="sic"))


def test_names_of_codes():
    assert all(map(looks_like_code, ["sic", "SICCD", "naics3", "gics", "ff49", "permno", "gvkey", "cik"]))
    assert not any(map(looks_like_code, ["size", "offer", "basic", "ffo"]))
