"""Peers of peers: paths between two firms, and what stacked layers add up to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.cross_section import Array, CrossSection, frozen, where_in

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork


def paths(
    network: PeerNetwork, firm: Any, peer: Any, period: Any = None, *, k: int | None = 10
) -> pd.DataFrame:
    """Return the paths of two steps from a firm to a peer: ``w_ij w_jk`` for every j between i and k.

    Parameters
    ----------
    network : PeerNetwork
    firm, peer : label
        The focal firm (i) and the peer of its peers (k).
    period : label, optional
        May be left out when there is only one.
    k : int, optional
        At most so many firms between; None for all.

    Returns
    -------
    pandas.DataFrame
        Columns ``through, firm_to_through, through_to_peer, weight``, the largest first. The weights of all paths
        add up to the entry of W².

    Raises
    ------
    InputError
        When a label is unknown or not of this period.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 0.9, 0.1], [0.2, 0.0, 0.8], [0.6, 0.4, 0.0]])
    >>> paths(PeerNetwork.from_matrices({1: ("ABC", None, W)}), "A", "C")
      through  firm_to_through  through_to_peer  weight
    0       B              0.9              0.8    0.72
    """
    label, section = network.section(period)
    i, end = network.firm_position(firm), network.firm_position(peer)
    for position, side, argument in ((i, section.rows, "firm"), (end, section.columns, "peer")):
        if position not in side:
            raise InputError(
                f"{argument}: {network.labels[position]!r} is not in the network{where_in(label)}."
            )
    between, at_row, at_column = np.intersect1d(section.rows, section.columns, return_indices=True)
    weights: Any = section.csr()
    row = int(np.flatnonzero(section.rows == i)[0])
    column = int(np.flatnonzero(section.columns == end)[0])
    first = weights[[row]].toarray().ravel()[at_column].astype(np.float64)
    second = weights[:, [column]].toarray().ravel()[at_row].astype(np.float64)
    product = first * second
    order = np.argsort(-np.abs(product), kind="stable")
    order = order[product[order] != 0][:k]
    return pd.DataFrame(
        {
            "through": network.labels.take(between[order]),
            "firm_to_through": first[order],
            "through_to_peer": second[order],
            "weight": product[order],
        }
    )


def rollout(layers: Sequence[PeerNetwork], *, residual: float = 0.5) -> PeerNetwork:
    """Return what stacked attention layers add up to: the product of ``(1 − residual) A + residual I``.

    Parameters
    ----------
    layers : sequence of PeerNetwork
        One for each layer, the first layer first, with the same firms in the same periods; heads averaged.
    residual : float, default 0.5
        Share that passes by the attention; an isolate's information passes by wholly.

    Returns
    -------
    PeerNetwork
        ``W[i, k]``: how much of firm k's input reaches firm i's last layer. Rows sum to one; a firm has weight
        on itself.

    Raises
    ------
    InputError
        When layers differ in firms or periods, do not have rows that sum to one, or are rectangular.

    References
    ----------
    Abnar and Zuidema (2020), "Quantifying attention flow in transformers", ACL, section 3.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> swap = PeerNetwork.from_matrices({None: ("AB", None, np.eye(2)[::-1])})
    >>> rollout([swap, swap]).matrix().to_numpy()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    _check_layers(layers)
    if not 0 <= residual <= 1:
        raise InputError(f"residual: expected a number between 0 and 1, got {residual!r}.")
    sections = []
    for stack in zip(*(network.sections() for network in layers), strict=True):
        product = np.eye(len(stack[0][1].rows))
        for _, section in stack:
            product = _with_residual(section, residual) @ product
        rows = stack[0][1].rows
        sections.append(CrossSection(rows, rows, frozen(product)))
    return layers[0].replaced(sections)


def _with_residual(section: CrossSection, residual: float) -> Array:
    weights = (1 - residual) * np.asarray(section.dense(), dtype=np.float64)
    weights[np.diag_indices(len(weights))] += np.where(section.isolates(), 1.0, residual)
    return weights


def _check_layers(layers: Sequence[PeerNetwork]) -> None:
    if not layers:
        raise InputError("layers: expected at least one network.")
    for number, network in enumerate(layers):
        if not network.row_normalized:
            raise InputError(f"layers: rows of layer {number} do not sum to one; use normalized() first.")
        same = network.labels.equals(layers[0].labels) and network.periods.equals(layers[0].periods)
        pairs = zip(network.sections(), layers[0].sections(), strict=False)
        if not same or not all(np.array_equal(a.rows, b.rows) and a.is_square for (_, a), (_, b) in pairs):
            raise InputError(
                f"layers: layer {number} does not have the firms and periods of layer 0, in the same order, "
                "as rows and as columns."
            )


def attention_flow(layers: Sequence[PeerNetwork], firm: Any, *, residual: float = 0.5) -> pd.Series:
    """Return the largest flow from a firm's last layer to every firm's input, weights being capacities.

    Parameters
    ----------
    layers : sequence of PeerNetwork
        As in :func:`rollout`, of one period.
    firm : label
        The focal firm.
    residual : float, default 0.5
        As in :func:`rollout`.

    Returns
    -------
    pandas.Series
        By firm; the flows do not add up to one (each is a maximum of its own).

    Raises
    ------
    InputError
        As :func:`rollout`, or when there are several periods.

    Notes
    -----
    One maximum-flow problem for each firm (networkx), of ``n² · layers`` edges: for small networks.

    References
    ----------
    Abnar and Zuidema (2020), "Quantifying attention flow in transformers", ACL, section 3.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> swap = PeerNetwork.from_matrices({None: ("AB", None, np.eye(2)[::-1])})
    >>> attention_flow([swap], "A").tolist()
    [0.5, 0.5]
    """
    import networkx as nx

    _check_layers(layers)
    _, section = layers[0].section()
    start = layers[0].firm_position(firm)
    graph = nx.DiGraph()
    depth = len(layers)
    for level, network in enumerate(layers):
        capacities = _with_residual(network.section()[1], residual)
        i, j = np.nonzero(capacities)
        rows = section.rows
        graph.add_edges_from(
            ((level + 1, a), (level, b), {"capacity": c})
            for a, b, c in zip(rows[i].tolist(), rows[j].tolist(), capacities[i, j].tolist(), strict=True)
        )
    graph.add_nodes_from((0, position) for position in section.rows.tolist())
    flows = [nx.maximum_flow_value(graph, (depth, start), (0, end)) for end in section.rows.tolist()]
    return pd.Series(
        flows, index=layers[0].labels.take(section.rows).rename("firm"), name="flow", dtype=float
    )
