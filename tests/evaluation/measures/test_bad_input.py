"""Measures of labelled or unusual input: one order of labels, finite numbers, one row a firm and period."""

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation import (
    calibration,
    diebold_mariano,
    factor_adjusted,
    fama_macbeth,
    quantile_portfolios,
    r2_within_period,
    rank_ic,
)
from peerattn.exceptions import InputError

INDEX = pd.MultiIndex.from_product([[f"f{k}" for k in range(10)], range(2001, 2015)], names=["firm", "period"])
FIRM = INDEX.get_level_values("firm")
PERIOD = pd.Series(INDEX.get_level_values("period"), INDEX)
RNG = np.random.default_rng(0)
Y = pd.Series(0.1 * RNG.normal(size=len(INDEX)), INDEX)
PREDICTED = 0.5 * Y + pd.Series(0.05 * RNG.normal(size=len(INDEX)), INDEX)
BY_PERIOD = PREDICTED.swaplevel().sort_index().swaplevel()
FACTOR = pd.DataFrame({"market": 0.01 * RNG.normal(size=14)}, range(2001, 2015))


@pytest.mark.parametrize("measure", [rank_ic, r2_within_period])
def test_the_same_labels_in_another_order_raise(measure):
    with pytest.raises(InputError, match="same labels in another order"):
        measure(Y, BY_PERIOD, PERIOD)
    measure(Y, BY_PERIOD.reindex(Y.index), PERIOD)
    measure(Y, PREDICTED.to_numpy(), PERIOD.to_numpy())


def portfolios(outcome=Y, firm=FIRM, period=PERIOD, prediction=PREDICTED, **options):
    return quantile_portfolios(outcome, prediction, firm, period, **{"n_quantiles": 3} | options)


BAD = {
    "another order": ({"prediction": BY_PERIOD}, "another order"),
    "a firm twice": ({"firm": np.where(FIRM == "f1", "f0", FIRM)}, "firm: 'f0' occurs twice in period 2001"),
    "no firm": ({"firm": np.where(FIRM == "f1", None, FIRM)}, "firm: expected a label in every row, got 14 missing"),
    "one shorter": ({"outcome": Y.to_numpy()[1:]}, "expected one length"),
    "weights of three rows": ({"weight": np.ones(3)}, "expected one length"),
    "an infinite outcome": ({"outcome": Y.where(FIRM != "f1", np.inf)}, "expected finite numbers"),
    "an outcome of 1e200": ({"outcome": Y * 1e200}, "outcome holds values up to .* choose a larger unit"),
    "no positive year": ({"periods_per_year": -12.0}, "periods_per_year: expected a positive number, got -12"),
    "a constant factor": ({"factors": FACTOR.assign(one=0.01), "outcome_horizon": 0}, "collinear, or one does not vary"),
    "a factor twice": ({"factors": FACTOR.assign(again=FACTOR["market"]), "outcome_horizon": 0}, "collinear"),
    "a far horizon": ({"factors": FACTOR, "outcome_horizon": 10**18}, "at most the .* periods of factors"),
}


@pytest.mark.parametrize("name", BAD)
def test_portfolios_of_bad_input_raise(name):
    changed, message = BAD[name]
    with pytest.raises(InputError, match=message):
        portfolios(**changed)


def test_portfolios_with_a_factor_are_those_without_beside_alpha():
    np.testing.assert_array_equal(portfolios().spread, portfolios(factors=FACTOR, outcome_horizon=0).spread)


def test_outcomes_net_of_factors_are_of_finite_numbers_in_one_row_each():
    with pytest.raises(InputError, match="y: .* occurs twice"):
        factor_adjusted(pd.concat([Y, Y[:1]]), FACTOR)
    with pytest.raises(InputError, match="factors: 2003 occurs twice"):
        factor_adjusted(Y, pd.concat([FACTOR, FACTOR.loc[[2003]]]))
    infinite = Y.copy()
    infinite["f1", 2003] = np.inf
    with pytest.raises(InputError, match="y: expected finite numbers"):
        factor_adjusted(infinite, FACTOR)
    of_firms = pd.DataFrame({"own": np.tile(FACTOR["market"], 10)}, INDEX)
    of_firms.loc[("f1", 2003), "own"] = -np.inf
    with pytest.raises(InputError, match="factors: expected finite numbers"):
        factor_adjusted(Y, of_firms)


def test_infinite_losses_raise():
    loss = RNG.random(len(INDEX))
    infinite = loss.copy()
    infinite[3] = np.inf
    for pair in ((loss, infinite), (infinite, loss), (infinite, infinite)):
        with pytest.raises(InputError, match="expected finite numbers"):
            diebold_mariano(*pair, PERIOD)


def test_values_whose_squares_are_no_numbers_raise():
    for score in (calibration, fama_macbeth, r2_within_period):
        with pytest.raises(InputError, match="outcome or prediction holds values up to .* choose a larger unit"):
            score(Y * 1e200, PREDICTED, PERIOD)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e9])
def test_calibration_does_not_depend_on_the_unit(scale):
    y = 0.3 + Y
    one = calibration(y, PREDICTED, PERIOD)
    other = calibration(scale * y, scale * PREDICTED, PERIOD)
    np.testing.assert_allclose(other.tstats, one.tstats, rtol=1e-8)
    np.testing.assert_allclose(other.params, one.params * [scale, 1.0], rtol=1e-8)
