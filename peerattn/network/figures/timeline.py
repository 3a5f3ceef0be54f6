"""The network over time: how one-sided it is, and how fast it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.measures.asymmetry import asymmetry
from peerattn.network.measures.comparison import turnover
from peerattn.render import PALETTE, figure_style, show_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerattn.network.peer_network import PeerNetwork


def timeline(network: PeerNetwork, *, axes: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
    """Draw popularity and true direction (above) and turnover of peers (below) over time.

    Parameters
    ----------
    network : PeerNetwork
        Several periods; rows sum to one.
    axes : pair of matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    pair of matplotlib.axes.Axes

    Raises
    ------
    InputError
        When there are fewer than two periods.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 0.9, 0.1], [0.2, 0.0, 0.8], [0.6, 0.4, 0.0]])
    >>> network = PeerNetwork.from_matrices({year: ("ABC", None, W) for year in (2001, 2002, 2003)})
    >>> [ax.get_ylabel() for ax in timeline(network)]
    ['asymmetry (log)', 'turnover']
    """
    if len(network.periods) < 2:
        raise InputError("timeline: expected several periods, got one.")
    split, moved = asymmetry(network).by_period, turnover(network)
    with figure_style():
        if axes is None:
            import matplotlib.pyplot as plt

            _, pair = plt.subplots(2, 1, sharex=True, figsize=(6.0, 4.0), height_ratios=(3, 2))
            axes = (pair[0], pair[1])
        upper, lower = axes
        x, ticks = _positions(network.periods)
        for column, color in (("popularity", PALETTE[0]), ("direction", PALETTE[1])):
            upper.plot(x, split[column], color=color, marker="o" if len(x) < 30 else None, label=column)
        upper.set_ylabel("asymmetry (log)")
        upper.set_ylim(bottom=0)
        upper.legend(ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
        lower.plot(x[1:], moved["turnover"], color=PALETTE[2], marker="o" if len(x) < 30 else None)
        lower.set_ylabel("turnover")
        lower.set_ylim(0, max(0.05, 1.1 * float(np.nanmax([*moved["turnover"], 0.0]))))
        if ticks is not None:
            lower.set_xticks(*ticks)
        else:
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            locator = AutoDateLocator(maxticks=8)
            lower.xaxis.set_major_locator(locator)
            lower.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        for each in axes:
            each.grid(axis="y")
        upper.set_title(network.name or "Peer network")
    return upper, lower


def _positions(periods: pd.Index) -> tuple[Any, tuple[list[int], list[str]] | None]:
    """Where periods stand on the axis: dates and years by value, other labels one after the other."""
    if isinstance(periods, pd.PeriodIndex):
        return periods.to_timestamp(), None
    if isinstance(periods, pd.DatetimeIndex):
        return periods, None
    step = max(1, -(-len(periods) // 8))
    chosen = list(range(0, len(periods), step))
    return np.arange(len(periods)), (chosen, [show_label(periods[n]) for n in chosen])
