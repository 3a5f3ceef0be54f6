"""How spread out weights are: over a firm's peers, and over the firms looked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.network.cross_section import Array, CrossSection
from peerattn.render import Table, show_label

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork


def in_strength(network: PeerNetwork) -> pd.DataFrame:
    """Return how much each firm is looked to: the sum of its column, ``s_j = Σ_i w_ij``.

    Parameters
    ----------
    network : PeerNetwork

    Returns
    -------
    pandas.DataFrame
        Columns ``period, firm, in_strength``. The mean is the share of firms that look; of a signed network the
        signed sum.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"firm": ["A", "B", "C"], "peer": ["C", "C", "A"], "weight": 1.0})
    >>> in_strength(PeerNetwork.from_edges(edges)).drop(columns="period")
      firm  in_strength
    0    A          1.0
    1    B          0.0
    2    C          2.0
    """
    return _frame(network, "columns", "in_strength", CrossSection.column_sums)


def effective_peers(network: PeerNetwork) -> pd.DataFrame:
    """Return how many peers each firm in effect has: ``1 / Σ_j p_ij²`` with ``p_ij = |w_ij| / Σ_j |w_ij|``.

    Parameters
    ----------
    network : PeerNetwork

    Returns
    -------
    pandas.DataFrame
        Columns ``period, firm, effective_peers``: k for equal weights on k peers, NaN for an isolate.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"firm": ["A", "A"], "peer": ["B", "C"], "weight": 0.5})
    >>> effective_peers(PeerNetwork.from_edges(edges)).effective_peers.tolist()
    [2.0, nan, nan]
    """
    return _frame(network, "rows", "effective_peers", _effective)


def concentration(network: PeerNetwork) -> pd.DataFrame:
    """Return how concentrated attention is, per period.

    Parameters
    ----------
    network : PeerNetwork

    Returns
    -------
    pandas.DataFrame
        Index ``period``; ``effective_peers`` (median over firms), ``herfindahl`` (Σ of squared shares of
        in-strength: 1/n when all are looked to alike, 1 when one takes all) and ``gini`` of in-strength
        (0 when all are looked to alike). Sizes of weights are used where they are signed.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"period": 1, "firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
    >>> concentration(PeerNetwork.from_edges(edges))
            effective_peers  herfindahl  gini
    period
    1                   1.0         0.5   0.0
    """
    rows = []
    for _, section in network.sections():
        strength = np.asarray(abs(section.weights).sum(axis=0), dtype=np.float64).ravel()
        effective = _effective(section)
        known = effective[~np.isnan(effective)]
        total = strength.sum()
        rows.append(
            {
                "effective_peers": float(np.median(known)) if len(known) else np.nan,
                "herfindahl": float(((strength / total) ** 2).sum()) if total else np.nan,
                "gini": gini(strength),
            }
        )
    return pd.DataFrame(rows, index=network.periods.rename("period"))


def gini(values: Array) -> float:
    """Return the Gini coefficient ``Σ_ij |x_i − x_j| / (2 n² mean)`` of values that are not negative.

    Parameters
    ----------
    values : ndarray, shape (n,)

    Returns
    -------
    float
        Between 0 (all alike) and 1 − 1/n (one has all); NaN when all are zero.

    Examples
    --------
    >>> gini(np.array([1.0, 1.0])), gini(np.array([0.0, 1.0]))
    (0.0, 0.5)
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    total, size = ordered.sum(), len(ordered)
    if size == 0 or total == 0:
        return float("nan")
    return float((2 * np.arange(1, size + 1) - size - 1) @ ordered / (size * total))


def _effective(section: CrossSection) -> Array:
    sizes: Any = abs(section.weights)
    total = np.asarray(sizes.sum(axis=1), dtype=np.float64).ravel()
    squares = np.asarray((sizes * sizes).sum(axis=1), dtype=np.float64).ravel()
    found: Array = np.divide(total**2, squares, out=np.full(len(total), np.nan), where=squares > 0)
    return found


def _frame(network: PeerNetwork, side: str, name: str, measure: object) -> pd.DataFrame:
    positions, where, values = [], [], []
    for position, (_, section) in enumerate(network.sections()):
        found = getattr(section, side)
        positions.append(found)
        where.append(np.full(len(found), position))
        values.append(measure(section))  # type: ignore[operator]
    return pd.DataFrame(
        {
            "period": network.periods.take(np.concatenate(where)),
            "firm": network.labels.take(np.concatenate(positions)),
            name: np.concatenate(values),
        }
    )


def summary_table(network: PeerNetwork) -> Table:
    """Return the table a network shows of itself: sizes, spread and isolates of each period.

    Parameters
    ----------
    network : PeerNetwork

    Returns
    -------
    Table
    """
    measures = concentration(network)
    step = max(1, -(-len(measures) // 24))
    rows = []
    for position, (period, section) in enumerate(network.sections()):
        if position % step == 0:
            found = measures.iloc[position]
            counts = (len(section.rows), len(section.columns), section.n_edges)
            rows.append(
                (show_label(period) or "undated", *counts, found["effective_peers"], found["gini"],
                 int(section.isolates().sum()))
            )  # fmt: skip
    notes = ["Effective peers: median over firms of 1 / Σ w². Gini of how much firms are looked to."]
    if step > 1:
        notes.append(f"Every {step}th of {len(measures)} periods.")
    if network.row_normalized or network.signed:
        notes.append("Weights are predictive relevance, not causal peer effects.")
    return Table(
        ": ".join(part for part in ("Peer network", network.name) if part),
        ("Period", "Firms", "Looked to", "Edges", "Effective peers", "Gini", "Isolates"),
        rows,
        alignment="lrrrrrr",
        formats=("", ",.0f", ",.0f", ",.0f", ".1f", ".2f", ",.0f"),
        footnotes=notes,
    )
