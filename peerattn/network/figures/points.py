"""Points and lines: both directions of every pair, in-strength against a characteristic, the network over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.attributes import characteristic
from peerattn.network.figures.axes import fresh_axes, label_points, short_name, title_of
from peerattn.network.measures.asymmetry import asymmetry
from peerattn.network.measures.comparison import turnover
from peerattn.render import INK, PALETTE, figure_style, show_label, weight_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerattn.network.peer_network import PeerNetwork

_POINTS = 2_000  # more pairs than this are shown as densities


def pair_plot(network: PeerNetwork, period: Any = None, *, ax: Axes | None = None, label: int = 5) -> Axes:
    """Draw w_ij against w_ji on log scales, the larger weight across: below the line, one looks more.

    Parameters
    ----------
    network : PeerNetwork
        Not signed.
    period : label, optional
        May be left out when there is only one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    label : int, default 5
        How many of the most one-sided pairs to name (by difference in weight).

    Returns
    -------
    matplotlib.axes.Axes
        Pairs with a zero weight in either direction are counted in the title, not drawn.

    Raises
    ------
    InputError
        When the network is signed, or no pair has both weights positive.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 0.9, 0.1], [0.2, 0.0, 0.8], [0.6, 0.4, 0.0]])
    >>> pair_plot(PeerNetwork.from_matrices({None: ("ABC", None, W)})).get_xscale()
    'log'
    """
    if network.signed:
        raise InputError("pair_plot: logarithmic scales need non-negative weights; the network is signed.")
    when, section = network.section(period)
    positions, weights = section.square()
    i, j = np.triu_indices(len(positions), 1)
    larger, smaller = np.maximum(weights[i, j], weights[j, i]), np.minimum(weights[i, j], weights[j, i])
    both = smaller > 0
    if not both.any():
        raise InputError(
            "pair_plot: no pair of firms has positive weights in both directions; there is nothing to draw."
        )
    with figure_style():
        axes = fresh_axes((5.2, 4.6)) if ax is None else ax
        x, y = larger[both], smaller[both]
        if len(x) > _POINTS:
            scale: Any = {"xscale": "log", "yscale": "log", "bins": "log"}
            axes.hexbin(x, y, gridsize=55, cmap=weight_colours(), linewidths=0, **scale)
        else:
            axes.plot(x, y, "o", color=PALETTE[0], alpha=0.7, markeredgewidth=0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        low, high = float(y.min()), float(x.max())
        axes.plot([low, high], [low, high], color=INK, linewidth=0.7, alpha=0.5)
        powers = np.arange(0, np.floor(np.log10(low)) - 1, -1)  # beyond 1 there is room for names
        axes.set_xticks(10.0 ** powers[:: -(-len(powers) // 7)], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_xlim(low / 1.3, high * (high / low) ** 0.6)
        axes.set_xlabel("larger weight of the pair")
        axes.set_ylabel("smaller weight of the pair")
        one_way = int(((smaller == 0) & (larger > 0)).sum())
        note = f" ({one_way:,} pairs wholly one-sided)" if one_way else ""
        axes.set_title(title_of(network, when) + note)
        gap = np.where(both, larger - smaller, -1.0)
        top = np.argsort(-gap, kind="stable")[: min(label, int(both.sum()))]
        forward = weights[i[top], j[top]] >= weights[j[top], i[top]]
        ends = np.where(forward, (i[top], j[top]), (j[top], i[top]))
        names = [" → ".join(short_name(network.labels[positions[p]], 18) for p in pair) for pair in ends.T]
        label_points(axes, larger[top], smaller[top], names, right=np.ones(len(top), dtype=bool))
    return axes


def strength_plot(
    network: PeerNetwork, values: pd.Series, period: Any = None, *, ax: Axes | None = None, label: int = 8
) -> Axes:
    """Draw the weight each firm receives against a characteristic.

    Parameters
    ----------
    network : PeerNetwork
    values : pandas.Series
        Characteristic by firm, or firm and period; its name is the label of the axis.
    period : label, optional
        May be left out when there is only one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    label : int, default 8
        How many of the firms with the most weight to name.

    Returns
    -------
    matplotlib.axes.Axes
        The title gives the rank correlation.

    Raises
    ------
    InputError
        When no firm has a value.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 0, 0]])})
    >>> size = pd.Series([3.0, 2.0, 1.0], index=list("ABC"), name="size")
    >>> strength_plot(network, size).get_xlabel()
    'size'
    """
    when, section = network.section(period)
    x = characteristic(network, values, section.columns, when, "values")
    y = section.column_sums()
    known = ~np.isnan(x)
    if not known.any():
        raise InputError("values: no peer has a value.")
    x, y, positions = x[known], y[known], section.columns[known]
    with figure_style():
        axes = fresh_axes((5.6, 3.9)) if ax is None else ax
        many = len(x) > 300
        axes.plot(
            x, y, "o", color=PALETTE[0], alpha=0.35 if many else 0.75, markersize=3 if many else 5, mew=0
        )
        axes.axhline(
            len(section.rows) / len(section.columns), color=PALETTE[1], linewidth=0.8, linestyle=(0, (4, 3))
        )
        axes.set_xlabel(str(values.name) if values.name is not None else "characteristic")
        axes.set_ylabel("in-strength")
        varies = len(x) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0
        rank = pd.Series(x).corr(pd.Series(y), method="spearman") if varies else float("nan")
        axes.set_title(title_of(network, when) + (f" (rank correlation {rank:.2f})" if varies else ""))
        first = np.argsort(-y, kind="stable")[:label]
        names = [short_name(network.labels[positions[place]]) for place in first]
        label_points(axes, x[first], y[first], names, right=x[first] <= (x.min() + x.max()) / 2)
    return axes


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
