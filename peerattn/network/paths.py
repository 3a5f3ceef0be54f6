"""Peers of peers: paths between two firms, and what stacked layers add up to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, checked
from peerattn.network.base import BaseNetwork, Net, last_learned
from peerattn.network.cross_section import CrossSection, as_dense, frozen
from peerattn.network.peers import found_firm, largest_first


@checked
def paths(
    network: BaseNetwork, firm: Any, peer: Any, period: Any = None, *, k: int | None = 10
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
        Largest number of firms between; None for all.

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
    _, section = network.section(period)  # one period, not the mean over several
    one, i = found_firm(network, firm, period, "rows")
    _, end = found_firm(one, peer, None, "columns", "peer")
    everyone = np.arange(len(network.labels))
    first = as_dense(section.block(np.array([i]), everyone))[0]
    second = as_dense(section.block(everyone, np.array([end])))[:, 0]
    steps = {"through": network.labels, "firm_to_through": first, "through_to_peer": second}
    return largest_first(pd.DataFrame(steps | {"weight": first * second}), k)


@checked
def rollout(layers: Sequence[Net], *, residual: float = 0.5) -> Net:
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
    if not layers:
        raise InputError("layers: expected at least one network.")
    if not 0 <= residual <= 1:
        raise InputError(f"residual: expected a number between 0 and 1, got {residual!r}.")
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
    sections = []
    for stack in zip(*(network.sections() for network in layers), strict=True):
        rows = stack[0][1].rows
        product = np.eye(len(rows))
        for _, section in stack:
            passed_by = np.where(section.isolates(), 1.0, residual)
            product = ((1 - residual) * section.dense().astype(np.float64) + np.diag(passed_by)) @ product
        sections.append(CrossSection(rows, rows, frozen(product)))
    return layers[0].replaced(sections, learned_until=last_learned(each.learned_until for each in layers))
