"""What learned attention tells of whom firms look to: networks, their spread over an ensemble, search profiles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError
from peerattn.models.attention.fitting import Stack
from peerattn.models.attention.members import Heads, Member
from peerattn.models.attention.peers import COVARIANCE, HEADS, RIDGE
from peerattn.models.attention.priors import PairTerms
from peerattn.models.attention.search_profile import SearchProfile
from peerattn.models.attention.strongest_peers import strongest_peers
from peerattn.models.base import PeerModel
from peerattn.models.by_period import periods_of, refuse_beside_files, told_once
from peerattn.models.pools import Section
from peerattn.network import PeerNetwork
from peerattn.panel.panel import Panel
from peerattn.panel.stored import is_stored
from peerattn.training import one_thread


class AttentionNetworks(PeerModel):
    """Base of :class:`AttentionModel`: what a fitted one shows."""

    similarity: str
    n_layers: int
    d_head: int
    y_scale_: float
    members_: tuple[Member, ...]
    stack_: Stack
    pair_terms_: PairTerms
    feature_names_: list[str]

    @abstractmethod
    def _gate_call(
        self, X: Any, outcomes: Any, reference: Any = None, peer_weight: Any = None, past: Any = None
    ) -> tuple[Panel, Iterator[Section]]:
        """Return the checked call and its pools; ``past`` are outcomes of earlier periods of the call."""

    def _by_period(
        self,
        X: Any,
        outcomes: Any = None,
        reference: Any = None,
        peer_weight: Any = None,
        **options: Any,
    ) -> Iterator[tuple[Panel, Iterator[Section]]]:
        refuse_beside_files(X, peer_weight=peer_weight)
        past = None  # outcomes of earlier periods, handed on
        for panel, shown in periods_of(self, X, outcomes):
            called, sections = self._gate_call(panel, shown, reference, None, past, **options)
            listed = list(sections)
            past = listed[-1].past and listed[-1].past.since(panel.period[0])
            yield called, iter(listed)

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
        if is_stored(X):
            with told_once():
                calls = self._by_period(X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)
                return network(section for _, sections in calls for section in sections)
        return network(self._gate_call(X, outcomes, reference, peer_weight)[1])

    def _network_maker(
        self,
        part: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        top_k: int | None = None,
    ) -> Callable[[Iterator[Section]], PeerNetwork]:
        check_is_fitted(self, "stack_")
        if part not in (None, HEADS, COVARIANCE, RIDGE):
            raise InputError(f'part: expected "{HEADS}", "{COVARIANCE}" or "{RIDGE}", got {part!r}.')
        if part in (COVARIANCE, RIDGE) and (head, layer) != (None, None):
            raise InputError(
                f'part="{part}" has neither head= nor layer=, which are those of part="{HEADS}".'
            )
        heads = self._selected(head)
        earlier = self._earlier_layer(layer)
        if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1):
            raise InputError(f"top_k: expected a positive integer or None, got {top_k!r}.")
        of_heads = part == HEADS or (head, layer) != (None, None) or (part is None and not self._signed)
        weights = partial(self._weights_of, part=part, heads=heads if of_heads else None, layer=earlier)
        fast = None
        if top_k is not None and earlier is None and of_heads:
            fast = partial(strongest_peers, heads=heads, top_k=top_k)

        def network(sections: Iterator[Section]) -> PeerNetwork:
            found = self._network(sections, weights, top_k, fast, signed=not of_heads)
            return found.replaced(stability=self.stability_) if len(self.stability_) else found

        return network

    def _selected(self, head: int | None) -> Heads:
        """Return the heads, or one of them."""
        if head is None:
            return (
                Heads((), self.pair_terms_)
                if (heads := self.stack_.fitted.get(HEADS)) is None
                else heads.part
            )
        table = self.heads_
        if isinstance(head, bool) or head not in range(len(table)):
            kept = ", ".join(map(str, table.index)) or "none"
            raise InputError(f"head: expected one of the model's heads ({kept}), got {head!r}.")
        start, at = int(table["start"][head]), int(table["head"][head])
        return Heads((self.members_[start].with_one_head(at),), self.pair_terms_, (1.0,))

    def search_profile(self) -> SearchProfile:
        """Return which characteristic of i looks for which characteristic of j, for every kept head."""
        check_is_fitted(self, "members_")
        if self.n_layers > 1 or self.similarity == "additive":
            told = f"n_layers={self.n_layers}" if self.n_layers > 1 else f'similarity="{self.similarity}"'
            raise InputError(f"search_profile() needs scores x_i M x_j', which {told} does not have.")
        scale = (
            np.sqrt(self.members_[0].spec.d_head)
            if self.members_ and self.similarity in ("scaled_dot_product", "symmetric")
            else 1.0
        )
        shown = [column.name for column in self.design_.columns if column.role == "characteristic"]
        return SearchProfile.of(
            self._selected(None), self.feature_names_, shown, scale=float(scale), unit=self.y_scale_
        )

    # ------------------------------------------------------------------ weights

    @abstractmethod
    def _as_seen(self, section: Section) -> Section:
        """Return a cross-section as parts see it."""

    def _earlier_layer(self, layer: int | None) -> int | None:
        """Return the layer if it is one before the last."""
        if layer is None:
            return None
        if isinstance(layer, bool) or layer not in range(self.n_layers):
            raise InputError(
                f"layer: {layer!r} was asked for, but with n_layers={self.n_layers} layers are numbered 0 to "
                f"{self.n_layers - 1}."
            )
        return None if layer == self.n_layers - 1 else layer

    def _weights(self, section: Section, rows: slice) -> np.ndarray:
        return self._weights_of(section)(rows)

    def _weights_of(
        self,
        section: Section,
        part: str | None = None,
        heads: Heads | None = None,
        layer: int | None = None,
    ) -> Callable[[slice], np.ndarray]:
        """Return what gives the network's rows: of heads, of a part, or of the whole prediction."""
        seen = self._as_seen(section)
        if heads is None and (self._signed or part in (COVARIANCE, RIDGE)):
            each = [
                (1.0 if part else self.stack_.weight(name), fitted.derivative(seen))
                for name, fitted in self.stack_.peers().items()
                if part in (None, name)
            ]
            n = len(section.peers)
            return lambda rows: sum(
                (share * weights(rows) for share, weights in each), np.zeros((rows.stop - rows.start, n))
            )
        heads = self._selected(None) if heads is None else heads
        return partial(heads.network, seen, layer=layer)
