"""What a fitted attention model shows: networks, single parts of them, and search profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, check_at_least, check_one_of, expect
from peerattn.models.attention.rows import AttentionRows
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.heads.heads import Heads
from peerattn.models.learners.heads.search_profile import SearchProfile
from peerattn.models.learners.heads.strongest_peers import strongest_peers
from peerattn.models.stacking.candidates import COVARIANCE, RIDGE
from peerattn.network import PeerNetwork
from peerattn.training import one_thread
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike


class AttentionNetworks(AttentionRows):
    """Base of :class:`AttentionModel`: what a fitted one shows."""

    similarity: str
    n_layers: int
    feature_names_: list[str]

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
        """Return whom each firm looks to when ``predict`` is called with the same arguments.

        Parameters
        ----------
        X, outcomes, reference, peer_weight
            As in ``predict``.
        part : {"heads", "covariance", "ridge"}, optional
            One part of the prediction. Heads give non-negative weights that have direction; a covariance and the ridge signed
            ones, symmetric but for the division by a firm's own variance, so that their direction is popularity alone. By
            default the weights of the whole prediction where a covariance or ridge entered (signed), else those of the heads.
        layer : int, optional
            One of the ``n_layers`` layers, from 0; by default the last, whose heads carry information of peers into the
            prediction. ``rollout(layers, residual=0)`` multiplies layers to the network of peers' peers. Where
            only heads of one layer entered, the earlier layers are empty; where chains entered beside such heads, an earlier
            layer is that of the chains alone, whose share is in ``evidence_``.
        head : int, optional
            One row of ``heads_``; by default heads are averaged by their share of contribution, seeds by their weight.
        top_k : int, optional
            Keep only so many peers of each firm, the largest weights, as they are. The network is then sparse and made in
            blocks of firms: no array of all pairs is ever held.

        Returns
        -------
        PeerNetwork
            ``W[i, j]`` is the weight firm *i* puts on peer *j*. Of heads rows sum to one (less with ``top_k``): what a firm
            gives to the null peer is divided among the others. All firms are isolates where no part entered.
        """
        network = self._network_maker(part, layer, head, top_k)
        return self._network_of(network, X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)

    def _network_maker(
        self,
        part: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        top_k: int | None = None,
    ) -> Callable[[Iterator[CrossSection]], PeerNetwork]:
        check_is_fitted(self, "stack_")
        check_one_of(part=(part, (None, "heads", COVARIANCE, RIDGE)))
        of_heads = (head, layer) == (None, None) or part not in (COVARIANCE, RIDGE)
        expect(of_heads, "part", '"heads", to which head= and layer= belong', repr(part))
        layers = [None, *range(self.n_layers)]
        check_one_of(layer=(layer, layers))
        if top_k is not None:
            check_at_least(1, top_k=top_k)
        heads = self._selected(head)
        earlier = None if layer == layers[-1] else layer
        of_heads = part == "heads" or (head, layer) != (None, None) or (part is None and not self._signed)
        fast = None
        if top_k is not None and earlier is None and of_heads:
            fast = partial(strongest_peers, heads=heads, top_k=top_k)

        def weights(section: CrossSection) -> Callable[[slice], np.ndarray]:
            prepared = self._as_seen(section)
            return partial(heads.network, prepared, layer=earlier) if of_heads else self._derivative(prepared, part)

        def network(sections: Iterator[CrossSection]) -> PeerNetwork:
            found = self._network(sections, weights, top_k, fast, signed=not of_heads)
            return found.replaced(stability=self.stability_) if len(self.stability_) else found

        return network

    @property
    def _signed(self) -> bool:
        return bool({COVARIANCE, RIDGE} & self.stack_.fitted.keys())

    @property
    def _weights_read_past(self) -> bool:
        return any(getattr(part, "reads_past", False) for part in self.stack_.fitted.values())

    def _derivative(self, prepared: CrossSection, part: str | None = None) -> Callable[[slice], np.ndarray]:
        """Return what gives the derivative of predictions by the peers' outcomes: of the whole prediction, or of one part."""
        return self.stack_.summed(prepared, lambda name, prepared: self.stack_.fitted[name].derivative(prepared), part)

    def _selected(self, head: int | None) -> Heads:
        """Return the heads, or one of them."""
        heads = self.stack_.heads()
        table = self.heads_
        if head is None:
            return heads
        check_one_of(head=(head, table.index.tolist()))
        member = heads.members[int(table["seed"][head])]
        share = np.eye(member.spec.n_heads)[int(table["head"][head])]
        return Heads((replace(member, share=share),), heads.terms, (1.0,))

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        prepared = self._as_seen(section)
        return self._derivative(prepared)(rows) if self._signed else self.stack_.heads().network(prepared, rows)

    def queries(self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None) -> pd.DataFrame:
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
        return self._vectors("queries", X, outcomes, reference)

    def keys(self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None) -> pd.DataFrame:
        """Return the key of each candidate peer: its profile :math:`k_j = W_K' x_j`. Parameters and result as in ``queries``."""
        return self._vectors("keys", X, outcomes, reference)

    def values(self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None) -> pd.DataFrame:
        """Return the value of each candidate peer: its information v_j, in units of the outcome, head by head.

        Parameters and result as in ``queries``. In a nowcast it is what the peer's own part leaves of its outcome, times the
        slope of the head. One column a head, for a classifier one a class.
        """
        return self._vectors("values", X, outcomes, reference)

    def _vectors(self, which: str, X: PanelLike, outcomes: OutcomesLike, reference: ReferenceLike) -> pd.DataFrame:
        check_is_fitted(self, "stack_")
        _, sections = self._gate_call(X, outcomes, reference)
        heads = self.stack_.heads()
        blocks = []
        for section in sections:
            rows = section.focal if which == "queries" else section.peers
            prepared = self._as_seen(section)
            table = np.zeros((len(rows), 0, 1)) if not heads.members else heads.vectors(prepared, which)
            columns = pd.MultiIndex.from_product([range(table.shape[1]), range(table.shape[2])], names=["head", "dimension"])
            index = pd.MultiIndex.from_product([rows.label, [section.period]], names=[self.firm, self.period])
            flat = table.reshape(len(rows), -1) * (self.y_scale_ if which == "values" else 1.0)
            blocks.append(pd.DataFrame(flat, index, columns))
        return pd.concat(blocks)

    def search_profile(self, X: PanelLike = None) -> SearchProfile:
        """Return which characteristic of i looks for which characteristic of j, for every kept head.

        With ``X`` its firms can be looked up by name (:meth:`SearchProfile.looks_for`).
        """
        check_is_fitted(self, "stack_")
        if self.n_layers > 1 or self.similarity == "additive":
            option = f"n_layers={self.n_layers}" if self.n_layers > 1 else f'similarity="{self.similarity}"'
            raise InputError(f"search_profile() needs scores x_i M x_j', which {option} does not have.")
        names = list(map(str, self.design_.characteristics))
        profile = SearchProfile.of(self.stack_.heads(), self.feature_names_, names, unit=self.y_scale_)
        profile = replace(profile, alone=not self._signed)
        return profile if X is None else profile.with_firms(self._gate_rows(X)[1], self.design_.number_names)
