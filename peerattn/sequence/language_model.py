"""A language model: what comes next, given what came before."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import InputError, check_at_least, expect, reworded_values, validate_arguments
from peerattn.sequence import text_encoder
from peerattn.sequence.attention_map import AttentionMap
from peerattn.sequence.base import SequenceEstimator, StackArguments, seeded
from peerattn.sequence.generation import beam_search, sample
from peerattn.sequence.text_encoder import mask_of_past
from peerattn.sequence.tokenizers import Tokenizer, check_texts

#: A text, texts, or numbers of symbols.
Symbols = str | Iterable[str] | Iterable[int] | np.ndarray | Tensor
_PATH = re.compile(r"(\S{1,200}/)?\S{1,100}\.[A-Za-z]{1,5}")  # one word that ends like a file
_EVALUATED = 2**14  # symbols at once in `loss`


class LanguageModule(text_encoder.EmbeddedStack):
    """Embedding, a stack that looks back only, and the embedding again as output."""

    def forward(self, symbols: Tensor, cache: nn.StackCache | None = None) -> Tensor:
        """Return the logits (B, n, n_symbols) of the symbols after each of (B, n)."""
        start = 0 if cache is None else cache.length
        mask = mask_of_past(symbols.shape[-1], start, symbols.device)
        rows = self.stack(self.embedding(symbols, start=start), mask=mask, cache=cache)
        return self.embedding.tokens.logits(rows)


class CausalReader:
    """Reads growing sequences, each symbol once where it keeps a cache."""

    def __init__(self, module: LanguageModule, block_size: int, cache: bool, never: list[int]):
        self.module = module
        self.block_size = block_size
        self.cached = cache
        self.never = never
        self.start = 0
        self.cache = nn.StackCache(len(module.stack.blocks))

    def next_log_probabilities(self, sequences: Tensor) -> Tensor:
        """Return the log probabilities of what follows: (n_sequences, n_symbols)."""
        # the window moves by half a block at a time, so that the cache is seldom made anew
        half = max(1, self.block_size // 2)
        start = max(0, math.ceil((sequences.shape[1] - self.block_size) / half) * half)
        if start != self.start or not self.cached:
            self.start = start
            self.cache = nn.StackCache(len(self.module.stack.blocks))
        logits = self.module(sequences[:, start + self.cache.length :], cache=self.cache)[:, -1]
        logits[:, self.never] = -torch.inf
        return logits.log_softmax(-1)

    def reorder(self, sequences: Tensor) -> None:
        """Follow the beams."""
        self.cache.reorder(sequences)


@dataclass(eq=False, repr=False, kw_only=True)
class LanguageModel(StackArguments, SequenceEstimator[LanguageModule]):
    r"""Predict each symbol of a text from those before it, by a stack of transformer blocks.

    .. math:: p(s_{t+1} \mid s_{\le t}) = \operatorname{softmax}(E\, x_t), \qquad
              x = \text{stack}(E's + p, \text{causal mask})

    trained to maximise the mean log probability of random blocks of the text.

    Parameters
    ----------
    tokenizer : {"characters", "words"} or Tokenizer, default "characters"
        What the symbols of a text are. A fitted tokenizer is used as it is.
    n_layers, n_heads, d_model : int, defaults 4, 4, 128
        Size of the stack.
    block_size : int, default 128
        Number of symbols that the model looks back over, in training and after.
    positions : {"learned", "sinusoidal", "rotary", "none"}, default "rotary"
    dropout : float, default 0
    max_steps : int, default 2000
    batch_size : int, default 12
        Blocks in a step.
    learning_rate : float, default 3e-3
        At its peak, after a warm-up of a tenth of the steps; then a half cosine.
    weight_decay : float, default 0.1
    random_state : int, RandomState or None, default None
    device, precision, compile : str, str, bool, defaults "cpu", "auto", False
        Where and how it is trained, as in `SequenceEstimator`.
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    tokenizer_ : Tokenizer or None
        None where the model was fitted on numbers.
    n_symbols_ : int
    ends_ : bool
        Whether training had several texts, so that the model has learned where one ends.
    state_, record_
        As in `SequenceEstimator`.

    Notes
    -----
    A symbol that training has not seen is read as ``<unknown>``, whose vector was never trained: its loss is large.

    References
    ----------
    Radford et al. (2019), Language models are unsupervised multitask learners.

    Examples
    --------
    >>> model = LanguageModel(n_layers=1, n_heads=2, d_model=16, max_steps=150, random_state=0).fit("abcd " * 200)
    >>> model.generate("ab", 8, temperature=0)
    'cd abcd '
    >>> model.loss("abcd " * 20) < 0.2 < model.loss("dcba " * 20)
    True
    """

    schedule: ClassVar[str] = "cosine"

    tokenizer: str | Tokenizer = field(default="characters", kw_only=False)
    block_size: int = 128
    positions: nn.embedding.Positions = "rotary"
    dropout: float = 0.0
    max_steps: int = 2000
    batch_size: int = 12
    learning_rate: float = 3e-3
    weight_decay: float = 0.1

    def fit(self, X: Symbols, y: None = None) -> Self:
        """Learn from a text, from texts (each ends with ``<end>``), or from numbers.

        Parameters
        ----------
        X : str, iterable of str, or array of int, shape (n,)
        y : None

        Raises
        ------
        InputError
            When there are fewer than two symbols.
        """
        self._validate_params()
        if isinstance(X, str) and _PATH.fullmatch(X):
            raise InputError(f"X: {X!r} looks like the path of a file: pass its text, path.read_text().")
        if not isinstance(X, str | np.ndarray | Tensor):
            expect(isinstance(X, Iterable), "X", "a text, texts, or numbers", repr(X))
            X = list(X)  # an iterator is read twice below
        self.tokenizer_ = None
        # of several texts each has an end, which one long text has not
        self.ends_ = not isinstance(X, str) and getattr(X, "ndim", 1) == 1 and (not len(X) or isinstance(X[0], str))
        if self.ends_ or isinstance(X, str):
            texts = X if self.ends_ else [X]
            self.tokenizer_ = text_encoder.fitted_tokenizer(self.tokenizer, check_texts(texts))
            self.n_symbols_ = len(self.tokenizer_.symbols_)
        else:
            self.n_symbols_ = int(_check_numbers(X, "X").max()) + 1
        return self._fit(self._read(X, at_least=2))

    def _batches(self, examples: Tensor, generator: Generator) -> Iterator[Tensor]:
        """Yield blocks of the text at random places, (batch, block + 1)."""
        length = min(self.block_size + 1, len(examples))
        # the text is on the device once; a step sends only where its blocks begin
        examples = examples.to(self._on)
        # positions of a block from its start
        within = torch.arange(length, device=examples.device)
        while True:
            starts = torch.randint(len(examples) - length + 1, (self.batch_size, 1), generator=generator)
            yield examples[starts.to(examples.device, non_blocking=True) + within]

    def _loss(self, module: LanguageModule, batch: Tensor) -> Tensor:
        return F.cross_entropy(module(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    def loss(self, X: object) -> float:
        r"""Return the mean negative log probability of a text's symbols, in nats per symbol.

        .. math:: -\frac1n \sum_t \log p(s_{t+1} \mid s_{a(t)}, \ldots, s_t)

        Parameters
        ----------
        X : as in `fit`
            The first symbol is given, all others are predicted.
            The text is read in blocks of ``block_size`` side by side.
        """
        return self._mean_loss(X)

    def score(self, X: object, y: object = None) -> float:
        """Return minus the loss: larger is better."""
        return -self.loss(X)

    def _loss_sums(self, module: LanguageModule, X: object, y: object) -> Iterator[tuple[Tensor, int]]:
        for windows, n_counted in _windows(self._read(X, at_least=2), self.block_size):
            for part in windows.to(self._on).split(max(1, _EVALUATED // windows.shape[1])):
                logits = module(part[:, :-1])[:, -n_counted:]
                truth = part[:, -n_counted:]
                total = F.cross_entropy(logits.flatten(0, 1), truth.flatten(), reduction="sum")
                yield total, truth.numel()

    def perplexity(self, X: object) -> float:
        """Return the exponential of :meth:`loss`: the effective number of symbols that the model chooses among, on average.

        Examples
        --------
        >>> model = LanguageModel(n_layers=1, n_heads=2, d_model=16, max_steps=1, random_state=0).fit("abcd " * 50)
        >>> bool(np.isclose(model.perplexity("abcd " * 9), np.exp(model.loss("abcd " * 9))))
        True
        """
        return math.exp(self.loss(X))

    def predict_proba(self, X: Iterable[Symbols]) -> np.ndarray:
        """Return the probability of every symbol to come next after each text: ``(n_texts, n_symbols_)``.

        Parameters
        ----------
        X : iterable of str or of sequences of int
            Of each, the last ``block_size`` symbols are read.
        """
        module = self._module()
        if self.tokenizer_ is not None:
            X = check_texts(X)
        read = [self._read(text)[None, -self.block_size :].to(self._on) for text in X]
        expect(bool(read), "X", "at least one text", "none")
        with torch.inference_mode():
            rows = [module(numbers)[0, -1].softmax(-1) for numbers in read]
        return torch.stack(rows).cpu().numpy()

    def predict(self, X: Iterable[Symbols]) -> np.ndarray:
        """Return the symbol most likely to come next after each text (its number, after a fit on numbers)."""
        best = self.predict_proba(X).argmax(1)
        if self.tokenizer_ is None:
            return best
        return np.array([self.tokenizer_.symbols_[k] for k in best], dtype=object)

    @validate_arguments
    def generate(
        self, prompt: Symbols, n_symbols: int = 100, *, temperature: float = 1.0, top_k: int | None = None,
        top_p: float | None = None, n_beams: int | None = None, cache: bool = True,
        random_state: int | np.random.RandomState | None = 0,
    ) -> str | list[int]:  # fmt: skip
        """Continue a text.

        Parameters
        ----------
        prompt : str, or sequence of int
        n_symbols : int, default 100
            How many symbols to add; a text ends before at ``<end>``, if training had several texts.
        temperature, top_k, top_p
            As in `sample`.
        n_beams : int, default None
            Search the most likely continuation instead of drawing one, see `beam_search`.
        cache : bool, default True
            Whether to keep keys and values; without, everything is computed anew for every symbol, with equal results.
        random_state : int, RandomState or None, default 0

        Returns
        -------
        str, or list of int
            The continuation, without the prompt.

        Notes
        -----
        Past ``block_size`` symbols the model looks back over the last half to whole block: the text used moves on by half
        a block at a time, so that with a cache a symbol costs one row, and two where it moves.
        """
        check_at_least(1, n_symbols=n_symbols)
        sequences = self._read(prompt, name="prompt")[None].to(self._on)
        tokenizer = self.tokenizer_
        end = None
        never = list[int]()
        if tokenizer is not None:
            end = tokenizer.end
            # a model of one long text goes on: it has learned no end
            never = [*tokenizer.never, *[end] * (not self.ends_)]
        reader = CausalReader(self._module(), self.block_size, cache, never)
        with torch.inference_mode():
            if n_beams is not None:
                (added,) = beam_search(reader, sequences, n_beams=n_beams, max_symbols=n_symbols, end=end)
                return self._written(added)
            generator = seeded(random_state)
            added = []
            while len(added) < n_symbols:
                log_p = reader.next_log_probabilities(sequences)
                symbol = sample(log_p, generator, temperature=temperature, top_k=top_k, top_p=top_p)
                if int(symbol) == end:
                    break
                added.append(int(symbol))
                sequences = torch.cat([sequences, symbol[:, None]], dim=1)
        return self._written(added)

    def attention(self, X: object) -> AttentionMap:
        """Return the attention weights in a text of at most ``block_size`` symbols.

        Raises
        ------
        InputError
            When the text is longer.
        """
        numbers = self._read(X)
        longest = self.block_size
        expect(len(numbers) <= longest, "X", f"at most block_size={longest} symbols", len(numbers))
        names = [str(k) for k in numbers.tolist()]
        if self.tokenizer_ is not None:
            names = [self.tokenizer_.symbols_[k] for k in numbers]
        return self._map(lambda module: module(numbers[None].to(self._on)), names)

    def _build(self, generator: Generator) -> LanguageModule:
        sizes = (self.n_symbols_, self.d_model, self.block_size)
        options: dict[str, Any] = {"positions": self.positions, "std": 0.02, "dropout": self.dropout}
        embedding = nn.InputEmbedding(*sizes, **options, generator=generator)
        stack = self._stack(generator, rotary=self.positions == "rotary", **text_encoder.block_options(self))
        return text_encoder.as_published(LanguageModule(embedding, stack), self)

    def _read(self, X: object, name: str = "X", at_least: int = 1) -> Tensor:
        """Return text, texts or numbers as numbers."""
        check_is_fitted(self, "n_symbols_")
        if self.tokenizer_ is None:
            numbers = _check_numbers(X, name, self.n_symbols_)
        elif isinstance(X, str):
            numbers = torch.tensor(self.tokenizer_.encode(X), dtype=torch.int64)
        else:
            texts = ([*self.tokenizer_.encode(text), self.tokenizer_.end] for text in check_texts(X, name))
            numbers = torch.tensor(list(chain.from_iterable(texts)), dtype=torch.int64)
        expect(len(numbers) >= at_least, name, f"at least {at_least} symbol(s)", len(numbers))
        return numbers

    def _written(self, numbers: list[int]) -> str | list[int]:
        if self.tokenizer_ is None:
            return numbers
        return self.tokenizer_.decode(numbers)


def _windows(numbers: Tensor, block_size: int) -> Iterator[tuple[Tensor, int]]:
    """Yield windows of equal length and how many of their last symbols count, so that each but the first counts once."""
    size = min(block_size, len(numbers) - 1)
    rest = (len(numbers) - 1) % size
    yield numbers[: len(numbers) - rest].unfold(0, size + 1, size), size
    if rest:
        yield numbers[None, -(size + 1) :], rest


def _check_numbers(X: object, name: str, n_symbols: float = math.inf) -> Tensor:
    with reworded_values():
        array = np.asarray(X)
    whole = array.ndim == 1 and array.dtype.kind in "iu"
    expect(whole, name, "a text, or numbers in one dimension", f"{array.dtype} of shape {array.shape}")
    least = array.min(initial=0)
    most = array.max(initial=0)
    expect(least >= 0, name, "numbers of at least 0", least)
    expect(most < n_symbols, name, f"numbers below {n_symbols}, as in fit", most)
    return torch.tensor(array, dtype=torch.int64)
