import numpy as np
import pandas as pd
import pytest

from peerattn import (
    CovariancePeerRegressor,
    CrossSectionalRidge,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    simulate_panel,
)
from peerattn.exceptions import InputError
from peerattn.models import IndustryMedianRegressor, PrecomputedPeerRegressor
from peerattn.models.cross_section import CrossSection

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point


def test_the_strongest_peers_are_those_of_the_whole_network(monkeypatch):
    """Also when the firms are taken in small blocks; what is kept is sparse and unchanged."""
    panel = simulate_panel(20, 6, 2, sharpness=2.0, random_state=0)
    options = {"similarity": "additive", "kappa": None, "random_state": 0}
    model = PeerAttentionRegressor(n_heads=2, **options).fit(panel.X, panel.y)
    whole = model.peer_network(panel.X)
    chunks = CrossSection.chunks
    monkeypatch.setattr(CrossSection, "chunks", lambda self, cells=60: chunks(self, cells=60))
    found = model.peer_network(panel.X, top_k=3)
    expected, edges = whole.edges(top_k=3), found.edges(top_k=3)
    assert edges[["period", "firm", "peer"]].equals(expected[["period", "firm", "peer"]])
    np.testing.assert_allclose(edges["weight"], expected["weight"], atol=1e-12)
    assert all(section.is_sparse and section.n_edges == 60 for _, section in found.sections())
    assert not found.row_normalized
    with pytest.raises(InputError, match="top_k: expected an integer of at least 1"):
        model.peer_network(panel.X, top_k=0)


@pytest.mark.parametrize("similarity", ["scaled_dot_product", "gaussian"])
@pytest.mark.parametrize("weights", [(1.0,), (0.2, 0.6)], ids=["one start", "two starts"])
@pytest.mark.parametrize("n_heads", [1, 3])
def test_heads_by_the_blocked_kernel(similarity, n_heads, weights, plant):
    panel = simulate_panel(20, 6, 2, sharpness=2.0, random_state=0)
    model = PeerAttentionRegressor(similarity=similarity, n_heads=1, kappa=None, random_state=0)
    plant(model.fit(panel.X, panel.y), *weights, n_heads=n_heads)
    expected = model.peer_network(panel.X).edges(top_k=3)
    found = model.peer_network(panel.X, top_k=3).edges(top_k=3)
    assert found[["period", "firm", "peer"]].equals(expected[["period", "firm", "peer"]])
    np.testing.assert_allclose(found["weight"], expected["weight"], rtol=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        IndustryPeerRegressor(industry="industry"),
        IndustryMedianRegressor(industry="industry"),
        NadarayaWatsonRegressor(bandwidth=1.0, codes=["industry"]),
        CrossSectionalRidge(codes=["industry"]),
        CovariancePeerRegressor(codes=["industry"], random_state=0),
        PrecomputedPeerRegressor(network=simulate_panel(12, 4, 2, n_industries=2, random_state=0).network),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_peer_model_keeps_the_strongest_peers(model):
    panel = simulate_panel(12, 4, 2, n_industries=2, random_state=0)
    fitted = model.fit(panel.X, panel.y)
    found = fitted.peer_network(panel.X, outcomes=panel.y, top_k=2)
    assert found.top_k == 2 and not found.row_normalized
    whole = fitted.peer_network(panel.X, outcomes=panel.y)
    pd.testing.assert_frame_equal(found.edges(top_k=2), whole.edges(top_k=2))
    with pytest.raises(InputError, match="top_k: expected an integer of at least 1"):
        fitted.peer_network(panel.X, outcomes=panel.y, top_k=0)
