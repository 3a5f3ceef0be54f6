"""The look of every figure, and its way into a page: inline SVG that follows the page's light or dark."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from peerattn.render.escape import escape

if TYPE_CHECKING:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure as MatplotlibFigure

INK = "#23262b"
"""Colour of text and axes; in a page it becomes the page's own text colour."""

PALETTE = ("#3478b8", "#d07a26", "#3f9470", "#b5547d", "#7f6bb5", "#8a8440", "#5f8fa3", "#a5673f")
"""Colours of series, in order: distinct on white and on near-black, and by colour-blind readers."""

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
"""The system's own sans serif, as a CSS font stack."""

_SVG: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "peerattn"}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw in this package's style inside the ``with`` block; outside nothing changes.

    Yields
    ------
    None
        Matplotlib's settings are restored at the end.

    Examples
    --------
    >>> import matplotlib
    >>> before = matplotlib.rcParams["axes.spines.top"]
    >>> with figure_style():
    ...     inside = matplotlib.rcParams["axes.spines.top"]
    >>> (inside, matplotlib.rcParams["axes.spines.top"] == before)
    (False, True)
    """
    from matplotlib import style
    from matplotlib.rcsetup import cycler

    colours = dict.fromkeys(["text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"], INK)
    with as_file(files("peerattn.render") / "figure.mplstyle") as path:
        with style.context([path, _SVG | colours | {"axes.prop_cycle": cycler(color=PALETTE)}]):
            yield


def weight_colours(*, signed: bool = False) -> LinearSegmentedColormap:
    """Return the colour map of weights: from nothing (the paper shows through) to full colour.

    Parameters
    ----------
    signed : bool, default False
        Two-sided: negative weights in orange, positive in blue, zero transparent.

    Returns
    -------
    matplotlib.colors.LinearSegmentedColormap
        Legible on a light and on a dark page, because zero has no colour of its own.

    Examples
    --------
    >>> float(weight_colours()(0.0)[3]), float(weight_colours()(1.0)[3])
    (0.0, 1.0)
    """
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    blue = to_rgb("#2177c9")
    orange = to_rgb("#d2691e")
    # zero is transparent, so that a page's own colour shows through
    stops = [(0.0, (*blue, 0.0)), (1.0, (*blue, 1.0))]
    if signed:
        stops = [(0.0, (*orange, 1.0)), (0.5, (*orange, 0.0)), (0.5, (*blue, 0.0)), (1.0, (*blue, 1.0))]
    return LinearSegmentedColormap.from_list("peerattn-weights", stops)


def svg(figure: MatplotlibFigure, *, description: str = "") -> str:
    """Return a figure as inline SVG that takes the text colour and font of the page around it.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn under :func:`figure_style`.
    description : str, optional
        What the figure shows, for readers who cannot see it.

    Returns
    -------
    str
        An ``svg`` element without a background. The same figure gives the same text, and the ids of
        two figures in one page do not clash.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> with figure_style():
    ...     drawing = Figure(figsize=(2, 1))
    ...     _ = drawing.subplots().plot([1, 2])
    ...     text = svg(drawing, description="A line")
    >>> text.startswith("<svg"), "A line" in text, "currentColor" in text
    (True, True, True)
    """
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context(_SVG), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # text stays text: the page's fonts show it
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = text.replace(INK, "currentColor")
    text = re.sub(r"(font: (?:[\w. ]*?)[\d.]+px )[^;\"]*", lambda m: m.group(1) + SANS, text)
    prefix = "f" + hashlib.sha256(text.encode()).hexdigest()[:8] + "-"
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{prefix}", text)
    label = 'role="img"' + f' aria-label="{escape(description)}"' * bool(description)
    head, rest = text.replace("<svg ", f"<svg {label} ", 1).split(">", 1)
    # the size is the page's, at most the drawn width, so that a phone shows the whole figure
    [width] = re.findall(r'width="([\d.]+)pt"', head)
    head = re.sub(r'\s(?:width|height)="[\d.]+pt"', "", head)
    return f'{head} style="max-width:{float(width) * 4 / 3:.0f}px;width:100%;height:auto">{rest}'
