"""A network that a user brings: looked up by period and firm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.preprocessing import normalize

from peerattn.exceptions import InputError, expect
from peerattn.models.cross_section import check_same_kind
from peerattn.network import PeerNetwork
from peerattn.panel.labels import within_or_before
from peerattn.panel.time_order import span_of
from peerattn.types import LabelsLike


def given_network(network: Any, *, signed: bool = False) -> PeerNetwork:
    """Return what was given as ``network=`` as a PeerNetwork.

    It may be one already, a square frame of weights (for all periods), or a mapping of periods to such frames. Rows need not
    sum to one. Weights are not negative, unless ``signed``.
    """
    if isinstance(network, pd.DataFrame):
        network = {None: network}
    if isinstance(network, Mapping):
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
            wording = f" until {until}, and is used in {periods.min()}"
        raise InputError(
            f"network was learned from outcomes{wording}: it was chosen to fit them. "
            "Learn it on earlier periods, and use it in later ones."
        )


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
    try:
        earlier = network.periods[network.periods <= period]
    except TypeError as error:
        raise InputError(
            f"network has periods such as {network.periods[0]!r}, X has {period!r}: they cannot be compared."
        ) from error
    if not len(earlier):
        raise NetworkStartsLater(f"network starts in {network.periods.min()}, after period {period} of X.")
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
