"""At fixed parameters the own outcome has an exactly zero gradient on the own prediction, whatever the weights."""

import itertools

import pytest
import torch

from peerattn.models.learners.batches import Batch, RowTensors
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec

N, P = 9, 3
SIMILARITIES = ("scaled_dot_product", "dot_product", "additive", "gaussian")


def rows(seed, y=None, identity=None):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(1, N, P, generator=g, dtype=torch.float64)
    codes = torch.randint(0, 3, (1, N, 1), generator=g)
    identity = torch.arange(N)[None] if identity is None else identity
    weights = torch.zeros(1, N), torch.full((1, N), -torch.inf), torch.ones(1, N, dtype=torch.bool)
    return RowTensors(x, codes, y, identity, *weights)


def own_gradients(spec, size, cross):
    """Return the N x N derivatives of predictions by peers' outcomes."""
    module = PeerModule(spec, torch.Generator().manual_seed(1)).requires_grad_(False)
    for name, parameter in module.named_parameters():
        if name.endswith(("query", "key", "offset")) or name == "value":
            parameter.mul_(size)
    y = torch.randn(1, N, generator=torch.Generator().manual_seed(2), dtype=torch.float64, requires_grad=True)
    peers = rows(4 if cross else 3, y)
    predicted, _ = module(Batch(rows(3), peers, torch.ones(1, N)))
    return torch.stack([torch.autograd.grad(predicted[0, 0, i, 0], y, retain_graph=True)[0][0] for i in range(N)])


@pytest.mark.parametrize(
    "similarity, n_layers, cross, size",
    list(itertools.product(SIMILARITIES, (1, 2), (False, True), (1.0, 1e9))),
)
def test_own_outcome_has_zero_gradient(similarity, n_layers, cross, size):
    spec = PeerSpec(P, (2,), n_heads=3, d_head=2, n_layers=n_layers, values="outcomes", similarity=similarity)
    gradients = own_gradients(spec, size, cross)
    assert (gradients.diagonal() == 0).all()
    assert gradients.abs().max() > 0  # others' outcomes do count


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_characteristics_as_values_read_no_outcome(similarity):
    spec = PeerSpec(P, (2,), n_heads=3, d_head=2, similarity=similarity)
    module = PeerModule(spec, torch.Generator().manual_seed(1))
    y = torch.randn(1, N, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    predicted, _ = module(Batch(rows(3), rows(3, y), torch.ones(1, N)))
    assert torch.autograd.grad(predicted.sum(), y, allow_unused=True)[0] is None


def test_a_planted_leak_is_seen():
    """The check itself can fail: without identities the own outcome counts."""
    spec = PeerSpec(P, (2,), n_heads=3, d_head=2, values="outcomes")
    module = PeerModule(spec, torch.Generator().manual_seed(1)).requires_grad_(False)
    y = torch.randn(1, N, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    nobody = torch.full((1, N), -1)
    predicted, _ = module(Batch(rows(3, identity=nobody), rows(3, y), torch.ones(1, N)))
    assert torch.autograd.grad(predicted[0, 0, 0, 0], y)[0][0, 0] != 0
