"""A new row far outside the training range counts as the bound; inside it lines go on, and training rows never change."""

import numpy as np
import pandas as pd
import pytest

from peerattn import StackedPeerRegressor
from peerattn.models.learners.linear import Bounds


def panel(seed=0, n=25, T=8):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(n), range(2000, 2000 + T)], names=["firm", "period"])
    X = pd.DataFrame(rng.uniform(-1, 1, size=(n * T, 2)), index=index, columns=["size", "roe"])
    shock = pd.Series(rng.normal(size=T), index=range(2000, 2000 + T)).reindex(index.get_level_values(1))
    y = X["size"] + 0.5 * X["roe"] + shock.to_numpy() * X["size"] + 0.1 * rng.normal(size=n * T)
    return X, y.rename("y")


def test_training_rows_and_twice_their_range_are_left_alone():
    x = np.random.default_rng(0).normal(size=(40, 3))
    bounds = Bounds.of([x[:15], x[15:]])
    length = np.ptp(x, axis=0)
    np.testing.assert_array_equal(bounds.clip(x), x)
    inside = np.stack([x.min(0) - 0.99 * length, x.max(0) + 0.99 * length])
    np.testing.assert_array_equal(bounds.clip(inside), inside)
    np.testing.assert_allclose(bounds.clip(inside * 1e6)[1], x.max(0) + length)


@pytest.mark.parametrize(
    "options",
    [{"n_heads": 0}, {"n_heads": 0, "own": "linear"}, {"task": "nowcast", "n_heads": 1, "own": "linear"}],
)
def test_an_error_of_recording_does_not_decide(options):
    """Three times the range and a million times give the same prediction, of the row itself and of its peers."""
    X, y = panel()
    train = X.index.get_level_values("period") < 2007
    model = StackedPeerRegressor(random_state=0, **options).fit(X[train], y[train])
    if "task" in options:
        assert set(model.stack_.fitted) & {"covariance", "ridge"}
    wild = X[~train].copy()
    shown = {"outcomes": y[~train]} if "task" in options else {}
    predictions = []
    for roe in (3.5, 1e6):
        wild.iloc[0, 1] = roe
        predictions.append(model.predict(wild, **shown))
    np.testing.assert_allclose(*predictions, rtol=1e-9)
    wild.iloc[0, 1] = 2.0
    if "own" in options:
        assert abs(model.predict(wild, **shown)[0] - predictions[0][0]) > 1e-3, "inside, lines go on"
