"""What a fitted stack shows: networks of its parts, single heads, their vectors, and search profiles."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, check_one_of, expect
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.heads.heads import Heads, strongest_peers
from peerattn.models.learners.heads.search_profile import SearchProfile
from peerattn.models.mixins import Mixed
from peerattn.models.networks import NetworkMaker, SectionWeights
from peerattn.models.stacking.candidates import COVARIANCE, HEADS, RIDGE
from peerattn.models.stacking.fit import Stack
from peerattn.network import PeerNetwork
from peerattn.training import one_thread
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike


def selected_heads(heads: Heads, table: pd.DataFrame, head: int | None) -> Heads:
    """Return the heads, or the one of this row of ``heads_``."""
    if head is None:
        return heads
    check_one_of(head=(head, table.index.tolist()))
    member = heads.members[int(table["seed"][head])]
    share = np.eye(member.spec.n_heads)[int(table["head"][head])]
    return Heads((replace(member, share=share),), heads.terms, (1.0,))


class HeadNetworks(Mixed):
    """Mixin of a fitted stack: the networks of its parts, and what its heads look for."""

    stack_: Stack
    heads_: pd.DataFrame
    stability_: pd.DataFrame
    gain_: pd.DataFrame

    @abstractmethod
    def _as_seen(self, section: CrossSection) -> CrossSection:
        """Return a cross-section as candidates see it: peers have their residuals from the linear own part."""

    @one_thread()
    def peer_network(
        self,
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
        part : {"heads", "covariance", "ridge"} or the name of a learner of your own, optional
            One part of the prediction. Heads give non-negative weights that have direction; a covariance and the ridge signed
            ones, symmetric but for the division by a firm's own variance, so that their direction is popularity alone. By
            default the weights of the whole prediction where a covariance, ridge or learner of your own was selected (signed),
            else those of the heads.
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
            gives to the null peer is divided among the others. All firms are isolates where no part was selected; heads in full
            (``kappa=None``) are shown whatever their weight.
        """
        network = self._network_maker(part, layer, head, top_k)
        return self._network_of(network, X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)

    def _network_maker(
        self, part: str | None = None, layer: int | None = None, head: int | None = None, top_k: int | None = None
    ) -> NetworkMaker:
        check_is_fitted(self, "stack_")
        check_one_of(part=(part, list(dict.fromkeys([None, HEADS, COVARIANCE, RIDGE, *self.stack_.peer_parts()]))))
        one_of_heads = head is not None or layer is not None
        fits = not one_of_heads or part in (None, HEADS)
        expect(fits, "part", '"heads", to which head= and layer= belong', repr(part))
        check_one_of(layer=(layer, [None, *range(self.n_layers)]))
        heads = selected_heads(self.stack_.with_heads().heads(), self.heads_, head)
        if layer == self.n_layers - 1:
            layer = None  # the last one, as by default
        of_heads = part == HEADS or one_of_heads or (part is None and not self._signed)

        def of_section(section: CrossSection) -> Callable[[slice], np.ndarray]:
            prepared = self._as_seen(section)
            if not of_heads:
                return self.stack_.summed(prepared, lambda fitted, prepared: fitted.derivative(prepared), part)
            if head is not None:
                return heads.network(prepared, layer)
            return self.stack_.by_past(prepared, lambda stack: stack.heads().network(prepared, layer))

        options: dict[str, Any] = {"top_k": top_k, "signed": not of_heads}
        one_way = self.stack_.without_history is None or head is not None
        if of_heads and one_way and layer is None and top_k is not None:  # found without an array of all pairs
            options["sparse_weights"] = lambda section: strongest_peers(self._as_seen(section), heads, top_k)
        return partial(self._network, weights=of_section, **options)

    def _network(self, sections: Iterator[CrossSection], weights: SectionWeights | None = None, **options: Any) -> PeerNetwork:
        found = super()._network(sections, weights, **options)
        if self.stability_.empty:
            return found
        return found.replaced(stability=self.stability_)

    @property
    def _signed(self) -> bool:
        return any(not isinstance(part, Heads) for part in self.stack_.peer_parts().values())

    @property
    def _weights_read_past(self) -> bool:
        return any(getattr(part, "reads_past", False) for part in self.stack_.peer_parts().values())

    def explain_gain(self) -> pd.DataFrame:
        """Return held-out R² step by step: own characteristics, nonlinear own-firm models, history, common shocks, peers.

        Each step uses the information of the steps before it and something more. Held out are the training periods after each
        forward origin. ``r2`` is of the stack so far, ``gain`` what the step adds.

        Returns
        -------
        DataFrame
            Index ``step``; columns ``r2``, ``gain``; empty where nothing was tested (``evidence_["reason"]``), as with
            ``kappa=None``.
        """
        check_is_fitted(self, "stack_")
        return self.gain_

    def queries(self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None) -> pd.DataFrame:
        r"""Return the query of each firm: its search criterion :math:`q_i = x_i W_Q + b`, head by head.

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

        Raises
        ------
        InputError
            When the model has no heads: of a covariance, or where none was selected.

        Examples
        --------
        >>> from peerattn import PeerAttentionRegressor, simulate_panel
        >>> panel = simulate_panel(12, 16, 2, random_state=0)
        >>> model = PeerAttentionRegressor(n_heads=1, d_head=2, kappa=None, random_state=0).fit(panel.X, panel.y)
        >>> model.queries(panel.X).index.names
        FrozenList(['firm', 'period'])
        """
        return _vectors(self, "queries", X, outcomes=outcomes, reference=reference)

    def keys(self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None) -> pd.DataFrame:
        """Return the key of each candidate peer: its profile :math:`k_j = x_j W_K`. Parameters and result as in ``queries``."""
        return _vectors(self, "keys", X, outcomes=outcomes, reference=reference)

    def values(self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None) -> pd.DataFrame:
        """Return the value of each candidate peer: its information v_j, in units of the outcome, head by head.

        Parameters and result as in ``queries``. In a nowcast it is what the peer's own part leaves of its outcome, times the
        slope of the head. One column a head, for a classifier one a class.
        """
        return _vectors(self, "values", X, outcomes=outcomes, reference=reference)

    def search_profile(self, X: PanelLike = None) -> SearchProfile:
        """Return which characteristic of i looks for which characteristic of j, for every kept head.

        With ``X`` its firms can be looked up by name (:meth:`SearchProfile.looks_for`).
        """
        check_is_fitted(self, "stack_")
        products = "search_profile() needs scores x_i M x_j', which"
        if self.n_layers > 1:
            raise InputError(f"{products} n_layers={self.n_layers} does not have.")
        if self.similarity == "additive":
            raise InputError(f'{products} similarity="additive" does not have.')
        names = list(map(str, self.design_.characteristics))
        heads = self.stack_.with_heads().heads()
        profile = SearchProfile.of(heads, self.feature_names_, names, unit=self.y_scale_)
        return replace(profile, single=not self._signed).with_firms(self, X, heads)


def _vectors(model: HeadNetworks, which: str, X: PanelLike, **given: Any) -> pd.DataFrame:
    """Return the queries, keys or values of all firms, head by head."""
    check_is_fitted(model, "stack_")
    heads = model.stack_.with_heads().heads()
    if not any(member.spec.n_heads for member in heads.members):
        remedy = "Where evidence_ gives them no weight, PeerAttentionRegressor(kappa=None) has its heads in full."
        raise InputError(f"{which}() needs attention heads, and this {type(model).__name__} has none. {remedy}")
    unit = model.y_scale_ if which == "values" else 1.0
    blocks = []
    for section in model._gate_call(X, **given)[1]:
        rows = section.focal if which == "queries" else section.peers
        table = heads.vectors(model._as_seen(section), which)
        columns = pd.MultiIndex.from_product([range(table.shape[1]), range(table.shape[2])], names=["head", "dimension"])
        index = pd.MultiIndex.from_product([rows.label, [section.period]], names=[model.firm, model.period])
        blocks.append(pd.DataFrame(table.reshape(len(rows), -1) * unit, index, columns))
    return pd.concat(blocks)
