"""Loss of a small language model by its size and by the text it learns from, beside a recurrent network of the same size.

python benchmarks/size_and_text.py [--rows size text] [--again]

The text is what every installation has, the docstrings of numpy: one in twenty is held out. Nats a character, 600 steps of 16
blocks of 64 characters, one seed.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from peerattn.nn import linear
from peerattn.sequence import CharacterTokenizer, LanguageModel
from peerattn.training import train
from report import Row, kept_rows, publish

BLOCK, BATCH, STEPS, RATE = 64, 16, 600, 5e-3
WIDTHS = {"transformer": (8, 16, 32, 64), "recurrent network (GRU)": (12, 22, 46, 90)}  # as many parameters
AMOUNTS = (10_000, 40_000, 160_000, 640_000)


def docstrings() -> tuple[str, str]:
    """Return the text to learn from, and the text held out."""
    found = [inspect.getdoc(getattr(np, name)) or "" for name in sorted(np.__all__) if name != "test"]
    order = np.random.default_rng(0).permutation(len(found))
    held = set(order[: len(found) // 20].tolist())
    return tuple("\n".join(doc for k, doc in enumerate(found) if (k in held) == out) for out in (False, True))  # type: ignore[return-value]


def transformer(width: int, shown: str, held: str, tokenizer: CharacterTokenizer) -> tuple[int, float]:
    """Return parameters, and the loss on the text held out."""
    model = LanguageModel(
        tokenizer, n_layers=2, n_heads=max(1, width // 16), d_model=width, block_size=BLOCK, max_steps=STEPS,
        batch_size=BATCH, learning_rate=RATE, random_state=0,
    ).fit(shown)  # fmt: skip
    return sum(value.size for value in model.state_.values()), model.loss(held)


class Recurrent(torch.nn.Module):
    """Two layers of gated recurrent units (Cho et al. 2014); the output is tied to the input."""

    def __init__(self, n_symbols: int, width: int, generator: torch.Generator):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
            self.embed = torch.nn.Embedding(n_symbols, width)
            self.stack = torch.nn.GRU(width, width, 2, batch_first=True)
        self.read = linear(width, width, generator=generator)

    def forward(self, symbols: Tensor) -> Tensor:
        """Return the logits of the symbols that follow each of (B, n)."""
        return F.linear(self.read(self.stack(self.embed(symbols))[0]), self.embed.weight)


def recurrent(width: int, shown: str, held: str, tokenizer: CharacterTokenizer) -> tuple[int, float]:
    """Return parameters, and the loss on the text held out; trained as the transformer is."""
    generator = torch.Generator().manual_seed(0)
    model = Recurrent(len(tokenizer.symbols_), width, generator)
    text, later = (torch.tensor(tokenizer.encode(part)) for part in (shown, held))

    def loss(blocks: Tensor) -> Tensor:
        return F.cross_entropy(model(blocks[:, :-1]).flatten(0, 1), blocks[:, 1:].flatten())

    def batches() -> Iterator[Tensor]:
        while True:
            at = torch.randint(len(text) - BLOCK, (BATCH, 1), generator=generator)
            yield text[at + torch.arange(BLOCK + 1)]

    train(model, loss, batches(), max_steps=STEPS, learning_rate=RATE, schedule="cosine", weight_decay=0.1)
    with torch.no_grad():
        left = loss(later[: len(later) // (BLOCK + 1) * (BLOCK + 1)].view(-1, BLOCK + 1))
    return sum(p.numel() for p in model.parameters()), left.item()


def measured(by: str, runs: list[tuple[str, int, int]]) -> list[Row]:
    """Fit each (model, width, characters of text)."""
    shown, held = docstrings()
    tokenizer = CharacterTokenizer().fit([shown])
    counts = np.bincount(tokenizer.encode(shown), minlength=len(tokenizer.symbols_)) + 1
    alone = -np.log(counts / counts.sum())[tokenizer.encode(held)].mean()
    rows: list[Row] = []
    for name, width, n in runs:
        start = time.process_time()
        fit: Any = transformer if name == "transformer" else recurrent
        size, loss = fit(width, shown[:n], held, tokenizer)
        rows.append(
            {"by": by, "model": name, "width": width, "parameters": size, "characters": min(n, len(shown)),
             "nats": loss, "characters' frequency alone": float(alone), "CPU s": time.process_time() - start}
        )  # fmt: skip
    return rows


ROWS = {
    "size": lambda: measured("size", [(name, w, 10**7) for name, widths in WIDTHS.items() for w in widths]),
    "text": lambda: measured("text", [("transformer", 32, n) for n in AMOUNTS]),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--again", action="store_true", help="run rows that are kept, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, _ = kept_rows("size_and_text", ROWS, options.rows, again=options.again)
    notes = [
        f"numpy {np.__version__}, torch {torch.__version__}. {STEPS} steps of {BATCH} blocks of {BLOCK} characters, one seed; "
        "two layers each; loss on docstrings that were held out."
    ]
    publish("size_and_text", "Loss by size and by text", rows, notes)


if __name__ == "__main__":
    main()
