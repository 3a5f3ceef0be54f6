"""What a fitted transformer over firms shows: networks by layer and head, their rollout, and which heads matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from peerattn.exceptions import InputError, check_at_least, check_one_of, expect
from peerattn.models.attention.base import StackModel
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.transformer import TransformerLearner
from peerattn.network import PeerNetwork, rollout
from peerattn.training.prunable import PrunableHeads
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike

TRANSFORMER = "transformer"


class TransformerNetworks(PrunableHeads, StackModel):
    """Base of :class:`TransformerModel`: what a fitted one shows."""

    def _set_heads(self) -> None:
        """List the heads of the fitted transformer."""
        rows = []
        for name, n_heads in self.n_heads_by_layer().items():
            seed, _, layer, _ = name.split(".")
            rows += [(int(seed), int(layer), head) for head in range(n_heads)]
        self.heads_ = pd.DataFrame(rows, columns=["seed", "layer", "head"])

    @property
    def _transformer(self) -> TransformerLearner | None:
        """The fitted transformer; None where it was not selected."""
        found: TransformerLearner | None = self.stack_.fitted.get(TRANSFORMER)
        return found

    # ------------------------------------------------------------------ heads

    def _module(self) -> torch.nn.ModuleList:
        check_is_fitted(self, "stack_")
        attends = self._transformer is not None and self._transformer.spec.attends
        return self._transformer.modules() if attends else torch.nn.ModuleList()  # type: ignore[union-attr]

    def _keep(self, module: torch.nn.Module) -> None:
        if self._transformer is not None:
            pruned = replace(self._transformer)
            pruned.keep(module)
            self.stack_ = replace(self.stack_, fitted=self.stack_.fitted | {TRANSFORMER: pruned})
        self._set_heads()

    def _loss_sums(
        self,
        module: torch.nn.ModuleList,
        X: PanelLike,
        y: OutcomesLike,
        outcomes: OutcomesLike = None,
        reference: ReferenceLike = None,
    ) -> Iterator[tuple[Tensor, int]]:
        """Yield the squared error of each cross-section's known outcomes, in units of training."""
        learner = self._transformer
        _, sections = self._gate_call(X, outcomes, reference)
        truth = self._check(X, y, fitting=False).outcomes
        if learner is None or truth is None or not np.isfinite(truth).any():
            raise InputError("y: the importance of heads is measured on known outcomes, got none.")
        targets = (truth - self.y_center_) / self.y_scale_
        for section in sections:
            with_targets = replace(section, focal=replace(section.focal, y=targets[section.at]))
            at = np.flatnonzero(np.isfinite(targets[section.at]))
            known = self._as_seen(with_targets).take(at, slice(None))
            if len(at):
                error = learner.outputs(module, known)[:, 0] - torch.tensor(known.focal.y)
                yield error.square().sum(), len(at)

    # ------------------------------------------------------------------ networks

    def peer_network(
        self, X: PanelLike, *, layer: int | None = None, head: int | None = None, top_k: int | None = None, **given: Any
    ) -> PeerNetwork:
        """Return the attention of a layer when ``predict`` is called with the same arguments.

        Parameters
        ----------
        X, **given
            As in ``predict``.
        layer : int, optional
            From 0; by default the last. Seeds and heads are averaged evenly.
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
        return self._network_of(self._network_maker(layer, head, top_k), X, **given)

    def rollout(self, X: PanelLike, *, residual: float = 0.5, **given: Any) -> PeerNetwork:
        """Return what all layers add up to: how much of each firm's input reaches each prediction.

        Parameters
        ----------
        X, **given
            As in ``predict``.
        residual : float, default 0.5
            Share of a firm's state that passes by the attention of a layer, see :func:`peerattn.network.rollout`.
        """
        layers = [self.peer_network(X, layer=layer, **given) for layer in range(self.n_layers)]
        return rollout(layers, residual=residual)

    def search_profile(self, X: PanelLike = None) -> NoReturn:
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
            seed, of_layer, number = (int(self.heads_[name][head]) for name in ("seed", "layer", "head"))
            expect(layer in (None, of_layer), "head", f"one of layer {layer} in heads_", f"{head}, of layer {of_layer}")
            which = {"layer": of_layer, "head": (seed, number)}

        def weights(section: CrossSection) -> Callable[[slice], np.ndarray]:
            return partial(self._weights, section, **which)

        def network(sections: Iterator[CrossSection]) -> PeerNetwork:
            found = self._network(sections, weights, top_k, signed=False)
            return found.replaced(stability=self.stability_) if len(self.stability_) else found

        return network

    def _weights(self, section: CrossSection, rows: slice, **which: Any) -> np.ndarray:
        if self._transformer is None:
            return np.zeros((len(section.focal.identity[rows]), len(section.peers)))
        return self._transformer.weights(self._as_seen(section), rows, **which)

    @property
    def _signed(self) -> bool:
        return False
