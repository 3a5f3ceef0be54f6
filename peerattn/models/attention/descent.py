"""Gradient steps: Adam on a cycle of learning rates, and L-BFGS for small samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.optim.adam import (
    adam,  # the function: torch's optimiser classes import its compiler, 1.2 CPU s a process
)

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
from peerattn.processes import all_sum, average_gradients

STEPS = 40  # of Adam, in a bracket of starts and for heads that were found
FINE_RATE = 0.15  # peak learning rate for heads that were found
LBFGS_STEPS = 25


def minimise(
    parameters: Iterable[Tensor],
    loss: Callable[[Any], Tensor],
    batches: Iterator[Any],
    steps: int,
    rate: float,
) -> None:
    """Minimise a loss in place by Adam; the learning rate rises for three tenths of the steps and falls to zero (cosine)."""
    free = [parameter for parameter in parameters if parameter.requires_grad]
    first, second = ([torch.zeros_like(p) for p in free] for _ in range(2))
    count = [torch.tensor(0.0) for _ in free]
    top = 0.3 * steps
    for step in range(steps):
        value = loss(next(batches))
        for parameter in free:
            parameter.grad = None
        value.backward()
        average_gradients(free)
        share = step / top if step < top else 1 + (step - top) / max(steps - 1 - top, 1)
        cycle = rate * max(0.04, 0.5 * (1 - math.cos(math.pi * min(share, 2.0))))
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in free]
        with torch.no_grad():
            adam(
                free, grads, first, second, [], count,
                foreach=False, capturable=False, differentiable=False, fused=False, amsgrad=False,
                beta1=0.9, beta2=0.999, lr=cycle, weight_decay=0.0, eps=1e-8, maximize=False,
            )  # fmt: skip


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
        score_parameters(module).values(),
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
    if sample.n_cells * module.spec.n_heads > SMALL:
        return descend(module, None, sample, generator, 4, FINE_RATE, module.spec.n_heads)
    scores = list(score_parameters(module).values())
    sizes, dtype = [score.numel() for score in scores], scores[0].dtype

    def put(flat: np.ndarray) -> None:
        with torch.no_grad():
            for score, part in zip(scores, torch.as_tensor(flat, dtype=dtype).split(sizes), strict=True):
                score.copy_(part.view_as(score))

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        put(flat)
        for score in scores:
            score.grad = None
        gram, (n_own, n_targets) = summed(products(module, None, sample, module.spec.n_heads))
        b = ridge_solution(gram, n_targets, RIDGE)
        squares = (squared_errors(gram, b)[0] + RIDGE * b.square().sum()).clamp(min=1e-30)
        held = penalty(module, sample).sum()
        held.backward()
        shared = [
            score.grad.clone() if score.grad is not None else torch.zeros_like(score) for score in scores
        ]
        for score in scores:
            score.grad = None
        for batch in sample.whole():
            own, mixed, y = (
                z.flatten(-3, -2) for z in parts(module, None, batch, module.spec.n_heads, sample.common)
            )
            rest = y - own @ b[:, :n_own].to(y) - mixed @ b[:, n_own:].to(y)
            (rest.square().sum() / squares).backward()
        grads = [
            all_sum(torch.zeros_like(s) if s.grad is None else s.grad) + g
            for s, g in zip(scores, shared, strict=True)
        ]
        flat_grad = torch.cat([g.flatten() for g in grads]).double().cpu().numpy()
        return float(held.detach() + squares.log()), flat_grad

    start = torch.cat([score.detach().flatten() for score in scores]).double().cpu().numpy()
    found = minimize(
        value, start, jac=True, method="L-BFGS-B", options={"maxiter": LBFGS_STEPS, "maxcor": 20}
    )
    put(found.x)
