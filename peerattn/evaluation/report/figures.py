"""The pictures of a comparison report."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.evaluation.claims import Claims
from peerattn.evaluation.compared import Compared
from peerattn.evaluation.measures.portfolios import QuantilePortfolios
from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork
from peerattn.network.measures.comparison import network_correlation, stability_sentence
from peerattn.render import PALETTE, Picture, figure_style, show_label, svg, weight_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_SHOWN = 12  # characteristics of a search profile
_DRAWN_FIRMS = 36  # of a network in the opening
_DASHED = " Dashed: models that use no peers."


def cumulative_gain(compared: Compared) -> Picture | None:
    """Draw the cumulative squared-error difference against the baseline (Goyal and Welch 2008).

    For each model the sum up to t of the baseline's mean squared error less the model's: a rising line is a
    model that predicts better than the baseline in those periods. None where only one period is tested.
    """
    losses, baseline = compared.losses, compared.baseline
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
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(5.8, 3.4))
        axes = figure.subplots()
        scaled, label = _scaled(lines[shown], "cumulative squared-error gain")
        marker = "o" if len(scaled) <= 20 else None
        _draw(axes, scaled, compared, np.arange(len(scaled)), marker=marker, markersize=4)
        axes.axhline(0, color="#8b9096", linewidth=0.8)
        axes.set_ylabel(label)
        at = np.arange(0, len(scaled), -(-len(scaled) // 8))
        axes.set_xticks(at, [_axis_label(period) for period in scaled.index[at]])
        axes.set_xlim(-0.4, len(scaled) - 0.6)
        return Picture(svg(figure, description=description), caption + _DASHED)


def left_out(compared: Compared) -> str:
    """Say which models are not shown where firms are put in order."""
    names = [name for name in compared.names if name not in compared.ordering]
    if not names:
        return ""
    return f" Left out: {', '.join(names)}: such means differ between a group's firms only by the own outcome they lack."


def opening_pictures(compared: Compared, claims: Claims, groups: pd.Series | None) -> list[Picture]:
    """Return the decomposition, and the network, beside the true one where that is known."""
    pictures = [steps_picture(compared, claims)] if claims.steps else []
    truth = compared.panel.truth
    if claims.network is None:
        return pictures
    if truth is not None:
        return [*pictures, truth_picture(compared.networks, truth, claims.network)]
    with suppress(InputError):  # firms that have their own past only
        pictures.append(ties_picture(compared.networks[claims.network], claims.network, groups))
    return pictures


def steps_picture(compared: Compared, claims: Claims) -> Picture:
    """Draw held-out R² after each step of information, with the interval of the step's gain."""
    from matplotlib.figure import Figure

    steps = claims.steps
    floor = min(0.0, max(min(step.r2 for step in steps), -0.2))
    with figure_style():
        figure = Figure(figsize=(5.8, 0.55 * len(steps) + 0.9))
        axes = figure.subplots()
        for row, step in enumerate(steps):
            colour = PALETTE[0] if step.name == "peers" else PALETTE[1]
            axes.barh(row, max(step.r2, floor), color=colour, height=0.5, alpha=0.85)
            if step.gain is not None and np.isfinite(step.gain.low):
                ends = np.clip(
                    [step.gain.r2_against + step.gain.low, step.gain.r2_against + step.gain.high], floor, 1.0
                )
                axes.plot(ends, [row, row], color="#30343a", linewidth=1.3)
            value = f"{step.r2:.3f}".replace("-", "−")
            place: Any = ("axes fraction", "data")
            axes.annotate(value, (1.01, row), xycoords=place, va="center", fontsize=9)
        axes.set_yticks(range(len(steps)), [step.name for step in steps])
        axes.set_ylim(len(steps) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.set_xlabel(f"held-out R² of {_short(compared.outcome)}")
        said = "; ".join(f"{step.name} {step.r2:.3f} ({step.model})" for step in steps)
        picture = svg(figure, description=f"Held-out R² by what may be read: {said}")
    caption = "R² of the best model that reads no more than this. Lines: 95% interval of the gain over the step before."
    return Picture(picture, caption)


def firms_picture(frame: pd.DataFrame, most: int = 12) -> Picture:
    """Draw the firms that gain most and least, with their intervals."""
    from matplotlib.figure import Figure

    shown = frame if len(frame) <= 2 * most else pd.concat([frame.head(most), frame.tail(most)])
    at = np.arange(len(shown))
    reach = float(shown["gain"].abs().max()) or 1.0
    with figure_style():
        figure = Figure(figsize=(5.8, 0.2 * len(shown) + 0.9))
        axes = figure.subplots()
        axes.axvline(0, color="#8b9096", linewidth=0.8)
        axes.hlines(
            at,
            shown["low"].clip(-2 * reach),
            shown["high"].clip(upper=2 * reach),
            color=PALETTE[1],
            linewidth=1.1,
        )
        axes.plot(shown["gain"], at, "o", color=PALETTE[0], markersize=4)
        axes.set_yticks(at, [_short(show_label(firm)) for firm in shown.index], fontsize=7.5)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlabel("squared error saved, over that of the prevailing mean")
        ends = f"from {show_label(shown.index[0])} to {show_label(shown.index[-1])}"
        picture = svg(figure, description=f"Gain by firm, {ends}")
    which = (
        f"The {most} firms that gain most and the {most} that gain least"
        if len(frame) > 2 * most
        else "All firms"
    )
    return Picture(
        picture,
        f"{which}. Lines: 95% intervals over the firm's periods, cut where they are far longer than the gains.",
    )


def ties_picture(network: PeerNetwork, name: str, groups: pd.Series | None) -> Picture:
    """Draw the firms most looked to and their strongest ties."""
    from matplotlib.figure import Figure

    from peerattn.network import ties_plot

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


def portfolios_picture(compared: Compared, sorted_by: dict[str, QuantilePortfolios]) -> Picture:
    """Draw the mean outcome of each quantile of the prediction, a line for each model."""
    from matplotlib.figure import Figure

    means = pd.DataFrame({name: found.returns.mean() for name, found in sorted_by.items()})
    with figure_style():
        figure = Figure(figsize=(5.8, 3.4))
        axes = figure.subplots()
        _draw(axes, means, compared, list(means.index), marker="o")
        axes.set_xlabel("quantile of the prediction, 1 = lowest")
        axes.set_ylabel(f"mean {_short(compared.outcome)}")
        axes.set_xticks(list(means.index))
        ends = "; ".join(f"{name} spread {found.mean:.4g}" for name, found in sorted_by.items())
        picture = svg(figure, description=f"Mean outcome by quantile of the prediction: {ends}")
    return Picture(
        picture, f"A line that rises: firms with higher predictions have higher outcomes.{_DASHED}"
    )


def _draw(axes: Axes, lines: pd.DataFrame, compared: Compared, at: Any, **style: Any) -> None:
    """Draw one line per model, in its own colour in all pictures; models that use no peers are dashed."""
    for name in map(str, lines):
        colour = PALETTE[compared.names.index(name) % len(PALETTE)]
        dashes: Any = "-" if name in compared.peer_models else (0, (3, 2))
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
