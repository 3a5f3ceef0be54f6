"""Scaling of characteristics: training moments, or ranks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from peerattn.exceptions import InputError
from peerattn.panel.gate import check_panel
from peerattn.panel.scaling import Scaling, cross_sectional_ranks


def panel_of(X, fitting=True):
    return check_panel(BaseEstimator(), X, fitting=fitting)


def dated(n=6, periods=2, seed=0):
    index = pd.MultiIndex.from_product([range(n), range(periods)], names=["firm", "period"])
    return pd.DataFrame(
        np.random.default_rng(seed).normal(size=(n * periods, 2)), index=index, columns=["a", "b"]
    )


def test_standard_uses_weighted_training_moments():
    x, w = np.random.default_rng(0).normal(3, 2, size=(20, 2)), np.arange(20) % 3
    scaling = Scaling.fit(panel_of(x), "standard", w)
    many = np.repeat(x, w, axis=0)
    np.testing.assert_allclose(
        scaling.transform(panel_of(x)), (x - many.mean(axis=0)) / many.std(axis=0), atol=1e-12
    )


def test_constant_column_is_zero():
    x = np.column_stack([np.full(5, 7.0), np.arange(5)])
    assert (Scaling.fit(panel_of(x), "standard").transform(panel_of(x))[:, 0] == 0).all()


def test_rank_is_within_the_period_and_blind_to_others():
    X = dated()
    scaling = Scaling.fit(panel_of(X), "rank")
    first = X.index.get_level_values("period") == 0
    changed = X.copy()
    changed.loc[~first] *= 100
    ranks = scaling.transform(panel_of(X))
    np.testing.assert_array_equal(ranks[:6], scaling.transform(panel_of(changed))[:6])
    np.testing.assert_allclose(np.sort(ranks[:6, 0]), (2 * np.arange(1, 7) - 1) / 6 - 1)


def test_rank_on_arrays_is_the_place_in_the_training_rows():
    x = np.array([[1.0], [2.0], [2.0], [4.0]])
    scaling = Scaling.fit(panel_of(x), "rank")
    got = scaling.transform(panel_of(np.array([[0.0], [1.0], [2.0], [3.0], [9.0]]), fitting=True))[:, 0]
    np.testing.assert_allclose(got, [-1.0, -0.75, 0.0, 0.5, 1.0])
    np.testing.assert_allclose(
        scaling.transform(panel_of(x)), cross_sectional_ranks(pd.DataFrame(x), np.zeros(4))
    )


def test_missing_is_the_middle_with_an_indicator():
    X = dated()
    X.iloc[0, 0] = np.nan
    scaling = Scaling.fit(panel_of(X), "rank")
    assert scaling.names == ["a", "b", "a_missing"]
    out = scaling.transform(panel_of(X))
    assert out[0, 0] == 0 and out[0, 2] == 1 and out[1:, 2].sum() == 0


def test_unknown_scale():
    with pytest.raises(InputError, match="scale must be one of"):
        Scaling.fit(panel_of(dated()), "robust")
