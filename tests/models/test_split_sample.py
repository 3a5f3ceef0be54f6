"""A learned network in a peer-effects regression: the outcomes it explains never shape it."""

import numpy as np
import pandas as pd
import pytest

from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import (
    CovariancePeerRegressor,
    IndustryPeerRegressor,
    LinearInMeansRegressor,
    split_sample,
)
from peerattn.panel import as_panel

PANEL = simulate_panel(60, 8, 2, truth="industry", n_industries=10, random_state=0)
OPTIONS = {"codes": ["industry"], "peer_outcome": False, "effects": ("period",)}


def test_it_is_the_regression_on_the_network_of_the_last_learned_period():
    periods = PANEL.period.unique()
    found = split_sample(IndustryPeerRegressor(industry="industry"), PANEL.X, PANEL.y, **OPTIONS)
    late = PANEL.X.index.get_level_values("period") > periods[3]
    industry = PANEL.X["industry"].xs(periods[3], level="period")
    same = (industry.to_numpy()[:, None] == industry.to_numpy()).astype(float)
    np.fill_diagonal(same, 0.0)
    W = pd.DataFrame(same / np.maximum(same.sum(axis=1, keepdims=True), 1.0), industry.index, industry.index)
    by_hand = LinearInMeansRegressor(network=W, **OPTIONS).fit(PANEL.X[late], PANEL.y[late])
    pd.testing.assert_series_equal(found.results_.params, by_hand.results_.params, check_exact=False, atol=1e-8)


def test_later_outcomes_do_not_move_the_network_nor_earlier_ones_the_regression():
    periods = PANEL.period.unique()
    late = PANEL.X.index.get_level_values("period") > periods[3]
    first = split_sample(IndustryPeerRegressor(industry="industry"), PANEL.X, PANEL.y, **OPTIONS)
    moved = split_sample(IndustryPeerRegressor(industry="industry"), PANEL.X, PANEL.y.where(late, -PANEL.y), **OPTIONS)
    pd.testing.assert_series_equal(first.coef_, moved.coef_)
    other = split_sample(IndustryPeerRegressor(industry="industry"), PANEL.X, PANEL.y.where(~late, -PANEL.y), **OPTIONS)
    assert other.network_.equals(first.network_)


def test_no_period_left_is_an_error():
    with pytest.raises(InputError, match="leaves no later period"):
        split_sample(IndustryPeerRegressor(industry="industry"), PANEL.X, PANEL.y, until=PANEL.period.max(), **OPTIONS)
    with pytest.raises(InputError, match="learner: expected a model with peer_network, got str"):
        split_sample("ridge", PANEL.X, PANEL.y)


def test_outcomes_that_become_known_after_the_split_shape_no_network():
    periods = PANEL.period.unique()
    row = PANEL.period
    known_at = pd.Series(periods[np.minimum(periods.get_indexer(row) + 2, 7)], PANEL.X.index)  # two periods late

    def learned(y):
        panel = as_panel(PANEL.X, y, known_at=known_at, codes=["industry"])
        return split_sample(CovariancePeerRegressor(), panel, **OPTIONS).network_.matrix().to_numpy()

    changed = PANEL.y.where(row != periods[3], PANEL.y**2)  # of the last period before the split, known after it
    before = learned(PANEL.y)
    np.testing.assert_allclose(learned(changed), before, atol=1e-4)
    earlier = PANEL.y.where(row != periods[2], PANEL.y**2)
    assert abs(learned(earlier) - before).max() > 0.1
    with pytest.raises(InputError, match="known_at: no outcome up to until=.* is known by the next period"):
        never = as_panel(PANEL.X, PANEL.y, known_at=pd.Series(pd.NaT, PANEL.X.index), codes=["industry"])
        split_sample(CovariancePeerRegressor(), never, **OPTIONS)
