"""Networks that know nothing: what is left when peers are exchanged at random."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from scipy import sparse

from peerattn.exceptions import InputError, checked
from peerattn.network.base import Net
from peerattn.network.cross_section import CrossSection, frozen

Kind = Literal["relabelled", "rewired"]


@checked
def placebo(network: Net, kind: Kind = "rewired", *, random_state: int = 0) -> Net:
    """Return a network with the same weights on other peers.

    Parameters
    ----------
    network : PeerNetwork
        Square in each period.
    kind : {"rewired", "relabelled"}
        ``rewired``: each firm keeps its weights and gives them to random peers. ``relabelled``: firms
        exchange places, the network's shape stays.
    random_state : int, default 0
        Seed.

    Returns
    -------
    PeerNetwork
        A weight on oneself stays unchanged, and no firm gains one.

    Raises
    ------
    InputError
        When ``kind`` is unknown, or the network is rectangular.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 2, 0]])})
    >>> placebo(network, "rewired", random_state=0).matrix().sum(axis=1).tolist()
    [1.0, 1.0, 1.0]
    """
    rng = np.random.default_rng(random_state)
    if any(not section.is_square for _, section in network.sections()):
        raise InputError(
            "placebo: focal firms and peers differ in some period; take subset(firms=...) of firms that are both."
        )
    sections = []
    for _, section in network.sections():
        order, weights = rng.permutation(len(section.rows)), cast("Any", section.weights)
        made = weights[order][:, order] if kind == "relabelled" else _rewired(section, rng)
        sections.append(CrossSection(section.rows, section.rows, frozen(made)))
    return network.replaced(sections)


def _rewired(section: CrossSection, rng: np.random.Generator) -> Any:
    """Give each row's weights to other columns, own column apart."""
    dense = section.dense()
    found = np.zeros_like(dense)
    for i, row in enumerate(dense):
        others = np.flatnonzero(np.arange(len(row)) != i)
        found[i, i], found[i, rng.permutation(others)] = row[i], row[others]
    return sparse.csr_array(found) if section.is_sparse else found
