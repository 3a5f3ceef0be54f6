"""The null peer: weights of others sum below one, its information is zero; without it, the textbook softmax."""

import numpy as np
import pytest
import torch

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.models.learners.batches import Batch, RowTensors
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec

# what is found is beside the point; heads of few steps would else enter by nothing
pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")

N = 8


def module(null_peer, seed=0, **options):
    made = PeerModule(PeerSpec(3, n_heads=2, d_head=4, null_peer=null_peer, **options), torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if null_peer or "null_key" not in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return made.requires_grad_(False)


def rows(seed=0, y=None):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(1, N, 3, generator=g, dtype=torch.float64)
    weights = torch.zeros(1, N), torch.full((1, N), -torch.inf), torch.ones(1, N, dtype=torch.bool)
    rows = RowTensors(x, torch.zeros(1, N, 0, dtype=torch.long), y, torch.arange(N)[None], *weights)
    return Batch(rows, rows, torch.ones(1, N))


def by_hand(made, x, null_peer):
    """Return weights (H, n, n) of a softmax over the others, and over the null peer."""
    found = []
    for h in range(2):
        q = x @ made.query[h] + made.offset[h]
        scores = q @ (x @ made.key[h]).T / 2
        scores[torch.eye(N, dtype=torch.bool)] = -torch.inf
        if null_peer:
            scores = torch.cat([scores, (q @ made.null_key[h, 0] / 2)[:, None]], dim=1)
        found.append(scores.softmax(-1)[:, :N])
    return torch.stack(found)


@pytest.mark.parametrize("null_peer", [False, True])
def test_weights_are_a_softmax_with_or_without_the_null_peer(null_peer):
    made, firms = module(null_peer), rows()
    weights = made.weights(firms)[0]
    torch.testing.assert_close(weights, by_hand(made, firms.focal.x[0], null_peer))
    total = weights.sum(-1)
    if null_peer:
        assert (total < 1).all() and (total > 0).all()
    else:
        torch.testing.assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("values", ["characteristics", "outcomes"])
@pytest.mark.parametrize("null_peer", [False, True])
def test_its_information_is_zero(null_peer, values):
    y = torch.randn(1, N, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    made, firms = module(null_peer, values=values, own="none"), rows(y=y)
    W, x = by_hand(made, firms.focal.x[0], null_peer), firms.focal.x[0]
    if values == "outcomes":
        expected = torch.einsum("hij,j,h->i", W, y[0], made.value[:, 0])
    else:
        expected = torch.einsum("hij,jp,hpk->i", W, x, made.value)
    torch.testing.assert_close(made(firms)[0][0, 0, :, 0], expected)


def test_a_firm_may_look_to_nobody():
    """However large the null peer's score, the prediction is finite; it is the own term alone."""
    made, firms = module(True), rows()
    with torch.no_grad():
        made.offset.fill_(50.0)
        made.null_key.fill_(50.0)
    weights = made.weights(firms)[0]
    assert weights.max() < 1e-12 and torch.isfinite(weights).all()
    predicted = made(firms)[0][0, 0, :, 0]
    torch.testing.assert_close(predicted, firms.focal.x[0] @ made.own_slope[0, :, 0] + made.intercept[0])


def test_alone_in_its_period_a_firm_looks_to_nobody():
    made, firms = module(True), rows()
    row = firms.focal.at(torch.tensor([[2]]))
    alone = Batch(row, row, torch.ones(1, 1))
    assert made.weights(alone).tolist() == [[[[0.0]], [[0.0]]]]
    assert torch.isfinite(made(alone)[0]).all()


def test_the_network_divides_what_goes_to_the_null_peer_among_the_others(plant):
    panel = simulate_panel(10, 6, 2, random_state=0)
    model = plant(PeerAttentionRegressor(n_heads=1, kappa=None, random_state=0).fit(panel.X, panel.y), n_heads=2)
    section = next(iter(model._gate_call(panel.X, None)[1]))
    heads = model.stack_.heads()
    raw = heads.weights(model._as_seen(section))(slice(0, 10))
    assert (raw.sum(1) < 1).all()
    W = model.peer_network(panel.X).matrix(section.period).loc[section.focal.label, section.peers.label]
    np.testing.assert_allclose(W, raw / raw.sum(1, keepdims=True), atol=1e-12)


def test_a_restricting_prior_has_no_null_peer():
    from peerattn.models import Prior

    panel = simulate_panel(15, 6, 2, n_industries=3, random_state=0)

    def fit(prior):
        return PeerAttentionRegressor(n_heads=1, kappa=None, prior=prior, random_state=0).fit(panel.X, panel.y)

    assert not fit(Prior("industry", only=True)).members_[0].spec.null_peer
    assert fit(Prior("industry")).members_[0].spec.null_peer
