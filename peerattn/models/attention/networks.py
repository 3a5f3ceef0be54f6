"""What a fitted stack shows: networks of its parts, single heads, their vectors, and search profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, check_at_least, check_one_of, expect
from peerattn.models.base import NetworkMaker
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.heads.heads import Heads
from peerattn.models.learners.heads.search_profile import SearchProfile
from peerattn.models.learners.heads.strongest_peers import strongest_peers
from peerattn.models.stacking.candidates import COVARIANCE, RIDGE
from peerattn.models.stacking.fit import Stack
from peerattn.network import PeerNetwork
from peerattn.panel.design import Design
from peerattn.panel.panel import Panel
from peerattn.training import one_thread
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike


@dataclass(frozen=True)
class Chosen:
    """The part of a fitted stack that a network shows: heads of a layer, or parts with signed weights.

    Attributes
    ----------
    heads : Heads
    layer : int or None
        An earlier layer; None is the last one.
    part : str or None
        A covariance or a ridge alone; None is the whole prediction.
    of_heads : bool
        Whether weights are those of the heads.
    top_k : int or None
        Of heads of the last layer the strongest peers are found without an array of all pairs.
    """

    heads: Heads
    layer: int | None
    part: str | None
    of_heads: bool
    top_k: int | None

    def weights(self, stack: Stack, prepared: CrossSection) -> Callable[[slice], np.ndarray]:
        """Return what gives the weights of focal rows on all peers."""
        if self.of_heads:
            return partial(self.heads.network, prepared, layer=self.layer)
        return derivative(stack, prepared, self.part)

    @property
    def strongest(self) -> Callable[[CrossSection], sparse.csr_array | None] | None:
        """What gives the strongest peers of a whole cross-section; None where weights are computed by rows."""
        if self.top_k is None or self.layer is not None or not self.of_heads:
            return None
        return partial(strongest_peers, heads=self.heads, top_k=self.top_k)


def choose(
    stack: Stack,
    table: pd.DataFrame,
    n_layers: int,
    part: str | None,
    layer: int | None,
    head: int | None,
    top_k: int | None,
) -> Chosen:
    """Return what the options of ``peer_network`` choose, after they are checked; ``table`` is ``heads_``."""
    check_one_of(part=(part, (None, "heads", COVARIANCE, RIDGE)))
    one_of_heads = (head, layer) != (None, None)
    fits = not one_of_heads or part not in (COVARIANCE, RIDGE)
    expect(fits, "part", '"heads", to which head= and layer= belong', repr(part))
    layers = [None, *range(n_layers)]
    check_one_of(layer=(layer, layers))
    if top_k is not None:
        check_at_least(1, top_k=top_k)
    heads = selected_heads(stack.heads(), table, head)
    earlier = None if layer == layers[-1] else layer
    of_heads = part == "heads" or one_of_heads or (part is None and not is_signed(stack))
    return Chosen(heads, earlier, part, of_heads, top_k)


def is_signed(stack: Stack) -> bool:
    """Return whether a part of the stack has signed weights."""
    return bool({COVARIANCE, RIDGE} & stack.fitted.keys())


def derivative(stack: Stack, prepared: CrossSection, part: str | None = None) -> Callable[[slice], np.ndarray]:
    """Return what gives the derivative of predictions by the peers' outcomes: of the whole prediction, or of one part."""
    return stack.summed(prepared, lambda name, prepared: stack.fitted[name].derivative(prepared), part)


def selected_heads(heads: Heads, table: pd.DataFrame, head: int | None) -> Heads:
    """Return the heads, or the one of this row of ``heads_``."""
    if head is None:
        return heads
    check_one_of(head=(head, table.index.tolist()))
    member = heads.members[int(table["seed"][head])]
    share = np.eye(member.spec.n_heads)[int(table["head"][head])]
    return Heads((replace(member, share=share),), heads.terms, (1.0,))


def check_bilinear(n_layers: int, similarity: str) -> None:
    """Raise where scores are no product of characteristics, ``x_i M x_j'``."""
    if n_layers > 1 or similarity == "additive":
        option = f"n_layers={n_layers}" if n_layers > 1 else f'similarity="{similarity}"'
        raise InputError(f"search_profile() needs scores x_i M x_j', which {option} does not have.")


class _Shows(Protocol):
    """A stack estimator, as far as its networks need it."""

    firm: str
    period: str
    n_layers: int
    similarity: str
    stack_: Stack
    heads_: pd.DataFrame
    stability_: pd.DataFrame
    feature_names_: list[str]
    design_: Design
    y_scale_: float

    @property
    def _signed(self) -> bool: ...
    def _as_seen(self, section: CrossSection) -> CrossSection: ...
    def _gate_call(
        self, X: PanelLike, outcomes: OutcomesLike, reference: ReferenceLike, /
    ) -> tuple[Panel, Iterator[CrossSection]]: ...
    def _gate_rows(self, X: PanelLike) -> tuple[Panel, Rows]: ...
    def _network(self, sections: Iterator[CrossSection], *how: Any, signed: bool) -> PeerNetwork: ...
    def _network_maker(
        self, part: str | None, layer: int | None, head: int | None, top_k: int | None, /
    ) -> NetworkMaker: ...
    def _network_of(self, network: NetworkMaker, X: PanelLike, **options: Any) -> PeerNetwork: ...


class HeadNetworks:
    """Mixin of a fitted stack: the networks of its parts, and what its heads look for."""

    @one_thread()
    def peer_network(
        self: _Shows,
        X: PanelLike,
        *,
        outcomes: OutcomesLike = None,
        reference: ReferenceLike = None,
        peer_weight: OutcomesLike = None,
        part: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        top_k: int | None = None,
    ) -> PeerNetwork:
        """Return the peers to which each firm attends when ``predict`` is called with the same arguments.

        Parameters
        ----------
        X, outcomes, reference, peer_weight
            As in ``predict``.
        part : {"heads", "covariance", "ridge"}, optional
            One part of the prediction. Heads give non-negative weights that have direction; a covariance and the ridge signed
            ones, symmetric but for the division by a firm's own variance, so that their direction is popularity alone. By
            default the weights of the whole prediction where a covariance or ridge was selected (signed), else those of the
            heads.
        layer : int, optional
            One of the ``n_layers`` layers, from 0; by default the last, whose heads carry information of peers into the
            prediction. ``rollout(layers, residual=0)`` multiplies layers to the network of peers' peers. Where
            only heads of one layer were selected, the earlier layers are empty; where chains were selected beside such heads, an
            earlier layer is that of the chains alone, whose share is in ``evidence_``.
        head : int, optional
            One row of ``heads_``; by default heads are averaged by their share of contribution, seeds by their weight.
        top_k : int, optional
            Keep only so many peers of each firm, the largest weights, as they are. The network is then sparse and made in
            blocks of firms: no array of all pairs is ever held.

        Returns
        -------
        PeerNetwork
            ``W[i, j]`` is the weight firm *i* puts on peer *j*. Of heads rows sum to one (less with ``top_k``): what a firm
            gives to the null peer is divided among the others. All firms are isolates where no part was selected.
        """
        network = self._network_maker(part, layer, head, top_k)
        return self._network_of(network, X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)

    def _network_maker(
        self: _Shows,
        part: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        top_k: int | None = None,
    ) -> NetworkMaker:
        check_is_fitted(self, "stack_")
        chosen = choose(self.stack_, self.heads_, self.n_layers, part, layer, head, top_k)

        def of_section(section: CrossSection) -> Callable[[slice], np.ndarray]:
            return chosen.weights(self.stack_, self._as_seen(section))

        def network(sections: Iterator[CrossSection]) -> PeerNetwork:
            found = self._network(sections, of_section, top_k, chosen.strongest, signed=not chosen.of_heads)
            return found.replaced(stability=self.stability_) if len(self.stability_) else found

        return network

    def queries(self: _Shows, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None) -> pd.DataFrame:
        r"""Return the query of each firm: its search criterion :math:`q_i = W_Q' x_i + b`, head by head.

        Parameters
        ----------
        X, outcomes, reference
            As in ``predict``.

        Returns
        -------
        DataFrame
            Index ``(firm, period)``; columns ``(head, dimension)``, heads numbered as in ``heads_``. The inner product of a query
            and a key, over √d, is the score (of a scaled dot product). A rotation of both changes nothing: single dimensions have
            no meaning.

        Examples
        --------
        >>> from peerattn import PeerAttentionRegressor, simulate_panel
        >>> panel = simulate_panel(12, 16, 2, random_state=0)
        >>> model = PeerAttentionRegressor(n_heads=1, d_head=2, kappa=None, random_state=0).fit(panel.X, panel.y)
        >>> model.queries(panel.X).index.names
        FrozenList(['firm', 'period'])
        """
        return _vectors(self, "queries", X, outcomes, reference)

    def keys(self: _Shows, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None) -> pd.DataFrame:
        """Return the key of each candidate peer: its profile :math:`k_j = W_K' x_j`. Parameters and result as in ``queries``."""
        return _vectors(self, "keys", X, outcomes, reference)

    def values(self: _Shows, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None) -> pd.DataFrame:
        """Return the value of each candidate peer: its information v_j, in units of the outcome, head by head.

        Parameters and result as in ``queries``. In a nowcast it is what the peer's own part leaves of its outcome, times the
        slope of the head. One column a head, for a classifier one a class.
        """
        return _vectors(self, "values", X, outcomes, reference)

    def search_profile(self: _Shows, X: PanelLike = None) -> SearchProfile:
        """Return which characteristic of i looks for which characteristic of j, for every kept head.

        With ``X`` its firms can be looked up by name (:meth:`SearchProfile.looks_for`).
        """
        check_is_fitted(self, "stack_")
        check_bilinear(self.n_layers, self.similarity)
        names = list(map(str, self.design_.characteristics))
        profile = SearchProfile.of(self.stack_.heads(), self.feature_names_, names, unit=self.y_scale_)
        profile = replace(profile, single=not self._signed)
        return profile if X is None else profile.with_firms(self._gate_rows(X)[1], self.design_.number_names)


def _vectors(
    model: _Shows, which: str, X: PanelLike, outcomes: OutcomesLike, reference: ReferenceLike
) -> pd.DataFrame:
    """Return the queries, keys or values of all firms, head by head."""
    check_is_fitted(model, "stack_")
    heads = model.stack_.heads()
    unit = model.y_scale_ if which == "values" else 1.0
    blocks = []
    for section in model._gate_call(X, outcomes, reference)[1]:
        rows = section.focal if which == "queries" else section.peers
        prepared = model._as_seen(section)
        table = heads.vectors(prepared, which) if heads.members else np.zeros((len(rows), 0, 1))
        columns = pd.MultiIndex.from_product([range(table.shape[1]), range(table.shape[2])], names=["head", "dimension"])
        index = pd.MultiIndex.from_product([rows.label, [section.period]], names=[model.firm, model.period])
        blocks.append(pd.DataFrame(table.reshape(len(rows), -1) * unit, index, columns))
    return pd.concat(blocks)
