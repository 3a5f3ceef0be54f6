"""Blocks and stacks against torch.nn.TransformerEncoderLayer and torch.nn.TransformerEncoder."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from peerattn.exceptions import InputError
from peerattn.nn import Encoder, FeedForward, TransformerBlock

# Single precision rounds differently from one processor to the next; double precision shows equality.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def torch_layer(norm: str, activation, dtype: torch.dtype, seed: int = 9, **options) -> nn.TransformerEncoderLayer:
    with torch.random.fork_rng():
        options |= {"activation": activation, "norm_first": norm == "pre", "dtype": dtype}
        layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True, **options)
    shake(layer, seed)
    return layer


def shake(module: nn.Module, seed: int) -> None:
    """Move every parameter, normalisations too, so that none can be forgotten unseen."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("activation", ["relu", "gelu", nn.ReLU(), nn.GELU()])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("masked", [False, True])
def test_block_equals_torch_given_its_weights(norm, activation, dtype, masked):
    theirs = torch_layer(norm, activation, dtype, layer_norm_eps=1e-3)
    ours = TransformerBlock.from_torch(theirs)
    x, mask = draw(2, 5, 12, dtype=dtype), draw(5, 5, seed=1) > -0.5 if masked else None
    want = theirs(x, src_mask=None if mask is None else ~mask)
    torch.testing.assert_close(ours(x, mask=mask), want, rtol=0, atol=TOLERANCE[dtype])
    output, weights = ours(x, mask=mask, return_weights=True)
    torch.testing.assert_close(output, want, rtol=0, atol=TOLERANCE[dtype])
    assert weights.shape == (2, 3, 5, 5)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("final_norm", [True, False])
def test_encoder_equals_torch_given_its_weights(norm, final_norm, dtype):
    last = nn.LayerNorm(12, dtype=dtype) if final_norm else None
    theirs = nn.TransformerEncoder(torch_layer(norm, "gelu", dtype), 3, norm=last, enable_nested_tensor=False)
    shake(theirs, 3)
    ours = Encoder.from_torch(theirs)
    x = draw(2, 5, 12, dtype=dtype)
    padding = torch.arange(5) >= torch.tensor([[5], [3]])  # (B, N), True = padding, as torch has it
    want = theirs(x, src_key_padding_mask=padding)
    got = ours(x, mask=~padding[:, None, None, :])
    torch.testing.assert_close(got[~padding], want[~padding], rtol=0, atol=TOLERANCE[dtype])


def test_encoder_has_as_many_parameters_as_torch():
    with torch.device("meta"):
        theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(768, 12, 3072), 2, enable_nested_tensor=False)
        ours = Encoder(2, 768, 12, norm="post")
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_focal_rows_alone_equal_the_whole_pool(norm):
    block = TransformerBlock(12, 3, norm=norm).double()
    shake(block, 1)
    x, focal = draw(2, 9, 12), torch.tensor([7, 0, 3])
    mask = ~torch.eye(9, dtype=torch.bool)
    want = block(x, mask=mask)[:, focal]
    torch.testing.assert_close(block(x[:, focal], memory=x, mask=mask[focal]), want)


def test_padding_changes_nothing():
    encoder = Encoder(2, 12, 3).double()
    x = draw(1, 5, 12)
    padded = torch.cat([x, draw(1, 3, 12, seed=1)], dim=1)
    mask = (torch.arange(8) < 5)[None, None, None, :]
    torch.testing.assert_close(encoder(padded, mask=mask)[:, :5], encoder(x))


def test_weights_of_every_layer():
    encoder = Encoder(3, 12, 3).double()
    x = draw(2, 5, 12)
    output, weights = encoder(x, return_weights=True)
    torch.testing.assert_close(output, encoder(x))
    assert len(weights) == 3
    for layer in weights:
        torch.testing.assert_close(layer.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_final_norm_follows_pre_norm_by_default(norm):
    assert isinstance(Encoder(1, 4, 2, norm=norm).final_norm, nn.LayerNorm) == (norm == "pre")


def test_layers_start_from_different_weights_and_leave_the_global_generator_alone():
    state = torch.get_rng_state()
    encoder = Encoder(2, 12, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), state)
    first, second = encoder.blocks
    assert not torch.equal(first.attention.query.weight, second.attention.query.weight)


def test_unknown_options_are_named():
    with pytest.raises(InputError, match=r"norm must be one of \['pre', .*, got 'middle'"):
        TransformerBlock(4, 2, norm="middle")
    with pytest.raises(InputError, match=r"activation must be one of \['relu', .*, got 'tanh'"):
        FeedForward(4, 8, activation="tanh")
    with pytest.raises(InputError, match=r"layer: expected the activation relu or \(exact\) gelu"):
        TransformerBlock.from_torch(torch_layer("pre", nn.GELU(approximate="tanh"), torch.float32))
    with pytest.raises(InputError, match="bias=True"):
        TransformerBlock.from_torch(torch_layer("pre", "relu", torch.float32, bias=False))
