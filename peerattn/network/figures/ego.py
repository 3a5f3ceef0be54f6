"""One firm's peers and followers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, checked
from peerattn.network.base import BaseNetwork
from peerattn.network.figures.axes import drawing, short_name, title_of
from peerattn.network.peers import followers, peers
from peerattn.render import PALETTE, show_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@checked
def ego_plot(
    network: BaseNetwork, firm: Any, period: Any = None, *, k: int = 8, ax: Axes | None = None
) -> Axes:
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
    from matplotlib.patches import FancyArrowPatch

    chosen = network.at(period)
    position = chosen.firm_position(firm)
    middle = chosen.labels[position]
    sides = [
        followers(chosen, firm, k=k) if chosen.occurs(position, "columns") else pd.DataFrame(),
        peers(chosen, firm, k=k) if chosen.occurs(position, "rows") else pd.DataFrame(),
    ]
    if not any(map(len, sides)):
        raise InputError(f"firm: {middle!r} has neither peers nor followers; there is nothing to draw.")
    rows = max(map(len, sides))
    when = "mean over periods" if period is None and len(network.periods) > 1 else network.section(period)[0]
    height = max(2.2, 0.34 * rows + 1.0)
    with drawing(ax, (6.4, height), title_of(network, when if network.is_dated else None), bare=True) as axes:
        name = _broken(show_label(middle))
        axes.text(0, 0, name, ha="center", va="center", fontsize=10.5, fontweight="bold")
        top = max((abs(float(side["weight"].iloc[0])) for side in sides if len(side)), default=1.0)
        for direction, side, head in zip((-1, 1), sides, ("followers", "peers"), strict=True):
            beside: dict[str, Any] = {"ha": "right" if direction < 0 else "left"}
            end = (len(side) - 1) / 2
            heights = np.linspace(end, -end, len(side))
            for at, (name, weight) in zip(heights, side.itertuples(index=False, name=None)):
                share = abs(weight) / top
                ends = [(1.75 * direction, at), (0.62 * direction, at * 0.16)]
                axes.add_patch(
                    FancyArrowPatch(
                        *ends[::-direction], arrowstyle="-|>", mutation_scale=7 + 4 * share,
                        color=PALETTE[0 if weight > 0 else 1], linewidth=0.6 + 3.4 * share, alpha=0.3 + 0.7 * share,
                        shrinkA=2, shrinkB=2, connectionstyle="arc3", capstyle="butt",
                    )
                )  # fmt: skip
                shown = [short_name(name), f"{weight:.1%}"][::-direction]
                axes.text(1.82 * direction, at, "\u2002".join(shown), va="center", **beside)
            if len(side):
                note = axes.text(1.82 * direction, rows / 2 + 0.45, head, fontsize=8.5, **beside)
                note.set(style="italic", alpha=0.75)
        axes.set(xlim=(-4.2, 4.2), ylim=(-(rows / 2) - 0.3, rows / 2 + 0.9))
    return axes


def _broken(name: str) -> str:
    """A long name on two lines."""
    words = name.split()
    if len(name) <= 12 or len(words) < 2:
        return short_name(name, 16)
    cut = min(range(1, len(words)), key=lambda n: abs(len(" ".join(words[:n])) - len(name) / 2))
    return "\n".join(short_name(" ".join(part), 16) for part in (words[:cut], words[cut:]))
