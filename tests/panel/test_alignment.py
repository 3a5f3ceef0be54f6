"""Outcomes find their rows by label, or by position, or not at all."""

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.panel import as_panel

INDEX = pd.MultiIndex.from_product([["A", "B", "C"], [2001, 2002]], names=["firm", "period"])
X = pd.DataFrame({"size": np.arange(6.0)}, index=INDEX)
Y = pd.Series(np.arange(6.0) * 10, index=INDEX)


def align(y, X=X, name="y"):
    return as_panel(X).with_outcomes(y, name).y.to_numpy()


@pytest.mark.parametrize(
    "y",
    [
        Y,
        Y.sample(frac=1, random_state=0),
        Y.swaplevel(),
        Y.swaplevel().sample(frac=1, random_state=1),
        Y.to_frame("roa"),
        Y.rename_axis([None, None]).sample(frac=1, random_state=2),
        Y.astype("Float64"),
        Y.astype("float64[pyarrow]"),
        Y.to_numpy(),
        Y.to_numpy()[:, None],
        Y.tolist(),
        Y.reset_index(drop=True),
        pd.Series(
            Y.to_numpy(),
            index=pd.MultiIndex.from_product([pd.Categorical(["A", "B", "C"]), [2001.0, 2002.0]], names=INDEX.names),
        ),
    ],
)
def test_every_spelling_gives_the_same(y):
    assert align(y).tolist() == Y.tolist()


def test_missing_values_stay_missing():
    assert np.isnan(align(Y.astype("Float64").mask([True] + [False] * 5))[0])


def test_labels_in_columns_of_X():
    flat = X.reset_index()
    assert align(Y[::-1], flat).tolist() == Y.tolist()
    assert align(Y.reset_index(drop=True), flat).tolist() == Y.tolist()


def test_labels_of_X_in_another_order_are_not_matched_by_position():
    shuffled = X.reset_index().sample(frac=1, random_state=0)
    y = pd.Series(np.arange(6.0))  # in the order of the frame before it was shuffled
    with pytest.raises(InputError, match=r"y carries the index labels of X in another order: y.loc\[X.index\]"):
        align(y, shuffled)
    assert align(y.loc[shuffled.index], shuffled).tolist() == shuffled.index.tolist()
    assert align(y.to_numpy(), shuffled).tolist() == y.tolist()
    three = X.assign(k=range(6)).set_index("k", append=True)
    with pytest.raises(InputError, match="in another order"):
        align(pd.Series(np.arange(6.0), index=three.index[::-1]), three)


@pytest.mark.parametrize(
    "y, message",
    [
        (Y.drop(("B", 2001)), r"labels of y are not those of X .5 against 6 rows.: y lacks .B, 2001."),
        (Y.iloc[:0], r"y lacks .A, 2001., .A, 2002., .B, 2001.\. Select both from one frame"),
        (Y.rename({"C": "D"}), r"y lacks .C, 2001., .C, 2002.; y has .D, 2001., .D, 2002., which X lacks"),
        (pd.concat([Y, Y.iloc[:2]]), r"y has duplicated .firm, period. labels, such as .A, 2001., .A, 2002."),
        (Y.rename_axis(["company", "year"]), r"y has index levels \['company', 'year'\].*use the same names"),
        (Y.to_numpy()[:5], r"y has shape \(5,\), but X has 6 rows"),
        (np.zeros((6, 2)), r"y has shape \(6, 2\)"),
        (["a"] * 6, "y must hold numbers"),
        ("roa", "y is the text 'roa': pass the column itself"),
        (Y.replace(10.0, np.inf), "y contains infinity in 1 rows: use NaN"),
        (Y * np.nan, "y has no known value: all 6 are NaN"),
    ],
)
def test_outcomes_that_do_not_fit(y, message):
    with pytest.raises(InputError, match=message):
        align(y)


def test_the_argument_is_named():
    with pytest.raises(InputError, match="outcomes has shape"):
        align([1.0], name="outcomes")
