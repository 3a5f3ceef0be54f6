"""Co-occurrences of symbols in texts, from which training starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

NEAR = 5  # symbols on either side that count as together
_SMOOTHING = 0.75  # power of the frequencies of the context, so that rare symbols do not count too much


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
    information = _information(_counts(sequences, n_symbols))
    k = min(d, n_symbols)
    left, values, _ = randomized_svd(information, k, random_state=0)
    vectors = np.zeros((n_symbols, d))
    vectors[:, :k] = left * np.sqrt(values)
    length = np.sqrt((vectors**2).sum() / n_symbols)
    return vectors / max(length, np.finfo(float).tiny)


def _counts(sequences: Sequence[Sequence[int]], n_symbols: int) -> sparse.csr_array:
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
    q = n**_SMOOTHING / max((n**_SMOOTHING).sum(), 1.0)
    row, column = pairs.coords
    values = np.maximum(np.log(pairs.data / (n[row] * q[column])), 0.0)
    return sparse.csr_array((values, (row, column)), shape=counts.shape)
