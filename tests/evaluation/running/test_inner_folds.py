"""Folds inside a model are checked in every outer fold, on the rows that they split."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso, LassoCV, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline

from peerattn import PeerAttentionRegressor, WalkForward, compare
from peerattn.evaluation.running.inner_folds import random_rows
from peerattn.exceptions import InputError
from peerattn.models import OwnCharacteristicsRegressor, PeerFeatures
from peerattn.models.own_characteristics import ElasticNetRegressor
from peerattn.panel import as_panel


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


UNKNOWN = "learns from outcomes that are not known in the periods that it holds out"


def test_held_out_periods_come_after_a_gap_of_the_horizon():
    X, y = panel(12)
    searches = {h: GridSearchCV(Lasso(), {"alpha": [0.1, 1.0]}, cv=WalkForward(2, horizon=h)) for h in (1, 3)}
    for model in (searches[1], LassoCV(cv=3)):  # thirds of twelve periods are whole periods, next to each other
        assert list(random_rows(model, X, y)) == []
        assert UNKNOWN in next(random_rows(model, X, y, horizon=3))
    assert list(random_rows(searches[3], X, y, horizon=3)) == []
    with pytest.raises(InputError, match=rf"{UNKNOWN}.*WalkForward\(k, k, horizon=3\)"):
        compare({"lasso": searches[1]}, X, y, cv=WalkForward(2, 2, horizon=3), decomposition=False, verbose=False)


def test_held_out_periods_come_after_the_dates_of_outcomes():
    X, y = panel(12)
    dates = pd.Series(X.index.get_level_values("period") + 2, X.index)
    dated = as_panel(X, y, known_at=dates)
    options = {"cv": WalkForward(2, 2), "decomposition": False, "verbose": False}
    without, with_dates = (GridSearchCV(Lasso(), {"alpha": [0.1]}, cv=WalkForward(2, known_at=each)) for each in (None, dates))
    with pytest.raises(InputError, match=rf"{UNKNOWN}.*known_at="):
        compare({"lasso": without}, dated, **options)
    assert not compare({"lasso": with_dates}, dated, **options).failures
    lagged = GridSearchCV(make_pipeline(PeerFeatures(of="outcomes"), Ridge()), {"ridge__alpha": [1.0]}, cv=with_dates.cv)
    with pytest.raises(InputError, match="would not know when outcomes are known"):
        compare({"lagged": lagged}, dated, **options)


def test_the_elastic_net_holds_out_periods_after_a_gap():
    X, y = panel(12)
    found = {}
    for name, rows, purge in (("", as_panel(X, y), 0), ("purge", as_panel(X, y), 2)):
        net = ElasticNetRegressor(purge=purge).fit(rows)
        found[name] = [(rows.period[train].max(), rows.period[test].min()) for train, test in net.model_[-1].cv]
    filed = as_panel(X, y, known_at=X.index.get_level_values("period") + 3)
    net = ElasticNetRegressor().fit(filed)
    found["filed"] = [(filed.period[train].max(), filed.period[test].min()) for train, test in net.model_[-1].cv]
    assert found[""] == [(2002, 2003), (2004, 2005), (2006, 2007), (2008, 2009), (2010, 2011)]
    assert found["purge"] == found["filed"] == [(2002, 2005), (2004, 2007), (2006, 2009), (2008, 2011)]
    with pytest.raises(InputError, match="no outcome is known to learn from"):
        ElasticNetRegressor(purge=20).fit(X, y)


def test_the_splitter_of_a_search_may_name_the_levels_as_the_panel_does():
    X, y = panel(9)
    options = {"decomposition": False, "verbose": False}
    plain = GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=WalkForward(2))
    expected = compare({"ridge": plain}, X, y, cv=WalkForward(3, 3), **options)
    names = {"firm": "id", "period": "year"}
    X, y = (part.rename_axis(index=names) for part in (X, y))
    for cv in (WalkForward(2), WalkForward(2, **names)):
        searched = {"ridge": GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=cv)}
        found = compare(searched, X, y, cv=WalkForward(3, 3, **names), **names, **options)
        np.testing.assert_array_equal(found.predictions["ridge"], expected.predictions["ridge"])
