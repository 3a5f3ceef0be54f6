"""A network against codes, against itself a period before, and against another estimate of it."""

import itertools
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, check_count, validate_arguments
from peerattn.network.attributes import code_numbers
from peerattn.network.base import Network
from peerattn.network.cross_section import Array, CrossSection, as_dense, strongest
from peerattn.render import show_label
from peerattn.scaling import ROUNDING
from peerattn.types import OutcomesLike


@validate_arguments
def overlap(network: Network, codes: pd.Series) -> pd.DataFrame:
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
        # the same numbers on both sides, though rows and columns may be different firms
        own, peers = (code_numbers(network, codes, side, period, "codes") for side in (section.rows, section.columns))
        focal = np.flatnonzero(own >= 0)
        known = peers >= 0
        count = int(max(own.max(initial=-1), peers.max(initial=-1))) + 1
        own = own[focal]
        to_code = weight_to_groups(abs(section.others())[focal], peers, count)
        # a firm is no peer of itself: it leaves both counts
        is_peer = np.isin(section.rows[focal], section.columns[known])
        same = np.bincount(peers[known], minlength=count)[own] - is_peer
        expected = same / np.maximum(known.sum() - is_peer, 1)
        parts = np.array([to_code[np.arange(len(focal)), own].sum(), to_code.sum(axis=1) @ expected])
        with np.errstate(invalid="ignore"):
            share, chance = parts / to_code.sum()
            rows.append({"share": share, "chance": chance, "lift": share / chance, "firms": len(focal)})
    return pd.DataFrame(rows, index=network.periods.rename("period"))


def weight_to_groups(weights: OutcomesLike, group: Array, count: int) -> Array:
    """Return each focal firm's weight on every group of peers, (n_firms, count); ``group`` is -1 where unknown."""
    known = np.flatnonzero(group >= 0)
    member = sparse.csr_array((np.ones(len(known)), (known, group[known])), shape=(len(group), count))
    return np.asarray(as_dense(weights @ member))


@validate_arguments
def group_flows(network: Network, groups: pd.Series, period: Hashable = None) -> pd.DataFrame:
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
    attended to    x    y
    attends
    x          0.0  1.0
    y          1.0  0.0
    """
    network.check_whole("group_flows")
    when, section = network.section(period)
    own, peers = (code_numbers(network, groups, side, when, "groups") for side in (section.rows, section.columns))
    names = pd.Index([show_label(name) for name in pd.factorize(groups)[1]])
    frame = pd.DataFrame(weight_to_groups(section.weights, peers, len(names)), columns=names)
    flows = frame.groupby(np.array([*names, None], dtype=object)[own]).mean()
    found = names[np.unique(peers[peers >= 0])]
    rows, columns = (sorted(side, key=_number_first) for side in (flows.index, found))
    return flows.loc[rows, columns].rename_axis(index="attends", columns="attended to")


def _number_first(name: str) -> tuple[bool, str, str]:
    # numbers of one length sort as text
    return not name.isdigit(), name.zfill(32) * name.isdigit(), name


@validate_arguments
def turnover(network: Network, *, top_k: int = 10) -> pd.DataFrame:
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
    rows = []
    everyone = np.arange(len(network.labels))
    sections = [section for _, section in network.sections()]
    for before, now in itertools.pairwise(sections):
        # a firm that enters or leaves has moved no attention
        firms = np.intersect1d(before.rows[~before.isolates()], now.rows[~now.isolates()])
        first, second = (sparse.csr_array(each.block(firms, everyone)) for each in (before, now))
        both, one, other = common_tops(first, second, top_k)
        moved = abs(first - second).sum(axis=1) / 2
        shares = pd.DataFrame({"turnover": moved, "jaccard": both / (one + other - both)})
        rows.append((*shares.mean(), len(firms)))
    return pd.DataFrame(rows, network.periods[1:].rename("period"), ["turnover", "jaccard", "firms"])


def common_tops(first: sparse.csr_array, second: sparse.csr_array, k: int) -> tuple[Array, Array, Array]:
    """For each row: how many top-k peers are common, and how many the first and the second have."""
    tops = [strongest(weights, k) != 0 for weights in (first, second)]
    common, one, other = (np.asarray(m.sum(axis=1)).ravel() for m in (tops[0].multiply(tops[1]), *tops))
    return common, one, other


def aligned(first: Network, second: Network) -> Iterator[tuple[Any, Array, Array, Any, Any]]:
    """Yield each common period, the focal firms and the peers that both networks have, and both weights among them.

    Firms are positions in the first network's labels, ascending.
    Weights on oneself are left out.

    Raises
    ------
    InputError
        When no period is in both.
    """
    if first.is_dated != second.is_dated or (first.is_dated and not first.periods.isin(second.periods).any()):
        dates = [show_label(next(iter(net.periods), None)) or "no date" for net in (first, second)]
        raise InputError(f"no period in common ({dates[0]}; {dates[1]}); pass mean() of both networks.")
    # two networks number their firms differently
    across = second.labels.get_indexer_for(first.labels)  # where each label of the first is in the second
    for period, section in first.sections():
        if first.is_dated and period not in second.periods:
            continue
        other = second.section(period)[1]
        rows = np.sort(section.rows[np.isin(across[section.rows], other.rows)])
        columns = np.sort(section.columns[np.isin(across[section.columns], other.columns)])
        blocks = section.block(rows, columns), other.block(across[rows], across[columns])
        yield period, rows, columns, *(CrossSection(rows, columns, block).others() for block in blocks)


@validate_arguments
def network_correlation(first: Network, second: Network) -> float:
    """Return the correlation of two networks' weights over pairs of distinct firms, all common periods together.

    Parameters
    ----------
    first, second : PeerNetwork
        With periods in common, or both undated; for example two estimates of one network.

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
    count = 0
    stored = [np.zeros((2, 0))]
    for _, rows, columns, a, b in aligned(first, second):
        # a firm without weight in either network has nothing to agree on
        weighs = np.diff(a.indptr) + np.diff(b.indptr) > 0
        count += int(weighs.sum()) * len(columns) - int(np.isin(rows[weighs], columns).sum())
        # one complex number holds both weights of a pair; pairs without either are counted, not stored
        pairs = (a.astype(float) + 1j * b.astype(float)).data
        stored.append(np.array([pairs.real, pairs.imag]))
    weights = np.concatenate(stored, axis=1)
    mean = weights.sum(axis=1) / max(count, 1)
    # products about the means: of raw ones large weights would lose the digits in which they differ
    deviations = weights - mean[:, None]
    products = deviations @ deviations.T + (count - len(weights.T)) * np.outer(mean, mean)
    scale = np.sqrt(np.diag(products))
    if (scale <= ROUNDING * np.sqrt(count) * np.abs(mean)).any():
        return float("nan")
    return float(products[0, 1] / scale.prod())


@validate_arguments
def common_peers(first: Network, second: Network, k: int = 5) -> float:
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
    check_count(k=k)
    for network in (first, second):
        network.check_whole("common_peers", int(k))
    shares = [np.empty(0)]
    for *_, a, b in aligned(first, second):
        common, one, other = common_tops(a, b, int(k))
        most = np.maximum(one, other)
        shares.append(common[most > 0] / most[most > 0])
    return float(pd.Series(np.concatenate(shares)).mean())


_REPEATED = {"seeds": "random starts", "folds": "training samples"}


def stability_sentence(network: Network) -> str:
    """Return one sentence on ``stability``; empty where it is unknown.

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
    clauses = []
    for name, correlation, common in means.itertuples(name=None):
        agreement = f"correlate {correlation:.2f}, with {common:.0%} of the five largest peers in common"
        if np.isnan(correlation):
            agreement = "cannot be compared (a network is empty)"
        clauses.append(f"{_REPEATED[name]} {agreement}")
    return "Stability: weights estimated from different " + "; from different ".join(clauses) + "."
