"""What attention within a window, to few keys, and by random features costs and loses, beside attention to all pairs.

python benchmarks/cheaper.py [--rows blocks language_models] [--again]

Rows of a block in one forward pass, with equal weights; and a language model on tiny Shakespeare (../shared/data/sequence,
PEERATTN_SHARED_DATA): fitted with all pairs and read cheaper, and fitted cheaper.
"""

from __future__ import annotations

import time
from typing import Any

import texts_and_series as shared
import torch
from attention import drawn, mebibytes

from peerattn.nn import TransformerBlock, causal_mask, cheaper_attention
from peerattn.sequence import LanguageModel
from report import Row, kept_rows, median_ratio, options, publish, side_by_side

N, WIDTH, HEADS, BLOCK, READ = 8000, 64, 4, 256, 20_000
WAYS: dict[str, dict[str, int]] = {
    "all pairs": {},
    "window=64": {"window": 64},
    "keep=16": {"keep": 16},
    "n_features=64": {"n_features": 64},
    "n_features=256": {"n_features": 256},
}


def blocks() -> list[Row]:
    """One causal block over 8,000 rows: seconds, memory, and the distance from all pairs."""
    x = drawn(1, N, WIDTH)

    def call(given: dict[str, int], n: int = N) -> torch.Tensor:
        causal = bool(given)
        attend = cheaper_attention(causal=causal, **given)
        block = TransformerBlock(WIDTH, HEADS, rotary=True, attend=attend)
        with torch.no_grad():
            return torch.as_tensor(block(x[:, :n], mask=None if causal else causal_mask(n)))

    runs = {name: (lambda given=given: call(given)) for name, given in WAYS.items()}
    for given in WAYS.values():
        call(given, 100)  # what libraries set up once is not the memory of a pass
    memory = {name: mebibytes(run) for name, run in runs.items()}
    seconds = side_by_side(runs, 1, time.process_time)
    found = {name: run() for name, run in runs.items()}
    exact = found["all pairs"]
    return [
        {
            "case": f"a block over {N:,} rows",
            "attention": name,
            "CPU s": min(seconds[name]),
            "times all pairs": median_ratio(seconds[name], seconds["all pairs"]),
            "MiB": f"{memory[name]:,.0f}",
            "error": float((found[name] - exact).norm() / exact.norm()),
            "error is": "of the rows, relative",
        }
        for name in runs
    ]


def language_models(steps: int = 200) -> list[Row]:
    """Nats a character of text that no model was fitted on."""
    training, test = shared.shakespeare()
    size: dict[str, Any] = {"n_layers": 2, "d_model": WIDTH, "n_heads": HEADS, "block_size": BLOCK}

    def fitted(given: dict[str, int]) -> tuple[LanguageModel, float]:
        start = time.process_time()
        model = LanguageModel(**size, **given, max_steps=steps, batch_size=4, random_state=0).fit(training)
        return model, time.process_time() - start

    def read(model: LanguageModel) -> tuple[float, float]:
        start = time.process_time()
        return model.loss(test[:READ]), time.process_time() - start

    exact, seconds = fitted({})
    nats, reading = read(exact)
    whole = {"read only": reading, "fitted, too": seconds}
    rows: list[Row] = []
    for name, given in WAYS.items():
        asked = dict.fromkeys(("window", "keep", "n_features")) | given
        figures = {"read only": read(exact.set_params(**asked))}
        model, spent = fitted(given) if given else (exact, seconds)
        figures["fitted, too"] = read(model)[0], spent
        for how, (loss, spent) in figures.items():
            rows.append(
                {
                    "case": f"language model, blocks of {BLOCK:,}, {how}",
                    "attention": name,
                    "CPU s": spent,
                    "times all pairs": spent / whole[how],
                    "MiB": "",
                    "error": loss - nats,
                    "error is": f"nats above {nats:.3f}",
                }
            )
    return rows


ROWS = {"blocks": blocks, "language_models": language_models}


def main() -> None:
    asked = options(__doc__, rows=ROWS, again=False)
    torch.set_num_threads(1)
    rows, _ = kept_rows("cheaper", ROWS, asked.rows, again=asked.again)
    notes = [
        f"Torch {torch.__version__}, CPU time of one thread. A block of width {WIDTH} with {HEADS} heads, causal, at its start, "
        "forward; MiB is the growth of peak memory of a process of its own.",
        f"Language model: 2 layers of width {WIDTH}, 200 steps of 4 blocks; loss on {READ:,} characters that were not "
        "fitted on. read only: fitted with all pairs, then model.set_params(...).",
        "keep: fewer neighbours, not fewer operations, as its documentation says. n_features: rough where queries and keys are "
        "long, in the block too; more features need not be nearer in one draw.",
    ]
    publish("cheaper", "Cheaper attention beside all pairs", rows, notes)


if __name__ == "__main__":
    main()
