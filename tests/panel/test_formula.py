"""Formulas: what is computed row by row makes a characteristic, and what depends on other rows is an error."""

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import CodeWarning, InputError
from peerattn.panel import from_formula

FRAME = pd.DataFrame(
    {
        "firm": list("ABAB"),
        "period": [2001, 2001, 2002, 2002],
        "roa": [0.1, 0.2, 0.3, np.nan],
        "assets": [1.0, 2.0, 3.0, 4.0],
        "sic": ["3711", "0100", "3711", "0100"],
    }
)
# sorted by firm, as most files are; firm B has no row in 2002
LONG = pd.DataFrame(
    {
        "firm": list("AAABBCCC"),
        "year": [2001, 2002, 2003, 2001, 2003, 2001, 2002, 2003],
        "size": [1.0, 2, 4, 3, 5, 7, 6, 9],
        "price": [2.0, 3, 3, 5, 8, 6, 7, 4],
        "roa": [0.1, 0.3, 0.2, 0.5, 0.4, 0.6, 0.8, 0.7],
        "sector": list("xxxyyxxx"),
    }
)


def formula(text, frame=LONG):
    return from_formula(text, frame, period="year")


def test_a_formula_makes_the_panel():
    panel = from_formula("roa ~ log(assets) + assets:log(assets) | sic + period", FRAME)
    expected = np.log(FRAME["assets"]).to_numpy()
    np.testing.assert_allclose(panel.X["log(assets)"], expected)
    np.testing.assert_allclose(panel.X["assets:log(assets)"], FRAME["assets"] * expected)
    assert list(panel.codes) == ["sic"] and panel.y.isna().sum() == 1 and len(panel) == 4
    assert list(from_formula("roa ~ .", FRAME).characteristics) == ["assets"]
    np.testing.assert_allclose(from_formula("log(roa) ~ assets", FRAME).y, np.log(FRAME["roa"]))


@pytest.mark.parametrize("formula, word", [("roa", "~"), ("roa ~ size", "size"), ("roa ~ assets | naics", "naics"),
                                           ("roa ~ scale(assets)", "scale")])  # fmt: skip
def test_formulas_that_cannot_be_read(formula, word):
    with pytest.raises(InputError) as refused:
        from_formula(formula, FRAME)
    assert "formula" in str(refused.value) and word in str(refused.value)


@pytest.mark.parametrize(
    "text", ["roa", "roa ~ size ~ price", "roa ~", "roa ~ size | naics", "roa ~ log(nope)", "roa ~ year + size", "roa ~ sector"]
)
def test_formulas_that_say_what_is_wrong(text):
    with pytest.raises(InputError, match="formula"):
        formula(text)


@pytest.mark.parametrize(
    "term",
    ["standardize(size)", "center(size)", "scale(size)", "poly(size, 2)", "bs(size, df=3)", "cs(size, df=3)", "cr(size, df=3)",
     "cc(size, df=3)", "C(sector)", "hashed(sector)", "I(size - size.mean())", "{size.rank()}", "size.rank()", "np.mean(size)",
     "{size > size.quantile(0.5)}", "{size.clip(upper=size.max())}", "{size.shift(1)}", "{size.diff()}", "{size.cumsum()}",
     "np.cumsum(size)", "np.diff(size)", "{np.add.accumulate(size)}", "{np.matmul(size, size)}", "{size @ size}",
     "{size[::-1]}", "{size.values}", "{sum(size)}", "{max(size)}", "{size.fillna(method='ffill')}", "{[s for s in size]}",
     "{size.isin(price)}", "{size.isin([price])}", "{size in price}", "{np.negative(size, price)}", "{np.modf(size)}",
     "{size.fillna(size.mean())}", "{(lambda x: x)(size)}", "{size.groupby(year).transform('mean')}"],
)  # fmt: skip
@pytest.mark.parametrize("side", ["roa ~ price + {}", "{} ~ price"])
def test_what_depends_on_other_rows_is_an_error(term, side):
    with pytest.raises(InputError, match="row by row"):
        formula(side.format(term))


@pytest.mark.parametrize(
    "term, right",
    [("np.sqrt(size)", np.sqrt(LONG["size"])), ("{size / price}", LONG["size"] / LONG["price"]),
     ("{size > 3}", LONG["size"] > 3), ("{np.where(size > 3, size, 0)}", LONG["size"].where(LONG["size"] > 3, 0)),
     ("{size.clip(upper=4)}", LONG["size"].clip(upper=4)), ("I(sector == 'x')", LONG["sector"] == "x"),
     ("size:price", LONG["size"] * LONG["price"]), ("abs(log10(size))", np.log10(LONG["size"])),
     ("np.maximum(size, price)", LONG[["size", "price"]].max(axis=1))],
)  # fmt: skip
def test_what_is_computed_row_by_row_is_a_characteristic(term, right):
    whole = formula(f"roa ~ {term}").X.iloc[:, 0]
    np.testing.assert_allclose(whole, right.astype(float))
    early = LONG["year"] < 2003
    np.testing.assert_array_equal(formula(f"roa ~ {term}", LONG[early]).X.iloc[:, 0], whole[early.to_numpy()])


@pytest.mark.parametrize(
    "term, right",
    [("lag(size)", [np.nan, 1, 2, np.nan, np.nan, np.nan, 7, 6]),
     ("lag(size, 2)", [np.nan, np.nan, 1, np.nan, 3, np.nan, np.nan, 7]),
     ("{size - lag(size)}", [np.nan, 1, 2, np.nan, np.nan, np.nan, -1, 3]),
     ("lag(lag(size))", [np.nan, np.nan, 1, np.nan, np.nan, np.nan, np.nan, 7])],
)  # fmt: skip
def test_lags_are_the_firms_own_by_period(term, right):
    np.testing.assert_array_equal(formula(f"roa ~ {term}").X.iloc[:, 0], right)
    shuffled = formula(f"roa ~ {term}", LONG.sample(frac=1, random_state=0)).X.iloc[:, 0]
    pd.testing.assert_series_equal(shuffled.sort_index(), formula(f"roa ~ {term}").X.iloc[:, 0].sort_index())


@pytest.mark.parametrize(
    "term, right",
    [("{size > 3}", [1, np.nan, 0, np.nan]), ("size.isin([1, 5])", [1, np.nan, 1, np.nan]),
     ("np.where(size > 3, lev, 0)", [0.1, np.nan, 0, np.nan]), ("{size > 3}:lev", [0.1, np.nan, 0, np.nan]),
     ("{lag(size) > 3}", [np.nan, 1, np.nan, 0]), ("{lag(size, k=1) > 3}", [np.nan, 1, np.nan, 0]),
     ("{sector == 'x'}", [1, 0, np.nan, 1]), ("size.isna()", [0, 1, 0, 1]), ("{size.fillna(0) > 3}", [1, 0, 0, 0])],
)  # fmt: skip
def test_conditions_on_missing_numbers_are_missing(term, right):
    frame = pd.DataFrame({"firm": list("AABB"), "year": [2001, 2002] * 2, "size": [5.0, np.nan, 1.0, np.nan]})
    frame = frame.assign(lev=[0.1, 0.2, 0.3, 0.4], sector=["x", "y", None, "x"], roa=1.0)
    np.testing.assert_array_equal(from_formula(f"roa ~ {term}", frame, period="year").X.iloc[:, 0], right)
    if "lev" not in term:
        np.testing.assert_array_equal(from_formula(f"{term} ~ lev", frame, period="year").y, right)


def test_a_tenth_power_is_not_taken_for_a_power_of_ten():
    with pytest.raises(InputError, match="exp10"):
        formula("roa ~ exp10(size)")


@pytest.mark.parametrize("k", ["0", "-1", "1.5", "size"])
def test_a_lag_is_of_the_past(k):
    with pytest.raises(InputError, match="lag"):
        formula(f"roa ~ lag(size, {k})")


@pytest.mark.parametrize("outcome", ["price", "log(price)", "log(price) - log(lag(price))", "{price * 2}", "np.log1p(price)"])
def test_a_dot_leaves_out_what_the_outcome_is_computed_from(outcome):
    assert list(formula(f"{outcome} ~ .").characteristics) == ["size", "roa"]
    assert list(formula(f"{outcome} ~ . - roa + log(size)").characteristics) == ["size", "log(size)"]


@pytest.mark.parametrize("text", ["roa ~ roa", "roa ~ roa:size", "roa ~ log(roa) + size", "log(price) ~ price",
                                  "log(price / size) ~ roa + size", "roa ~ . + roa:size"])  # fmt: skip
def test_the_outcome_is_no_characteristic(text):
    with pytest.raises(InputError, match="computed from"):
        formula(text)


def test_earlier_outcomes_are_characteristics_unless_they_are_known_later():
    assert list(formula("roa ~ lag(roa) + size").characteristics) == ["lag(roa)", "size"]
    dated = LONG.assign(known=LONG["year"] + 3)
    with pytest.raises(InputError, match="known_at"):
        from_formula("roa ~ lag(roa) + size", dated, period="year", known_at="known")
    assert from_formula("roa ~ lag(size)", dated, period="year", known_at="known").known_at is not None


def test_the_outcome_is_an_expression():
    np.testing.assert_allclose(formula("price - roa ~ size").y, LONG["price"] - LONG["roa"])
    np.testing.assert_allclose(formula("price + roa ~ size").y, LONG["price"] + LONG["roa"])


def test_numbers_as_text_and_as_objects_are_numbers():
    from decimal import Decimal

    text = LONG.assign(
        size=[f"{value:.1f}%" for value in LONG["size"]],
        price=[f"${1000 * value:,.2f}" for value in LONG["price"]],
        roa=[Decimal(str(value)) for value in LONG["roa"]],
    )
    plain = LONG.assign(size=LONG["size"] / 100, price=1000 * LONG["price"])
    for written in ("roa ~ size + log(price)", "log(price) ~ size + roa", "roa ~ size:price + lag(size)", "roa ~ ."):
        with pytest.warns(CodeWarning, match="is text and is read as numbers"):
            found = formula(written, text)
        expected = formula(written, plain)
        pd.testing.assert_frame_equal(found.characteristics, expected.characteristics)
        np.testing.assert_allclose(found.outcomes, expected.outcomes)
    digits = LONG.assign(size=LONG["size"].astype(int).astype(str))
    with pytest.raises(InputError, match="'size' is no number. A code follows the bar: | size. Digits as text"):
        formula("roa ~ size", digits)
    flags = LONG.assign(flag=LONG["size"] > 4)
    assert formula("roa ~ flag", flags).characteristics["flag"].tolist() == (LONG["size"] > 4).astype(float).tolist()
