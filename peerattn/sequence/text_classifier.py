"""A text classifier: a line of symbols and pairs, and attention where it adds to that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import expect
from peerattn.sequence import text_encoder
from peerattn.sequence.base import (
    BesideLine,
    Classifies,
    SavedEstimator,
    SequenceEstimator,
    class_folds,
    loss_reduction_in_blocks,
)
from peerattn.sequence.masked_language_model import MaskedLanguageModel
from peerattn.sequence.text_encoder import EncodedTexts, TextEncoder, Texts, pad
from peerattn.sequence.tokenizers import PAD, START, UNKNOWN, Tokenizer, check_texts

#: Numbers and pairs of neighbours as terms.
_TERMS = {"token_pattern": r"\S+", "ngram_range": (1, 2), "sublinear_tf": True}
Examples: TypeAlias = tuple[Texts, np.ndarray, list[str]]  # texts as numbers, their classes, and as they were
N_FOLDS = 10  # one of them decides on attention


class ClassifierModule(torch.nn.Module):
    """A text encoder, and classes as the output of the mean of a text's rows."""

    def __init__(self, encoder: TextEncoder, n_classes: int, dropout: float, generator: Generator):
        super().__init__()
        self.encoder = encoder
        d_model = encoder.embedding.tokens.weight.shape[1]
        self.dropout = nn.Dropout(dropout, generator=generator)
        self.classes = nn.linear(d_model, n_classes, generator=generator)

    def forward(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        """Return the logits (B, n_classes)."""
        return self.classes(self.dropout(self.encoder.mean(symbols, lengths)))


@dataclass(eq=False, repr=False)
class SymbolRegression(SavedEstimator):
    r"""Logistic regression on how often symbols and pairs of neighbouring symbols occur in a text.

    .. math:: p(y \mid s) = \operatorname{softmax}(W x_s + b), \qquad
              x_{sk} \propto (1 + \log n_{sk}) \left(1 + \log \frac{1 + n}{1 + n_k}\right), \quad \lVert x_s \rVert = 1

    with :math:`n_{sk}` the occurrences of k in text s and :math:`n_k` the number of the n training texts that have it (tf-idf).

    Parameters
    ----------
    C : float, default 10
        Inverse penalty of `sklearn.linear_model.LogisticRegression`.

    References
    ----------
    Wang and Manning (2012), Baselines and bigrams: simple, good sentiment and topic classification, ACL.

    Examples
    --------
    >>> model = SymbolRegression().fit([[5, 6], [5, 7]] * 10, np.array([0, 1] * 10), n_classes=2)
    >>> model.log_probabilities([[6, 5], [7]]).argmax(1).tolist()
    [0, 1]
    """

    C: float = 10.0

    def fit(self, sequences: Sequence[Sequence[int]], y: np.ndarray, *, n_classes: int) -> Self:
        """Learn from texts as symbol numbers, and their class numbers below ``n_classes``.

        A class without a text is as probable as one text in n + 1.
        """
        tf_idf = TfidfVectorizer(**_TERMS)
        x = tf_idf.fit_transform(_written(sequences))
        self.terms_ = tf_idf.get_feature_names_out()
        self.idf_ = tf_idf.idf_
        self.coef_ = np.zeros((n_classes, len(self.terms_)))
        prepared, numbers = np.unique(y, return_inverse=True)
        # a class that a fold lacks is as likely as in one text more
        self.intercept_ = np.full(n_classes, -np.log(len(sequences)))
        self.intercept_[prepared] = 0.0
        if len(prepared) > 1:
            found = LogisticRegression(C=self.C, max_iter=1000).fit(x, numbers)
            # one line for both of two classes
            signs = np.array([[-0.5], [0.5]]) if len(prepared) == 2 else np.eye(len(prepared))
            self.coef_[prepared] = signs @ found.coef_
            self.intercept_[prepared] = signs @ found.intercept_
        return self

    def log_probabilities(self, sequences: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log probability of every class, (n_texts, n_classes)."""
        tf_idf = TfidfVectorizer(vocabulary=self.terms_, **_TERMS)
        tf_idf.idf_ = self.idf_
        logits = tf_idf.transform(_written(sequences)) @ self.coef_.T + self.intercept_
        return np.asarray(log_softmax(logits, axis=1))


def _written(sequences: Sequence[Sequence[int]]) -> list[str]:
    return [" ".join(map(str, sequence)) for sequence in sequences]


@dataclass(eq=False, repr=False, kw_only=True)
class TextClassifier(Classifies, BesideLine, EncodedTexts, SequenceEstimator[ClassifierModule]):
    r"""Classify texts by the symbols they have, and by a stack of transformer blocks where that adds.

    .. math:: p(y \mid s) = \operatorname{softmax}\big(\ell(s) + \rho\,(W \bar x + b)\big), \qquad
              x = \text{stack}(E' [\text{start}, s] + p), \quad \bar x = \text{mean of its rows}

    The line :math:`\ell` is a logistic regression on symbols and pairs of neighbours (tf-idf, see `SymbolRegression`). Attention
    is trained on nine tenths of the texts. On the other tenth ρ in [0, 1] is chosen: zero, the line alone, unless the loss
    falls by more than one standard error.

    Parameters
    ----------
    tokenizer : {"words", "characters"} or Tokenizer, default "words"
        A fitted tokenizer is used as it is; with ``pretrained`` its tokenizer is.
    line : bool, default True
        False: attention alone, from all texts.
    pretrained : MaskedLanguageModel, default None
        A fitted model to start from: its encoder's size and weights are taken. None: from scratch.
    n_layers, n_heads, d_model : int, defaults 1, 4, 64
        Size of the stack; taken from ``pretrained`` where that is given.
    n_positions : int, default 128
        Symbols of a text that are read, ``<start>`` included; longer texts are cut. Likewise.
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
    device, precision, compile : str, str, bool, defaults "cpu", "auto", False
        Where and how it is trained, as in `SequenceEstimator`.
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray
    tokenizer_ : Tokenizer
    line_ : SymbolRegression or None
    factor_ : float
        ρ; 1 without a line.
    loss_reduction_, loss_reduction_error_ : float
        By which share attention lowers the line's loss on the tenth of the texts, and its standard error; nan without a line.
    state_, record_
        As in `SequenceEstimator`.

    Notes
    -----
    The line reads all of a text, attention the first ``n_positions``.

    References
    ----------
    Wang and Manning (2012), Baselines and bigrams: simple, good sentiment and topic classification, ACL. Iyyer et al.
    (2015), Deep unordered composition rivals syntactic methods for text classification, ACL (means of rows, symbol dropout).

    Examples
    --------
    >>> texts, labels = ["a fine film", "a dull film"] * 20, ["good", "bad"] * 20
    >>> model = TextClassifier(n_epochs=25, d_model=16, learning_rate=1e-2, random_state=0).fit(texts, labels)
    >>> model.predict(["fine", "dull"]).tolist()
    ['good', 'bad']
    """

    _answers: ClassVar[str] = "probabilities"

    tokenizer: str | Tokenizer = field(default="words", kw_only=False)
    line: bool = True
    pretrained: MaskedLanguageModel | None = None
    n_layers: int = 1
    d_model: int = 64
    n_positions: int = 128
    dropout: float = 0.5
    symbol_dropout: float = 0.5
    n_epochs: int = 8
    batch_size: int = 50
    learning_rate: float = 2e-3
    weight_decay: float = 0.01
    label_smoothing: float = 0.1

    def fit(self, X: object, y: object) -> Self:
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
        self._validate_params()
        texts = check_texts(X)
        labels = self._check_classes(y, len(texts), "text")
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        expect(len(self.classes_) > 1, "y", "at least two classes", self.classes_.tolist())
        self.tokenizer_ = text_encoder.fitted_tokenizer(self.tokenizer, texts, self.pretrained, MaskedLanguageModel)
        return self._fit((self._read(texts), numbers, texts))

    def _start(self, module: ClassifierModule, examples: Examples) -> None:
        if self.pretrained is not None:
            module.encoder.load_state_dict(self.pretrained._module().encoder.state_dict())

    def _learn(self, module: ClassifierModule, examples: Examples, generator: Generator, **options: Any) -> None:
        """Learn attention, from nine tenths of the texts where there is a line, and validate on the last tenth."""
        sequences, numbers, texts = examples
        self.line_: SymbolRegression | None = None
        self.factor_ = 1.0
        self.loss_reduction_ = float("nan")
        self.loss_reduction_error_ = float("nan")
        if not self.line:
            return super()._learn(module, (sequences, numbers), generator)
        folds = class_folds(numbers, N_FOLDS, torch.randperm(len(texts), generator=generator).numpy())
        observed, held = (np.flatnonzero(part).tolist() for part in (folds != 0, folds == 0))
        super()._learn(module, ([sequences[k] for k in observed], numbers[observed]), generator)
        attended = self._attended(module.eval(), [sequences[k] for k in held])
        symbols = [self.tokenizer_.encode(text) for text in texts]
        n_classes = len(self.classes_)
        before = SymbolRegression().fit([symbols[k] for k in observed], numbers[observed], n_classes=n_classes)
        line = before.log_probabilities([symbols[k] for k in held])
        self.factor_, self.loss_reduction_, self.loss_reduction_error_ = held_out(line, attended, numbers[held])
        self.line_ = SymbolRegression().fit(symbols, numbers, n_classes=n_classes)

    def predict_proba(self, X: object) -> np.ndarray:
        """Return the probability of every class, in the order of ``classes_``: (n_texts, n_classes)."""
        texts = check_texts(X)
        attended = self._attended(self._module(), self._read(texts))
        return np.asarray(softmax(self._offsets(texts) + self.factor_ * attended, axis=1))

    def _attended(self, module: ClassifierModule, sequences: Sequence[list[int]]) -> np.ndarray:
        """Return what attention adds to the logits, (n_texts, n_classes)."""
        return torch.stack(text_encoder.of_each(module, sequences, self._on)).double().cpu().numpy()

    def _offsets(self, texts: list[str]) -> np.ndarray:
        """Return the log probabilities of the line, (n_texts, n_classes)."""
        if self.line_ is None:
            return np.zeros((len(texts), len(self.classes_)))
        return self.line_.log_probabilities([self.tokenizer_.encode(text) for text in texts])

    def _loss_sums(self, module: ClassifierModule, X: object, y: object) -> Iterator[tuple[Tensor, int]]:
        texts = check_texts(X)
        truth = self._class_numbers(self._check_classes(y, len(texts), "text"))
        offsets = torch.tensor(self._offsets(texts), dtype=torch.float32)
        for at, symbols, lengths in text_encoder.by_length(self._read(texts), self._on):
            logits = offsets[at].to(self._on) + self.factor_ * module(symbols, lengths)
            yield F.cross_entropy(logits, truth[at].to(self._on), reduction="sum"), len(at)

    def _build(self, generator: Generator) -> ClassifierModule:
        module = ClassifierModule(self._encoder(generator), len(self.classes_), self.dropout, generator)
        return text_encoder.as_published(module, self._sizes())

    def _batches(self, examples: tuple[Texts, np.ndarray], generator: Generator) -> Iterator[list[Tensor]]:
        """Yield symbols, some of them unknown, lengths and classes."""
        for sequences, classes in text_encoder.batches_by_length(examples, self.batch_size, generator):
            symbols, lengths = pad(sequences)
            dropped = torch.rand(symbols.shape, generator=generator) < self.symbol_dropout
            symbols = symbols.masked_fill(dropped & (symbols != START) & (symbols != PAD), UNKNOWN)
            batch = (symbols, lengths, torch.as_tensor(np.array(classes)))
            yield [part.to(self._on, non_blocking=True) for part in batch]


def held_out(line: np.ndarray, added: np.ndarray, classes: np.ndarray) -> tuple[float, float, float]:
    """Return the factor in [0, 1] of what attention adds, the share by which it lowers the loss, and the standard error.

    The factor is zero where the loss does not fall by more than one standard error.
    """

    def losses(factor: float) -> np.ndarray:
        logits = line + factor * added
        return np.asarray(-log_softmax(logits, axis=1)[np.arange(len(classes)), classes])

    # between the line alone and attention in full
    factor = float(minimize_scalar(lambda f: losses(f).mean(), bounds=(0, 1), method="bounded").x)
    gain, error = loss_reduction_in_blocks(losses(0.0), losses(factor), len(classes))
    if gain <= error or len(classes) < 2:
        factor = 0.0
    return factor, gain, error
