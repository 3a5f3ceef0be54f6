"""Columns standardised over all rows, each beside the same of training rows or of each period's rows."""

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation.leak_audit.columns import Rows, scaled_over_all

FIRM, WHEN = np.repeat(np.arange(40), 15), np.tile(np.arange(15), 40)
TRAIN = np.flatnonzero(WHEN < 9)


@pytest.fixture(scope="module")
def size():
    rng = np.random.default_rng(4)
    return pd.Series(rng.standard_t(5, size=600) + 0.2 * WHEN + np.repeat(rng.normal(size=40), 15))


def said(x):
    return scaled_over_all(Rows.of(pd.DataFrame({"size": x}), np.zeros(600), FIRM, WHEN), TRAIN)


def test_a_column_standardised_over_all_rows_is_told_from_one_of_training_rows_or_periods(size):
    training, period = size.iloc[TRAIN], size.groupby(WHEN)
    assert "standardised or centred" in said((size - size.mean()) / size.std())["size"]
    assert said((size - training.mean()) / training.std()) == {}
    assert said((size - period.transform("mean")) / period.transform("std")) == {}


def test_a_column_from_0_to_1_over_all_rows_is_told_from_one_of_training_rows_or_periods(size):
    size = size + 2.0 * WHEN  # the largest is a tested row
    training, period = size.iloc[TRAIN], size.groupby(WHEN)
    least, most = period.transform("min"), period.transform("max")
    assert "standardised or centred" in said((size - size.min()) / (size.max() - size.min()))["size"]
    assert said((size - training.min()) / (training.max() - training.min())) == {}
    assert said((size - least) / (most - least)) == {}
    assert said(size.clip(0, 1)) == {}


def test_a_column_without_the_mean_of_all_years_of_its_firm_is_found(size):
    assert said(size - size.groupby(FIRM).transform("mean"))
    assert said(size - size.groupby(FIRM).transform(lambda v: v.expanding().mean())) == {}
    assert said(size) == {} and said(pd.Series(WHEN.astype(float))) == {}
