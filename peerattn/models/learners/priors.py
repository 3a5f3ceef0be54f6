"""What is known of pairs of firms beforehand: a shared code, a given network, how they moved together."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from peerattn.exceptions import did_you_mean, expect
from peerattn.models.cross_section import CrossSection
from peerattn.models.given_network import NetworkStartsLater, network_period, network_weights
from peerattn.models.learners.past_outcomes import WINDOW
from peerattn.network import PeerNetwork


@dataclass(frozen=True)
class Comovement:
    r"""How firms moved together in the past, as the source of a prior: :math:`g_{ij} = \sqrt{T} z_i z_j' / (|z_i| |z_j|)`.

    z are a firm's outcomes in the last T periods before that of the row, net of its linear own part, in standard deviations of
    their period and 0 where unknown; a length below √6 counts as √6. Between firms that are independent g has about variance 1.
    Several windows give recent periods a weight of their own, which is learned. For panels with ``attention="self"``; a forecast
    knows the outcomes of training alone.

    Parameters
    ----------
    window : int, default 60
        Number of periods, from 1 to 96.

    Examples
    --------
    >>> from peerattn import PeerAttentionRegressor
    >>> model = PeerAttentionRegressor(task="nowcast", prior=[Comovement(12), Comovement(60)])
    """

    window: int = 60

    def __post_init__(self) -> None:
        whole = isinstance(self.window, Integral) and 1 <= self.window <= WINDOW
        expect(whole, "window", f"a whole number of periods from 1 to {WINDOW}", repr(self.window))


@dataclass(frozen=True)
class Prior:
    """A relation between firms that is added to the scores of attention.

    Parameters
    ----------
    source : str, PeerNetwork or Comovement
        A code column of ``X`` (firms of the same code are related), a network, or co-movement in the past. A network must never
        be built from outcomes of the periods that are predicted; one without periods holds in all of them.
    only : bool, default False
        False: the relation adds ``λ_h g_ij`` to the scores of head h, with λ learned (``g`` = 1 for the same code, ``w_ij`` over
        the largest weight for a network). True: firms attend to related firms only, those of positive ``g``.
    exclude : bool, default False
        Related firms are never peers (share classes of one company): a code's column, which is then not learned from. It holds
        for every part of a model.

    Examples
    --------
    >>> from peerattn.models import Prior
    >>> Prior("industry", only=True).only
    True
    """

    source: str | PeerNetwork | Comovement
    only: bool = False
    exclude: bool = False

    def __post_init__(self) -> None:
        expect(not (self.only and self.exclude), "Prior", "only=True or exclude=True", "both, which leave no peers")

    @property
    def name(self) -> str:
        """How reports call it."""
        if isinstance(self.source, str):
            return self.source
        if isinstance(self.source, Comovement):
            return f"co-movement over {self.source.window} periods"
        return self.source.name or "network"


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
    def reads_past(self) -> bool:
        """Whether past outcomes are used."""
        return any(isinstance(prior.source, Comovement) for prior in self.priors)

    def bias(self, section: CrossSection, rows: Any = slice(None)) -> np.ndarray | None:
        """Return what is added to the scores, (n_rows, n_peers): −∞ for the unrelated; None = nothing."""
        related = [self.relation(prior, section, rows) > 0 for prior in self.priors if prior.only]
        if not related:
            return None
        return np.where(np.all(related, axis=0), 0.0, -np.inf)

    def prior(self, section: CrossSection, rows: Any = slice(None)) -> np.ndarray | None:
        """Return the relations of learned strength, (n_rows, n_peers, K); None = there are none."""
        if not self.soft:
            return None
        return np.stack([self.relation(prior, section, rows) for prior in self.soft], axis=-1)

    def relation(self, prior: Prior, section: CrossSection, rows: Any = slice(None)) -> np.ndarray:
        """Return ``g_ij`` of one prior, (n_rows, n_peers)."""
        if isinstance(prior.source, str):
            mine, theirs = (r.codes[:, self.columns[prior.source]] for r in (section.focal, section.peers))
            return ((mine[rows, None] == theirs[None, :]) & (theirs[None, :] != 0)).astype(float)
        if isinstance(prior.source, Comovement):
            firms = (section.focal.label[rows], section.peers.label)
            return np.asarray(section.past.comovement(section.period, *firms, prior.source.window))
        return network_relation(prior.source, section, rows)


NO_TERMS = PairTerms((), {})


def network_relation(network: PeerNetwork, section: CrossSection, rows: Any = slice(None)) -> np.ndarray:
    """Return a given network's weights for this section's pairs, over the largest weight; zeros before it starts."""
    firms = section.focal.label[rows]
    peers = section.peers.label
    try:
        edges = network.edges(network_period(network, section.period))
    except NetworkStartsLater:
        return np.zeros((len(firms), len(peers)))
    weights = network_weights(network, section.period, firms, peers).toarray()
    return weights / (np.abs(edges["weight"].to_numpy()).max(initial=0.0) or 1.0)


def _listed(prior: Any) -> list[Any]:
    """Return the option ``prior`` as a list: it may be one item, or None."""
    if prior is None:
        return []
    if isinstance(prior, str | Prior | PeerNetwork | Comovement):
        return [prior]
    wanted = "a column, a Prior, a PeerNetwork, Comovement() or a list of them"
    expect(isinstance(prior, list | tuple), "prior", wanted, repr(prior))
    return list(prior)


def excluded_group(prior: Any) -> str | None:
    """Return the column whose groups are never peers, if one is named."""
    excluded = [p.source for p in _listed(prior) if isinstance(p, Prior) and p.exclude]
    return next((source for source in excluded if isinstance(source, str)), None)


def read_priors(prior: Any, code_names: Sequence[str]) -> tuple[Prior, ...]:
    """Return the option ``prior`` as a tuple of :class:`Prior`.

    Raises
    ------
    InputError
        When a column is no code of ``X``, ``"only"`` does not name the code, or what is excluded is no column.
    """
    priors = []
    for item in _listed(prior):
        if isinstance(item, str) and item == "only":
            remedy = "Name it, Prior(column, only=True)."
            expect(len(code_names) == 1, "prior", 'one code in X for "only"', list(code_names), remedy)
            item = Prior(code_names[0], only=True)
        if not isinstance(item, Prior):
            item = Prior(item)
        named = isinstance(item.source, str)
        kind = type(item.source).__name__
        known = named or isinstance(item.source, PeerNetwork | Comovement)
        expect(known, "prior", "a code column, a PeerNetwork or Comovement()", kind)
        if item.exclude:
            expect(named, "prior", "a code column in Prior(..., exclude=True)", kind)
            continue
        remedy = f"{did_you_mean(item.source, code_names)} Declare it in codes=."
        known = not named or item.source in code_names
        expect(known, "prior", f"a code column of X (codes: {', '.join(code_names) or 'none'})", repr(item.source), remedy)
        priors.append(item)
    return tuple(priors)
