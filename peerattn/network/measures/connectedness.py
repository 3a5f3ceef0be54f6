"""To, from and net: how much firms give to each other and take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from peerattn.network.cross_section import Array, CrossSection

if TYPE_CHECKING:
    from peerattn.network.peer_network import PeerNetwork


def connectedness(network: PeerNetwork) -> pd.DataFrame:
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
        Columns ``period, firm, to, from, net``; NaN where a firm is not looked to (``to``) or does not look (``from``).
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
    blocks = []
    for period, section in network.sections():
        firms = np.union1d(section.rows, section.columns)
        given, taken = np.full(len(firms), np.nan), np.full(len(firms), np.nan)
        rows, columns, sizes = _sizes(section)
        given[np.searchsorted(firms, section.columns)] = np.bincount(columns, sizes, len(section.columns))
        taken[np.searchsorted(firms, section.rows)] = np.bincount(rows, sizes, len(section.rows))
        blocks.append(
            pd.DataFrame(
                {
                    "period": [period] * len(firms),
                    "firm": network.labels.take(firms),
                    "to": given,
                    "from": taken,
                    "net": given - taken,
                }
            )
        )
    return pd.concat(blocks, ignore_index=True)


def _sizes(section: CrossSection) -> tuple[Array, Array, Array]:
    """Row, column and size of every weight on another firm."""
    i, j, w = section.entries()
    other = section.rows[i] != section.columns[j]
    return i[other], j[other], np.abs(w[other]).astype(np.float64)
