"""One firm's peers, its followers, and the firms between it and another."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, check_count, validate_arguments
from peerattn.network.base import Net, Network, Side
from peerattn.network.cross_section import as_dense, where_in


def peers(network: Network, firm: Hashable, period: Hashable = None, k: int | None = 10) -> pd.DataFrame:
    """Return a firm's peers, most weight first.

    Parameters
    ----------
    firm : label
        The focal firm.
    period : label, optional
        Default: the mean over the periods in which the firm has a peer.
    k : int, optional
        Largest number of rows; None for all.

    Returns
    -------
    pandas.DataFrame
        Columns ``peer, weight``, zero weights left out. The title above the columns shows whether weights are means over
        periods, and gives the effective number of peers, 1 / Σ w² of weights that sum to one, and how much of the firm's
        weight those shown have together:
        five peers of 1 % each are the top of a flat list. Where a model averages training rows, a firm's own past is among them.

    Raises
    ------
    InputError
        When the firm or period is unknown, or is not a focal firm in that period.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> network.peers("A", k=2)["peer"].tolist()
    ['B', 'C']
    """
    chosen, position = found_firm(network, firm, period, "rows")
    weights = as_dense(mean_weights(chosen, position))[0]
    found = largest_first(pd.DataFrame({"peer": network.labels, "weight": weights}), k)
    if not weights.any():
        return found
    sizes = np.abs(weights)
    displayed = found["weight"].abs().sum()
    if chosen.top_k is None:
        share = f"{displayed / sizes.sum():.1%}{' of all |w|' * chosen.signed} shown"
        title = f"{sizes.sum() ** 2 / (sizes @ sizes):,.1f} effective peers, {share}"
    else:
        title = f"top {chosen.top_k} kept" + f", {displayed:.1%} shown" * (not chosen.signed)
    if period is None and len(network.periods) > 1:
        title = f"mean over periods: {title}"
    # its own earlier periods, where a model averages training rows
    title += ", the firm itself included" * bool(weights[position])
    return found.rename_axis(columns=title)


def followers(network: Network, firm: Hashable, period: Hashable = None, k: int | None = 10) -> pd.DataFrame:
    """Return a firm's followers, the firms that have it as a peer, most weight first.

    Parameters
    ----------
    firm : label
        The peer.
    period : label, optional
        Default: for each follower, the mean over the periods in which it has a peer, so that
        ``followers(j)`` shows for i what ``peers(i)`` shows for j.
    k : int, optional
        Largest number of rows; None for all.

    Returns
    -------
    pandas.DataFrame
        Columns ``firm, weight``, zero weights left out.

    Raises
    ------
    InputError
        When the firm or period is unknown, or is not a possible peer in that period.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> network.followers("A", k=2)
      firm  weight
    0    C     1.0
    1    B     0.5
    """
    chosen, position = found_firm(network, firm, period, "columns")
    weights = as_dense(mean_weights(chosen, peers=position))[:, 0]
    return largest_first(pd.DataFrame({"firm": network.labels, "weight": weights}), k)


@validate_arguments
def paths(network: Network, firm: Hashable, peer: Any, period: Hashable = None, *, k: int | None = 10) -> pd.DataFrame:
    """Return the paths of two steps from a firm to a peer: ``w_ij w_jk`` for every j between i and k.

    Parameters
    ----------
    network : PeerNetwork
    firm, peer : label
        The focal firm (i) and the peer of its peers (k).
    period : label, optional
        May be left out when there is only one.
    k : int, optional
        Largest number of firms between; None for all.

    Returns
    -------
    pandas.DataFrame
        Columns ``through, firm_to_through, through_to_peer, weight``, the largest first. The weights of all paths
        add up to the entry of W².

    Raises
    ------
    InputError
        When a label is unknown or not of this period.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 0.9, 0.1], [0.2, 0.0, 0.8], [0.6, 0.4, 0.0]])
    >>> paths(PeerNetwork.from_matrices({1: ("ABC", None, W)}), "A", "C")
      through  firm_to_through  through_to_peer  weight
    0       B              0.9              0.8    0.72
    """
    _, section = network.section(period)  # one period, not the mean over several
    one, i = found_firm(network, firm, period, "rows")
    _, end = found_firm(one, peer, None, "columns", "peer")
    everyone = np.arange(len(network.labels))
    # one row times one column: no product of whole matrices for one pair
    first, second = (as_dense(section.block(*ends)).ravel() for ends in (([i], everyone), (everyone, [end])))
    steps = {"through": network.labels, "firm_to_through": first, "through_to_peer": second}
    return largest_first(pd.DataFrame(steps | {"weight": first * second}), k)


def found_firm(network: Net, firm: Hashable, period: Hashable, side: Side, argument: str = "firm") -> tuple[Net, int]:
    """Return the network of the periods meant and a firm's position, or an error that names the side where it is missing."""
    chosen = network.at(period)
    position = chosen.firm_position(firm)
    if not chosen.occurs(position, side):
        lack = {"rows": "focal firm", "columns": "possible peer"}[side]
        if len(chosen.periods) == 1:
            lack += where_in(chosen.periods[0])
        raise InputError(f"{argument}: {chosen.labels.tolist()[position]!r} is not a {lack}.")
    return chosen, position


def largest_first(frame: pd.DataFrame, k: int | None) -> pd.DataFrame:
    """Return the rows with a ``weight``, at most ``k``, by its absolute size; of equal ones the earlier first."""
    check_count(k=k)
    kept = frame[frame["weight"] != 0].sort_values("weight", key=np.abs, ascending=False, kind="stable")
    return kept[:k].reset_index(drop=True)


def mean_weights(network: Network, firms: npt.ArrayLike | None = None, peers: npt.ArrayLike | None = None) -> Any:
    """Return mean weights of firms on peers, by their positions in the labels, shape (len(firms), len(peers)).

    By default of and on all labels. The mean of a firm is over the periods in which it has a peer, whoever that is; a peer
    absent in one of them counts zero there. Sparse where all periods are.
    """
    everyone = np.arange(len(network.labels))
    firms, peers = (everyone if side is None else np.atleast_1d(side) for side in (firms, peers))
    # of each firm over its own periods: one that was listed late is not diluted by the years before
    counts = np.zeros(len(firms))
    total = sparse.csr_array((len(firms), len(peers)))
    for _, section in network.sections():
        counts += np.isin(firms, section.rows[~section.isolates()])
        total = total + section.block(firms, peers)
    return total * (1.0 / np.maximum(counts, 1))[:, None]
