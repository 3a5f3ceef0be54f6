"""Networks that know nothing: what is left when peers are exchanged at random."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError, checked
from peerattn.network.attributes import characteristic
from peerattn.network.base import BaseNetwork, Net
from peerattn.network.cross_section import Array, CrossSection, frozen

Kind = Literal["relabelled", "rewired", "matched", "shuffled in time"]


@checked
def placebo(
    network: Net,
    kind: Kind = "rewired",
    *,
    values: pd.Series | None = None,
    n_groups: int = 10,
    random_state: int = 0,
) -> Net:
    """Return a network with the same weights on other peers.

    Parameters
    ----------
    network : PeerNetwork
        Square in each period.
    kind : {"rewired", "relabelled", "matched", "shuffled in time"}
        ``rewired``: each firm keeps its weights and gives them to random peers. ``relabelled``: firms
        exchange places, the network's shape stays. ``matched``: firms exchange places as peers only with
        firms of the same size group. ``shuffled in time``: each period gets another period's weights, among
        the firms of both; rows are normalised again.
    values : pandas.Series, optional
        Size by firm, or firm and period; needed by ``matched``.
    n_groups : int, default 10
        Size groups of ``matched``, by quantiles of each period; firms of unknown size form one.
    random_state : int, default 0
        Seed.

    Returns
    -------
    PeerNetwork
        A weight on oneself stays unchanged, and no firm gains one.

    Raises
    ------
    InputError
        When ``kind`` is unknown, ``values`` is missing, or the network is rectangular or has one period only where time
        is shuffled.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> network = PeerNetwork.from_matrices({None: ("ABC", None, np.eye(3)[[1, 2, 0]])})
    >>> placebo(network, "rewired", random_state=0).matrix().sum(axis=1).tolist()
    [1.0, 1.0, 1.0]
    """
    rng = np.random.default_rng(random_state)
    if kind not in ("relabelled", "rewired", "matched", "shuffled in time"):
        raise InputError(
            f"kind: expected 'relabelled', 'rewired', 'matched' or 'shuffled in time', got {kind!r}."
        )
    if any(not section.is_square for _, section in network.sections()):
        raise InputError(
            "placebo: focal firms and peers differ in some period; take subset(firms=...) of firms that are both."
        )
    if kind == "shuffled in time":
        return _shuffled_in_time(network, rng)
    if kind == "matched" and values is None:
        raise InputError("values: a matched placebo needs the size of firms.")
    sections = []
    for period, section in network.sections():
        if kind == "relabelled":
            order, weights = rng.permutation(len(section.rows)), cast("Any", section.weights)
            made = weights[order][:, order]
        else:
            groups = np.zeros(len(section.rows), dtype=int)
            if kind == "matched" and values is not None:
                groups = _size_groups(network, values, section.rows, period, n_groups)
            made = _rewired(section, groups, rng)
        sections.append(CrossSection(section.rows, section.rows, frozen(made)))
    return network.replaced(sections)


def _rewired(section: CrossSection, groups: Array, rng: np.random.Generator) -> Any:
    """Give each row's weights to other columns of the same group, own column apart."""
    size = len(groups)
    found = np.zeros((size, size), dtype=section.weights.dtype)
    dense = section.dense()
    for i in range(size):
        target = np.arange(size)
        for group in np.unique(groups):
            members = np.flatnonzero((groups == group) & (target != i))
            target[members] = rng.permutation(members)
        found[i, target] = dense[i]
    return sparse.csr_array(found) if section.is_sparse else found


def _size_groups(network: BaseNetwork, values: pd.Series, rows: Array, period: Any, count: int) -> Array:
    size = characteristic(network, values, rows, period, "values")
    known = ~np.isnan(size)
    groups = np.full(len(rows), -1)
    ranks = pd.Series(size[known]).rank(method="first").to_numpy() - 1
    groups[known] = (ranks * count // max(int(known.sum()), 1)).astype(int)
    return groups


def _shuffled_in_time(network: Net, rng: np.random.Generator) -> Net:
    stack = [section for _, section in network.sections()]
    if len(stack) < 2:
        raise InputError("kind: 'shuffled in time' needs several periods.")
    order = places = np.arange(len(stack))
    while (order == places).any():  # no period keeps its place
        order = rng.permutation(len(stack))
    sections = []
    for now, other in zip(stack, (stack[t] for t in order), strict=True):
        _, here, there = np.intersect1d(now.rows, other.rows, return_indices=True)
        found = np.zeros((len(now.rows), len(now.rows)))
        found[np.ix_(here, here)] = other.dense()[np.ix_(there, there)]
        if network.row_normalized:
            sums = found.sum(axis=1, keepdims=True)
            found = np.divide(found, sums, out=np.zeros_like(found), where=sums > 0)
        kept: Any = sparse.csr_array(found) if now.is_sparse else found
        sections.append(CrossSection(now.rows, now.rows, frozen(kept)))
    return network.replaced(sections)
