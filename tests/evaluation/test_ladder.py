import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation import Comparison, WalkForward, ladder, models_for
from peerattn.evaluation.ladder import CROSS, INDUSTRY, KERNEL, RIDGE, SOFTMAX, STACKED
from peerattn.evaluation.running.entries import OWN_CHARACTERISTICS
from peerattn.exceptions import InputError
from peerattn.models import CrossSectionalRidge, IndustryPeerRegressor

pytestmark = pytest.mark.filterwarnings("ignore::peerattn.exceptions.UnitWarning")


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(2)
    index = pd.MultiIndex.from_product([range(25), range(2000, 2024)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(600, 2)), index=index, columns=["size", "lev"])
    X["sic"] = np.where(index.get_level_values(0) % 2, "3711", "2911")
    signs = rng.choice([-1.0, 1.0], size=24) * [[1], [-1]]  # of two industries: the mean of all says nothing
    shock = signs[index.get_level_values(0) % 2, index.get_level_values(1) - 2000]
    return X, (X["size"] + 2 * shock + rng.normal(size=600)).rename("ret")


def test_the_ladder_is_a_comparison_of_its_rungs_and_the_controls(panel):
    X, y = panel
    progression = {INDUSTRY: IndustryPeerRegressor(industry="sic"), RIDGE: CrossSectionalRidge(codes=["sic"])}
    found = ladder(X, y, industry="sic", task="nowcast", progression=progression, cv=WalkForward(16, 16), verbose=False)
    assert isinstance(found, Comparison) and found.names[:2] == [INDUSTRY, RIDGE]
    assert found.baseline == OWN_CHARACTERISTICS and OWN_CHARACTERISTICS in found.names
    assert OWN_CHARACTERISTICS not in found.confidence_set().included
    assert found.test(INDUSTRY).upper_p < 0.05


def test_cross_attention_is_a_rung_where_a_reference_is_given(panel):
    X, y = panel
    numbers = X[["size", "lev"]]
    listed = numbers[numbers.index.get_level_values(0) < 8]
    progression = models_for("forecast", cross=True)
    assert list(progression) == [INDUSTRY, KERNEL, RIDGE, CROSS, SOFTMAX, STACKED]
    assert CROSS not in models_for("forecast")
    small = {CROSS: progression[CROSS].set_params(n_heads=1, kappa=None)}
    found = ladder(numbers, y, reference=listed, progression=small, cv=WalkForward(6, 6), verbose=False)
    weights = found.networks[CROSS].matrix()
    assert set(weights.columns[weights.any()]) == set(range(8)) and len(weights) == 25


def test_a_ladder_has_one_outcome(panel):
    X, y = panel
    frame = X.assign(ret=y, other=y)
    with pytest.raises(InputError, match="outcome"):
        ladder(
            frame,
            cv=WalkForward(1),
            outcome=["ret", "other"],
            codes=["sic"],
            progression={RIDGE: CrossSectionalRidge()},
            verbose=False,
        )
