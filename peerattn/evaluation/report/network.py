"""The sections of a report on networks: the estimated one, what its heads search for, and the peers in each model."""

from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.claims import WithClaims
from peerattn.evaluation.report.figures import profile_picture, weights_picture
from peerattn.evaluation.report.table import laid_out
from peerattn.evaluation.report.words import RELEVANCE, direction, few_codes, listed, within_codes
from peerattn.evaluation.running.information import COMMON, PEERS
from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork, effective_peers
from peerattn.network.explorer import explorer_page
from peerattn.network.measures.comparison import network_correlation, stability_sentence
from peerattn.render import Block, Table, show_label, with_minus

OWN_PAST = "A firm that is its own peer is predicted from its own past outcomes to that extent."
FIRST = ("First", "Second", "Third")
_FIRMS_LISTED = 25
_EXPLORED_PEERS = 10
_PAIRS = 10
_FIRMS = 5  # listed with their peers


def network_blocks(compared: WithClaims) -> list[Block]:
    """Return the network of the claims; nothing where they have none."""
    name = compared.claims.network
    if name is None:
        return []
    network = compared.networks[name]
    note = compared.note(name)
    words = f"The network of {name} in {show_label(network.periods[0])}, from the last fit: {len(network.firms):,} firms."
    if note.fits_with_peers is not None:
        words += f" Peers were selected in {note.fits_with_peers} of {note.fits} fits."
    codes = few_codes(compared)
    unmeasured = "Whether other seeds and folds give the same network was not measured."
    return [
        RELEVANCE,
        f"{words} {stability_sentence(network) or unmeasured}",
        direction(network),
        OWN_PAST * bool(network.section()[1].on_itself().any()),
        weights_picture(network, name, codes),
        _top_peers(network),
        _one_sided(network),
        _isolates(network),
        "Search for any firm to see its peers, and the firms whose peer it is:",
        explorer_page(network, codes, _EXPLORED_PEERS, title=f"Peer network of {name}"),
    ]


def search_blocks(compared: WithClaims) -> list[Block]:
    """Return what the heads of the network's model search for; nothing where there is no such matrix."""
    name = compared.claims.network
    if name is None or name not in compared.profiles:
        return []
    profile = compared.profiles[name]
    strongest = int(profile.shares.argmax())
    matrix = profile.named(strongest)
    if matrix.empty:
        return []
    scores: Any = matrix.stack()
    largest = scores.sort_values(key=abs, ascending=False, kind="stable").head(_PAIRS)
    rows = [(*pair, score) for pair, score in largest.items()]
    words = f"{name} scores a peer by pairs of characteristics, in standard deviations, with the matrix M (of a head W_Q W_K')."
    words += " Positive: firms with much of the row's characteristic attend to peers with much of the column's."
    if (n := len(profile.heads)) > 1:
        words += f" It is that of the head with most weight ({profile.shares[strongest]:.0%}), of {n}."
    if len(matrix) < len(profile.matrices[strongest]):
        words += " Codes and indicators of missing values are not shown."
    columns = {"A firm with much": "l", "attends to peers with much": "l", "score": ".3f"}
    return [words, profile_picture(matrix, name), laid_out("The strongest pairs", columns, rows)]


def most_attended(network: PeerNetwork, title: str, k: int = 10) -> Table:
    """Return the firms that are given the most weight by all firms together, of signed weights in absolute value."""
    given = network.matrix().abs().sum().sort_values(ascending=False, kind="stable").head(k)
    rows = list(zip(map(show_label, given.index), given.tolist()))
    return Table(title, ("Firm", f"Sum of {'absolute ' * network.signed}weights given to it"), rows, alignment="lr")


def _top_peers(network: PeerNetwork) -> Table:
    """Return the peers with the most weight: of every firm, or of all firms together in a large network."""
    if len(network.firms) > _FIRMS_LISTED:
        return most_attended(network, "Firms with the largest incoming weight")
    rows = [(show_label(firm), *first_peers(network, firm)) for firm in network.edges()["firm"].unique()]
    return Table("The peers with the largest weights", ("Firm", *FIRST), rows)


def first_peers(network: PeerNetwork, firm: object) -> list[str]:
    """Return the other firms with a firm's three largest weights, and the weights; blank where they are below .005."""
    found = network.peers(firm, k=4)
    found = found[(found["peer"] != firm) & (found["weight"].abs() >= 0.005)].head(len(FIRST))
    pairs = zip(found["peer"], found["weight"])
    named = [f"{show_label(peer)} {with_minus(f'{weight:.2f}', weight)}" for peer, weight in pairs]
    return named + [""] * (len(FIRST) - len(named))


def _one_sided(network: PeerNetwork) -> Block:
    """Return the pairs with the largest direction net of popularity; a signed network, or one without direction, has none."""
    if network.signed:
        return ""
    try:
        pairs = network.asymmetry().most_one_sided(8)
    except InputError:  # no firm both attends and is attended to
        return ""
    pairs = pairs[pairs["direction"].abs() >= 0.005]
    if pairs.empty:
        return "No pair of firms is one-sided beyond how popular each of them is; with a symmetric kernel none can be."
    heads = ["Firm", "Peer", "Weight on the peer", "Peer's weight on the firm", "Direction"]
    displayed = pairs[["firm", "peer", "weight", "reverse", "direction"]].set_axis(heads, axis=1)
    note = "Direction: the log ratio of the two weights minus that of the firms' popularity. Ordered by the weight that it moves."
    title = "The most one-sided pairs, net of how popular each firm is"
    return Table.from_frame(displayed, title=title, formats={"Direction": ".2f"}, footnotes=(note,))


def _isolates(network: PeerNetwork) -> str:
    isolates = [show_label(firm) for firm in network.isolates["firm"]]
    if not isolates:
        return "Every firm has at least one peer."
    first = ", ".join(isolates[:10]) + ", …" * (len(isolates) > 10)
    return f"Firms without any peer: {len(isolates)} ({first})."


def peers_by_model(compared: WithClaims) -> list[Block]:
    """Return how widely each model spreads its weights, how much within the industry, how alike, and the first peers of some."""
    networks = {name: net for name, net in compared.networks.items() if len(net.isolates) < len(net.firms)}
    training = [name for name in networks if compared.note(name).information not in (COMMON, PEERS)]
    if len(networks) < 2 or len(training) == len(networks):
        return []
    main = next(name for name in (compared.claims.network, *networks) if name in networks)
    when = show_label(networks[main].periods[0])
    words = f"The firms whose outcomes or characteristics each model uses in its predictions for {when}, from its last fit."
    if training:
        sums = "weighted sums of training outcomes, and the weights of a firm's training rows are added up"
        words += f" Predictions of {listed(training)} are {sums} (Geertsema and Lu 2023)."
    return [words, _spread(networks, main, few_codes(compared)), *_first_peers(networks, main)]


def _spread(networks: dict[str, PeerNetwork], main: str, codes: pd.Series | None) -> Table:
    rows: list[tuple[object, ...]] = []
    for name, network in networks.items():
        _, section = network.section()
        itself = float(np.abs(section.on_itself()).sum() / abs(section.weights).sum())
        median = float(effective_peers(network)["effective_peers"].median())
        row = [name, len(network.firms), median, itself]
        if codes is not None:
            row += within_codes(network, codes)[["share", "chance"]].tolist()
        matching = None if name == main else network_correlation(network, networks[main])
        rows.append((*row, matching))
    columns = {"Model": "l", "Firms": ",", "Effective peers": ",.1f", "On itself": ".0%"}
    note = "Effective peers: median of 1 / Σ_j p_ij², p_ij = |w_ij| / Σ_j |w_ij|. On itself: share of |w|."
    if codes is not None:
        columns |= {f"Within the {codes.name}": ".0%", "By chance": ".0%"}
        note += f" Within the {codes.name}: share of the |w| on other firms; by chance: if it were even over them."
    note += f" Correlation: with the weights of {main}, on other firms."
    return laid_out("Effective peers, weight within the industry, and agreement", columns | {"Correlation": ".2f"}, rows, note)


def _first_peers(networks: dict[str, PeerNetwork], main: str) -> list[Table]:
    """Return the other firms with the largest weights, of those firms all networks have that most others attend to."""
    common = set.intersection(*(set(network.firms) for network in networks.values()))
    _, section = networks[main].section()
    # the best known peers are what a reader recognises
    given = pd.Series(np.abs(section.column_sums()), networks[main].labels.take(section.columns))
    firms = [firm for firm in networks[main].firms if firm in common]
    firms.sort(key=lambda firm: -given.get(firm, 0.0))  # 0: a universe of reference attends to none of them
    rows = [(show_label(firm), name, *first_peers(networks[name], firm)) for firm in firms[:_FIRMS] for name in networks]
    title = "The peers with the largest weights, by model"
    note = "Other firms only; those with a weight below .005 are left out."
    return [Table(title, ("Firm", "Model", *FIRST), rows, footnotes=(note,))] * bool(rows)
