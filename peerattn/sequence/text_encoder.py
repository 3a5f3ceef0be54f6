"""Whole texts read at once, both ways: the module behind the masked language model and the classifier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from peerattn import nn
from peerattn.exceptions import check_at_least
from peerattn.sequence.attention_map import AttentionMap, stacked
from peerattn.sequence.base import SequenceEstimator
from peerattn.sequence.tokenizers import START, Tokenizer, check_texts, pad

_READ_AT_ONCE = 256  # texts
BERT_EPS = 1e-12  # of its normalisations


class TextEncoder(torch.nn.Module):
    """Symbols to rows: embedding and a stack in which every row sees all rows of its text."""

    def __init__(self, embedding: nn.InputEmbedding, stack: nn.Encoder):
        super().__init__()
        self.embedding, self.stack = embedding, stack

    def forward(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        """Return the rows (B, n, d_model) of symbols (B, n)."""
        rows: Tensor = self.stack(self.embedding(symbols), mask=nn.padding_mask(lengths, symbols.shape[1]))
        return rows

    def mean(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        """Return the mean of each text's rows, (B, d_model)."""
        there = nn.padding_mask(lengths, symbols.shape[1])[:, 0].mT  # (B, n, 1)
        return (self(symbols, lengths) * there).sum(1) / lengths[:, None]


class TextEstimator(SequenceEstimator):
    """What the models that read texts with a :class:`TextEncoder` share.

    A text is read as ``<start>`` and its first ``n_positions - 1`` symbols.
    """

    _fitted: ClassVar[tuple[str, ...]] = ("tokenizer_", "state_")
    tokenizer_: Tokenizer
    tokenizer: Any
    n_positions: int
    n_layers: int
    n_heads: int
    d_model: int
    dropout: float

    def _sizes(self) -> Any:
        """Return the estimator whose arguments set the size of the encoder: the one to start from, where there is one."""
        return getattr(self, "pretrained", None) or self

    def _encoder(self, generator: torch.Generator) -> TextEncoder:
        size, n_symbols = self._sizes(), len(self.tokenizer_.symbols_)
        options: dict[str, Any] = {"dropout": self.dropout, "generator": generator}
        bert = size._is_published
        embedding = nn.InputEmbedding(
            n_symbols, size.d_model, size.n_positions, std=0.02, norm=bert, **options
        )
        options |= {"attend": size._attend(), "norm": "post" if bert else "pre"}
        encoder = TextEncoder(embedding, nn.Encoder(size.n_layers, size.d_model, size.n_heads, **options))
        for part in encoder.modules():
            if bert and isinstance(part, torch.nn.LayerNorm):
                part.eps = BERT_EPS
        return encoder

    def _read(self, texts: list[str]) -> list[list[int]]:
        """Return the numbers of each text, ``<start>`` first, cut to the positions."""
        check_is_fitted(self, "tokenizer_")
        longest = self._sizes().n_positions
        check_at_least(2, n_positions=longest)
        end = [self.tokenizer_.end] * self.tokenizer_.closes
        return [[START, *self.tokenizer_.encode(text)[: longest - 1 - len(end)], *end] for text in texts]

    def _by_length(self, sequences: Sequence[list[int]]) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Yield positions, symbols and lengths of batches of texts of similar length: every text once."""
        for places in by_length(sequences, _READ_AT_ONCE):
            yield places, *pad([sequences[k] for k in places], self.device)

    def attention(self, X: str) -> AttentionMap:
        """Return the attention weights in one text."""
        (text,) = check_texts([X])
        (numbers,) = self._read([text])
        layers = self._recorded(lambda module: module.encoder(*pad([numbers], self.device)))
        names = tuple(self.tokenizer_.symbols_[k] for k in numbers)
        return AttentionMap(stacked([layer[0] for layer in layers]), names, names)


def by_length(sequences: Sequence[Sequence[int]], size: int) -> Iterator[list[int]]:
    """Yield positions of sequences of similar length in batches of ``size``: every sequence once."""
    order = sorted(range(len(sequences)), key=lambda k: len(sequences[k]))
    yield from (order[start : start + size] for start in range(0, len(order), size))


def batches_of_texts(
    sequences: Sequence[list[int]], batch_size: int, generator: torch.Generator
) -> Iterator[np.ndarray]:
    """Yield which texts make up each batch, of similar length, indefinitely: every text once a pass.

    A pass is cut into stretches of 50 batches at random, and each stretch is sorted by length before it is cut into
    batches, so that little is padded and the batches' order stays random.
    """
    lengths = np.array([len(sequence) for sequence in sequences])
    stretch = 50 * batch_size
    while True:
        order = torch.randperm(len(sequences), generator=generator).numpy()
        batches: list[np.ndarray] = []
        for start in range(0, len(order), stretch):
            part = order[start : start + stretch]
            part = part[np.argsort(lengths[part], kind="stable")]
            batches += [part[k : k + batch_size] for k in range(0, len(part), batch_size)]
        for k in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[k]
