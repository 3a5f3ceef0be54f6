"""The sections of a report that show the estimated network, and what heads search for."""

from __future__ import annotations

import numpy as np

from peerattn.evaluation.claims import Claims
from peerattn.evaluation.compared import Compared
from peerattn.evaluation.report.figures import profile_picture, weights_picture
from peerattn.evaluation.report.words import RELEVANCE, direction, few_codes
from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork
from peerattn.network.explorer import explorer_page
from peerattn.network.measures.comparison import stability_sentence
from peerattn.render import Section, Table, show_label
from peerattn.render.page import Block

OWN_PAST = "A firm that is its own peer is predicted from its own past outcomes to that extent."
_SHOWN_PEERS = 3
_FIRMS_LISTED = 25
_EXPLORED_PEERS = 10
_PAIRS = 10


def network_sections(compared: Compared, claims: Claims) -> list[Section]:
    """Return the network of the best model in which peers entered, and its search profile."""
    if claims.network is None:
        return []
    name, network = claims.network, compared.networks[claims.network]
    note = compared.note(name)
    fits = "" if note.fits_with_peers is None else f" Peers entered in {note.fits_with_peers} of its fits."
    codes = few_codes(compared)
    stable = (
        stability_sentence(network) or "Whether other seeds and folds give the same network was not measured."
    )
    blocks: list[Block] = [
        RELEVANCE,
        f"The network of {name} in {show_label(network.periods[0])}, the last tested period, from the last fit: "
        f"{len(network.firms):,} firms.{fits} {stable}",
        direction(network),
        *([OWN_PAST] if looks_at_own_past(network) else []),
        weights_picture(network, name, codes),
        _top_peers(network),
        *_one_sided(network),
        _isolates(network),
        "Search for any firm to see its peers, and the firms whose peer it is:",
        explorer_page(network, codes, _EXPLORED_PEERS, title=f"Peer network of {name}"),
    ]
    return [Section("Estimated peer network", blocks), *_search(compared, name)]


def looks_at_own_past(network: PeerNetwork) -> bool:
    """Tell whether firms are peers of themselves: in a forecast, by their own past outcomes."""
    edges = network.edges()
    return bool((edges["weight"][edges["firm"] == edges["peer"]] != 0).any())


def _search(compared: Compared, name: str) -> list[Section]:
    """Return what the heads of the model shown search for."""
    profile = compared.profiles.get(name)
    if profile is None:
        return []
    strongest = int(profile.shares.argmax())
    matrix = profile.named(strongest)
    shown = list(matrix.columns)
    if matrix.empty:
        return []
    scores = matrix.to_numpy()
    order = np.argsort(-np.abs(scores), axis=None, kind="stable")[:_PAIRS]
    rows = [(shown[i], shown[j], scores[i, j]) for i, j in zip(*np.unravel_index(order, scores.shape))]
    kept = f"{len(profile.heads)} head{'s were' if len(profile.heads) > 1 else ' was'} kept"
    hidden = len(shown) < len(profile.matrices[strongest])
    codes = " Codes and indicators of missing values are not shown." if hidden else ""
    words = (
        f"{name} scores a peer by pairs of characteristics, in standard deviations: the matrix M = W_Q W_K'. {kept}; shown is "
        f"the one with the largest share of the network ({profile.shares[strongest]:.0%}). A positive entry: the more a firm "
        "has of the row's characteristic, the more weight it puts on peers that have much of the column's. What is learned is "
        f"M; heads are known up to their order.{codes}"
    )
    heads = ("A firm with much", "looks to peers with much", "score")
    table = Table("The strongest pairs", heads, rows, "llr")
    return [Section("Score matrix of the strongest head", [words, profile_picture(matrix, name), table])]


def most_looked_to(network: PeerNetwork, title: str, k: int = 10) -> Table:
    """Return the firms that are given the most weight by all firms together."""
    given = network.matrix().sum().sort_values(ascending=False, kind="stable").head(k)
    rows = list(zip(map(show_label, given.index), given.tolist()))
    return Table(title, ("Firm", "Sum of weights given to it"), rows, alignment="lr")


def _top_peers(network: PeerNetwork) -> Table:
    """Return the peers with the most weight: of every firm, or of all firms together in a large network."""
    if len(network.firms) > _FIRMS_LISTED:
        return most_looked_to(network, "Firms with the largest incoming weight")
    rows = []
    for firm, own in network.edges(top_k=_SHOWN_PEERS + 1).groupby("firm", sort=False):
        own = own[own["peer"] != firm][:_SHOWN_PEERS]
        peers = [f"{show_label(p)} {w:.2f}" for p, w in zip(own["peer"], own["weight"]) if w >= 0.005]
        rows.append((show_label(firm), *(peers + [""] * _SHOWN_PEERS)[:_SHOWN_PEERS]))
    return Table("The peers with the largest weights", ("Firm", "First", "Second", "Third"), rows)


def _one_sided(network: PeerNetwork) -> list[Block]:
    """Return the pairs with the largest direction net of popularity; a signed network, or one without direction, has none."""
    if network.signed:
        return []
    try:
        pairs = network.asymmetry().most_one_sided(8)
    except InputError:  # nobody both looks and is looked to
        return []
    pairs = pairs[pairs["direction"].abs() >= 0.005]
    if pairs.empty:
        return ["No pair of firms is one-sided beyond how popular each of them is."]
    firms, peers = (map(show_label, pairs[side]) for side in ("firm", "peer"))
    figures = (pairs[name].tolist() for name in ("weight", "reverse", "direction"))
    heads = ("Firm", "Peer", "Weight on the peer", "Peer's weight on the firm", "Direction")
    note = (
        "Direction: the log ratio of the two weights minus that of the firms' popularity; positive = the firm looks to the peer "
        "more than popularity explains, which may be so of the smaller weight. Ordered by the weight that direction moves."
    )
    rows = list(zip(firms, peers, *figures))
    title = "The most one-sided pairs, net of how popular each firm is"
    return [Table(title, heads, rows, "llrrr", ("", "", ".3f", ".3f", ".2f"), footnotes=(note,))]


def _isolates(network: PeerNetwork) -> str:
    isolates = [show_label(firm) for firm in network.isolates["firm"]]
    if not isolates:
        return "Every firm has at least one peer."
    shown = ", ".join(isolates[:10]) + (", …" if len(isolates) > 10 else "")
    return f"Firms without any peer: {len(isolates)} ({shown})."
