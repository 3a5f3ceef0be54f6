"""A masked language model: which symbol is missing, given all the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from peerattn import nn
from peerattn.exceptions import InputError
from peerattn.sequence.cooccurrence import cooccurrence_vectors, log_frequencies
from peerattn.sequence.text_encoder import EncodedTexts, TextEncoder, batches_of_texts
from peerattn.sequence.tokenizers import MASK, SPECIAL, Tokenizer, check_texts, pad

MASKED_SHARE = 0.15
_MASK_SEED = 0


class MaskedLanguageModule(torch.nn.Module):
    """A text encoder, and symbols as its output."""

    def __init__(self, encoder: TextEncoder, d_model: int, generator: torch.Generator):
        super().__init__()
        self.encoder = encoder
        self.transform = nn.linear(d_model, d_model, generator=generator)
        self.norm = torch.nn.LayerNorm(d_model)
        self.popularity = torch.nn.Parameter(torch.zeros(len(encoder.embedding.tokens.weight)))

    def forward(self, symbols: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """Return the logits (n_places, n_symbols) at the places (B, n) that are True."""
        rows = self.encoder(symbols, lengths)[places]
        rows = self.norm(F.gelu(self.transform(rows)))
        return self.encoder.embedding.tokens.logits(rows) + self.popularity

    @torch.no_grad()
    def start_from(self, sequences: Sequence[Sequence[int]]) -> None:
        """Start the symbols' vectors from their co-occurrences in these texts, and the outputs from their frequencies."""
        vectors = self.encoder.embedding.tokens.weight
        vectors.add_(torch.as_tensor(cooccurrence_vectors(sequences, *vectors.shape), dtype=vectors.dtype))
        self.popularity.copy_(torch.as_tensor(log_frequencies(sequences, len(vectors))))


@dataclass(eq=False, repr=False)
class MaskedLanguageModel(EncodedTexts):
    r"""Learn what texts are like by filling in symbols that were taken out.

    .. math:: \max \sum_{t \in M} \log p(s_t \mid s_{\text{corrupted}}), \qquad |M| = 15\,\% \text{ of all}

    Of the chosen symbols, 80 % are replaced by ``<mask>``, 10 % by another at random, 10 % stay. Training starts from what counts
    tell: the symbols' vectors from factored co-occurrences within five symbols, the output's constants from log frequencies.

    Parameters
    ----------
    tokenizer : {"words", "characters"} or Tokenizer, default "words"
        A fitted tokenizer is used as it is.
    n_layers, n_heads, d_model : int, defaults 4, 4, 128
        Size of the stack.
    n_positions : int, default 64
        Symbols of a text that are read, ``<start>`` included; longer texts are cut.
    window : int, default None
        Number of symbols on either side that a layer attends to, which bounds the cost; None: the whole text.
    keep, n_features : int, default None
        Number of symbols of largest score that are kept (sparse attention), or of random features in place of the exponential
        (linear attention). None: exact. At most one of the three; see `peerattn.nn.MultiheadAttention`.
    dropout : float, default 0.1
    max_steps : int, default 3000
    batch_size : int, default 64
        Texts in a step.
    learning_rate : float, default 1e-3
        At its peak, after a warm-up of a tenth of the steps; then a half cosine.
    weight_decay : float, default 0.01
    random_state : int, RandomState or None, default None
    device : str, default "cpu"
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    tokenizer_ : Tokenizer
    state_, record_
        As in `SequenceEstimator`.

    References
    ----------
    Devlin et al. (2019), BERT: pre-training of deep bidirectional transformers for language understanding, NAACL. Levy and
    Goldberg (2014), Neural word embedding as implicit matrix factorization, NIPS (the start).

    Examples
    --------
    >>> texts = ["red apple", "green leaf"] * 20
    >>> model = MaskedLanguageModel(n_layers=1, n_heads=2, d_model=16, max_steps=100, learning_rate=1e-2, random_state=0)
    >>> model.fit(texts).predict(["red <mask>", "green <mask>"])
    ['red apple', 'green leaf']
    """

    schedule: ClassVar[str] = "cosine"

    tokenizer: str | Tokenizer = "words"
    _: KW_ONLY
    n_positions: int = 64
    max_steps: int = 3000
    weight_decay: float = 0.01

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from texts.

        Parameters
        ----------
        X : iterable of str
        y : None
        """
        return self._fit(X)

    def _examples(self, X: Any, y: Any) -> list[list[int]]:
        texts = check_texts(X)
        self.tokenizer_ = self._fit_tokenizer(texts)
        return self._read(texts)

    def _start(self, module: MaskedLanguageModule, examples: list[list[int]]) -> None:
        module.start_from([sequence[1:] for sequence in examples])  # without <start>

    def _loss(self, module: MaskedLanguageModule, batch: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
        corrupted, lengths, places, truth = batch
        return F.cross_entropy(module(corrupted, lengths, places), truth)

    def loss(self, X: Any) -> float:
        """Return the mean negative log probability, in nats, of masked symbols of the texts.

        Which 15 % are masked depends on the texts alone, see `masked_places`; all of them are replaced by ``<mask>``.
        """
        return self._mean_loss(X)

    def _loss_sums(self, module: Any, X: Any, y: Any) -> Iterator[tuple[Tensor, int]]:
        sequences = self._read(check_texts(X))
        chosen = masked_places(sequences)
        for at, symbols, lengths in self._by_length(sequences):
            places = pad([chosen[k] for k in at], self.device)[0].bool()
            logits = module(symbols.masked_fill(places, MASK), lengths, places)
            yield F.cross_entropy(logits, symbols[places], reduction="sum"), int(places.sum())

    def predict(self, X: Any) -> list[str]:
        """Return the texts with the most likely symbol in every place of ``<mask>``.

        Raises
        ------
        InputError
            When a text has no ``<mask>`` within the first ``n_positions`` symbols.
        """
        sequences = self._read(check_texts(X))
        for k, sequence in enumerate(sequences):
            if MASK not in sequence:
                raise InputError(
                    f"X: expected a {SPECIAL[MASK]} among the first {self.n_positions - 1} symbols, got none in text {k}."
                )
        module = self._module()

        def filled(symbols: Tensor, lengths: Tensor) -> list[str]:
            places = symbols == MASK
            logits = module(symbols, lengths, places)
            logits[:, : len(SPECIAL)] = -torch.inf
            symbols[places] = logits.argmax(-1)
            return [self.tokenizer_.decode(row) for row in symbols.tolist()]

        return self._each(filled, sequences)

    def transform(self, X: Any) -> np.ndarray:
        """Return a vector for every text, the mean of its rows: (n_texts, d_model)."""
        sequences = self._read(check_texts(X))
        return torch.stack(self._each(self._module().encoder.mean, sequences)).cpu().numpy()

    def _with_output(
        self, encoder: TextEncoder, d_model: int, generator: torch.Generator
    ) -> MaskedLanguageModule:
        return MaskedLanguageModule(encoder, d_model, generator)

    def _batches(
        self, examples: list[list[int]], generator: torch.Generator
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Yield corrupted symbols, lengths, places to fill in and the true symbols there."""
        n_symbols = len(self.tokenizer_.symbols_)
        for at in batches_of_texts(examples, self.batch_size, generator):
            symbols, lengths = pad([examples[k] for k in at])
            places = _choose(symbols, lengths, generator)
            how = torch.rand(symbols.shape, generator=generator)
            others = torch.randint(
                len(SPECIAL), max(n_symbols, len(SPECIAL) + 1), symbols.shape, generator=generator
            )
            corrupted = symbols.masked_fill(places & (how < 0.8), MASK)
            corrupted = torch.where(places & (how >= 0.9), others, corrupted)
            found = (corrupted, lengths, places, symbols[places])
            yield tuple(tensor.to(self.device) for tensor in found)  # type: ignore[misc]


def masked_places(sequences: list[list[int]]) -> list[list[bool]]:
    """Return which symbols of each sequence are masked when a model is scored: always the same for the same texts.

    Examples
    --------
    >>> sum(masked_places([[2, *range(5, 45)]])[0])
    6
    """
    generator = torch.Generator().manual_seed(_MASK_SEED)
    return [_choose(*pad([sequence]), generator)[0].tolist() for sequence in sequences]


def _choose(symbols: Tensor, lengths: Tensor, generator: torch.Generator) -> Tensor:
    """Return 15 % of the places of each sequence, at least one and never the first: (B, n)."""
    order = torch.rand(symbols.shape, generator=generator)
    position = torch.arange(symbols.shape[1])
    order = order.masked_fill((position == 0) | (position >= lengths[:, None]), 2.0)
    n_chosen = (MASKED_SHARE * (lengths - 1)).round().clamp_min(1)
    rank = order.argsort(1).argsort(1)
    return (rank < n_chosen[:, None]) & (order < 2)
