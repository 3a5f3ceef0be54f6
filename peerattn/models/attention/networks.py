"""What a fitted attention model shows: networks, single parts of them, and search profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
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


class AttentionNetworks(AttentionRows):
    """Base of :class:`AttentionModel`: what a fitted one shows."""

    similarity: str
    n_layers: int
    feature_names_: list[str]

    @one_thread()
    def peer_network(
        self,
        X: Any,
        *,
        outcomes: Any = None,
        reference: Any = None,
        peer_weight: Any = None,
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
            One row of ``heads_``; by default heads are averaged by their share of contribution, starts by their weight.
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
        member = heads.members[int(table["start"][head])]
        share = np.eye(member.spec.n_heads)[int(table["head"][head])]
        return Heads((replace(member, share=share),), heads.terms, (1.0,))

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        prepared = self._as_seen(section)
        return self._derivative(prepared)(rows) if self._signed else self.stack_.heads().network(prepared, rows)

    def search_profile(self) -> SearchProfile:
        """Return which characteristic of i looks for which characteristic of j, for every kept head."""
        check_is_fitted(self, "members_")
        if self.n_layers > 1 or self.similarity == "additive":
            informed = f"n_layers={self.n_layers}" if self.n_layers > 1 else f'similarity="{self.similarity}"'
            raise InputError(f"search_profile() needs scores x_i M x_j', which {informed} does not have.")
        observed = [column.name for column in self.design_.columns if column.role == "characteristic"]
        return SearchProfile.of(self.stack_.heads(), self.feature_names_, observed, unit=self.y_scale_)
