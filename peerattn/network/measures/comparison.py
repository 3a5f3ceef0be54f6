"""A network against codes, against itself a period before, and against another estimate of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, checked
from peerattn.network.attributes import code_numbers
from peerattn.network.base import BaseNetwork
from peerattn.network.cross_section import Array, CrossSection, as_dense, place_in, strongest
from peerattn.render import show_label


@checked
def overlap(network: BaseNetwork, codes: pd.Series) -> pd.DataFrame:
    """Return how much weight stays within a code (an industry), against what chance gives.

    Parameters
    ----------
    network : PeerNetwork
        Of a signed one the sizes of the weights count. Weights of firms on themselves are left out.
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
        When the network was cut to its strongest weights, or ``codes`` is not labelled by firm.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"period": 1, "firm": list("ABCD"), "peer": list("BADC"), "weight": 1.0})
    >>> overlap(PeerNetwork.from_edges(edges), pd.Series(["36", "36", "28", "28"], index=list("ABCD")))
            share    chance  lift  firms
    period
    1         1.0  0.333333   3.0      4
    """
    network.check_whole("overlap")
    rows = []
    for period, section in network.sections():
        own = code_numbers(network, codes, section.rows, period, "codes")
        peers = code_numbers(network, codes, section.columns, period, "codes")
        rows.append(_overlap(section, own, peers))
    return pd.DataFrame(rows, index=network.periods.rename("period"))


def _overlap(section: CrossSection, own: Array, peers: Array) -> dict[str, float]:
    known = peers >= 0
    count = int(max(own.max(initial=-1), peers.max(initial=-1))) + 1
    sizes = replace(section, weights=abs(section.weights))
    to_code, itself = weight_to_groups(sizes, peers, count), sizes.on_itself()
    focal = np.flatnonzero(own >= 0)
    own = own[focal]
    within, total = to_code[focal, own] - itself[focal], to_code[focal].sum(axis=1) - itself[focal]
    is_peer = np.isin(section.rows[focal], section.columns[known]).astype(float)
    same = np.bincount(peers[known], minlength=count)[own] - is_peer if count else np.zeros(0)
    others = known.sum() - is_peer
    expected = np.divide(same, others, out=np.zeros(len(focal)), where=others > 0)
    weight = total.sum()
    share = float(within.sum() / weight) if weight else np.nan
    chance = float((total * expected).sum() / weight) if weight else np.nan
    lift = share / chance if chance else np.nan
    return {"share": share, "chance": chance, "lift": lift, "firms": len(focal)}


def weight_to_groups(section: CrossSection, group: Array, count: int) -> Array:
    """Return each focal firm's weight on every group of peers, (n_firms, count); ``group`` is -1 where unknown."""
    known = np.flatnonzero(group >= 0)
    member = sparse.csr_array((np.ones(len(known)), (known, group[known])), shape=(len(group), count))
    return np.asarray(as_dense(section.weights @ member))


@checked
def group_flows(network: BaseNetwork, groups: pd.Series, period: Any = None) -> pd.DataFrame:
    """Return the weight of one group of focal firms on each group of peers: the mean row, summed over peers' groups.

    Parameters
    ----------
    network : PeerNetwork
    groups : pandas.Series
        Group (an industry) by firm, or firm and period; firms without one are left out.
    period : label, optional
        May be left out when there is only one.

    Returns
    -------
    pandas.DataFrame
        Rows: groups of focal firms, columns: groups of peers. Rows sum to one where every peer has a group and no firm is
        an isolate.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 0, 0]])})
    >>> group_flows(network, pd.Series(["x", "y", "y"], index=list("ABC")))
    looked to    x    y
    looks
    x          0.0  1.0
    y          1.0  0.0
    """
    network.check_whole("group_flows")
    when, section = network.section(period)
    own = code_numbers(network, groups, section.rows, when, "groups")
    peers = code_numbers(network, groups, section.columns, when, "groups")
    names = pd.Index([show_label(name) for name in pd.factorize(groups)[1]])
    to_group = weight_to_groups(section, peers, len(names))
    frame = pd.DataFrame(to_group, columns=names.rename("looked to"))
    frame["looks"] = pd.Series(own).map(dict(enumerate(names)))
    flows = frame.dropna(subset="looks").groupby("looks").mean()
    looked_to = [name for n, name in enumerate(names) if (peers == n).any()]
    return flows.loc[_in_order(flows.index), _in_order(looked_to)].rename_axis(columns="looked to")


def _in_order(names: Iterable[str]) -> list[str]:
    """Numbers as numbers, then names by the alphabet."""
    return sorted(names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))


@checked
def turnover(network: BaseNetwork, *, top_k: int = 10) -> pd.DataFrame:
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
        Index ``period`` (from the second on); ``turnover`` (mean over firms with peers in both periods of
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
    network.check_whole("turnover")
    if not network.row_normalized:
        raise InputError("turnover: rows must sum to one; use normalized() first.")
    sections = [section for _, section in network.sections()]
    rows = [_moved(*pair, len(network.labels), top_k) for pair in zip(sections[:-1], sections[1:])]
    names = ["turnover", "jaccard", "firms"]
    return pd.DataFrame(rows, index=network.periods[1:].rename("period"), columns=names)


def _moved(before: CrossSection, now: CrossSection, size: int, top_k: int) -> tuple[float, float, int]:
    """Turnover and the Jaccard index of the firms with peers in both periods, and their number."""
    firms = np.intersect1d(before.rows[~before.isolates()], now.rows[~now.isolates()])
    if not len(firms):
        return np.nan, np.nan, 0
    first, second = (_rows_over_labels(section, firms, size) for section in (before, now))
    both, one, other = common_tops(first, second, top_k)
    either = one + other - both
    moved = float(abs(first - second).sum()) / (2 * len(firms))
    return moved, float(np.mean(both[either > 0] / either[either > 0])), len(firms)


def _rows_over_labels(section: CrossSection, firms: Array, size: int) -> sparse.csr_array:
    found = section.csr()[place_in(section.rows, firms)].tocoo()
    entries = (found.data.astype(np.float64), (found.row, section.columns[found.col]))
    return sparse.csr_array(entries, shape=(len(firms), size))


def common_tops(first: Any, second: Any, k: int) -> tuple[Array, Array, Array]:
    """For each row: how many top-k peers are common, and how many the first and the second have."""
    tops = [strongest(weights, k) for weights in (first, second)]
    for top in tops:
        top.data[:] = 1.0
    common, one, other = (np.asarray(m.sum(axis=1)).ravel() for m in (tops[0].multiply(tops[1]), *tops))
    return common, one, other


def aligned(
    first: BaseNetwork, second: BaseNetwork
) -> Iterator[tuple[Any, pd.Index, pd.Index, sparse.csr_array, sparse.csr_array]]:
    """Yield each common period, the focal firms and the peers that both networks have, and both weights among them.

    Weights on oneself are left out.

    Raises
    ------
    InputError
        When no period is in both.
    """
    if first.is_dated != second.is_dated or (first.is_dated and not first.periods.isin(second.periods).any()):
        dates = [show_label(net.periods[0]) if net.is_dated else "no date" for net in (first, second)]
        raise InputError(
            f"the two networks have no period in common ({dates[0]} in the first, {dates[1]} in the second); pass mean() of "
            "both, or periods spelled alike."
        )
    for period, section in first.sections():
        if first.is_dated and period not in second.periods:
            continue
        other = second.section(period if second.is_dated else None)[1]
        rows, columns = (
            first.labels.take(mine).intersection(second.labels.take(theirs), sort=False)
            for mine, theirs in ((section.rows, other.rows), (section.columns, other.columns))
        )
        both = (_among(network, one, rows, columns) for network, one in ((first, section), (second, other)))
        yield period, rows, columns, *both


def _among(
    network: BaseNetwork, section: CrossSection, rows: pd.Index, columns: pd.Index
) -> sparse.csr_array:
    i, j = (
        network.labels.take(side).get_indexer_for(wanted)
        for side, wanted in ((section.rows, rows), (section.columns, columns))
    )
    found = section.csr().astype(np.float64)[i][:, j].tocoo()
    off = columns.get_indexer_for(rows)[found.row] != found.col
    return sparse.csr_array((found.data[off], (found.row[off], found.col[off])), shape=found.shape)


@checked
def network_correlation(first: BaseNetwork, second: BaseNetwork) -> float:
    """Return the correlation of two networks' weights over pairs of distinct firms, all common periods together.

    Parameters
    ----------
    first, second : PeerNetwork
        With periods in common, or both undated; two estimates of one network, say.

    Returns
    -------
    float
        Pearson's correlation over the pairs (i, j) of firms that both networks have in a period, zero weights
        included; a firm that is an isolate in both has no admissible peer and is left out. NaN where the weights of
        either do not vary, as in an empty network.

    Raises
    ------
    InputError
        When no period is in both.

    Notes
    -----
    Sparse networks stay sparse: the cost is that of the weights stored. For one period pass ``network.subset(periods=[t])``.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 0.9, 0.1], [0.2, 0.0, 0.8], [0.6, 0.4, 0.0]])
    >>> V = np.array([[0.0, 0.8, 0.2], [0.3, 0.0, 0.7], [0.4, 0.6, 0.0]])
    >>> first, second = (PeerNetwork.from_matrices({1: ("ABC", None, w)}) for w in (W, V))
    >>> round(network_correlation(first, second), 3)
    0.891
    """
    for network in (first, second):
        network.check_whole("network_correlation")
    count, moments = 0, np.zeros(5)
    for _, rows, columns, a, b in aligned(first, second):
        weighs = np.diff(a.indptr) + np.diff(b.indptr) > 0
        count += int(weighs.sum()) * len(columns) - int(rows[weighs].isin(columns).sum())
        moments += [part.sum() for part in (a, b, a * a, b * b, a * b)]
    if not count:
        return float("nan")
    x, y, xx, yy, xy = moments / count
    if min(xx - x * x - 1e-12 * xx, yy - y * y - 1e-12 * yy) <= 0:  # what rounding leaves of equal weights
        return float("nan")
    return float((xy - x * y) / np.sqrt((xx - x * x) * (yy - y * y)))


@checked
def common_peers(first: BaseNetwork, second: BaseNetwork, k: int = 5) -> float:
    """Return the mean share of common top-k peers, over firms and common periods.

    Parameters
    ----------
    first, second : PeerNetwork
        As in :func:`network_correlation`.
    k : int, default 5
        Peers compared: the largest weights by absolute size, among the firms that both networks have.

    Returns
    -------
    float
        Between 0 (no peer in common) and 1 (the same peers). Where a firm has fewer than ``k`` peers, the share is of
        the larger number that either network gives it; a firm without a peer in either is left out. NaN without any.

    Raises
    ------
    InputError
        When no period is in both, or ``k`` is not a positive integer.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 0.9, 0.1], [0.2, 0.0, 0.8], [0.6, 0.4, 0.0]])
    >>> V = np.array([[0.0, 0.8, 0.2], [0.3, 0.0, 0.7], [0.4, 0.6, 0.0]])
    >>> first, second = (PeerNetwork.from_matrices({1: ("ABC", None, w)}) for w in (W, V))
    >>> round(common_peers(first, second, k=1), 3)
    0.667
    """
    for network in (first, second):
        network.check_whole("common_peers", int(k))
    shares = [np.empty(0)]
    for *_, a, b in aligned(first, second):
        common, one, other = common_tops(a, b, int(k))
        most = np.maximum(one, other)
        shares.append(common[most > 0] / most[most > 0])
    found = np.concatenate(shares)
    return float(found.mean()) if len(found) else float("nan")


_REPEATED = {"seeds": "random starts", "folds": "training samples"}


def stability_sentence(network: BaseNetwork) -> str:
    """Return one sentence on :attr:`PeerNetwork.stability`; empty where it is unknown.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> frame = pd.DataFrame({"comparison": ["seeds"], "correlation": [0.91], "common_top5": [0.8]})
    >>> network = PeerNetwork.from_matrices({1: ("AB", None, np.eye(2)[::-1])}).replaced(stability=frame)
    >>> print(stability_sentence(network))
    Stability: weights estimated from different random starts correlate 0.91, with 80% of the five largest peers in common.
    """
    if network.stability is None or network.stability.empty:
        return ""
    means = network.stability.groupby("comparison", sort=False).mean()
    return "Stability: weights estimated from different " + "; from different ".join(_clauses(means)) + "."


def _clauses(means: pd.DataFrame) -> Iterable[str]:
    for name, row in means.iterrows():
        if np.isnan(row["correlation"]):
            yield f"{_REPEATED[str(name)]} cannot be compared (a network is empty)"
        else:
            yield (
                f"{_REPEATED[str(name)]} correlate {row['correlation']:.2f}, with {row['common_top5']:.0%} of the five "
                "largest peers in common"
            )
