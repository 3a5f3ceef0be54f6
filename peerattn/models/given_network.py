"""A network that a user brings: looked up by period and firm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork


def given_network(network: Any) -> PeerNetwork:
    """Return what was given as ``network=`` as a PeerNetwork.

    It may be one already, a square frame of weights (for all periods), or a mapping of periods to such frames. Weights are not
    negative; rows need not sum to one.
    """
    if isinstance(network, pd.DataFrame):
        network = {None: network}
    if isinstance(network, Mapping):
        network = PeerNetwork.from_matrices(network, row_normalized=False)
    if not isinstance(network, PeerNetwork):
        raise InputError(
            "network: a PeerNetwork, a frame of weights (firms × firms) or a dict {period: frame} was expected, got "
            f"{type(network).__name__}."
        )
    if network.signed:
        raise InputError("network is signed; peers' means need weights that are not negative.")
    return network


class NetworkLookup:
    """Weights of a network between given firms in a given period.

    A dated network answers for a period by its latest cross-section up to then (never a later one); an undated one for all.
    """

    def __init__(self, network: PeerNetwork) -> None:
        self.network = network
        self.dated = not (len(network.periods) == 1 and pd.isna(network.periods[0]))
        self._edges: dict[Any, pd.DataFrame] = {}

    def period(self, period: Any) -> Any:
        """Return the network's period that answers for a panel's period."""
        if not self.dated:
            return None
        if period is None:
            raise InputError(
                "network has periods but X has none; pass a panel, or a network without periods."
            )
        try:
            earlier = self.network.periods[self.network.periods <= period]
        except TypeError as error:
            raise InputError(
                f"network has periods such as {self.network.periods[0]!r}, X has {period!r}: they cannot be compared."
            ) from error
        if not len(earlier):
            raise InputError(f"network starts in {self.network.periods.min()}, after period {period} of X.")
        return earlier.max()

    def weights(self, period: Any, firms: pd.Index, peers: pd.Index) -> sparse.csr_array:
        """Return the weights that firms put on peers, (n_firms, n_peers); zero for whoever is not in the network."""
        key = self.period(period)
        if key not in self._edges:
            self._edges[key] = self.network.edges(None if key is None else key)
        edges = self._edges[key]
        row, column = firms.get_indexer(pd.Index(edges["firm"])), peers.get_indexer(pd.Index(edges["peer"]))
        here = (row >= 0) & (column >= 0)
        entries = edges["weight"].to_numpy(dtype=float)[here], (row[here], column[here])
        return sparse.csr_array(entries, shape=(len(firms), len(peers)))


def row_normalised(W: sparse.csr_array) -> sparse.csr_array:
    """Return rows that sum to one; a row of zeros stays."""
    total = np.asarray(W.sum(axis=1)).reshape(-1)
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    return sparse.csr_array(sparse.diags_array(scale) @ W)
