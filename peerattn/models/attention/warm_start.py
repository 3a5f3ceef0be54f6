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
from peerattn.models.attention.batches import CELLS_PER_STEP, Batch, SectionTensors, drawn
from peerattn.models.attention.descent import minimise
from peerattn.models.attention.heads import Settings, spread_within
from peerattn.models.attention.members import Heads, Member
from peerattn.models.attention.samples import QUERIES
from peerattn.models.attention.training import Training
from peerattn.models.pools import Section

RATE = 0.02  # peak learning rate of refits
CELLS = 2**25  # pairs of focal row and peer, times heads and draws, that are held at once


@dataclass(frozen=True)
class Weighted:
    """A batch of cross-sections, and how often each counts in every draw (n_draws, B)."""

    batch: Batch
    counts: Tensor


class WarmStart:
    """The training cross-sections of a fitted model, and refits of its heads on draws of them.

    The heads learn what own lines leave, as in ``fit``; these are not refitted. All draws are
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
                'use task="forecast", or a similarity other than the default.'
            )
        panel, rows = model._gate_rows(X, model._encode_outcomes(y))
        if not panel.dated:
            raise InputError("X: periods are resampled, but X carries none.")
        if model.weighs_peers_:
            raise InputError("model: it was fitted with peer_weight=, which refits do not support.")
        self.model = model
        sections = model._training_sections(model._in_units(rows), panel)
        self.sections = Training.of(sections, model._problem(True)).residuals
        self.settings = Settings(model.pair_terms_, model._dtype(True))
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
            Training steps (one cycle).
        seed : int
            Order of the periods.

        Returns
        -------
        list of list of Member
            The members of each draw.
        """
        widest = max(min(len(s.focal), QUERIES) * len(s.peers) for s in self.sections)
        heads = max([len(member.kept) for member in self.model.members_], default=1)
        per_step = sections_per_step(self.sections)
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
            mix = self.model._selected(None).mix
            heads = [Heads(tuple(draw), self.model.pair_terms_, mix) for draw in members]
            yield np.stack([self.model._weights_of(section, heads=draw)(everyone) @ group for draw in heads])

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
        minimise(parameters.values(), loss, self._steps(counts, generator), steps, RATE)
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
        """Cross-sections in random order, some focal rows of large ones; small samples whole."""
        size = sections_per_step(self.sections)
        if len(self.sections) <= 2 * size and all(len(s.focal) <= QUERIES for s in self.sections):
            whole = self.tensors.batch(range(len(self.sections)))
            while True:
                yield Weighted(whole, counts)
        for group, chosen in drawn(self.sections, generator, size, QUERIES):
            yield Weighted(self.tensors.batch(group, chosen), counts[:, group])


def sections_per_step(sections: Sequence[Section]) -> int:
    """Return how many cross-sections a step takes: one large one, several small ones."""
    n_focal = float(np.median([min(len(s.focal), QUERIES) for s in sections]))
    n_peers = float(np.median([len(s.peers) for s in sections]))
    return int(
        max(1, min(4 * QUERIES / n_focal, CELLS_PER_STEP / max(1.0, n_focal * n_peers), len(sections)))
    )


def squared_errors(predicted: Tensor, batch: Batch) -> Tensor:
    """Return the weighted squared error of every focal row, (B, n), summed over outputs."""
    return ((predicted - batch.y.view_as(predicted)) ** 2).sum(-1) * batch.weight
