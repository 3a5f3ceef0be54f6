"""The explorer: a network as one HTML file that opens offline."""

import base64
import gzip
import hashlib
import os
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, expect, validate_arguments
from peerattn.network.attributes import code_numbers
from peerattn.network.base import Network
from peerattn.network.cross_section import Array, CrossSection, strongest
from peerattn.network.measures.asymmetry import Kind, asymmetry
from peerattn.network.measures.comparison import group_flows, stability_sentence
from peerattn.panel.columns import check_known
from peerattn.render import Frame, printable, show_label, write_atomic
from peerattn.render.page import template

_HERE = "peerattn.network.explorer"


@validate_arguments
def write_explorer(
    network: Network,
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
    The page holds all it needs and loads nothing from outside: its content security policy allows the one
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
    return write_atomic(path, explorer_page(network, codes, top_k, intervals, title or "").html)


def explorer_page(
    network: Network, codes: pd.Series | None = None, top_k: int = 10, intervals: pd.DataFrame | None = None, title: str = ""
) -> Frame:
    """Return the explorer as a frame of another page; parameters and errors are those of :func:`write_explorer`."""
    title = printable(title or network.name or "Peer network")
    style, script = ((files(_HERE) / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    # the page may ask for nothing: names come from other people's files
    policy = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
    policy += f"script-src '{_digest(script)}'; style-src '{_digest(style)}'"
    count = f"{len(network.labels):,} firms"
    if network.is_dated:
        count += f", {len(network.periods):,} period{'s' * (len(network.periods) > 1)}"
    content = _content(network, codes, top_k, intervals)
    here = {"title": title, "lead": f"The peers of each firm: {count}.", "policy": policy, "content": content}
    return Frame(template(_HERE).render(**here, style=style, script=script), title, (_digest(script),))


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")


_MOST_GROUPS = 60
_PAIRS = 25
_KINDS: tuple[Kind, ...] = ("direction", "popularity", "difference")


def _content(network: Network, codes: pd.Series | None, top_k: int, intervals: pd.DataFrame | None) -> dict[str, Any]:
    """Return all that the page shows, ready for JSON; arguments as in :func:`write_explorer`.

    ``top_k`` edges are kept for each firm, as a focal firm and as a peer. Numbers of each period are one gzipped block
    of 4-byte numbers, in base64.
    """
    groups = [] if codes is None else [show_label(name) for name in pd.factorize(codes)[1]]
    expect(len(groups) <= _MOST_GROUPS, "codes", f"at most {_MOST_GROUPS}", len(groups), "Use broader ones.")
    bounds = None if intervals is None else _bounds(network, intervals)
    sections = []
    for period, section in network.sections():
        one = network.at(period)
        edges = _strongest(section, top_k)
        numbers = [edges["weight"].to_numpy()]
        if bounds is not None:
            # intervals are found by label: they may hold more or fewer pairs than are kept
            labels = pd.MultiIndex.from_frame(one.tidy([edges])[bounds.index.names])
            numbers += list(bounds.reindex(labels).to_numpy().T)
        group = code_numbers(network, codes, np.arange(len(network.labels)), period, "codes")
        packed = _packed(section, group, edges, numbers)
        flows = _flows(one, codes, groups)
        sections.append({"packed": packed, "edges": len(edges), "flows": flows, "pairs": _pairs(one)})
    notes = [f"Kept: the {top_k} largest weights of each firm and period, in both directions, to three digits."]
    if sentence := stability_sentence(network):
        notes.insert(0, sentence)
    if intervals is not None:
        notes.append("The dark line in a bar and the brackets are its interval.")
    # names are text of other people's files: printable, and inserted as text only
    named: dict[str, Any] = {"firms": network.labels, "periods": network.periods, "groups": groups}
    return {name: [printable(show_label(label)) for label in labels] for name, labels in named.items()} | {
        "dated": network.is_dated,
        "signed": network.signed,
        "percent": network.row_normalized,
        "top_k": top_k,
        "group_name": "" if codes is None else printable(codes.name or "industry"),
        "intervals": bounds is not None,
        "start": _most_attended(network),
        "note": " ".join(notes),
        "sections": sections,
    }


def _most_attended(network: Network) -> int:
    """The position of the firm with the largest incoming weight in the last period; 0 where there is none."""
    for _, section in [*network.sections()][-1:]:
        if len(section.columns):
            return int(section.columns[np.argmax(section.column_sums())])
    return 0


def _packed(section: CrossSection, group: Array, edges: pd.DataFrame, numbers: list[Array]) -> str:
    """One period's numbers as text; page.js reads them in this order."""
    # firms that are absent in a period have no measure there
    measures = [(section.column_sums(), section.columns), (section.effective(), section.rows), (section.row_sums(), section.rows)]
    of_firms = [pd.Series(*each).reindex(range(len(group))).to_numpy() for each in measures]
    degree = np.bincount(edges["firm"], minlength=len(group))
    whole = [each.astype("<i4") for each in (group, degree, edges["peer"].to_numpy())]
    blocks = [whole[0], *map(_rounded, of_firms), *whole[1:], *map(_rounded, numbers)]
    content = b"".join(block.tobytes() for block in blocks)
    return base64.b64encode(gzip.compress(content, compresslevel=9, mtime=0)).decode("ascii")


def _strongest(section: CrossSection, top_k: int) -> pd.DataFrame:
    """The largest weights of each row and of each column, in the order of the focal firms' labels."""
    weights = section.csr()
    # followers are the largest weights of a column: the rows of the transpose
    kept = (strongest(weights, top_k) != 0) + (strongest(weights.T.tocsr(), top_k) != 0).T
    found = weights.multiply(kept).tocoo()
    ends = {"firm": section.rows[found.row], "peer": section.columns[found.col]}
    return pd.DataFrame(ends | {"weight": found.data}).sort_values(["firm", "peer"])


def _rounded(values: Array) -> Array:
    """Four-byte floats with 12 binary digits: a relative error of 2⁻¹³, and well compressed."""
    # further digits are noise that does not compress
    share, power = np.frexp(values)
    return np.ldexp(np.rint(share * 2**12) / 2**12, power).astype("<f4")


def _flows(one: Network, codes: pd.Series | None, groups: list[str]) -> list[list[float | None]] | None:
    """Mean row of each focal group, summed over groups of peers; None where a group has no firm, or flows are not known."""
    if codes is None or not groups or one.top_k is not None:
        return None
    # each period's groups in the order of all periods
    return [_short(row) for row in group_flows(one, codes).reindex(index=groups, columns=groups).to_numpy()]


def _pairs(one: Network) -> dict[str, list[Any]] | None:
    """Both firms and both weights of the most one-sided pairs; None where no pair can be compared."""
    _, section = one.section()
    if one.signed or one.top_k is not None or not len(np.intersect1d(section.rows, section.columns)):
        return None
    found = asymmetry(one)
    pairs: dict[str, list[Any]] = {}
    for kind in _KINDS:
        chosen = found.most_one_sided(_PAIRS, kind=kind)
        ends = [one.labels.get_indexer_for(pd.Index(chosen[side])).tolist() for side in ("firm", "peer")]
        pairs[kind] = list(zip(*ends, _short(chosen["weight"]), _short(chosen["reverse"]), strict=True))
    return pairs if any(pairs.values()) else None


def _short(values: Iterable[float]) -> list[float | None]:
    return [None if np.isnan(value) else float(f"{value:.4g}") for value in values]


def _bounds(network: Network, intervals: pd.DataFrame) -> pd.DataFrame:
    """``lower`` and ``upper`` by period, firm and peer."""
    keys = ["period"] * network.is_dated + ["firm", "peer"]
    check_known("intervals", [*keys, "lower", "upper"], intervals.columns)
    for side in ("firm", "peer"):
        strangers = intervals.loc[~intervals[side].isin(network.labels), side]
        if len(strangers):
            raise InputError(f"intervals: {side} {strangers.tolist()[0]!r} is not in the network.")
    frame = intervals.set_index(keys)[["lower", "upper"]].astype(np.float64)
    if frame.index.has_duplicates:
        raise InputError("intervals: a pair of firms is given twice in one period.")
    return frame
