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


def cumulative_gain(comparison: Comparison) -> Picture | None:
    """Draw the cumulative squared-error difference against the baseline (Goyal and Welch 2008).

    For each model the sum up to t of the baseline's mean squared error less the model's: a rising line is a
    model that predicts better than the baseline in those periods. None where only one period is tested.
    """
    losses = comparison.losses
    if len(losses) < 2:
        return None
    others = [name for name in comparison.names if name != comparison.baseline]
    lines = pd.DataFrame({name: losses[comparison.baseline] - losses[name] for name in others}).cumsum()
    shown, dropped = _legible(lines)
    caption = (
        f"Sum over the tested periods of the mean squared error of the baseline, {comparison.baseline}, less that of each "
        "model (Goyal and Welch 2008). A rising line: the model predicts better than the baseline there."
    )
    if dropped:
        caption += f" Off the scale, far below: {', '.join(dropped)}."
    description = f"Cumulative squared-error difference against {comparison.baseline}: " + "; ".join(
        f"{name} ends at {lines[name].iloc[-1]:.3g}" for name in others
    )
    return _time_picture(lines[shown], comparison, "cumulative squared-error gain", caption, description)


def rank_ic_over_time(comparison: Comparison) -> Picture | None:
    """Draw the rank correlation of each model by period; long series as a rolling mean of 12 periods."""
    ics = {name: comparison.rank_ics[name] for name in comparison.ordering}
    series = {name: ic.by_period for name, ic in ics.items() if ic.n_periods}
    if not series or len(comparison.periods) < 2:
        return None
    lines = pd.DataFrame(series).reindex(comparison.periods)
    caption = "Spearman correlation of prediction and outcome across the firms of each period."
    if len(lines) > 2 * _ROLLING:
        lines = lines.rolling(_ROLLING, min_periods=_ROLLING).mean()
        caption = caption[:-1] + f", mean of the last {_ROLLING} periods."
    caption += left_out(comparison)
    description = "Rank correlation over time: " + "; ".join(
        f"{name} mean {ic.mean:.3f}" for name, ic in ics.items() if ic.n_periods
    )
    return _time_picture(lines, comparison, "rank IC", caption, description)


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
    order = " Firms are ordered by the weight they are given in all, most first." if many else ""
    return Picture(
        picture,
        "Each row is a firm that looks; the stronger the colour of a cell, the more weight on that peer."
        + order,
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

    names = comparison.names
    with figure_style():
        figure = Figure(figsize=(5.8, 3.4))
        axes = figure.subplots()
        for name, found in sorted_by.items():
            means = found.returns.mean()
            axes.plot(
                means.index,
                means,
                color=PALETTE[names.index(name) % len(PALETTE)],
                linestyle="-" if _looks(comparison, name) else (0, (3, 2)),
                marker="o",
                label=_short(name),
            )
        axes.set_xlabel("quantile of the prediction, 1 = lowest")
        axes.set_ylabel(f"mean {_short(comparison.outcome)}")
        axes.set_xticks(list(means.index))
        _legend(axes)
        ends = "; ".join(f"{name} spread {found.mean:.4g}" for name, found in sorted_by.items())
        picture = svg(figure, description=f"Mean outcome by quantile of the prediction: {ends}")
    return Picture(
        picture,
        "A line that rises: firms with higher predictions have higher outcomes. Dashed: models that look to no peers.",
    )


def _looks(comparison: Comparison, name: str) -> bool:
    return next(model.looks_to_peers for model in comparison.models if model.name == name)


def _legend(axes: Axes) -> None:
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, frameon=False, fontsize=8.5, borderaxespad=0.2
    )


def _legible(lines: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Split the lines into those to draw and those so far below that they would flatten the rest."""
    reach = lines.abs().max()
    limit = 8 * float(reach.median())
    names = [str(name) for name in lines]
    dropped = [name for name in names if reach[name] > limit > 0 and lines[name].iloc[-1] < 0]
    return [name for name in names if name not in dropped], dropped


def _time_picture(
    lines: pd.DataFrame, comparison: Comparison, label: str, caption: str, description: str
) -> Picture:
    """Draw one line a model, in its own colour in all pictures; models that look to no peers are dashed."""
    from matplotlib.figure import Figure

    names = comparison.names
    controls = {model.name for model in comparison.models if not model.looks_to_peers}
    with figure_style():
        figure = Figure(figsize=(5.8, 3.4))
        axes = figure.subplots()
        at = np.arange(len(lines))
        lines, label = _scaled(lines, label)
        for name in lines:
            colour = PALETTE[names.index(str(name)) % len(PALETTE)]
            dashes = (0, (3, 2)) if str(name) in controls else "-"
            marker = "o" if len(lines) <= 20 else None
            axes.plot(
                at,
                lines[name],
                color=colour,
                linestyle=dashes,
                marker=marker,
                markersize=4,
                label=_short(name),
            )
        axes.axhline(0, color="#8b9096", linewidth=0.8)
        axes.set_ylabel(label)
        _name_periods(axes, lines.index)
        _legend(axes)
        return Picture(
            svg(figure, description=description), caption + " Dashed: models that look to no peers."
        )


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


def _name_periods(axes: Axes, periods: pd.Index) -> None:
    step = -(-len(periods) // 8)
    at = np.arange(0, len(periods), step)
    axes.set_xticks(at, [_axis_label(period) for period in periods[::step]])
    axes.set_xlim(-0.4, len(periods) - 0.6)


def _axis_label(period: Any) -> str:
    return period.strftime("%Y-%m") if isinstance(period, pd.Timestamp) else show_label(period)
