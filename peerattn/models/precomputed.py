"""Peers from a network that the user brings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.models.base import Encoded, PeerRegressor
from peerattn.models.given_network import given_network, others_weights
from peerattn.models.pools import NOBODY, Rows, Section, means_of_others
from peerattn.network import PeerNetwork
from peerattn.panel.panel import Panel


@dataclass(eq=False, repr=False, kw_only=True)
class PrecomputedPeerRegressor(PeerRegressor):
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
            self.network_: PeerNetwork | None = None if self.network is None else given_network(self.network)
        return np.empty((len(panel), 0)), np.empty((len(panel), 0))

    def _learn(self, training: Rows, panel: Panel) -> None:
        self._keep_known(training)

    # ------------------------------------------------------------------ sums over firms

    def _attend(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        peers = section.peers
        if not len(peers):
            return np.full(len(section.focal), self.mean_), np.ones(len(section.focal), dtype=bool)
        assert peers.y is not None
        group, firms = pd.factorize(peers.label)
        own = firms.get_indexer(section.focal.label)
        own = np.where(section.focal.identity == NOBODY, NOBODY, own)
        mean, others = means_of_others(0 * own, own, 0 * group, group, peers.y, peers.weight)
        everybody = np.where(others > 0, mean, self.mean_)
        if self.network_ is None:
            return everybody, others == 0
        W = self._firm_weights(section, firms)
        alone = np.asarray(W.sum(axis=1)).reshape(-1) == 0
        total = np.bincount(group, peers.counts)
        of_firm = np.bincount(group, peers.counts * (peers.y - self.mean_)) / total
        return np.where(alone, everybody, self.mean_ + W @ of_firm), alone

    def _firm_weights(self, section: Section, firms: pd.Index) -> sparse.csr_array:
        """Return the normalised weights on firms, own firm left out."""
        assert self.network_ is not None
        return others_weights(self.network_, section.period, section.focal.label, firms)

    def _weights(self, section: Section, rows: slice) -> np.ndarray:
        peers = section.peers
        if self.network_ is None:
            W = section.admissible(rows) * peers.counts
            total = W.sum(axis=1, keepdims=True)
            return np.divide(W, total, out=W, where=total > 0)
        group, firms = pd.factorize(peers.label)
        share = peers.counts / np.bincount(group, peers.counts)[group]
        return self._firm_weights(section, firms)[rows].toarray()[:, group] * share
