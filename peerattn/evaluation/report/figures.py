"""The pictures of a comparison report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.render import PALETTE, Picture, figure_style, show_label, svg, weight_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerattn.evaluation.comparison import Comparison
    from peerattn.evaluation.measures.portfolios import QuantilePortfolios
    from peerattn.network import PeerNetwork

_MOST_SHOWN = 12  # characteristics of a search profile
_ROLLING = 12  # periods; longer rank IC series than twice this are smoothed
_DRAWN_FIRMS = 36  # of a network in the opening
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


def r2_picture(comparison: Comparison, frame: pd.DataFrame, against: str, how: str) -> Picture:
    """Draw R² of every model, best first, with the interval of its difference to the best control."""
    from matplotlib.figure import Figure

    frame = frame.sort_values("r2", ascending=False)
    line, best = float(frame["r2"][against]), float(frame["r2"].iloc[0])
    floor = min(0.0, line) - max(0.5 * (best - min(0.0, line)), 0.02)
    with figure_style():
        figure = Figure(figsize=(5.8, 0.36 * len(frame) + 0.9))
        axes = figure.subplots()
        axes.axvline(line, color=PALETTE[1], linewidth=0.9, linestyle=(0, (4, 3)))
        for row, (name, r2, low, high) in enumerate(frame.itertuples()):
            colour = PALETTE[0] if name in comparison.peer_models else PALETTE[1]
            if r2 < floor:
                axes.plot(floor, row, "<", color=colour, markersize=5)
            else:
                axes.plot([max(low, floor), high], [row, row], color=colour, linewidth=1.4, alpha=0.8)
                axes.plot(r2, row, "o", color=colour, markersize=6)
            axes.annotate(
                f"{r2:.2f}".replace("-", "−"),
                (1.01, row),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=9,
            )
        axes.set_yticks(range(len(frame)), [_short(name) for name in frame.index])
        axes.set_ylim(len(frame) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.set_xlabel(f"out-of-sample R² of {_short(comparison.outcome)}")
        values = "; ".join(f"{name} {value:.3f}" for name, value in frame["r2"].items())
        picture = svg(figure, description=f"Out-of-sample R² of each model: {values}")
    caption = "R² against the prevailing mean. Blue: peer models. Orange: controls."
    if how:
        caption += (
            f" Bars: 95% intervals of the difference to the best control, {against} (dashed), {how}: a bar that crosses the "
            "line may be no better and no worse."
        )
    return Picture(picture, caption)


def ties_picture(network: PeerNetwork, name: str, groups: pd.Series | None) -> Picture:
    """Draw the firms most looked to and their strongest ties."""
    from matplotlib.figure import Figure

    from peerattn.network import ties_plot
    from peerattn.network.measures.comparison import stability_sentence

    with figure_style():
        figure = Figure(figsize=(5.9, 4.4))
        axes = ties_plot(network, firms=_DRAWN_FIRMS, groups=groups, ax=figure.subplots())
        axes.set_title(f"{_short(name)}, {show_label(network.periods[0])}")
        picture = svg(figure, description=f"The strongest ties of {name} among the firms most looked to")
    many = len(network.reference) > _DRAWN_FIRMS
    which = f"The {_DRAWN_FIRMS} firms of the strongest ties" if many else "The firms"
    words = f"{which}; arrows lead from each firm to its two strongest peers among them. {stability_sentence(network)}"
    return Picture(picture, words.strip())


def truth_picture(networks: dict[str, PeerNetwork], truth: PeerNetwork, name: str) -> Picture:
    """Draw the true network, the one found, and two others beside them; rows look, columns are looked to."""
    from matplotlib.colors import PowerNorm
    from matplotlib.figure import Figure

    from peerattn.network.figures.matrices import by_ties
    from peerattn.network.measures.comparison import network_correlation

    true = truth.matrix()
    order = true.index[by_ties(true.to_numpy())]
    shown = {"Truth": truth} | {name: networks[name]} | networks
    panels = list(shown.items())[:4]
    with figure_style():
        figure = Figure(figsize=(6.6, 7.0))
        for axes, (title, network) in zip(figure.subplots(2, 2).flat, panels):
            weights = network.matrix().reindex(index=order, columns=order, fill_value=0.0).abs()
            top = float(np.quantile(true.to_numpy(), 0.999))
            axes.imshow(
                weights,
                cmap=weight_colours(),
                norm=PowerNorm(0.5, 0.0, top, clip=True),
                interpolation="nearest",
            )
            near = round(network_correlation(network, truth), 2) + 0.0  # no negative zero
            found = "" if network is truth else f": {near:.2f}".replace("-", "−")
            axes.set_title(f"{_short(title)}{found}")
            axes.set(xticks=[], yticks=[], xlabel="peer", ylabel="firm")
            for spine in axes.spines.values():
                spine.set_visible(True)
        for axes in figure.axes[len(panels) :]:
            axes.remove()
        picture = svg(
            figure, description=f"The true weights beside those of {', '.join(n for n, _ in panels[1:])}"
        )
    when = show_label(truth.periods[0])
    caption = f"Weights in {when}: rows look, columns are looked to, all in one order. Numbers: correlation with the truth."
    return Picture(picture, caption)


def weights_picture(network: PeerNetwork, name: str, groups: pd.Series | None) -> Picture:
    """Draw the weights of the network's only period as a heat map, by group where firms are many."""
    from matplotlib.figure import Figure

    many = len(network.firms) > 40
    grouped = many and groups is not None and network.firms.equals(network.reference)
    with figure_style():
        figure = Figure(figsize=(5.8, 5.1))
        axes = network.heat_map(ax=figure.subplots(), order=groups if grouped else None)
        axes.set_title(f"{_short(name)}, {show_label(network.periods[0])}")
        picture = svg(
            figure, description=f"Heat map of the weights of {name}: rows look, columns are looked to"
        )
    order = " Firms that give each other weight stand side by side." if many else ""
    if grouped and groups is not None:
        order = f" Firms stand by {groups.name}, in each the most looked-to first."
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
