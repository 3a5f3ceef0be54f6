"""Attention against plain float64 code, and the fast path against the weights path."""

from __future__ import annotations

import math

import pytest
import torch
from torch.profiler import profile

from peerattn.exceptions import InputError
from peerattn.nn import attention, attention_weights

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
FAST = "aten::_scaled_dot_product_flash_attention_for_cpu"


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def plain_weights(query, key, mask, bias, scale):
    """Loop over every pair, as the equation in the docstring reads (2-D inputs)."""
    weights = torch.zeros(len(query), len(key), dtype=torch.float64)
    for i in range(len(query)):
        for j in range(len(key)):
            if mask is None or mask[i, j]:
                score = scale * sum(query[i, c] * key[j, c] for c in range(query.shape[1]))
                weights[i, j] = math.exp(score + (0.0 if bias is None else bias[i, j]))
        if weights[i].sum() > 0:
            weights[i] /= weights[i].sum()
    return weights


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_weights_are_the_equation(masked, biased):
    query, key = draw(4, 3), draw(6, 3, seed=1)
    mask = draw(4, 6, seed=2) > -0.3 if masked else None
    bias = draw(4, 6, seed=3) if biased else None
    got = attention_weights(query, key, mask=mask, bias=bias, scale=0.7)
    torch.testing.assert_close(got, plain_weights(query, key, mask, bias, 0.7), rtol=0, atol=1e-14)


def test_default_scale_is_one_over_root_width():
    query, key = draw(4, 9), draw(6, 9, seed=1)
    torch.testing.assert_close(attention_weights(query, key), attention_weights(query, key, scale=1 / 3))


LEADS = {"2-D": (), "3-D": (3,), "4-D": (2, 3), "5-D": (2, 2, 3)}
EXTRAS = {
    "none": (False, False),
    "mask": (True, False),
    "bias": (False, True),
    "mask and bias": (True, True),
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("d_value", [1, 4, 7])
def test_fast_path_equals_weights_path_with_gradients(lead, extra, d_value, dtype):
    shape = LEADS[lead]
    query, key = draw(*shape, 5, 4, dtype=dtype), draw(*shape, 6, 4, dtype=dtype, seed=1)
    value = draw(*shape, 6, d_value, dtype=dtype, seed=2)
    inputs = [x.requires_grad_() for x in (query, key, value)]
    masked, biased = EXTRAS[extra]
    mask = draw(5, 6, seed=3) > -0.5 if masked else None
    bias = draw(5, 6, dtype=dtype, seed=4).masked_fill(draw(5, 6, seed=5) > 1, -math.inf) if biased else None
    fast = attention(query, key, value, mask=mask, bias=bias)
    slow, weights = attention(query, key, value, mask=mask, bias=bias, return_weights=True)
    close = {"rtol": 0, "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(fast, slow, **close)
    torch.testing.assert_close(weights @ value, slow, **close)
    direction = draw(*shape, 5, d_value, dtype=dtype, seed=6)
    for a, b in zip(
        torch.autograd.grad(fast, inputs, direction),
        torch.autograd.grad(slow, inputs, direction),
        strict=True,
    ):
        torch.testing.assert_close(a, b, **close)


@pytest.mark.parametrize("shape", [(6,), (5, 1), (5, 6), (3, 1, 1), (1, 5, 6), (2, 1, 1, 6), (2, 3, 5, 6), (1, 1, 1, 1)])
@pytest.mark.parametrize("kind", ["mask", "bias"])
def test_masks_and_biases_broadcast(shape, kind):
    query, key, value = draw(2, 3, 5, 4), draw(2, 3, 6, 4, seed=1), draw(2, 3, 6, 4, seed=2)
    extra = draw(*shape, seed=3)
    small = {kind: extra > 0 if kind == "mask" else extra}
    full = {kind: small[kind].expand(2, 3, 5, 6)}
    want = attention_weights(query, key, **full) @ value
    torch.testing.assert_close(attention(query, key, value, **small), want)
    torch.testing.assert_close(attention(query, key, value, return_weights=True, **small)[0], want)


def test_leading_dimensions_of_query_and_key_broadcast():
    query, key, value = draw(4, 1, 5, 2), draw(3, 6, 2, seed=1), draw(6, 2, seed=2)
    want = attention_weights(query, key) @ value
    assert want.shape == (4, 3, 5, 2)
    torch.testing.assert_close(attention(query, key, value), want)


@pytest.mark.parametrize("weights_path", [False, True])
@pytest.mark.parametrize("kind", ["mask", "bias", "learned bias"])
def test_a_row_without_peers_is_zero_with_finite_gradients(kind, weights_path):
    inputs = [draw(2, 3, 5, 4, seed=s).requires_grad_() for s in range(3)]
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False
    bias = torch.zeros(5, 5, dtype=torch.float64).masked_fill(~mask, -math.inf)
    if kind == "learned bias":
        inputs.append(bias.requires_grad_())
    extra = {"mask": mask} if kind == "mask" else {"bias": bias}
    if weights_path:
        output, weights = attention(*inputs[:3], return_weights=True, **extra)
        assert (weights[..., 2, :] == 0).all()
    else:
        output = attention(*inputs[:3], **extra)
    assert (output[..., 2, :] == 0).all()
    assert (output[..., 1, :] != 0).all()
    gradients = torch.autograd.grad(output.square().sum(), inputs)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][..., 2, :] == 0).all()


@pytest.mark.parametrize("weights_path", [False, True])
def test_no_keys_at_all_gives_zeros(weights_path):
    query, none = draw(2, 3), draw(0, 3)
    output = attention(query, none, none, return_weights=weights_path)
    output = output[0] if weights_path else output
    torch.testing.assert_close(output, torch.zeros(2, 3, dtype=torch.float64))


def test_softmax_is_at_least_single_precision():
    query, key = (draw(8, 16, seed=s).to(torch.bfloat16) for s in range(2))
    weights = attention_weights(query, key)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights, attention_weights(query.double(), key.double()).float(), rtol=0, atol=1e-6)
    fast = attention(query, key, key)
    slow, _ = attention(query, key, key, return_weights=True)
    assert fast.dtype == slow.dtype == torch.bfloat16
    torch.testing.assert_close(fast, slow, rtol=0, atol=0.02)


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("d_value", [1, 4, 7])
@pytest.mark.parametrize("mask_shape", [None, (5, 6), (1, 5, 6), (1, 6)])
def test_every_shape_runs_on_the_fast_kernel(lead, d_value, mask_shape):
    shape = LEADS[lead]
    query, key, value = draw(*shape, 5, 4), draw(*shape, 6, 4), draw(*shape, 6, d_value)
    mask = None if mask_shape is None or len(mask_shape) > 2 + len(shape) else draw(*mask_shape) > -1
    with profile() as recorded:
        attention(query.requires_grad_(), key, value, mask=mask)
    assert FAST in {event.key for event in recorded.key_averages()}


def test_permuting_keys_changes_nothing():
    query, key, value = draw(5, 4), draw(9, 4, seed=1), draw(9, 4, seed=2)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(attention(query, key, value), attention(query, key[order], value[order]))


def test_large_scores_stay_finite():
    query = draw(5, 4) * 1e4
    weights = attention_weights(query, query)
    assert weights.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": draw(6, 3)}, r"key: expected the width of the queries \(4\), got 3"),
        ({"query": draw(4)}, r"query and key: expected at least two dimensions"),
        (
            {"mask": torch.ones(5, 6)},
            r"mask: expected a bool tensor \(True = may attend\), got torch.float32",
        ),
        (
            {"mask": torch.ones(6, 5).bool()},
            r"mask: expected a shape that broadcasts to \(5, 6\), got \(6, 5\)",
        ),
        (
            {"bias": torch.ones(2, 5, 6)},
            r"bias: expected a shape that broadcasts to \(5, 6\), got \(2, 5, 6\)",
        ),
        ({"value": draw(5, 4)}, r"value: expected one row per key \(6\), got 5"),
        ({"value": draw(6)}, r"value: expected at least two dimensions \(rows, width\), got \(6,\)"),
        (
            {"query": draw(2, 5, 4), "key": draw(3, 6, 4)},
            r"query, key and value: expected dimensions before the rows that broadcast, got \(2, 5, 4\) and \(3, 6, 4\)",
        ),
    ],
)
@pytest.mark.parametrize("weights_path", [False, True])
def test_wrong_shapes_are_named(arguments, message, weights_path):
    good = {"query": draw(5, 4), "key": draw(6, 4), "value": draw(6, 4)}
    with pytest.raises(InputError, match=message):
        attention(**{**good, **arguments}, return_weights=weights_path)
