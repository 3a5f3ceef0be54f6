"""Learning-rate schedules: torch's by name, or a function from the step to a share of the peak learning rate."""

import math
from collections.abc import Callable

from torch.optim import Optimizer, lr_scheduler

from peerattn.exceptions import InputError, did_you_mean

#: ``schedule(step, max_steps)`` with step = 0, ..., max_steps - 1 gives the share of the peak learning rate.
Schedule = Callable[[int, int], float]
SCHEDULES = ("constant", "cosine", "inverse_sqrt", "one_cycle")
WARMUP = 0.1  # share of the steps in which "cosine" and "inverse_sqrt" rise


def make_scheduler(schedule: str | Schedule, optimizer: Optimizer, max_steps: int) -> lr_scheduler.LRScheduler:
    r"""Return a torch scheduler whose peak is the optimizer's learning rate.

    Parameters
    ----------
    schedule : {"one_cycle", "cosine", "inverse_sqrt", "constant"} or callable
        "one_cycle": torch's `OneCycleLR`, up along a half cosine for 30 % of the steps, then down along another. "cosine" and
        "inverse_sqrt": up along a line for 10 % of the steps (w), then along a half cosine to 0, or as :math:`\sqrt{w / t}`. A
        function of (step, max_steps) gives the share of the peak.
    optimizer : torch.optim.Optimizer
    max_steps : int

    Raises
    ------
    InputError
        When there is no schedule of that name.

    References
    ----------
    Smith and Topin (2017), Super-convergence: very fast training of neural networks using large learning rates. Loshchilov and
    Hutter (2017), SGDR: stochastic gradient descent with warm restarts, ICLR. Vaswani et al. (2017), Attention is all you need,
    section 5.3.

    Examples
    --------
    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    >>> scheduler = make_scheduler("inverse_sqrt", optimizer, 20)
    >>> optimizer.param_groups[0]["lr"]  # half of the peak in the first of two rising steps
    0.25
    """
    rising = max(WARMUP * max_steps, 1.0)
    if callable(schedule):
        return lr_scheduler.LambdaLR(optimizer, lambda step: schedule(step, max_steps))
    if schedule == "constant":
        return lr_scheduler.ConstantLR(optimizer, factor=1.0)
    if schedule == "one_cycle":
        peak = optimizer.param_groups[0]["lr"]
        return lr_scheduler.OneCycleLR(optimizer, peak, total_steps=max_steps, cycle_momentum=False)
    if schedule == "inverse_sqrt":
        return lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / rising, math.sqrt(rising / (step + 1))))
    if schedule == "cosine":
        # a cosine from the peak on, after a straight rise
        rise = round(rising)
        up = lr_scheduler.LinearLR(optimizer, 1 / rise, total_iters=max(rise - 1, 1))
        down = lr_scheduler.CosineAnnealingLR(optimizer, max(max_steps - rise, 1))
        return lr_scheduler.SequentialLR(optimizer, [up, down], milestones=[rise])
    wanted = f"schedule: expected one of {list(SCHEDULES)} or a function of (step, max_steps)"
    raise InputError(f"{wanted}, got {schedule!r}.{did_you_mean(schedule, SCHEDULES)}")
