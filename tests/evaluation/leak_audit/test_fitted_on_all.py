"""Marks of transforms of all rows, each beside the transform of training rows or of each period's rows."""

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation.leak_audit.fitted_on_all import fitted_on_all

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
    "winsorised": lambda x, by: x.clip(by(x, lambda v: v.quantile(0.05)), by(x, lambda v: v.quantile(0.95))),
    "filled with the mean": lambda x, by: gaps(x).fillna(by(gaps(x), "mean")),
    "filled with the median": lambda x, by: gaps(x).fillna(by(gaps(x), "median")),
}


def over_all(x, how):
    return pd.Series(x.agg(how), x.index)


def over_training(x, how):
    return pd.Series(x.iloc[TRAIN].agg(how), x.index)


def by_period(x, how):
    return x.groupby(WHEN).transform(how)


@pytest.mark.parametrize("what", TRANSFORMS)
def test_a_transform_of_all_rows_leaves_its_mark(size, what):
    def said(by):
        return fitted_on_all(pd.DataFrame({"size": TRANSFORMS[what](size, by)}), TRAIN, FIRM, WHEN)

    assert what in said(over_all)["size"]
    assert said(over_training) == {} and said(by_period) == {}


def test_ranks_scores_and_quantiles_of_all_rows(size):
    for made, what in (
        (size.rank(pct=True), "ranked over all rows"),
        (pd.qcut(size, 10, labels=False).astype(float), "cut into quantiles over all rows"),
        (size - size.groupby(FIRM).transform("mean"), "over all rows"),
    ):
        assert what in fitted_on_all(pd.DataFrame({"size": made}), TRAIN, FIRM, WHEN)["size"]
    clean = pd.DataFrame(
        {"rank": size.groupby(WHEN).rank(), "age": WHEN.astype(float), "past": size.groupby(FIRM).shift()}
    )
    assert fitted_on_all(clean, TRAIN, FIRM, WHEN) == {}


def test_a_firm_s_mean_of_all_periods_fills_no_gap(size):
    gapped = gaps(size)
    filled = gapped.fillna(gapped.groupby(FIRM).transform("mean"))
    assert (
        "by the firm's mean of all periods"
        in fitted_on_all(pd.DataFrame({"size": filled}), TRAIN, FIRM, WHEN)["size"]
    )
    past = gapped.fillna(gapped.groupby(FIRM).transform(lambda v: v.expanding().mean()))
    assert fitted_on_all(pd.DataFrame({"size": past}), TRAIN, FIRM, WHEN) == {}


def test_components_of_all_rows_are_uncorrelated(size):
    other = 0.5 * size + np.random.default_rng(6).normal(size=600)
    table = np.column_stack([size, other])
    for rows, leaks in ((slice(None), True), (TRAIN, False)):
        scores = (table - table[rows].mean(axis=0)) @ np.linalg.svd(table[rows] - table[rows].mean(axis=0))[
            2
        ].T
        found = fitted_on_all(pd.DataFrame(scores + 3, columns=["first", "second"]), TRAIN, FIRM, WHEN)
        assert ("uncorrelated with" in str(found)) == leaks
