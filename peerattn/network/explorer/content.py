"""What the explorer holds: the strongest edges of each period and the measures beside them, packed."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.network.attributes import code_numbers
from peerattn.network.base import BaseNetwork
from peerattn.network.cross_section import Array, CrossSection, frozen
from peerattn.network.measures.asymmetry import asymmetry
from peerattn.network.measures.comparison import group_flows, stability_sentence
from peerattn.panel.columns import refuse_unknown
from peerattn.render import printable, show_label

_MOST_GROUPS = 60
_PAIRS = 25
_KINDS = ("direction", "popularity", "difference")


def explorer_content(
    network: BaseNetwork, codes: pd.Series | None, top_k: int, intervals: pd.DataFrame | None
) -> dict[str, Any]:
    """Return all that the page shows, ready for JSON; arguments as in :func:`write_explorer`.

    ``top_k`` edges are kept for each firm, as a focal firm and as a peer. Numbers of each period are one gzipped block
    of 4-byte numbers, in base64.
    """
    groups: list[str] = []
    if codes is not None:
        groups = [str(name) for name in pd.factorize(codes)[1]]
    if len(groups) > _MOST_GROUPS:
        raise InputError(
            f"codes: expected at most {_MOST_GROUPS} different codes, got {len(groups)}; use broader ones."
        )
    bounds = None if intervals is None else _bounds(network, intervals)
    everyone, unknown = np.arange(len(network.labels)), np.full(len(network.labels), -1)
    sections = []
    for position, (period, section) in enumerate(network.sections()):
        number = unknown if codes is None else code_numbers(network, codes, everyone, period, "codes")
        here = None if bounds is None else bounds[bounds.index.get_level_values(0) == position].droplevel(0)
        packed, edges = _packed(network, section, number, top_k, here)
        flows, pairs = _flows(network, codes, groups, period), _pairs(network, section)
        sections.append({"packed": packed, "edges": edges, "flows": flows, "pairs": pairs})
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


def _packed(
    network: BaseNetwork, section: CrossSection, group: Array, top_k: int, bounds: pd.DataFrame | None
) -> tuple[str, int]:
    """One period's numbers as text, and how many edges they hold; page.js reads them in this order."""
    size = len(network.labels)
    i, j, w = _strongest(section, top_k)
    blocks = [group.astype("<i4")]
    for positions, values in (
        (section.columns, section.column_sums()),
        (section.rows, section.effective()),
        (section.rows, section.row_sums()),
    ):
        whole = np.full(size, np.nan)
        whole[positions] = values
        blocks.append(_rounded(whole))
    blocks += [np.bincount(section.rows[i], minlength=size).astype("<i4"), section.columns[j].astype("<i4")]
    blocks.append(_rounded(w))
    if bounds is not None:
        wanted = pd.MultiIndex.from_arrays([section.rows[i], section.columns[j]])
        found = bounds.reindex(wanted)
        blocks += [_rounded(found[side].to_numpy()) for side in ("lower", "upper")]
    content = gzip.compress(b"".join(block.tobytes() for block in blocks), compresslevel=9, mtime=0)
    return base64.b64encode(content).decode("ascii"), len(w)


def _strongest(section: CrossSection, top_k: int) -> tuple[Array, Array, Array]:
    """The largest weights of each row and of each column, in the order of the focal firms' labels."""
    i, j, w = section.entries(top_k)
    turned = CrossSection(section.columns, section.rows, frozen(section.weights.T))
    j_back, i_back, w_back = turned.entries(top_k)
    i, j, w = np.append(i, i_back), np.append(j, j_back), np.append(w, w_back)
    _, first = np.unique(i.astype(np.int64) * len(section.columns) + j, return_index=True)
    order = first[np.lexsort((section.columns[j[first]], section.rows[i[first]]))]
    return i[order], j[order], w[order]


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


def _pairs(network: BaseNetwork, section: CrossSection) -> dict[str, list[Any]] | None:
    """Both firms and both weights of the most one-sided pairs; None where no pair can be compared."""
    if network.signed or network.top_k is not None or not len(np.intersect1d(section.rows, section.columns)):
        return None
    one = network.replaced([section], periods=pd.Index([None], dtype=object))
    found = asymmetry(one).pairs
    pairs: dict[str, list[Any]] = {}
    for kind in _KINDS:
        chosen = found[found["kind"] == kind].head(_PAIRS)
        ends = [network.labels.get_indexer_for(pd.Index(chosen[side])).tolist() for side in ("firm", "peer")]
        weights = [[float(f"{w:.4g}") for w in np.nan_to_num(chosen[side])] for side in ("weight", "reverse")]
        pairs[kind] = [list(row) for row in zip(*ends, *weights, strict=True)]
    return pairs if any(pairs.values()) else None


def _bounds(network: BaseNetwork, intervals: pd.DataFrame) -> pd.DataFrame:
    """``lower`` and ``upper`` by the positions of period, firm and peer."""
    when = ["period"] if network.is_dated else []
    refuse_unknown("intervals", [*when, "firm", "peer", "lower", "upper"], intervals.columns)
    ends = [network.labels.get_indexer_for(pd.Index(intervals[side])) for side in ("firm", "peer")]
    for side, positions in zip(("firm", "peer"), ends, strict=True):
        if (positions < 0).any():
            stranger = intervals[side].iloc[int(np.argmax(positions < 0))]
            raise InputError(f"intervals: {side} {stranger!r} is not in the network.")
    place = np.zeros(len(intervals), dtype=int)
    if network.is_dated:
        place = network.periods.get_indexer_for(pd.Index(intervals["period"]))
    frame = intervals[["lower", "upper"]].astype(np.float64)
    frame = frame.set_axis(pd.MultiIndex.from_arrays([place, *ends]))[place >= 0]
    if frame.index.has_duplicates:
        raise InputError("intervals: a pair of firms is given twice in one period.")
    return frame
