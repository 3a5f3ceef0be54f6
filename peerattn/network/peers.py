"""One firm's peers, and its followers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, checked
from peerattn.network.base import BaseNetwork, Net
from peerattn.network.cross_section import Array, as_dense, where_in


@checked
def peers(network: BaseNetwork, firm: Any, period: Any = None, k: int | None = 10) -> pd.DataFrame:
    """Return a firm's peers, most weight first.

    Parameters
    ----------
    firm : label
        The focal firm.
    period : label, optional
        Default: the mean over the periods in which the firm has a peer.
    k : int, optional
        Largest number of rows; None for all.

    Returns
    -------
    pandas.DataFrame
        Columns ``peer, weight``, zero weights left out. The title above the columns says whether weights are means over
        periods, and gives the effective number of peers, 1 / Σ w² of weights that sum to one, and how much of the firm's
        weight those shown have together:
        five peers of 1 % each are the top of a flat list.

    Raises
    ------
    InputError
        When the firm or period is unknown, or is not a focal firm in that period.
    """
    chosen, position = found_firm(network, firm, period, "rows")
    weights = weights_from(chosen, position)
    found = largest_first(pd.DataFrame({"peer": network.labels, "weight": weights}), k)
    if not weights.any():
        return found
    sizes, shown = np.abs(weights), np.abs(found["weight"].to_numpy()).sum()
    if chosen.top_k is None:
        share = f"{shown / sizes.sum():.1%}{' of all |w|' if chosen.signed else ''} shown"
        title = f"{sizes.sum() ** 2 / (sizes @ sizes):,.1f} effective peers, {share}"
    else:
        title = f"top {chosen.top_k} kept" + ("" if chosen.signed else f", {shown:.1%} shown")
    several = period is None and len(network.periods) > 1
    return found.rename_axis(columns=f"mean over periods: {title}" if several else title)


@checked
def followers(network: BaseNetwork, firm: Any, period: Any = None, k: int | None = 10) -> pd.DataFrame:
    """Return a firm's followers, the firms that have it as a peer, most weight first.

    Parameters
    ----------
    firm : label
        The peer.
    period : label, optional
        Default: for each follower, the mean over the periods in which it has a peer, so that
        ``followers(j)`` shows for i what ``peers(i)`` shows for j.
    k : int, optional
        Largest number of rows; None for all.

    Returns
    -------
    pandas.DataFrame
        Columns ``firm, weight``, zero weights left out.

    Raises
    ------
    InputError
        When the firm or period is unknown, or is not a possible peer in that period.
    """
    chosen, position = found_firm(network, firm, period, "columns")
    weights = weights_to(chosen, position)
    return largest_first(pd.DataFrame({"firm": network.labels, "weight": weights}), k)


def found_firm(
    network: Net, firm: Any, period: Any, side: Literal["rows", "columns"], argument: str = "firm"
) -> tuple[Net, int]:
    """Return the network of the periods meant and a firm's position, or say on which side the firm is missing."""
    chosen = network.at(period)
    position = chosen.firm_position(firm)
    if not chosen.occurs(position, side):
        lack = "focal firm" if side == "rows" else "possible peer"
        where = where_in(chosen.periods[0]) if len(chosen.periods) == 1 else ""
        raise InputError(f"{argument}: {chosen.labels[position]!r} is not a {lack}{where}.")
    return chosen, position


def largest_first(frame: pd.DataFrame, k: int | None) -> pd.DataFrame:
    """Return the rows with a ``weight``, at most ``k``, by its absolute size; of equal ones the earlier first."""
    kept = frame[frame["weight"] != 0].sort_values("weight", key=np.abs, ascending=False, kind="stable")
    return kept[:k].reset_index(drop=True)


def weights_from(network: BaseNetwork, firm: int) -> Array:
    """Return a firm's mean weight on every label, shape (n_labels,): its row of the mean network.

    The mean is over the periods in which the firm has a peer; a peer absent in one of them counts zero there.
    """
    total, count = np.zeros(len(network.labels)), 0
    for _, section in network.sections():
        row = as_dense(section.weights[np.flatnonzero(section.rows == firm)])
        if row.any():
            total[section.columns] += row[0]
            count += 1
    return total / max(count, 1)


def weights_to(network: BaseNetwork, firm: int) -> Array:
    """Return every label's mean weight on a firm, shape (n_labels,): its column of the mean network."""
    total, counts = np.zeros((2, len(network.labels)))
    for _, section in network.sections():
        counts[section.rows[~section.isolates()]] += 1
        column = np.flatnonzero(section.columns == firm)
        if len(column):
            total[section.rows] += as_dense(section.weights[:, column]).ravel()
    return total / np.maximum(counts, 1)
