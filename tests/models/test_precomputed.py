"""Peers of a given network."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from peerattn.exceptions import InputError, IsolateWarning
from peerattn.models import IndustryPeerRegressor, PrecomputedPeerRegressor
from peerattn.network import PeerNetwork


def simulated_panel(n_firms=8, n_periods=3, seed=0):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product(
        [[f"F{i}" for i in range(n_firms)], range(2001, 2001 + n_periods)], names=["firm", "period"]
    )
    index = index[rng.permutation(len(index))]
    return pd.DataFrame({"size": rng.normal(size=len(index))}, index=index), pd.Series(rng.normal(size=len(index)), index=index)


def weights(n_firms=8, seed=1):
    W = np.random.default_rng(seed).uniform(size=(n_firms, n_firms)) * (
        np.random.default_rng(seed + 1).random((n_firms, n_firms)) < 0.6
    )
    firms = [f"F{i}" for i in range(n_firms)]
    return pd.DataFrame(W, index=firms, columns=firms)


def test_within_period_by_brute_force():
    X, y = simulated_panel()
    W, outcomes = weights(), y.copy()
    outcomes.iloc[4] = np.nan
    predicted = PrecomputedPeerRegressor(network=W).fit(X, y).predict(X, outcomes=outcomes)
    for k, (firm, period) in enumerate(X.index):
        here = outcomes.xs(period, level="period").drop(firm).dropna()
        w = W.loc[firm, here.index]
        expected = (w * here).sum() / w.sum() if w.sum() > 0 else here.mean()
        assert predicted[k] == pytest.approx(expected, abs=1e-12)


def test_training_outcomes_by_firm():
    X, y = simulated_panel()
    W = weights()
    predicted = PrecomputedPeerRegressor(network=W).fit(X, y).predict(X)
    means = y.groupby(level="firm").mean()
    for k, (firm, _) in enumerate(X.index):
        others = means.drop(firm)
        w = W.loc[firm, others.index]
        assert predicted[k] == pytest.approx((w * others).sum() / w.sum(), abs=1e-12)


def test_a_dated_network_answers_by_its_latest_cross_section():
    X, y = simulated_panel()
    early, late = weights(seed=1), weights(seed=5)
    predicted = PrecomputedPeerRegressor(network={2001: early, 2003: late}).fit(X, y).predict(X, outcomes=y)
    one = PrecomputedPeerRegressor(network=early).fit(X, y).predict(X, outcomes=y)
    other = PrecomputedPeerRegressor(network=late).fit(X, y).predict(X, outcomes=y)
    period = X.index.get_level_values("period")
    np.testing.assert_array_equal(predicted[period <= 2002], one[period <= 2002])
    np.testing.assert_array_equal(predicted[period == 2003], other[period == 2003])


def test_without_network_all_other_firms_weigh_the_same():
    X, y = simulated_panel()
    ours, theirs = PrecomputedPeerRegressor().fit(X, y), IndustryPeerRegressor().fit(X, y)
    for call in ({}, {"outcomes": y}):
        np.testing.assert_allclose(ours.predict(X, **call), theirs.predict(X, **call), atol=1e-12)


def test_network_of_another_model_gives_its_predictions():
    X, y = simulated_panel()
    X["sic"] = np.random.default_rng(3).choice(["3711", "3714", "2911"], len(X))
    model = IndustryPeerRegressor(industry="sic").fit(X, y)
    network = model.peer_network(X, outcomes=y)
    again = PrecomputedPeerRegressor(network=network).fit(X, y)
    np.testing.assert_allclose(again.predict(X, outcomes=y), model.predict(X, outcomes=y), atol=1e-12)
    for period in network.periods:
        pd.testing.assert_frame_equal(again.peer_network(X, outcomes=y).matrix(period), network.matrix(period))


@pytest.mark.parametrize("told", [True, False])
def test_rows_sum_to_one_and_rebuild(told):
    X, y = simulated_panel()
    model = PrecomputedPeerRegressor(network=weights()).fit(X, y)
    panel, sections = model._gate_call(X, y if told else None)
    rebuilt = np.empty(len(X))
    for section in sections:
        W = model._weights(section, slice(0, len(section.focal)))
        np.testing.assert_allclose(W.sum(axis=1), 1.0)
        W = W.toarray() if sparse.issparse(W) else W
        assert (W[~section.admissible()] == 0).all()
        rebuilt[section.at] = W @ section.peers.y
    np.testing.assert_allclose(panel.restore(rebuilt), model.predict(X, **({"outcomes": y} if told else {})), atol=1e-12)


def test_own_outcome_has_no_influence():
    X, y = simulated_panel()
    model = PrecomputedPeerRegressor(network=weights() + np.eye(8)).fit(X, y)  # a diagonal does not count
    shocked = y.copy()
    shocked.iloc[2] += 1e6
    assert model.predict(X, outcomes=shocked)[2] == model.predict(X, outcomes=y)[2]


def test_firms_outside_the_network_get_the_mean_of_all_others():
    X, y = simulated_panel()
    W = weights().drop(index="F3", columns="F3")
    model = PrecomputedPeerRegressor(network=W).fit(X, y)
    with pytest.warns(IsolateWarning, match="the mean of all other firms"):
        predicted = model.predict(X, outcomes=y)
    here = y.xs(2002, level="period")
    assert predicted[X.index.get_loc(("F3", 2002))] == pytest.approx(here.drop("F3").mean())
    assert "F3" in set(model.peer_network(X, outcomes=y).isolates["firm"])


def test_errors():
    X, y = simulated_panel()
    with pytest.raises(InputError, match="network: expected a PeerNetwork, a frame"):
        PrecomputedPeerRegressor(network=np.eye(3)).fit(X, y)
    with pytest.raises(InputError, match="network is signed"):
        signed = PeerNetwork.from_matrices({2001: weights() - 0.2}, signed=True, row_normalized=False)
        PrecomputedPeerRegressor(network=signed).fit(X, y)
    with pytest.raises(InputError, match="network starts in 2002, after period 2001 of X"):
        PrecomputedPeerRegressor(network={2002: weights()}).fit(X, y).predict(X, outcomes=y)
    with pytest.raises(InputError, match="cannot be compared"):
        PrecomputedPeerRegressor(network={"2002-06": weights()}).fit(X, y).predict(X, outcomes=y)
    with pytest.raises(InputError, match="network has periods but X has none"):
        PrecomputedPeerRegressor(network={2002: weights()}).fit([[1.0], [2.0]], [1.0, 2.0]).predict([[1.0]])


@pytest.mark.parametrize(
    ("of_network", "of_panel"),
    [
        ((2000, 2021), (200001, 200002)),
        ((1999, 2005), (20000131, 20000229)),
        ((199912, 200512), (20000131, 20000229)),
        (("12/1999", "12/2021"), ("2000-01", "2000-02")),
        (("2000", "2001"), ("2000-11", "2000-12")),
        (("Jan 1999", "Dec 2005"), ("2000-01-31", "2000-02-29")),
    ],
)
def test_a_network_whose_periods_are_written_otherwise_is_not_looked_up_in_the_future(of_network, of_panel):
    """2021 is below 200001, and "12/2021" before "2000-01": the order of numbers and letters is not that of time."""
    firms = list("ABC")
    ring = pd.DataFrame([[0, 1, 0], [0, 0, 1], [1, 0, 0]], firms, firms)
    network = PeerNetwork.from_matrices({of_network[0]: ring, of_network[1]: ring.T})
    index = pd.MultiIndex.from_product([firms, of_panel], names=["firm", "period"])
    X, y = pd.DataFrame({"size": np.arange(6.0)}, index), pd.Series(np.arange(6.0), index)
    with pytest.raises(InputError, match="cannot be compared. Label each of its cross-sections with the first period of X"):
        PrecomputedPeerRegressor(network=network).fit(X, y).predict(X, outcomes=y)
    late = PeerNetwork.from_matrices({of_panel[1]: ring})
    with pytest.raises(InputError, match="starts in"):
        PrecomputedPeerRegressor(network=late).fit(X, y).predict(X, outcomes=y)
