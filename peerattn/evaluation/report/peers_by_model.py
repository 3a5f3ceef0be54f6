"""The section of a report that sets the peers inside its models side by side."""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerattn.evaluation.claims import Claims
from peerattn.evaluation.compared import Compared
from peerattn.evaluation.report.words import few_codes, within_codes
from peerattn.evaluation.running.information import COMMON, PEERS
from peerattn.network import PeerNetwork
from peerattn.network.measures.comparison import network_correlation
from peerattn.network.measures.concentration import effective_peers
from peerattn.render import Section, Table, show_label
from peerattn.render.cells import with_minus

_FIRMS = 5  # listed with their peers


def peers_by_model_section(compared: Compared, claims: Claims) -> list[Section]:
    """Return how widely each model looks, how much within the industry, how alike, and the first peers of some firms."""
    networks = {name: net for name, net in compared.networks.items() if len(net.isolates) < len(net.firms)}
    training = [name for name in networks if compared.note(name).step not in (COMMON, PEERS)]
    if len(networks) < 2 or len(training) == len(networks):
        return []
    shown = claims.network if claims.network in networks else next(iter(networks))
    when = show_label(networks[shown].periods[0])
    words = f"Whose outcomes or characteristics enter the predictions of each model for {when}, from its last fit."
    if training:
        *first, last = training
        names = f"{', '.join(first)} and {last}" if first else last
        words += (
            f" Of {names}, a prediction is a weighted sum of training outcomes, Σ_j w_ij y_j, and the weights of a firm's "
            'training rows are added up (Geertsema and Lu 2023): "on itself" is its own past.'
        )
    tables = [_spread(networks, shown, few_codes(compared)), *_first_peers(networks, shown)]
    return [Section("Peers by model", [words, *tables])]


def _spread(networks: dict[str, PeerNetwork], shown: str, codes: pd.Series | None) -> Table:
    rows: list[tuple[object, ...]] = []
    for name, network in networks.items():
        _, section = network.section()
        itself = float(np.abs(section.on_itself()).sum() / abs(section.weights).sum())
        median = float(effective_peers(network)["effective_peers"].median())
        within = [] if codes is None else within_codes(network, codes)[["share", "chance"]].tolist()
        alike = None if name == shown else network_correlation(network, networks[shown])
        rows.append((name, len(network.firms), median, itself, *within, alike))
    heads = ["Model", "Firms", "Effective peers", "On itself", "Correlation"]
    formats = ["", ",", ",.1f", ".0%", ".2f"]
    note = (
        "Effective peers: median of 1 / Σ_j p_ij², p_ij = |w_ij| / Σ_j |w_ij|. On itself: share of all |w|."
    )
    if codes is not None:
        heads[4:4], formats[4:4] = [f"Within the {codes.name}", "By chance"], [".0%", ".0%"]
        note += f" Within the {codes.name}: share of the |w| on other firms; by chance: if it were even over them."
    note += f" Correlation: with the weights of {shown}, on other firms."
    alignment = "l" + "r" * (len(heads) - 1)
    return Table("How wide, how near, how alike", heads, rows, alignment, formats, footnotes=(note,))


def _first_peers(networks: dict[str, PeerNetwork], shown: str) -> list[Table]:
    """Return the other firms with the largest weights, of those firms all networks have that most others look to."""
    common = set.intersection(*(set(network.firms) for network in networks.values()))
    _, section = networks[shown].section()
    given = pd.Series(np.abs(section.column_sums()), networks[shown].labels.take(section.columns))
    listed = [firm for firm in networks[shown].firms if firm in common]
    listed.sort(key=lambda firm: -given.get(firm, 0.0))  # 0: a universe of reference looks to none of them
    rows = [
        (show_label(firm) if k == 0 else "", name, *_named(network, firm))
        for firm in listed[:_FIRMS]
        for k, (name, network) in enumerate(networks.items())
    ]
    heads = ("Firm", "Model", "First", "Second", "Third")
    return [Table("The peers with the largest weights, by model", heads, rows, "lllll")] if rows else []


def _named(network: PeerNetwork, firm: object) -> list[str]:
    found = network.peers(firm, k=4)
    others = found[found["peer"] != firm].head(3)
    named = [
        f"{show_label(peer)} {with_minus(f'{w:.2f}', w)}" for peer, w in zip(others["peer"], others["weight"])
    ]
    return named + [""] * (3 - len(named))
