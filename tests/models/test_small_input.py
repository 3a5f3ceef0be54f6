"""One row, one period, one firm, small integers as labels, seeds that are none: a figure, or an error of this package."""

import numpy as np
import pandas as pd
import pytest

from peerattn import NewFirms, WalkForward, compare
from peerattn.exceptions import InputError
from peerattn.models import (
    CommonShocksRegressor,
    CovariancePeerRegressor,
    FirmMeanRegressor,
    LastValueRegressor,
    LinearInMeansRegressor,
    NadarayaWatsonRegressor,
    OwnCharacteristicsRegressor,
    OwnHistoryRegressor,
    PeerAttentionRegressor,
    PrecomputedPeerRegressor,
    StackedPeerRegressor,
    wild_cluster_p,
)

NETWORK = pd.DataFrame(np.ones((6, 6)) - np.eye(6))


def panel(n_firms=6, n_periods=5):
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(n_firms), range(2001, 2001 + n_periods)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index=index, columns=["size", "lev"])
    return X, X["size"] + rng.normal(size=len(index))


@pytest.mark.parametrize("effects", [("period",), ("firm",), ("firm", "period"), ("period", "firm")])
@pytest.mark.parametrize("shape", [(6, 1), (1, 6), (1, 1)])
def test_effects_of_one_period_one_firm_and_one_row(effects, shape):
    X, y = panel(*shape)
    assert np.isfinite(OwnCharacteristicsRegressor(effects=effects).fit(X, y).predict(X)).all()
    model = LinearInMeansRegressor(effects=effects)
    if shape == (6, 1) and effects == ("period",):
        assert np.isfinite(model.fit(X, y).predict(X)).all()
    else:
        with pytest.raises(InputError, match=r"cluster: all rows are of one|varies beyond|at least two known"):
            model.fit(X, y)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "Int32", "int64[pyarrow]"])
@pytest.mark.parametrize(
    "model",
    [FirmMeanRegressor(), LastValueRegressor(), OwnCharacteristicsRegressor(effects=("firm",)), NadarayaWatsonRegressor(),
     PrecomputedPeerRegressor(network=NETWORK)],
)  # fmt: skip
def test_firms_of_any_width_of_integers(model, dtype):
    X, y = panel()
    small = X.index.set_levels(X.index.levels[0].astype(dtype), level=0)
    right = np.asarray(model.fit(X, y).predict(X))
    np.testing.assert_array_equal(model.predict(X.set_axis(small)), right)
    np.testing.assert_array_equal(model.fit(X.set_axis(small), y.set_axis(small)).predict(X), right)


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, "a"])
def test_seeds_that_are_none(seed):
    X, y = panel()
    models = [OwnHistoryRegressor, CommonShocksRegressor, CovariancePeerRegressor, StackedPeerRegressor, PeerAttentionRegressor]
    for made in (*models, lambda **kind: LinearInMeansRegressor(n_bootstrap=9, **kind)):
        with pytest.raises(InputError, match="random_state"):
            made(random_state=seed).fit(X, y)
    with pytest.raises(InputError, match="random_state"):
        wild_cluster_p(y.to_numpy(), X, X.to_numpy(), np.repeat(range(6), 5), random_state=seed)
    with pytest.raises(InputError, match="random_state"):
        list(NewFirms(WalkForward(2), random_state=seed).split(X, y))


@pytest.mark.parametrize("where", ["firm", "outcome", "model", "column", "code"])
def test_text_that_is_no_unicode(where):
    half = "a\ud800b"
    X, y = panel(n_periods=6)
    name = "own"
    if where == "firm":
        levels = pd.Index([half, *"cdefg"], dtype=object)
        X = X.set_axis(pd.MultiIndex.from_product([levels, range(2001, 2007)], names=["firm", "period"]))
        y = y.set_axis(X.index)
    elif where == "outcome":
        y = y.rename(half)
    elif where == "model":
        name = half
    elif where == "column":
        X = X.set_axis(pd.Index([half, "lev"], dtype=object), axis=1)
    else:
        X["sic"] = pd.Series([half, "x"] * 18, index=X.index, dtype=object)
    with pytest.raises(InputError, match="no valid Unicode"):
        compare({name: OwnCharacteristicsRegressor()}, X, y, cv=WalkForward(2, 2), decomposition=False, verbose=False)
