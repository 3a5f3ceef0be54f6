"""A text classifier: the row of ``<start>`` looks at the whole text and says which class it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from peerattn import nn
from peerattn.exceptions import InputError
from peerattn.sequence.base import class_numbers
from peerattn.sequence.masked_language_model import MaskedLanguageModel
from peerattn.sequence.text_encoder import TextEncoder, TextEstimator, batches_of_texts
from peerattn.sequence.tokenizers import PAD, START, UNKNOWN, Tokenizer, check_texts, pad


class ClassifierModule(torch.nn.Module):
    """A text encoder, and classes as the output of its first row."""

    def __init__(
        self, encoder: TextEncoder, d_model: int, n_classes: int, dropout: float, generator: torch.Generator
    ):
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout, generator=generator)
        self.classes = nn.linear(d_model, n_classes, generator=generator)

    def forward(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        """Return the logits (B, n_classes)."""
        return self.classes(self.dropout(self.encoder(symbols, lengths)[:, 0]))


@dataclass(eq=False, repr=False)
class TextClassifier(ClassifierMixin, TextEstimator):
    r"""Classify texts by a stack of transformer blocks, from scratch or from a masked language model.

    .. math:: p(y \mid s) = \operatorname{softmax}(W x_0 + b), \qquad x = \text{stack}(E' [\text{start}, s] + p)

    Parameters
    ----------
    tokenizer : {"words", "characters"} or Tokenizer, default "words"
        A fitted tokenizer is used as it is; with ``pretrained`` its tokenizer is.
    pretrained : MaskedLanguageModel, default None
        A fitted model to start from: its encoder's size and weights are taken. None: from scratch.
    n_layers, n_heads, d_model : int, defaults 1, 4, 64
        Size of the stack; taken from ``pretrained`` where that is given.
    n_positions : int, default 128
        Symbols of a text that are read, ``<start>`` included; longer texts are cut. Likewise.
    window : int, default None
        Each layer looks at so many symbols on either side only, at the cost of the window; None: at the whole text. Likewise.
    dropout : float, default 0.5
    symbol_dropout : float, default 0.5
        Share of symbols read as ``<unknown>`` in training.
    n_epochs : int, default 8
        Passes over the texts.
    batch_size : int, default 50
        Texts in a step.
    learning_rate : float, default 2e-3
        At its peak, with the one-cycle schedule.
    weight_decay : float, default 0.01
    label_smoothing : float, default 0.1
        Share of the target probability spread over all classes.
    random_state : int, RandomState or None, default None
    device : str, default "cpu"
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray
    tokenizer_ : Tokenizer
    state_, record_
        As in `SequenceEstimator`.

    References
    ----------
    Devlin et al. (2019), BERT, NAACL ([CLS]). Dai and Le (2015), Semi-supervised sequence learning, NeurIPS (symbol dropout).

    Examples
    --------
    >>> texts, labels = ["a fine film", "a dull film"] * 20, ["good", "bad"] * 20
    >>> model = TextClassifier(n_epochs=25, d_model=16, learning_rate=1e-2, random_state=0).fit(texts, labels)
    >>> model.predict(["fine", "dull"]).tolist()
    ['good', 'bad']
    """

    _fitted: ClassVar[tuple[str, ...]] = ("tokenizer_", "classes_", "state_")

    tokenizer: str | Tokenizer = "words"
    _: KW_ONLY
    pretrained: MaskedLanguageModel | None = None
    n_layers: int = 1
    n_heads: int = 4
    d_model: int = 64
    n_positions: int = 128
    window: int | None = None
    dropout: float = 0.5
    symbol_dropout: float = 0.5
    n_epochs: int = 8
    batch_size: int = 50
    learning_rate: float = 2e-3
    weight_decay: float = 0.01
    label_smoothing: float = 0.1
    random_state: Any = None
    device: str = "cpu"
    verbose: bool = False

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that keeps ``pretrained`` fitted, as cross-validation needs it."""
        options = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()}
        return type(self)(**{**options, "pretrained": self.pretrained})

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from texts and their classes.

        Parameters
        ----------
        X : iterable of str
        y : array-like, shape (n_texts,)

        Raises
        ------
        InputError
            When there are not as many classes as texts, or only one class.
        """
        texts, labels = check_texts(X), np.asarray(y)
        if labels.shape != (len(texts),):
            raise InputError(f"y: expected one class per text ({len(texts)}), got shape {labels.shape}.")
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y: expected at least two classes, got {self.classes_.tolist()}.")
        if self.pretrained is None:
            self._learn_symbols(texts)
        else:
            check_is_fitted(self.pretrained)
            self.tokenizer_ = self.pretrained.tokenizer_
        sequences = self._read(texts)
        generator = self._generator()
        module = self._build(generator).to(self.device)
        if self.pretrained is not None:
            module.encoder.load_state_dict(self.pretrained._module().encoder.state_dict())

        def loss(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
            symbols, lengths, truth = batch
            return F.cross_entropy(module(symbols, lengths), truth, label_smoothing=self.label_smoothing)

        steps = self.n_epochs * -(-len(texts) // self.batch_size)
        self._train(module, loss, self._batches(sequences, numbers, generator), max_steps=steps)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class, in the order of ``classes_``: (n_texts, n_classes)."""
        sequences = self._read(check_texts(X))
        module = self._module()
        probabilities = np.empty((len(sequences), len(self.classes_)))
        with torch.inference_mode():
            for at, symbols, lengths in self._by_length(sequences):
                probabilities[at] = module(symbols, lengths).double().softmax(-1).cpu().numpy()
        return probabilities

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each text."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def _loss_sums(self, module: Any, X: Any, y: Any) -> Iterator[tuple[Tensor, int]]:
        truth = class_numbers(self.classes_, y)
        for at, symbols, lengths in self._by_length(self._read(check_texts(X))):
            logits = module(symbols, lengths)
            yield F.cross_entropy(logits, truth[at].to(self.device), reduction="sum"), len(at)

    def _build(self, generator: torch.Generator) -> ClassifierModule:
        encoder = self._encoder(generator)
        return ClassifierModule(encoder, self._sizes().d_model, len(self.classes_), self.dropout, generator)

    def _sizes(self) -> TextEstimator:
        return self if self.pretrained is None else self.pretrained

    def _batches(
        self, sequences: Sequence[list[int]], classes: np.ndarray, generator: torch.Generator
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield symbols, lengths and classes, some symbols unknown."""
        for at in batches_of_texts(sequences, self.batch_size, generator):
            symbols, lengths = pad([sequences[k] for k in at], PAD)
            dropped = torch.rand(symbols.shape, generator=generator) < self.symbol_dropout
            symbols = symbols.masked_fill(dropped & (symbols != START) & (symbols != PAD), UNKNOWN)
            truth = torch.as_tensor(classes[at])
            yield symbols.to(self.device), lengths.to(self.device), truth.to(self.device)
