"""What a user would try before a transformer: n-grams, tf-idf, plain byte pairs, a GPT of torch.nn's own layers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from peerattn.sequence.tokenizers import START


def plain_merges(lines: Sequence[str], n_merges: int) -> list[tuple[str, str]]:
    """Byte pairs by counting all pairs anew for every merge."""
    words = {(*word[:-1], word[-1] + "</w>"): n for word, n in Counter(" ".join(lines).split()).items()}
    merges = []
    for _ in range(n_merges):
        counts: Counter[tuple[str, str]] = Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                counts[pair] += n
        best = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append(best)
        merged_words: dict[tuple[str, ...], int] = {}
        for word, n in words.items():
            merged, k = [], 0
            while k < len(word):
                whole = word[k : k + 2] == best
                merged.append("".join(best) if whole else word[k])
                k += 2 if whole else 1
            merged_words[tuple(merged)] = merged_words.get(tuple(merged), 0) + n
        words = merged_words
    return merges


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


def masked_n_gram_loss(
    training: Sequence[Sequence[int]], test: Sequence[Sequence[int]], masked: Sequence[Sequence[bool]]
) -> float:
    """Nats a masked word: from both neighbours, either one and none, mixed with the best of a grid of weights.

    The weights are chosen on the test text itself, in the control's favour.
    """
    contexts: list[defaultdict[tuple[int, int], Counter[int]]] = [defaultdict(Counter) for _ in range(4)]
    n_symbols = 1 + max(max(sequence) for sequence in [*training, *test])

    def around(sequence: Sequence[int], t: int, hidden: Sequence[bool] | None) -> list[tuple[int, int]]:
        """Both neighbours, the left one, the right one, none; a masked neighbour is not known (-1)."""
        left = sequence[t - 1] if hidden is None or not hidden[t - 1] else -1
        inside = t + 1 < len(sequence)
        right = START if not inside else sequence[t + 1] if hidden is None or not hidden[t + 1] else -1
        return [(left, right), (left, -2), (-2, right), (-2, -2)]

    for sequence in training:
        for t in range(1, len(sequence)):
            for k, context in enumerate(around(sequence, t, None)):
                contexts[k][context][sequence[t]] += 1
    probabilities = []
    for sequence, hidden in zip(test, masked, strict=True):
        for t in range(1, len(sequence)):
            if hidden[t]:
                found = [contexts[k].get(c, Counter()) for k, c in enumerate(around(sequence, t, hidden))]
                probabilities.append([c[sequence[t]] / max(c.total(), 1) for c in found] + [1 / n_symbols])
    p = np.array(probabilities)
    grid = [
        (both, left, right, none, 0.01)
        for both in (0.2, 0.35, 0.5, 0.65)
        for left in (0.1, 0.2, 0.3, 0.4)
        for right in (0.05, 0.1, 0.2, 0.3)
        if (none := 0.99 - both - left - right) > 0.02
    ]
    return float(min(-np.log(p @ np.array(weights)).mean() for weights in grid))


def tf_idf(X: Sequence[str], y: np.ndarray, X_test: Sequence[str]) -> np.ndarray:
    """Classes by a logistic regression on tf-idf of words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=10, max_iter=1000)
    )
    return np.asarray(model.fit(X, y).predict(X_test))


class PlainGPT(torch.nn.Module):
    """The same model from torch.nn's own layers."""

    def __init__(self, n_symbols: int, n_positions: int, n_layers: int, d_model: int, n_heads: int):
        super().__init__()
        self.tokens = torch.nn.Embedding(n_symbols, d_model)
        self.positions = torch.nn.Embedding(n_positions, d_model)
        layer = torch.nn.TransformerEncoderLayer(
            d_model, n_heads, 4 * d_model, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.stack = torch.nn.TransformerEncoder(
            layer, n_layers, norm=torch.nn.LayerNorm(d_model), enable_nested_tensor=False
        )

    def forward(self, symbols: Tensor) -> Tensor:
        """Return the logits (B, n, n_symbols)."""
        n = symbols.shape[1]
        x = self.tokens(symbols) + self.positions(torch.arange(n))
        mask = torch.nn.Transformer.generate_square_subsequent_mask(n)
        return self.stack(x, mask=mask, is_causal=True) @ self.tokens.weight.T
