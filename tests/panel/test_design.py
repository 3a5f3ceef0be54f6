"""Scaling of characteristics: training moments, or ranks."""

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError
from peerattn.panel import as_panel
from peerattn.panel.design import Design, cross_sectional_ranks


def dated(n=6, periods=2, seed=0):
    index = pd.MultiIndex.from_product([range(n), range(periods)], names=["firm", "period"])
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(n * periods, 2)), index=index, columns=["a", "b"])


def test_standard_uses_weighted_training_moments():
    x, w = np.random.default_rng(0).normal(3, 2, size=(20, 2)), np.arange(20) % 3
    design = Design.fit(as_panel(x), scale="standard", weight=w)
    many = np.repeat(x, w, axis=0)
    np.testing.assert_allclose(design.transform(as_panel(x)), (x - many.mean(axis=0)) / many.std(axis=0), atol=1e-12)


def test_constant_column_is_zero():
    x = np.column_stack([np.full(5, 7.0), np.arange(5)])
    assert (Design.fit(as_panel(x), scale="standard").transform(as_panel(x))[:, 0] == 0).all()


def test_rank_is_within_the_period_and_blind_to_others():
    X = dated()
    design = Design.fit(as_panel(X), scale="rank")
    first = X.index.get_level_values("period") == 0
    changed = X.copy()
    changed.loc[~first] *= 100
    ranks = design.transform(as_panel(X))
    np.testing.assert_array_equal(ranks[first], design.transform(as_panel(changed))[first])
    np.testing.assert_allclose(np.sort(ranks[first, 0]), (2 * np.arange(1, 7) - 1) / 6 - 1)


def test_rank_on_arrays_is_the_place_in_the_training_rows():
    x = np.array([[1.0], [2.0], [2.0], [4.0]])
    design = Design.fit(as_panel(x), scale="rank")
    got = design.transform(as_panel(np.array([[0.0], [1.0], [2.0], [3.0], [9.0]])))[:, 0]
    np.testing.assert_allclose(got, [-1.0, -0.75, 0.0, 0.5, 1.0])
    np.testing.assert_allclose(design.transform(as_panel(x)), cross_sectional_ranks(pd.DataFrame(x), np.zeros(4)))


def test_missing_is_the_middle_with_an_indicator():
    X = dated()
    X.iloc[0, 0] = np.nan
    design = Design.fit(as_panel(X), scale="rank")
    assert design.names == ["a", "b", "a_missing"]
    out = design.transform(as_panel(X))
    assert out[0, 0] == 0 and out[0, 2] == 1 and out[1:, 2].sum() == 0


def test_unknown_scale():
    with pytest.raises(InputError, match="scale must be one of"):
        Design.fit(as_panel(dated()), scale="robust")
