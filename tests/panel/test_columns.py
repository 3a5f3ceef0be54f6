"""What is taken as a characteristic is said, and nothing that knows the future is."""

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import CodeWarning, InputError
from peerattn.panel import as_panel
from peerattn.panel.columns import check_no_outcomes, choose_columns, looks_like_outcome, possible_leaks


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "firm": ["A", "B"],
            "year": 2001,
            "size": [1.0, 2.0],
            "young": [True, False],
            "sic": [100, 3711],
            "ff49": [1, 2],
            "name": ["a", "b"],
            "when": pd.Timestamp("2001-12-31"),
            "roa_next": [0.1, 0.2],
            "ret_lead12": [0.1, 0.2],
            "sales_fwd": [0.1, 0.2],
            "roa": [0.1, 0.2],
        }
    )


def test_default_takes_numbers_and_says_why_the_rest_was_left(frame):
    choice = choose_columns(frame, labels=("firm", "year"), outcome="roa", codes=("sic",))
    assert choice.characteristics == ("size", "young")
    assert choice.codes == ("sic",)
    assert set(choice.left) == {"ff49", "name", "when", "roa_next", "ret_lead12", "sales_fwd"}
    assert "looks like a code" in choice.left["ff49"]
    assert "not a number" in choice.left["name"]
    assert "another outcome" in choice.left["sales_fwd"]
    assert str(choice).splitlines()[0] == "characteristics (2): size, young"
    assert "ff49 (looks like a code; declare it in codes to use it)" in str(choice)


def test_named_columns_are_taken_exactly(frame):
    choice = choose_columns(frame, labels=("firm", "year"), outcome="roa", characteristics=["size", "size"])
    assert choice.characteristics == ("size",)
    assert choice.left["young"] == "not requested"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"characteristics": ["sise"]}, "characteristics: no column is named 'sise'. Near matches: 'size'"),
        ({"codes": ["sics"]}, "codes: no column is named 'sics'. Near matches: 'sic'"),
        (
            {"characteristics": ["roa_next"]},
            "characteristics: 'roa_next' hold next period's outcomes.*drop them",
        ),
        ({"characteristics": ["size", "roa"]}, "'roa' is already firm, period, outcome or code"),
        ({"characteristics": ["name"]}, "'name' holds (str|object), not numbers; declare it in codes"),
        ({"characteristics": []}, "no characteristics: none of the columns"),
        (
            {"characteristics": "size"},
            r"characteristics: expected a list of names or None, got 'size' \(str\): write \['size'\]",
        ),
        ({"codes": "sic"}, r"codes: expected a list of names.* write \['sic'\]"),
    ],
)
def test_bad_choices(frame, options, message):
    with pytest.raises(InputError, match=message):
        choose_columns(frame, labels=("firm", "year"), outcome="roa", **options)


def test_nothing_to_take(frame):
    with pytest.raises(InputError, match="no characteristics"):
        choose_columns(frame[["firm", "year", "roa", "name"]], labels=("firm", "year"), outcome="roa")


def test_repeated_names(frame):
    with pytest.raises(InputError, match="several columns named 'size'"):
        choose_columns(frame[["firm", "year", "size", "size", "roa"]], labels=("firm", "year"), outcome="roa")


def test_names_of_outcomes():
    assert all(map(looks_like_outcome, ["ret_next", "ret_next12", "RET_LEAD", "ret_lead3", "ret_fwd_1m"]))
    assert not any(map(looks_like_outcome, ["lev", "nextel", "leadership", "ret_12m"]))
    check_no_outcomes(["lev", 3])
    with pytest.raises(InputError, match="'a_next', 'b_next' hold next period's outcomes"):
        check_no_outcomes(["a_next", "lev", "b_next"])


def test_possible_leaks():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    y[:5] = np.nan
    X = pd.DataFrame(
        {
            "copy": np.nan_to_num(y),
            "mirror": 3 - 2 * np.nan_to_num(y) + 0.01 * rng.normal(size=200),
            "near": np.nan_to_num(y) + 0.5 * rng.normal(size=200),
            "constant": 1.0,
            "missing": np.nan,
        }
    )
    X.loc[10:20, "copy"] = np.nan
    assert possible_leaks(X, y) == ["copy", "mirror"]
    assert possible_leaks(X, np.ones(200)) == []
    assert possible_leaks(X.iloc[:9], y[:9]) == []  # too few to say
    assert possible_leaks(X[[]], y) == []


def test_numbers_written_as_text_are_read_and_said_to_be():
    frame = pd.DataFrame({"firm": list("ABC"), "period": 1, "size": ["0.5", "1.25", None], "y": [1.0, 2.0, 3.0]})
    frame["lev"], frame["sic"] = [0.1, 0.2, 0.3], ["3711", "100", "2911"]
    with pytest.warns(CodeWarning, match="'size' is text and is read as numbers: '0.5' as 0.5"):
        choice = choose_columns(frame, labels=["firm", "period"], outcome="y", codes=["sic"])
    assert choice.characteristics == ("size", "lev")
    with pytest.warns(CodeWarning, match="'size' is text"):
        panel = as_panel(frame[["firm", "period", "size", "lev"]], frame["y"])
    assert panel.characteristics["size"].tolist()[:2] == [0.5, 1.25]
    as_panel(frame[["firm", "period", "size"]], frame["y"], codes=["size"])  # declared
    as_panel(frame[["firm", "period", "sic"]], frame["y"])  # whole numbers in text are codes
    with pytest.warns(CodeWarning, match="outcome: column 'y' is text and is read as numbers: '1.5' as 1.5"):
        panel = as_panel(frame.assign(y=["1.5", "2", "3"]), outcome="y", characteristics=["lev"])
    assert panel.y.tolist() == [1.5, 2.0, 3.0]


@pytest.mark.parametrize(
    "name, values",
    [
        ("Unnamed: 0", range(1, 13)),
        ("Unnamed: 9", [np.nan] * 12),
        ("rownames", range(1, 13)),
        ("__index_level_0__", [3, 7, 9, 12, 13, 15, 20, 21, 22, 30, 31, 40]),
        ("index", [12, 3, 7, 9, 1, 13, 15, 20, 21, 22, 30, 31]),
        ("number", range(12)),
    ],
)
@pytest.mark.parametrize("dtype", [None, "Int64", "double[pyarrow]"])
def test_row_numbers_are_no_characteristics(name, values, dtype):
    frame = pd.DataFrame({"firm": list("ABCDEF") * 2, "period": [2001] * 6 + [2002] * 6, "size": np.arange(12.0) ** 2, "y": 1.0})
    frame[name] = pd.Series(list(values), dtype=dtype if name != "number" else None)
    choice = as_panel(frame, outcome="y").choice
    if dtype != "double[pyarrow]" or name not in ("index", "number"):
        assert choice.characteristics == ("size",) and "row numbers" in choice.left[name]
    assert as_panel(frame, outcome="y", characteristics=["size", name]).choice.characteristics == ("size", name)
    if name not in ("index", "number"):
        with pytest.raises(InputError, match="holds row numbers, or comes from a comma"):
            as_panel(frame.drop(columns="y"), frame["y"])


def test_what_is_named_like_the_outcome_or_counts_shuffled_rows_is_left_out():
    frame = pd.DataFrame({"firm": list("ABCDEF") * 2, "period": [2001] * 6 + [2002] * 6, "size": np.arange(12.0) ** 2})
    frame = frame.assign(roa=frame["size"], ROA=1.0, V1=np.random.default_rng(0).permutation(12) + 1, rank=frame["size"] + 1)
    choice = as_panel(frame.assign(**{"roa ": 2.0}), outcome="roa").choice
    assert choice.characteristics == ("size", "rank")
    assert choice.left["ROA"] == choice.left["roa "] == "looks like another outcome" and "row numbers" in choice.left["V1"]


SECOND = "ret_next.1 ret_next_1 ret_next_x RET_NEXT size.1 size_duplicated_0 period.1".split()


@pytest.mark.parametrize("name", [*SECOND, "ret_next "])
def test_a_second_column_of_one_name_is_no_characteristic(name):
    frame = pd.DataFrame({"firm": list("ABC"), "period": 2001, "size": [1.0, 2, 4], "ret_next": [1.0, 2, 3], name: [1.0, 2, 3.5]})
    choice = as_panel(frame, outcome="ret_next").choice
    assert choice.characteristics == ("size",) and name in choice.left
    with pytest.raises(InputError, match="next period's outcomes|is a second column"):
        as_panel(frame.drop(columns="ret_next"), frame["ret_next"])


@pytest.mark.parametrize("dtype", [object, "string[pyarrow]", "category"])
@pytest.mark.parametrize("word", ["NA", "None", "NULL", "n/a", "nan"])
def test_words_for_missing_are_names_of_codes_and_said_to_be(word, dtype):
    region = pd.Series([word, "EU", word, None], dtype=object).astype(dtype)
    frame = pd.DataFrame({"firm": list("ABCD"), "period": 2001, "size": 1.0, "region": region, "y": [1.0, 2, 3, 4]})
    with pytest.warns(CodeWarning, match=f"column 'region' holds '{word}' in 2 cells, which is taken as a name"):
        panel = as_panel(frame, outcome="y", codes=["region"])
    assert panel.codes["region"].fillna("?").tolist() == [word, "EU", word, "?"]


@pytest.mark.parametrize("name", ["firm", "ID", "sector", "Industry", "sub_industry", "country", "state", "REGION"])
def test_whole_numbers_named_like_a_group_are_codes(name):
    frame = pd.DataFrame({"stock": list("ABAB"), "year": [1, 1, 2, 2], "size": [1.0, 2, 4, 3], name: [3, 7, 3.0, np.nan]})
    frame["roa"] = [1.0, 2.0, 0.0, 5.0]
    labels = {"firm": "stock", "period": "year"}
    choice = as_panel(frame, outcome="roa", **labels).choice
    assert choice.characteristics == ("size",) and "looks like a code" in choice.left[name]
    with pytest.warns(CodeWarning, match=f"column '{name}' looks like a code but is used as a number"):
        as_panel(frame.drop(columns="roa"), frame["roa"].to_numpy(), **labels)
    for values in ([0.3, 1.7, 2.0, 2.5], [0, 1, 0, 1]):  # a measure of the state, and a mark
        assert name in as_panel(frame.assign(**{name: values}), outcome="roa", **labels).choice.characteristics
    assert "state_tax" in as_panel(frame.assign(state_tax=7), outcome="roa", **labels).choice.characteristics


@pytest.mark.parametrize("text", ["01/31/1988", "1988-01-31", "1988/1/31", "31.1.1988", " 1988-01-31 00:00:00"])
def test_dates_as_text_are_no_code(text):
    X = pd.DataFrame({"firm": list("ABC"), "period": 2001, "size": [1.0, 2.0, 4.0], "founded": [None, text, text]})
    with pytest.raises(InputError, match="column 'founded' of X holds dates such as .*: a characteristic is a number, a code is"):
        as_panel(X)
    assert as_panel(X, codes=["founded"]).choice.codes == ("founded",)


@pytest.mark.parametrize("text", ["01.11.10", "31-33", "3711", "1988", "88-01-31", "A/1/1988"])
def test_codes_that_are_no_dates_stay_codes(text):
    X = pd.DataFrame({"firm": list("ABC"), "period": 2001, "size": [1.0, 2.0, 4.0], "code": [None, text, text]})
    assert as_panel(X).choice.codes == ("code",)
