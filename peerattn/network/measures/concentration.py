"""How spread out weights are, over a firm's peers and over the firms that receive them; connectedness."""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerattn.exceptions import checked
from peerattn.network.base import BaseNetwork
from peerattn.network.cross_section import Array
from peerattn.network.measures.comparison import stability_sentence
from peerattn.render import Table, show_label


@checked
def in_strength(network: BaseNetwork) -> pd.DataFrame:
    """Return the weight each firm receives: the sum of its column, ``s_j = Σ_i w_ij``.

    Parameters
    ----------
    network : PeerNetwork

    Returns
    -------
    pandas.DataFrame
        Columns ``period, firm, in_strength``. The mean is the share of focal firms with a peer; of a signed network the
        signed sum.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"firm": ["A", "B", "C"], "peer": ["C", "C", "A"], "weight": 1.0})
    >>> in_strength(PeerNetwork.from_edges(edges)).drop(columns="period")
      firm  in_strength
    0    A          1.0
    1    B          0.0
    2    C          2.0
    """
    network.check_whole("in_strength")
    sections = [section for _, section in network.sections()]
    strength = [section.column_sums() for section in sections]
    return network.labelled({"firm": [section.columns for section in sections], "in_strength": strength})


@checked
def effective_peers(network: BaseNetwork) -> pd.DataFrame:
    """Return how many peers each firm in effect has: ``1 / Σ_j p_ij²`` with ``p_ij = |w_ij| / Σ_j |w_ij|``.

    Parameters
    ----------
    network : PeerNetwork

    Returns
    -------
    pandas.DataFrame
        Columns ``period, firm, effective_peers``: k for equal weights on k peers, NaN for an isolate.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"firm": ["A", "A"], "peer": ["B", "C"], "weight": 0.5})
    >>> effective_peers(PeerNetwork.from_edges(edges)).effective_peers.tolist()
    [2.0, nan, nan]
    """
    network.check_whole("effective_peers")
    sections = [section for _, section in network.sections()]
    effective = [section.effective() for section in sections]
    return network.labelled({"firm": [section.rows for section in sections], "effective_peers": effective})


@checked
def concentration(network: BaseNetwork) -> pd.DataFrame:
    """Return how concentrated attention is, per period.

    Parameters
    ----------
    network : PeerNetwork

    Returns
    -------
    pandas.DataFrame
        Index ``period``; ``effective_peers`` (median over firms), ``herfindahl`` (Σ of squared shares of
        in-strength: 1/n when all receive the same, 1 when one receives all) and ``gini`` of in-strength
        (0 when all receive the same). Sizes of weights are used where they are signed.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> edges = pd.DataFrame({"period": 1, "firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0})
    >>> concentration(PeerNetwork.from_edges(edges))
            effective_peers  herfindahl  gini
    period
    1                   1.0         0.5   0.0
    """
    network.check_whole("concentration")
    rows = []
    for _, section in network.sections():
        strength = np.asarray(abs(section.weights).sum(axis=0), dtype=np.float64).ravel()
        effective = section.effective()
        known = effective[~np.isnan(effective)]
        total = strength.sum()
        rows.append(
            {
                "effective_peers": float(np.median(known)) if len(known) else np.nan,
                "herfindahl": float(((strength / total) ** 2).sum()) if total else np.nan,
                "gini": gini(strength),
            }
        )
    return pd.DataFrame(rows, index=network.periods.rename("period"))


def gini(values: Array) -> float:
    """Return the Gini coefficient ``Σ_ij |x_i − x_j| / (2 n² mean)`` of values that are not negative.

    Parameters
    ----------
    values : ndarray, shape (n,)

    Returns
    -------
    float
        Between 0 (all alike) and 1 − 1/n (one has all); NaN when all are zero.

    Examples
    --------
    >>> gini(np.array([1.0, 1.0])), gini(np.array([0.0, 1.0]))
    (0.0, 0.5)
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    total, size = ordered.sum(), len(ordered)
    if size == 0 or total == 0:
        return float("nan")
    return float((2 * np.arange(1, size + 1) - size - 1) @ ordered / (size * total))


@checked
def connectedness(network: BaseNetwork) -> pd.DataFrame:
    """Return how much each firm gives to others, takes from others, and the difference.

    ``from_i = Σ_{j≠i} |w_ij|``, ``to_j = Σ_{i≠j} |w_ij|``, ``net = to − from``.

    Parameters
    ----------
    network : PeerNetwork
        Best a network of contributions, :func:`peerattn.models.contributions`: of weights that sum to one, ``from`` is
        always one.

    Returns
    -------
    pandas.DataFrame
        Columns ``period, firm, to, from, net``; NaN where a firm is no possible peer (``to``) or no focal firm (``from``).
        Over firms that do both, net adds up to zero.

    References
    ----------
    Diebold and Yilmaz (2014), "On the network topology of variance decompositions: Measuring the connectedness of
    financial firms", Journal of Econometrics 182.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 2.0], [0.5, 0.0]])
    >>> network = PeerNetwork.from_matrices({None: ("AB", None, W)}, row_normalized=False)
    >>> connectedness(network).drop(columns="period")
      firm   to  from  net
    0    A  0.5   2.0 -1.5
    1    B  2.0   0.5  1.5
    """
    network.check_whole("connectedness")
    parts = []
    for _, section in network.sections():
        sizes = abs(section.others()).astype(np.float64)
        sides = {"to": (section.columns, sizes.sum(axis=0)), "from": (section.rows, sizes.sum(axis=1))}
        found = pd.DataFrame(
            {name: pd.Series(sums, firms) for name, (firms, sums) in sides.items()}
        ).sort_index()
        parts.append(found.assign(net=found["to"] - found["from"]).rename_axis("firm").reset_index())
    columns = ("firm", "to", "from", "net")
    return network.labelled({name: [part[name] for part in parts] for name in columns})


@checked
def summary_table(network: BaseNetwork) -> Table:
    """Return a summary: sizes, spread and isolates, a row for each period (of more than 24 every n-th).

    Returns
    -------
    Table
    """
    step = max(1, -(-len(network.periods) // 24))
    whole = network.top_k is None
    spread = np.full((len(network.periods), 2), np.nan)
    if whole:
        spread = concentration(network)[["effective_peers", "gini"]].to_numpy()
    rows = []
    for (period, section), measures in list(zip(network.sections(), spread))[::step]:
        counts = (len(section.rows), len(section.columns), section.n_edges)
        rows.append((show_label(period) or "undated", *counts, *measures, int(section.isolates().sum())))
    notes = [
        "Effective peers: median over firms of 1 / Σ w². Gini: of the weight that firms receive."
        if whole
        else f"Cut to the {network.kept_words()}: effective peers and Gini, which need all, are not known."
    ]
    if step > 1:
        notes.append(f"One in {step} of {len(network.periods)} periods.")
    if network.row_normalized or network.signed:
        notes.append("Weights are predictive relevance, not causal peer effects.")
    if not any(section.n_edges for _, section in network.sections()):
        notes.append("The network is empty: no firm has a peer.")
    notes += [sentence] if (sentence := stability_sentence(network)) else []
    return Table(
        ": ".join(part for part in ("Peer network", network.name) if part),
        ("Period", "Firms", "Possible peers", "Edges", "Effective peers", "Gini", "Isolates"),
        rows,
        formats=("", ",.0f", ",.0f", ",.0f", ".1f", ".2f", ",.0f"),
        footnotes=notes,
    )
