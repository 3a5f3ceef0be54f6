"""Sequence models of language on real text, each beside its cheap control: rows are run one by one and kept.

What is compared with a strong control over seeds (language model, classifier, translation of short sentences) is in
sequence.py; here is the rest. ``pruning`` takes the language model that sequence.py keeps.

python benchmarks/language.py                    runs the rows that are not kept yet, prints and writes the table
python benchmarks/language.py --rows bpe speed   these rows only; --again runs them even if kept
python benchmarks/language.py --table            runs nothing

Data: ../shared/data/sequence (PEERATTN_SHARED_DATA). Needs sacrebleu for the rows of Multi30k (extra "benchmarks").
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import language_controls as controls
from peerattn import nn
from peerattn.sequence import (
    BytePairTokenizer,
    LanguageModel,
    MaskedLanguageModel,
    Translator,
    WordTokenizer,
)
from peerattn.sequence.masked_language_model import masked_places
from report import RESULTS, kept_rows, publish

DATA = (
    Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")) / "sequence"
)
KEPT = RESULTS / "language_rows"
SHORT = 10  # words of a short sentence of Multi30k

Rows = list[dict[str, str | float]]


def row(
    what: str, figure: float, reach: str, control: str = "", seconds: float = float("nan")
) -> dict[str, str | float]:
    return {"what": what, "figure": figure, "to reach": reach, "control": control, "seconds": seconds}


def seeded(what: str, reach: str, control: str, runs: list[tuple[float, float]]) -> dict[str, str | float]:
    """One row for runs (figure, seconds) from several seeds: the mean, and each of them."""
    figures = [figure for figure, _ in runs]
    each = f" (seeds: {', '.join(f'{f:.3g}' for f in figures)})" if len(runs) > 1 else ""
    return row(what + each, float(np.mean(figures)), reach, control, float(np.mean([s for _, s in runs])))


def bpe() -> Rows:
    """Byte pairs of Multi30k against the stored merges and files, and against the plain algorithm."""
    lines = [line for k in ("en", "de") for line in multi30k(f"tokenized/train.lc.norm.tok.{k}.gz")]
    start = time.process_time()
    tokenizer = BytePairTokenizer(10_000).fit(lines)
    ours = time.process_time() - start
    n_plain = 200  # its time a merge hardly changes: all 10,000 would take 50 times as long
    start = time.process_time()
    plain = controls.plain_merges(lines, n_plain)
    theirs = (time.process_time() - start) * 10_000 / n_plain
    stored = (DATA / "multi30k/bpe10k/code").read_text(encoding="utf-8").split("\n")[1:]
    same = sum(
        " ".join(a) == b for a, b in zip(tokenizer.merges_, [line for line in stored if line], strict=True)
    )
    assert plain == tokenizer.merges_[:n_plain]
    parts = {"train": "train", "val": "valid", "test_2016_flickr": "test.2016"}
    equal, n = 0, 0
    for given, wanted in parts.items():
        for k in ("en", "de"):
            want = multi30k(f"bpe10k/{wanted}.{k}.gz")
            got = [tokenizer.segment(line) for line in multi30k(f"tokenized/{given}.lc.norm.tok.{k}.gz")]
            equal, n = equal + sum(a == b for a, b in zip(got, want, strict=True)), n + len(want)
    return [
        row("byte pairs: merges equal to the stored ones, in order", same / 10_000, "1"),
        row("byte pairs: lines equal to the stored files", equal / n, "1"),
        row("byte pairs: times faster than counting anew", theirs / ours, "10", f"{theirs:.0f} s", ours),
    ]


def shakespeare() -> tuple[str, str]:
    text = (DATA / "tinyshakespeare/input.txt").read_text(encoding="utf-8")
    return text[: int(0.9 * len(text))], text[int(0.9 * len(text)) :]


def generation() -> Rows:
    """1,000 symbols with a cache and without, on a model that looks back over all of them."""
    training, _ = shakespeare()
    model = LanguageModel(block_size=1024, max_steps=2, batch_size=1, random_state=0).fit(training[:20_000])
    written, seconds = {}, {}
    for cache in (True, False):
        start = time.perf_counter()
        written[cache] = model.generate("ROMEO:", 1000, cache=cache)
        seconds[cache] = time.perf_counter() - start
    return [
        row("generation, 1,000 symbols: cached equals uncached", float(written[True] == written[False]), "1"),
        row("generation, 1,000 symbols: times faster with a cache", seconds[False] / seconds[True], "5",
            f"{seconds[False]:.1f} s", seconds[True]),
    ]  # fmt: skip


def speed() -> Rows:
    """Training tokens a second against a plain torch.nn GPT of the same size, taking turns."""
    sizes = {"n_symbols": 70, "n_positions": 64, "n_layers": 4, "d_model": 128, "n_heads": 4}
    options = {"n_layers": 4, "d_model": 128, "n_heads": 4, "block_size": 64, "positions": "learned"}
    model = LanguageModel(**options)
    model.n_symbols_ = sizes["n_symbols"]
    ours = model._build(torch.Generator())
    models = {"ours": ours, "torch": controls.PlainGPT(**sizes)}
    counts = {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()}
    assert len(set(counts.values())) == 1, counts
    ids = torch.randint(70, (12, 65), generator=torch.Generator().manual_seed(0))
    seconds: dict[str, list[float]] = {name: [] for name in models}
    optimizers = {name: torch.optim.AdamW(m.parameters(), lr=1e-3, fused=True) for name, m in models.items()}
    for turn in range(60):
        for name, model in models.items():
            start = time.perf_counter()
            optimizers[name].zero_grad()
            logits = model(ids[:, :-1])
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
            optimizers[name].step()
            if turn >= 10:
                seconds[name].append(time.perf_counter() - start)
    ratio = float(np.median(np.array(seconds["torch"]) / np.array(seconds["ours"])))
    rates = {name: 768 / np.median(times) for name, times in seconds.items()}
    return [
        row(
            "language model: tokens a second, ours / plain torch.nn GPT",
            ratio,
            "1",
            f"{rates['torch']:,.0f} a second",
        )
    ]


def sentences() -> tuple[np.ndarray, np.ndarray]:
    raw = (DATA / "sentences/rt-polarity.all").read_bytes().decode("utf-8", errors="replace")
    lines = [line for line in raw.split("\n") if line]
    return np.array([line[2:] for line in lines], dtype=object), np.array([int(line[0]) for line in lines])


def masked() -> Rows:
    """Words masked in English Multi30k, and what the encoder gives a classifier of rt-polarity."""
    training, test = (
        multi30k(f"tokenized/{part}.lc.norm.tok.en.gz") for part in ("train", "test_2016_flickr")
    )
    tokenizer = WordTokenizer(split="spaces", min_count=2).fit(training)
    model = MaskedLanguageModel(tokenizer, random_state=0, verbose=True)
    seconds = timed(lambda: model.fit(training))
    model.save(KEPT / "masked.safetensors")
    sequences = model._read(test)
    control = controls.masked_n_gram_loss(model._read(training), sequences, masked_places(sequences))
    return [
        row("masked language model: nats a masked word, Multi30k", model.loss(test), "below the control",
            f"n-gram from both sides {control:.3f}", seconds),
    ]  # fmt: skip


def pruning() -> Rows:
    """Half of the heads of a trained language model taken out: by importance, and at random."""
    training, validation = shakespeare()
    model = LanguageModel.load(KEPT / "lm.safetensors")
    module, part = model._module(), validation[:20_000]
    numbers, block = model._read(training[:50_000]), model.block_size

    def loss(symbols: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(
            module(symbols[:, :-1]).flatten(0, 1), symbols[:, 1:].flatten()
        )

    batches = numbers[: len(numbers) // (block + 1) * (block + 1)].view(-1, block + 1).split(64)
    importance = torch.cat(list(nn.head_importance(module, loss, batches).values()))
    layers = [block.attention for block in module.stack.blocks]

    def pruned_loss(keep: torch.Tensor) -> float:
        gates = torch.zeros(len(importance)).index_fill(0, keep, 1.0).chunk(len(layers))
        with nn.head_gates(dict(zip(layers, gates, strict=True))), torch.inference_mode():
            ids = model._read(part)
            whole = ids[: len(ids) // (block + 1) * (block + 1)].view(-1, block + 1)
            return float(loss(whole))

    half = len(importance) // 2
    by_importance = pruned_loss(nn.most_important(importance, half))
    whole = pruned_loss(torch.arange(len(importance)))
    at_random = [
        pruned_loss(torch.randperm(len(importance), generator=torch.Generator().manual_seed(k))[:half])
        for k in range(10)
    ]
    return [
        row("half of the heads kept by importance: nats a character", by_importance, "below random",
            f"at random {np.mean(at_random):.3f} (best of 10: {min(at_random):.3f}); all heads {whole:.3f}")
    ]  # fmt: skip


def copying() -> Rows:
    """The copy task: 11 symbols, learned up to length 10, asked for at length 10 and for longer ones."""
    rng = np.random.default_rng(0)

    def texts(n: int, lengths: range) -> list[str]:
        return [" ".join(map(str, rng.integers(0, 11, rng.choice(lengths)))) for _ in range(n)]

    given, runs = texts(6000, range(1, 11)), []
    tests = {"length 10": texts(500, range(10, 11)), "lengths 11 to 20": texts(500, range(11, 21))}
    for seed in range(3):
        model = Translator(
            WordTokenizer(split="spaces"), n_layers=1, n_heads=4, d_model=128, position_shift=20, dropout=0.0,
            label_smoothing=0.0, max_steps=2500, average=100, learning_rate=2e-3, n_beams=1,
            random_state=seed, verbose=True,
        )  # fmt: skip
        seconds = timed(lambda m=model: m.fit(given, given))
        exact = {name: np.mean([a == b for a, b in zip(m_, model.predict(m_))]) for name, m_ in tests.items()}
        runs.append((exact, seconds))
    return [
        seeded(
            f"copy task, {name}: exact", "at least 0.99", "", [(float(exact[name]), s) for exact, s in runs]
        )
        for name in tests
    ]


def translation_pairs(part: str, longest: int | None) -> tuple[list[str], list[str]]:
    pairs = list(zip(*(multi30k(f"tokenized/{part}.lc.norm.tok.{k}.gz") for k in ("en", "de")), strict=True))
    kept = [(s, t) for s, t in pairs if longest is None or max(len(s.split()), len(t.split())) <= longest]
    return [s for s, _ in kept], [t for _, t in kept]


def short_translator() -> Translator:
    """Return the model for sentences of at most 10 words."""
    return Translator(
        BytePairTokenizer(4000), n_layers=2, dropout=0.3, max_steps=1000, average=200, learning_rate=2e-3,
        random_state=0, verbose=True,
    )  # fmt: skip


def full_translation() -> Rows:
    """All of Multi30k; with an accelerator."""
    import sacrebleu

    metric = sacrebleu.BLEU(tokenize="none", force=True)
    source, target = translation_pairs("train", None)
    asked, wanted = translation_pairs("test_2016_flickr", None)
    model = Translator(
        BytePairTokenizer(10_000), dropout=0.3, max_steps=20_000, batch_size=128, learning_rate=2e-3, average=2000,
        device="cuda" if torch.cuda.is_available() else "cpu", random_state=0, verbose=True,
    )  # fmt: skip
    seconds = timed(lambda: model.fit(source, target))
    model.save(KEPT / "full_translation.safetensors")
    copied, ours = (metric.corpus_score(one, [wanted]).score for one in (asked, model.predict(asked)))
    return [
        row(f"Multi30k en to de, all ({len(source):,} pairs): BLEU ({metric.get_signature()})", ours, "at least 39",
            f"copying the source {copied:.1f}", seconds)
    ]  # fmt: skip


def multi30k(name: str) -> list[str]:
    with gzip.open(DATA / "multi30k" / name, "rt", encoding="utf-8", newline="\n") as file:
        return file.read().rstrip("\n").split("\n")


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


ROWS: dict[str, Callable[[], Rows]] = {
    "bpe": bpe,
    "generation": generation,
    "speed": speed,
    "pruning": pruning,
    "masked": masked,
    "copying": copying,
    "full_translation": full_translation,
}
WANTS_ACCELERATOR = {"full_translation"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", nargs="+", choices=ROWS, help="default: all but those that want an accelerator"
    )
    parser.add_argument("--again", action="store_true", help="run rows that are kept, too")
    parser.add_argument("--table", action="store_true", help="only print and write what is kept")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    wanted = options.rows or [name for name in ROWS if name not in WANTS_ACCELERATOR]
    found, missing = kept_rows("language_rows", ROWS, [] if options.table else wanted, again=options.again)
    notes = [
        "Seconds: wall-clock time of the fit, on a CPU unless said. Three seeds where a run takes at most 2 minutes.",
        "BLEU by sacrebleu on tokenised lower case.",
    ]
    if missing:
        notes.append(f"Not run yet: {', '.join(missing)}.")
    publish("language", "Language models on real text, each beside its control", found, notes)


if __name__ == "__main__":
    main()
