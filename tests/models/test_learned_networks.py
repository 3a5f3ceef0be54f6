"""A network that was learned from outcomes is used in later periods only, whoever uses it."""

import numpy as np
import pandas as pd
import pytest

from peerattn import WalkForward, compare
from peerattn.exceptions import InputError
from peerattn.models import (
    CovariancePeerRegressor,
    CrossSectionalRidge,
    IndustryMedianRegressor,
    IndustryPeerRegressor,
    LinearInMeansRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    PrecomputedPeerRegressor,
)
from peerattn.network import PeerNetwork, rollout

pytestmark = pytest.mark.filterwarnings("ignore")
INDEX = pd.MultiIndex.from_product([range(20), range(2001, 2009)], names=["firm", "period"])


def panel():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=160), "sic": rng.choice(["3711", "2911"], 160)}, INDEX)
    return X, pd.Series(X["size"] + rng.normal(size=160), INDEX, name="y")


def at(frame, *periods):
    return frame[frame.index.get_level_values("period").isin(periods)]


@pytest.mark.parametrize("learner", [CovariancePeerRegressor(random_state=0), CrossSectionalRidge()])
def test_the_network_at_a_period_is_that_among_all_periods(learner):
    X, y = panel()
    X = X[["size"]]
    model = learner.fit(X, y)
    of_all = model.peer_network(X, outcomes=y)
    one = model.network_at(X, "2004", outcomes=y)
    assert one.periods.tolist() == [2004] and one.signed == of_all.signed
    pd.testing.assert_frame_equal(one.matrix(), of_all.matrix(2004), rtol=0, atol=1e-12)
    assert (model.network_at(X, 2004, outcomes=y, top_k=2).matrix() != 0).sum(axis=1).max() == 2
    with pytest.raises(InputError, match="1999"):
        model.network_at(X, 1999, outcomes=y)


@pytest.mark.parametrize("learner", [NadarayaWatsonRegressor(bandwidth=1.0), CrossSectionalRidge()])
def test_one_guard_for_every_use(learner):
    X, y = panel()
    numbers, early = X[["size"]], range(2001, 2005)
    network = learner.fit(at(numbers, *early), at(y, *early)).peer_network(numbers, outcomes=y)
    network = network.positive() if network.signed else network
    assert network.learned_until == 2004
    model = PrecomputedPeerRegressor(network=network).fit(numbers, y)
    model.predict(at(numbers, 2006), outcomes=at(y, 2006))
    with pytest.raises(InputError, match="network was learned from outcomes until 2004.*later"):
        model.predict(at(numbers, 2004), outcomes=at(y, 2004))
    with pytest.raises(InputError, match="network was learned from outcomes until 2004"):
        LinearInMeansRegressor(network=network).fit(numbers, y)
    with pytest.raises(InputError, match="network was learned from outcomes until 2004"):
        PeerAttentionRegressor(prior=network).fit(numbers, y)
    LinearInMeansRegressor(network=network).fit(at(numbers, 2005, 2006, 2007), at(y, 2005, 2006, 2007))


def test_compare_refuses_a_network_of_tested_outcomes():
    X, y = panel()
    network = NadarayaWatsonRegressor(bandwidth=1.0).fit(X[["size"]], y).peer_network(X[["size"]], outcomes=y)
    with pytest.raises(InputError, match="learned from outcomes"):
        compare(
            {"given": PrecomputedPeerRegressor(network=network)},
            X,
            y,
            cv=WalkForward(2),
            task="nowcast",
            decomposition=False,
            verbose=False,
        )


@pytest.mark.parametrize(
    "labels",
    [
        pd.RangeIndex(2001, 2009),
        pd.date_range("2001-01-31", periods=8, freq="ME"),
        pd.period_range("2001Q1", periods=8, freq="Q"),
        pd.Index([f"2001-{month:02d}" for month in range(1, 9)]),
    ],
    ids=["years", "dates", "quarters", "text"],
)
def test_files_and_frames_say_until_when_their_weights_were_learned(tmp_path, labels):
    X, y = panel()
    X, y = (part.set_axis(part.index.set_levels(labels, level="period")) for part in (X[["size"]], y))
    early = at(X, *labels[:4]).index
    network = NadarayaWatsonRegressor(bandwidth=1.0).fit(X.loc[early], y[early]).peer_network(X, outcomes=y)
    network.to_csv(tmp_path / "n.csv")
    network.edges().to_parquet(tmp_path / "edges.parquet")
    columns = {"weight": "weight", "period": "period"}
    frames = {period: network.matrix(period) for period in network.periods}
    found = {
        "edges": PeerNetwork.from_edges(network.edges()),
        "parquet": PeerNetwork.from_edge_file(tmp_path / "edges.parquet", **columns),
        "matrices": PeerNetwork.from_matrices(frames),
        "graph": PeerNetwork.from_networkx({p: network.to_networkx(p) for p in network.periods}),
        "frames": frames,
        "a frame": network.matrix(labels[0]),
    }
    for name, kept in found.items():
        model = PrecomputedPeerRegressor(network=kept).fit(X, y)
        model.predict(at(X, *labels[4:]), outcomes=at(y, *labels[4:]))
        with pytest.raises(InputError, match="network was learned from outcomes until"):
            model.predict(at(X, labels[3]), outcomes=at(y, labels[3]))
            pytest.fail(name)
    assert "learned_until" not in PeerNetwork.from_edges(network.replaced(learned_until=None).edges()).edges().attrs
    for read in (
        PeerNetwork.from_csv,
        lambda path: PeerNetwork.from_edge_file(path, weight="weight", period="period"),
    ):
        assert str(read(tmp_path / "n.csv").learned_until) == str(network.learned_until)


def test_what_is_made_of_several_periods_or_layers_was_learned_until_the_last():
    X, y = panel()
    numbers, early = X[["size"]], range(2001, 2005)
    network = NadarayaWatsonRegressor(bandwidth=1.0).fit(at(numbers, *early), at(y, *early)).peer_network(numbers, outcomes=y)
    assert network.mean().learned_until == 2008  # a covariance would have read outcomes until 2007
    assert network.subset(periods=[2001, 2002]).mean().learned_until == 2004
    given = network.replaced(learned_until=None)
    assert given.mean().learned_until is None
    assert rollout([given, network]).learned_until == rollout([network, given]).learned_until == 2004
    median = IndustryMedianRegressor(industry="sic").fit(X, y)
    assert median.peer_network(X, outcomes=y).learned_until == 2008  # its peers are chosen by outcomes
    assert median.network_at(X, 2007, outcomes=y).learned_until == 2007


def test_a_file_of_links_may_say_several_dates(tmp_path):
    (tmp_path / "links.csv").write_text("firm,peer,weight,learned_until\na,b,1,\nb,a,1,2004\na,c,1,2003\n")
    read = PeerNetwork.from_csv(tmp_path / "links.csv", row_normalized=False)
    assert read.learned_until == "2004" and len(read.edges()) == 3
    assert PeerNetwork.from_edge_file(tmp_path / "links.csv", weight="weight").learned_until == 2004


def test_the_network_keeps_what_it_was_learned_from(tmp_path):
    X, y = panel()
    network = NadarayaWatsonRegressor(bandwidth=1.0).fit(X[["size"]], y).peer_network(X[["size"]], outcomes=y)
    network.to_parquet(tmp_path / "n.parquet")
    network.to_graphml(tmp_path / "n.graphml", 2003)
    for kept in (
        PeerNetwork.from_parquet(tmp_path / "n.parquet"),
        PeerNetwork.from_graphml(tmp_path / "n.graphml"),
        PeerNetwork.from_networkx(network.to_networkx(2003)),
        PeerNetwork.from_networkx({period: network.to_networkx(period) for period in network.periods}),
        network.mean(),
        network.subset(periods=[2002]),
    ):
        assert kept.learned_until == 2008
    passed_on = PrecomputedPeerRegressor(network=network).fit(X, y)
    assert passed_on.network_.learned_until == 2008
    industry = IndustryPeerRegressor(industry="sic").fit(X, y).peer_network(X, outcomes=y)
    assert industry.learned_until is None
    PrecomputedPeerRegressor(network=industry).fit(X, y).predict(X, outcomes=y)
    one = X[["size"]].reset_index(drop=True)
    arrays = NadarayaWatsonRegressor(bandwidth=1.0).fit(one, y.to_numpy()).peer_network(one)
    assert np.isnan(arrays.learned_until)
