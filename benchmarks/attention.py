"""The attention layer against bare torch, and ragged cross-sections against padded batches.

python benchmarks/attention.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peerattn.nn import MultiheadAttention, TransformerBlock
from report import Row, median_ratio, publish, side_by_side

WIDTH, HEADS = 64, 4


def backward_of(forward: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    return lambda: forward(x).square().mean().backward()


def layer_rows(sizes: list[int], repeats: int) -> list[Row]:
    """Self-attention of one cross-section, forward and backward."""
    rows: list[Row] = []
    for n in sizes:
        x = torch.randn(1, n, WIDTH, generator=torch.Generator().manual_seed(0), requires_grad=True)
        layer, theirs = (
            MultiheadAttention(WIDTH, HEADS),
            nn.MultiheadAttention(WIDTH, HEADS, batch_first=True),
        )
        projections = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]

        def bare(x: Tensor, projections: list[nn.Linear] = projections) -> Tensor:
            q, k, v = (p(x).view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for p in projections[:3])
            return projections[3](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

        seconds = side_by_side(
            {
                "bare SDPA + linears": backward_of(bare, x),
                "ours: MultiheadAttention": backward_of(layer, x),
                "torch: MultiheadAttention": backward_of(
                    lambda x, theirs=theirs: theirs(x, x, x, need_weights=False)[0], x
                ),
            },
            repeats,
        )
        rows += rows_of(f"layer, {n:,} firms", seconds)
    return rows


def ragged_rows(repeats: int, low: int, high: int, periods: int = 20) -> list[Row]:
    """A block over an unbalanced panel: one cross-section after the other, or one padded batch."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(low, high + 1, (periods,), generator=generator).tolist()
    sections = [torch.randn(1, n, WIDTH, generator=generator) for n in lengths]
    padded = nn.utils.rnn.pad_sequence([x[0] for x in sections], batch_first=True)
    absent = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
    block = TransformerBlock.from_torch(theirs)

    def ours() -> None:
        for x in sections:
            block(x).square().mean().backward()

    def batched() -> None:
        theirs(padded, src_key_padding_mask=absent)[~absent].square().mean().backward()

    seconds = side_by_side(
        {"torch: TransformerEncoderLayer, padded": batched, "ours: TransformerBlock, ragged": ours}, repeats
    )
    return rows_of(f"{periods} periods, {low}-{high} firms", seconds)


def rows_of(case: str, seconds: dict[str, list[float]]) -> list[Row]:
    """Compare with the first run."""
    base = next(iter(seconds.values()))
    return [
        {"case": case, "what": name, "ms": 1e3 * min(times), "ratio": median_ratio(times, base)}
        for name, times in seconds.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    rows = layer_rows([500, 2000, 5000], options.repeats)
    rows += ragged_rows(options.repeats, 30, 300)
    rows += ragged_rows(max(3, options.repeats // 3), 300, 3000)
    publish(
        "attention",
        f"Attention, forward + backward, width {WIDTH}, {HEADS} heads, float32",
        rows,
        [
            f"{torch.get_num_threads()} threads, torch {torch.__version__}, median of paired ratios to the first line of "
            "each case; ms are the fastest.",
            "Figures to reach: the layer at most 1.1 times bare; ragged at most 0.5 times padded.",
        ],
    )


if __name__ == "__main__":
    main()
