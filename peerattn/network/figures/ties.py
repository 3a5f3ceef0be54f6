"""Firms and ties as pictures: the strongest of a network, and those of one firm; names can be read."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, check_count, validate_arguments
from peerattn.network.attributes import labels_of
from peerattn.network.base import Network, Side
from peerattn.network.cross_section import Array, CrossSection, as_dense
from peerattn.network.figures.axes import Axes, drawing, short_name, title_of
from peerattn.network.peers import followers, peers
from peerattn.render import INK, PALETTE

_NAME = 20  # characters
_FAINT = 0.15  # of the largest weight: less is not drawn
_LETTER = 0.062
_LINE = 0.27  # inches a character is wide and a point with its name is high
_ROOM = np.array([0.55, 0.35])  # inches for names beyond the points, sideways and upwards
_ASIDE = 0.07  # inches from a point to the middle of it and its name
_OTHERS = "#8b9096"


@validate_arguments
def ties_plot(
    network: Network,
    period: Hashable = None,
    *,
    firms: int = 40,
    k: int = 2,
    groups: pd.Series | None = None,
    ax: Axes | None = None,
) -> Axes:
    r"""Draw firms and the peers that each of them gives the most weight: an arrow from the firm to its peer.

    Parameters
    ----------
    network : PeerNetwork
    period : label, optional
        May be left out when there is only one.
    firms : int, default 40
        Firms that are drawn, those at the ends of the strongest ties; of chosen firms draw ``network.subset(firms=...)``.
    k : int, default 2
        Ties of a firm: its peers of most positive weight among the firms drawn; under 15 % of the largest are left out.
    groups : pandas.Series, optional
        An industry by firm, or by firm and period: the colour of a firm.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The wider an arrow, the more weight; firms without a tie to a firm drawn are left out.

    Raises
    ------
    InputError
        When the period is unknown, there is nothing to draw, or ``groups`` knows none of the firms.

    Notes
    -----
    Places are those of Kamada and Kawai (1989, Information Processing Letters 31), moved apart until no names overlap.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 0, 0]])})
    >>> sorted(text.get_text() for text in ties_plot(network).texts if text.get_text())
    ['A', 'B', 'C']
    """
    from matplotlib.patheffects import withStroke

    check_count(firms=firms, k=k)
    label, section = network.section(period)
    positions = _at_strongest(section, firms)
    drawn = network.labels.take(positions)
    ties = _strongest(as_dense(section.block(positions, positions)), k)
    if not ties:
        raise InputError("ties_plot: none of these firms gives another one weight; there is nothing to draw.")
    with drawing(ax, (7.4, 5.8), title_of(network, label), bare=True) as axes:
        # in inches: names have a size, whatever the data are
        size = np.array(axes.get_window_extent().size) / axes.figure.dpi
        names = [short_name(firm, _NAME) for firm in drawn]
        places, sides = _places(ties, names, size)
        top = max(weight for *_, weight in ties)
        for i, j, weight in ties:
            axes.annotate(
                "", tuple(places[j]), tuple(places[i]),
                arrowprops={
                    "arrowstyle": "-|>", "mutation_scale": 7, "color": PALETTE[0], "shrinkA": 3, "shrinkB": 4,
                    "linewidth": 0.4 + 2.6 * weight / top, "alpha": 0.25 + 0.5 * weight / top,
                    "connectionstyle": "arc3,rad=0.1",
                },
            )  # fmt: skip
        halo = [withStroke(linewidth=2, foreground="white")]  # names stay readable on arrows
        colours = _colours(axes, network, groups, drawn.take(list(places)), label)
        for (i, place), colour in zip(places.items(), colours, strict=True):
            axes.plot(*place, "o", color=colour, markersize=5.5, zorder=3)
            name = axes.annotate(names[i], tuple(place), xytext=(0, 5 * sides[i]), textcoords="offset points")
            name.set(ha="center", va={1: "bottom", -1: "top"}[sides[i]], fontsize=7, zorder=4, path_effects=halo)
        found = np.array(list(places.values()))
        # room for names at the edges, in units of the data
        unit = np.ptp(found, axis=0) / np.maximum(size - 2 * _ROOM, 1.0)  # of the axes, in an inch
        unit[unit == 0] = 1.0
        edges = np.array([found.min(axis=0) - _ROOM * unit, found.max(axis=0) + _ROOM * unit])
        axes.set(xlim=edges[:, 0], ylim=edges[:, 1])
    return axes


def _at_strongest(section: CrossSection, count: int) -> Array:
    """Return the positions of this number of firms, those of the largest weights first."""
    # arrows are for positive weights on others
    found = section.others().maximum(0).tocoo()
    order = np.argsort(-found.data, kind="stable")
    ends = np.column_stack([section.rows[found.row[order]], section.columns[found.col[order]]])
    return np.asarray(pd.unique(ends.ravel())[:count])


def _strongest(weights: Array, k: int) -> list[tuple[int, int, float]]:
    """Return (firm, peer, weight) of each firm's k largest positive weights on others, without those that are faint."""
    weights = np.where(np.eye(len(weights), dtype=bool), 0.0, np.maximum(weights, 0.0))
    firms = np.arange(len(weights))
    ties = zip(*(part.tolist() for part in CrossSection(firms, firms, weights).entries(k)))
    return [tie for tie in ties if tie[2] > _FAINT * weights.max(initial=0.0)]


def _places(ties: list[tuple[int, int, float]], names: list[str], size: Array) -> tuple[dict[int, Array], dict[int, int]]:
    """Return a place in inches for each firm with a tie, and the side of its name: 1 above, -1 below.

    Names are apart, and firms without a path to each other a little further. Names are where fewer arrows are.
    """
    import networkx as nx

    graph = nx.Graph([(i, j) for i, j, _ in ties])
    # distances in steps place neighbours near; parts without a path a little further than the longest
    steps = dict(nx.all_pairs_shortest_path_length(graph))
    apart = 2 + max(max(found.values()) for found in steps.values())
    found = nx.kamada_kawai_layout(graph, dist={i: {j: steps[i].get(j, apart) for j in graph} for i in graph})
    sides = {node: -1 if sum(np.sign(found[other][1] - found[node][1]) for other in graph[node]) > 0 else 1 for node in graph}
    boxes = np.array([(_LETTER * len(names[node]) + 0.12, _LINE) for node in graph])
    aside = _ASIDE * np.array([(0, sides[node]) for node in graph])
    points = _apart(np.array([found[node] for node in graph]) * size / 2 + aside, boxes) - aside
    return dict(zip(graph, points, strict=True)), sides


def _apart(points: Array, boxes: Array) -> Array:
    """Move points until their boxes (width, height) do not overlap: each pair along the side that needs less."""
    order = np.arange(len(points))
    itself = np.eye(len(points), dtype=bool)
    # points at one place must move to different sides
    nudge = 1e-9 * np.sign(order - order[:, None])[:, :, None]
    for _ in range(2_000):
        gap = points - points[:, None] + nudge
        lack = (boxes + boxes[:, None]) / 2 - np.abs(gap)
        overlap = (lack > 1e-6).all(axis=2) & ~itself
        if not overlap.any():
            break
        side = overlap[:, :, None] & (lack == lack.min(axis=2, keepdims=True))
        points = points - (np.copysign(lack / 2 + 1e-6, gap) * side).sum(axis=1)
    return points


def _colours(axes: Axes, network: Network, groups: pd.Series | None, drawn: pd.Index, period: Hashable) -> list[str]:
    """Return the colour of each firm by its group, and name the groups in a legend."""
    if groups is None:
        return [INK] * len(drawn)
    names = labels_of(network, groups, network.labels.get_indexer_for(drawn), period, "groups")
    found = pd.Series(names).value_counts().index
    palette = dict(zip(found, PALETTE))
    legend = list(palette.items())
    if len(found) > len(PALETTE):  # the smallest groups share a colour
        palette.pop(found[len(PALETTE) - 1])
        legend[-1] = ("other", _OTHERS)
    for name, colour in legend:
        displayed = short_name(name, 28)  # matplotlib leaves out a label that begins with an underscore
        axes.plot([], [], "o", color=colour, markersize=5, label="\u200b" * displayed.startswith("_") + displayed)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0)}
    axes.legend(title=short_name(groups.name or "", 28), title_fontsize=8, fontsize=8, ncols=3, handletextpad=0.2, **place)
    return [palette.get(name, _OTHERS) for name in names]


@validate_arguments
def ego_plot(network: Network, firm: Hashable, period: Hashable = None, *, k: int = 8, ax: Axes | None = None) -> Axes:
    r"""Draw a firm's followers (left) and peers (right); width and shade are weights.

    Parameters
    ----------
    network : PeerNetwork
    firm : label
        The firm in the middle.
    period : label, optional
        Default: the mean over periods, as :meth:`PeerNetwork.peers` gives it.
    k : int, default 8
        Most firms on each side.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        When the firm or period is unknown, or the firm has no links.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 0, 0]])})
    >>> [text.get_text() for text in ego_plot(network, "A").texts]
    ['A', 'B\u2002100.0%', 'C\u2002100.0%', 'followers', '100.0%\u2002B', 'peers']
    """
    chosen = network.at(period)
    position = chosen.firm_position(firm)
    (middle,) = chosen.labels[[position]].tolist()
    ways: dict[Side, Any] = {"columns": followers, "rows": peers}
    sides = [way(chosen, firm, k=k) if chosen.occurs(position, side) else pd.DataFrame() for side, way in ways.items()]
    if not any(map(len, sides)):
        empty = not any(section.n_edges for _, section in chosen.sections())
        hint = " The network is empty: the model's evidence_ gives the reason." * empty
        raise InputError(f"firm: {middle!r} has neither peers nor followers; there is nothing to draw.{hint}")
    # both sides are centred on the firm
    rows = max(map(len, sides))
    when: Any = "mean over periods"
    if len(chosen.periods) == 1:
        when = chosen.periods[0]
    height = max(2.2, 0.34 * rows + 1.0)
    with drawing(ax, (6.4, height), title_of(network, when), bare=True) as axes:
        name = textwrap.fill(short_name(middle, 32), 14, break_long_words=False)
        axes.text(0, 0, name, ha="center", va="center", fontsize=10.5, fontweight="bold")
        top = max(abs(float(side["weight"].iloc[0])) for side in sides if len(side))
        for direction, arrow, outward, head, side in (
            (-1, "-|>", "right", "followers", sides[0]),
            (1, "<|-", "left", "peers", sides[1]),
        ):
            heights = (len(side) - 1) / 2 - np.arange(len(side))
            for at, (name, weight) in zip(heights, side.itertuples(index=False, name=None)):
                share = abs(weight) / top
                displayed = [short_name(name), f"{weight:.1%}"][::-direction]
                axes.annotate(
                    "\u2002".join(displayed), (0.62 * direction, at * 0.16), (1.82 * direction, at), va="center", ha=outward,
                    arrowprops={
                        "arrowstyle": arrow, "mutation_scale": 7 + 4 * share,
                        "color": PALETTE[0 if weight > 0 else 1], "linewidth": 0.6 + 3.4 * share,
                        "alpha": 0.3 + 0.7 * share, "relpos": ((1 - direction) / 2, 0.5),
                    },
                )  # fmt: skip
            if len(side):
                note = axes.text(1.82 * direction, rows / 2 + 0.45, head, fontsize=8.5, ha=outward)
                note.set(style="italic", alpha=0.75)
        axes.set(xlim=(-4.2, 4.2), ylim=(-(rows / 2) - 0.3, rows / 2 + 0.9))
    return axes
