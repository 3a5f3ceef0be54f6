"""A linear classifier of texts: the cheap control, and where attention starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from peerattn.sequence.base import SavedEstimator


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
    >>> model = SymbolRegression().fit([[5, 6], [5, 7]] * 10, np.array([0, 1] * 10), n_classes=2, n_symbols=8)
    >>> model.log_probabilities([[6, 5], [7]]).argmax(1).tolist()
    [0, 1]
    """

    _fitted: ClassVar[tuple[str, ...]] = ("n_symbols_", "keys_", "idf_", "coef_", "intercept_")

    C: float = 10.0

    def fit(
        self, sequences: Sequence[Sequence[int]], y: np.ndarray, *, n_classes: int, n_symbols: int
    ) -> Self:
        """Learn from texts as symbol numbers below ``n_symbols``, and their class numbers below ``n_classes``.

        A class without a text is as probable as one text in n + 1.
        """
        self.n_symbols_ = n_symbols
        at, keys = self._occurrences(sequences)
        self.keys_ = np.unique(keys)
        counts = self._counts(at, keys, len(sequences))
        self.idf_ = 1 + np.log(
            (1 + len(sequences)) / (1 + np.bincount(counts.indices, minlength=len(self.keys_)))
        )
        self.coef_ = np.zeros((n_classes, len(self.keys_)))
        seen, numbers = np.unique(y, return_inverse=True)
        self.intercept_ = np.full(n_classes, -np.log(len(sequences)))
        self.intercept_[seen] = 0.0
        if len(seen) > 1:
            found = LogisticRegression(C=self.C, max_iter=1000).fit(self._weighed(counts), numbers)
            binary = np.array([[-0.5], [0.5]]) if len(seen) == 2 else np.eye(len(seen))
            self.coef_[seen], self.intercept_[seen] = binary @ found.coef_, binary @ found.intercept_
        return self

    def log_probabilities(self, sequences: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log probability of every class, (n_texts, n_classes)."""
        x = self._weighed(self._counts(*self._occurrences(sequences), len(sequences)))
        logits = x @ self.coef_.T + self.intercept_
        return np.asarray(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

    def _occurrences(self, sequences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """Return which text, and which symbol (its number) or pair of neighbours (the numbers after those of symbols)."""
        keys = []
        for sequence in sequences:
            numbers = np.asarray(sequence, dtype=np.int64)
            keys.append(np.concatenate([numbers, (numbers[:-1] + 1) * self.n_symbols_ + numbers[1:]]))
        return np.repeat(np.arange(len(keys)), [len(found) for found in keys]), np.concatenate(keys)

    def _counts(self, at: np.ndarray, keys: np.ndarray, n_texts: int) -> sparse.csr_array:
        """Return how often each text has each key of ``fit``."""
        places = np.minimum(np.searchsorted(self.keys_, keys), len(self.keys_) - 1)
        known = self.keys_[places] == keys
        shape = (n_texts, len(self.keys_))
        return sparse.csr_array((np.ones(known.sum()), (at[known], places[known])), shape=shape)

    def _weighed(self, counts: sparse.csr_array) -> sparse.csr_array:
        weighed = counts.copy()
        weighed.data = (1 + np.log(weighed.data)) * self.idf_[weighed.indices]
        return normalize(weighed)


def class_folds(y: np.ndarray, n_folds: int, order: np.ndarray) -> np.ndarray:
    """Deal the rows of each class to the folds, in this order: (n,). Each class continues where the preceding one ended.

    Examples
    --------
    >>> class_folds(np.array([0, 0, 1, 1]), 2, np.arange(4)).tolist()
    [0, 1, 0, 1]
    """
    folds = np.empty(len(y), dtype=np.int64)
    folds[order[np.argsort(y[order], kind="stable")]] = np.arange(len(y)) % n_folds
    return folds
