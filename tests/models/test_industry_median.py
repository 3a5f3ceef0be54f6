"""The median of comparable firms is numpy's median of the others, and its network gives it."""

import numpy as np
import pandas as pd
import pytest

from peerattn.exceptions import InputError, IsolateWarning
from peerattn.models import IndustryMedianRegressor, IndustryPeerRegressor


@pytest.fixture
def panel():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([[f"F{k}" for k in range(30)], [2001, 2002]], names=["firm", "period"])
    X = pd.DataFrame({"sector": rng.choice(list("ABC"), 60), "size": rng.normal(size=60)}, index=index)
    X.iloc[:3, 0] = ["lonely", "lonely2", None]
    return X, pd.Series(rng.normal(size=60), index=index, name="y")


def by_hand(X, y, at):
    same = (y.index.get_level_values("period") == at[1]) & (y.index.get_level_values("firm") != at[0])
    inside = same & (X["sector"] == X.loc[at, "sector"]).to_numpy(dtype=bool, na_value=False)
    return np.median(y[inside]) if inside.any() else np.median(y[same])


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
@pytest.mark.filterwarnings("ignore::peerattn.exceptions.BoundedOutcomeWarning")  # an outcome moved far
def test_it_is_the_median_of_the_others(panel):
    X, y = panel
    model = IndustryMedianRegressor(industry="sector").fit(X, y)
    predicted = model.predict(X, outcomes=y)
    for k, at in enumerate(X.index):
        assert predicted[k] == pytest.approx(by_hand(X, y, at), abs=1e-14)
    changed = y.copy()
    changed.iloc[7] += 100.0
    assert model.predict(X, outcomes=changed)[7] == predicted[7]  # its own outcome plays no part


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning")
def test_its_network_gives_the_prediction(panel):
    X, y = panel
    model = IndustryMedianRegressor(industry="sector").fit(X, y)
    network = model.peer_network(X, outcomes=y)
    later = X.xs(2002, level="period").index
    W = network.matrix(2002).loc[later]
    np.testing.assert_allclose(
        W.to_numpy() @ y.xs(2002, level="period")[W.columns],
        model.predict(X, outcomes=y)[X.index.get_level_values("period") == 2002],
        atol=1e-14,
    )
    assert network.isolates[["firm", "period"]].to_numpy().tolist() == [["F1", 2001]]  # its sector is unknown
    with pytest.warns(IsolateWarning):
        model.predict(X, outcomes=y)  # the unknown sector


def test_outliers_do_not_move_it_and_what_it_refuses(panel):
    X, y = panel
    wild = y.copy()
    wild.iloc[10] = 1e6
    with pytest.warns(IsolateWarning):
        moved = IndustryMedianRegressor(industry="sector").fit(X, wild).predict(X, outcomes=wild)
        mean = IndustryPeerRegressor(industry="sector").fit(X, wild).predict(X, outcomes=wild)
    assert np.abs(moved).max() < 5 < np.abs(mean).max()
    with pytest.raises(InputError, match="shrinkage"):
        IndustryMedianRegressor(industry="sector", shrinkage=2.0).fit(X, y)
