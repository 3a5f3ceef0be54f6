"""Adam on one cycle of learning rates, for losses of which each of several processes may have a part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam  # torch's optimiser classes import its compiler, 1.2 CPU s a process

from peerattn.processes import averaged


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
        grads = gradients(loss(next(batches)), free)
        share = step / top if step < top else 1 + (step - top) / max(steps - 1 - top, 1)
        cycle = rate * max(0.04, 0.5 * (1 - math.cos(math.pi * min(share, 2.0))))
        with torch.no_grad():
            adam(
                free, grads, first, second, [], count,
                foreach=False, capturable=False, differentiable=False, fused=False, amsgrad=False,
                beta1=0.9, beta2=0.999, lr=cycle, weight_decay=0.0, eps=1e-8, maximize=False,
            )  # fmt: skip


def gradients(value: Tensor, free: Sequence[Tensor]) -> list[Tensor]:
    """Return the derivatives of a loss by these parameters: of several processes, the mean of theirs."""
    found = torch.autograd.grad(value, free, allow_unused=True)
    return averaged([torch.zeros_like(p) if g is None else g for g, p in zip(found, free, strict=True)])
