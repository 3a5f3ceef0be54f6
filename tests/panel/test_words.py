"""Numbers written as text are read where there is one reading; else an error names column, cell and remedy."""

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import CodeWarning, InputError
from peerattn.models import OwnCharacteristicsRegressor
from peerattn.panel import as_panel, read_panel
from peerattn.panel.words import read_numbers

READ = [
    (["5.1%", "0", "(2%)"], [0.051, 0, -0.02]),
    (["5,1", "6,25", "1.200,5"], [5.1, 6.25, 1200.5]),
    (["5,100.0", "6,200.5", "7"], [5100, 6200.5, 7]),
    (["5,100", "1,234,567", "8"], [5100, 1234567, 8]),
    (["5,100", "0,250", "8"], [5.1, 0.25, 8]),
    (["$5.1", "-$6", "($8)"], [5.1, -6, -8]),
    (["5,1 EUR", "6 EUR", "7,0 EUR"], [5.1, 6, 7]),
    (["(5.1)", "6.2", "−7"], [-5.1, 6.2, -7]),
    (["5.1M", "300K", "2.5bn"], [5.1e6, 3e5, 2.5e9]),
    (["n.a.", "5.1", "#N/A"], [np.nan, 5.1, np.nan]),
    (["5\u00a0100,5", "6", "."], [5100.5, 6, np.nan]),
    (["1'200.5", "3", ".a"], [1200.5, 3, np.nan]),
]
AMBIGUOUS = [
    (["5,100", "6,200", "7,300"], "'5,100' .*comma of thousands or of decimals"),
    (["5.1", "5,1", "6"], "'5,1' .*decimal comma, '5.1' a decimal point"),
    (["5.1%", "3", "4%"], "'5.1%' .*in per cent, others such as '3' are not"),
    (["$5.1", "€3.1", "4"], "'.5.1' .*in another currency than"),
    (["5.1T", "3.2", "4"], "'5.1T' .*the unit 'T', which is not known"),
    (["5.1", "abc", "6.2"], "'abc' .*is no number, though others such as '5.1' are"),
]
NAMES = [
    ["3711", "100", "2911"],
    ["01.11", "62.01", "3.1"],
    ["31.12.2001", "30.11.2001", "1.1.2002"],
    ["3M", "6M", "12M"],
    ["1.2.3", "1.2.4", "2.0.0"],
]


@pytest.mark.parametrize("dtype", [object, "string[pyarrow]", "category"])
@pytest.mark.parametrize("cells, numbers", READ)
def test_one_reading(cells, numbers, dtype):
    column = pd.Series(cells, dtype=object).astype(dtype)
    np.testing.assert_array_equal(read_numbers(column).values, numbers)


@pytest.mark.parametrize("cells, message", AMBIGUOUS)
def test_several_readings_are_refused(cells, message):
    with pytest.raises(InputError, match=f"column 'size': the cell {message}.*declare the column in codes"):
        read_numbers(pd.Series(cells, name="size"))


@pytest.mark.parametrize("cells", NAMES)
def test_names_are_no_numbers(cells):
    assert read_numbers(pd.Series(cells)) is None


@pytest.mark.parametrize("cells, numbers", READ[:8])
def test_every_door_reads_them(cells, numbers, tmp_path):
    frame = pd.DataFrame({"firm": list("ABC") * 4, "period": np.repeat(range(2001, 2005), 3), "size": cells * 4, "lev": 1.0})
    frame["y"] = np.resize(numbers, 12) * 2 + 1
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for source in (frame, tmp_path / "a.csv", tmp_path / "a.parquet"):
        with pytest.warns(CodeWarning, match="column 'size' is text and is read as numbers"):
            panel = read_panel(source, outcome="y")
        np.testing.assert_array_equal(panel.X["size"], np.resize(numbers, 12))
        assert panel.choice.characteristics == ("size", "lev")
    X = frame[["firm", "period", "size"]]
    y = frame["y"] + np.arange(12) % 5 * frame["y"].std()  # else one looks like the other
    with pytest.warns(CodeWarning, match="column 'size' is text and is read as numbers"):
        model = OwnCharacteristicsRegressor().fit(X, y)
    plain = X.assign(size=np.resize(numbers, 12))
    expected = OwnCharacteristicsRegressor().fit(plain, y).predict(plain)
    np.testing.assert_array_equal(np.asarray(model.predict(X)), np.asarray(expected))


def test_a_declared_code_stays_text():
    frame = pd.DataFrame({"firm": list("ABC"), "period": 2001, "group": ["1.5", "2.5", "1.5"]})
    assert as_panel(frame, codes=["group"]).codes["group"].tolist() == ["1.5", "2.5", "1.5"]
