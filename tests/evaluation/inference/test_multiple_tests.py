import numpy as np
import pandas as pd
import pytest
from arch.bootstrap import MCS, SPA, StepM

from peerattn.evaluation import model_confidence_set, superior_ability
from peerattn.exceptions import InputError


def losses(gaps, n=80, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.chisquare(3, size=(n, 1)) + np.array(gaps) + 0.5 * rng.normal(size=(n, len(gaps)))
    return pd.DataFrame(values, columns=[f"M{k}" for k in range(len(gaps))])


def test_the_confidence_set_is_archs():
    L = losses([0, 0, 0.1, 0.6])
    found = model_confidence_set(L, size=0.1, reps=400, random_state=3)
    direct = MCS(L, 0.1, reps=400, block_size=5, method="R", bootstrap="stationary", seed=3)
    direct.compute()
    assert set(found.included) == set(direct.included) and set(found.excluded) == set(direct.excluded)
    assert np.allclose(found.p_values.sort_index(), direct.pvalues["Pvalue"].sort_index())
    assert found.block_length == 5 and "M3" in found.excluded
    assert model_confidence_set(L, horizon=12, reps=100).block_length == 12


def test_models_that_are_the_same_share_a_verdict():
    L = losses([0, 0.8])
    twice = L.assign(again=L["M1"] + 1e-15)
    found = model_confidence_set(twice, reps=200)
    assert set(found.excluded) == {"M1", "again"} and found.p_values["M1"] == found.p_values["again"]
    same = model_confidence_set(L[["M0"]].assign(copy=L["M0"]), reps=100)
    assert same.included == ("M0", "copy")


def test_superior_ability_is_archs():
    L = losses([0, 0.05, -0.4, -0.02])
    found = superior_ability(L, "M0", reps=400, random_state=3)
    options = {"block_size": 5, "reps": 400, "bootstrap": "stationary", "seed": 3}
    spa = SPA(L["M0"], L[["M1", "M2", "M3"]], **options)
    spa.compute()
    step = StepM(L["M0"], L[["M1", "M2", "M3"]], size=0.05, **options)
    step.compute()
    assert found.p_value == spa.pvalues["consistent"]
    assert list(found.superior) == step.superior_models == ["M2"]
    assert found.gains["M2"] == pytest.approx((L["M0"] - L["M2"]).mean())
    assert set(superior_ability(losses([1, 0, 0.1]), "M0").superior) == {"M1", "M2"}  # all of them
    assert superior_ability(L[["M0"]].assign(copy=L["M0"]), "M0").p_value == 1.0


def test_bad_losses():
    L = losses([0, 0.1])
    for bad, message in (
        (L.iloc[:9], "9 periods are too few"),
        (L[["M0"]], "at least two models"),
        (L.where(L["M0"] < 3), "some are missing"),
    ):
        with pytest.raises(InputError, match=message):
            model_confidence_set(bad)
    with pytest.raises(InputError, match="no model 'M9'"):
        superior_ability(L, "M9")
    with pytest.raises(InputError, match="size must lie"):
        model_confidence_set(L, size=1.5)
