"""Tuning on a panel frame: scikit-learn's search, a Pipeline, the walk-forward splitter."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from peerattn import PeerAttentionRegressor, Reference, WalkForward
from peerattn.datasets import simulate_panel
from peerattn.evaluation import nowcast_score

pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")  # what is found is beside the point


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(20, 12, 3, random_state=0)


def pipeline(**options):
    fast = {"n_heads": 1, "kappa": None, "random_state": 0}
    scaler = StandardScaler().set_output(transform="pandas")
    return Pipeline([("scale", scaler), ("model", PeerAttentionRegressor(**fast | options))])


def test_search_over_attention_and_similarity(panel):
    grid = {
        "model__attention": ["self", "cross"],
        "model__similarity": ["scaled_dot_product", "gaussian"],
    }
    others = simulate_panel(15, 12, 3, random_state=1).X.rename(index=lambda firm: f"other {firm}", level="firm")
    search = GridSearchCV(pipeline(), grid, cv=WalkForward(test_periods=4, refit_every=2), error_score="raise")
    search.fit(panel.X, panel.y, model__reference=Reference(others))
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 4 and np.isfinite(scores).all() and len(set(scores.round(12))) == 4
    assert search.predict(panel.X).shape == (len(panel.X),)


def test_search_for_co_movement_scores_with_the_peers_outcomes(panel):
    model = pipeline(task="nowcast")
    search = GridSearchCV(
        model,
        {
            "model__similarity": ["dot_product", "gaussian"],
            "model__kappa": [None, 1.0],
            "model__own": ["linear"],
        },
        cv=WalkForward(test_periods=4, refit_every=2),
        scoring=nowcast_score,
        error_score="raise",
    ).fit(panel.X, panel.y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    direct = search.best_estimator_.predict(panel.X, outcomes=panel.y)
    expected = 1 - ((panel.y - direct) ** 2).sum() / ((panel.y - panel.y.mean()) ** 2).sum()
    assert nowcast_score(search.best_estimator_, panel.X, panel.y) == pytest.approx(expected)


def test_cross_validate_keeps_the_index(panel):
    scores = cross_validate(pipeline(), panel.X, panel.y, cv=WalkForward(test_periods=3, refit_every=3), error_score="raise")
    assert np.isfinite(scores["test_score"]).all()
