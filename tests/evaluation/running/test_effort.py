"""The rough time of a comparison: counts of fits are exact."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.evaluation.running.entries import Entry
from peerattn.evaluation.running.fitting import expected_seconds


def test_searches_count_for_each_of_their_fits():
    panel = simulate_panel(20, 10, 2, random_state=0)
    train = np.arange(150)
    alone = expected_seconds(Entry("Ridge", Ridge()), panel, train)
    grid = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0], "solver": ["svd", "lsqr"]}, cv=4)
    assert expected_seconds(Entry("Grid", grid), panel, train) == pytest.approx(24 * alone)
    attention = [
        expected_seconds(Entry("Attention", PeerAttentionRegressor(n_layers=k)), panel, train) for k in (1, 2)
    ]
    assert attention[1] == 2 * attention[0] > 10 * alone
