"""New axes and titles, the same for every picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from peerattn.network.cross_section import Array
from peerattn.render import figure_text, show_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerattn.network.peer_network import PeerNetwork


def fresh_axes(size: tuple[float, float]) -> Axes:
    """Return the axes of a new pyplot figure of a size in inches."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=size)
    return axes


def label_points(axes: Axes, x: Array, y: Array, names: Sequence[str], *, right: Array) -> None:
    """Name points (x, y) beside them, the first names first; one that would cover an earlier name is left out.

    ``axes`` have their final limits and scales; ``right`` says whether a name stands to the right of its point.
    """
    figure = axes.figure
    figure.draw_without_rendering()  # type: ignore[union-attr]
    taken: list[Any] = []
    for a, b, name, after in zip(x, y, names, right, strict=True):
        text = axes.annotate(name, (a, b), xytext=(5 if after else -5, 0), textcoords="offset points")
        text.set(fontsize=8, ha="left" if after else "right", va="center")
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)


def title_of(network: PeerNetwork, period: Any) -> str:
    """Return "name, period" with what is there of them."""
    return figure_text(
        ", ".join(part for part in (network.name or "Peer network", show_label(period)) if part)
    )


def short_name(label: Any, length: int = 24) -> str:
    """Return a label as figures show it, cut to a length.

    Examples
    --------
    >>> short_name("International Business Machines", 12)
    'Internation…'
    """
    return figure_text(show_label(label), length)
