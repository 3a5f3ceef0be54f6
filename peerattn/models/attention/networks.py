"""What learned attention tells of whom firms look to: networks, their spread over an ensemble, search profiles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError
from peerattn.models.attention.members import Heads, Member
from peerattn.models.attention.nested import Added
from peerattn.models.attention.parts import COVARIANCE, RIDGE
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
    parts_: dict[str, Added]
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
        layer: int | None = None,
        head: int | None = None,
        member: int | None = None,
        top_k: int | None = None,
    ) -> PeerNetwork:
        """Return whom each firm looks to when ``predict`` is called with the same arguments.

        Parameters
        ----------
        X, outcomes, reference, peer_weight
            As in ``predict``.
        layer : int, optional
            One of the ``n_layers`` layers, from 0; by default the last, whose heads carry information of peers into the
            prediction. ``rollout(layers, residual=0)`` multiplies layers to the network of peers' peers. Where the
            evidence stands against several layers, the earlier ones are empty.
        head : int, optional
            One of the last layer's kept heads (a row of ``heads_``); by default heads are averaged by their share of
            contribution.
        member : int, optional
            One member of the ensemble; by default members are averaged.
        top_k : int, optional
            Keep only so many peers of each firm, the largest weights, as they are. The network is then sparse and made in
            blocks of firms: no array of all pairs is ever held.

        Returns
        -------
        PeerNetwork
            ``W[i, j]`` is the weight firm *i* puts on peer *j*; rows sum to one (less with ``top_k``). All firms are
            isolates when no head was kept.
        """
        network = self._network_maker(layer, head, member, top_k)
        if is_stored(X):
            with told_once():
                calls = self._by_period(X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)
                return network(section for _, sections in calls for section in sections)
        return network(self._gate_call(X, outcomes, reference, peer_weight)[1])

    def _network_maker(
        self,
        layer: int | None = None,
        head: int | None = None,
        member: int | None = None,
        top_k: int | None = None,
    ) -> Callable[[Iterator[Section]], PeerNetwork]:
        check_is_fitted(self, "parts_")
        heads = self._selected(member, head)
        earlier = self._earlier_layer(layer)
        if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1):
            raise InputError(f"top_k: expected a positive integer or None, got {top_k!r}.")
        chosen = heads if (member, head, layer) != (None, None, None) else None
        weights = partial(self._weights_of, heads=chosen, layer=earlier)
        fast = None
        if top_k is not None and earlier is None and not self._signed:
            fast = partial(strongest_peers, members=heads.members, terms=self.pair_terms_, top_k=top_k)

        def network(sections: Iterator[Section]) -> PeerNetwork:
            found = self._network(sections, weights, top_k, fast)
            return found.replaced(stability=self.stability_) if len(self.stability_) else found

        return network

    def _selected(self, member: int | None, head: int | None) -> Heads:
        """Return the heads of one member, or one head of all members."""
        members = self.members_
        if member is not None:
            if member not in range(len(members)):
                raise InputError(
                    f"member: the model has {len(members)} members, numbered from 0, got {member!r}."
                )
            members = (members[member],)
        if head is not None:
            members = tuple(m.with_one_head(head) for m in members if head in m.kept)
            if not members:
                kept = ", ".join(map(str, self.members_[0].kept)) if self.members_ else ""
                raise InputError(f"head: expected one of the model's heads ({kept or 'none'}), got {head!r}.")
        return Heads(members, self.pair_terms_)

    @one_thread()
    def edge_spread(
        self, X: Any, *, outcomes: Any = None, reference: Any = None, peer_weight: Any = None
    ) -> pd.DataFrame:
        """Return each edge's mean weight and standard deviation across the members of the ensemble.

        The spread says how much the estimate depends on the random start; it is no sampling error.

        Returns
        -------
        DataFrame
            Columns ``period, firm, peer, weight, spread``.
        """
        frames = [
            self.peer_network(
                X, outcomes=outcomes, reference=reference, peer_weight=peer_weight, member=k
            ).edges()
            for k in range(len(self.members_))
        ]
        edges = pd.concat([f.set_index(["period", "firm", "peer"])["weight"] for f in frames], axis=1).fillna(
            0.0
        )
        columns = {"weight": edges.mean(axis=1), "spread": edges.std(axis=1, ddof=0)}
        return pd.DataFrame(columns).reset_index()

    def search_profile(self) -> SearchProfile:
        """Return which characteristic of i looks for which characteristic of j, for every kept head of every member."""
        check_is_fitted(self, "members_")
        if self.n_layers > 1 or self.similarity in ("additive", "linear"):
            told = f"n_layers={self.n_layers}" if self.n_layers > 1 else f'similarity="{self.similarity}"'
            raise InputError(f"search_profile() needs scores x_i M x_j', which {told} does not have.")
        scale = np.sqrt(self.d_head) if self.similarity == "scaled_dot_product" else 1.0
        shown = [column.name for column in self.design_.columns if column.role == "characteristic"]
        return SearchProfile.of(
            self.members_, self.feature_names_, shown, scale=float(scale), unit=self.y_scale_
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
        self, section: Section, heads: Heads | None = None, layer: int | None = None
    ) -> Callable[[slice], np.ndarray]:
        """Return what gives the network's rows: of some heads, or of the whole model."""
        seen = self._as_seen(section)
        if heads is None and {COVARIANCE, RIDGE} & self.parts_.keys():
            each = [
                (added.factor / len(added.parts), part.derivative(seen))
                for added in self.parts_.values()
                for part in added.parts
            ]
            return lambda rows: np.sum([share * weights(rows) for share, weights in each], axis=0)
        heads = Heads(self.members_, self.pair_terms_) if heads is None else heads
        return partial(heads.weights, seen, layer=layer)
