"""Multi-head attention against torch.nn.MultiheadAttention."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from peerattn.exceptions import InputError
from peerattn.nn import (
    MultiheadAttention,
    linear,
    prune_heads,
)

# Single precision rounds differently from one processor to the next; double precision shows equality.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def torch_layer(dtype: torch.dtype, seed: int = 9, **options) -> nn.MultiheadAttention:
    """A torch layer whose every weight is random, without moving the global generator for other tests."""
    with torch.random.fork_rng():
        layer = nn.MultiheadAttention(12, 3, batch_first=True, dtype=dtype, **options)
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return layer


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_torch_given_its_weights(dtype, bias, cross, masked):
    theirs = torch_layer(dtype, bias=bias, kdim=5 if cross else None, vdim=5 if cross else None)
    ours = MultiheadAttention.from_torch(theirs)
    x = draw(2, 4, 12, dtype=dtype)
    memory = draw(2, 7, 5, dtype=dtype, seed=1) if cross else x
    mask = (draw(4, memory.shape[1], seed=2) > -0.5) if masked else None
    want, want_weights = theirs(x, memory, memory, attn_mask=None if mask is None else ~mask, average_attn_weights=False)
    fast = ours(x, memory if cross else None, mask=mask)
    slow, weights = ours(x, memory if cross else None, mask=mask, return_weights=True)
    for got, wanted in ((fast, want), (slow, want), (weights, want_weights)):
        torch.testing.assert_close(got, wanted, rtol=0, atol=TOLERANCE[dtype])


def test_gradients_equal_torch():
    theirs = torch_layer(torch.float64)
    ours = MultiheadAttention.from_torch(theirs)
    x = draw(2, 4, 12)
    theirs(x, x, x, need_weights=False)[0].square().sum().backward()
    ours(x).square().sum().backward()
    packed = torch.cat([ours.query.weight.grad, ours.key.weight.grad, ours.value.weight.grad])
    torch.testing.assert_close(packed, theirs.in_proj_weight.grad, rtol=0, atol=1e-11)
    torch.testing.assert_close(ours.output.weight.grad, theirs.out_proj.weight.grad, rtol=0, atol=1e-11)


def test_taking_weights_over_copies_them():
    theirs = torch_layer(torch.float64)
    ours = MultiheadAttention.from_torch(theirs)
    before = ours.query.weight.detach().clone()
    with torch.no_grad():
        theirs.in_proj_weight.zero_()
    torch.testing.assert_close(ours.query.weight.detach(), before)


@pytest.mark.parametrize("options", [{"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 5, "vdim": 6}])
def test_what_cannot_be_taken_over_is_refused(options):
    with pytest.raises(InputError, match="module: expected a torch.nn.MultiheadAttention with kdim == vdim"):
        MultiheadAttention.from_torch(torch_layer(torch.float32, **options))


def test_widths_of_their_own():
    layer = MultiheadAttention(6, 2, d_memory=5, d_head=3, d_value=1, d_output=4).double()
    x, memory = draw(2, 4, 6), draw(2, 7, 5, seed=1)
    output, weights = layer(x, memory, return_weights=True)
    assert output.shape == (2, 4, 4) and weights.shape == (2, 2, 4, 7)
    by_hand = torch.stack([weights[:, h] @ layer.value(memory)[..., h : h + 1] for h in range(2)], -1).flatten(-2)
    torch.testing.assert_close(output, layer.output(by_hand))
    torch.testing.assert_close(layer(x, memory), output)


def test_inputs_without_a_batch():
    layer = MultiheadAttention(6, 2).double()
    x = draw(4, 6)
    torch.testing.assert_close(layer(x), layer(x[None])[0])


def test_permuting_rows_permutes_outputs():
    layer = MultiheadAttention(6, 2).double()
    x, order = draw(9, 6), torch.randperm(9, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x)[order], layer(x[order]))


def test_initial_weights_come_from_the_generator_alone():
    state = torch.get_rng_state()
    one, same, other = (MultiheadAttention(6, 2, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.query.weight, same.query.weight)
    assert not torch.equal(one.query.weight, other.query.weight)
    assert not torch.equal(one.query.weight, one.key.weight)
    assert not torch.equal(MultiheadAttention(6, 2).query.weight, MultiheadAttention(6, 2).key.weight)


def test_linear_is_xavier_uniform_with_zero_bias():
    layer = linear(200, 100, generator=torch.Generator().manual_seed(0))
    bound = (6 / 300) ** 0.5
    assert bound * 0.99 < layer.weight.abs().max() <= bound
    assert (layer.bias == 0).all()


def test_built_without_memory_on_the_meta_device():
    with torch.device("meta"):
        layer = MultiheadAttention(768, 12)
    assert layer.query.weight.is_meta
    assert sum(parameter.numel() for parameter in layer.parameters()) == 4 * 768 * 769


def test_heads_must_divide_the_width():
    with pytest.raises(InputError, match="n_heads: expected a divisor of d_model=6, got 4"):
        MultiheadAttention(6, 4)
    with pytest.raises(InputError, match="n_heads: expected an integer of at least 1, got 0"):
        MultiheadAttention(6, 0, d_head=2)
    for name in ("d_memory", "d_head", "d_value", "d_output"):
        with pytest.raises(InputError, match=f"{name}: expected an integer of at least 1, got 0"):
            MultiheadAttention(6, 2, **{name: 0})


def test_symmetric_scores_have_one_matrix_for_queries_and_keys():
    layer, x = (
        MultiheadAttention(6, 2, symmetric=True),
        torch.randn(5, 6, generator=torch.Generator().manual_seed(0)),
    )
    free = MultiheadAttention(6, 2)
    free.load_state_dict(layer.state_dict() | {"key.weight": layer.query.weight, "key.bias": torch.zeros(6)})
    torch.testing.assert_close(layer(x), free(x))
    _, weights = prune_heads(layer, torch.tensor([1]))(x, return_weights=True)
    torch.testing.assert_close(weights[0], free(x, return_weights=True)[1][1])
    with pytest.raises(InputError, match="symmetric: needs d_memory == d_model=6, got 4"):
        MultiheadAttention(6, 2, d_memory=4, symmetric=True)


def test_sections_in_one_call_are_those_of_a_call_each():
    layer = MultiheadAttention(12, 3, score="gaussian").double()
    x, sizes = draw(9, 12).requires_grad_(), [4, 1, 4]
    together = layer(x, sizes=sizes)
    apart = torch.cat([layer(part) for part in x.split(sizes)])
    torch.testing.assert_close(together, apart, atol=1e-12, rtol=1e-12)
    one, other = (torch.autograd.grad(y.square().sum(), x)[0] for y in (together, apart))
    torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


def test_sizes_of_sections_are_checked():
    layer, x = MultiheadAttention(12, 3), draw(5, 12, dtype=torch.float32)
    with pytest.raises(InputError, match="sizes: expected numbers that add up to the 5 rows of x, got 4"):
        layer(x, sizes=[2, 2])
    for options in ({"return_weights": True}, {"mask": torch.ones(5, 5, dtype=torch.bool)}, {"memory": x}):
        with pytest.raises(InputError, match="sizes: goes without memory, mask"):
            layer(x, sizes=[2, 3], **options)
    with pytest.raises(InputError, match="sizes: goes without .* rotary positions"):
        MultiheadAttention(12, 3, rotary=True)(x, sizes=[2, 3])
