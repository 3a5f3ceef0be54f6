"""The pictures of a comparison report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.render import PALETTE, Picture, figure_style, show_label, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerattn.evaluation.comparison import Comparison
    from peerattn.evaluation.measures.portfolios import QuantilePortfolios
    from peerattn.network import PeerNetwork

_MOST_SHOWN = 12  # characteristics of a search profile
_ROLLING = 12  # periods; longer rank IC series than twice this are smoothed
_DASHED = " Dashed: models that use no peers."


def cumulative_gain(comparison: Comparison) -> Picture | None:
    """Draw the cumulative squared-error difference against the baseline (Goyal and Welch 2008).

    For each model the sum up to t of the baseline's mean squared error less the model's: a rising line is a
    model that predicts better than the baseline in those periods. None where only one period is tested.
    """
    losses, baseline = comparison.losses, comparison.baseline
    if len(losses) < 2:
        return None
    lines = losses.drop(columns=baseline).rsub(losses[baseline], axis=0).cumsum()
    shown, dropped = _legible(lines)
    caption = (
        f"Sum over the tested periods of the mean squared error of the baseline, {baseline}, less that of each model (Goyal "
        "and Welch 2008). A rising line: the model predicts better than the baseline there."
    )
    if dropped:
        caption += f" Off the scale, far below: {', '.join(dropped)}."
    ends = "; ".join(f"{name} ends at {lines[name].iloc[-1]:.3g}" for name in lines)
    description = f"Cumulative squared-error difference against {baseline}: {ends}"
    return _over_time(lines[shown], comparison, "cumulative squared-error gain", caption, description)


def rank_ic_over_time(comparison: Comparison) -> Picture | None:
    """Draw the rank correlation of each model by period; long series as a rolling mean of 12 periods."""
    ics = {name: ic for name in comparison.ordering if (ic := comparison.rank_ics[name]).n_periods}
    if not ics or len(comparison.periods) < 2:
        return None
    lines = pd.DataFrame({name: ic.by_period for name, ic in ics.items()}).reindex(comparison.periods)
    mean = ""
    if len(lines) > 2 * _ROLLING:
        lines = lines.rolling(_ROLLING, min_periods=_ROLLING).mean()
        mean = f", mean of the last {_ROLLING} periods"
    caption = f"Spearman correlation of prediction and outcome across the firms of each period{mean}."
    means = "; ".join(f"{name} mean {ic.mean:.3f}" for name, ic in ics.items())
    caption += left_out(comparison)
    return _over_time(lines, comparison, "rank IC", caption, f"Rank correlation over time: {means}")


def left_out(comparison: Comparison) -> str:
    """Say which models are not shown where firms are put in order."""
    names = [model.name for model in comparison.models if not model.orders_firms]
    if not names:
        return ""
    return f" Left out: {', '.join(names)}, which differs between a period's firms only by the own outcome that it lacks."


def weights_picture(network: PeerNetwork, name: str) -> Picture:
    """Draw the weights of the network's only period as a heat map, under the name of its model."""
    from matplotlib.figure import Figure

    many = len(network.firms) > 40
    with figure_style():
        figure = Figure(figsize=(5.8, 5.1))
        axes = network.heat_map(ax=figure.subplots(), order="in-strength" if many else None)
        axes.set_title(f"{_short(name)}, {show_label(network.periods[0])}")
        picture = svg(
            figure, description=f"Heat map of the weights of {name}: rows look, columns are looked to"
        )
    order = " Firms are ordered by the total weight they are given, largest first." if many else ""
    return Picture(
        picture,
        f"Each row is a firm; the stronger the colour of a cell, the more weight on that peer.{order}",
    )


def profile_picture(matrix: pd.DataFrame, name: str) -> Picture:
    """Draw what a head searches for: a characteristic of the firm by a characteristic of its peer."""
    from matplotlib.figure import Figure

    from peerattn.network import search_map

    strongest = matrix.abs().max(axis=1).add(matrix.abs().max(axis=0)).nlargest(_MOST_SHOWN).index
    shown = [column for column in matrix.columns if column in strongest]
    with figure_style():
        figure = Figure(figsize=(5.8, 5.1))
        search_map(matrix.loc[shown, shown], ax=figure.subplots(), title=f"Search profile, {_short(name)}")
        picture = svg(figure, description=f"Search profile of {name}: rows are the firm that looks")
    left = len(matrix) - len(shown)
    rest = f" The {left} weakest characteristics are not drawn." if left else ""
    return Picture(picture, f"Rows: the firm that looks; columns: the firm looked to.{rest}")


def portfolios_picture(comparison: Comparison, sorted_by: dict[str, QuantilePortfolios]) -> Picture:
    """Draw the mean outcome of each quantile of the prediction, a line for each model."""
    from matplotlib.figure import Figure

    means = pd.DataFrame({name: found.returns.mean() for name, found in sorted_by.items()})
    with figure_style():
        figure = Figure(figsize=(5.8, 3.4))
        axes = figure.subplots()
        _draw(axes, means, comparison, list(means.index), marker="o")
        axes.set_xlabel("quantile of the prediction, 1 = lowest")
        axes.set_ylabel(f"mean {_short(comparison.outcome)}")
        axes.set_xticks(list(means.index))
        ends = "; ".join(f"{name} spread {found.mean:.4g}" for name, found in sorted_by.items())
        picture = svg(figure, description=f"Mean outcome by quantile of the prediction: {ends}")
    return Picture(
        picture, f"A line that rises: firms with higher predictions have higher outcomes.{_DASHED}"
    )


def _over_time(
    lines: pd.DataFrame, comparison: Comparison, label: str, caption: str, description: str
) -> Picture:
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(5.8, 3.4))
        axes = figure.subplots()
        lines, label = _scaled(lines, label)
        marker = "o" if len(lines) <= 20 else None
        _draw(axes, lines, comparison, np.arange(len(lines)), marker=marker, markersize=4)
        axes.axhline(0, color="#8b9096", linewidth=0.8)
        axes.set_ylabel(label)
        at = np.arange(0, len(lines), -(-len(lines) // 8))
        axes.set_xticks(at, [_axis_label(period) for period in lines.index[at]])
        axes.set_xlim(-0.4, len(lines) - 0.6)
        return Picture(svg(figure, description=description), caption + _DASHED)


def _draw(axes: Axes, lines: pd.DataFrame, comparison: Comparison, at: Any, **style: Any) -> None:
    """Draw one line per model, in its own colour in all pictures; models that use no peers are dashed."""
    for name in map(str, lines):
        colour = PALETTE[comparison.names.index(name) % len(PALETTE)]
        dashes: Any = "-" if name in comparison.peer_models else (0, (3, 2))
        axes.plot(at, lines[name], color=colour, linestyle=dashes, label=_short(name), **style)
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "borderaxespad": 0.2}
    axes.legend(ncols=2, frameon=False, fontsize=8.5, **place)


def _legible(lines: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Split the lines into those to draw and those so far below that they would flatten the rest."""
    reach = lines.abs().max()
    limit = 8 * float(reach.median())
    names = [str(name) for name in lines]
    dropped = [name for name in names if reach[name] > limit > 0 and lines[name].iloc[-1] < 0]
    return [name for name in names if name not in dropped], dropped


def _scaled(lines: pd.DataFrame, label: str) -> tuple[pd.DataFrame, str]:
    """Take a power of ten out of numbers too large or too small for an axis."""
    reach = float(np.nanmax(np.abs(lines.to_numpy()), initial=0.0))
    power = int(np.floor(np.log10(reach))) if reach > 0 else 0
    if -3 < power < 4:
        return lines, label
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return lines / 10.0**power, f"{label} (× 10{raised})"


def _short(name: Any) -> str:
    text = str(name).replace("$", r"\$")
    return text if len(text) <= 36 else text[:35] + "…"


def _axis_label(period: Any) -> str:
    return period.strftime("%Y-%m") if isinstance(period, pd.Timestamp) else show_label(period)
