"""The section of a report that shows whom firms look to, and what heads search for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from peerattn.evaluation.report.figures import profile_picture, weights_picture
from peerattn.evaluation.report.verdict import found_no_peers
from peerattn.exceptions import InputError
from peerattn.network.explorer import explorer_page
from peerattn.render import Section, Table, show_label
from peerattn.render.page import Block

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison
    from peerattn.models.attention.search_profile import SearchProfile
    from peerattn.network import PeerNetwork

#: What weights are and are not; it stands wherever a reader sees a network.
RELEVANCE = (
    "Weights say whose characteristics or outcomes help to predict a firm: predictive relevance, not causal peer effects. "
    "Firms that resemble each other, or that are hit by the same shocks, get weight without any influence on each other "
    "(the reflection problem, Manski 1993)."
)
_SHOWN_PEERS = 3
_FIRMS_LISTED = 25
_EXPLORED_PEERS = 10
_PAIRS = 10


def network_sections(comparison: Comparison) -> list[Section]:
    """Return the network of the best learned model that gave one, and its search profile."""
    if not comparison.networks:
        return []
    rmse = comparison.scores["rmse"]
    learned = [
        m.name for m in comparison.models if m.name in comparison.networks and "PeerAttention" in m.settings
    ]
    name = str(rmse[learned or list(comparison.networks)].idxmin())
    blocks: list[Block] = [RELEVANCE]
    if found_no_peers(comparison, name):
        blocks.append(f"{name} found no peers that help to predict: its network is empty.")
        others = [other for other in comparison.networks if not found_no_peers(comparison, other)]
        if not others:
            return [Section("Whom firms look to", blocks)]
        name = str(rmse[others].idxmin())
    network = comparison.networks[name]
    blocks += [
        f"The peer network of {name} in {show_label(network.periods[0])}, the last tested period.",
        weights_picture(network, name),
        _top_peers(network),
        *_one_sided(network),
        _isolates(network),
        "Search any firm, and see whom it looks to and who looks to it:",
        explorer_page(network, _few_codes(comparison), _EXPLORED_PEERS, title=f"Peer network of {name}"),
    ]
    profiles = [
        Section("What the search looks for", _search(comparison.profiles[n], n))
        for n in _profiled(comparison, name)
    ]
    return [Section("Whom firms look to", blocks), *profiles]


def _profiled(comparison: Comparison, name: str) -> list[str]:
    """Return the model shown, where it has a profile, else the best one that has."""
    if name in comparison.profiles or not comparison.profiles:
        return [name] if name in comparison.profiles else []
    return [str(comparison.scores["rmse"][list(comparison.profiles)].idxmin())]


def _search(profile: SearchProfile, name: str) -> list[Block]:
    strongest = int(profile.shares.argmax())
    pairs = profile.to_frame()
    member, head = profile.heads[strongest]
    own = pairs[(pairs["member"] == member) & (pairs["head"] == head)].head(_PAIRS)
    rows = list(zip(map(str, own["focal"]), map(str, own["peer"]), own["score"].tolist()))
    kept = f"{len(profile.heads)} head{'s were' if len(profile.heads) > 1 else ' was'} kept"
    return [
        f"{name} scores a peer by pairs of characteristics, in standard deviations: the matrix M = W_Q W_K'. {kept}; "
        "shown is the "
        f"one with the largest share of the network ({profile.shares[strongest]:.0%}). A positive entry: the more a "
        "firm has of the "
        "row's characteristic, the more weight it puts on peers that have much of the column's. What is learned is M; heads are "
        "known up to their order.",
        profile_picture(profile.matrices[strongest], name),
        Table("The strongest pairs", ("A firm with much", "looks to peers with much", "score"), rows, "llr"),
    ]


def _few_codes(comparison: Comparison) -> pd.Series | None:
    """Return the industry of each firm for the explorer, where there are few enough."""
    for name, group in comparison.groups.items():
        if name.endswith(", fifths"):
            continue
        by_firm = group.groupby(level=0).last()
        if by_firm.nunique() <= 30 and group.groupby(level=0).nunique().max() <= 1:
            return by_firm.astype(str).rename("industry")
    return None


def _top_peers(network: PeerNetwork) -> Table:
    """Return the peers with the most weight: of every firm, or of all firms together in a large network."""
    if len(network.firms) > _FIRMS_LISTED:
        given = network.matrix().sum().sort_values(ascending=False, kind="stable").head(10)
        return Table(
            "The firms most looked to",
            ("Firm", "Sum of weights given to it"),
            list(zip(map(show_label, given.index), given.tolist())),
            alignment="lr",
        )
    edges = network.edges(top_k=_SHOWN_PEERS)
    rows = []
    for firm, own in edges.groupby("firm", sort=False):
        peers = [f"{show_label(p)} {w:.2f}" for p, w in zip(own["peer"], own["weight"]) if w >= 0.005]
        rows.append((show_label(firm), *(peers + [""] * _SHOWN_PEERS)[:_SHOWN_PEERS]))
    return Table("Whom each firm looks to most", ("Firm", "First", "Second", "Third"), rows)


def _one_sided(network: PeerNetwork) -> list[Block]:
    try:
        pairs = network.asymmetry().most_one_sided(8)
    except InputError:  # nobody both looks and is looked to
        return []
    if pairs.empty:
        return ["No pair of firms is one-sided: each gives the other the weight it gets."]
    firms, peers = (map(show_label, pairs[side]) for side in ("firm", "peer"))
    rows = list(zip(firms, peers, pairs["weight"].tolist(), pairs["reverse"].tolist()))
    return [
        Table(
            "The most one-sided pairs",
            ("Firm", "looks to", "with weight", "and is given"),
            rows,
            alignment="llrr",
        )
    ]


def _isolates(network: PeerNetwork) -> str:
    isolates = [show_label(firm) for firm in network.isolates["firm"]]
    if not isolates:
        return "Every firm has at least one peer."
    shown = ", ".join(isolates[:10]) + (", …" if len(isolates) > 10 else "")
    return f"Firms without any peer: {len(isolates)} ({shown})."
