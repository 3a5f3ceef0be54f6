"""Gates of zero equal pruned heads; importances against differences and plain code."""

from __future__ import annotations

import pytest
import torch

from peerattn.exceptions import InputError
from peerattn.nn import (
    Encoder,
    MultiheadAttention,
    head_gates,
    head_importance,
    keep_heads,
    prune_heads,
)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_layer(**options) -> MultiheadAttention:
    layer = MultiheadAttention(8, 4, **options).double()
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(0.4 * draw(*parameter.shape, seed=100 + seed))
    return layer


@pytest.mark.parametrize("keep", [[0], [3, 1], [0, 1, 2, 3], []])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"d_memory": 5, "d_head": 3, "d_value": 2, "d_output": 6}])
@pytest.mark.parametrize("as_mask", [False, True])
def test_a_gate_of_zero_equals_the_pruned_layer(keep, options, as_mask):
    layer = make_layer(**options)
    x, memory = draw(2, 5, 8), draw(2, 7, options.get("d_memory", 8), seed=1)
    gate = torch.zeros(4, dtype=torch.float64)
    gate[keep] = 1
    with head_gates({layer: gate}):
        want, weights = layer(x, memory, return_weights=True)
    pruned = prune_heads(layer, gate.bool() if as_mask else torch.tensor(keep, dtype=torch.int64))
    got, kept = pruned(x, memory, return_weights=True)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-13)
    torch.testing.assert_close(pruned(x, memory), want, rtol=0, atol=1e-13)
    torch.testing.assert_close(kept, weights[:, sorted(keep)])


def test_gates_are_gone_afterwards_even_after_an_error():
    layer, x = make_layer(), draw(3, 8)
    want = layer(x)
    with (
        pytest.raises(RuntimeError, match="planted"),
        head_gates({layer: torch.zeros(4, dtype=torch.float64)}),
    ):
        assert not torch.allclose(layer(x), want)
        raise RuntimeError("planted")
    assert torch.equal(layer(x), want)


def test_pruning_leaves_the_layer_alone():
    layer, x = make_layer(), draw(3, 8)
    want = layer(x)
    pruned = prune_heads(layer, torch.tensor([1]))
    with torch.no_grad():
        for parameter in pruned.parameters():
            parameter.zero_()
    assert torch.equal(layer(x), want)


def test_importance_is_the_slope_in_every_gate():
    encoder = Encoder(2, 8, 4).double()
    layers = {name: part for name, part in encoder.named_modules() if isinstance(part, MultiheadAttention)}
    batches = [draw(3, 5, 8, seed=seed) for seed in range(2)]

    def loss(batch):
        return encoder(batch).pow(3).mean()

    importance = head_importance(encoder, loss, batches)
    assert list(importance) == list(layers) == ["blocks.0.attention", "blocks.1.attention"]
    step = 1e-5
    for name, layer in layers.items():
        for head in range(4):
            slopes = []
            for batch in batches:
                values = []
                for sign in (1, -1):
                    gate = torch.ones(4, dtype=torch.float64)
                    gate[head] += sign * step
                    with torch.no_grad(), head_gates({layer: gate}):
                        values.append(loss(batch).item())
                slopes.append(abs(values[0] - values[1]) / (2 * step))
            assert importance[name][head].item() == pytest.approx(sum(slopes) / 2, rel=1e-5)
    assert all(parameter.grad is None for parameter in encoder.parameters())


def test_a_layer_that_the_loss_does_not_use_has_no_importance():
    both = torch.nn.ModuleList([make_layer(), make_layer()])
    found = head_importance(both, lambda batch: both[0](batch).square().mean(), [draw(2, 8)])
    assert (found["0"] > 0).all() and (found["1"] == 0).all()


def test_pruning_by_importance_beats_pruning_the_rest():
    layer, x = make_layer(), draw(6, 8)
    with torch.no_grad():
        layer.output.weight[:, 2:6] *= 0.01  # half of head 0 and half of head 1 (width 2 each): heads 1 and 2
    want = layer(x).detach()
    importance = head_importance(layer, lambda batch: (layer(batch) * want).mean(), [x])[""]
    good, bad = importance.topk(2).indices, (-importance).topk(2).indices
    assert sorted(good.tolist()) == [0, 3]
    errors = [(prune_heads(layer, keep)(x) - want).square().mean() for keep in (good, bad)]
    assert errors[0] < 0.1 * errors[1]


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (torch.tensor([4]), r"keep: expected different head numbers from 0 to 3, got \[4\]"),
        (torch.tensor([-1]), r"keep: expected different head numbers from 0 to 3, got \[-1\]"),
        (torch.tensor([1, 1]), r"got \[1, 1\]"),
        (torch.tensor(1), r"keep: expected different head numbers from 0 to 3, got 1"),
        (torch.tensor([0.5]), r"keep: expected different head numbers from 0 to 3, got \[0.5\]"),
        (torch.tensor([True, False]), r"keep: expected one bool per head, shape \(4,\), got \(2,\)"),
    ],
)
def test_heads_that_are_not_there(keep, message):
    with pytest.raises(InputError, match=message):
        prune_heads(make_layer(), keep)


def test_bad_arguments_are_named():
    layer = make_layer()
    with pytest.raises(InputError, match="keep: no layer with heads is named '7'.* Known: 0"):
        keep_heads(torch.nn.Sequential(layer), {"7": [0]})
    with pytest.raises(InputError, match="keep: expected different head numbers"):
        keep_heads(torch.nn.Sequential(layer), {"0": [0.5]})
    with pytest.raises(InputError, match=r"gates: expected one gate per head, shape \(4,\), got \(3,\)"):
        with head_gates({layer: torch.ones(3)}):
            pass
    with pytest.raises(InputError, match="module: expected at least one MultiheadAttention in it, got Linear"):
        head_importance(layer.output, lambda batch: batch.sum(), [draw(1)])
    with pytest.raises(InputError, match="batches: expected at least one batch"):
        head_importance(layer, lambda batch: layer(batch).sum(), [])
