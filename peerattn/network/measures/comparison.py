"""A network against codes, against itself a period before, and against another network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse, stats

from peerattn.exceptions import InputError
from peerattn.network.attributes import code_numbers
from peerattn.network.cross_section import Array, CrossSection, Weights

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork


def overlap(network: PeerNetwork, codes: pd.Series) -> pd.DataFrame:
    """Return how much weight stays within a code (an industry), against what chance gives.

    Parameters
    ----------
    network : PeerNetwork
        Not signed.
    codes : pandas.Series
        By firm, or by firm and period. Pairs with an unknown code are left out on both sides.

    Returns
    -------
    pandas.DataFrame
        Index ``period``; ``share`` of weight within the code, ``chance`` (the share if every firm spread the same
        weight evenly over all others with a known code), ``lift = share / chance``, and ``firms`` with a code.

    Raises
    ------
    InputError
        When the network is signed or ``codes`` is not labelled by firm.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"period": 1, "firm": list("ABCD"), "peer": list("BADC"), "weight": 1.0})
    >>> overlap(PeerNetwork.from_edges(edges), pd.Series(["36", "36", "28", "28"], index=list("ABCD")))
            share    chance  lift  firms
    period
    1         1.0  0.333333   3.0      4
    """
    if network.signed:
        raise InputError("overlap: shares of negative weights have no meaning; the network is signed.")
    rows = []
    for period, section in network.sections():
        own = code_numbers(network, codes, section.rows, period, "codes")
        peers = code_numbers(network, codes, section.columns, period, "codes")
        rows.append(_overlap(section, own, peers))
    return pd.DataFrame(rows, index=network.periods.rename("period"))


def _overlap(section: CrossSection, own: Array, peers: Array) -> dict[str, float]:
    known = peers >= 0
    count = int(max(own.max(initial=-1), peers.max(initial=-1))) + 1
    to_code = np.zeros((len(own), count))
    if count:
        columns = np.flatnonzero(known)
        codes = sparse.csr_array(
            (np.ones(len(columns)), (columns, peers[columns])), shape=(len(peers), count)
        )
        product = section.weights @ codes
        to_code = product.toarray() if sparse.issparse(product) else np.asarray(product)
    focal = np.flatnonzero(own >= 0)
    own = own[focal]
    within, total = to_code[focal, own], to_code[focal].sum(axis=1)
    is_peer = np.isin(section.rows[focal], section.columns[known]).astype(float)
    same = np.bincount(peers[known], minlength=count)[own] - is_peer if count else np.zeros(0)
    others = known.sum() - is_peer
    expected = np.divide(same, others, out=np.zeros(len(focal)), where=others > 0)
    weight = total.sum()
    share = float(within.sum() / weight) if weight else np.nan
    chance = float((total * expected).sum() / weight) if weight else np.nan
    return {
        "share": share,
        "chance": chance,
        "lift": share / chance if chance else np.nan,
        "firms": len(focal),
    }


def turnover(network: PeerNetwork, *, top_k: int = 10) -> pd.DataFrame:
    """Return how much of each firm's attention moves from one period to the next.

    Parameters
    ----------
    network : PeerNetwork
        Rows sum to one, several periods.
    top_k : int, default 10
        Peers compared by the Jaccard index.

    Returns
    -------
    pandas.DataFrame
        Index ``period`` (from the second on); ``turnover`` (mean over firms that look in both periods of
        ``½ Σ_j |w_ij,t − w_ij,t−1|``: 0 nothing moves, 1 everything), ``jaccard`` (mean share of common
        ``top_k`` peers) and ``firms`` compared.

    Raises
    ------
    InputError
        When rows do not sum to one.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> ring = np.eye(3)[[1, 2, 0]]
    >>> network = PeerNetwork.from_matrices({1: ("ABC", None, ring), 2: ("ABC", None, ring.T)})
    >>> turnover(network)
            turnover  jaccard  firms
    period
    2            1.0      0.0      3
    """
    if not network.row_normalized:
        raise InputError("turnover: rows must sum to one; use normalized() first.")
    sections = [section for _, section in network.sections()]
    rows = [
        _moved(_shared(before, now, len(network.labels)), top_k)
        for before, now in zip(sections[:-1], sections[1:], strict=True)
    ]
    names = ["turnover", "jaccard", "firms"]
    return pd.DataFrame(rows, index=network.periods[1:].rename("period"), columns=names)


def _shared(first: CrossSection, second: CrossSection, size: int) -> tuple[Weights, Weights]:
    """Rows of firms that look in both, columns all labels."""
    firms = np.intersect1d(first.rows[~first.isolates()], second.rows[~second.isolates()])
    return _rows_over_labels(first, firms, size), _rows_over_labels(second, firms, size)


def _rows_over_labels(section: CrossSection, firms: Array, size: int) -> Weights:
    place = np.full(size, -1, dtype=np.intp)
    place[section.rows] = np.arange(len(section.rows))
    if not section.is_sparse:
        dense = np.zeros((len(firms), size))
        dense[:, section.columns] = section.dense()[place[firms]]
        return dense
    found = section.csr()[place[firms]].tocoo()
    entries = (found.data.astype(np.float64), (found.row, section.columns[found.col]))
    return sparse.csr_array(entries, shape=(len(firms), size))


def _moved(pair: tuple[Weights, Weights], top_k: int) -> dict[str, float]:
    first, second = pair
    count = first.shape[0]
    if not count:
        return {"turnover": np.nan, "jaccard": np.nan, "firms": 0}
    difference: Any = abs(np.asarray(first - second) if isinstance(first, np.ndarray) else first - second)
    moved = float(difference.sum()) / (2 * count)
    return {"turnover": moved, "jaccard": _jaccard(first, second, top_k), "firms": count}


def _jaccard(first: Weights, second: Weights, top_k: int) -> float:
    """Mean over rows of common top-k peers over all top-k peers of either."""
    rows, columns = np.arange(first.shape[0]), np.arange(first.shape[1])
    tops = []
    for weights in (first, second):
        i, j, _ = CrossSection(rows, columns, weights).entries(top_k)
        tops.append(sparse.csr_array((np.ones(len(i)), (i, j)), shape=first.shape))
    both = np.asarray(tops[0].multiply(tops[1]).sum(axis=1)).ravel()
    either = np.asarray(tops[0].sum(axis=1) + tops[1].sum(axis=1)).ravel() - both
    known = either > 0
    return float((both[known] / either[known]).mean()) if known.any() else float("nan")


def agreement(first: PeerNetwork, second: PeerNetwork, *, top_k: int = 10) -> pd.DataFrame:
    """Return how far two networks agree, period by period, among the firms both have.

    Parameters
    ----------
    first, second : PeerNetwork
        With periods in common, or both undated.
    top_k : int, default 10
        Peers compared by the Jaccard index.

    Returns
    -------
    pandas.DataFrame
        Index ``period``; ``correlation`` and ``rank_correlation`` of the weights over all pairs of distinct firms
        (zero weights included), ``jaccard`` (mean share of common ``top_k`` peers), ``firms`` compared.

    Raises
    ------
    InputError
        When no period is in both.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 0.9, 0.1], [0.2, 0.0, 0.8], [0.6, 0.4, 0.0]])
    >>> network = PeerNetwork.from_matrices({1: ("ABC", None, W)})
    >>> agreement(network, network, top_k=1)
            correlation  rank_correlation  jaccard  firms
    period
    1               1.0               1.0      1.0      3
    """
    if first.is_dated != second.is_dated or (first.is_dated and not first.periods.isin(second.periods).any()):
        raise InputError(
            "second: no period is in both networks; compare the same periods, or mean() of each."
        )
    rows, found = [], []
    for period, section in first.sections():
        if first.is_dated and period not in second.periods:
            continue
        a = _frame(first, section)
        b = _frame(second, second.section(period if second.is_dated else None)[1])
        firms, peers = a.index[a.index.isin(b.index)], a.columns[a.columns.isin(b.columns)]
        rows.append(_agreement(a.loc[firms, peers], b.loc[firms, peers], top_k))
        found.append(period)
    index = first.periods[first.periods.isin(found)] if first.is_dated else first.periods
    return pd.DataFrame(rows, index=index.rename("period"))


def _frame(network: PeerNetwork, section: CrossSection) -> pd.DataFrame:
    firms, peers = network.labels.take(section.rows), network.labels.take(section.columns)
    return pd.DataFrame(section.dense(), index=firms, columns=peers)


def _agreement(a: pd.DataFrame, b: pd.DataFrame, top_k: int) -> dict[str, float]:
    distinct = np.asarray(a.index)[:, None] != np.asarray(a.columns)[None, :]
    x, y = a.to_numpy(np.float64)[distinct], b.to_numpy(np.float64)[distinct]
    found = {"correlation": np.nan, "rank_correlation": np.nan}
    if len(x) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0:
        found["correlation"] = float(np.corrcoef(x, y)[0, 1])
        found["rank_correlation"] = float(np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1])
    first, second = a.to_numpy(np.float64), b.to_numpy(np.float64)
    return found | {"jaccard": _jaccard(first, second, top_k), "firms": len(a)}
