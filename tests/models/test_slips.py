"""What a newcomer's slips lead to: a warning or an error, never a silent figure."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.validation import has_fit_parameter

from peerattn import WalkForward, compare, nowcast_score
from peerattn.exceptions import BoundedOutcomeWarning, SharedPeriodWarning, UnitWarning, UnknownArgument
from peerattn.models import (
    CommonShocksRegressor,
    CrossSectionalRidge,
    FamaMacBethRegressor,
    FirmMeanRegressor,
    IndustryPeerRegressor,
    OwnHistoryRegressor,
)
from peerattn.panel import Design, as_panel

INDEX = pd.MultiIndex.from_product([range(15), range(2001, 2009)], names=["firm", "period"])


def panel():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=120), "sic": rng.choice(["3711", "2911"], 120)}, INDEX)
    return X, pd.Series(X["size"] + rng.normal(size=120), INDEX, name="y")


def test_folds_of_rows_are_warned_of_and_folds_of_periods_are_not():
    X, y = panel()
    for model in (IndustryPeerRegressor(industry="sic"), FirmMeanRegressor()):
        with pytest.warns(SharedPeriodWarning, match="WalkForward"):
            cross_val_score(model, X, y, cv=3)
        with pytest.warns(SharedPeriodWarning, match="WalkForward"):
            cross_val_score(model, X, y, cv=3, scoring="r2")
        with pytest.warns(SharedPeriodWarning, match="WalkForward"):
            cross_val_score(IndustryPeerRegressor(industry="sic"), X, y, cv=3, scoring=nowcast_score)
        with warnings.catch_warnings():
            warnings.simplefilter("error", SharedPeriodWarning)
            cross_val_score(model, X, y, cv=WalkForward(2))
            model.fit(X, y).score(X, y)


def test_a_search_on_explanations_scores_what_explains():
    X, y = panel()
    numbers, model = X[["size"]], CrossSectionalRidge()
    found = GridSearchCV(model, {"scale": ["rank", None]}, cv=WalkForward(2)).fit(numbers, y)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    fitted = model.fit(numbers, y)
    if fitted.needs_outcomes:
        assert fitted.score(numbers, y) == pytest.approx(nowcast_score(fitted, numbers, y))


@pytest.mark.parametrize(
    "model",
    [IndustryPeerRegressor(industry="sic"), OwnHistoryRegressor(), CommonShocksRegressor(industry="sic")],
)
def test_one_shown_outcome_has_bounded_influence(model):
    X, y = panel()
    learned = INDEX.get_level_values("period") < 2006
    model = model.fit(X[learned], y[learned])
    shown, low, high = y.copy(), y[learned].min(), y[learned].max()
    shown.loc[(0, 2006)] = 1e9
    with pytest.warns(BoundedOutcomeWarning, match="1 observed outcomes .* count as that bound"):
        found = model.predict(X, outcomes=shown)
    shown.loc[(0, 2006)] = high + 3 * (high - low)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BoundedOutcomeWarning)
        np.testing.assert_array_equal(found, model.predict(X, outcomes=shown))


@pytest.mark.parametrize("unit", [1e-12, 1e-30, 1.0, 1e30])
def test_no_unit_makes_a_column_a_constant(unit):
    X, y = panel()
    scaled = Design.fit(as_panel(X[["size"]] * unit), scale="standard").transform(as_panel(X[["size"]] * unit))
    assert scaled.std() == pytest.approx(1.0)
    same = Design.fit(as_panel(X[["size"]] * 0 + 0.1 * unit), scale="standard")
    assert same.spread.tolist() == [1.0]


def test_returns_in_per_cent_and_columns_that_are_constant():
    X, y = panel()
    models = {"mean": FirmMeanRegressor()}
    with pytest.warns(UnitWarning, match="'ret_next' is named like a return.*decimals"):
        compare(models, X[["size"]], (5 * y).rename("ret_next"), cv=WalkForward(2), decomposition=False, verbose=False)
    same = X[["size"]].assign(one=1.0, land="DE")
    with pytest.warns(UnitWarning, match="'one', 'land': the same value in all rows"):
        compare(models, same, y, cv=WalkForward(2), decomposition=False, verbose=False)
    with pytest.warns(UnitWarning, match="'one', 'land': the same value in all rows"):
        CrossSectionalRidge().fit(same, y)


@pytest.mark.parametrize("model", [FamaMacBethRegressor(), FirmMeanRegressor(), OwnHistoryRegressor()])
def test_a_model_without_sample_weights_is_named(model):
    X, y = panel()
    weight = np.ones(len(y))
    name = type(model).__name__
    with pytest.raises(UnknownArgument, match=f"^{name}.fit: got an unexpected .* 'sample_weight'. Its arguments are X, y.$"):
        model.fit(X, y, sample_weight=weight)
    with pytest.raises(TypeError, match=f"^{name}.fit: too many positional arguments"):
        model.fit(X, y, weight)
    assert not has_fit_parameter(model, "sample_weight")
