"""What is known of pairs of firms beforehand: a shared code, a given network, frequency weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerattn.exceptions import did_you_mean, expect
from peerattn.models.cross_section import CrossSection
from peerattn.models.given_network import NetworkStartsLater, network_period, network_weights
from peerattn.network import PeerNetwork

# weight that heads first put on firms of the same code; the rest is for all firms and the null peer, so that heads can leave
GROUP_SHARE = 0.95


@dataclass(frozen=True)
class Prior:
    """A relation between firms that is added to the scores of attention.

    Parameters
    ----------
    source : str or PeerNetwork
        A code column of ``X`` (firms of the same code are related), or a network. A network must never be built from
        outcomes of the periods that are predicted; one without periods holds in all of them.
    only : bool, default False
        False: the relation adds ``λ_h g_ij`` to the scores of head h, with λ learned (``g`` = 1 for the same code, ``w_ij`` over
        the largest weight for a network). True: firms attend to related firms only.
    exclude : bool, default False
        Related firms are never peers (share classes of one company): a code's column, which is then not learned from. It holds
        for every part of a model.

    Examples
    --------
    >>> from peerattn.models import Prior
    >>> Prior("industry", only=True).only
    True
    """

    source: str | PeerNetwork
    only: bool = False
    exclude: bool = False

    @property
    def name(self) -> str:
        """How reports call it."""
        return self.source if isinstance(self.source, str) else self.source.name or "network"


@dataclass(frozen=True)
class PairTerms:
    """Computes the pair terms of any cross-section; knows at which code columns to look.

    Attributes
    ----------
    priors : tuple of Prior
    columns : dict
        Position of each code column.
    stacked : bool
        Whether there are layers in which peers attend to each other.
    """

    priors: tuple[Prior, ...]
    columns: dict[str, int]
    stacked: bool = False

    @property
    def soft(self) -> tuple[Prior, ...]:
        """Priors of learned strength."""
        return tuple(prior for prior in self.priors if not prior.only)

    @property
    def grouped(self) -> bool:
        """Whether heads start from the groups of the codes: where there are codes and no relation was named."""
        return bool(self.columns) and not self.priors

    def bias(self, section: CrossSection, rows: Any = slice(None)) -> np.ndarray | None:
        """Return what is added to the scores, (n_rows, n_peers): log weights and odds, −∞ for the unrelated; None = nothing."""
        bias = frequency_bias(section, rows)
        if self.grouped:
            odds = group_log_odds(section, list(self.columns.values()), rows)
            bias = odds if bias is None else bias + odds
        for prior in self.priors:
            if prior.only:
                related = self.relation(prior, section, rows) > 0
                bias = np.where(related, 0.0 if bias is None else bias, -np.inf)
        return bias

    def prior(self, section: CrossSection, rows: Any = slice(None)) -> np.ndarray | None:
        """Return the relations of learned strength, (n_rows, n_peers, K); None = there are none."""
        relations = [self.relation(prior, section, rows) for prior in self.soft]
        return np.stack(relations, axis=-1) if relations else None

    def isolated(self, section: CrossSection, rows: Any = slice(None)) -> np.ndarray:
        """Return which focal rows have no admissible peer."""
        may = section.admissible(rows)
        bias = self.bias(section, rows)
        return np.asarray(~(may if bias is None else may & np.isfinite(bias)).any(axis=1))

    def relation(self, prior: Prior, section: CrossSection, rows: Any = slice(None)) -> np.ndarray:
        """Return ``g_ij`` of one prior, (n_rows, n_peers)."""
        if isinstance(prior.source, str):
            return same_code(section, self.columns[prior.source], rows)
        return network_relation(prior.source, section, rows)


NO_TERMS = PairTerms((), {})


def group_log_odds(section: CrossSection, columns: Sequence[int], rows: slice | np.ndarray = slice(None)) -> np.ndarray:
    r"""Return the log odds of each peer against the null peer when the groups of codes have most of the weight.

    .. math:: g_{ij} = \log\Big(1 + \frac{s}{1 - s} \sum_{c} \frac{1\{c_i = c_j\}}{C_i \, n_{ic}} (n_i + 1)\Big)

    Softmax of :math:`g` gives the share :math:`s` (``GROUP_SHARE``) to firms of the same code, in equal parts to the
    :math:`C_i` codes in which firm i has peers and within a code to its :math:`n_{ic}` peers alike, and the rest to all
    :math:`n_i` candidate peers and the null peer alike. A firm without a peer of its codes starts with all alike. Frequency
    weights count a peer as often as they are.

    Returns
    -------
    ndarray (n_rows, n_peers)
    """
    bias = frequency_bias(section, rows)
    mass = section.admissible(rows).astype(float)
    if bias is not None:
        mass *= np.exp(bias)
    everyone = mass.sum(axis=1, keepdims=True) + 1.0
    share_of = np.zeros_like(mass)
    n_codes = np.zeros_like(everyone)
    for column in columns:
        same = same_code(section, column, rows)
        size = (mass * same).sum(axis=1, keepdims=True)
        share_of += np.divide(same, size, out=np.zeros_like(mass), where=size > 0)
        n_codes += size > 0
    odds = GROUP_SHARE / (1 - GROUP_SHARE) * everyone / np.maximum(n_codes, 1.0)
    return np.log1p(odds * share_of)


def same_code(section: CrossSection, column: int, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
    """Return 1 where focal row and peer have the same code and it is known, else 0, (n_rows, n_peers)."""
    mine = section.focal.codes[rows, column]
    theirs = section.peers.codes[:, column]
    return ((mine[:, None] == theirs[None, :]) & (theirs[None, :] > 0)).astype(float)


def network_relation(network: PeerNetwork, section: CrossSection, rows: Any = slice(None)) -> np.ndarray:
    """Return a given network's weights for this section's pairs, over the largest weight; zeros before it starts."""
    firms = section.focal.label[rows]
    peers = section.peers.label
    try:
        largest = network.edges(network_period(network, section.period))["weight"].abs().max()
    except NetworkStartsLater:
        return np.zeros((len(firms), len(peers)))
    weights = network_weights(network, section.period, firms, peers).toarray()
    return weights / largest if weights.any() else weights


def frequency_bias(section: CrossSection, rows: Any = slice(None)) -> np.ndarray | None:
    """Return log frequency weights of the peers, (n_rows, n_peers); None where all are one."""
    weight = section.peers.weight
    if weight is None:
        return None
    with np.errstate(divide="ignore"):
        bias = np.repeat(np.log(weight)[None, :], len(section.focal), axis=0)
        if section.own_copies:  # a row counted w times has w − 1 copies of itself for peers
            np.fill_diagonal(bias, np.log(np.maximum(weight - 1, 0)))
    return bias[rows]


def excluded_group(prior: Any) -> str | None:
    """Return the column whose groups are never peers, if one is named."""
    listed = prior if isinstance(prior, list | tuple) else [prior]
    return next(
        (p.source for p in listed if isinstance(p, Prior) and p.exclude and isinstance(p.source, str)), None
    )


def read_priors(prior: Any, code_names: Sequence[str]) -> tuple[Prior, ...]:
    """Return the option ``prior`` as a tuple of :class:`Prior`.

    Raises
    ------
    InputError
        When a column is no code of ``X``, or ``"only"`` does not name the code.
    """
    if prior is None:
        return ()
    if isinstance(prior, str | Prior | PeerNetwork):
        prior = [prior]
    wanted = "a column, a Prior, a PeerNetwork or a list of them"
    expect(isinstance(prior, list | tuple), "prior", wanted, repr(prior))
    priors = []
    for item in prior:
        if isinstance(item, str) and item == "only":
            remedy = "Name it, Prior(column, only=True)."
            expect(len(code_names) == 1, "prior", 'one code in X for "only"', list(code_names), remedy)
            item = Prior(code_names[0], only=True)
        item = item if isinstance(item, Prior) else Prior(item)
        named = isinstance(item.source, str)
        kind = type(item.source).__name__
        expect(named or isinstance(item.source, PeerNetwork), "prior", "a code column or a PeerNetwork", kind)
        if item.exclude:
            continue
        remedy = f"{did_you_mean(item.source, code_names)} Declare it in codes=."
        known = not named or item.source in code_names
        expect(known, "prior", f"a code column of X, of {list(code_names)}", repr(item.source), remedy)
        priors.append(item)
    return tuple(priors)
