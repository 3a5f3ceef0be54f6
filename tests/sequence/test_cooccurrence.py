"""Where the masked language model starts: factored co-occurrences against dense plain code, and frequencies."""

from __future__ import annotations

import numpy as np
import pytest

from peerattn.sequence import MaskedLanguageModel
from peerattn.sequence.masked_language_model import NEAR, cooccurrence_vectors, log_frequencies


def information_by_hand(texts: list[list[int]], n: int) -> np.ndarray:
    counts = np.zeros((n, n))
    for text in texts:
        for i, a in enumerate(text):
            for j, b in enumerate(text):
                counts[a, b] += i != j and abs(i - j) <= NEAR
    smoothed = counts.sum(1) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(counts / counts.sum(1, keepdims=True) / (smoothed / smoothed.sum()))
    return np.where(found > 0, found, 0.0)  # nan where a symbol stands alone


def test_vectors_factor_the_positive_information_of_plain_code():
    rng = np.random.default_rng(0)
    n = 12
    texts = [rng.choice(n - 1, rng.integers(1, 15), p=rng.dirichlet(np.ones(n - 1))).tolist() for _ in range(30)]
    left, values, _ = np.linalg.svd(information_by_hand(texts, n))
    for d in (4, 20):  # fewer and more columns than symbols
        vectors = cooccurrence_vectors(texts, n, d)
        wanted = (left * values)[:, :d] @ left[:, :d].T
        np.testing.assert_allclose(vectors @ vectors.T, wanted * n / np.trace(wanted), atol=1e-8)
        assert vectors.shape == (n, d) and (vectors**2).sum() == pytest.approx(n)
    assert not vectors[n - 1].any()  # never seen


def test_texts_of_one_symbol_give_no_vectors():
    assert not cooccurrence_vectors([[0], [1]], 2, 3).any()


def test_masked_model_starts_from_counts():
    rng = np.random.default_rng(1)
    groups = [["wolf", "bear", "deer"], ["oak", "elm", "ash"]]
    near = [["runs", "hunts", "sleeps"], ["leaf", "root", "bark"]]
    texts = [f"{rng.choice(groups[g])} {rng.choice(near[g])} {rng.choice(near[g])}" for g in rng.integers(0, 2, 400)]
    options = {"n_layers": 1, "n_heads": 2, "d_model": 16, "max_steps": 1, "random_state": 0}
    model = MaskedLanguageModel(**options, learning_rate=1e-9).fit(texts)
    sequences = [model.tokenizer_.encode(text) for text in texts]
    n_symbols = len(model.tokenizer_.symbols_)
    np.testing.assert_allclose(model.state_["popularity"], log_frequencies(sequences, n_symbols), atol=1e-5)
    numbers = model.tokenizer_.numbers
    rows = model.state_["encoder.embedding.tokens.weight"]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    wolf, bear, oak = (rows[numbers[word]] for word in ("wolf", "bear", "oak"))
    assert wolf @ bear > 0.8 and abs(wolf @ oak) < 0.3
