"""A translator: read one text, write another, with a pointer into the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import expect, reworded
from peerattn.sequence import text_encoder
from peerattn.sequence.attention_map import AttentionMap, stacked
from peerattn.sequence.base import SequenceEstimator, StackArguments
from peerattn.sequence.generation import beam_search
from peerattn.sequence.text_encoder import Texts, mask_of_past, pad
from peerattn.sequence.tokenizers import END, PAD, START, UNKNOWN, Tokenizer, check_texts

_TRANSLATED_AT_ONCE = 64  # texts


class Source(NamedTuple):
    """What the decoder attends to.

    ``rows`` (B, n, d) of the encoder, ``mask`` (B, 1, 1, n), ``symbols`` (B, n): the source in extended numbers, in
    which words outside the vocabulary have numbers of their own from n_symbols on.
    """

    rows: Tensor
    mask: Tensor
    symbols: Tensor


class TranslatorModule(torch.nn.Module):
    r"""One vocabulary for source, target and output; the next symbol is written or copied.

    .. math:: p(s) = g\, \operatorname{softmax}(E x)_s + (1 - g) \sum_{j:\, \text{source}_j = s} \alpha_j
    """

    def __init__(self, embedding: nn.InputEmbedding, stacks: nn.EncoderDecoder, copy: bool, generator: Generator):
        super().__init__()
        self.n_symbols, d_model = embedding.tokens.weight.shape
        self.embedding = embedding
        self.stacks = stacks
        if copy:
            self.pointer = nn.MultiheadAttention(d_model, 1, generator=generator)
            self.gate = nn.linear(2 * d_model, 1, generator=generator)

    def read(self, symbols: Tensor, lengths: Tensor, start: int = 0) -> Source:
        """Encode source symbols (B, n) in extended numbers, at positions start, start + 1, ..."""
        mask = nn.padding_mask(lengths, symbols.shape[1])
        rows = self.embedding(self._known(symbols), start=start)
        return Source(self.stacks.encoder(rows, mask=mask), mask, symbols)

    def write(self, target: Tensor, source: Source, *, start: int = 0, cache: nn.StackCache | None = None) -> Any:
        """Return the decoder's rows (B, m, d) for target symbols (B, m)."""
        read = 0 if cache is None else cache.length
        mask = mask_of_past(target.shape[1], read, target.device)
        rows = self.embedding(self._known(target), start=start + read)
        return self.stacks.decoder(rows, context=source.rows, context_mask=source.mask, cache=cache, mask=mask)

    def loss(self, rows: Tensor, source: Source, truth: Tensor, there: Tensor, smoothing: float) -> Tensor:
        r"""Return the mean of :math:`-(1-\epsilon) \log p(s) - \epsilon \text{ mean}_v \log \text{softmax}(Ex)_v`.

        Rows (B, m, d), truth (B, m) in extended numbers, there (B, m): which are not padding.
        """
        written = self.embedding.tokens.logits(rows).log_softmax(-1)  # (B, m, V)
        known = truth < self.n_symbols
        log_p = written.gather(-1, self._known(truth)[..., None])[..., 0]
        if hasattr(self, "pointer"):
            weights, gate = self._copy(rows, source)
            copied = (weights * (source.symbols[:, None, :] == truth[..., None])).sum(-1)  # (B, m)
            # an unknown word that can be copied is to be copied, not written as unknown
            by_hand = (log_p + F.logsigmoid(gate)).masked_fill(~known & (copied > 0), -1e4)
            log_p = torch.logaddexp(by_hand, F.logsigmoid(-gate) + copied.clamp_min(1e-30).log())
        losses = -(1 - smoothing) * log_p - smoothing * written.mean(-1)
        return losses[there].mean()

    def log_probabilities(self, rows: Tensor, source: Source, n_extended: int) -> Tensor:
        """Return log p of every symbol, those outside the vocabulary too: rows (B, d) -> (B, n_extended)."""
        written = self.embedding.tokens.logits(rows).log_softmax(-1)
        if not hasattr(self, "pointer"):
            return F.pad(written, (0, n_extended - self.n_symbols), value=-torch.inf)
        weights, gate = self._copy(rows[:, None], source)
        # words of the source outside the vocabulary are symbols behind it
        p = F.pad(written.exp() * gate.sigmoid(), (0, n_extended - self.n_symbols))
        return p.scatter_add(1, source.symbols, weights[:, 0] * (-gate).sigmoid()).clamp_min(1e-30).log()

    def _copy(self, rows: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        """Return where the pointer points (B, m, n), and the logit of writing rather than copying (B, m).

        Without its head, which may be pruned, the pointer points nowhere and everything is written.
        """
        found, heads = self.pointer(rows, source.rows, mask=source.mask, return_weights=True)
        weights = heads.sum(1)
        share = weights.sum(-1, keepdim=True).clamp_min(1e-30)  # below 1 where the head is silenced
        gate = self.gate(torch.cat([rows, found], dim=-1)) - share.log()
        return weights / share, gate[..., 0]

    def _known(self, symbols: Tensor) -> Tensor:
        return symbols.masked_fill(symbols >= self.n_symbols, UNKNOWN)


@dataclass(eq=False, repr=False, kw_only=True)
class Translator(StackArguments, SequenceEstimator[TranslatorModule]):
    r"""Translate texts by an encoder and a decoder, with a pointer that copies words of the source.

    .. math:: p(t_{m+1} \mid t_{\le m}, s) = g\, \operatorname{softmax}(E x_m) + (1 - g)\, \text{pointer}(x_m, z),
              \qquad z = \text{encoder}(s), \quad x = \text{decoder}(t, z)

    Parameters
    ----------
    tokenizer : {"words", "characters"} or Tokenizer, default "words"
        One for both languages. A fitted tokenizer is used as it is.
    n_layers, n_heads, d_model : int, defaults 4, 4, 128
        Size of each stack.
    d_feedforward : int, default None
        Hidden width of the feed-forward networks; None: ``4 * d_model``.
    pretrained : Translator, default None
        A fitted model of the same size to start from, whose tokenizer is used, too: fitted on damaged texts and the texts
        themselves, for example (denoising; Lewis et al. 2020, BART). None: from scratch.
    copy : bool, default True
        Whether words of the source can be copied, also those that training has not seen.
    position_shift : int, default 0
        In training, the positions of a batch start at a random number up to this, so that texts longer than those of
        training meet positions that are known.
    dropout : float, default 0.1
    label_smoothing : float, default 0.1
        Share of the target probability spread over all symbols.
    max_steps : int, default 5000
    batch_size : int, default 64
        Pairs in a step.
    learning_rate : float, default 1e-3
        At its peak.
    schedule : str, default "inverse_sqrt"
        As in `peerattn.training.train`.
    average : int, default 500
        The last steps whose parameters are averaged (checkpoint averaging), at most ``max_steps``.
    n_beams : int, default 5
        Translations kept side by side in `predict`.
    length_penalty : float, default 0.6
        See `beam_search`.
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

    Notes
    -----
    Positions are sinusoidal: no text is too long, but texts longer than those of training may be translated badly.
    A word outside the vocabulary is read as ``<unknown>`` and can be copied.

    References
    ----------
    Vaswani et al. (2017), Attention is all you need. See, Liu and Manning (2017), Get to the point: summarization with
    pointer-generator networks, ACL.

    Examples
    --------
    >>> pairs = [("ein hund", "a dog"), ("eine katze", "a cat"), ("ein haus", "a house")] * 10
    >>> source, target = [s for s, _ in pairs], [t for _, t in pairs]
    >>> model = Translator(n_layers=1, n_heads=2, d_model=16, max_steps=150, average=20, learning_rate=1e-2, random_state=0)
    >>> model.fit(source, target).predict(["eine katze"])
    ['a cat']
    """

    tokenizer: str | Tokenizer = field(default="words", kw_only=False)
    d_feedforward: int | None = None
    pretrained: Translator | None = None
    copy: bool = True
    position_shift: int = 0
    label_smoothing: float = 0.1
    max_steps: int = 5000
    schedule: str = "inverse_sqrt"
    average: int = 500
    n_beams: int = 5
    length_penalty: float = 0.6

    def fit(self, X: object, y: object) -> Self:
        """Learn from texts and their translations.

        Parameters
        ----------
        X, y : iterable of str, of one length

        Raises
        ------
        InputError
            When there are not as many translations as texts, or an argument is out of range.
        """
        self._validate_params()
        sources, targets = _check_pairs(X, y)
        self.tokenizer_ = text_encoder.fitted_tokenizer(self.tokenizer, [*sources, *targets], self.pretrained, Translator)
        return self._fit(tuple(zip(*(self._numbers(s, t)[:2] for s, t in zip(sources, targets)))))

    def _start(self, module: TranslatorModule, examples: tuple[Texts, Texts]) -> None:
        if self.pretrained is not None:
            with reworded("pretrained: expected a Translator of this size", kinds=RuntimeError):
                module.load_state_dict(self.pretrained._module().state_dict())

    def _batches(self, examples: tuple[Texts, Texts], generator: Generator) -> Iterator[tuple[Texts, Texts, int]]:
        """Yield sources, targets and the position at which both start."""
        for sources, targets in text_encoder.batches_by_length(examples, self.batch_size, generator):
            yield sources, targets, int(torch.randint(self.position_shift + 1, (), generator=generator))

    def _loss(self, module: TranslatorModule, batch: tuple[Texts, Texts, int]) -> Tensor:
        return self._pair_loss(module, self.label_smoothing, *batch)

    def predict(self, X: object) -> list[str]:
        """Return the translations, found by beam search."""
        numbers = [self._numbers(text, "") for text in check_texts(X)]
        translate = partial(self._translate, self._module())
        found = text_encoder.of_each(translate, [source for source, _, _ in numbers], self._on, _TRANSLATED_AT_ONCE)
        return [self._text(written, extra) for written, (_, _, extra) in zip(found, numbers)]

    def loss(self, X: object, y: object) -> float:
        """Return the mean negative log probability of the translations' symbols, ends included, in nats per symbol."""
        return self._mean_loss(X, y)

    def score(self, X: object, y: object = None) -> float:
        """Return minus the loss: larger is better."""
        return -self.loss(X, y)

    def _loss_sums(self, module: TranslatorModule, X: object, y: object) -> Iterator[tuple[Tensor, int]]:
        pairs = [self._numbers(source, target) for source, target in zip(*_check_pairs(X, y))]
        for first in range(0, len(pairs), _TRANSLATED_AT_ONCE):
            sources, targets, _ = zip(*pairs[first : first + _TRANSLATED_AT_ONCE])
            # the end is predicted, too
            n_symbols = sum(len(target) + 1 for target in targets)
            yield n_symbols * self._pair_loss(module, 0.0, sources, targets), n_symbols

    def attention(self, X: str, y: str | None = None) -> AttentionMap:
        """Return which symbols of the source each symbol of the translation attends to.

        Parameters
        ----------
        X : str
            The source.
        y : str, default None
            Its translation; None: the model's own.

        Returns
        -------
        AttentionMap
            Queries are the translation's symbols, each as it is written; keys are the source's.
        """
        (text,) = check_texts([X])
        if y is None:
            (target,) = self.predict([text])
        else:
            (target,) = check_texts([y], "y")
        source_numbers, target_numbers, extra = self._numbers(text, target)
        source = pad([source_numbers], self._on)
        written, _ = pad([[START, *target_numbers]], self._on)
        names = [*self.tokenizer_.symbols_, *extra]
        queries, keys = (tuple(names[k] for k in row) for row in ([*target_numbers, END], source_numbers))
        layers = self._recorded(lambda module: module.write(written, module.read(*source)))
        # every second of the decoder's, after the encoder's
        return AttentionMap(stacked([layer[0] for layer in layers[self.n_layers + 1 :: 2]]), queries, keys)

    def _build(self, generator: Generator) -> TranslatorModule:
        options: dict[str, Any] = {"dropout": self.dropout, "generator": generator}
        n_symbols = len(self.tokenizer_.symbols_)
        sizes = (self.d_model, self.n_heads, self.d_feedforward)
        embedding = nn.InputEmbedding(n_symbols, self.d_model, 1, positions="sinusoidal", **options)
        stacks = nn.EncoderDecoder(self.n_layers, self.n_layers, *sizes, **options)
        return TranslatorModule(embedding, stacks, self.copy, generator)

    def _numbers(self, source: str, target: str) -> tuple[list[int], list[int], list[str]]:
        """Return source (with its end) and target in extended numbers, and the words that extend them.

        A word outside the vocabulary has a number of its own if the source has it, and the pointer can reach it.
        """
        check_is_fitted(self, "tokenizer_")
        known = self.tokenizer_.numbers
        symbols = self.tokenizer_.tokenize(source)
        new = dict.fromkeys(symbol for symbol in symbols if symbol not in known)
        extra = {symbol: len(known) + k for k, symbol in enumerate(new)}
        numbers = [known.get(symbol, extra.get(symbol, UNKNOWN)) for symbol in symbols]
        reachable = dict[str, int]()
        if self.copy:  # without a pointer new words cannot be written
            reachable = extra
        written = [known.get(s, reachable.get(s, UNKNOWN)) for s in self.tokenizer_.tokenize(target)]
        return [*numbers, END], written, list(extra)

    def _text(self, numbers: Sequence[int], extra: list[str]) -> str:
        symbols = [*self.tokenizer_.symbols_, *extra]
        return self.tokenizer_.join([symbols[k] for k in numbers if k not in (PAD, START, END)])

    def _pair_loss(self, module: TranslatorModule, smoothing: float, sources: Texts, targets: Texts, start: int = 0) -> Tensor:
        source = module.read(*pad(sources, self._on), start)
        target, written = pad([[START, *t, END] for t in targets], self._on)
        rows = module.write(target[:, :-1], source, start=start)
        there = nn.padding_mask(written - 1, target.shape[1] - 1)[:, 0, 0]
        return module.loss(rows, source, target[:, 1:], there, smoothing)

    def _translate(self, module: TranslatorModule, symbols: Tensor, lengths: Tensor) -> list[list[int]]:
        n_extended = max(module.n_symbols, int(symbols.max()) + 1)
        reader = _TranslationReader(module, module.read(symbols, lengths), n_extended)
        start = torch.full((len(symbols), 1), START, device=self._on)
        options: dict[str, Any] = {"n_beams": self.n_beams, "length_penalty": self.length_penalty}
        return beam_search(reader, start, max_symbols=2 * symbols.shape[1] + 10, end=END, **options)


class _TranslationReader:
    """Reads growing translations, each symbol once."""

    def __init__(self, module: TranslatorModule, source: Source, n_extended: int):
        self.module = module
        self.source = source
        self.n_extended = n_extended
        self.cache = nn.StackCache(len(module.stacks.decoder.blocks))

    def next_log_probabilities(self, sequences: Tensor) -> Tensor:
        """Return the log probabilities of what follows: (n_sequences, n_extended)."""
        unread = sequences[:, self.cache.length :]
        rows = self.module.write(unread, self.source, cache=self.cache)[:, -1]
        log_p = self.module.log_probabilities(rows, self.source, self.n_extended)
        log_p[:, [PAD, START]] = -torch.inf
        return log_p

    def reorder(self, sequences: Tensor) -> None:
        """Follow the beams; those of a text share its source, which is spread over them before the first symbol."""
        if self.cache.length == 0:
            self.source = Source(*(part[sequences] for part in self.source))
        for own, _ in self.cache.blocks:
            own.reorder(sequences)


def _check_pairs(X: object, y: object) -> tuple[list[str], list[str]]:
    sources = check_texts(X)
    targets = check_texts(y, "y")
    expect(len(targets) == len(sources), "y", f"one translation per text ({len(sources)})", len(targets))
    return sources, targets
