"""Gradient steps: Adam on a cycle of learning rates, and L-BFGS for small samples."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize

from peerattn.models.attention.peer_module import PeerModule
from peerattn.models.attention.projection import projected_loss
from peerattn.models.attention.samples import PAIRS, Sample
from peerattn.training.adam import gradients, minimise

STEPS = 40  # of Adam, in a bracket of starts and for heads that were found
FINE_RATE = 0.15  # peak learning rate for heads that were found
LBFGS_STEPS = 25


def descend(
    module: PeerModule,
    found: PeerModule | None,
    sample: Sample,
    generator: torch.Generator,
    times: int,
    rate: float,
    size: int = 1,
    cycles: int = 1,
) -> None:
    """Optimise the scores of every ``size`` heads jointly, by Adam, with so many times ROWS a step and STEPS steps."""
    minimise(
        module.score_parameters().values(),
        lambda batch: projected_loss(module, found, batch, size, sample).sum(),
        sample.drawn(generator, times, module.spec.n_heads),
        cycles * STEPS,
        rate,
    )


def finish(module: PeerModule, sample: Sample, generator: torch.Generator) -> None:
    """Optimise the scores of all heads jointly: by L-BFGS on the whole sample, or by Adam where that is large."""
    if not module.spec.n_heads:
        return
    module.requires_grad_(True)
    scores, size = list(module.score_parameters().values()), module.spec.n_heads
    if sample.n_cells * size > 2 * PAIRS:
        return descend(module, None, sample, generator, 4, FINE_RATE, size)
    batch = sample.batch(range(len(sample.sections)))
    shapes = [score.numel() for score in scores]

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        parts = torch.as_tensor(flat, dtype=scores[0].dtype).split(shapes)
        with torch.no_grad():
            for score, part in zip(scores, parts, strict=True):
                score.copy_(part.view_as(score))
        loss = projected_loss(module, None, batch, size, sample).sum()
        slope = torch.cat([g.flatten() for g in gradients(loss, scores)])
        return float(loss.detach()), slope.double().cpu().numpy()

    start = torch.cat([score.detach().flatten() for score in scores]).double().cpu().numpy()
    options = {"maxiter": LBFGS_STEPS, "maxcor": 20}
    value(minimize(value, start, jac=True, method="L-BFGS-B", options=options).x)
