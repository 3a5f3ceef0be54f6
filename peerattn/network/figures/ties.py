"""The strongest ties of a network, laid out so that names can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, checked
from peerattn.network.attributes import labels_of
from peerattn.network.base import BaseNetwork
from peerattn.network.cross_section import Array, CrossSection
from peerattn.network.figures.axes import drawing, short_name, title_of
from peerattn.render import INK, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = 20  # characters
_FAINT = 0.15  # of the largest weight: less is not drawn
_LETTER, _LINE = 0.062, 0.27  # inches a character is wide and a point with its name is high
_GAP = 0.15  # inches between firms without a tie to each other
_MARGINS = np.array(
    [[0.55, 0.12], [0.55, 0.35]]
)  # inches at the left and below, at the right and above, for names
_OTHERS = "#8b9096"


@checked
def ties_plot(
    network: BaseNetwork,
    period: Any = None,
    *,
    firms: Sequence[Any] | int = 40,
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
    firms : sequence of labels, or int, default 40
        The firms that are drawn; a number means those at the ends of the strongest ties.
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
        When the period or a firm is unknown, there is nothing to draw, or ``groups`` knows none of the firms.

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

    label, section = network.section(period)
    weights = network.matrix(label if network.is_dated else None)
    if isinstance(firms, int):
        drawn = network.labels.take(_at_strongest(section, firms))
    else:
        drawn = network.labels.take([network.firm_position(firm) for firm in firms])
    ties = _strongest(weights.reindex(index=drawn, columns=drawn, fill_value=0.0).to_numpy(), k)
    if not ties:
        raise InputError("ties_plot: none of these firms gives another one weight; there is nothing to draw.")
    with drawing(ax, (7.4, 5.8), title_of(network, label), bare=True) as axes:
        box = axes.get_window_extent()
        size = np.array([box.width, box.height]) / axes.figure.dpi
        names = [short_name(firm, _NAME) for firm in drawn]
        places = _places(ties, names, size)
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
            above = axes.annotate(
                names[i], (place[0], place[1]), xytext=(0, 5), textcoords="offset points", ha="center"
            )
            above.set(fontsize=7, zorder=4, path_effects=halo)
        found = np.array(list(places.values()))
        low, high = found.min(axis=0), found.max(axis=0)
        unit = (high - low) / np.maximum(size - np.sum(_MARGINS, axis=0), 1.0)  # of the axes, in an inch
        unit = np.where(unit > 0, unit, 1.0)
        limits = np.transpose([low - _MARGINS[0] * unit, high + _MARGINS[1] * unit])
        axes.set(xlim=limits[0], ylim=limits[1])
    return axes


def _at_strongest(section: CrossSection, count: int) -> Array:
    """Return the positions of this number of firms, those of the largest weights first."""
    found = section.others().maximum(0).tocoo()
    order = np.argsort(-found.data, kind="stable")
    ends = np.column_stack([section.rows[found.row[order]], section.columns[found.col[order]]])
    return np.asarray(pd.unique(ends.ravel())[:count])


def _strongest(weights: Array, k: int) -> list[tuple[int, int, float]]:
    """Return (firm, peer, weight) of each firm's k largest positive weights on others, without those that are faint."""
    weights = np.where(np.eye(len(weights), dtype=bool), 0.0, weights)
    order = np.argsort(-weights, axis=1, kind="stable")[:, :k]
    faint = _FAINT * weights.max(initial=0.0)
    kept = [(i, j, float(weights[i, j])) for i, row in enumerate(order) for j in map(int, row)]
    return [tie for tie in kept if tie[2] > faint]


def _places(ties: list[tuple[int, int, float]], names: list[str], size: Array) -> dict[int, Array]:
    """Return a place in inches for each firm with a tie: names apart, components on shelves that fill the figure."""
    import networkx as nx

    graph = nx.Graph([(i, j) for i, j, _ in ties])
    parts = []
    for part in sorted(map(sorted, nx.connected_components(graph)), key=lambda part: (-len(part), part)):
        found = nx.kamada_kawai_layout(graph.subgraph(part))
        boxes = np.array([(_LETTER * len(names[node]) + 0.12, _LINE) for node in part])
        spread = size * np.sqrt(len(part) / len(graph)) / 2
        points = _apart(np.array([found[node] for node in part]) * spread, boxes)
        low, high = (points - boxes / 2).min(axis=0), (points + boxes / 2).max(axis=0)
        parts.append((part, points - low + _GAP / 2, high - low + _GAP))
    shelves = [
        _on_shelves([room for *_, room in parts], width) for width in size[0] * np.linspace(0.4, 3, 27)
    ]
    best, _ = max(shelves, key=lambda found: float((size / found[1]).min()))
    return {
        node: point + corner
        for (part, points, _), corner in zip(parts, best, strict=True)
        for node, point in zip(part, points, strict=True)
    }


def _on_shelves(rooms: list[Array], width: float) -> tuple[list[Array], Array]:
    """Put rooms side by side on shelves of a width; return their corners and the size of the whole."""
    corners, at, floor, height = [], 0.0, 0.0, 0.0
    for room in rooms:
        if at > 0 and at + room[0] > width:
            at, floor, height = 0.0, floor + height, 0.0
        corners.append(np.array([at, floor]))
        at, height = at + room[0], max(height, room[1])
    whole = np.max([corner + room for corner, room in zip(corners, rooms, strict=True)], axis=0)
    return corners, whole


def _apart(points: Array, boxes: Array) -> Array:
    """Move points until their boxes (width, height) do not overlap: each pair along the side that needs less."""
    points = points.copy()
    for _ in range(500):
        moved = False
        for i in range(len(points) - 1):
            gap = points[i + 1 :] - points[i]
            lack = (boxes[i + 1 :] + boxes[i]) / 2 - np.abs(gap)
            for at in np.flatnonzero((lack > 1e-6).all(axis=1)):
                side = int(np.argmin(lack[at]))
                push = (lack[at, side] / 2 + 1e-6) * (1 if gap[at, side] >= 0 else -1)
                points[i, side] -= push
                points[i + 1 + at, side] += push
                moved = True
        if not moved:
            break
    return points


def _colours(axes: Axes, network: BaseNetwork, groups: Any, drawn: pd.Index, period: Any) -> list[str]:
    """Return the colour of each firm by its group, and name the groups in a legend."""
    if groups is None:
        return [INK] * len(drawn)
    names = labels_of(network, groups, network.labels.get_indexer_for(drawn), period, "groups")
    found = pd.Series(names).value_counts().index
    few = found if len(found) <= len(PALETTE) else found[: len(PALETTE) - 1]
    palette = dict(zip(few, PALETTE))
    for name, colour in [*palette.items(), *([("other", _OTHERS)] if len(few) < len(found) else [])]:
        shown = short_name(name, 28)  # matplotlib leaves out a label that begins with an underscore
        axes.plot([], [], "o", color=colour, markersize=5, label="\u200b" * shown.startswith("_") + shown)
    axes.legend(ncols=3, loc="upper left", bbox_to_anchor=(0.0, 0.0), fontsize=8, handletextpad=0.2)
    return [palette.get(name, _OTHERS) for name in names]
