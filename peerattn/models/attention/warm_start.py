"""The heads of a fitted attention model, fitted again on other draws of its training periods, from where they stand."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from sklearn.base import BaseEstimator

from peerattn.exceptions import InputError, expect
from peerattn.models.attention.options import AttentionOptions
from peerattn.models.learners.batches import Sample
from peerattn.models.learners.heads.heads import Heads, Member
from peerattn.models.learners.heads.nuisance import fit_nuisance
from peerattn.models.learners.heads.training import REFIT, refit_modules
from peerattn.models.learners.training import Training
from peerattn.models.networks import peer_columns
from peerattn.models.stacking.candidates import curves_of
from peerattn.types import OutcomesLike, PanelLike


class WarmStart:
    """The training cross-sections of a fitted model, and refits of its heads on draws of them.

    The heads minimise the loss of ``fit`` plus a ridge penalty; the own part stays as it is.

    Parameters
    ----------
    model : PeerAttentionRegressor or PeerAttentionClassifier
        Fitted on a panel, with softmax weights alone (neither linear attention nor a covariance).
    X, y
        The rows it was fitted on. Encodings and scales stay those of the model.

    Raises
    ------
    InputError
        When the model is of another kind, weighs peers or rows, or X carries no periods.
    """

    def __init__(self, model: BaseEstimator, X: PanelLike, y: OutcomesLike):
        learned = isinstance(model, AttentionOptions)
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
        if model.weighs_losses_:
            raise InputError("model: it was fitted with sample_weight= or loss_weight=, which refits do not support.")
        if model.members_ and not model.stack_.with_heads().weights_of_heads().any():
            why = "refits would move weights that no prediction depends on"
            remedy = "Fit it on more periods, or with other characteristics."
            raise InputError(f"model: its heads add nothing (heads_ has importance 0), and {why}. {remedy}")
        self.model = model
        sections = model._training_sections(model._in_units(rows), panel)
        self.training = Training.of(sections, model._problem(True, False))
        self.sections = self.training.with_outcomes
        values = None
        if any(member.spec.nuisance for member in model.members_):
            problem = self.training.problem
            nuisance = fit_nuisance(curves_of(self.training), self.sections, problem.loss, problem.within)
            if nuisance is not None:  # on other rows than those of the fit there may be none
                values = nuisance.values
        terms = model.stack_.with_heads().heads().terms
        # single precision: draws are compared to a twentieth of their spread
        self.sample = Sample(self.sections, terms, torch.float32, "cpu", values)

    @property
    def n_periods(self) -> int:
        """Number of training periods with known outcomes."""
        return len(self.sections)

    def refits(self, counts: np.ndarray) -> Iterator[list[list[Member]]]:
        """Yield the members of every draw, trained a round further each time, from where the fitted ones stand.

        Parameters
        ----------
        counts : ndarray (n_draws, n_periods)
            How often each training period was drawn.
        """
        modules = [[member.module()] * len(counts) for member in self.model.members_]
        loss = self.training.problem.loss
        while True:
            modules = [refit_modules(draws, self.sample, loss, counts, REFIT) for draws in modules]
            found = [list[Member]() for _ in counts]
            for member, draws in zip(self.model.members_, modules, strict=True):
                for mine, draw in zip(found, draws, strict=True):
                    mine.append(Member.from_module(draw, member.importance))
            yield found

    def weights(self, members: Sequence[Sequence[Member]], X: PanelLike, outcomes: OutcomesLike) -> Iterator[np.ndarray]:
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
            _, group = peer_columns(section)
            everyone = slice(0, len(section.focal))
            fitted = self.model.stack_.with_heads().heads()
            heads = [Heads(tuple(draw), fitted.terms, fitted.mix) for draw in members]
            yield np.stack([draw.network(self.model._as_seen(section))(everyone) @ group for draw in heads])
