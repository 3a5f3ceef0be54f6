"""Folds inside a model are checked in every outer fold, on the rows that they split."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso, LassoCV
from sklearn.model_selection import GridSearchCV, GroupKFold

from peerattn import PeerAttentionRegressor, WalkForward, compare
from peerattn.evaluation.running.inner_folds import random_rows
from peerattn.exceptions import InputError
from peerattn.models import OwnCharacteristicsRegressor


def panel(n_periods):
    index = pd.MultiIndex.from_product([range(2001, 2001 + n_periods), range(10)], names=["period", "firm"])
    X = pd.DataFrame({"size": np.random.default_rng(0).normal(size=len(index))}, index.swaplevel())
    return X, (X["size"] + np.random.default_rng(1).normal(size=len(X))).rename("y")


def test_the_first_fold_counts_too():
    X, y = panel(8)
    assert list(random_rows(LassoCV(cv=3), *panel(6))) == []  # thirds of six periods are whole periods
    with pytest.raises(InputError, match=r"LassoCV\(cv=3\) holds out rows of periods"):
        compare({"lasso": LassoCV(cv=3)}, X, y, cv=WalkForward(4, refit_every=2), decomposition=False, verbose=False)


@pytest.mark.parametrize("cv", [GroupKFold(3), 500, "three", iter([(np.arange(10), np.arange(10, 30))])])
def test_folds_that_cannot_be_made_are_named(cv):
    X, y = panel(8)
    with pytest.raises(InputError, match=r"LassoCV\(cv=.*\) (cannot split the rows|can be read only once)"):
        compare({"lasso": LassoCV(cv=cv)}, X, y, cv=WalkForward(4, refit_every=2), decomposition=False, verbose=False)


def test_the_own_term_is_fitted_on_earlier_periods_too():
    X, y = panel(9)
    assert list(random_rows(LassoCV(cv=3), X, y)) == []
    (found,) = random_rows(PeerAttentionRegressor(own=LassoCV(cv=3)), X, y)
    assert "PeerAttentionRegressor: LassoCV(cv=3) holds out" in found
    searched = GridSearchCV(Lasso(), {"alpha": [0.1, 1.0]}, cv=WalkForward(2))
    assert list(random_rows(PeerAttentionRegressor(own=searched), X, y)) == []


def test_what_a_model_holds_is_fitted_on_known_rows():
    X, y = panel(6)
    y.iloc[:7] = np.nan
    (found,) = random_rows(OwnCharacteristicsRegressor(LassoCV(cv=3)), X, y)
    assert "LassoCV(cv=3)" in found
    y.iloc[:10] = np.nan
    y.iloc[10:20] = np.nan
    y.iloc[20:30] = np.nan
    assert list(random_rows(OwnCharacteristicsRegressor(LassoCV(cv=3)), X, y)) == []
