import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from peerattn.evaluation.inference.forecast_tests import mean_test
from peerattn.evaluation.measures.information import ic, rank_ic
from peerattn.evaluation.measures.metrics import mae, r2_out_of_sample, r2_within_period, rmse
from peerattn.exceptions import InputError


@pytest.fixture
def sample():
    rng = np.random.default_rng(7)
    period = np.repeat(np.arange(2000, 2030), rng.integers(3, 30, 30))
    y = rng.normal(size=len(period)) + 0.3 * (period - 2015)
    prediction = 0.4 * y + rng.normal(size=len(y))
    y[rng.random(len(y)) < 0.1] = np.nan
    order = rng.permutation(len(y))
    return y[order], prediction[order].round(1), period[order]


def test_errors_against_sklearn(sample):
    y, prediction, _ = sample
    known = ~np.isnan(y)
    assert rmse(y, prediction) == pytest.approx(root_mean_squared_error(y[known], prediction[known]), abs=1e-14)
    assert mae(y, prediction) == pytest.approx(mean_absolute_error(y[known], prediction[known]), abs=1e-14)


def test_r2_out_of_sample_against_loops(sample):
    y, prediction, _ = sample
    base = np.linspace(-1, 1, len(y))
    error = total = against_zero = 0.0
    for outcome, forecast, benchmark in zip(y, prediction, base, strict=True):
        if not math.isnan(outcome):
            error += (outcome - forecast) ** 2
            total += (outcome - benchmark) ** 2
            against_zero += outcome**2
    assert r2_out_of_sample(y, prediction, base) == pytest.approx(1 - error / total, abs=1e-12)
    assert r2_out_of_sample(y, prediction) == pytest.approx(1 - error / against_zero, abs=1e-12)
    known = ~np.isnan(y)
    ours = r2_out_of_sample(y, prediction, np.nanmean(y))
    assert ours == pytest.approx(r2_score(y[known], prediction[known]), abs=1e-12)


def test_within_period_r2_against_loops(sample):
    y, prediction, period = sample
    error = total = 0.0
    for label in set(period):
        rows = [k for k in range(len(y)) if period[k] == label and not math.isnan(y[k])]
        y_mean = sum(y[k] for k in rows) / len(rows)
        f_mean = sum(prediction[k] for k in rows) / len(rows)
        error += sum(((y[k] - y_mean) - (prediction[k] - f_mean)) ** 2 for k in rows)
        total += sum((y[k] - y_mean) ** 2 for k in rows)
    assert r2_within_period(y, prediction, period) == pytest.approx(1 - error / total, abs=1e-12)


def test_the_leave_one_out_mean_does_not_score():
    """Its correlation with the outcome is −1 in every period; a squared correlation would call it perfect."""
    rng = np.random.default_rng(0)
    period = np.repeat(np.arange(5), 20)
    y = rng.normal(size=100)
    frame = pd.Series(y).groupby(period)
    left_out = (frame.transform("sum") - y) / 19
    assert r2_within_period(y, left_out, period) < 0
    assert rank_ic(y, left_out, period).mean == pytest.approx(-1)


def test_within_period_r2_ignores_what_is_common_to_a_period(sample):
    y, prediction, period = sample
    shifted = prediction + 10 * np.sin(period)
    assert r2_within_period(y, shifted, period) == pytest.approx(r2_within_period(y, prediction, period), abs=1e-10)


def test_rank_ic_against_scipy(sample):
    y, prediction, period = sample
    result = rank_ic(y, prediction, period)
    known = ~np.isnan(y)
    by_period = [
        spearmanr(y[known & (period == label)], prediction[known & (period == label)]).statistic for label in range(2000, 2030)
    ]
    np.testing.assert_allclose(result.by_period.to_numpy(), by_period, atol=1e-12)
    assert list(result.by_period.index) == list(range(2000, 2030))
    test = mean_test(np.array(by_period))
    assert result.mean == pytest.approx(np.mean(by_period), abs=1e-12)
    assert (result.t, result.p_value) == pytest.approx((test.t, test.p_value), rel=1e-10)
    assert rank_ic(y, prediction, period, horizon=8).test.reason == "n/a (T=30, 36 needed)"


def test_rank_ic_of_few_periods_and_of_constants():
    few = rank_ic([1, 2, 3, 1, 2, 3], [1, 2, 3, 1, 3, 2], [1, 1, 1, 2, 2, 2])
    assert few.t is None and few.mean == pytest.approx(0.75)
    assert repr(few) == "RankIC(mean=0.7500, t=n/a (T=2, 12 needed), periods=2)"
    none = rank_ic([1, 2, 3, 4], [5, 5, 5, 5], [1, 1, 2, 2])
    assert math.isnan(none.mean) and none.t is None and none.n_periods == 0
    assert "none" in repr(none)


@pytest.mark.parametrize("measure", [ic, rank_ic])
def test_constants_have_no_correlation_whatever_their_rounding(measure):
    """The mean of 0.1 three times is not 0.1: such outcomes had a correlation, of rounding."""
    same, different = [0.1, 0.1, 0.1], [1.0, 2.0, 4.0]
    found = measure(same + different + different, different + same + different, np.repeat([1, 2, 3], 3))
    assert found.by_period.index.tolist() == [3]


def test_rank_ic_takes_periods_of_any_kind():
    y, prediction = np.arange(6.0), np.array([1.0, 0, 2, 3, 5, 4])
    for period in (
        pd.PeriodIndex(["2020-02", "2020-01"] * 3, freq="M"),
        ["2020-02", "2020-01"] * 3,
        pd.Series([2, 1] * 3),
    ):
        assert rank_ic(y, prediction, period).by_period.index.is_monotonic_increasing
    with pytest.raises(InputError, match="text that names no dates with the year in four digits .'b', 'a'."):
        rank_ic(y, prediction, ["b", "a"] * 3)


def test_no_variation_is_nan_not_an_error():
    assert math.isnan(r2_out_of_sample([0.0, 0.0], [1.0, 1.0]))
    assert math.isnan(r2_within_period([1.0, 2.0], [1.0, 2.0], [1, 2]))


def test_bad_input():
    with pytest.raises(InputError, match="one length"):
        rmse([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="outcomes: expected some that are known"):
        mae([np.nan], [1.0])
    with pytest.raises(InputError, match="cannot be sorted"):
        rank_ic([1.0, 2.0], [1.0, 2.0], pd.Index([1, "a"], dtype=object))
    with pytest.raises(InputError, match="missing"):
        rank_ic([1.0, 2.0], [1.0, 2.0], [1.0, np.nan])


@pytest.mark.parametrize("wrong", [["", "x", "1"], {"a": 1.0}])
def test_outcomes_and_predictions_are_numbers(wrong):
    for outcome, prediction in ((wrong, [1.0, 2.0, 3.0]), ([1.0, 2.0, 3.0], wrong)):
        with pytest.raises(InputError, match="must be numbers, one for each row"):
            mae(outcome, prediction)
