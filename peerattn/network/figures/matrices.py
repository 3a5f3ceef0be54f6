"""Matrices as pictures: weights of firms, flows between groups, the search profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.attributes import labels_of
from peerattn.network.cross_section import Array, CrossSection
from peerattn.network.figures.axes import fresh_axes, short_name, title_of
from peerattn.network.measures.comparison import group_flows
from peerattn.render import INK, figure_style, weight_colours
from peerattn.render.regression import MINUS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerattn.network.peer_network import PeerNetwork

_LABELLED = 40  # more firms than this have no legible label
_SERIATED = 3_000  # more firms than this are not put in order of their ties
_CELLS = 300  # more rows than this are averaged in blocks before drawing


def heat_map(network: PeerNetwork, period: Any = None, *, ax: Axes | None = None, order: Any = None) -> Axes:
    """Draw one period's weights: rows look, columns are looked to.

    Parameters
    ----------
    network : PeerNetwork
    period : label, optional
        May be left out when there is only one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    order : None, "ties", "in-strength", Series or mapping of firm to group, or sequence of firms
        Order of rows and columns: as they come; firms that give each other weight side by side (the default above 40
        firms); the most looked-to first; by group (an industry by firm, or by firm and period: groups are ruled off and
        the larger ones named, in each the most looked-to first); or as listed.

    Returns
    -------
    matplotlib.axes.Axes
        Up to 40 firms are named; above 300 each cell shows the mean weight of a block.

    Raises
    ------
    InputError
        When the period is unknown, ``order`` is none of these, or the group of every firm is unknown.

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
    weights = np.asarray(section.dense(), dtype=np.float64)
    firms, peers = network.labels.take(section.rows), network.labels.take(section.columns)
    if order is None and section.is_square and _LABELLED < len(firms) <= _SERIATED:
        order = "ties"
    rows, row_groups = _ordered(network, section, "rows", order, label)
    columns, column_groups = (
        (rows, row_groups) if section.is_square else _ordered(network, section, "columns", order, label)
    )
    with figure_style():
        axes = fresh_axes((5.8, 5.0)) if ax is None else ax
        _draw(axes, weights[np.ix_(rows, columns)], network.signed)
        _name_side(axes, "y", firms.take(rows), row_groups)
        _name_side(axes, "x", peers.take(columns), column_groups)
        axes.set_ylabel("focal firm")
        axes.set_xlabel("peer")
        axes.set_title(title_of(network, label))
    return axes


def _ordered(
    network: PeerNetwork, section: CrossSection, side: str, order: Any, period: Any
) -> tuple[Array, list[str] | None]:
    """Positions in drawing order and, when grouped, each one's group."""
    places = getattr(section, side)
    firms = network.labels.take(places)
    if order is None:
        return np.arange(len(firms)), None
    given = pd.Series(np.asarray(abs(section.csr()).sum(axis=0)).ravel(), section.columns)
    strength = given.reindex(places).fillna(0.0).to_numpy()
    if isinstance(order, str):
        if order == "ties" and section.is_square:
            return by_ties(np.abs(section.dense())), None
        if order != "in-strength":
            raise InputError(
                "order: expected 'ties' (where firms are their own peers), 'in-strength', groups by firm, or a list of "
                f"firms, got {order!r}."
            )
        return np.argsort(-strength, kind="stable"), None
    if isinstance(order, pd.Series | Mapping):
        named = pd.Series(order)
        if named.index.has_duplicates:
            raise InputError("order: a firm has several groups; give one for each firm (of this period).")
        groups = labels_of(network, named, places, period, "order")
        last = np.array([group == "unknown" for group in groups], dtype=bool)
        positions = np.lexsort((-strength, np.array(groups, dtype=str), last))
        return positions, [groups[position] for position in positions]
    wanted = pd.Index(list(order))
    found = firms.get_indexer_for(wanted)
    if (found < 0).any():
        raise InputError(f"order: {wanted[found < 0][0]!r} is not a firm of this period.")
    return found, None


def by_ties(sizes: Array) -> Array:
    """Return the order of the Fiedler vector of the symmetric ties, each scaled by the strength of its ends."""
    ties = sizes + sizes.T
    scale = 1 / np.sqrt(np.maximum(ties.sum(axis=1), 1e-300))
    within = scale[:, None] * ties * scale
    vectors = np.linalg.eigh(within)[1]
    return np.argsort(vectors[:, -2] * scale, kind="stable")


def _draw(axes: Axes, weights: Array, signed: bool) -> None:
    from matplotlib.colors import PowerNorm, SymLogNorm
    from matplotlib.ticker import MaxNLocator

    shown = _block_means(weights)
    sizes = np.abs(shown[shown != 0])
    top = float(np.quantile(sizes, 0.998 if sizes.size > 5_000 else 1.0)) if sizes.size else 1.0
    norm: Any = PowerNorm(0.5, 0.0, top, clip=True)
    if signed:
        norm = SymLogNorm(top / 20, vmin=-top, vmax=top, clip=True)
    height, width = weights.shape
    image = axes.imshow(
        shown,
        cmap=weight_colours(signed=signed),
        norm=norm,
        aspect="auto" if shown.shape[0] != shown.shape[1] else "equal",
        interpolation="nearest",
        extent=(-0.5, width - 0.5, height - 0.5, -0.5),
    )
    beyond = bool(sizes.size) and float(sizes.max()) > top
    blocks = -(-weights.shape[0] // shown.shape[0]), -(-weights.shape[1] // shown.shape[1])
    label = "weight" if blocks == (1, 1) else f"mean weight in blocks of {blocks[0]} × {blocks[1]} firms"
    bar = _bar(axes, image, label, extend="neither" if not beyond else "both" if signed else "max")
    if not signed:
        bar.set_ticks([t for t in MaxNLocator(4).tick_values(0.0, top) if 0 <= t <= top])


def _bar(axes: Axes, image: Any, label: str, **options: Any) -> Any:
    """Frame the picture and put a bar of its colours beside it."""
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, **options)
    bar.outline.set_visible(False)
    bar.set_label(label)
    for spine in axes.spines.values():
        spine.set_visible(True)
    return bar


def _block_means(weights: Array) -> Array:
    """Average over blocks so that neither side has more than 300 cells."""
    for axis in (0, 1):
        step = -(-weights.shape[axis] // _CELLS)
        if step > 1:
            starts = np.arange(0, weights.shape[axis], step)
            counts = np.diff(np.append(starts, weights.shape[axis]))
            sums = np.add.reduceat(weights, starts, axis=axis)
            weights = sums / (counts[:, None] if axis == 0 else counts[None, :])
    return weights


def _name_side(axes: Axes, side: str, firms: pd.Index, groups: list[Any] | None) -> None:
    axis = axes.yaxis if side == "y" else axes.xaxis
    if len(firms) <= _LABELLED:
        names = [short_name(firm) for firm in firms]
        axis.set_ticks(range(len(firms)), names)
        if side == "x" and (len(firms) > 6 or max(map(len, names), default=0) > 8):
            axes.tick_params(axis="x", labelrotation=90)
        axis.set_tick_params(length=0)
    elif groups is None:
        axis.set_ticks([])
        (axes.set_ylabel if side == "y" else axes.set_xlabel)("")
    if groups is not None:
        _rule_groups(axes, side, groups, name=len(firms) > _LABELLED)


def _rule_groups(axes: Axes, side: str, groups: list[Any], *, name: bool) -> None:
    starts = [0] + [p for p in range(1, len(groups)) if groups[p] != groups[p - 1]]
    ends = [*starts[1:], len(groups)]
    line = axes.axhline if side == "y" else axes.axvline
    if len(starts) <= 60:
        for start in starts[1:]:
            line(start - 0.5, color=INK, linewidth=0.4, alpha=0.35)
    if not name:
        return
    large = [(s, e) for s, e in zip(starts, ends, strict=True) if e - s >= len(groups) / 45]
    axis = axes.yaxis if side == "y" else axes.xaxis
    axis.set_ticks([(s + e - 1) / 2 for s, e in large], [short_name(groups[s]) for s, _ in large])
    axis.set_tick_params(length=0)
    if side == "x":
        axes.tick_params(axis="x", labelrotation=90)


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
    'focal industry'
    """
    flows = group_flows(network, groups, period)
    if not 0 < len(flows) <= 60:
        raise InputError(f"groups: expected 1 to 60 groups to draw, got {len(flows)}; use broader ones.")
    flows *= 100
    top = float(np.abs(flows.to_numpy()).max()) or 1.0
    few = len(flows) <= 14
    with figure_style():
        axes = _grid(
            flows, ax, (-top if network.signed else 0.0, top), "{:.0f}".format if few else None,
            "% of the row's weight", aspect="auto",
        )  # fmt: skip
        axes.set_ylabel("focal industry")
        axes.set_xlabel("peers' industry")
        axes.set_title(title_of(network, network.section(period)[0]))
    return axes


def _grid(
    frame: pd.DataFrame,
    ax: Axes | None,
    limits: tuple[float, float],
    written: Any,
    label: str,
    **options: Any,
) -> Axes:
    """Draw a named matrix, ``written(value)`` in its cells."""
    side = max(3.5, min(8.0, 1.9 + 0.36 * len(frame)))
    axes = fresh_axes((side + 0.9, side)) if ax is None else ax
    colours = weight_colours(signed=limits[0] < 0)
    image = axes.imshow(frame.to_numpy(), cmap=colours, vmin=limits[0], vmax=limits[1], **options)
    if written is not None:
        for (i, j), value in np.ndenumerate(frame.to_numpy()):
            color = "white" if abs(value) > 0.57 * limits[1] else INK
            axes.text(
                j, i, written(value).replace("-", MINUS), ha="center", va="center", fontsize=8, color=color
            )
    axes.set_yticks(range(frame.shape[0]), [short_name(name) for name in frame.index])
    axes.set_xticks(range(frame.shape[1]), [short_name(name) for name in frame.columns], rotation=90)
    axes.tick_params(length=0)
    _bar(axes, image, label)
    return axes


def search_map(profile: pd.DataFrame, *, ax: Axes | None = None, title: str = "Search profile") -> Axes:
    """Draw M = W_Q W_K': blue where more of the row's characteristic seeks more of the column's, orange less.

    Parameters
    ----------
    profile : pandas.DataFrame
        Square, in standardised units: rows are characteristics of the focal firm, columns those of the peer.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.
    title : str
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
    if values.size == 0 or not np.isfinite(values).any():
        raise InputError(
            "profile: expected a matrix of characteristics with finite entries; there is nothing to draw."
        )
    top = float(np.nanmax(np.abs(values))) or 1.0
    written = "{:.2f}".format if len(profile) <= 12 else None
    with figure_style():
        axes = _grid(profile, ax, (-top, top), written, "score per standard deviation of each")
        axes.set_ylabel("characteristic of the focal firm")
        axes.set_xlabel("characteristic of the peer")
        axes.set_title(title)
    return axes
