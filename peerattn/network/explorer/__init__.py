"""The explorer: a network as one HTML file that opens offline."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from importlib.resources import files
from pathlib import Path

import pandas as pd

from peerattn.exceptions import checked
from peerattn.network.base import BaseNetwork
from peerattn.network.explorer.content import explorer_content
from peerattn.render import Frame, printable, write_atomic
from peerattn.render.page import template

_HERE = "peerattn.network.explorer"


@checked
def write_explorer(
    network: BaseNetwork,
    path: str | os.PathLike[str],
    *,
    codes: pd.Series | None = None,
    top_k: int = 10,
    intervals: pd.DataFrame | None = None,
    title: str | None = None,
) -> Path:
    """Write an interactive page: search a firm, pick a period, see its peers and followers.

    Parameters
    ----------
    network : PeerNetwork
    path : path-like
        The HTML file. It is replaced whole or not at all.
    codes : Series by firm, or by firm and period, optional
        Industries (at most 60): shown beside firms, and as flows from industry to industry.
    top_k : int, default 10
        How many peers and how many followers of each firm and period are kept.
    intervals : DataFrame, optional
        Columns ``period, firm, peer, lower, upper``, as ``bootstrap_network(...).spread()`` gives them; drawn where
        given.
    title : str, optional
        Default: the network's name.

    Returns
    -------
    pathlib.Path
        The file written.

    Raises
    ------
    InputError
        When the file cannot be written, ``top_k`` is not a positive integer, there are over 60 codes, or intervals
        name firms that are not there.

    Notes
    -----
    The page holds all it needs and may ask for nothing outside itself: its content security policy allows the one
    script and the one style whose digests it names. Names are inserted as text only. About 6 bytes an edge: 2,400
    firms in 24 periods with ``top_k=10`` take about 6 MB. It needs a browser of 2023 or later.

    Examples
    --------
    >>> import tempfile
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_explorer(PeerNetwork.from_edges(edges, name="two firms"), Path(folder) / "network.html")
    ...     "<title>two firms</title>" in page.read_text(encoding="utf-8")
    True
    """
    return write_atomic(path, explorer_page(network, codes, top_k, intervals=intervals, title=title).html)


def explorer_page(
    network: BaseNetwork,
    codes: pd.Series | None = None,
    top_k: int = 10,
    intervals: pd.DataFrame | None = None,
    title: str | None = None,
) -> Frame:
    """Return the explorer as a frame of another page; parameters and errors are those of :func:`write_explorer`."""
    title = printable(title or network.name or "Peer network")
    style, script = ((files(_HERE) / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"script-src '{_digest(script)}'; style-src '{_digest(style)}'"
    )
    count = f"{len(network.labels):,} firms"
    if network.is_dated:
        count += f", {len(network.periods):,} period{'s' * (len(network.periods) > 1)}"
    text = template(_HERE).render(
        title=title,
        lead=f"The peers of each firm: {count}.",
        policy=policy,
        style=style,
        script=script,
        content=_safe_json(explorer_content(network, codes, top_k, intervals)),
    )
    return Frame(text, title, (_digest(script),))


def _safe_json(content: object) -> str:
    """JSON in which no character can end the enclosing script element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")
