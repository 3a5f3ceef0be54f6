"""Fama–French industries: the table in the package against the shared one, code by code."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.panel import sic_to_fama_french
from peerattn.panel.codes import fama_french

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(os.environ.get("PEERATTN_SHARED_DATA", ROOT.parent / "shared" / "data")) / "firm" / "sic_table.parquet"


@pytest.mark.parametrize("industries", [12, 48, 49])
def test_every_code_equals_the_shared_table(industries):
    if not TABLE.exists():
        pytest.skip(f"{TABLE.name} is not there (set PEERATTN_SHARED_DATA)")
    table = pd.read_parquet(TABLE)
    table = table[table["sic"] != 9999]  # means unknown
    assert len(table) == 9899
    found = sic_to_fama_french(table["sic"], industries)
    assert (found.to_numpy() == table[f"ff{industries}_name"].to_numpy()).all()
    numbers = {name: number for number, name in enumerate(fama_french(industries), 1)}
    assert (found.map(numbers).to_numpy() == table[f"ff{industries}"].to_numpy()).all()


@pytest.mark.parametrize(
    ("sic", "expected"),
    [(1311, ("Enrgy", "Oil", "Oil")), (2834, ("Hlth", "Drugs", "Drugs")), (7372, ("BusEq", "BusSv", "Softw")),
     (3571, ("BusEq", "Comps", "Hardw")), (6020, ("Money", "Banks", "Banks")), (9995, ("Other", "Other", "Other"))],
)  # fmt: skip
def test_well_known_codes(sic, expected):
    assert tuple(sic_to_fama_french(sic, industries) for industries in (12, 48, 49)) == expected


@pytest.mark.parametrize("industries", [12, 48, 49])
def test_sets_are_complete_and_disjoint(industries):
    table = fama_french(industries)
    assert len(table) == industries and list(table)[-1] == "Other"
    taken = np.zeros(10_000, dtype=int)
    for ranges in table.values():
        for both in ranges.split():
            first, _, last = both.partition("-")
            assert int(first) <= int(last or first)
            taken[int(first) : int(last or first) + 1] += 1
    assert taken.max() == 1


def test_codes_of_any_spelling_and_unknown_ones():
    given = pd.Series(["100", 100.0, 100, None, 0, 9999, "0100"], index=list("abcdefg"))
    found = sic_to_fama_french(given, 48)
    assert found.index.equals(given.index)
    assert found.dropna().to_dict() == dict.fromkeys("abcg", "Agric")
    assert sic_to_fama_french(None) is None
    assert sic_to_fama_french([3711, 1311]).tolist() == ["Autos", "Oil"]


def test_errors():
    with pytest.raises(InputError, match="industries: expected 12 or 48 or 49, got 17"):
        sic_to_fama_french(100, 17)
    with pytest.raises(InputError, match="'37111' is not a SIC code"):
        sic_to_fama_french(["37111"])
