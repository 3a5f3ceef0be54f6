"""The explorer: a network as one HTML file that opens offline."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, checked
from peerattn.network.attributes import code_numbers
from peerattn.network.base import BaseNetwork
from peerattn.network.cross_section import Array, CrossSection, frozen
from peerattn.network.measures.asymmetry import Kind, asymmetry
from peerattn.network.measures.comparison import group_flows, stability_sentence
from peerattn.panel.columns import refuse_unknown
from peerattn.render import Frame, printable, show_label, write_atomic
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


_MOST_GROUPS = 60
_PAIRS = 25
_KINDS: tuple[Kind, ...] = ("direction", "popularity", "difference")


def explorer_content(
    network: BaseNetwork, codes: pd.Series | None, top_k: int, intervals: pd.DataFrame | None
) -> dict[str, Any]:
    """Return all that the page shows, ready for JSON; arguments as in :func:`write_explorer`.

    ``top_k`` edges are kept for each firm, as a focal firm and as a peer. Numbers of each period are one gzipped block
    of 4-byte numbers, in base64.
    """
    groups = [] if codes is None else [str(name) for name in pd.factorize(codes)[1]]
    if len(groups) > _MOST_GROUPS:
        raise InputError(
            f"codes: expected at most {_MOST_GROUPS} different codes, got {len(groups)}; use broader ones."
        )
    bounds = None if intervals is None else _bounds(network, intervals)
    everyone, sections = np.arange(len(network.labels)), []
    for period, section in network.sections():
        number = (
            -np.ones_like(everyone)
            if codes is None
            else code_numbers(network, codes, everyone, period, "codes")
        )
        edges = _strongest(section, top_k)
        numbers = [edges["weight"].to_numpy()]
        if bounds is not None:
            here = (
                bounds[bounds.index.get_level_values(0) == period].droplevel(0)
                if network.is_dated
                else bounds
            )
            ends = [network.labels.take(edges[side].to_numpy()) for side in ("firm", "peer")]
            numbers += list(here.reindex(pd.MultiIndex.from_arrays(ends)).to_numpy().T)
        sections.append(
            {
                "packed": _packed(section, number, edges, numbers),
                "edges": len(edges),
                "flows": _flows(network, codes, groups, period),
                "pairs": _pairs(network, period),
            }
        )
    kept = (
        f"Kept: the {top_k} largest weights of each firm in each period, in both directions, to three digits."
    )
    drawn = "The dark line in a bar and the brackets are its interval." if intervals is not None else ""
    return {
        "firms": [printable(show_label(firm)) for firm in network.labels],
        "periods": [printable(show_label(period)) for period in network.periods],
        "dated": network.is_dated,
        "signed": network.signed,
        "percent": network.row_normalized,
        "top_k": top_k,
        "groups": [printable(name) for name in groups],
        "group_name": "" if codes is None else printable(codes.name or "industry"),
        "intervals": bounds is not None,
        "start": int(section.columns[np.argmax(section.column_sums())]) if len(section.columns) else 0,
        "note": " ".join(part for part in (stability_sentence(network), kept, drawn) if part),
        "sections": sections,
    }


def _packed(section: CrossSection, group: Array, edges: pd.DataFrame, numbers: list[Array]) -> str:
    """One period's numbers as text; page.js reads them in this order."""
    measures = (
        (section.column_sums(), section.columns),
        (section.effective(), section.rows),
        (section.row_sums(), section.rows),
    )
    of_firms = [pd.Series(*found).reindex(range(len(group))).to_numpy() for found in measures]
    degree = np.bincount(edges["firm"], minlength=len(group))
    peers = edges["peer"].to_numpy()
    blocks: list[Array] = [group, *map(_rounded, of_firms), degree, peers, *map(_rounded, numbers)]
    kinds = ["<i4" if np.issubdtype(block.dtype, np.integer) else "<f4" for block in blocks]
    content = b"".join(np.asarray(block, kind).tobytes() for block, kind in zip(blocks, kinds, strict=True))
    return base64.b64encode(gzip.compress(content, compresslevel=9, mtime=0)).decode("ascii")


def _strongest(section: CrossSection, top_k: int) -> pd.DataFrame:
    """The largest weights of each row and of each column, in the order of the focal firms' labels."""
    turned = CrossSection(section.columns, section.rows, frozen(section.weights.T))
    found = [
        pd.DataFrame(dict(zip(names, each.edges(top_k), strict=True)))
        for each, names in ((section, ("firm", "peer", "weight")), (turned, ("peer", "firm", "weight")))
    ]
    return pd.concat(found).drop_duplicates(["firm", "peer"]).sort_values(["firm", "peer"])


def _rounded(values: Array) -> Array:
    """Four-byte floats with 12 binary digits: a relative error of 2⁻¹³, and well compressed."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded = ((bits.astype(np.uint64) + 0x800) & 0xFFFFF000).astype("<u4").view("<f4")
    return np.where(np.isfinite(values), rounded, np.float32(np.nan)).astype("<f4")


def _flows(
    network: BaseNetwork, codes: pd.Series | None, groups: list[str], period: Any
) -> list[list[float | None]] | None:
    """Mean row of each focal group, summed over groups of peers; None where a group has no firm, or flows are not known."""
    if codes is None or not groups or network.top_k is not None:
        return None
    flows = group_flows(network, codes, period).reindex(index=groups, columns=groups)
    return [[None if np.isnan(w) else float(f"{w:.4g}") for w in row] for row in flows.to_numpy()]


def _pairs(network: BaseNetwork, period: Any) -> dict[str, list[Any]] | None:
    """Both firms and both weights of the most one-sided pairs; None where no pair can be compared."""
    section = network.section(period)[1]
    if network.signed or network.top_k is not None or not len(np.intersect1d(section.rows, section.columns)):
        return None
    found = asymmetry(network.at(period))
    pairs: dict[str, list[Any]] = {}
    for kind in _KINDS:
        chosen = found.most_one_sided(_PAIRS, kind=kind)
        ends = [network.labels.get_indexer_for(pd.Index(chosen[side])).tolist() for side in ("firm", "peer")]
        weights = [[float(f"{w:.4g}") for w in chosen[side]] for side in ("weight", "reverse")]
        pairs[kind] = [list(row) for row in zip(*ends, *weights, strict=True)]
    return pairs if any(pairs.values()) else None


def _bounds(network: BaseNetwork, intervals: pd.DataFrame) -> pd.DataFrame:
    """``lower`` and ``upper`` by period, firm and peer."""
    keys = [*(["period"] if network.is_dated else []), "firm", "peer"]
    refuse_unknown("intervals", [*keys, "lower", "upper"], intervals.columns)
    for side in ("firm", "peer"):
        strangers = intervals.loc[~intervals[side].isin(network.labels), side]
        if len(strangers):
            raise InputError(f"intervals: {side} {strangers.iloc[0]!r} is not in the network.")
    frame = intervals.set_index(keys)[["lower", "upper"]].astype(np.float64)
    if frame.index.has_duplicates:
        raise InputError("intervals: a pair of firms is given twice in one period.")
    return frame
