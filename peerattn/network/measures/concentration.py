"""How spread out weights are, over a firm's peers and over the firms that receive them; connectedness."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from peerattn.exceptions import validate_arguments
from peerattn.network.base import Network
from peerattn.network.cross_section import Array
from peerattn.network.measures.comparison import stability_sentence
from peerattn.render import Table, show_label


@validate_arguments
def in_strength(network: Network) -> pd.DataFrame:
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
    return network.tidy({"firm": s.columns, "in_strength": s.column_sums()} for _, s in network.sections())


@validate_arguments
def effective_peers(network: Network) -> pd.DataFrame:
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
    return network.tidy({"firm": s.rows, "effective_peers": s.effective()} for _, s in network.sections())


@validate_arguments
def concentration(network: Network) -> pd.DataFrame:
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
        # of signed weights the sizes: a negative weight is attention, too
        strength = np.asarray(abs(section.weights).sum(axis=0), dtype=np.float64).ravel()
        shares = strength / (strength.sum() or np.nan)
        effective = pd.Series(section.effective()).median()
        rows.append({"effective_peers": effective, "herfindahl": (shares**2).sum(), "gini": gini(strength)})
    return pd.DataFrame(rows, index=network.periods.rename("period"), columns=["effective_peers", "herfindahl", "gini"])


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
    size = len(ordered)
    return float((2 * np.arange(1, size + 1) - size - 1) @ ordered / (size * ordered.sum() or np.nan))


@validate_arguments
def connectedness(network: Network) -> pd.DataFrame:
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
        sides = {"to": (sizes.sum(axis=0), section.columns), "from": (sizes.sum(axis=1), section.rows)}
        found = pd.DataFrame({name: pd.Series(*side) for name, side in sides.items()}).sort_index()
        parts.append(found.assign(net=found["to"] - found["from"]).rename_axis("firm").reset_index())
    return network.tidy(parts)


def summary_table(network: Network) -> Table:
    """Return a summary: sizes, spread and isolates, a row for each period (of more than 24 every n-th).

    Returns
    -------
    Table

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 1.0], [1.0, 0.0]], list("AB"), list("AB"))
    >>> type(PeerNetwork.from_matrices({None: W}).table()).__name__
    'Table'
    """
    rows = [
        (len(section.rows), len(section.columns), section.n_edges, np.nan, np.nan, section.isolates().sum())
        for _, section in network.sections()
    ]
    names = ("Firms", "Candidate peers", "Edges", "Effective peers", "Gini", "Isolates")
    frame = pd.DataFrame(rows, index=network.periods.rename("Period"), columns=names)
    if network.top_k is None:
        frame[["Effective peers", "Gini"]] = concentration(network)[["effective_peers", "gini"]]
        notes = ["Effective peers: median over firms of 1 / Σ w². Gini: of the weight that firms receive."]
    else:
        notes = [f"Cut to the {network.kept_words()}: effective peers and Gini, which need all, are not known."]
    if network.row_normalized or network.signed:
        notes.append("Weights are predictive relevance, not causal peer effects.")
    if not frame["Edges"].any():
        notes.append("The network is empty: no firm has a peer. The model's evidence_ gives the reason.")
    if sentence := stability_sentence(network):
        notes.append(sentence)
    title = ": ".join(filter(None, ("Peer network", network.name)))
    return by_period_table(frame, title, notes, {"Effective peers": ".1f", "Gini": ".2f"})


def by_period_table(
    frame: pd.DataFrame, title: str, notes: list[str], formats: Mapping[str, str], *, mean: bool = False
) -> Table:
    """Return a table with a row for each period (of more than 24 for every n-th), and the mean of several periods last."""
    step = max(1, -(-len(frame) // 24))
    displayed = frame[::step].set_axis([show_label(period) or "undated" for period in frame.index[::step]])
    if mean and len(frame) > 1:
        displayed = pd.concat([displayed, frame.mean().to_frame("mean").T])
    if step > 1:
        notes = [*notes, f"One in {step} of {len(frame)} periods{'; the mean is over all' * mean}."]
    displayed = displayed.rename_axis("Period").reset_index()
    return Table.from_frame(displayed, title=title, formats=formats, footnotes=notes)
