"""The links that stand out: the disparity filter."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network.base import Net
from peerattn.network.cross_section import Array, CrossSection, frozen


def backbone(
    network: Net, *, level: float = 0.05, side: Literal["either", "looking", "looked to"] = "either"
) -> Net:
    """Keep the weights too large to be one of k random pieces of a firm's total: ``(1 − w / s)^(k − 1) < level``.

    Parameters
    ----------
    network : PeerNetwork
        Not signed.
    level : float, default 0.05
        Between 0 and 1; smaller keeps less.
    side : {"either", "looking", "looked to"}
        Whose total the weight is compared with: the firm's that looks (its row), the firm's looked to (its
        column), or either.

    Returns
    -------
    PeerNetwork
        The kept weights as they were, sparse; rows may sum to less than one.

    Raises
    ------
    InputError
        When the network is signed, ``level`` is not between 0 and 1, or ``side`` is unknown.

    References
    ----------
    Serrano, Boguñá and Vespignani (2009), "Extracting the multiscale backbone of complex weighted networks",
    PNAS 106, equation 2.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0, 0.98, 0.01, 0.01], [0.34, 0, 0.33, 0.33], [0.34, 0.33, 0, 0.33], [0.33, 0.33, 0.34, 0]])
    >>> network = PeerNetwork.from_matrices({None: ("ABCD", None, W)})
    >>> backbone(network, side="looking").edges()[["firm", "peer", "weight"]]
      firm peer  weight
    0    A    B    0.98
    """
    if network.signed:
        raise InputError(
            "backbone: the disparity filter needs weights that are not negative; the network is signed."
        )
    if not 0 < level < 1:
        raise InputError(f"level: expected a number between 0 and 1, got {level!r}.")
    if side not in ("either", "looking", "looked to"):
        raise InputError(f"side: expected 'either', 'looking' or 'looked to', got {side!r}.")
    sections = []
    for _, section in network.sections():
        i, j, w = section.entries()
        shape = (len(section.rows), len(section.columns))
        kept = np.zeros(len(w), dtype=bool)
        if side != "looked to":
            kept |= _stands_out(i, w, shape[0]) < level
        if side != "looking":
            kept |= _stands_out(j, w, shape[1]) < level
        weights = sparse.csr_array((w[kept], (i[kept], j[kept])), shape=shape)
        sections.append(CrossSection(section.rows, section.columns, frozen(weights)))
    return network.replaced(sections, row_normalized=False)


def _stands_out(firm: Array, weights: Array, size: int) -> Array:
    """The chance that a random piece of a firm's total is at least so large; 1 for its only link."""
    total = np.bincount(firm, weights=weights, minlength=size)[firm]
    degree = np.bincount(firm, minlength=size)[firm]
    return np.where(degree > 1, (1 - weights / total) ** (degree - 1), 1.0)
