"""The base of every picture: fresh or given axes in one style, names that are no formulas, titles."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, cast

from peerattn.exceptions import expect
from peerattn.network.base import Network
from peerattn.render import figure_style, figure_text, show_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = object  # matplotlib is loaded by the first figure


@contextmanager
def drawing(ax: Axes | None, size: tuple[float, float], title: str, *, bare: bool = False) -> Iterator[Axes]:
    """Give axes to draw on, in the style of this package, and their title when all is drawn.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Default: those of a new pyplot figure.
    size : tuple of float
        Of a new figure, in inches.
    title : str
        Shown at the end.
    bare : bool, default False
        Without ticks and frame.
    """
    with figure_style():
        if ax is None:
            ax = cast("Axes", import_module("matplotlib.pyplot").subplots(figsize=size)[1])
        expect(hasattr(ax, "imshow"), "ax", "axes of matplotlib or None", type(ax).__name__)
        yield ax
        ax.set_title(title)
        if bare:
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set_visible(False)


def title_of(network: Network, period: Hashable) -> str:
    """Return "name, period" leaving out what is empty."""
    return figure_text(", ".join(filter(None, (network.name or "Peer network", show_label(period)))))


def short_name(label: object, length: int = 24) -> str:
    """Return a label as figures show it, cut to a length.

    Examples
    --------
    >>> short_name("International Business Machines", 12)
    'Internation…'
    """
    return figure_text(show_label(label), length)
