"""Peers from a network that the user brings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.preprocessing import normalize

from peerattn.models.base import Encoded, NetworkMaker, PanelEstimator
from peerattn.models.cross_section import CrossSection, Rows, means_of_others
from peerattn.models.given_network import given_network, others_weights
from peerattn.models.mixins import PanelRegressorMixin
from peerattn.network import PeerNetwork
from peerattn.panel.panel import Panel


@dataclass(eq=False, repr=False, kw_only=True)
class PrecomputedPeerRegressor(PanelRegressorMixin, PanelEstimator):
    """Mean outcome of the peers in a given network, own firm left out.

    ``ŷ_i = Σ_{j≠i} w_ij y_j / Σ_{j≠i} w_ij`` over the peers whose outcome is known: text-based peers, supply chains, common
    analysts, or the network of another model.

    Parameters
    ----------
    network : PeerNetwork, DataFrame or dict of DataFrame, optional
        Weights, not negative: a PeerNetwork, a frame (firms × firms) for all periods, or a dict by period. For a period the
        latest cross-section up to it is used. None: all firms weigh the same.
    firm, period : str
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

    _isolates_get = "the mean of all other firms"
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

    def _network_maker(self) -> NetworkMaker:
        return partial(self._network, sparse_weights=self._given_weights)
