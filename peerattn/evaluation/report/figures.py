"""The pictures of a comparison report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.evaluation.claims import WithClaims
from peerattn.evaluation.measures.portfolios import QuantilePortfolios
from peerattn.evaluation.report.words import number
from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork, search_map, ties_plot
from peerattn.network.measures.comparison import stability_sentence
from peerattn.render import PALETTE, Picture, figure_style, figure_text, show_label, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MOST_SHOWN = 12  # characteristics of a search profile
_DRAWN_FIRMS = 36  # of a network in the opening
_MOST_LINES = 5  # of a chart
_NAME = 36  # characters
_DASHED = " Dashed: models that use no peers."


def picture(draw: Callable[..., object], height: float, description: str, caption: str, title: str = "") -> Picture:
    """Return a picture of the width of the page, drawn on one pair of axes."""
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(5.8, height))
        axes = figure.subplots()
        draw(ax=axes)
        if title:
            axes.set_title(title)
        return Picture(svg(figure, description=description), caption)


def cumulative_gain(compared: WithClaims) -> Picture | None:
    """Draw the cumulative squared-error difference against the baseline (Welch and Goyal 2008).

    For each model the sum up to t of the baseline's mean squared error minus the model's: a rising line is a
    model that predicts better than the baseline in those periods. None where only one period is tested.
    """
    losses = compared.losses
    baseline = compared.baseline
    if len(losses) < 2:
        return None
    names = _drawn_models(compared, list(losses.columns.drop(baseline)))
    lines = losses[names].rsub(losses[baseline], axis=0).cumsum()

    def draw(ax: Axes) -> None:
        # markers of many periods would run into each other
        marker = "o" if len(lines) <= 20 else ""
        _draw(ax, lines, compared, np.arange(len(lines)), marker=marker, markersize=4)
        ax.axhline(0, color="#8b9096", linewidth=0.8)
        ax.set_ylabel("cumulative squared-error gain")
        at = np.arange(0, len(lines), -(-len(lines) // 8))
        labels = list(map(show_label, lines.index[at]))
        if isinstance(lines.index, pd.DatetimeIndex):
            labels = [label[:7] for label in labels]  # the month is enough
        ax.set_xticks(at, labels)
        ax.set_xlim(-0.4, len(lines) - 0.6)

    ends = "; ".join(f"{name} ends at {lines[name].iloc[-1]:.3g}" for name in lines)
    what = f"Cumulative mean squared error of the baseline, {baseline}, minus that of each model (Welch and Goyal 2008)"
    caption = f"{what}. A rising line: the model predicts better than the baseline there.{_DASHED}"
    return picture(draw, 3.4, f"Cumulative squared-error difference against {baseline}: {ends}", caption)


def _by_interest(compared: WithClaims) -> list[str]:
    """Return all models: the stack with and without peers, then peer models and others by their error."""
    by_error = list(compared.scores["rmse"].sort_values().index)
    stacks = [] if compared.stack is None else [compared.stack, compared.without_name]
    peer_models = [name for name in by_error if name in compared.peer_models]
    return list(dict.fromkeys([*stacks, *peer_models, *by_error]))


def _drawn_models(compared: WithClaims, names: Sequence[str]) -> list[str]:
    """Return at most five of these models, those of most interest."""
    drawn = [name for name in _by_interest(compared) if name in names][:_MOST_LINES]
    return [name for name in names if name in drawn]


def opening_pictures(compared: WithClaims, groups: pd.Series | None) -> list[Picture]:
    """Return the decomposition, and the network."""
    pictures = []
    if compared.claims.steps:
        pictures.append(steps_picture(compared))
    if (name := compared.claims.network) is not None:
        with suppress(InputError):  # firms that have their own past only
            pictures.append(ties_picture(compared.networks[name], name, groups))
    return pictures


def steps_picture(compared: WithClaims) -> Picture:
    """Draw held-out R² after each step of information, with the interval of the step's gain."""
    steps = compared.claims.steps
    # one bad step must not shrink the others to nothing
    floor = min(0.0, max(min(step.r2 for step in steps), -0.2))

    def draw(ax: Axes) -> None:
        for row, step in enumerate(steps):
            colour = {"peers": PALETTE[0]}.get(step.name, PALETTE[1])
            ax.barh(row, max(step.r2, floor), color=colour, height=0.5, alpha=0.85)
            if step.gain is not None and np.isfinite(step.gain.low):
                ends = step.gain.r2_against + np.array([step.gain.low, step.gain.high])
                ax.plot(np.clip(ends, floor, 1.0), [row, row], color="#30343a", linewidth=1.3)
            place: Any = ("axes fraction", "data")
            ax.annotate(number(step.r2), (1.01, row), xycoords=place, va="center", fontsize=9)
        ax.set_yticks(range(len(steps)), [step.name for step in steps])
        ax.set_ylim(len(steps) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x")
        ax.locator_params(axis="x", nbins=5)  # more would run into each other
        ax.set_xlabel(f"held-out R² of {figure_text(compared.outcome, _NAME)}")

    wording = "; ".join(f"{step.name} {step.r2:.3f}" for step in steps)
    caption = "R² of one stack after each group of information. Lines: 95% interval of the gain over the step before."
    return picture(draw, 0.55 * len(steps) + 0.9, f"Held-out R² after each group of information: {wording}", caption)


def ties_picture(network: PeerNetwork, name: str, groups: pd.Series | None) -> Picture:
    """Draw the firms with the largest incoming weight and their strongest ties."""
    many = len(network.reference) > _DRAWN_FIRMS
    which = f"The {_DRAWN_FIRMS} firms of the strongest ties" if many else "The firms"
    words = f"{which}; arrows lead from each firm to its two strongest peers among them. {stability_sentence(network)}"
    draw = partial(ties_plot, network, firms=_DRAWN_FIRMS, groups=groups)
    wording = f"The strongest ties of {name} among the firms with the largest incoming weight"
    return picture(draw, 4.4, wording, words.strip(), f"{figure_text(name, _NAME)}, {show_label(network.periods[0])}")


def weights_picture(network: PeerNetwork, name: str, groups: pd.Series | None) -> Picture:
    """Draw the weights of the network's only period as a heat map, by group where firms are many."""
    words = "Each row is a firm; the stronger the colour of a cell, the more weight on that peer."
    draw = network.heat_map
    many = len(network.firms) > 40
    if many and groups is not None and network.firms.equals(network.reference):
        draw = partial(draw, order=groups)
        words += f" Firms are ordered by {groups.name}, in each the largest incoming weight first."
    elif many:
        words += " Firms that give each other weight are side by side."
    if not network.section()[1].column_sums().all():
        words += " An empty column: no firm puts weight on it, in a nowcast because its outcome is unknown."
    title = f"{figure_text(name, _NAME)}, {show_label(network.periods[0])}"
    wording = f"Heat map of the weights of {name}: a row for each firm, a column for each peer"
    return picture(draw, 5.1, wording, words, title)


def profile_picture(matrix: pd.DataFrame, name: str) -> Picture:
    """Draw what a head searches for: a characteristic of the firm by a characteristic of its peer."""
    # more than a dozen cannot be read
    strongest = matrix.abs().max(axis=1).add(matrix.abs().max(axis=0)).nlargest(_MOST_SHOWN).index
    displayed = [column for column in matrix.columns if column in strongest]
    draw = partial(search_map, matrix.loc[displayed, displayed], title=f"Search profile, {figure_text(name, _NAME)}")
    wording = f"Search profile of {name}: rows are the focal firm"
    words = "Rows: the focal firm; columns: the peer."
    if left := len(matrix) - len(displayed):
        words += f" The {left} weakest characteristics are not drawn."
    return picture(draw, 5.1, wording, words)


def portfolios_picture(compared: WithClaims, sorted_by: dict[str, QuantilePortfolios]) -> Picture:
    """Draw the mean outcome of each quantile of the prediction, a line for each model."""
    names = _drawn_models(compared, list(sorted_by))
    means = pd.DataFrame({name: sorted_by[name].returns.mean() for name in names})

    def draw(ax: Axes) -> None:
        _draw(ax, means, compared, list(means.index), marker="o")
        ax.set_xlabel("quantile of the prediction, 1 = lowest")
        ax.set_ylabel(f"mean {figure_text(compared.outcome, _NAME)}")
        ax.set_xticks(list(means.index))

    ends = "; ".join(f"{name} spread {found.mean:.4g}" for name, found in sorted_by.items())
    caption = f"A line that rises: firms with higher predictions have higher outcomes.{_DASHED}"
    return picture(draw, 3.4, f"Mean outcome by quantile of the prediction: {ends}", caption)


def _draw(ax: Axes, lines: pd.DataFrame, compared: WithClaims, at: Any, **style: Any) -> None:
    """Draw one line per model, in its own colour in all pictures; models that use no peers are dashed."""
    solid: dict[str, Any] = dict.fromkeys(compared.peer_models, "-")
    order = _by_interest(compared)  # what is drawn comes first in it, so that no two lines of a picture share a colour
    for name in map(str, lines):
        colour = PALETTE[order.index(name) % len(PALETTE)]
        dashes = solid.get(name, (0, (3, 2)))
        ax.plot(at, lines[name], color=colour, linestyle=dashes, label=figure_text(name, _NAME), **style)
    ax.legend(ncols=2, frameon=False, fontsize=8.5, loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)
