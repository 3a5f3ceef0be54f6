"""The search profile as a picture: which characteristic of the firm that looks seeks which one of its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.figures.axes import fresh_axes, short_name
from peerattn.render import INK, figure_style, weight_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def search_map(profile: pd.DataFrame, *, ax: Axes | None = None, title: str = "Search profile") -> Axes:
    """Draw M = W_Q W_K': blue where more of the row's characteristic seeks more of the column's, orange less.

    Parameters
    ----------
    profile : pandas.DataFrame
        Square, in standardised units: rows are characteristics of the firm that looks, columns those of the firm looked to.
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
    'of the firm that is looked to'
    """
    values = profile.to_numpy(dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).any():
        raise InputError("profile: expected characteristics by characteristics, got nothing to draw.")
    top = float(np.nanmax(np.abs(values))) or 1.0
    side = max(3.4, min(8.0, 2.0 + 0.36 * len(profile)))
    with figure_style():
        axes = fresh_axes((side + 0.9, side)) if ax is None else ax
        image = axes.imshow(values, cmap=weight_colours(signed=True), vmin=-top, vmax=top)
        if len(profile) <= 12:
            for (i, j), value in np.ndenumerate(values):
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8,
                          color="white" if abs(value) > 0.6 * top else INK)  # fmt: skip
        axes.set_yticks(range(len(profile)), [short_name(str(name)) for name in profile.index])
        axes.set_xticks(
            range(profile.shape[1]), [short_name(str(name)) for name in profile.columns], rotation=90
        )
        axes.tick_params(length=0)
        bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label("score per standard deviation of each")
        for spine in axes.spines.values():
            spine.set_visible(True)
        axes.set_ylabel("of the firm that looks")
        axes.set_xlabel("of the firm that is looked to")
        axes.set_title(title)
    return axes
