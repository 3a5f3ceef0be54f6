"""Peers from a network that the user brings: looked up by period and firm, and the mean of their outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.preprocessing import normalize

from peerattn.exceptions import InputError, expect, reworded
from peerattn.models.base import Encoded, PanelEstimator
from peerattn.models.cross_section import CrossSection, Rows, check_same_kind, means_of_others
from peerattn.models.mixins import PanelRegressorMixin
from peerattn.models.networks import NetworkMaker
from peerattn.network import PeerNetwork
from peerattn.panel.labels import within_or_before
from peerattn.panel.panel import Panel
from peerattn.panel.time_order import comparable, kind_of, span_of
from peerattn.render import show_label
from peerattn.types import LabelsLike


def given_network(network: Any, *, signed: bool = False) -> PeerNetwork:
    """Return what was given as ``network=`` as a PeerNetwork.

    It may be one already, a square frame of weights (for all periods), or a mapping of periods to such frames. Rows need not
    sum to one. Weights are not negative, unless ``signed``.
    """
    if isinstance(network, pd.DataFrame):
        network = {None: network}
    if isinstance(network, Mapping):
        with reworded("network: expected weights as numbers", kinds=(TypeError, ValueError)):
            negative = signed and any((np.asarray(frame, dtype=float) < 0).any() for frame in network.values())
        network = PeerNetwork.from_matrices(network, row_normalized=False, signed=negative)
    wanted = "a PeerNetwork, a frame of weights (firms × firms) or a dict {period: frame}"
    expect(isinstance(network, PeerNetwork), "network", wanted, type(network).__name__)
    if network.signed and not signed:
        raise InputError("network is signed; peers' means need weights that are not negative: pass network.positive().")
    return network


def check_not_learned(until: Any, periods: pd.Index | None) -> None:
    """Raise where a network was learned from outcomes of the periods in which it is to be used: it was chosen to fit them.

    Parameters
    ----------
    until : label, optional
        Last period from whose outcomes it was learned (to its end); NaN = of no date; None = it was not.
    periods : Index, optional
        In which it is used; None = undated.
    """
    if until is None or (periods is not None and not len(periods)):
        return
    undated = periods is None or (isinstance(until, float) and np.isnan(until))
    if undated or periods is None or within_or_before(periods, until).any():
        wording = ", and is used without periods"
        if not undated and periods is not None:
            wording = f" until {show_label(until)}, and is used in {show_label(periods.min())}"
        remedy = "Learn it on earlier periods, and use it in later ones."
        raise InputError(f"network was learned from outcomes{wording}: it was chosen to fit them. {remedy}")


class NetworkStartsLater(InputError):
    """A network has no cross-section up to a panel's period."""


def network_period(network: PeerNetwork, period: LabelsLike) -> Any:
    """Return the period of a network that answers for a panel's period: the latest up to it; None where undated.

    Raises
    ------
    InputError
        When the network starts later, when only one of the two has periods, or when their order is not known.
    """
    check_not_learned(network.learned_until, None if period is None else pd.Index([period]))
    if len(network.periods) == 1 and pd.isna(network.periods[0]):
        return None
    if period is None:
        raise InputError("network has periods but X has none; pass a panel, or a network without periods.")
    if isinstance(period, str) and span_of(period) is None:  # text in an order of its own
        if period not in network.periods:
            raise InputError(f"network has no period {period!r}, and text has no order of time: give it all periods of X.")
        return period
    requested = pd.Index([period])
    if not comparable(requested, network.periods):
        ours, theirs = (f"{each.tolist()[0]!r} ({kind_of(each)})" for each in (network.periods, requested))
        remedy = "Label each of its cross-sections with the first period of X in which it may be used."
        raise InputError(f"network has period {ours}, X has {theirs}: they cannot be compared. {remedy}")
    earlier = network.periods[network.periods <= period]
    if not len(earlier):
        start = show_label(network.periods.min())
        raise NetworkStartsLater(f"network starts in {start}, after period {show_label(period)} of X.")
    return earlier.max()


def network_weights(network: PeerNetwork, period: LabelsLike, firms: pd.Index, peers: pd.Index) -> sparse.csr_array:
    """Return the weights that firms put on peers in a panel's period, (n_firms, n_peers); zero for those not in the network."""
    _, section = network.section(network_period(network, period))
    labels = network.labels
    check_same_kind(labels, firms)
    return sparse.csr_array(section.block(labels.get_indexer(firms), labels.get_indexer(peers)))


def others_weights(network: PeerNetwork, period: LabelsLike, firms: pd.Index, peers: pd.Index) -> sparse.csr_array:
    """Return :func:`network_weights` on other firms; absolute weights of a row sum to one, a row of zeros stays."""
    W = network_weights(network, period, firms, peers).tocoo()
    row, column = W.coords
    others = firms[row] != peers[column]
    kept = sparse.csr_array((W.data[others], (row[others], column[others])), shape=W.shape)
    return sparse.csr_array(normalize(kept, norm="l1"))


@dataclass(eq=False, repr=False, kw_only=True)
class PrecomputedPeerRegressor(PanelRegressorMixin, PanelEstimator):
    """Mean outcome of the peers in a given network, own firm left out.

    ``ŷ_i = Σ_{j≠i} w_ij y_j / Σ_{j≠i} w_ij`` over the peers whose outcome is known: text-based peers, supply chains, common
    analysts, or the network of another model.

    Parameters
    ----------
    network : PeerNetwork, DataFrame or dict of DataFrame, optional
        Weights, not negative: a PeerNetwork, a frame (firms × firms) for all periods, or a dict by period. For a period the
        latest cross-section up to it is used, so that a cross-section is labelled with the first period in which it may be
        used, written as the periods of ``X``. None: all firms weigh the same.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Notes
    -----
    ``predict(X, outcomes=y)`` averages the peers' outcomes of the same period; ``predict(X)`` the means of their training
    outcomes. Firms without a peer whose outcome is known get the mean of all other firms, and are listed in
    ``peer_network(X).isolates``. A network made of the target period's outcomes would leak them: bring one from earlier
    outcomes or from other sources. Costs O(n + edges).

    References
    ----------
    Hoberg, G. and Phillips, G. (2016), Text-based network industries and endogenous product differentiation, Journal of
    Political Economy 124(5).

    Examples
    --------
    >>> network = pd.DataFrame([[0, 3, 1], [1, 0, 0], [0, 1, 0]], index=list("ABC"), columns=list("ABC"))
    >>> X = pd.DataFrame({"firm": list("ABC"), "period": 2001, "size": [1.0, 2.0, 3.0]})
    >>> y = [1.0, 2.0, 6.0]
    >>> PrecomputedPeerRegressor(network=network).fit(X, y).predict(X, outcomes=y).tolist()
    [3.0, 1.0, 2.0]
    """

    network: Any = None
    firm: str = "firm"
    period: str = "period"

    _isolates_get = "the mean of all other firms, or of training where there are none"
    _learns_network = False
    _reads_characteristics = False

    def _encode(self, panel: Panel, weight: np.ndarray | None, *, fitting: bool) -> Encoded:
        if fitting:
            self.network_: PeerNetwork | None = None
            if self.network is not None:
                self.network_ = given_network(self.network)
        return np.empty((len(panel), 0)), np.empty((len(panel), 0))

    def _learn(self, training: Rows, panel: Panel) -> None:
        self._keep_known(training)

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        focal = section.focal
        peers = section.peers
        if not len(peers):
            return np.full(len(focal), self.mean_), np.ones(len(focal), dtype=bool)
        # all firms are one group
        mine, theirs = (np.zeros(len(rows), dtype=int) for rows in (focal, peers))
        mean, others = means_of_others(mine, focal.identity, theirs, peers.identity, peers.outcomes, peers.weight)
        everybody = np.where(others > 0, mean, self.mean_)
        if self.network_ is None:
            return everybody, others == 0
        W, of_firms = self._by_firm(section)
        standalone = np.asarray(W.sum(axis=1)).reshape(-1) == 0
        return np.where(standalone, everybody, self.mean_ + W @ (of_firms @ (peers.outcomes - self.mean_))), standalone

    def _by_firm(self, section: CrossSection) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Return the weights on firms, own firm left out, and what each peer row is of its firm's mean, (n_firms, n_peers)."""
        group, firms = pd.factorize(section.peers.label)
        counts = section.peers.counts
        # a firm with several rows counts by their mean, however many they are
        share = counts / np.bincount(group, counts)[group]
        of_firms = sparse.csr_array((share, (group, np.arange(len(group)))))
        assert self.network_ is not None
        return others_weights(self.network_, section.period, section.focal.label, firms), of_firms

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        given = self._given_weights(section)
        if given is None:
            return normalize(section.admissible(rows) * section.peers.counts, norm="l1")
        return given[rows].toarray()

    def _given_weights(self, section: CrossSection) -> sparse.csr_array | None:
        """Return the weights on peer rows as sparse as the network given; None where all firms weigh the same."""
        if self.network_ is None:
            return None
        W, of_firms = self._by_firm(section)
        return W @ of_firms

    def _network_maker(self, *, top_k: int | None = None) -> NetworkMaker:
        return partial(self._network, sparse_weights=self._given_weights, top_k=top_k)
