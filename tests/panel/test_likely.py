"""Columns that look like firm and period, where nobody has named them."""

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import LabelWarning
from peerattn.models import OwnCharacteristicsRegressor
from peerattn.panel import as_panel
from peerattn.panel.labels import likely_labels


def flat(firm, period, numbered=False):
    rng = np.random.default_rng(0)
    firms = np.tile(np.arange(1, 9) if numbered else [f"S{k}" for k in range(8)], 6)
    return pd.DataFrame({"size": rng.normal(size=48), firm: firms, period: np.repeat(range(2001, 2007), 8)})


@pytest.mark.parametrize(
    "firm, period, numbered",
    [("ST_ABB", "YEAR", False), ("unit", "wave", False), ("unit", "when", True), ("ticker", "fyear", False)],
)
@pytest.mark.parametrize("dates", ["years", "stamps", "text"])
def test_a_flat_panel_is_said_to_look_like_one(firm, period, numbered, dates):
    X = flat(firm, period, numbered)
    if dates != "years":
        X[period] = pd.to_datetime(X[period].astype(str)) if dates == "stamps" else X[period].astype(str) + "Q1"
    said = f"did you mean firm='{firm}', period='{period}'"
    with pytest.warns(LabelWarning, match=said):
        as_panel(X.set_index(period))
    if dates == "years":
        with pytest.warns(LabelWarning, match=said):
            OwnCharacteristicsRegressor().fit(X, X["size"] + np.arange(48) % 7)


def test_a_cross_section_is_none(recwarn):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=60),
            "founded": rng.integers(1900, 2020, 60),
            "staff": rng.integers(1, 50, 60),
        }
    )
    as_panel(X.assign(state=rng.choice(list("ABC"), 60)))
    assert not [entry for entry in recwarn if issubclass(entry.category, LabelWarning)]


@pytest.mark.parametrize(
    "names, expected",
    [
        (["idiff", "idiovol", "permno", "datadate_lag", "date"], ("permno", "date")),
        (["stock_return", "company_age", "gvkey", "time_since_ipo", "fyear"], ("gvkey", "fyear")),
        (["code_share", "tickets", "tic", "monthly_volume", "month"], ("tic", "month")),
        (["idiff", "idiovol"], (None, None)),
    ],
)
def test_names_that_begin_alike_are_others(names, expected):
    frame = pd.DataFrame({name: [1, 2] for name in names})
    assert tuple(likely_labels(frame)) == expected
