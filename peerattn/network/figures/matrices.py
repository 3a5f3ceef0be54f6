"""Matrices as pictures: weights of firms, flows between groups, the search profile."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import expect, validate_arguments
from peerattn.network.attributes import labels_of
from peerattn.network.base import Network
from peerattn.network.cross_section import Array, CrossSection
from peerattn.network.figures.axes import Axes, drawing, short_name, title_of
from peerattn.network.measures.comparison import group_flows
from peerattn.render import INK, weight_colours
from peerattn.render.cells import MINUS

Order = pd.Series | Mapping[Any, Any]
_LABELLED = 40  # more firms than this have no legible label
_SERIATED = 3_000  # more firms than this are not put in order of their ties
_CELLS = 300  # more rows than this are averaged in blocks before drawing


@validate_arguments
def heat_map(network: Network, period: Hashable = None, *, ax: Axes | None = None, order: Order | None = None) -> Axes:
    """Draw one period's weights: rows are focal firms, columns are peers.

    Parameters
    ----------
    network : PeerNetwork
    period : label, optional
        May be left out when there is only one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    order : Series or mapping of firm to group, optional
        Order of rows and columns: by group (an industry by firm, or by firm and period: groups are ruled off and the larger ones
        named, in each the largest incoming weight first). By default as they come, above 40 firms those that give each other
        weight side by side.

    Returns
    -------
    matplotlib.axes.Axes
        Up to 40 firms are named; above 300 each cell shows the mean weight of a block.

    Raises
    ------
    InputError
        When the period is unknown, or the group of every firm is.

    Notes
    -----
    The order by ties is that of the Fiedler vector of ``|W| + |W|'`` (Atkins, Boman and Hendrickson 1998, A spectral
    algorithm for seriation and the consecutive ones problem, SIAM Journal on Computing 28(1)); up to 3,000 firms.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> firms = ["GM", "Chrysler"]
    >>> network = PeerNetwork.from_matrices({None: (firms, firms, np.eye(2)[::-1])})
    >>> heat_map(network).get_ylabel()
    'focal firm'
    """
    label, section = network.section(period)
    # one order for both sides, so that the diagonal is the firm itself
    sides = [_ordered(network, section, section.rows, order, label)] * 2
    if not section.is_square:
        sides[1] = _ordered(network, section, section.columns, order, label)
    (rows, row_groups), (columns, column_groups) = sides
    frame = network.matrix(period).iloc[rows, columns]
    with drawing(ax, (5.8, 5.0), title_of(network, label)) as axes:
        axes.set(xlabel="peer", ylabel="focal firm")
        _draw(axes, frame.to_numpy(dtype=np.float64), network.signed)
        _name_side(axes, "y", frame.index, row_groups)
        _name_side(axes, "x", frame.columns, column_groups)
    return axes


def _ordered(
    network: Network, section: CrossSection, places: Array, order: Order | None, period: Hashable
) -> tuple[Array, list[str] | None]:
    """Positions in drawing order and, when grouped, each one's group."""
    if order is None:
        # without groups the eye needs an order: firms that give each other weight side by side
        if section.is_square and _LABELLED < len(places) <= _SERIATED:
            return by_ties(np.abs(section.dense())), None
        return np.arange(len(places)), None
    # in a group the firms that receive most weight come first
    strength = np.asarray(abs(section.block(section.rows, places)).sum(axis=0)).ravel()
    groups = np.array(labels_of(network, pd.Series(order), places, period, "order"), dtype=str)
    positions = np.lexsort((-strength, groups, groups == "unknown"))
    return positions, groups[positions].tolist()


def by_ties(sizes: Array) -> Array:
    """Return the order of the Fiedler vector of the symmetric ties, each scaled by the strength of its ends."""
    # the Fiedler vector: of the normalised ties the eigenvector next to the largest
    ties = sizes + sizes.T
    scale = 1 / np.sqrt(np.maximum(ties.sum(axis=1), 1e-300))
    vectors = np.linalg.eigh(scale[:, None] * ties * scale)[1]
    return np.argsort(vectors[:, -2] * scale, kind="stable")


def _draw(axes: Axes, weights: Array, signed: bool) -> None:
    from matplotlib.colors import PowerNorm, SymLogNorm
    from matplotlib.ticker import MaxNLocator

    displayed = _block_means(weights)
    sizes = np.abs(displayed[displayed != 0])
    top = float(sizes.max(initial=0.0)) or 1.0
    if sizes.size > 5_000:  # a few outliers would leave all others pale
        top = float(np.quantile(sizes, 0.998))
    # weights are skewed: on a linear scale one large weight hides all others
    norm: Any = PowerNorm(0.5, 0.0, top, clip=True)
    beyond = "max"
    if signed:
        norm = SymLogNorm(top / 20, vmin=-top, vmax=top, clip=True)
        beyond = "both"
    height, width = weights.shape
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    extend = beyond if sizes.max(initial=0.0) > top else "neither"
    aspect = "equal" if displayed.shape[0] == displayed.shape[1] else "auto"
    label = "weight" if displayed.shape == weights.shape else "mean weight in blocks of firms"
    bar = _image(axes, displayed, signed, label, extend, norm=norm, aspect=aspect, extent=extent)
    if not signed:
        bar.set_ticks([t for t in MaxNLocator(4).tick_values(0.0, top) if 0 <= t <= top])


def _image(axes: Axes, values: Array, signed: bool, label: str, extend: str = "neither", **rest: Any) -> Any:
    """Draw a matrix in a frame, and beside it the bar of its colours, which is returned."""
    image = axes.imshow(values, cmap=weight_colours(signed=signed), interpolation="nearest", **rest)
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, extend=extend)
    bar.outline.set_visible(False)
    bar.set_label(label)
    for spine in axes.spines.values():
        spine.set_visible(True)
    return bar


def _block_means(weights: Array) -> Array:
    """Average over blocks so that neither side has more than 300 cells."""
    # the second round averages columns, which the transposition has made rows
    for _ in ("rows", "columns"):
        step = max(1, -(-len(weights) // _CELLS))
        weights = pd.DataFrame(weights).groupby(np.arange(len(weights)) // step).mean().to_numpy().T
    return weights


def _name_side(axes: Axes, side: str, firms: pd.Index, groups: list[str] | None) -> None:
    """Name the firms of one side, or their larger groups where firms are many; rule groups off."""
    axis = getattr(axes, f"{side}axis")
    line = {"x": axes.axvline, "y": axes.axhline}[side]
    named = pd.Series(groups or [], dtype=object)
    starts = np.flatnonzero(named != named.shift())
    if len(starts) <= 60:
        for start in starts[1:]:
            line(start - 0.5, color=INK, linewidth=0.4, alpha=0.35)
    at: Array = np.arange(len(firms))
    names = [short_name(firm) for firm in firms[: _LABELLED + 1]]
    upright = len(firms) > 6 or max(map(len, names), default=0) > 8
    if len(firms) > _LABELLED:
        sizes = np.diff(starts, append=len(firms))
        large = sizes >= len(firms) / 45
        at = (starts + (sizes - 1) / 2)[large]
        names = [short_name(name) for name in named[starts[large]]]
        if not groups:
            axis.set_label_text("")
    axis.set_ticks(at, names)
    axis.set_tick_params(length=0, labelrotation=90 * (side == "x" and upright))
    if 0 < len(firms) <= _LABELLED:
        # a name larger than its row would overlap the next
        axes.apply_aspect()
        points = 72 * min(axes.bbox.size) / axes.figure.dpi / len(firms)
        axis.set_tick_params(labelsize=min(axis.get_ticklabels()[0].get_size(), 0.9 * points))


@validate_arguments
def flow_map(network: Network, groups: pd.Series, period: Hashable = None, *, ax: Axes | None = None) -> Axes:
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
        Up to 14 groups with the shares written in; all in per cent.

    Raises
    ------
    InputError
        When there is no group or there are more than 60.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 0, 0]])})
    >>> flow_map(network, pd.Series(["x", "y", "y"], index=list("ABC"))).get_ylabel()
    'group of the focal firm'
    """
    flows = group_flows(network, groups, period)
    drawable = flows.size > 0 and len(flows) <= 60
    expect(drawable, "groups", "1 to 60 groups, of focal firms and of peers", f"{flows.shape[0]} and {flows.shape[1]}")
    what = "group" if groups.name is None else short_name(groups.name)
    title = title_of(network, network.section(period)[0])
    written = "{:.0f}" if len(flows) <= 14 else ""
    return _grid(100 * flows, ax, title, what, network.signed, written, "% of the row's weight", aspect="auto")


def _grid(
    frame: pd.DataFrame, ax: Axes | None, title: str, what: str, signed: bool, written: str, label: str, **options: Any
) -> Axes:  # fmt: skip
    """Draw a named matrix of what focal firms and peers are, its values ``written`` in the cells."""
    values = frame.to_numpy(dtype=np.float64)
    side = max(3.5, min(8.0, 1.9 + 0.36 * len(frame)))
    top = float(np.nanmax(np.abs(values))) or 1.0
    with drawing(ax, (side + 0.9, side), title) as axes:
        _image(axes, values, signed, label, vmin=-top if signed else 0.0, vmax=top, **options)
        if written:
            for (i, j), value in np.ndenumerate(values):
                text = written.format(value).replace("-", MINUS)
                color = "white" if abs(value) > 0.57 * top else INK
                axes.text(j, i, text, ha="center", va="center", fontsize=8, color=color)
        axes.set_yticks(range(frame.shape[0]), [short_name(name) for name in frame.index])
        axes.set_xticks(range(frame.shape[1]), [short_name(name) for name in frame.columns], rotation=90)
        axes.tick_params(length=0)
        axes.set(ylabel=f"{what} of the focal firm", xlabel=f"{what} of the peer")
    return axes


@validate_arguments
def search_map(profile: pd.DataFrame, *, ax: Axes | None = None, title: str = "Search profile") -> Axes:
    """Draw M = W_Q W_K': blue where more of the row's characteristic seeks more of the column's, orange less.

    Parameters
    ----------
    profile : pandas.DataFrame
        Square, in standardised units: rows are characteristics of the focal firm, columns those of the peer.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    title : str, default "Search profile"
        The title.

    Returns
    -------
    matplotlib.axes.Axes
        Up to 12 characteristics with the numbers written in.

    Raises
    ------
    InputError
        When the profile is empty or holds no finite number.

    Examples
    --------
    >>> profile = pd.DataFrame([[1.0, -0.5], [0.0, 0.3]], index=["size", "rd"], columns=["size", "rd"])
    >>> search_map(profile).get_xlabel()
    'characteristic of the peer'
    """
    values = profile.to_numpy(dtype=np.float64)
    expect(bool(np.isfinite(values).any()), "profile", "a matrix with finite numbers", "nothing to draw")
    written = "{:z.2f}" if len(profile) <= 12 else ""
    return _grid(profile, ax, title, "characteristic", True, written, "score per standard deviation of each")
