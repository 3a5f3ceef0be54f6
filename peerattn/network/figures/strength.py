"""Who is looked to: in-strength against a characteristic such as size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.attributes import characteristic
from peerattn.network.figures.axes import fresh_axes, label_points, short_name, title_of
from peerattn.render import PALETTE, figure_style, show_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerattn.network.peer_network import PeerNetwork


def strength_plot(
    network: PeerNetwork, values: pd.Series, period: Any = None, *, ax: Axes | None = None, label: int = 8
) -> Axes:
    """Draw how much each firm is looked to against a characteristic.

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
        How many of the most looked-to firms to name.

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
        raise InputError("values: no firm that is looked to has a value.")
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
        names = [short_name(show_label(network.labels[positions[place]])) for place in first]
        label_points(axes, x[first], y[first], names, right=x[first] <= (x.min() + x.max()) / 2)
    return axes
