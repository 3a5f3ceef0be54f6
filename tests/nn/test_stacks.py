"""Decoders and both stacks together against torch.nn.Transformer; caches; published parameter counts."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import nn

from peerattn.exceptions import InputError
from peerattn.nn import (
    Dropout,
    Encoder,
    EncoderDecoder,
    InputEmbedding,
    LearnedPositions,
    StackCache,
    TransformerBlock,
    causal_mask,
    head_gates,
    linear,
    padding_mask,
    prune_heads,
)
from peerattn.nn.blocks import Norm

NORMS = get_args(Norm)
# Single precision rounds differently from one processor to the next; double precision shows equality.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def shake(module: nn.Module, seed: int = 1) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_equals_torch_transformer_given_its_weights(dtype, norm_first, activation):
    with torch.random.fork_rng():
        theirs = nn.Transformer(
            12, 3, 2, 3, 20, dropout=0.0, activation=activation, norm_first=norm_first,
            batch_first=True, dtype=dtype,
        )  # fmt: skip
    shake(theirs)
    ours = EncoderDecoder.from_torch(theirs)
    source, target = draw(2, 6, 12, dtype=dtype), draw(2, 4, 12, dtype=dtype, seed=1)
    there = padding_mask(torch.tensor([6, 4]))
    want = theirs(
        source, target, tgt_mask=~causal_mask(4),
        src_key_padding_mask=~there[:, 0, 0], memory_key_padding_mask=~there[:, 0, 0],
    )  # fmt: skip
    torch.testing.assert_close(ours(source, target, source_mask=there), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    output, weights = ours(source, target, source_mask=there, return_weights=True)
    torch.testing.assert_close(output, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    own, cross = weights[0]
    assert len(weights) == 3 and own.shape == (2, 3, 4, 4) and cross.shape == (2, 3, 4, 6)
    assert cross[1, ..., 4:].abs().max() == 0 and own.triu(1).abs().max() == 0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("rotary", [False, True])
def test_one_row_at_a_time_with_a_cache_equals_all_at_once(norm, rotary):
    decoder = Encoder(2, 12, 3, norm=norm, cross_attention=True, rotary=rotary).double()
    shake(decoder)
    x, context = draw(2, 7, 12), draw(2, 5, 12, seed=1)
    want = decoder(x, mask=causal_mask(7), context=context)
    cache = StackCache(2)
    first = decoder(x[:, :3], mask=causal_mask(3), context=context, cache=cache)
    rest = [decoder(x[:, t : t + 1], context=context, cache=cache) for t in range(3, 6)]
    last = decoder(x[:, 6:], mask=causal_mask(1, 7), context=context, cache=cache)
    torch.testing.assert_close(torch.cat([first, *rest, last], dim=1), want)
    assert cache.length == 7


def test_a_reordered_cache_continues_the_other_sequence():
    stack, x = Encoder(2, 12, 3).double(), draw(2, 4, 12)
    cache = StackCache(2)
    stack(x[:, :3], mask=causal_mask(3), cache=cache)
    cache.reorder(torch.tensor([1, 1]))
    got = stack(x[[1, 1], 3:], cache=cache)
    torch.testing.assert_close(got, stack(x, mask=causal_mask(4))[[1, 1], 3:])


def by_hand(block: TransformerBlock, x: torch.Tensor) -> torch.Tensor:
    for norm, step in (
        (block.norm_attention, block.attention),
        (block.norm_feedforward, block.feedforward),
    ):
        n = norm(x)
        x = {
            "pre": lambda x=x, n=n, step=step: x + step(n),
            "post": lambda x=x, norm=norm, step=step: norm(x + step(x)),
            "residual-post": lambda x=x, norm=norm, step=step: x + norm(step(x)),
            "normalised-residual": lambda n=n, step=step: n + step(n),
        }[block.norm]()
    return x


@pytest.mark.parametrize("norm", NORMS)
def test_normalisation_stands_where_it_should(norm):
    block = TransformerBlock(12, 3, norm=norm).double()
    shake(block)
    x = draw(2, 5, 12)
    torch.testing.assert_close(block(x), by_hand(block, x))
    assert len({tuple(by_hand(TransformerBlock(12, 3, norm=n), x.float()).flatten().tolist()) for n in NORMS}) == 4


def test_a_stack_has_no_negative_number_of_blocks():
    with pytest.raises(InputError, match="n_layers: expected an integer of at least 0, got -1"):
        Encoder(-1, 4, 2)


def test_context_and_cross_attention_go_together():
    with pytest.raises(InputError, match="context: expected None in a block without"):
        TransformerBlock(4, 2)(draw(2, 4).float(), context=draw(2, 4).float())
    with pytest.raises(InputError, match="context: expected a tensor in a block with"):
        TransformerBlock(4, 2, cross_attention=True)(draw(2, 4).float())
    with pytest.raises(InputError, match="cross_attention: the decoder has it"):
        EncoderDecoder(1, 1, 4, 2, cross_attention=True)


def test_dropout_acts_in_training_only_and_repeats_itself():
    def run() -> torch.Tensor:
        encoder = Encoder(2, 12, 3, dropout=0.3, generator=torch.Generator().manual_seed(4))
        return encoder(torch.ones(4, 12))

    state = torch.get_rng_state()
    assert torch.equal(run(), run()) and torch.equal(torch.get_rng_state(), state)
    encoder = Encoder(2, 12, 3, dropout=0.3)
    x = draw(4, 12, dtype=torch.float32)
    assert not torch.equal(encoder(x), encoder(x))
    encoder.eval()
    quiet = encoder(x)
    encoder.train()
    for block in encoder.blocks:
        block.dropout.p = 0.0
    assert torch.equal(encoder(x), quiet)
    dropped = Dropout(0.3)(torch.ones(400, 500))  # every place, the four of each 64-bit number too
    assert abs(float((dropped == 0).float().mean()) - 0.3) < 0.01
    assert float(((dropped == 0).float().view(-1, 4).mean(0) - 0.3).abs().max()) < 0.01
    assert abs(float(dropped.mean()) - 1) < 0.01
    with pytest.raises(InputError, match="dropout: expected a share"):
        Encoder(1, 4, 2, dropout=1.0)


@pytest.mark.parametrize("options", [{}, {"score": "additive"}, {"rotary": True}])
def test_a_gate_of_zero_is_the_pruned_stack(options):
    stack = Encoder(2, 16, 4, **options).double()
    shake(stack)
    x, keep = draw(3, 6, 16), torch.tensor([0, 2])
    gate = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    with head_gates({block.attention: gate for block in stack.blocks}):
        want = stack(x)
    for block in stack.blocks:
        block.attention = prune_heads(block.attention, keep)
    torch.testing.assert_close(stack(x), want, rtol=0, atol=1e-12)


def count(*modules: nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def test_published_parameter_counts():
    generator = torch.Generator()
    with torch.device("meta"):
        gpt2 = count(InputEmbedding(50257, 768, 1024), Encoder(12, 768, 12))  # output tied
        bert = {}
        for name, (layers, width, heads) in {"base": (12, 768, 12), "large": (24, 1024, 16)}.items():
            reading = InputEmbedding(30522, width, 512, n_segments=2, norm=True)
            bert[name] = count(reading, Encoder(layers, width, heads, norm="post"), linear(width, width, generator=generator))
        vit = count(
            linear(3 * 16 * 16, 768, generator=generator),
            LearnedPositions(197, 768),
            Encoder(12, 768, 12),
            linear(768, 1000, generator=generator),
        )
        base, big = (
            count(
                InputEmbedding(37_000, width, 512, positions="sinusoidal"),  # shared by source, target, output
                EncoderDecoder(6, 6, width, heads, norm="post"),
            )
            for width, heads in ((512, 8), (1024, 16))
        )
    assert gpt2 == 124_439_808
    assert bert == {"base": 109_482_240, "large": 335_141_888}
    assert vit + 768 == 86_567_656  # and the vector of [CLS]
    assert abs(base / 65e6 - 1) < 0.03 and abs(big / 213e6 - 1) < 0.03
