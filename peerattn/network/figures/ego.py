"""One firm's peers and followers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.figures.axes import fresh_axes, short_name, title_of
from peerattn.render import PALETTE, figure_style, show_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerattn.network.peer_network import PeerNetwork


def ego_plot(
    network: PeerNetwork, firm: Any, period: Any = None, *, k: int = 8, ax: Axes | None = None
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
    ['A', 'B\u2002100.0%', 'C\u2002100.0%', '100.0%\u2002B', 'followers', 'peers']
    """
    from matplotlib.patches import FancyArrowPatch

    middle = network.labels[network.firm_position(firm)]
    sides = _side(network, "followers", firm, period, k), _side(network, "peers", firm, period, k)
    if not any(map(len, sides)):
        raise InputError(f"firm: {middle!r} has neither peers nor followers; there is nothing to draw.")
    rows = max(map(len, sides))
    when = "mean over periods" if period is None and len(network.periods) > 1 else network.section(period)[0]
    with figure_style():
        axes = fresh_axes((6.4, max(2.2, 0.34 * rows + 1.0))) if ax is None else ax
        axes.text(
            0, 0, _broken(show_label(middle)), ha="center", va="center", fontsize=10.5, fontweight="bold"
        )
        top = max((abs(float(side["weight"].iloc[0])) for side in sides if len(side)), default=1.0)
        for direction, side in zip((-1, 1), sides, strict=True):
            heights = np.linspace((len(side) - 1) / 2, -(len(side) - 1) / 2, len(side))
            for height, (name, weight) in zip(heights, side.itertuples(index=False, name=None), strict=True):
                share = abs(weight) / top
                color = PALETTE[0] if weight > 0 else PALETTE[1]
                ends = [(1.75 * direction, height), (0.62 * direction, height * 0.16)]
                start, end = ends if direction < 0 else ends[::-1]
                axes.add_patch(
                    FancyArrowPatch(
                        start, end, arrowstyle="-|>", mutation_scale=7 + 4 * share, color=color,
                        linewidth=0.6 + 3.4 * share, alpha=0.3 + 0.7 * share, shrinkA=2, shrinkB=2,
                        connectionstyle="arc3", capstyle="butt",
                    )
                )  # fmt: skip
                shown = short_name(name)
                text = f"{shown}\u2002{weight:.1%}" if direction < 0 else f"{weight:.1%}\u2002{shown}"
                axes.text(
                    1.82 * direction, height, text, ha="right" if direction < 0 else "left", va="center"
                )
        axes.set(xlim=(-4.2, 4.2), ylim=(-(rows / 2) - 0.3, rows / 2 + 0.9), xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set_visible(False)
        for direction, side, head in zip((-1, 1), sides, ("followers", "peers"), strict=True):
            if len(side):
                place = (1.82 * direction, rows / 2 + 0.45)
                note = axes.text(*place, head, ha="right" if direction < 0 else "left", fontsize=8.5)
                note.set(style="italic", alpha=0.75)
        axes.set_title(title_of(network, when if network.is_dated else None))
    return axes


def _side(network: PeerNetwork, verb: str, firm: Any, period: Any, k: int) -> pd.DataFrame:
    """Links on one side; none for a firm that is never on that side."""
    chosen = network if period is None else network.subset(periods=[period])
    position = network.firm_position(firm)
    side = "columns" if verb == "followers" else "rows"
    if not any(position in getattr(section, side) for _, section in chosen.sections()):
        return pd.DataFrame({"firm": [], "weight": []})
    found: pd.DataFrame = getattr(chosen, verb)(firm, k=k)
    return found


def _broken(name: str) -> str:
    """A long name on two lines."""
    words = name.split()
    if len(name) <= 12 or len(words) < 2:
        return short_name(name, 16)
    cut = min(range(1, len(words)), key=lambda n: abs(len(" ".join(words[:n])) - len(name) / 2))
    return "\n".join(short_name(" ".join(part), 16) for part in (words[:cut], words[cut:]))
