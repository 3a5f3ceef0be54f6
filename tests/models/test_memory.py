"""A network of all pairs takes no more memory than its guard reckons."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from peerattn.models import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PrecomputedPeerRegressor,
)
from peerattn.network import PeerNetwork

N = 900
FIRMS = pd.MultiIndex.from_product([[f"F{k:04d}" for k in range(N)], [2001]], names=["firm", "period"])
X = pd.DataFrame({"size": np.random.default_rng(0).normal(size=N), "sic": np.repeat(["37", "28"], N // 2)}, index=FIRMS)
Y = pd.Series(np.random.default_rng(1).normal(size=N), index=FIRMS, name="roa")


@pytest.mark.parametrize(
    "model",
    [CrossSectionalRidge(alpha=1.0), NadarayaWatsonRegressor(bandwidth=1.0), IndustryPeerRegressor(industry="sic")],
)
def test_the_guard_reckons_the_peak(model, monkeypatch):
    needed = []
    monkeypatch.setattr("peerattn.models.networks._CELLS", 20_000)
    monkeypatch.setattr("peerattn.models.networks.check_memory", lambda each, *_: needed.append(each))
    model.fit(X, Y)
    options = {"outcomes": Y} if isinstance(model, CrossSectionalRidge) else {}
    model.peer_network(X, **options)  # what is loaded at the first call is no part of it
    tracemalloc.start()
    try:
        network = model.peer_network(X, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert network.matrix().shape == (N, N)
    assert 8 * N**2 < peak < needed[0] < 1.7 * 8 * N**2


def test_a_given_network_takes_the_memory_of_its_edges():
    labels = FIRMS.get_level_values("firm")
    ring = pd.DataFrame({"firm": labels, "peer": np.roll(labels, 1), "weight": 1.0})
    model = PrecomputedPeerRegressor(network=PeerNetwork.from_edges(ring)).fit(X, Y)
    model.peer_network(X)
    tracemalloc.start()
    try:
        network = model.peer_network(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert network.section()[1].n_edges == N
    assert peak < 8 * N**2 / 4
