"""A fit says how alike the networks of its seeds are, also where no period is held out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from peerattn.datasets import simulate_panel
from peerattn.models import PeerAttentionRegressor
from peerattn.models.learners.batches import Sample
from peerattn.models.learners.heads import learner
from peerattn.network import PeerNetwork, common_peers, network_correlation


def test_two_halves_of_the_seeds_of_heads_in_full_are_compared(monkeypatch):
    """By hand, from the modules of the seeds, over the last three training periods."""
    monkeypatch.setattr(learner, "DEFAULT", replace(learner.DEFAULT, window=0.0))
    panel = simulate_panel(12, 10, 2, random_state=0)
    model = PeerAttentionRegressor(n_heads=1, own="linear", kappa=None, random_state=0).fit(panel.X, panel.y)
    (row,) = model.stability_.itertuples(index=False)
    assert (row.part, row.comparison) == ("heads", "seeds")
    networks = []
    assert len(model.members_) == 2 * 8  # of two weight decays
    for half in (model.members_[::2], model.members_[1::2]):
        matrices = {}
        for section in list(model._gate_call(panel.X, None)[1])[-3:]:
            batch = Sample([model._as_seen(section)], model.pair_terms_).batch([0])
            W = np.mean([member.module().weights(batch)[0, 0].numpy() for member in half], axis=0)
            matrices[section.period] = (section.focal.label, section.peers.label, W)
        networks.append(PeerNetwork.from_matrices(matrices, signed=True, row_normalized=False))
    assert row.correlation == pytest.approx(network_correlation(*networks))
    assert row.common_top5 == pytest.approx(common_peers(*networks))
    shown = model.peer_network(panel.X).stability
    pd.testing.assert_frame_equal(shown, model.stability_[list(shown)])


def test_without_heads_nothing_is_compared():
    panel = simulate_panel(12, 10, 2, random_state=0)
    assert PeerAttentionRegressor(n_heads=0, random_state=0).fit(panel.X, panel.y).stability_.empty
