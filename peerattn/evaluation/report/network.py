"""The sections of a report that show whom firms look to, and what heads search for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from peerattn.evaluation.report.answer import few_codes, looks_at_own_past, shown_network
from peerattn.evaluation.report.figures import profile_picture, weights_picture
from peerattn.evaluation.report.verdict import found_no_peers
from peerattn.exceptions import InputError
from peerattn.network.explorer import explorer_page
from peerattn.network.measures.comparison import stability_sentence
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
OWN_PAST = " A firm that is its own peer is predicted from its own past outcomes to that extent."
_SHOWN_PEERS = 3
_FIRMS_LISTED = 25
_EXPLORED_PEERS = 10
_PAIRS = 10


def network_sections(comparison: Comparison) -> list[Section]:
    """Return the network of the best learned model that gave one, and its search profile."""
    if not comparison.networks:
        return []
    blocks: list[Block] = [RELEVANCE]
    empty = [name for name in comparison.networks if found_no_peers(comparison, name)]
    blocks += [f"{name} found no peers that help to predict: its network is empty." for name in empty]
    shown = shown_network(comparison)
    if shown is None:
        return [Section("Whom firms look to", blocks)]
    name, network = shown
    blocks += [
        f"The peer network of {name} in {show_label(network.periods[0])}, the last tested period, from the last fit. "
        + (
            stability_sentence(network)
            or "Whether other seeds and folds give the same network was not measured."
        )
        + (OWN_PAST if looks_at_own_past(network) else ""),
        weights_picture(network, name, few_codes(comparison)),
        _top_peers(network),
        *_one_sided(network),
        _isolates(network),
        "Search for any firm to see its peers, and the firms whose peer it is:",
        explorer_page(network, few_codes(comparison), _EXPLORED_PEERS, title=f"Peer network of {name}"),
    ]
    return [Section("Whom firms look to", blocks), *_search(comparison, name)]


def _search(comparison: Comparison, name: str) -> list[Section]:
    """Return what the heads of the model shown search for, or of the best model that has a profile."""
    profiles = comparison.profiles
    if name not in profiles:
        if not profiles:
            return []
        name = str(comparison.scores["rmse"][list(profiles)].idxmin())
    profile: SearchProfile = profiles[name]
    strongest = int(profile.shares.argmax())
    matrix = profile.named(strongest)
    shown = list(matrix.columns)
    if matrix.empty:
        return []
    scores = matrix.to_numpy()
    order = np.argsort(-np.abs(scores), axis=None, kind="stable")[:_PAIRS]
    rows = [(shown[i], shown[j], scores[i, j]) for i, j in zip(*np.unravel_index(order, scores.shape))]
    kept = f"{len(profile.heads)} head{'s were' if len(profile.heads) > 1 else ' was'} kept"
    codes = (
        " Codes and indicators of missing values are not shown."
        if len(shown) < len(profile.matrices[strongest])
        else ""
    )
    words = (
        f"{name} scores a peer by pairs of characteristics, in standard deviations: the matrix M = W_Q W_K'. {kept}; shown is "
        f"the one with the largest share of the network ({profile.shares[strongest]:.0%}). A positive entry: the more a firm "
        "has of the row's characteristic, the more weight it puts on peers that have much of the column's. What is learned is "
        f"M; heads are known up to their order.{codes}"
    )
    heads = ("A firm with much", "looks to peers with much", "score")
    table = Table("The strongest pairs", heads, rows, "llr")
    return [Section("What the search looks for", [words, profile_picture(matrix, name), table])]


def most_looked_to(network: PeerNetwork, title: str, k: int = 10) -> Table:
    """Return the firms that are given the most weight by all firms together."""
    given = network.matrix().sum().sort_values(ascending=False, kind="stable").head(k)
    rows = list(zip(map(show_label, given.index), given.tolist()))
    return Table(title, ("Firm", "Sum of weights given to it"), rows, alignment="lr")


def _top_peers(network: PeerNetwork) -> Table:
    """Return the peers with the most weight: of every firm, or of all firms together in a large network."""
    if len(network.firms) > _FIRMS_LISTED:
        return most_looked_to(network, "The firms most looked to")
    rows = []
    for firm, own in network.edges(top_k=_SHOWN_PEERS).groupby("firm", sort=False):
        peers = [f"{show_label(p)} {w:.2f}" for p, w in zip(own["peer"], own["weight"]) if w >= 0.005]
        rows.append((show_label(firm), *(peers + [""] * _SHOWN_PEERS)[:_SHOWN_PEERS]))
    return Table("Whom each firm looks to most", ("Firm", "First", "Second", "Third"), rows)


def _one_sided(network: PeerNetwork) -> list[Block]:
    """Return the pairs with the largest direction net of popularity, weighted; a signed network has no such direction."""
    if network.signed:
        return []
    try:
        pairs = network.asymmetry().most_one_sided(8)
    except InputError:  # nobody both looks and is looked to
        return []
    if pairs.empty:
        return ["No pair of firms is one-sided: each gives the other the weight it gets."]
    firms, peers = (map(show_label, pairs[side]) for side in ("firm", "peer"))
    figures = (pairs[name].tolist() for name in ("weight", "reverse", "direction"))
    heads = ("Firm", "Peer", "Weight on the peer", "Peer's weight on the firm", "Direction")
    title = "The most one-sided pairs, net of how popular each firm is"
    note = (
        "Direction: the log ratio of the two weights less that of the firms' popularity; positive = the firm looks to the peer "
        "more than popularity explains, which may be so of the smaller weight. Ordered by the weight that direction moves."
    )
    rows = list(zip(firms, peers, *figures))
    return [Table(title, heads, rows, "llrrr", ("", "", ".3f", ".3f", ".2f"), footnotes=(note,))]


def _isolates(network: PeerNetwork) -> str:
    isolates = [show_label(firm) for firm in network.isolates["firm"]]
    if not isolates:
        return "Every firm has at least one peer."
    shown = ", ".join(isolates[:10]) + (", …" if len(isolates) > 10 else "")
    return f"Firms without any peer: {len(isolates)} ({shown})."
