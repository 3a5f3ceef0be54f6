"""Both directions of every pair: w_ij against w_ji."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from peerattn.exceptions import InputError
from peerattn.network.figures.axes import fresh_axes, label_points, short_name, title_of
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
    >>> import numpy as np
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 0.9, 0.1], [0.2, 0.0, 0.8], [0.6, 0.4, 0.0]])
    >>> pair_plot(PeerNetwork.from_matrices({None: ("ABC", None, W)})).get_xscale()
    'log'
    """
    if network.signed:
        raise InputError("pair_plot: log scales need weights that are not negative; the network is signed.")
    when, section = network.section(period)
    positions, weights = section.square()
    i, j = np.triu_indices(len(positions), 1)
    larger, smaller = np.maximum(weights[i, j], weights[j, i]), np.minimum(weights[i, j], weights[j, i])
    both = smaller > 0
    if not both.any():
        raise InputError("pair_plot: no pair of firms looks to each other; there is nothing to draw.")
    with figure_style():
        axes = fresh_axes((5.2, 4.6)) if ax is None else ax
        x, y = larger[both], smaller[both]
        if len(x) > _POINTS:
            axes.hexbin(
                x, y, xscale="log", yscale="log", gridsize=55, bins="log", cmap=weight_colours(), linewidths=0
            )
        else:
            axes.plot(x, y, "o", color=PALETTE[0], alpha=0.7, markeredgewidth=0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        low, high = float(y.min()), float(x.max())
        axes.plot([low, high], [low, high], color=INK, linewidth=0.7, alpha=0.5)
        powers = np.arange(
            0, np.floor(np.log10(low)) - 1, -1
        )  # the room to the right is for names: no weight is beyond 1
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
        names = [
            " → ".join(short_name(show_label(network.labels[positions[p]]), 18) for p in pair)
            for pair in ends.T
        ]
        label_points(axes, larger[top], smaller[top], names, right=np.ones(len(top), dtype=bool))
    return axes
