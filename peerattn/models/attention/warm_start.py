"""The heads of a fitted attention model, fitted again on other draws of its training periods, from where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from peerattn.exceptions import InputError, expect
from peerattn.models.attention.base import AttentionModel
from peerattn.models.attention.search import refit_heads
from peerattn.models.learners.heads.heads import Heads, Member, Settings
from peerattn.models.learners.training import Training


class WarmStart:
    """The training cross-sections of a fitted model, and refits of its heads on draws of them.

    The heads learn what own lines leave, by the criterion of ``fit``; own lines are not refitted.

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
        learned = isinstance(model, AttentionModel)
        kind = type(model).__name__
        kind += " with signed weights" if learned else ""
        remedy = 'Use task="forecast", or a similarity other than the default.'
        softmax = "a fitted model with learned softmax weights"
        expect(learned and not model._signed, "model", softmax, kind, remedy)
        panel, rows = model._gate_rows(X, model._encode_outcomes(y))
        if not panel.dated:
            raise InputError("X: periods are resampled, but X carries none.")
        if model.weighs_peers_:
            raise InputError("model: it was fitted with peer_weight=, which refits do not support.")
        self.model = model
        sections = model._training_sections(model._in_units(rows), panel)
        self.sections = Training.of(sections, model._problem(True, False)).residuals
        self.settings = Settings(model.pair_terms_, torch.float64)

    @property
    def n_periods(self) -> int:
        """Number of training periods with known outcomes."""
        return len(self.sections)

    def refits(self, counts: np.ndarray, *, seed: int) -> Iterator[list[list[Member]]]:
        """Yield the members of every draw, optimised a round further each time, from where the fitted ones stand.

        Parameters
        ----------
        counts : ndarray (n_draws, n_periods)
            How often each training period was drawn.
        seed : int
            Order of the periods, in samples that are too large for a step.
        """
        drawn = [np.repeat(np.arange(self.n_periods), count) for count in counts]
        modules = [[m.module().to(self.settings.dtype) for m in self.model.members_] for _ in counts]
        while True:
            found = []
            for at, mine in zip(drawn, modules, strict=True):
                sections = [self.sections[t] for t in at]
                refit_heads(mine, sections, self.settings, seed)
                found.append(list(Heads.of(mine, sections, self.settings).members))
            yield found

    def weights(self, members: Sequence[Sequence[Member]], X: Any, outcomes: Any) -> Iterator[np.ndarray]:
        """Yield the weights of every draw, (n_draws, n_firms, n_peers), period after period as ``peer_network`` has them.

        Parameters
        ----------
        members : sequence of sequences of Member
            As :meth:`refits` gives them.
        X, outcomes
            As in ``peer_network``.
        """
        _, sections = self.model._gate_call(X, outcomes)
        for section in sections:
            _, group = self.model._peer_columns(section)
            everyone = slice(0, len(section.focal))
            mix = self.model._selected(None).mix
            heads = [Heads(tuple(draw), self.model.pair_terms_, mix) for draw in members]
            yield np.stack([draw.network(self.model._as_seen(section), everyone) @ group for draw in heads])
