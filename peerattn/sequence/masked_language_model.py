"""A masked language model: which symbol is missing, given all the others; and the counts from which it starts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from sklearn.utils.extmath import randomized_svd
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import expect
from peerattn.nn.blocks import ACTIVATIONS, Activation
from peerattn.sequence import text_encoder
from peerattn.sequence.base import SequenceEstimator
from peerattn.sequence.text_encoder import EncodedTexts, TextEncoder, Texts, pad
from peerattn.sequence.tokenizers import MASK, SPECIAL, Tokenizer, check_texts

MASKED_SHARE = 0.15
NEAR = 5  # symbols on either side that count as together
_SMOOTHING = 0.75  # power of the frequencies of the context, so that rare symbols do not count too much


class MaskedLanguageModule(torch.nn.Module):
    """A text encoder, and symbols as its output: by the vectors of the input."""

    def __init__(self, encoder: TextEncoder, generator: Generator, activation: Activation):
        super().__init__()
        self.activation = activation
        n_symbols, d_model = encoder.embedding.tokens.weight.shape
        self.encoder = encoder
        self.transform = nn.linear(d_model, d_model, generator=generator)
        self.norm = torch.nn.LayerNorm(d_model)
        self.popularity = torch.nn.Parameter(torch.zeros(n_symbols))

    def forward(self, symbols: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """Return the logits (n_places, n_symbols) at the places (B, n) that are True."""
        rows = self.encoder(symbols, lengths)[places]
        rows = self.norm(ACTIVATIONS[self.activation](self.transform(rows)))
        return self.encoder.embedding.tokens.logits(rows) + self.popularity


@dataclass(eq=False, repr=False, kw_only=True)
class MaskedLanguageModel(EncodedTexts, SequenceEstimator[MaskedLanguageModule]):
    r"""Learn what texts are like by filling in symbols that were taken out.

    .. math:: \max \sum_{t \in M} \log p(s_t \mid s_{\text{corrupted}}), \qquad |M| = 15\,\% \text{ of all}

    Of the chosen symbols, 80 % are replaced by ``<mask>``, 10 % by another at random, 10 % stay. Training starts from
    counts: the symbols' vectors from factored co-occurrences within five symbols, the output's constants from log frequencies.

    Parameters
    ----------
    tokenizer : {"words", "characters"} or Tokenizer, default "words"
        A fitted tokenizer is used as it is.
    n_layers, n_heads, d_model : int, defaults 4, 4, 128
        Size of the stack.
    n_positions : int, default 64
        Symbols of a text that are read, ``<start>`` included; longer texts are cut.
    dropout : float, default 0.1
    max_steps : int, default 3000
    batch_size : int, default 64
        Texts in a step.
    learning_rate : float, default 1e-3
        At its peak, after a warm-up of a tenth of the steps; then a half cosine.
    weight_decay : float, default 0.01
    random_state : int, RandomState or None, default None
    device, precision, compile : str, str, bool, defaults "cpu", "auto", False
        Where and how it is trained, as in `SequenceEstimator`.
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

    tokenizer: str | Tokenizer = field(default="words", kw_only=False)
    n_positions: int = 64
    max_steps: int = 3000
    weight_decay: float = 0.01

    def fit(self, X: object, y: object = None) -> Self:
        """Learn from texts.

        Parameters
        ----------
        X : iterable of str
        y : None
        """
        self._validate_params()
        texts = check_texts(X)
        self.tokenizer_ = text_encoder.fitted_tokenizer(self.tokenizer, texts)
        return self._fit((self._read(texts),))

    def _start(self, module: MaskedLanguageModule, examples: tuple[Texts]) -> None:
        texts = [text[1:] for text in examples[0]]
        # counts are what such a model learns first: start from them
        vectors = module.encoder.embedding.tokens.weight
        vectors.add_(torch.as_tensor(cooccurrence_vectors(texts, *vectors.shape), dtype=vectors.dtype))
        module.popularity.copy_(torch.as_tensor(log_frequencies(texts, len(vectors))))

    def loss(self, X: object) -> float:
        """Return the mean negative log probability, in nats, of masked symbols of the texts.

        Which 15 % are masked depends on the texts alone, see `masked_places`; all of them are replaced by ``<mask>``.
        """
        return self._mean_loss(X)

    def score(self, X: object, y: object = None) -> float:
        """Return minus the loss: larger is better."""
        return -self.loss(X)

    def _loss_sums(self, module: MaskedLanguageModule, X: object, y: object) -> Iterator[tuple[Tensor, int]]:
        sequences = self._read(check_texts(X))
        chosen = masked_places(sequences)
        for at, symbols, lengths in text_encoder.by_length(sequences, self._on):
            places = pad([chosen[k] for k in at], self._on)[0].bool()
            logits = module(symbols.masked_fill(places, MASK), lengths, places)
            yield F.cross_entropy(logits, symbols[places], reduction="sum"), int(places.sum())

    def predict(self, X: object) -> list[str]:
        """Return the texts with the most likely symbol in every place of ``<mask>``.

        Raises
        ------
        InputError
            When a text has no ``<mask>`` within the first ``n_positions`` symbols.
        """
        sequences = self._read(check_texts(X))
        wanted = f"a {SPECIAL[MASK]} among the first {self.n_positions - 1} symbols"
        for k, sequence in enumerate(sequences):
            expect(MASK in sequence, "X", wanted, f"none in text {k}")
        module = self._module()

        def filled(symbols: Tensor, lengths: Tensor) -> list[str]:
            places = symbols == MASK
            logits = module(symbols, lengths, places)
            logits[:, : len(SPECIAL)] = -torch.inf
            symbols[places] = logits.argmax(-1)
            return [self.tokenizer_.decode(row) for row in symbols.tolist()]

        return text_encoder.of_each(filled, sequences, self._on)

    def transform(self, X: object) -> np.ndarray:
        """Return a vector for every text, the mean of its rows: (n_texts, d_model)."""
        sequences = self._read(check_texts(X))
        return torch.stack(text_encoder.of_each(self._module().encoder.mean, sequences, self._on)).cpu().numpy()

    def _build(self, generator: Generator) -> MaskedLanguageModule:
        activation = text_encoder.published_of(self)["activation"]
        module = MaskedLanguageModule(self._encoder(generator), generator, activation)
        return text_encoder.as_published(module, self)

    def _batches(self, examples: tuple[Texts], generator: Generator) -> Iterator[list[Tensor]]:
        for (sequences,) in text_encoder.batches_by_length(examples, self.batch_size, generator):
            yield [part.to(self._on, non_blocking=True) for part in self._corrupted(sequences, generator)]

    def _corrupted(self, sequences: Texts, generator: Generator) -> tuple[Tensor, ...]:
        """Return corrupted symbols, lengths, places to fill in and the true symbols there."""
        symbols, lengths = pad(sequences)
        places = _choose(symbols, lengths, generator)
        # of those chosen eight in ten are hidden, one is another symbol, one stays: BERT's shares
        how = torch.rand(symbols.shape, generator=generator)
        n_symbols = max(len(self.tokenizer_.symbols_), len(SPECIAL) + 1)
        others = torch.randint(len(SPECIAL), n_symbols, symbols.shape, generator=generator)
        corrupted = symbols.masked_fill(places & (how < 0.8), MASK)
        corrupted = torch.where(places & (how >= 0.9), others, corrupted)
        return corrupted, lengths, places, symbols[places]


def masked_places(sequences: list[list[int]]) -> list[list[bool]]:
    """Return which symbols of each sequence are masked when a model is scored: always the same for the same texts.

    Examples
    --------
    >>> sum(masked_places([[2, *range(5, 45)]])[0])
    6
    """
    generator = Generator().manual_seed(0)
    return [_choose(*pad([sequence]), generator)[0].tolist() for sequence in sequences]


def _choose(symbols: Tensor, lengths: Tensor, generator: Generator) -> Tensor:
    """Return 15 % of the places of each sequence, at least one and never the first: (B, n)."""
    order = torch.rand(symbols.shape, generator=generator)
    position = torch.arange(symbols.shape[1])
    order = order.masked_fill((position == 0) | (position >= lengths[:, None]), 2.0)
    n_chosen = (MASKED_SHARE * (lengths - 1)).round().clamp_min(1)
    # the smallest of random numbers are a sample without repetition
    rank = order.argsort(1).argsort(1)
    return (rank < n_chosen[:, None]) & (order < 2)


def log_frequencies(sequences: Sequence[Sequence[int]], n_symbols: int) -> np.ndarray:
    """Return the log of each symbol's share of all symbols, each counted once more than it occurs: (n_symbols,).

    Examples
    --------
    >>> np.exp(log_frequencies([[1, 1], [1]], 3)).round(2).tolist()
    [0.17, 0.67, 0.17]
    """
    counts = 1.0 + np.bincount(np.concatenate(sequences), minlength=n_symbols)
    return np.asarray(np.log(counts / counts.sum()))


def cooccurrence_vectors(sequences: Sequence[Sequence[int]], n_symbols: int, d: int) -> np.ndarray:
    r"""Return a vector for each symbol, similar for symbols that occur among the same others: (n_symbols, d).

    .. math:: M_{ab} = \max\Big(0, \log \frac{n_{ab}}{n_a\, q_b}\Big), \quad q_b \propto n_b^{3/4}, \qquad
              M \approx U \Sigma V', \quad E \propto U \Sigma^{1/2}

    with :math:`n_{ab}` the number of times that b occurs within five symbols of a, and :math:`n_a` its sum. The mean
    squared length of the rows of E is 1. Columns past the number of symbols are zero, and so are symbols without neighbours.

    Parameters
    ----------
    sequences : sequence of sequences of int
        Symbols of each text, below ``n_symbols``.
    n_symbols, d : int

    References
    ----------
    Levy and Goldberg (2014), Neural word embedding as implicit matrix factorization, NIPS. Levy, Goldberg and Dagan (2015),
    Improving distributional similarity with lessons learned from word embeddings, TACL.

    Examples
    --------
    >>> vectors = cooccurrence_vectors([[0, 2], [1, 2], [0, 3], [1, 3]], 4, 2)
    >>> bool(np.allclose(vectors[0], vectors[1]))
    True
    """
    k = min(d, n_symbols)
    left, values, _ = randomized_svd(_information(_neighbours(sequences, n_symbols)), k, random_state=0)
    vectors = np.zeros((n_symbols, d))
    vectors[:, :k] = left * np.sqrt(values)
    # of length one on average, as the random start is
    length = np.sqrt((vectors**2).sum() / n_symbols)
    return vectors / max(length, np.finfo(float).tiny)


def _neighbours(sequences: Sequence[Sequence[int]], n_symbols: int) -> sparse.csr_array:
    """Return how often each symbol occurs near each other one, (n_symbols, n_symbols)."""
    symbols = np.concatenate(sequences)
    text = np.repeat(np.arange(len(sequences)), [len(sequence) for sequence in sequences])
    counts = sparse.csr_array((n_symbols, n_symbols))
    for k in range(1, min(NEAR, len(symbols) - 1) + 1):
        same = text[k:] == text[:-k]
        pair = (symbols[:-k][same], symbols[k:][same])
        counts += sparse.csr_array((np.ones(same.sum()), pair), shape=counts.shape)
    return sparse.csr_array(counts + counts.T)


def _information(counts: sparse.csr_array) -> sparse.csr_array:
    """Return the positive pointwise mutual information of each pair."""
    pairs = counts.tocoo()
    n = np.asarray(counts.sum(1)).ravel()
    # smoothed frequencies of the context
    q = n**_SMOOTHING / max((n**_SMOOTHING).sum(), 1.0)
    row, column = pairs.coords
    values = np.maximum(np.log(pairs.data / (n[row] * q[column])), 0.0)
    return sparse.csr_array((values, (row, column)), shape=counts.shape)
