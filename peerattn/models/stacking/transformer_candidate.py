"""The transformer over firms as a candidate of a stack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from peerattn.models.learners.losses import loss_of, squared_error
from peerattn.models.learners.training import Training
from peerattn.models.learners.transformer import TransformerLearner
from peerattn.models.stacking.evidence import Candidate
from peerattn.models.stacking.origins import outcomes_of


def transformer_candidate(
    name: str, group: str, learner: TransformerLearner, without_attention: TransformerLearner | None = None
) -> Candidate:
    """Return a transformer as a candidate, its scale fitted to the loss by which it learns, and the control of its test."""
    loss = learner.training.loss

    def make(training: Training, start: TransformerLearner | None) -> TransformerLearner:
        fitted = replace(learner).fit(training.residuals, start)
        if training.problem.loss is not squared_error or loss == "rank":
            _scale_to_loss(fitted, training)
        if loss == "sharpe":
            # absolute weights of the average period add up to one
            gross = np.mean([np.abs(weights).mean() for weights in fitted.predict(training.residuals)])
            fitted.scale /= float(gross) or 1.0
        return fitted

    control = None
    if without_attention is not None:
        control = transformer_candidate(f"{name}, without attention", group, without_attention)
    return Candidate(name, group, make, control)


def _scale_to_loss(learner: TransformerLearner, training: Training) -> None:
    """Multiply what a learner adds by the number of least loss (Friedman 2001), in place."""
    base = np.concatenate([section.own_term for section in training.residuals])
    added = np.concatenate(learner.predict(training.residuals)) - base
    y, weight = outcomes_of(training.sections)
    loss = lambda factor: float(loss_of(training.problem.loss, base + factor * added, y) @ weight)  # noqa: E731
    learner.scale *= float(minimize_scalar(loss, bounds=(0.0, 16.0), method="bounded").x)
