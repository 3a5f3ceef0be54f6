"""A GPU: heads beside the CPU's, the layer beside bare SDPA, a language model beside a bare torch loop, a translator's score.

python benchmarks/gpu.py [--tasks heads layer language translator] [--tiny]

The figures need a CUDA GPU. Without one, or with --tiny, everything runs in tiny settings on whatever there is, which shows that
the script works and nothing else; no results are written then. Texts are those of the shared data folder (environment variable
PEERATTN_SHARED_DATA, else ../shared/data); the translator's score needs sacrebleu.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from texts_and_series import bleu, full_translator, translation_pairs
from torch import Tensor, nn

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.nn import MultiheadAttention, TransformerBlock
from peerattn.sequence import LanguageModel
from peerattn.training import multiplied_in
from report import SHARED, Row, median_ratio, options, publish, side_by_side

NEEDS_GPU = "No CUDA GPU here: the figures need one. Tiny settings only show that the script runs."


@dataclass(frozen=True)
class Sizes:
    """How large the tasks are."""

    panels: tuple[tuple[int, int], ...] = ((100, 40), (1000, 20))
    layers: tuple[tuple[int, int, int], ...] = ((2000, 64, 4), (8000, 256, 8), (32000, 512, 8))
    repeats: int = 50
    blocks: int = 6
    width: int = 384
    block_size: int = 256
    batch: int = 64
    speed_steps: int = 200
    steps: int = 3000
    pairs: int | None = None
    translator_steps: int = 6000


TINY = Sizes(((20, 12),), ((20, 8, 2),), 2, 1, 12, 8, 2, 3, 3, 40, 2)


def wait(device: str) -> None:
    """Wait until the device has done its work."""
    if device == "cuda":
        torch.cuda.synchronize()


def heads(device: str, sizes: Sizes) -> list[Row]:
    """Fits of heads on both devices: seconds, and the correlation of their predictions on the last quarter of the periods."""
    rows: list[Row] = []
    for n_firms, n_periods in sizes.panels:
        panel = simulate_panel(n_firms, n_periods, 6, random_state=0)
        period = panel.X.index.get_level_values("period")
        train = np.asarray(period < np.unique(period)[int(0.75 * n_periods)])
        seconds, found = {}, {}
        for place in ("cpu", device):
            start = time.perf_counter()
            model = PeerAttentionRegressor(random_state=0).fit(panel.X[train], panel.y[train], device=place)
            seconds[place] = time.perf_counter() - start
            found[place] = np.asarray(model.predict(panel.X[~train]))
        agree = float(np.corrcoef(found["cpu"], found[device])[0, 1])
        what = f"heads, {n_firms:,} firms × {n_periods}: correlation with the CPU's predictions"
        rows.append(row(what, agree, "≥ .9999", f"{seconds[device]:.1f} s, CPU {seconds['cpu']:.1f} s"))
    return rows


def layer(device: str, sizes: Sizes) -> list[Row]:
    """The attention layer, forward and backward, beside bare SDPA and linear maps."""
    rows: list[Row] = []
    for kind in (torch.float32, torch.bfloat16):
        for n, width, n_heads in sizes.layers:
            x = torch.randn(1, n, width, device=device, dtype=kind, requires_grad=True)
            ours = MultiheadAttention(width, n_heads).to(device, kind)
            block = TransformerBlock(width, n_heads).to(device, kind)
            maps = nn.ModuleList(nn.Linear(width, width) for _ in range(4)).to(device, kind)
            theirs = nn.TransformerEncoderLayer(
                width, n_heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True, device=device, dtype=kind
            )

            def bare(x: Tensor = x, maps: nn.ModuleList = maps, n_heads: int = n_heads) -> Tensor:
                q, k, v = (each(x).unflatten(-1, (n_heads, -1)).transpose(1, 2) for each in list(maps)[:3])
                return maps[3](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

            def both_ways(forward: Callable[..., Tensor], x: Tensor = x) -> Callable[[], None]:
                def run() -> None:
                    forward(x).square().mean().backward()
                    wait(device)

                return run

            runs = {"bare": both_ways(bare), "ours": both_ways(ours)}
            runs |= {"block": both_ways(block), "torch": both_ways(theirs)}
            seconds = side_by_side(runs, sizes.repeats)
            name = f"{str(kind).removeprefix('torch.')}, n = {n:,}, width {width}"
            ratio = median_ratio(seconds["ours"], seconds["bare"])
            rows.append(row(f"layer, {name}: time by bare SDPA + linear maps", ratio, "≤ 1.1", ""))
            ratio = median_ratio(seconds["block"], seconds["torch"])
            rows.append(row(f"block, {name}: time by torch's encoder layer", ratio, "", ""))
    return rows


class BareModel(nn.Module):
    """A language model of torch's own parts."""

    def __init__(self, n_symbols: int, sizes: Sizes, n_heads: int):
        super().__init__()
        self.symbols = nn.Embedding(n_symbols, sizes.width)
        self.positions = nn.Embedding(sizes.block_size, sizes.width)
        shape = (sizes.width, n_heads, 4 * sizes.width, 0.2, "gelu")
        blocks = (nn.TransformerEncoderLayer(*shape, batch_first=True, norm_first=True) for _ in range(sizes.blocks))
        self.blocks = nn.ModuleList(blocks)
        self.output = nn.Linear(sizes.width, n_symbols)

    def forward(self, symbols: Tensor) -> Tensor:  # noqa: D102
        rows = self.symbols(symbols) + self.positions.weight
        mask = nn.Transformer.generate_square_subsequent_mask(symbols.shape[1], device=symbols.device)
        for block in self.blocks:
            rows = block(rows, src_mask=mask, is_causal=True)
        return self.output(rows)


def bare_speed(numbers: Tensor, sizes: Sizes, n_heads: int, precision: str, compiled: bool) -> float:
    """Return the symbols a second that a bare torch loop learns from."""
    device = numbers.device
    model = BareModel(int(numbers.max()) + 1, sizes, n_heads).to(device)
    forward = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    within = torch.arange(sizes.block_size + 1, device=device)

    def step() -> None:
        starts = torch.randint(len(numbers) - sizes.block_size - 1, (sizes.batch, 1), device=device)
        batch = numbers[starts + within]
        with multiplied_in(precision, device):
            loss = F.cross_entropy(forward(batch[:, :-1]).flatten(0, 1).float(), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for _ in range(2):
        step()
    wait(device.type)
    start = time.perf_counter()
    for _ in range(sizes.speed_steps):
        step()
    wait(device.type)
    return sizes.speed_steps * sizes.batch * sizes.block_size / (time.perf_counter() - start)


def language(device: str, sizes: Sizes) -> list[Row]:
    """Tiny Shakespeare: speed beside bare torch in the same precision, and nats of held-out text."""
    text = (SHARED / "sequence" / "tinyshakespeare" / "input.txt").read_text()
    train, held = text[: int(0.9 * len(text))], text[int(0.9 * len(text)) :]
    n_heads = sizes.width // 64 or 1
    common = {"n_layers": sizes.blocks, "n_heads": n_heads, "d_model": sizes.width, "block_size": sizes.block_size}
    common |= {"batch_size": sizes.batch, "dropout": 0.2, "learning_rate": 1e-3, "random_state": 0, "device": device}
    symbols = sorted(set(text))
    numbers = torch.tensor([symbols.index(each) for each in train], device=device)
    rows: list[Row] = []
    gpu = device == "cuda"
    for precision in ("float32", "tf32", "bfloat16") if gpu else ("float32", "bfloat16"):
        for compiled in (False, True) if gpu and precision == "bfloat16" else (False,):
            options = {**common, "precision": precision, "compile": compiled}
            LanguageModel(**options, max_steps=2).fit(train)  # whatever is made once
            start = time.perf_counter()
            LanguageModel(**options, max_steps=sizes.speed_steps).fit(train)
            wait(device)
            ours = sizes.speed_steps * sizes.batch * sizes.block_size / (time.perf_counter() - start)
            bare = bare_speed(numbers, sizes, n_heads, precision, compiled)
            name = f"language model, {precision}{', compiled' * compiled}: symbols a second by a bare torch loop's"
            rows.append(row(name, ours / bare, "≥ .9", f"{ours / 1e6:.2f} M and {bare / 1e6:.2f} M"))
    start = time.perf_counter()
    model = LanguageModel(**common, max_steps=sizes.steps).fit(train)
    seconds = time.perf_counter() - start
    nats = model.loss(held if gpu else held[:2000])
    rows.append(row(f"Tiny Shakespeare, {sizes.steps:,} steps: nats", nats, "≤ 1.48", f"{seconds:.0f} s"))
    return rows


def translator(device: str, sizes: Sizes) -> list[Row]:
    """Multi30k, English to German: BLEU of the test of 2016."""
    import sacrebleu  # noqa: F401  # where it is missing, an error before the fit

    source, target = (each[: sizes.pairs] for each in translation_pairs("train", None))
    asked, wanted = (each[: sizes.pairs] for each in translation_pairs("test_2016_flickr", None))
    model = full_translator(sizes.translator_steps, device)
    start = time.perf_counter()
    model.fit(source, target)
    seconds = time.perf_counter() - start
    score, _ = bleu(list(model.predict(asked)), wanted)
    step = 1000 * seconds / sizes.translator_steps
    return [row("Multi30k en to de: BLEU", score, "≥ 38 in ten minutes", f"{seconds:.0f} s, {step:.1f} ms a step")]


def row(what: str, value: float, wanted: str, beside: str) -> Row:
    return {"what": what, "figure": value, "wanted": wanted, "beside": beside}


TASKS = {"heads": heads, "layer": layer, "language": language, "translator": translator}


def main() -> None:
    wanted = options(__doc__, tasks=TASKS, tiny=False)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tiny = wanted.tiny or device == "cpu"
    sizes = TINY if tiny else Sizes()
    rows = [each for name in wanted.tasks for each in TASKS[name](device, sizes)]
    if tiny:
        print(*(" | ".join(map(str, each.values())) for each in rows), sep="\n")
        print(NEEDS_GPU if device == "cpu" else "Tiny settings: no figures.")
        return
    publish("gpu", f"On one GPU ({torch.cuda.get_device_name()})", rows, ["Medians of paired runs; one run of each fit."])


if __name__ == "__main__":
    main()
