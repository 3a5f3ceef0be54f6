"""What models of texts share, and the module that reads a whole text both ways, masked language model's and classifier's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import expect
from peerattn.sequence.attention_map import AttentionMap
from peerattn.sequence.base import Module, StackArguments
from peerattn.sequence.tokenizers import PAD, START, Tokenizer, check_texts, find_tokenizer

Texts = Sequence[list[int]]  # as numbers of symbols


# what the configuration of published weights sets beyond the sizes of a model; epsilon is that of the normalisations
_TRAINED_HERE: dict[str, Any] = {"activation": "gelu", "epsilon": 1e-5, "d_feedforward": None}


class EmbeddedStack(torch.nn.Module):
    """An embedding of symbols, and a stack on its rows."""

    def __init__(self, embedding: nn.InputEmbedding, stack: nn.Encoder):
        super().__init__()
        self.embedding = embedding
        self.stack = stack


class TextEncoder(EmbeddedStack):
    """Symbols to rows: every row sees all rows of its text."""

    def forward(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        """Return the rows (B, n, d_model) of symbols (B, n)."""
        return self.stack(self.embedding(symbols), mask=nn.padding_mask(lengths, symbols.shape[1]))

    def mean(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        """Return the mean of each text's rows, (B, d_model)."""
        there = nn.padding_mask(lengths, symbols.shape[1])[:, 0].mT  # (B, n, 1)
        return (self(symbols, lengths) * there).sum(1) / lengths[:, None]


class EncodedTexts(StackArguments):
    """Arguments and reading of the models with a :class:`TextEncoder`.

    A text is read as ``<start>`` and its first ``n_positions - 1`` symbols.
    """

    n_positions: int
    tokenizer_: Tokenizer

    def _sizes(self) -> EncodedTexts:
        """Return the model whose arguments set the size of the encoder: the one to start from, where there is one."""
        return getattr(self, "pretrained", None) or self

    def _encoder(self, generator: Generator) -> TextEncoder:
        """Return the encoder at its random start."""
        size = self._sizes()
        options: dict[str, Any] = {"dropout": self.dropout, "generator": generator}
        counts = (len(self.tokenizer_.symbols_), size.d_model, size.n_positions)
        # BERT normalises after each step, and the embedding, too
        bert = hasattr(size, "published_")
        embedding = nn.InputEmbedding(*counts, std=0.02, norm=bert, **options)
        if bert:
            options["norm"] = "post"
        return TextEncoder(embedding, size._stack(**options, **block_options(size)))

    def attention(self: Any, X: str) -> AttentionMap:  # of a SequenceEstimator, which these arguments are mixed into
        """Return the attention weights in one text; those of a classifier whose line alone classifies raise an error."""
        (numbers,) = self._read(check_texts([X]))
        names = [self.tokenizer_.symbols_[k] for k in numbers]
        return self._map(lambda module: module.encoder(*pad([numbers], self._on)), names)

    def _read(self, texts: list[str]) -> list[list[int]]:
        """Return the numbers of each text, ``<start>`` first, cut to the positions."""
        check_is_fitted(self, "tokenizer_")
        longest = self._sizes().n_positions
        end = [self.tokenizer_.end] * self.tokenizer_.closes
        return [[START, *self.tokenizer_.encode(text)[: longest - 1 - len(end)], *end] for text in texts]


def published_of(model: StackArguments) -> dict[str, Any]:
    """Return what published weights need; of a model that was trained here, what `peerattn.nn` does by itself."""
    return getattr(model, "published_", _TRAINED_HERE)


def block_options(model: StackArguments) -> dict[str, Any]:
    """Return the options of the blocks that published weights need."""
    return {name: value for name, value in published_of(model).items() if name != "epsilon"}


def as_published(module: Module, model: StackArguments) -> Module:
    """Return the model's module, with the constant of its normalisations that published weights need."""
    for part in module.modules():
        if isinstance(part, torch.nn.LayerNorm):
            part.eps = published_of(model)["epsilon"]
    return module


def fitted_tokenizer(tokenizer: str | Tokenizer, texts: list[str], pretrained: Any = None, kind: type = object) -> Any:
    """Return the tokenizer of the model to start from, or one of its own, fitted on the texts unless it was before."""
    if pretrained is not None:
        expect(isinstance(pretrained, kind), "pretrained", f"a fitted {kind.__name__} or None", repr(pretrained))
        check_is_fitted(pretrained)
        return pretrained.tokenizer_
    found = find_tokenizer(tokenizer)
    if hasattr(found, "symbols_"):
        return found
    return found.fit(texts)


def batches_by_length(columns: Any, size: int, generator: Generator) -> Iterator[list[list[Any]]]:
    """Yield batches of the columns, whose first is texts, of similar length, indefinitely: every text once a pass.

    A pass is cut into stretches of 50 batches at random, and each stretch is sorted by length before it is cut into batches, so
    that little is padded and the batches' order stays random.
    """
    lengths = np.array([len(text) for text in columns[0]])
    while True:
        order = torch.randperm(len(lengths), generator=generator).numpy()
        batches: list[np.ndarray] = []
        for start in range(0, len(order), 50 * size):
            part = order[start : start + 50 * size]
            part = part[np.argsort(lengths[part], kind="stable")]
            batches += [part[k : k + size] for k in range(0, len(part), size)]
        for k in torch.randperm(len(batches), generator=generator).tolist():
            yield [[column[place] for place in batches[k]] for column in columns]


def by_length(texts: Texts, device: str, size: int = 256) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Yield positions, symbols and lengths of batches of texts of similar length: every text once."""
    # texts of similar length waste no padding
    order = sorted(range(len(texts)), key=lambda k: len(texts[k]))
    for start in range(0, len(order), size):
        places = order[start : start + size]
        yield places, *pad([texts[k] for k in places], device)


def of_each(compute: Callable[[Tensor, Tensor], Any], texts: Texts, device: str, size: int = 256) -> list[Any]:
    """Return what ``compute`` gives for each text, of the symbols and lengths of a batch, without gradients."""
    found: list[Any] = [None] * len(texts)
    with torch.inference_mode():
        for places, symbols, lengths in by_length(texts, device, size):
            for k, value in zip(places, compute(symbols, lengths)):
                found[k] = value
    return found


def mask_of_past(n: int, read: int, device: torch.device) -> Tensor | None:
    """Return the causal mask of n rows after those read; None where it masks nothing."""
    if n == 1:
        return None
    return nn.causal_mask(n, read + n, device=device)


def pad(sequences: Sequence[Sequence[int]], device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Return sequences side by side, filled up to the longest with ``<pad>``, and their lengths.

    Parameters
    ----------
    sequences : sequence of sequences of int
    device : str, default "cpu"

    Returns
    -------
    symbols : Tensor of int64, shape (batch, longest)
    lengths : Tensor of int64, shape (batch,)

    Examples
    --------
    >>> pad([[5, 6], [7]])
    (tensor([[5, 6],
             [7, 0]]), tensor([2, 1]))
    """
    lengths = [len(sequence) for sequence in sequences]
    longest = max(lengths)
    rows = [[*sequence, *[PAD] * (longest - len(sequence))] for sequence in sequences]
    made = (torch.tensor(each, dtype=torch.int64, device="cpu") for each in (rows, lengths))
    symbols, counts = (each.to(device, non_blocking=True) for each in made)
    return symbols, counts
