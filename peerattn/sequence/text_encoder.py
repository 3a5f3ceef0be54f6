"""What models of texts share, and the module that reads a whole text both ways, masked language model's and classifier's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import check_at_least
from peerattn.nn.blocks import Activation
from peerattn.sequence.attention_map import AttentionMap
from peerattn.sequence.base import Module, StackEstimator
from peerattn.sequence.tokenizers import PAD, START, Tokenizer, check_texts, find_tokenizer

Texts = Sequence[list[int]]  # as numbers of symbols


class Published(TypedDict):
    """What the configuration of published weights sets beyond the sizes of a model."""

    activation: Activation
    epsilon: float
    """Of the normalisations."""
    d_feedforward: int
    tied: bool
    """Whether the symbols' vectors are the output, too."""


class TextEncoder(torch.nn.Module):
    """Symbols to rows: embedding and a stack in which every row sees all rows of its text."""

    def __init__(self, embedding: nn.InputEmbedding, stack: nn.Encoder):
        super().__init__()
        self.embedding = embedding
        self.stack = stack

    def forward(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        """Return the rows (B, n, d_model) of symbols (B, n)."""
        return self.stack(self.embedding(symbols), mask=nn.padding_mask(lengths, symbols.shape[1]))

    def mean(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        """Return the mean of each text's rows, (B, d_model)."""
        there = nn.padding_mask(lengths, symbols.shape[1])[:, 0].mT  # (B, n, 1)
        return (self(symbols, lengths) * there).sum(1) / lengths[:, None]


class EncodingModule(torch.nn.Module):
    """A module that reads whole texts by its ``encoder``."""

    encoder: TextEncoder


Encoding = TypeVar("Encoding", bound=EncodingModule)


@dataclass(eq=False, repr=False)
class TextEstimator(StackEstimator[Module]):
    """What all models of texts share: a tokenizer, batches of texts of similar length, and a score."""

    tokenizer: str | Tokenizer = "words"

    @property
    def _published(self) -> Published | None:
        """What published weights need; None where the model was trained here."""
        return getattr(self, "published_", None)

    def _block_options(self) -> dict[str, Any]:
        """Return the options of the blocks that published weights need."""
        if self._published is None:
            return {}
        return {name: self._published[name] for name in ("activation", "d_feedforward")}

    def _as_published(self, module: Module) -> Module:
        """Return the module, with the constant of its normalisations that published weights need."""
        for part in module.modules():
            if self._published is not None and isinstance(part, torch.nn.LayerNorm):
                part.eps = self._published["epsilon"]
        return module

    def _own_output(self, n_symbols: int) -> nn.TokenEmbedding | None:
        """Return the vectors of the output, where they are not those of the input."""
        if self._published is None or self._published["tied"]:
            return None
        return nn.TokenEmbedding(n_symbols, self.d_model)

    def score(self, X: object, y: object = None) -> float:
        """Return minus the loss: larger is better."""
        return -self._mean_loss(X, y)

    def _fit_tokenizer(self, texts: list[str]) -> Any:
        """Return the tokenizer of the model to start from, or one of its own, fitted on the texts unless it was before."""
        if (start := getattr(self, "pretrained", None)) is not None:
            check_is_fitted(start)
            return start.tokenizer_
        found = find_tokenizer(self.tokenizer)
        if hasattr(found, "symbols_"):
            return found
        return found.fit(texts)

    def _batch(self, generator: Generator, *columns: Any) -> Any:
        """Return what a step learns from, of a batch of each column of the examples."""
        raise NotImplementedError

    def _batches(self, examples: Any, generator: Generator) -> Iterator[Any]:
        """Yield batches of texts of similar length, the first column of the examples, indefinitely: every text once a pass.

        A pass is cut into stretches of 50 batches at random, and each stretch is sorted by length before it is cut into
        batches, so that little is padded and the batches' order stays random.
        """
        lengths = np.array([len(text) for text in examples[0]])
        size = self.batch_size
        while True:
            # texts of similar length share a batch, of which stretches of 50 are sorted: little padding, and still random
            order = torch.randperm(len(lengths), generator=generator).numpy()
            batches: list[np.ndarray] = []
            for start in range(0, len(order), 50 * size):
                part = order[start : start + 50 * size]
                part = part[np.argsort(lengths[part], kind="stable")]
                batches += [part[k : k + size] for k in range(0, len(part), size)]
            for k in torch.randperm(len(batches), generator=generator).tolist():
                observed = ([column[place] for place in batches[k]] for column in examples)
                batch = self._batch(generator, *observed)
                yield [part.to(self._on, non_blocking=True) if isinstance(part, Tensor) else part for part in batch]

    def _by_length(self, texts: Texts, size: int = 256) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Yield positions, symbols and lengths of batches of texts of similar length: every text once."""
        # texts of similar length waste no padding
        order = sorted(range(len(texts)), key=lambda k: len(texts[k]))
        for start in range(0, len(order), size):
            places = order[start : start + size]
            yield places, *pad([texts[k] for k in places], self._on)

    def _each(self, compute: Callable[[Tensor, Tensor], Any], texts: Texts, size: int = 256) -> list[Any]:
        """Return what ``compute`` gives for each text, of the symbols and lengths of a batch, without gradients."""
        found: list[Any] = [None] * len(texts)
        with torch.inference_mode():
            for places, symbols, lengths in self._by_length(texts, size):
                for k, value in zip(places, compute(symbols, lengths)):
                    found[k] = value
        return found


class EncodedTexts(TextEstimator[Encoding]):
    """What the models that read texts with a :class:`TextEncoder` share.

    A text is read as ``<start>`` and its first ``n_positions - 1`` symbols.
    """

    n_positions: int

    def _sizes(self) -> Any:
        """Return the estimator whose arguments set the size of the encoder: the one to start from, where there is one."""
        return getattr(self, "pretrained", None) or self

    def _encoder(self, generator: Generator) -> TextEncoder:
        """Return the encoder at its random start."""
        size = self._sizes()
        bert = self._published is not None
        options: dict[str, Any] = {"dropout": self.dropout, "generator": generator}
        counts = (len(self.tokenizer_.symbols_), size.d_model, size.n_positions)
        embedding = nn.InputEmbedding(*counts, std=0.02, norm=bert, **options)
        return TextEncoder(embedding, size._stack(**options, **self._block_options(), norm="post" if bert else "pre"))

    @property
    def _published(self) -> Published | None:
        return getattr(self._sizes(), "published_", None)

    def _read(self, texts: list[str]) -> list[list[int]]:
        """Return the numbers of each text, ``<start>`` first, cut to the positions."""
        check_is_fitted(self, "tokenizer_")
        longest = self._sizes().n_positions
        check_at_least(2, n_positions=longest)
        end = [self.tokenizer_.end] * self.tokenizer_.closes
        return [[START, *self.tokenizer_.encode(text)[: longest - 1 - len(end)], *end] for text in texts]

    def attention(self, X: str) -> AttentionMap:
        """Return the attention weights in one text.

        Raises
        ------
        InputError
            When the probabilities are those of a line alone.
        """
        (numbers,) = self._read(check_texts([X]))
        names = [self.tokenizer_.symbols_[k] for k in numbers]
        return self._map(lambda module: module.encoder(*pad([numbers], self._on)), names)


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
