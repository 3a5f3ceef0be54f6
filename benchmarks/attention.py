"""The attention layer against bare torch, and ways to compute cross-sections of unequal size: time, memory, padding, exponents.

python benchmarks/attention.py [--repeats 7]

Panels are those of the shared data folder (environment variable PEERATTN_SHARED_DATA, else ../shared/data): only their numbers
of firms a period are read; features are drawn.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peerattn.nn import MultiheadAttention, TransformerBlock, padding_mask
from report import SHARED, Row, median_ratio, options, publish, side_by_side

WIDTH, HEADS = 64, 4
WASTE = 0.1  # share of padding in a bucket, at most
FORK = multiprocessing.get_context("fork")

Run = Callable[[], Tensor]
Runs, Figures = dict[str, Callable[[], object]], dict[str, float]


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def backward_of(forward: Run) -> Callable[[], None]:
    return lambda: forward().square().mean().backward()


# ---------------------------------------------------------------------- one cross-section


def layers(n: int) -> dict[str, Run]:
    """Self-attention of one cross-section: bare, ours, torch's."""
    x = drawn(1, n, WIDTH).requires_grad_()
    ours, theirs = MultiheadAttention(WIDTH, HEADS), nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    projections = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]

    def bare() -> Tensor:
        q, k, v = (p(x).view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for p in projections[:3])
        return projections[3](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    return {
        "bare SDPA + linears": bare,
        "ours: MultiheadAttention": lambda: ours(x),
        "torch: MultiheadAttention": lambda: theirs(x, x, x, need_weights=False)[0],
    }


# ---------------------------------------------------------------------- many, of unequal size


def sizes_of(name: str, period: str, periods: int) -> list[int]:
    """Return the number of firms in evenly spaced periods of a real panel."""
    frame = pd.read_parquet(SHARED / "firm" / f"{name}.parquet", columns=[period])
    counts = frame[period].value_counts().sort_index()
    return counts.iloc[np.unique(np.linspace(0, len(counts) - 1, periods).round().astype(int))].tolist()


def buckets(sizes: Sequence[int]) -> list[list[int]]:
    """Return sections in groups, by size, of which at most a tenth of the rows is padding."""
    groups: list[list[int]] = []
    for k in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        grown = [*groups[-1], k] if groups else [k]
        wide = sizes[grown[0]] * len(grown)
        if groups and wide - sum(sizes[j] for j in grown) <= WASTE * wide:
            groups[-1] = grown
        else:
            groups.append([k])
    return groups


def padding(sizes: Sequence[int], groups: Sequence[Sequence[int]]) -> float:
    """Return the share of rows that are padding."""
    return 1 - sum(sizes) / sum(len(g) * max(sizes[k] for k in g) for g in groups)


def ways(sizes: list[int]) -> dict[str, tuple[Run, float]]:
    """Return ways to pass forward and backward through a block for every section, and the padding of each.

    Each returns the gradient of the last matrix.
    """
    sections = [drawn(1, n, WIDTH) for n in sizes]
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
    block, n_rows = TransformerBlock.from_torch(theirs), sum(sizes)
    one_batch, by_size = [list(range(len(sizes)))], buckets(sizes)

    def padded(groups: list[list[int]]) -> list[tuple[Tensor, Tensor]]:
        found = []
        for group in groups:
            lengths = torch.tensor([sizes[k] for k in group])
            batch = nn.utils.rnn.pad_sequence([sections[k][0] for k in group], batch_first=True)
            found.append((batch, torch.arange(batch.shape[1]) < lengths[:, None]))
        return found

    whole, grouped, together = padded(one_batch), padded(by_size), torch.cat(sections, 1)[0]
    readout = drawn(WIDTH)  # squares of normalised rows would add up to a constant

    def loss(rows: Tensor) -> Tensor:
        return (rows @ readout).square().sum() / n_rows

    def each(forward: Callable[[Tensor], Tensor]) -> None:
        for x in sections:
            loss(forward(x)).backward()

    def packed() -> None:
        loss(block(together, sizes=sizes)).backward()

    def padded_theirs() -> None:
        for batch, there in whole:
            loss(theirs(batch, src_key_padding_mask=~there)[there]).backward()

    def grouped_ours() -> None:
        for batch, there in grouped:
            mask = None if there.all() else padding_mask(there.sum(1), batch.shape[1])
            loss(block(batch, mask=mask)[there]).backward()

    def nested() -> None:
        rows = torch.nested.as_nested_tensor([x[0] for x in sections], layout=torch.jagged)
        q, k, v = (
            F.linear(rows, p.weight, p.bias).unflatten(-1, [HEADS, -1]).transpose(1, 2)
            for p in (block.attention.query, block.attention.key, block.attention.value)
        )
        seen = block.attention.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
        x = block.norm_attention(rows + seen)
        out = block.norm_feedforward(x + block.feedforward(x))
        loss(out.values()).backward()

    def gradient_of(run: Callable[..., None], *arguments: object) -> Run:
        def call() -> Tensor:
            for weight in last:
                weight.grad = None
            run(*arguments)
            return next(weight.grad for weight in last if weight.grad is not None)

        return call

    last = (theirs.linear2.weight, block.feedforward.output.weight)
    return {
        "torch: TransformerEncoderLayer, padded": (gradient_of(padded_theirs), padding(sizes, one_batch)),
        "torch: TransformerEncoderLayer, a call a period": (gradient_of(each, theirs), 0.0),
        "torch: nested tensors": (gradient_of(nested), 0.0),
        "ours: TransformerBlock, packed rows (sizes=)": (gradient_of(packed), 0.0),
        "ours: TransformerBlock, a call a period": (gradient_of(each, block), 0.0),
        "ours: TransformerBlock, buckets by size": (gradient_of(grouped_ours), padding(sizes, by_size)),
    }


# ---------------------------------------------------------------------- time and memory


def mebibytes(run: Callable[[], object]) -> float:
    """Return by how much the peak resident memory of a process of its own grows."""

    def measure(pipe: multiprocessing.connection.Connection) -> None:
        torch.set_num_threads(1)
        drawn(8, 8).requires_grad_().sum().backward()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run()
        pipe.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)

    here, there = FORK.Pipe()
    process = FORK.Process(target=measure, args=(there,))
    process.start()
    process.join()
    return float(here.recv()) if here.poll() else float("nan")


def rows_of(case: str, runs: Runs, waste: Figures, memory: Figures, repeats: int) -> list[Row]:
    """Compare with the first run."""
    seconds = side_by_side(runs, repeats, time.process_time)
    base = next(iter(seconds.values()))
    return [
        {
            "case": case,
            "what": name,
            "ms": 1e3 * min(times),
            "ratio": median_ratio(times, base),
            "padding": f"{waste.get(name, 0.0):.0%}",
            "MiB": f"{memory[name]:,.0f}",
        }
        for name, times in seconds.items()
    ]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of log seconds on log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def listed(sizes: Sequence[int], seconds: Sequence[float]) -> str:
    return ", ".join(f"{n:,}: {1e3 * s:,.0f} ms" for n, s in zip(sizes, seconds, strict=True))


def fastest(run: Callable[[], object], repeats: int) -> float:
    return min(side_by_side({"": run}, repeats, time.process_time)[""])


def main() -> None:
    repeats = options(__doc__, repeats=7).repeats
    torch.set_num_threads(1)
    few = max(3, repeats // 2)
    real = sizes_of("us_monthly_2000_2012", "date", 12)
    small = sizes_of("uk_annual_empluk", "year", 9)
    drawn_sizes = np.random.default_rng(0).integers(30, 301, 20).tolist()
    single = {f"layer, {n:,} firms": layers(n) for n in (500, 2000, 5000)}
    panels = {
        f"US months, {len(real)} of {min(real):,} to {max(real):,} firms": ways(real),
        f"UK years, {len(small)} of {min(small)} to {max(small)} firms": ways(small),
        f"{len(drawn_sizes)} periods of {min(drawn_sizes)} to {max(drawn_sizes)} firms": ways(drawn_sizes),
    }
    single_runs = {c: {n: backward_of(run) for n, run in runs.items()} for c, runs in single.items()}
    panel_runs = {c: {n: run for n, (run, _) in each.items()} for c, each in panels.items()}
    del panel_runs[next(iter(panels))]["torch: nested tensors"]  # 35 seconds and 4 GiB a pass
    # in forks, which must come before this process differentiates anything
    every = single_runs | panel_runs
    memory = {c: {n: mebibytes(run) for n, run in each.items()} for c, each in every.items()}
    rows = [row for c, each in single_runs.items() for row in rows_of(c, each, {}, memory[c], repeats)]
    for case, each in panel_runs.items():
        waste = {name: share for name, (_, share) in panels[case].items()}
        rows += rows_of(case, each, waste, memory[case], few if "US" in case else repeats)
    found = [[run() for run in each.values()] for each in panel_runs.values()]
    largest = max(float((g - each[0]).abs().max() / each[0].abs().max()) for each in found for g in each)
    firms, periods = (500, 1000, 2000, 4000, 8000), (5, 10, 20, 40)
    of_n = [fastest(backward_of(layers(n)["ours: MultiheadAttention"]), 3) for n in firms]
    of_T = [fastest(ways([300] * T)["ours: TransformerBlock, packed rows (sizes=)"][0], 3) for T in periods]
    publish(
        "attention",
        f"Attention, forward + backward, width {WIDTH}, {HEADS} heads, float32, one thread",
        rows,
        [
            f"Torch {torch.__version__}, CPU time of one thread. ms are the fastest of the repeats; ratio is "
            "the median of paired ratios to the first line of a case; MiB is the growth of peak memory of a process of its own.",
            f"All ways give the same gradient: largest difference {largest:.1e} of its largest entry.",
            "Nested tensors took 35 seconds and 4 GiB a pass on sizes like those of the US months, and are left out there.",
            "Figures to reach: the layer at most 1.1 times bare; ragged at most 0.5 times padded; padding at most 10 %.",
            f"One layer costs n to the power {exponent(firms[1:], of_n[1:]):.2f} from {firms[1]:,} to {firms[-1]:,} firms "
            f"({listed(firms, of_n)}); a block over T periods of 300 firms T to the power {exponent(periods, of_T):.2f} "
            f"({listed(periods, of_T)}).",
        ],
    )


if __name__ == "__main__":
    main()
