"""What a fitted transformer over firms shows: networks by layer and head, their rollout, and which heads matter."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, check_at_least, check_one_of
from peerattn.models.attention.base import StackModel
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.transformer import TransformerLearner
from peerattn.network import PeerNetwork, rollout
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike

TRANSFORMER = "transformer"


class TransformerNetworks(StackModel):
    """Base of :class:`TransformerModel`: what a fitted one shows."""

    def _set_heads(self) -> None:
        """Describe the heads of the fitted transformer."""
        learner = self._transformer
        importance = {} if learner is None else learner.importance
        rows = []
        for name, heads in importance.items():
            seed, _, layer, _ = name.split(".")
            rows += [(int(seed), int(layer), head, float(value)) for head, value in enumerate(heads)]
        self.heads_ = pd.DataFrame(rows, columns=["seed", "layer", "head", "importance"])

    @property
    def _transformer(self) -> TransformerLearner | None:
        """The fitted transformer; None where it was not selected."""
        found: TransformerLearner | None = self.stack_.fitted.get(TRANSFORMER)
        return found

    # ------------------------------------------------------------------ heads

    def head_importance(
        self, X: PanelLike, y: OutcomesLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None
    ) -> pd.Series:
        """Return how much the squared error would change, to first order, were each head silenced, by layer and head.

        See :func:`peerattn.evaluation.head_importance`; layers are named by seed and block.
        """
        check_is_fitted(self, "stack_")
        _, sections = self._gate_call(X, outcomes, reference)
        truth = self._check(X, y, fitting=False).outcomes
        if truth is None or not np.isfinite(truth).any():
            raise InputError("y: the importance of heads is measured on known outcomes, got none.")
        targets = (truth - self.y_center_) / self.y_scale_
        if self._transformer is None:
            none = pd.MultiIndex.from_arrays([[], []], names=["layer", "head"])
            return pd.Series([], index=none, name="importance", dtype=float)
        known = []
        for section in sections:
            with_targets = replace(section, focal=replace(section.focal, y=targets[section.at]))
            at = np.flatnonzero(np.isfinite(targets[section.at]))
            known.append(self._as_seen(with_targets).take(at, slice(None)))
        found = self._transformer.head_importance([section for section in known if len(section.focal)])
        rows = {
            (name, head): float(value) for name, heads in found.items() for head, value in enumerate(heads)
        }
        return pd.Series(rows, name="importance").rename_axis(["layer", "head"])

    def n_heads_by_layer(self) -> dict[str, int]:
        """Return the number of heads of every attention layer, by seed and block."""
        learner = self._transformer
        return {} if learner is None else {name: len(heads) for name, heads in learner.importance.items()}

    def with_heads(self, keep: Mapping[str, Sequence[int]]) -> Self:
        """Return a copy of the fitted model with only these heads of these layers; nothing is fitted again."""
        pruned = copy.copy(self)
        if self._transformer is not None:
            fitted = self.stack_.fitted | {TRANSFORMER: self._transformer.with_heads(keep)}
            pruned.stack_ = replace(self.stack_, fitted=fitted)
            pruned._set_heads()
        return pruned

    # ------------------------------------------------------------------ networks

    def peer_network(  # type: ignore[override]  # one part, so that none is named
        self,
        X: PanelLike,
        *,
        outcomes: OutcomesLike = None,
        reference: ReferenceLike = None,
        peer_weight: OutcomesLike = None,
        layer: int | None = None,
        head: int | None = None,
        top_k: int | None = None,
    ) -> PeerNetwork:
        """Return the attention of a layer when ``predict`` is called with the same arguments.

        Parameters
        ----------
        X, outcomes, reference, peer_weight
            As in ``predict``.
        layer : int, optional
            From 0; by default the last. Heads are averaged by their importance, seeds evenly.
        head : int, optional
            One row of ``heads_`` alone.
        top_k : int, optional
            Keep only so many peers of each firm, those of the largest weight.

        Returns
        -------
        PeerNetwork
            ``W[i, j]`` is the weight firm *i* puts on peer *j*; rows sum to one (less with ``top_k``). All firms are isolates
            where the transformer was not selected.
        """
        network = self._network_maker(layer=layer, head=head, top_k=top_k)
        return self._network_of(network, X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)

    def rollout(
        self,
        X: PanelLike,
        *,
        residual: float = 0.5,
        outcomes: OutcomesLike = None,
        reference: ReferenceLike = None,
        peer_weight: OutcomesLike = None,
    ) -> PeerNetwork:
        """Return what all layers add up to: how much of each firm's input reaches each prediction.

        Parameters
        ----------
        X, outcomes, reference, peer_weight
            As in ``predict``.
        residual : float, default 0.5
            Share of a firm's state that passes by the attention of a layer, see :func:`peerattn.network.rollout`.
        """
        check_is_fitted(self, "stack_")
        given = partial(self.peer_network, X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)
        layers = [given(layer=layer) for layer in range(self.n_layers)]
        return rollout(layers, residual=residual)

    def search_profile(self) -> NoReturn:
        """Raise an error: scores of tokens are not a product of characteristics."""
        check_is_fitted(self, "stack_")
        raise InputError(f"search_profile() needs attention heads, which {type(self).__name__} does not have.")

    def _network_maker(  # type: ignore[override]
        self, layer: int | None = None, head: int | None = None, top_k: int | None = None
    ) -> Callable[[Iterator[CrossSection]], PeerNetwork]:
        check_is_fitted(self, "stack_")
        check_one_of(layer=(layer, (None, *range(self.n_layers))), head=(head, (None, *self.heads_.index)))
        if top_k is not None:
            check_at_least(1, top_k=top_k)
        which: dict[str, Any] = {"layer": self.n_layers - 1 if layer is None else layer}
        if head is not None:
            seed, of_layer, number = (int(self.heads_[column][head]) for column in ("seed", "layer", "head"))
            if layer not in (None, of_layer):
                raise InputError(
                    f"head: expected one of layer {layer} in heads_, got {head}, of layer {of_layer}."
                )
            which = {"layer": of_layer, "head": (seed, number)}

        def weights(section: CrossSection) -> Callable[[slice], np.ndarray]:
            return partial(self._attention_of, self._as_seen(section), **which)

        def network(sections: Iterator[CrossSection]) -> PeerNetwork:
            found = self._network(sections, weights, top_k, signed=False)
            return found.replaced(stability=self.stability_) if len(self.stability_) else found

        return network

    def _attention_of(self, prepared: CrossSection, rows: slice, **which: Any) -> np.ndarray:
        learner = self._transformer
        if learner is None:
            return np.zeros((len(prepared.focal.identity[rows]), len(prepared.peers)))
        return learner.weights(prepared, rows, **which)

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        return self._attention_of(self._as_seen(section), rows)

    @property
    def _signed(self) -> bool:
        return False
