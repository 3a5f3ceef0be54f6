"""Priors: a code or a given network, soft with a learned strength or as the only peers."""

import numpy as np
import pytest

from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError, IsolateWarning
from peerattn.models import PeerAttentionRegressor, Prior

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

FAST = {"n_heads": 1, "kappa": None, "random_state": 0}


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(40, 20, 3, truth="industry", signal_share=0.8, n_industries=5, random_state=0)


def test_soft_prior_of_an_industry_truth_is_learned_to_be_positive(panel):
    model = PeerAttentionRegressor(prior="industry", codes=["industry"], **FAST).fit(panel.X, panel.y)
    assert model.prior_strength_.columns.tolist() == ["seed", "head", "prior", "strength"]
    assert model.prior_strength_["strength"].max() > 0.5


def test_only_looks_to_the_same_code(panel):
    model = PeerAttentionRegressor(prior="only", codes=["industry"], **FAST).fit(panel.X, panel.y)
    W = model.peer_network(panel.X).matrix("2000-03")
    industry = panel.X["industry"].xs(model.peer_network(panel.X).periods[2], level="period").loc[W.index].to_numpy()
    same = industry[:, None] == industry[None, :]
    assert W.to_numpy()[~same].max() == 0
    np.testing.assert_allclose(W.sum(axis=1), 1.0)


def test_a_firm_alone_in_its_code_is_an_isolate(panel):
    X = panel.X.copy()
    lonely = X.index.get_level_values("firm") == X.index.get_level_values("firm")[0]
    X["industry"] = X["industry"].astype(object).where(~lonely, "alone").astype("str")
    model = PeerAttentionRegressor(prior="only", codes=["industry"], **FAST).fit(X, panel.y)
    with pytest.warns(IsolateWarning, match="no admissible peer"):
        predicted = model.predict(X)
    assert np.isfinite(predicted).all()
    assert set(model.peer_network(X).isolates["firm"]) == {X.index.get_level_values("firm")[0]}


def test_given_network_restricts_or_leans(panel):
    X = panel.X.drop(columns="industry")
    only = PeerAttentionRegressor(prior=Prior(panel.network, only=True), **FAST).fit(X, panel.y)
    W, truth = only.peer_network(X).matrix("2000-02"), panel.network.matrix("2000-02")
    assert W.to_numpy()[truth.loc[W.index, W.columns].to_numpy() == 0].max() == 0
    soft = PeerAttentionRegressor(prior=panel.network, **FAST).fit(X, panel.y)
    assert soft.prior_strength_["strength"].abs().max() > 0.1


@pytest.mark.parametrize(
    "prior, message",
    [
        ("secotr", "expected a code column of X, .*got 'secotr'.*Declare it in codes="),
        ("only", "expected one code in X .*Name it"),
        (Prior({"A": 1.0}), "expected a code column or a PeerNetwork, got dict"),
    ],
)
def test_bad_priors_are_refused(panel, prior, message):
    with pytest.raises(InputError, match=message):
        PeerAttentionRegressor(prior=prior, **FAST).fit(panel.X.drop(columns="industry"), panel.y)


def test_firms_of_an_excluded_group_are_never_peers(panel):
    """Share classes of one company: the group widens the own identity, of outcomes, too."""
    X, y = panel.X, panel.y
    model = PeerAttentionRegressor(prior=Prior("industry", exclude=True), task="nowcast", own="linear", **FAST)
    network = model.fit(X, y).peer_network(X, outcomes=y)
    W = network.matrix(network.periods[2])
    industry = X["industry"].xs(network.periods[2], level="period").loc[W.index].to_numpy()
    assert not W.to_numpy()[industry[:, None] == industry].any() and W.to_numpy().any()
    first = X["industry"] == X["industry"].iloc[0]
    moved = model.predict(X, outcomes=y + 5.0 * first)
    np.testing.assert_allclose(moved[first], model.predict(X, outcomes=y)[first], atol=1e-10)
