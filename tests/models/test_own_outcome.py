"""The own outcome, however large, changes no bit of the own prediction; sums of the others against brute force."""

import numpy as np
import pandas as pd
import pytest

from peerattn.models import (
    CommonShocksRegressor,
    IndustryPeerRegressor,
    OwnHistoryRegressor,
    PrecomputedPeerRegressor,
)
from peerattn.models.cross_section import means_of_others, sums_of_others

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

INDEX = pd.MultiIndex.from_product([range(40), range(3)], names=["firm", "period"])
MODELS = {
    "industry": IndustryPeerRegressor(industry="sic"),
    "shrunk": IndustryPeerRegressor(industry="sic", shrinkage=2.0),
    "weighted": IndustryPeerRegressor(industry="sic", value_weight="size"),
    "all": IndustryPeerRegressor(),
    "precomputed": PrecomputedPeerRegressor(),
    "history": OwnHistoryRegressor(),
    "common": CommonShocksRegressor(industry="sic"),
    "network": PrecomputedPeerRegressor(
        network=pd.DataFrame(np.roll(np.eye(40), 1, axis=1) + np.roll(np.eye(40), 5, axis=1)).iloc[:, :]
    ),
}


def panel():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.uniform(1, 2, 120), "sic": rng.choice(["3711", "3714", "2911"], 120)}, INDEX)
    return X, pd.Series(rng.normal(size=120), INDEX)


@pytest.mark.parametrize("own", [1e12, 1e18, 1e50, -1e59])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_a_large_own_outcome_moves_nothing(name, own):
    X, y = panel()
    first = INDEX.get_level_values("period") == 0
    model = MODELS[name].fit(X[first], y[first])
    model.outcome_bounds_ = (-np.inf, np.inf)  # the sums hold without them, too
    before = model.predict(X, outcomes=y)
    for at in (0, 61, 119):
        shown = y.copy()
        shown.iloc[at] = own
        assert model.predict(X, outcomes=shown)[at] == before[at]


@pytest.mark.parametrize("n", [1, 2, 3, 17, 300])
def test_sums_of_others_are_those_of_brute_force(n):
    rng = np.random.default_rng(n)
    group, values = rng.integers(0, max(1, n // 7), n), rng.normal(size=(n, 2))
    others = (group[:, None] == group) & ~np.eye(n, dtype=bool)
    np.testing.assert_allclose(sums_of_others(values, group), others @ values, atol=1e-12)
    identity, focal_group = rng.integers(-1, 9, n), rng.integers(-1, 4, 11)
    focal, w = rng.integers(-1, 12, 11), rng.uniform(1, 2, n)
    peer_group = rng.integers(-1, 3, n)
    identity[identity < 0] = 9
    mean, count = means_of_others(focal_group, focal, peer_group, identity, values[:, 0], w)
    for i in range(11):
        may = (peer_group == focal_group[i]) & (identity != focal[i]) & (focal_group[i] >= 0)
        assert count[i] == len(set(identity[may]))
        assert mean[i] == pytest.approx(np.average(values[may, 0], weights=w[may]) if may.any() else 0.0)
