"""Errors in per cent of the price: by hand, with intervals that cover, in the table where the outcome is a log."""

import numpy as np
import pandas as pd
import pytest

from peerattn import WalkForward, compare
from peerattn.evaluation import median_ape, percentage_errors, pricing_errors, share_near
from peerattn.evaluation.compared import ModelNote
from peerattn.evaluation.comparison import Comparison
from peerattn.exceptions import InputError
from peerattn.models import IndustryPeerRegressor


@pytest.fixture(scope="module")
def comparison():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([[f"F{k}" for k in range(60)], range(2001, 2013)], names=["firm", "period"])
    X = pd.DataFrame({"roe": rng.normal(size=720), "sector": rng.choice(list("ABC"), 720)}, index=index)
    y = (0.5 * X["roe"] + 0.3 * rng.normal(size=720)).rename("log_pb")
    models = {"Sector": IndustryPeerRegressor(industry="sector")}
    return compare(models, X, y, task="nowcast", cv=WalkForward(4, 4), decomposition=False, verbose=False)


def test_errors_by_hand():
    y, forecast = np.log([10.0, 20.0, 40.0, 5.0]), np.log([11.0, 30.0, 40.0, 1.0])
    assert percentage_errors(y, forecast) == pytest.approx([0.1, 0.5, 0.0, -0.8])
    assert median_ape(y, forecast) == pytest.approx(0.3)
    assert share_near(np.r_[y, np.nan], np.r_[forecast, 0.0]) == 0.5


def test_table_shows_them_for_logs_only(comparison):
    frame = comparison.predictions
    scores = comparison.scores
    by_hand = np.abs(np.exp(frame["Gradient boosting"] - frame["outcome"]) - 1)
    assert scores.loc["Gradient boosting", "median_ape"] == pytest.approx(by_hand.median())
    assert scores.loc["Gradient boosting", "within_15"] == pytest.approx((by_hand <= 0.15).mean())
    assert "Median |e|" in comparison.text(200)
    other = compare(
        {"All": IndustryPeerRegressor(scheme="plain")},
        pd.DataFrame({"x": frame["outcome"].to_numpy()}, index=pd.MultiIndex.from_frame(frame[["firm", "period"]])),
        (frame["outcome"].to_numpy() * 0.1 + np.sin(np.arange(len(frame)))),
        task="nowcast",
        cv=WalkForward(1),
        decomposition=False,
        verbose=False,
    )
    assert "Median |e|" not in other.text(200) and np.isnan(other.scores["median_ape"]).all()
    with pytest.raises(InputError) as refused:
        pricing_errors(other)
    assert "log_" in str(refused.value)


def test_intervals_hold_the_estimate_and_pair_the_models(comparison):
    found = pricing_errors(comparison, n_draws=200)
    for key in ("median_ape", "within_15"):
        assert (found[f"{key}_low"] <= found[key]).all() and (found[key] <= found[f"{key}_high"]).all()
        np.testing.assert_allclose(found[key], comparison.scores[key])
    reduction = ["ape_reduction", "ape_reduction_low", "ape_reduction_high"]
    assert found.loc["Sector", reduction].tolist() == [0.0, 0.0, 0.0]  # the baseline
    assert found.loc["Gradient boosting", "ape_reduction_low"] > 0
    assert pricing_errors(comparison, n_draws=50).equals(pricing_errors(comparison, n_draws=50))


def test_intervals_of_the_median_cover():
    """Of 200 samples of 80 firms with three rows each the interval holds the true median error in about 95 per cent."""
    rng, held = np.random.default_rng(1), 0
    truth = np.median(np.abs(np.expm1(rng.normal(0.1, 0.3, size=1_000_000))))
    for _ in range(200):
        firm = np.repeat(np.arange(80), 3)
        error = 0.1 + 0.3 * (np.sqrt(0.6) * rng.normal(size=80)[firm] + np.sqrt(0.4) * rng.normal(size=240))
        frame = pd.DataFrame({"firm": firm, "outcome": 0.0, "m": error})
        alone = Comparison(frame, np.zeros(240), (ModelNote("m"),), "m", "forecast", outcome="log_pb")
        row = pricing_errors(alone, n_draws=199).loc["m"]
        held += row["median_ape_low"] <= truth <= row["median_ape_high"]
    assert 180 <= held <= 198
