"""What benchmarks of sequence models share: real text and series, cheap controls, and where fitted models are kept.

Data: ../shared/data/sequence (PEERATTN_SHARED_DATA). BLEU needs sacrebleu (extra "benchmarks").
"""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from peerattn.sequence import BytePairTokenizer, Translator
from report import RESULTS, SHARED

DATA = SHARED / "sequence"
KEPT = RESULTS / "language_rows"
SHORT = 10  # words of a short sentence of Multi30k


def shakespeare() -> tuple[str, str]:
    text = (DATA / "tinyshakespeare/input.txt").read_text(encoding="utf-8")
    return text[: int(0.9 * len(text))], text[int(0.9 * len(text)) :]


def sentences() -> tuple[np.ndarray, np.ndarray]:
    raw = (DATA / "sentences/rt-polarity.all").read_bytes().decode("utf-8", errors="replace")
    lines = [line for line in raw.split("\n") if line]
    return np.array([line[2:] for line in lines], dtype=object), np.array([int(line[0]) for line in lines])


def multi30k(name: str) -> list[str]:
    with gzip.open(DATA / "multi30k" / name, "rt", encoding="utf-8", newline="\n") as file:
        return file.read().rstrip("\n").split("\n")


def translation_pairs(part: str, longest: int | None) -> tuple[list[str], list[str]]:
    pairs = list(zip(*(multi30k(f"tokenized/{part}.lc.norm.tok.{k}.gz") for k in ("en", "de")), strict=True))
    kept = [(s, t) for s, t in pairs if longest is None or max(len(s.split()), len(t.split())) <= longest]
    return [s for s, _ in kept], [t for _, t in kept]


def bleu(translated: Sequence[str], wanted: Sequence[str]) -> tuple[float, str]:
    """Return the corpus BLEU of translations, in the words that they are split in, and sacrebleu's signature of it."""
    import sacrebleu

    metric = sacrebleu.BLEU(tokenize="none", force=True)
    score = metric.corpus_score(translated, [wanted]).score
    return score, str(metric.get_signature())


def short_translator() -> Translator:
    """Return the model for sentences of at most 10 words."""
    return Translator(
        BytePairTokenizer(4000), n_layers=2, dropout=0.3, max_steps=1000, average=200, learning_rate=2e-3,
        random_state=0, verbose=True,
    )  # fmt: skip


def full_translator(max_steps: int = 6000, device: str = "cpu") -> Translator:
    """Return the model for all sentences of Multi30k, of the size that the published figure is for (Wu et al. 2021)."""
    return Translator(
        BytePairTokenizer(10_000), n_layers=4, n_heads=4, d_model=128, d_feedforward=256, copy=False, dropout=0.3,
        label_smoothing=0.1, max_steps=max_steps, average=min(500, max_steps), batch_size=128, learning_rate=5e-3,
        random_state=0, device=device,
    )  # fmt: skip


def nab_series() -> Iterator[tuple[str, np.ndarray, np.ndarray, int]]:
    """Yield name, values, labels and the number of first rows that are learned from and not scored."""
    folder = DATA / "nab"
    for path, spans in json.loads((folder / "combined_windows.json").read_text(encoding="utf-8")).items():
        table = pd.read_csv(folder / path, parse_dates=["timestamp"])
        labels = np.zeros(len(table), dtype=bool)
        for first, last in spans:
            labels |= table["timestamp"].between(pd.Timestamp(first), pd.Timestamp(last)).to_numpy()
        yield Path(path).stem, table["value"].to_numpy(float), labels, min(int(0.15 * len(table)), 750)


def rolling_z(values: np.ndarray, window: int = 96) -> np.ndarray:
    """Return how far each value is from the mean of those before it, in their standard deviations."""
    past = pd.Series(values).shift(1).rolling(window, min_periods=2)
    found = (pd.Series(values) - past.mean()).abs() / (past.std() + 1e-9)
    return found.fillna(0.0).to_numpy()


def timed(run: Callable[[], float | dict[str, float]]) -> tuple[Any, float]:
    """Return what a run gives, and its processor seconds."""
    start = time.process_time()
    found = run()
    return found, time.process_time() - start


def n_gram_losses(training: str, text: str, order: int = 5) -> np.ndarray:
    """Nats of each character but the first, by an interpolated n-gram (Witten and Bell)."""
    seen: list[defaultdict[str, Counter[str]]] = [defaultdict(Counter) for _ in range(order)]
    for k in range(order):
        for t in range(k, len(training)):
            seen[k][training[t - k : t]][training[t]] += 1
    n_symbols = len(set(training)) + 1
    losses = np.empty(len(text) - 1)
    for t in range(1, len(text)):
        p = 1 / n_symbols
        for k in range(min(order, t + 1)):
            after = seen[k].get(text[t - k : t])
            if after is None:
                break
            n, kinds = after.total(), len(after)
            p = (after[text[t]] + kinds * p) / (n + kinds)
        losses[t - 1] = -np.log(p)
    return losses


def tf_idf(X: Sequence[str], y: np.ndarray, X_test: Sequence[str]) -> np.ndarray:
    """Classes by a logistic regression on tf-idf of words and pairs of words."""
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    model = make_pipeline(words, LogisticRegression(C=10, max_iter=1000))
    return np.asarray(model.fit(X, y).predict(X_test))
