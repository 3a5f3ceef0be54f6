"""The structure of a network: reciprocity, rank, communities, likeness of linked firms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.attributes import characteristic, check_whole, labelled
from peerattn.network.cross_section import Array

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork


def reciprocity(network: PeerNetwork) -> pd.Series:
    """Return the share of weight that is returned: ``Σ min(w_ij, w_ji) / Σ w_ij`` over pairs of distinct firms.

    Parameters
    ----------
    network : PeerNetwork
        Not signed.

    Returns
    -------
    pandas.Series
        By period: 1 for a symmetric network, 0 when nothing is returned, NaN without any weight.

    Raises
    ------
    InputError
        When the network is signed.

    References
    ----------
    Squartini, Picciolo, Ruzzenenti and Garlaschelli (2013), "Reciprocity of weighted networks", Scientific
    Reports 3, 2729, equations 3 to 5.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    >>> reciprocity(PeerNetwork.from_matrices({2001: ("ABC", None, W)})).round(3).tolist()
    [0.333]
    """
    _refuse(network, "reciprocity")
    found = []
    for _, section in network.sections():
        as_sparse = section.is_sparse and section.is_square
        weights: Any = section.csr() if as_sparse else section.square()[1]
        own = weights.diagonal().sum()
        total = weights.sum() - own
        smaller = weights.minimum(weights.T) if as_sparse else np.minimum(weights, weights.T)
        found.append(float((smaller.sum() - own) / total) if total else np.nan)
    return pd.Series(found, index=network.periods.rename("period"), name="reciprocity")


def _refuse(network: PeerNetwork, measure: str, k: int | None = None) -> None:
    check_whole(network, measure, k)
    if network.signed:
        raise InputError(f"{measure}: not defined for negative weights; the network is signed.")


def page_rank(network: PeerNetwork, *, damping: float = 0.85, tolerance: float = 1e-10) -> pd.DataFrame:
    """Return how often a random walk along the weights, with a random jump now and then, visits each firm.

    ``r = damping · W'r + (damping · Σ_{isolates} r_i + 1 − damping) / n``, rows of W summing to one.

    Parameters
    ----------
    network : PeerNetwork
        Square and not signed; rows are normalised.
    damping : float, default 0.85
        Chance of following a weight.
    tolerance : float, default 1e-10
        Largest total change at which the iteration ends.

    Returns
    -------
    pandas.DataFrame
        Columns ``period, firm, page_rank``; adds up to one in each period.

    Raises
    ------
    InputError
        When the network is signed or rectangular, or ``damping`` is not in (0, 1).

    Notes
    -----
    The numbers of ``networkx.pagerank``, by products with the matrix itself: a dense network of 2,400 firms would
    need gigabytes as a networkx graph.

    References
    ----------
    Page, Brin, Motwani and Winograd (1999), "The PageRank citation ranking", Stanford InfoLab.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"firm": ["A", "B", "C"], "peer": ["C", "C", "A"], "weight": 1.0})
    >>> page_rank(PeerNetwork.from_edges(edges)).page_rank.round(3).tolist()
    [0.464, 0.05, 0.486]
    """
    _refuse(network, "page_rank")
    if not 0 < damping < 1:
        raise InputError(f"damping: expected a number between 0 and 1, got {damping!r}.")
    ranks = []
    for _, section in network.sections():
        if not section.is_square:
            raise InputError("page_rank: focal firms and peers differ; it needs a square network.")
        size = len(section.rows)
        sums = section.row_sums()
        scale = np.divide(1.0, sums, out=np.zeros(size), where=sums > 0)
        weights: Any = section.csr() if section.is_sparse else section.dense().astype(np.float64, copy=False)
        rank = np.full(size, 1.0 / max(size, 1))
        steps = int(np.ceil(np.log(tolerance) / np.log(damping))) + 10
        for _ in range(steps):
            jump = (damping * rank[sums == 0].sum() + 1 - damping) / size if size else 0.0
            new = damping * np.asarray((rank * scale) @ weights) + jump
            change, rank = np.abs(new - rank).sum(), new
            if change < tolerance:
                break
        ranks.append(rank)
    return labelled(
        network, {"firm": [section.rows for _, section in network.sections()], "page_rank": ranks}
    )


def communities(
    network: PeerNetwork, *, top_k: int = 10, resolution: float = 1.0, random_state: int = 0
) -> pd.DataFrame:
    """Return groups of firms with more weight on each other than expected by chance (Louvain, by networkx).

    Parameters
    ----------
    network : PeerNetwork
        Not signed. Weights of both directions are added.
    top_k : int, default 10
        Only the largest weights of each firm count; a dense softmax would blur the groups.
    resolution : float, default 1.0
        Larger gives smaller groups.
    random_state : int, default 0
        Order in which firms are visited.

    Returns
    -------
    pandas.DataFrame
        Columns ``period, firm, community``: 0 is the largest. Numbers are not matched across periods.

    Raises
    ------
    InputError
        When the network is signed.

    References
    ----------
    Blondel, Guillaume, Lambiotte and Lefebvre (2008), "Fast unfolding of communities in large networks",
    Journal of Statistical Mechanics P10008.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"firm": list("ABCD"), "peer": list("BADC"), "weight": 1.0})
    >>> communities(PeerNetwork.from_edges(edges)).community.tolist()
    [0, 0, 1, 1]
    """
    import networkx as nx

    _refuse(network, "communities", top_k)
    members, numbers = [], []
    for _, section in network.sections():
        i, j, w = section.entries(top_k)
        focal, peers = section.rows[i].tolist(), section.columns[j].tolist()
        graph = nx.Graph()
        graph.add_nodes_from(np.union1d(section.rows, section.columns).tolist())
        for a, b, weight in zip(focal, peers, w.tolist(), strict=True):
            if a != b:
                before = graph.edges[a, b]["weight"] if graph.has_edge(a, b) else 0.0
                graph.add_edge(a, b, weight=before + weight)
        groups = nx.community.louvain_communities(graph, resolution=resolution, seed=random_state)
        groups = sorted(groups, key=lambda group: (-len(group), min(group)))
        member = {position: number for number, group in enumerate(groups) for position in group}
        members.append(np.array(sorted(member), dtype=np.intp))
        numbers.append(np.array([member[position] for position in sorted(member)], dtype=np.intp))
    return labelled(network, {"firm": members, "community": numbers})


def assortativity(network: PeerNetwork, values: pd.Series) -> pd.Series:
    """Return the correlation of a characteristic between focal firms and their peers, weighted by w_ij.

    Parameters
    ----------
    network : PeerNetwork
        Not signed.
    values : pandas.Series
        Characteristic by firm, or by firm and period; pairs with an unknown value are left out.

    Returns
    -------
    pandas.Series
        By period, between −1 and 1; NaN where the characteristic does not vary.

    Raises
    ------
    InputError
        When the network is signed or ``values`` is not labelled by firm.

    References
    ----------
    Newman (2003), "Mixing patterns in networks", Physical Review E 67, 026126.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"period": 1, "firm": list("ABCD"), "peer": list("BADC"), "weight": 1.0})
    >>> network = PeerNetwork.from_edges(edges)
    >>> assortativity(network, pd.Series([1.0, 1.0, 5.0, 5.0], index=list("ABCD"))).round(6).tolist()
    [1.0]
    """
    _refuse(network, "assortativity")
    found = []
    for period, section in network.sections():
        i, j, w = section.entries()
        looker = characteristic(network, values, section.rows, period, "values")[i]
        looked = characteristic(network, values, section.columns, period, "values")[j]
        known = ~(np.isnan(looker) | np.isnan(looked))
        found.append(_weighted_correlation(looker[known], looked[known], w[known]))
    return pd.Series(found, index=network.periods.rename("period"), name="assortativity")


def _weighted_correlation(x: Array, y: Array, weights: Array) -> float:
    total = weights.sum()
    if not total:
        return float("nan")
    x, y = x - (weights @ x) / total, y - (weights @ y) / total
    scale = np.sqrt((weights @ x**2) * (weights @ y**2))
    return float(weights @ (x * y) / scale) if scale else float("nan")
