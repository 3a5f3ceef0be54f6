"""Marks of transforms of all rows, each beside the transform of training rows or of each period's rows."""

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation.leak_audit.brought import transformed_over_all

FIRM, WHEN = np.repeat(np.arange(40), 15), np.tile(np.arange(15), 40)
TRAIN = np.flatnonzero(WHEN < 9)


@pytest.fixture(scope="module")
def size():
    rng = np.random.default_rng(4)
    return pd.Series(rng.standard_t(5, size=600) + 0.2 * WHEN + np.repeat(rng.normal(size=40), 15))


def gaps(x):
    return x.where(np.random.default_rng(5).random(600) > 0.1)


TRANSFORMS = {
    "standardised or centred": lambda x, by: (x - by(x, "mean")) / by(x, "std"),
    "scaled by median and quartiles": lambda x, by: (
        (x - by(x, "median")) / (by(x, lambda v: v.quantile(0.75)) - by(x, lambda v: v.quantile(0.25)))
    ),
    "scaled between its ends": lambda x, by: (x - by(x, "min")) / (by(x, "max") - by(x, "min")),
    "filled with the mean or median": lambda x, by: gaps(x).fillna(by(gaps(x), "median")),
}


def over_all(x, how):
    return pd.Series(x.agg(how), x.index)


def over_training(x, how):
    return pd.Series(x.iloc[TRAIN].agg(how), x.index)


def by_period(x, how):
    return x.groupby(WHEN).transform(how)


def said(x):
    return transformed_over_all(pd.DataFrame({"size": x}), TRAIN, FIRM, WHEN)


@pytest.mark.parametrize("what", TRANSFORMS)
def test_a_transform_of_all_rows_leaves_its_mark(size, what):
    transform = TRANSFORMS[what]
    assert what in said(transform(size, over_all))["size"]
    assert said(transform(size, over_training)) == {} and said(transform(size, by_period)) == {}


def test_ranks_and_firms_means_of_all_rows(size):
    assert "ranked over all rows" in said(size.rank(pct=True))["size"]
    assert "firm's mean of all periods" in said(size - size.groupby(FIRM).transform("mean"))["size"]
    assert said(size - size.groupby(FIRM).transform(lambda v: v.expanding().mean())) == {}
    assert said(size.groupby(WHEN).rank()) == {} and said(pd.Series(WHEN.astype(float))) == {}


def test_rounding_hides_no_mark(size):
    scaled = (size - size.mean()) / size.std()
    assert said(scaled.round(2)) and said(scaled.astype("float32")) and not said(size.round(2))
