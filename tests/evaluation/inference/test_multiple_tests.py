import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation import model_confidence_set
from peerattn.evaluation.inference.forecast_tests import diebold_mariano, mean_test
from peerattn.exceptions import InputError


def losses(gaps, n=80, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.chisquare(3, size=(n, 1)) + np.array(gaps) + 0.5 * rng.normal(size=(n, len(gaps)))
    return pd.DataFrame(values, columns=[f"M{k}" for k in range(len(gaps))])


def one_sided(better, worse):
    """P value of ``better`` having the smaller loss, from the Diebold–Mariano test."""
    test = diebold_mariano(better, worse, np.arange(len(better)))
    return test.p_value / 2 if test.statistic > 0 else 1 - test.p_value / 2


def test_the_confidence_set_is_multiple_comparisons_with_the_best():
    L = losses([0, 0, 0.1, 0.6])
    found = model_confidence_set(L)
    for name in L:
        others = [one_sided(L[other], L[name]) for other in L if other != name]
        assert found.p_values[name] == pytest.approx(min(1.0, 3 * min(others)))
    assert found.excluded == ("M3",) and found.included == ("M0", "M1", "M2")
    assert repr(found) == "ConfidenceSet(90%: M0, M1, M2; 1 excluded)"


def test_models_that_are_the_same_share_a_verdict():
    L = losses([0, 0.8])
    twice = L.assign(again=L["M1"] + 1e-15)
    found = model_confidence_set(twice)
    assert set(found.excluded) == {"M1", "again"} and found.p_values["again"] == pytest.approx(found.p_values["M1"])
    same = model_confidence_set(L[["M0"]].assign(copy=L["M0"]))
    assert same.included == ("M0", "copy")


def test_a_wandering_gain_has_a_wide_error():
    """No significance of a trend in so short a series; it counts as a trial."""
    L = losses([0, -0.4, 0], n=20)
    wandering = L.assign(M1=L["M0"] - 5 - np.linspace(0, 30, 20))
    assert mean_test(wandering["M0"] - wandering["M1"]).p_value > 0.05
    assert "M0" in model_confidence_set(wandering).included


@pytest.mark.parametrize("gap", [1.0, 1e-6, -1e-6])
def test_a_model_that_is_worse_by_the_same_loss_in_every_period_is_left_out(gap):
    """As in the limit of ever smaller noise; by a multiple of 1/2²⁰ differences have no rounding errors."""
    step = np.round(gap * 2**20) / 2**20
    loss = np.arange(1.0, 21.0)
    constant = pd.DataFrame({"A": loss, "B": loss + step, "again": loss})
    found = model_confidence_set(constant)
    noise = 1e-3 * step * np.random.default_rng(0).normal(size=20)
    assert found.excluded == model_confidence_set(constant.assign(B=constant["B"] + noise)).excluded
    assert found.excluded == (("B",) if gap > 0 else ("A", "again"))
    assert set(found.p_values[list(found.excluded)]) == {0.0}


def test_bad_losses():
    L = losses([0, 0.1])
    for bad, message in (
        (L.iloc[:9], "confidence set: expected 12 periods for a test over time, got 9"),
        (L[["M0"]], "at least two models"),
        (L.where(L["M0"] < 3), "some that are NaN"),
    ):
        with pytest.raises(InputError, match=message):
            model_confidence_set(bad)
    with pytest.raises(InputError, match="52 periods for a test over time, got 20"):
        model_confidence_set(L.iloc[:20], horizon=12)
    with pytest.raises(InputError, match="size: expected a number between 0 and 1"):
        model_confidence_set(L, size=1.5)


def test_losses_that_are_no_numbers_are_named():
    with pytest.raises(InputError, match="losses: expected numbers, one column for each model .*'x'"):
        model_confidence_set(pd.DataFrame({"a": ["x"] * 20, "b": range(20)}))
