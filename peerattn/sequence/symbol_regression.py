"""A linear classifier of texts: the cheap control, and where attention starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import log_softmax
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from peerattn.sequence.base import SavedEstimator

#: Numbers and pairs of neighbours as terms.
_TERMS = {"token_pattern": r"\S+", "ngram_range": (1, 2), "sublinear_tf": True}


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

    _fitted: ClassVar[tuple[str, ...]] = ("keys_", "idf_", "coef_", "intercept_")

    C: float = 10.0

    def fit(self, sequences: Sequence[Sequence[int]], y: np.ndarray, *, n_classes: int) -> Self:
        """Learn from texts as symbol numbers, and their class numbers below ``n_classes``.

        A class without a text is as probable as one text in n + 1.
        """
        tf_idf = TfidfVectorizer(**_TERMS)
        x = tf_idf.fit_transform(_written(sequences))
        self.keys_, self.idf_ = tf_idf.get_feature_names_out(), tf_idf.idf_
        self.coef_ = np.zeros((n_classes, len(self.keys_)))
        seen, numbers = np.unique(y, return_inverse=True)
        self.intercept_ = np.full(n_classes, -np.log(len(sequences)))
        self.intercept_[seen] = 0.0
        if len(seen) > 1:
            found = LogisticRegression(C=self.C, max_iter=1000).fit(x, numbers)
            binary = np.array([[-0.5], [0.5]]) if len(seen) == 2 else np.eye(len(seen))
            self.coef_[seen], self.intercept_[seen] = binary @ found.coef_, binary @ found.intercept_
        return self

    def log_probabilities(self, sequences: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log probability of every class, (n_texts, n_classes)."""
        tf_idf = TfidfVectorizer(vocabulary=self.keys_, **_TERMS)
        tf_idf.idf_ = self.idf_
        logits = tf_idf.transform(_written(sequences)) @ self.coef_.T + self.intercept_
        return np.asarray(log_softmax(logits, axis=1))


def _written(sequences: Sequence[Sequence[int]]) -> list[str]:
    return [" ".join(map(str, sequence)) for sequence in sequences]


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
