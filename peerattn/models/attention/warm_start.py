"""The heads of a fitted attention model, fitted again on other draws of its training periods, from where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from peerattn.exceptions import InputError
from peerattn.models.attention.base import AttentionModel
from peerattn.models.attention.batches import Batch, SectionTensors, drawn, sections_per_step
from peerattn.models.attention.cross_fitting import cross_fit
from peerattn.models.attention.heads import spread_within
from peerattn.models.attention.joint import squared_errors
from peerattn.models.attention.members import Heads, Member
from peerattn.training import train

CELLS = 2**25  # pairs of focal row and peer, times heads and draws, that are held at once


@dataclass(frozen=True)
class Weighted:
    """A batch of cross-sections, and how often each counts in every draw (n_draws, B)."""

    batch: Batch
    counts: Tensor


class WarmStart:
    """The training cross-sections of a fitted model, and refits of its heads on draws of them.

    The heads learn what the own model leaves out of fold, as in ``fit``; the own model itself is not refitted. All draws are
    trained side by side: their parameters are stacked, and a cross-section counts in each draw as often as it was drawn.

    Parameters
    ----------
    model : PeerAttentionRegressor or PeerAttentionClassifier
        Fitted on a panel, with softmax weights alone (neither linear attention nor a covariance).
    X, y
        The rows it was fitted on. Encodings and scales stay those of the model.

    Raises
    ------
    InputError
        When the model is of another kind, weighs peers, or X carries no periods.
    """

    def __init__(self, model: Any, X: Any, y: Any):
        if not isinstance(model, AttentionModel) or model._signed:
            kind = type(model).__name__ + (
                " with signed weights" if isinstance(model, AttentionModel) else ""
            )
            raise InputError(
                f"model: expected a fitted model with learned softmax weights, got {kind}: "
                'use similarity="scaled_dot_product", for instance.'
            )
        panel, rows = model._gate_rows(X, model._encode_outcomes(y))
        if not panel.dated:
            raise InputError("X: periods are resampled, but X carries none.")
        if model.weighs_peers_:
            raise InputError("model: it was fitted with peer_weight=, which refits do not support.")
        self.model, plan = model, model._plan(True)
        _, block = cross_fit(model._training_sections(model._in_units(rows), panel), plan.own)
        self.sections = block.residuals(plan.loss, outcomes=plan.outcomes)
        self.settings = model._settings(True, self.sections)
        self.tensors = SectionTensors(self.sections, self.settings.terms, self.settings.dtype)

    @property
    def n_periods(self) -> int:
        """Number of training periods with known outcomes."""
        return len(self.sections)

    def refit(self, counts: np.ndarray, *, steps: int, seed: int) -> list[list[Member]]:
        """Train the heads of every member on from where they stand, once for each draw.

        Parameters
        ----------
        counts : ndarray (n_draws, n_periods)
            How often each training period was drawn.
        steps : int
            Training steps, at the model's learning rate (one cycle).
        seed : int
            Order of the periods.

        Returns
        -------
        list of list of Member
            The members of each draw.
        """
        widest = max(min(len(s.focal), self.settings.queries_per_step) * len(s.peers) for s in self.sections)
        heads = max([len(member.kept) for member in self.model.members_], default=1)
        per_step = sections_per_step(self.sections, self.settings.queries_per_step)
        at_once = max(1, CELLS // (widest * heads * per_step))
        found: list[list[Member]] = []
        for start in range(0, len(counts), at_once):
            part = torch.as_tensor(counts[start : start + at_once], dtype=self.settings.dtype)
            columns = [self._refit_member(member, part, steps, seed) for member in self.model.members_]
            found += [[column[b] for column in columns] for b in range(len(part))]
        return found

    def weights(self, members: Sequence[Sequence[Member]], X: Any, outcomes: Any) -> Iterator[np.ndarray]:
        """Yield the weights of every draw, (n_draws, n_firms, n_peers), period after period as ``peer_network`` has them.

        Parameters
        ----------
        members : sequence of sequences of Member
            As :meth:`refit` gives them.
        X, outcomes
            As in ``peer_network``.
        """
        _, sections = self.model._gate_call(X, outcomes)
        for section in sections:
            _, group = self.model._peer_columns(section)
            everyone = slice(0, len(section.focal))
            heads = [Heads(tuple(draw), self.model.pair_terms_) for draw in members]
            yield np.stack([self.model._weights_of(section, draw)(everyone) @ group for draw in heads])

    def _refit_member(self, member: Member, counts: Tensor, steps: int, seed: int) -> list[Member]:
        module = member.module().to(self.settings.dtype)
        parameters, _ = stack_module_state([module] * len(counts))
        parameters = {name: value.detach().requires_grad_(True) for name, value in parameters.items()}

        def forward(values: dict[str, Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
            result: tuple[Tensor, Tensor] = functional_call(
                module, values, (batch.focal, batch.peers, batch.pairs)
            )
            return result

        def one_loss(values: dict[str, Tensor], counts: Tensor, batch: Batch) -> Tensor:
            rows = squared_errors(forward(values, batch)[0], batch)
            return (rows * counts[:, None]).sum() / batch.weight.sum()

        def loss(step: Weighted) -> Tensor:
            with sdpa_kernel(SDPBackend.MATH):  # the fast kernel would take one draw after the other
                return vmap(one_loss, in_dims=(0, 0, None))(parameters, step.counts, step.batch).sum()

        generator = torch.Generator().manual_seed(seed)
        train(
            parameters.values(),
            loss,
            self._steps(counts, generator),
            max_steps=steps,
            learning_rate=self.settings.learning_rate,
            clip=None,  # of the draws together; each would have its own
        )
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            heads_of = vmap(lambda values, batch: forward(values, batch)[1], in_dims=(0, None))
            spread = spread_within(lambda batch: heads_of(parameters, batch), self.sections, self.settings)
        found = []
        for b in range(len(counts)):
            state = {name: value[b].detach() for name, value in parameters.items()}
            own = member.module()  # a module of its own: members hold views of its parameters
            own.load_state_dict(state)
            found.append(Member.of(own, spread[b]))
        return found

    def _steps(self, counts: Tensor, generator: torch.Generator) -> Iterator[Weighted]:
        """Cross-sections in random order, at most ``queries_per_step`` focal rows of each; small samples whole."""
        queries = self.settings.queries_per_step
        size = sections_per_step(self.sections, queries)
        if len(self.sections) <= 2 * size and all(len(s.focal) <= queries for s in self.sections):
            whole = self.tensors.batch(range(len(self.sections)))
            while True:
                yield Weighted(whole, counts)
        for group, chosen in drawn(self.sections, generator, size, queries):
            yield Weighted(self.tensors.batch(group, chosen), counts[:, group])
