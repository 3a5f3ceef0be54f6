"""From industry to industry: shares of weight between groups of firms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.attributes import code_numbers
from peerattn.network.figures.axes import fresh_axes, short_name, title_of
from peerattn.render import INK, figure_style, weight_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerattn.network.peer_network import PeerNetwork


def group_flows(network: PeerNetwork, groups: pd.Series, period: Any = None) -> pd.DataFrame:
    """Return how much the firms of one group look to each group: the mean row, summed over peers' groups.

    Parameters
    ----------
    network : PeerNetwork
    groups : pandas.Series
        Group (an industry) by firm, or firm and period; firms without one are left out.
    period : label, optional
        May be left out when there is only one.

    Returns
    -------
    pandas.DataFrame
        Rows: groups that look, columns: groups looked to. Rows sum to one where every peer has a group and no firm is
        an isolate.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 0, 0]])})
    >>> group_flows(network, pd.Series(["x", "y", "y"], index=list("ABC")))
    looked to    x    y
    looks
    x          0.0  1.0
    y          1.0  0.0
    """
    when, section = network.section(period)
    own = code_numbers(network, groups, section.rows, when, "groups")
    peers = code_numbers(network, groups, section.columns, when, "groups")
    names = pd.Index([str(name) for name in pd.factorize(groups)[1]])
    to_group = np.zeros((len(own), len(names)))
    for number in range(len(names)):
        chosen = np.flatnonzero(peers == number)
        found: Any = section.weights[:, chosen]
        to_group[:, number] = np.asarray(found.sum(axis=1)).ravel()
    frame = pd.DataFrame(to_group, columns=names.rename("looked to"))
    frame["looks"] = pd.Series(own).map(dict(enumerate(names)))
    flows = frame.dropna(subset="looks").groupby("looks").mean()
    looked_to = [name for n, name in enumerate(names) if (peers == n).any()]
    return flows.loc[_in_order(flows.index), _in_order(looked_to)].rename_axis(columns="looked to")


def _in_order(names: Iterable[str]) -> list[str]:
    """Numbers as numbers, then names by the alphabet."""
    return sorted(names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))


def flow_map(network: PeerNetwork, groups: pd.Series, period: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw the flows between groups: each row shows where a group's weight goes.

    Parameters
    ----------
    network : PeerNetwork
    groups : pandas.Series
        As in :func:`group_flows`; at most 60 groups.
    period : label, optional
        May be left out when there is only one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Up to 14 groups with the shares written in.

    Raises
    ------
    InputError
        When there is no group or there are more than 60.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 0, 0]])})
    >>> flow_map(network, pd.Series(["x", "y", "y"], index=list("ABC"))).get_ylabel()
    'industry that looks'
    """
    flows = group_flows(network, groups, period)
    if not 0 < len(flows) <= 60:
        raise InputError(f"groups: expected 1 to 60 groups to draw, got {len(flows)}; use broader ones.")
    when, _ = network.section(period)
    side = max(3.6, min(8.0, 1.8 + 0.36 * len(flows)))
    with figure_style():
        axes = fresh_axes((side + 0.9, side)) if ax is None else ax
        values = flows.to_numpy()
        top = float(np.abs(values).max()) or 1.0
        image = axes.imshow(values, cmap=weight_colours(signed=network.signed), vmin=-top if network.signed else 0.0,
                            vmax=top, aspect="auto")  # fmt: skip
        if len(flows) <= 14:
            for (i, j), value in np.ndenumerate(values):
                strong = abs(value) > 0.55 * top
                axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=8,
                          color="white" if strong else INK)  # fmt: skip
        axes.set_yticks(range(len(flows)), [short_name(name) for name in flows.index])
        axes.set_xticks(range(flows.shape[1]), [short_name(name) for name in flows.columns], rotation=90)
        axes.tick_params(length=0)
        bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label("share of weight" + (" (numbers: %)" if len(flows) <= 14 else ""))
        for spine in axes.spines.values():
            spine.set_visible(True)
        axes.set_ylabel("industry that looks")
        axes.set_xlabel("industry that is looked to")
        axes.set_title(title_of(network, when))
    return axes
