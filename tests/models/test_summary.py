"""What every model says of its fit."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeRegressor

from peerattn import (
    CovariancePeerRegressor,
    CrossSectionalRidge,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    simulate_panel,
)
from peerattn.models import FamaMacBethRegressor, OwnCharacteristicsRegressor, OwnHistoryRegressor

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(20, 12, 2, n_industries=2, random_state=0)


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (PeerAttentionRegressor(random_state=0), ["evidence_", "gain_", "own characteristics"]),
        (CovariancePeerRegressor(random_state=0), []),
        (CrossSectionalRidge(), ["alpha_", "alpha_path_"]),
        (IndustryPeerRegressor(industry="industry"), []),
        (NadarayaWatsonRegressor(bandwidth=1.0), ["bandwidths_"]),
        (FamaMacBethRegressor(), ["slopes_"]),
        (OwnCharacteristicsRegressor(), ["slopes_", "x1"]),
        (OwnHistoryRegressor(), []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_summary_shows_the_fit(model, shown, panel):
    with pytest.raises(NotFittedError):
        model.summary()
    text = model.fit(panel.X, panel.y).summary()
    first = text.splitlines()[0]
    assert first.startswith(repr(model)) and "240 rows, 12 periods, 3 columns" in first
    assert all(name in text for name in shown)


def test_arrays_have_no_periods(panel):
    text = CrossSectionalRidge().fit(panel.X.drop(columns="industry").to_numpy(), panel.y.to_numpy()).summary()
    assert text.splitlines()[0] == "CrossSectionalRidge(): 2 columns"


@pytest.mark.parametrize("effects", [(), ("firm",)])
def test_slopes_are_in_units_of_each_column(effects, panel):
    X, firm = panel.X[["x1", "x2"]], panel.X.index.get_level_values("firm")
    within = (lambda v: v - v.groupby(firm).transform("mean")) if effects else (lambda v: v - v.mean())
    expected = np.linalg.lstsq(within(X), within(panel.y), rcond=None)[0]
    slopes = OwnCharacteristicsRegressor(effects=effects).fit(X, panel.y).slopes_
    assert list(slopes.index) == ["x1", "x2"] and slopes.tolist() == pytest.approx(expected)
    assert OwnCharacteristicsRegressor(estimator=DecisionTreeRegressor()).fit(X, panel.y).slopes_.empty
