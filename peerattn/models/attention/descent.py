"""Gradient steps on the scores of heads, their linear part solved at each."""

from __future__ import annotations

import torch
from torch import Tensor

from peerattn.models.attention.peer_module import PeerModule
from peerattn.models.attention.projection import (
    RIDGE,
    parts,
    penalty,
    products,
    projected_loss,
    ridge_solution,
    score_parameters,
    squared_errors,
    summed,
)
from peerattn.models.attention.samples import SMALL, Sample
from peerattn.processes import all_sum, n_processes
from peerattn.training import train
from peerattn.training.checkpoint import optimised

STEPS = 60  # of Adam
FINE_RATE = 0.15  # peak learning rate of Adam for heads that were found, with one cycle
LBFGS_STEPS = 40


def descend(
    module: PeerModule,
    found: PeerModule | None,
    sample: Sample,
    generator: torch.Generator,
    times: int,
    rate: float,
    joint: bool = False,
) -> None:
    """Optimise the scores of every head by itself, or of all jointly, by Adam, with so many times ROWS a step."""
    train(
        score_parameters(module).values(),
        lambda batch: projected_loss(module, found, batch, joint, sample).sum(),
        sample.drawn(generator, times),
        max_steps=STEPS,
        learning_rate=rate,
        clip=None,
        checkpoint=sample.settings.checkpoint,
        generators=[generator],
    )


def finish(module: PeerModule, sample: Sample, generator: torch.Generator) -> None:
    """Optimise the scores of all heads jointly: by L-BFGS on the whole sample, or by Adam where that is large."""
    if not module.spec.n_heads:
        return
    module.requires_grad_(True)
    if sample.n_cells * module.spec.n_heads > SMALL:
        return descend(module, None, sample, generator, 4, FINE_RATE, joint=True)
    scores = list(score_parameters(module).values())
    optimizer = torch.optim.LBFGS(
        scores,
        max_iter=LBFGS_STEPS,
        line_search_fn="strong_wolfe",
        tolerance_change=1e-6,
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        gram, (n_own, n_targets) = summed(products(module, None, sample, joint=True))
        b = ridge_solution(gram, n_targets, RIDGE)
        squares = (squared_errors(gram, b)[0] + RIDGE * b.square().sum()).clamp(min=1e-30)
        loss = penalty(module, sample).sum()
        (loss / n_processes()).backward()
        for batch in sample.whole():
            own, mixed, y = (z.flatten(-3, -2) for z in parts(module, None, batch, joint=True))
            rest = y - own @ b[:, :n_own].to(y) - mixed @ b[:, n_own:].to(y)
            (rest.square().sum() / squares).backward()
        for score in scores:
            score.grad = all_sum(score.grad)
        return loss.detach() + squares.log()

    optimised(sample.settings.checkpoint, scores, lambda: optimizer.step(closure))
