"""One period's weights of focal firms (rows) on peers (columns)."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, check_count, expect, reworded
from peerattn.render import show_label

Array: TypeAlias = npt.NDArray[Any]
Weights: TypeAlias = Array | sparse.csr_array

_DENSE = 20_000
_TOLERANCE = {"float64": 1e-6, "float32": 1e-5}


@dataclass(frozen=True, eq=False)
class CrossSection:
    """Weights of one period; firms are positions in the network's labels.

    Parameters
    ----------
    rows : ndarray of int, shape (n_firms,)
        The focal firms.
    columns : ndarray of int, shape (n_peers,)
        The possible peers; the same array as ``rows`` when every firm is both.
    weights : ndarray or scipy.sparse.csr_array, shape (n_firms, n_peers)
        ``weights[i, j]`` is the weight that focal firm i puts on peer j. Read-only.
    """

    rows: Array
    columns: Array
    weights: Weights

    def __post_init__(self) -> None:
        if not np.isfinite(stored(self.weights)).all():
            raise InputError("weights: some are NaN or infinite; a firm that is no peer has the weight 0.")

    @property
    def is_sparse(self) -> bool:
        """Whether only the weights that are not zero are stored."""
        return isinstance(self.weights, sparse.csr_array)

    @property
    def is_square(self) -> bool:
        """Whether focal firms and peers are the same firms, in the same order."""
        return np.array_equal(self.rows, self.columns)

    @property
    def n_edges(self) -> int:
        """How many weights are not zero."""
        return int(np.count_nonzero(stored(self.weights)))

    def dense(self) -> Array:
        """Return the weights as an array, shape (n_firms, n_peers)."""
        return as_dense(self.weights)

    def csr(self) -> sparse.csr_array:
        """Return the weights as a sparse array: no stored zeros, columns in order within each row."""
        return sparse.csr_array(self.weights)

    def others(self) -> sparse.csr_array:
        """Return the weights as a sparse array without those of firms on themselves."""
        found = self.csr().tocoo()
        kept = self.rows[found.row] != self.columns[found.col]
        return sparse.csr_array((found.data[kept], (found.row[kept], found.col[kept])), shape=found.shape)

    def row_sums(self) -> Array:
        """Return each focal firm's total weight in float64, shape (n_firms,)."""
        return np.asarray(self.weights.sum(axis=1, dtype=np.float64)).ravel()

    def column_sums(self) -> Array:
        """Return the weight each peer is given in float64, shape (n_peers,)."""
        return np.asarray(self.weights.sum(axis=0, dtype=np.float64)).ravel()

    def on_itself(self) -> Array:
        """Return the weight each focal firm puts on itself, shape (n_firms,); 0 where it is no peer."""
        return np.asarray((self.csr() - self.others()).astype(np.float64).sum(axis=1)).ravel()

    def effective(self) -> Array:
        """Return each focal firm's effective number of peers, 1 / Σ_j p_ij²; NaN for an isolate."""
        # of signed weights the sizes count
        sizes: Any = abs(self.weights)
        total = np.asarray(sizes.sum(axis=1), dtype=np.float64).ravel()
        squares = np.asarray((sizes * sizes).sum(axis=1), dtype=np.float64).ravel()
        return np.divide(total**2, squares, out=np.full(len(total), np.nan), where=squares > 0)

    def isolates(self) -> Array:
        """Return which focal firms put no weight on anyone, shape (n_firms,), bool."""
        weights: Any = self.weights
        return np.asarray((weights != 0).sum(axis=1)).ravel() == 0

    def entries(self, top_k: int | None = None) -> tuple[Array, Array, Array]:
        """Return row, column and weight of every weight that is not zero, row by row.

        With ``top_k``, the ``top_k`` largest by absolute size in each row, largest first; ties go to the
        earlier column, so that the choice is exact and always the same.
        """
        check_count(top_k=top_k)
        if top_k is None:
            found = self.csr().tocoo()
            return found.row, found.col, found.data
        weights: Any = self.weights
        possible = weights if self.is_sparse else _largest_in_rows(np.abs(weights), top_k)
        i, j = possible.nonzero()
        w = np.asarray(as_dense(weights[i, j])).ravel()
        order = np.lexsort((j, -np.abs(w), i))
        # ranks within a row: rows are sorted, so that each begins where its number is first found
        i = i[order]
        kept = np.arange(len(i)) - np.searchsorted(i, i) < top_k
        return i[kept], j[order][kept], w[order][kept]

    def edges(self, top_k: int | None = None) -> tuple[Array, Array, Array]:
        """Return focal firm and peer, as positions in the network's labels, and weight in float64, as :meth:`entries`."""
        i, j, w = self.entries(top_k)
        return self.rows[i], self.columns[j], w.astype(np.float64)

    def block(self, firms: Array, peers: Array) -> Any:
        """Return the weights of some firms on others, in float64, zero where one of them is not of this period.

        Parameters
        ----------
        firms, peers : ndarray of int
            Positions in the network's labels.

        Returns
        -------
        ndarray or scipy.sparse.csr_array, shape (len(firms), len(peers))
            Sparse where the weights are.
        """
        # firms outside this period keep rows and columns of zeros, so that periods add up
        places = place_in(self.rows, firms), place_in(self.columns, peers)
        i, j = (np.flatnonzero(place >= 0) for place in places)
        known: Any = self.weights[np.ix_(places[0][i], places[1][j])].astype(np.float64)
        if self.is_sparse:
            found = known.tocoo()
            return sparse.csr_array((found.data, (i[found.row], j[found.col])), shape=(len(firms), len(peers)))
        whole = np.zeros((len(firms), len(peers)))
        whole[np.ix_(i, j)] = known
        return whole

    def square(self) -> tuple[Array, Array]:
        """Return the firms that are both focal firms and peers, and their dense weights among each other.

        Raises
        ------
        InputError
            When a sparse network has over 20,000 firms: n² numbers would not fit in memory.
        """
        if self.is_sparse and len(self.rows) > _DENSE:
            raise InputError(f"network: too large, with {len(self.rows):,} firms; take subset(firms=...).")
        both = self.rows if self.is_square else np.intersect1d(self.rows, self.columns)
        return both, as_dense(self.block(both, both))


def _largest_in_rows(sizes: Array, k: int) -> Array:
    """Mask of the k largest positive entries of each row, ties included (there may be more than k)."""
    if k >= sizes.shape[1]:
        return np.asarray(sizes > 0)
    # a partition finds the k-th largest without sorting the row
    bar = np.partition(sizes, sizes.shape[1] - k, axis=1)[:, sizes.shape[1] - k]
    return np.asarray((sizes >= bar[:, None]) & (sizes > 0))


def as_dense(weights: Weights) -> Array:
    """Return weights, sparse or not, as an array."""
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


def stored(weights: Weights) -> Array:
    """Return the weights that memory holds: of sparse ones those that are not zero."""
    return weights if isinstance(weights, np.ndarray) else weights.data


def strongest(weights: Weights, top_k: int) -> sparse.csr_array:
    """Return the ``top_k`` largest weights of each row (by absolute size) as they are, sparse.

    Examples
    --------
    >>> strongest(np.array([[0.5, 0.2, 0.3]]), 2).toarray()
    array([[0.5, 0. , 0.3]])
    """
    n, m = weights.shape
    i, j, w = CrossSection(np.arange(n), np.arange(m), weights).entries(top_k)
    return sparse.csr_array((w, (i, j)), shape=(n, m))


def frozen(weights: npt.ArrayLike | sparse.sparray) -> Weights:
    """Return weights made read-only; sparse ones in canonical form (no stored zeros, sorted, no repeats)."""
    if not sparse.issparse(weights):
        array = np.asarray(weights)
        array.flags.writeable = False
        return array
    # in one form, so that equal networks are equal arrays
    kept = sparse.csr_array(weights)
    kept.sum_duplicates()
    kept.eliminate_zeros()
    for part in (kept.data, kept.indices, kept.indptr):
        part.flags.writeable = False
    return kept


def checked_weights(weights: Any, shape: tuple[int, int], where: str) -> Weights:
    """Return ``weights`` as a read-only float array (csr when given sparse): a copy, unless they are read-only already.

    Raises
    ------
    InputError
        When the shape is wrong, or a weight is NaN or infinite.
    """
    with reworded(f"weights{where}: expected a matrix of numbers", kinds=(TypeError, ValueError)):
        given = weights if sparse.issparse(weights) else np.asarray(weights, order="C")
        dtype = np.float32 if given.dtype in (np.float32, np.float16) else np.float64
        if sparse.issparse(given):
            kept: Any = sparse.csr_array(given, dtype=dtype, copy=True)
        elif given.flags.owndata and not given.flags.writeable:
            kept = np.asarray(given, dtype=dtype)  # nobody changes it: no second array of n² numbers
        else:
            kept = np.array(given, dtype=dtype)
    expect(kept.shape == shape, f"weights{where}", f"shape {shape} (firms, peers)", kept.shape)
    if count := int((~np.isfinite(stored(kept))).sum()):
        raise InputError(f"weights{where}: {count} weights are NaN or infinite; an absent weight is 0.")
    return frozen(kept)


def check_rows(section: CrossSection, firms: pd.Index, where: str) -> None:
    """Raise an error for negative weights and rows that sum neither to one nor to zero.

    Raises
    ------
    InputError
        Naming the first such firm.
    """
    weights: Any = section.weights
    negative = np.flatnonzero(np.asarray((weights < 0).sum(axis=1)).ravel())
    if len(negative):
        raise InputError(f"weights{where}: negative in the row of {firms.tolist()[negative[0]]!r}; pass signed=True.")
    sums = section.row_sums()
    # a sum of many float32 is exact to five digits
    tolerance = _TOLERANCE[str(weights.dtype)]
    wrong = np.flatnonzero((np.abs(sums - 1.0) > tolerance) & (sums != 0.0))
    if len(wrong):
        first = f"the first: {firms.tolist()[wrong[0]]!r}, sum {sums[wrong[0]]:.6g}"
        remedy = "Divide each row by its sum, or pass row_normalized=False."
        raise InputError(f"weights{where}: {len(wrong)} rows sum neither to 1 nor to 0 ({first}). {remedy}")


def place_in(members: Array, positions: Array) -> Array:
    """Return the place of each position among ``members``, -1 where it is absent."""
    return np.asarray(pd.Index(members).get_indexer_for(pd.Index(positions)))


def where_in(period: Hashable) -> str:
    """Return how an error names a period; nothing for an undated cross-section.

    Examples
    --------
    >>> where_in(2001), where_in(None)
    (' in period 2001', '')
    """
    if period is None:
        return ""
    return f" in period {show_label(period)}"
