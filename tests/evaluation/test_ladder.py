from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation import WalkForward, clark_west, diebold_mariano, giacomini_white, ladder, rungs_for
from peerattn.evaluation.ladder import CROSS, INDUSTRY, KERNEL, RIDGE, SOFTMAX, STACKED
from peerattn.evaluation.running.entries import OWN_CHARACTERISTICS
from peerattn.evaluation.steps import climb, ladder_of
from peerattn.exceptions import InputError
from peerattn.models import CrossSectionalRidge, IndustryPeerRegressor, NadarayaWatsonRegressor


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(2)
    index = pd.MultiIndex.from_product([range(25), range(2000, 2024)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(600, 2)), index=index, columns=["size", "lev"])
    X["sic"] = np.where(index.get_level_values(0) % 2, "3711", "2911")
    signs = rng.choice([-1.0, 1.0], size=24) * [
        [1],
        [-1],
    ]  # of two industries, so that the mean of all says nothing
    shock = signs[index.get_level_values(0) % 2, index.get_level_values(1) - 2000]
    return X, (X["size"] + 2 * shock + rng.normal(size=600)).rename("ret")


def small(task):
    rungs = rungs_for(task, industry="sic")
    for name in (SOFTMAX, STACKED):
        rungs[name].set_params(n_heads=2, kappa=None)
    return rungs


@pytest.mark.parametrize("task", ["forecast", "explain"])
def test_the_default_ladder_climbs_in_order(panel, task):
    X, y = panel
    found = ladder(X, y, industry="sic", task=task, rungs=small(task), cv=WalkForward(12, 12), verbose=False)
    names = [OWN_CHARACTERISTICS, *small(task)]
    assert [(s.against, s.model) for s in found.steps] == list(zip(names, names[1:]))
    assert [s.nesting for s in found.steps] == ["none"] * 4 + ["learned"]
    assert all(s.test_name == "Diebold–Mariano" and s.window == "expanding" for s in found.steps)
    frame = found.to_frame()
    scores = found.comparison.scores
    assert np.allclose(frame["r2_gain"], scores["r2_mean"][names].diff().dropna())
    assert (found.parametric is not None) == (task == "forecast")
    text = str(found)
    assert all(name in text for name in names) and "Smallest squared error" in text
    if task == "explain":
        assert frame.set_index("model").loc["Industry mean", "p_value"] < 0.1
        assert f"Smallest squared error: {scores['r2_mean'][names].idxmax()}" in found.summary()
    else:
        assert found.parametric.model == RIDGE and found.parametric.against == KERNEL
    assert found._repr_html_().count("<tr") >= 7 and repr(found).startswith("Ladder(")


def test_each_step_has_the_test_that_fits(panel):
    X, y = panel
    rungs = {
        "All": IndustryPeerRegressor(scheme="plain"),
        "Ridge": CrossSectionalRidge(),
        "Kernel": NadarayaWatsonRegressor(),
    }
    shared = {"rungs": rungs, "verbose": False, "stacked_on": "Ridge"}
    rolling = ladder(
        X[["size", "lev"]], y, cv=WalkForward(12, 4, window="rolling", train_periods=10), **shared
    )
    assert [s.test_name for s in rolling.steps] == ["Diebold–Mariano", "Diebold–Mariano", "Giacomini–White"]
    frame = rolling.comparison.predictions
    loss = {name: (frame["outcome"] - frame[name]) ** 2 for name in rolling.comparison.names}
    direct = giacomini_white(loss["Kernel"], loss["Ridge"], frame["period"])
    assert rolling.steps[2].test.statistic == direct.statistic
    assert (
        rolling.steps[1].test.statistic
        == diebold_mariano(loss["Ridge"], loss["All"], frame["period"]).statistic
    )
    nested = rolling.comparison.test(OWN_CHARACTERISTICS, "Prevailing mean", nesting="least_squares")
    direct = clark_west(
        frame["outcome"], frame[OWN_CHARACTERISTICS], frame["Prevailing mean"], frame["period"]
    )
    assert nested.test_name == "Clark–West" and nested.test.statistic == direct.statistic
    few = ladder(X[["size", "lev"]], y, cv=WalkForward(3, 3), **shared)
    assert {s.test_name for s in few.steps} == {"paired by firm"}
    assert "given these periods" in str(few.steps[0].test)
    with pytest.raises(InputError, match="no model is named 'Rigde'.*'Ridge'"):
        few.comparison.test("Rigde")
    with pytest.raises(InputError, match="nesting must be one of"):
        few.comparison.test("Ridge", nesting="yes")


def test_a_comparison_gives_its_confidence_set_and_superior_models(panel):
    X, y = panel
    rungs = {"All": IndustryPeerRegressor(scheme="plain"), "Industry": IndustryPeerRegressor(industry="sic")}
    found = ladder(X, y, industry="sic", rungs=rungs, task="explain", cv=WalkForward(16, 16), verbose=False)
    kept = found.comparison.confidence_set()
    assert kept.included == ("Industry",)
    assert found.comparison.superior().superior == ("Industry",)


def test_a_tie_is_no_gain(panel):
    X, y = panel
    rungs = {"Kernel": NadarayaWatsonRegressor(), "Ridge": CrossSectionalRidge()}
    found = ladder(X[["size", "lev"]], y, rungs=rungs, cv=WalkForward(12, 12), verbose=False)
    best = str(found.comparison.scores["rmse"][found.comparison.controls].idxmin())
    frame = found.comparison.predictions.assign(Ridge=lambda f: f[best], Kernel=0.0)
    tied = climb(replace(found.comparison, predictions=frame), [OWN_CHARACTERISTICS, "Kernel", "Ridge"], "")
    assert tied.summary().endswith(
        f"Smallest squared error: {best}, shared by Ridge: nothing is gained by it."
    )
    assert "shared" not in found.summary()


def test_cross_attention_is_a_rung_where_a_reference_is_given(panel):
    X, y = panel
    numbers = X[["size", "lev"]]
    listed = numbers[numbers.index.get_level_values(0) < 8]
    rungs = rungs_for("forecast", cross=True)
    assert list(rungs) == [INDUSTRY, KERNEL, RIDGE, CROSS, SOFTMAX, STACKED]
    small = {name: rungs[name].set_params(n_heads=1, kappa=None) for name in (CROSS, SOFTMAX)}
    found = ladder(
        numbers, y, reference=listed, rungs={RIDGE: rungs[RIDGE]} | small, cv=WalkForward(6, 6), verbose=False
    )
    assert [(s.against, s.model) for s in found.steps] == [
        (OWN_CHARACTERISTICS, RIDGE),
        (RIDGE, CROSS),
        (CROSS, SOFTMAX),
    ]
    assert [s.model for s in ladder_of(found.comparison).steps] == [RIDGE, CROSS, SOFTMAX]
    network = found.comparison.networks[CROSS]
    weights = network.matrix()
    assert set(weights.columns[weights.any()]) == set(range(8)) and len(weights) == 25
    assert CROSS not in rungs_for("forecast")


def test_a_ladder_needs_a_lowest_rung(panel):
    X, y = panel
    with pytest.raises(InputError, match="no model is named 'Own characteristics"):
        ladder(
            X[["sic"]], y, industry="sic", rungs={"All": IndustryPeerRegressor(scheme="plain")}, verbose=False
        )
