"""Nested models are settings: each equals its separate baseline."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from peerattn.datasets import simulate_panel
from peerattn.models import IndustryPeerRegressor, NadarayaWatsonRegressor, PeerAttentionRegressor, Prior

# what is found is beside the point; heads of few steps would else enter by nothing
pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(24, 10, 3, n_industries=4, random_state=0)


@pytest.fixture
def frozen(plant):
    """Return what fits a model and then sets the arrays: one of known parameters, without the null peer."""

    def fitted(model, X, y, **state):
        model.set_params(kappa=None, n_heads=1, own="none", random_state=0).fit(X, y)
        return plant(model, null_peer=False, state=state)

    return fitted


def test_no_peers_is_ordinary_least_squares(panel):
    X = panel.X.drop(columns="industry")
    model = PeerAttentionRegressor(n_heads=0, own="linear", kappa=None, random_state=0).fit(X, panel.y)
    expected = LinearRegression().fit(X, panel.y).predict(X)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-10)
    assert len(model.peer_network(X).isolates) == len(X)


def test_the_same_code_with_equal_scores_is_the_industry_model(panel, frozen):
    X, y = panel.X, panel.y
    model = frozen(
        PeerAttentionRegressor(task="nowcast", prior="only", codes=["industry"]),
        X, y, **{"query": 0.0, "offset": 0.0, "value": 1.0},
    )  # fmt: skip
    industry = IndustryPeerRegressor(industry="industry").fit(X, y)
    np.testing.assert_allclose(model.predict(X, outcomes=y), industry.predict(X, outcomes=y), atol=1e-10)
    W, V = (m.peer_network(X, outcomes=y).matrix("2000-04") for m in (model, industry))
    np.testing.assert_allclose(W, V.loc[W.index, W.columns], atol=1e-10)


def test_a_given_network_as_the_only_prior_masks_to_it(panel, frozen):
    X, y = panel.X.drop(columns="industry"), panel.y
    industry = IndustryPeerRegressor(industry="industry").fit(panel.X, y)
    given = industry.peer_network(panel.X, outcomes=y)
    model = frozen(
        PeerAttentionRegressor(task="nowcast", prior=Prior(given, only=True)),
        X, y, **{"query": 0.0, "offset": 0.0, "value": 1.0},
    )  # fmt: skip
    np.testing.assert_allclose(model.predict(X, outcomes=y), industry.predict(panel.X, outcomes=y), atol=1e-10)


def test_gaussian_scores_with_inverse_bandwidths_are_nadaraya_watson(panel, frozen):
    X, y = panel.X.drop(columns="industry"), panel.y
    h = np.array([0.5, 0.8, 1.3])
    model = frozen(
        PeerAttentionRegressor(task="nowcast", similarity="gaussian", scale=None, d_head=3),
        X, y, **{"query": np.diag(1 / h), "offset": 0.0, "key": np.diag(1 / h), "value": 1.0},
    )  # fmt: skip
    kernel = NadarayaWatsonRegressor(bandwidth=h).fit(X, y)
    np.testing.assert_allclose(model.predict(X, outcomes=y), kernel.predict(X, outcomes=y), atol=1e-10)


def test_symmetric_scores_are_reversible_and_free_ones_are_not(panel):
    X, y = panel.X.drop(columns="industry"), panel.y
    options = {"n_heads": 1, "kappa": None, "random_state": 0}
    tied = PeerAttentionRegressor(similarity="symmetric", **options).fit(X, y).peer_network(X, head=0)
    free = PeerAttentionRegressor(**options).fit(X, y).peer_network(X, head=0)
    rest = [network.asymmetry().by_period["direction"].max() for network in (tied, free)]
    assert rest[0] < 1e-8 < rest[1]
