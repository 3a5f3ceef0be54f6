"""Intervals of any regressor: coverage with common shocks and by size, and the refusals."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from peerattn import CrossSectionalRidge, load_grunfeld
from peerattn.evaluation import IntervalRegressor
from peerattn.exceptions import InputError
from peerattn.models import CovariancePeerRegressor


def made(seed, n=40, periods=61, shock=0.7):
    """Errors that a period's firms share in part; those of small firms are three times as large."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(n), range(2001, 2001 + periods)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=n * periods), "roe": rng.normal(size=n * periods)}, index=index)
    common = np.tile(shock * rng.normal(size=periods), n)
    spread = np.where(X["size"] < X["size"].groupby(level="period").transform("median"), 3.0, 1.0)
    return X, (X["roe"] + common + spread * rng.normal(size=n * periods)).rename("q")


@pytest.mark.parametrize("by", [None, "size"])
def test_coverage_over_new_periods(by):
    """Later periods: over 7 samples 90 % intervals hold at least 88 % of firms, of the small and of the large."""
    inside = []
    for seed in range(7):
        X, y = made(seed)
        new = X.index.get_level_values("period") > 2051
        model = IntervalRegressor(LinearRegression(), by=by).fit(X[~new], y[~new])
        found = model.predict_interval(X[new])
        covered = (found["lower"] <= y[new]) & (y[new] <= found["upper"])
        inside.append(covered.groupby(X.loc[new, "size"] > X.loc[new, "size"].median()).mean())
    coverage = pd.concat(inside, axis=1).mean(axis=1)
    assert coverage.mean() >= 0.88
    if by is None:
        assert coverage[False] < 0.9 and coverage[True] > 0.97  # one margin for all: small firms are not covered
    else:
        assert coverage.min() >= 0.88 and coverage.max() < 0.98


def test_calibration_is_out_of_sample():
    X, y = made(0, periods=26)
    model = IntervalRegressor(LinearRegression(), calibration_periods=9).fit(X, y)
    assert model.residuals_["period"].nunique() == 9 and model.residuals_["period"].min() == 2018
    first = model.residuals_[model.residuals_["period"] == 2018]
    before = X.index.get_level_values("period") <= 2017
    by_hand = LinearRegression().fit(X[before], y[before]).predict(X.xs(2018, level="period"))
    np.testing.assert_allclose(first["prediction"], by_hand, atol=1e-10)
    moved = y.copy()
    moved[moved.index.get_level_values("period") >= 2018] += 50.0
    other = IntervalRegressor(LinearRegression(), calibration_periods=9).fit(X, moved).residuals_
    np.testing.assert_allclose(other[other["period"] == 2018]["prediction"], by_hand, atol=1e-10)


def test_peer_models_are_shown_outcomes_and_rows_keep_their_order():
    X, y = made(1, n=20, periods=14)
    model = IntervalRegressor(CrossSectionalRidge(), level=0.8).fit(X, y)
    shuffled = X[X.index.get_level_values("period") == 2014].sample(frac=1, random_state=0)
    found = model.predict_interval(shuffled, outcomes=y[shuffled.index])
    assert found.index.equals(shuffled.index)
    np.testing.assert_allclose(found["prediction"], CrossSectionalRidge().fit(X, y).predict(shuffled, outcomes=y[shuffled.index]))
    assert (found["upper"] - found["lower"]).round(9).nunique() == 1


def test_margins_are_those_of_the_call_that_is_made():
    """A shock of half the variance: with peers' outcomes it is known, and the interval half as wide."""
    X, y = made(2, n=60, periods=31, shock=6.0)
    new = X.index.get_level_values("period") > 2025
    model = IntervalRegressor(CrossSectionalRidge(), level=0.8).fit(X[~new], y[~new])
    for outcomes in (None, y[new]):
        found = model.predict_interval(X[new], outcomes=outcomes)
        covered = (found["lower"] <= y[new]) & (y[new] <= found["upper"])
        assert 0.7 < covered.mean() < 0.95
    assert model.margins_.loc[None, True] < 0.6 * model.margins_.loc[None, False]
    with pytest.raises(InputError, match="outcomes: LinearRegression uses none: leave them out"):
        IntervalRegressor(LinearRegression(), level=0.8).fit(X, y).predict_interval(X, outcomes=y)
    with pytest.raises(InputError, match="outcomes: CovariancePeerRegressor needs them"):
        few = X[X.index.get_level_values("firm") < 20]
        IntervalRegressor(CovariancePeerRegressor(), level=0.8).fit(few, y[few.index]).predict_interval(few)


def test_at_a_horizon_calibration_reads_no_past_that_is_known_later():
    """Outcomes of 2016 are known in 2019: they move predictions for no other year before that."""
    index = pd.MultiIndex.from_product([range(12), range(2000, 2020)], names=["firm", "period"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index)
    y = pd.Series(rng.normal(size=(12, 20)).cumsum(axis=1).ravel(), index)
    moved = y.where(index.get_level_values("period") != 2016, y + rng.normal(size=len(y)))
    model = IntervalRegressor(CovariancePeerRegressor(random_state=0), level=0.8, horizon=3, n_refits=1, calibration_periods=6)
    before, after = (model.fit(X, each).residuals_.query("observed").set_index("period") for each in (y, moved))
    change = (after["prediction"] - before["prediction"]).abs().groupby("period").max()
    assert change[[2014, 2015, 2017, 2018]].max() < 1e-10
    assert change[2016] > 0
    late = index.get_level_values("period") >= 2014
    model.fit(X[~late], y[~late])
    calls = [model.predict_interval(X[late], outcomes=each[late])["prediction"] for each in (y, moved)]
    change = (calls[1] - calls[0]).abs().groupby("period").max()
    assert change[2016] > 0 and change[[2014, 2015, 2017, 2018]].max() < 1e-10 < change[2019]


def test_refusals():
    panel = load_grunfeld()
    for options, word in (({"level": 0.99}, "level"), ({"level": 1.2}, "level"), ({"level": "90%"}, "level"),
                          ({"by": "sise"}, "by"), ({"calibration_periods": 5}, "calibration")):  # fmt: skip
        with pytest.raises(InputError) as refused:
            IntervalRegressor(LinearRegression(), **options).fit(panel)
        assert word in str(refused.value)
    with pytest.raises(TypeError, match="estimator"):
        IntervalRegressor()


@pytest.mark.parametrize(
    "options",
    [{"horizon": 0}, {"horizon": -3}, {"horizon": 1.5}, {"n_refits": 0}, {"calibration_periods": 9.5}, {"estimator": Ridge}],
)
def test_options_that_would_calibrate_on_learned_rows_raise(options):
    (name,) = options
    panel = load_grunfeld()
    with pytest.raises(InputError, match=f"^{name}: expected"):
        IntervalRegressor(**{"estimator": Ridge()} | options).fit(panel)
