"""Learning-rate schedules: functions from the step to a share of the peak learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable

from peerattn.exceptions import InputError, did_you_mean

#: ``schedule(step, max_steps)`` with step = 0, ..., max_steps - 1 gives the share of the peak learning rate.
Schedule = Callable[[int, int], float]


def constant(step: int, max_steps: int) -> float:
    """Return 1 at every step.

    Examples
    --------
    >>> constant(0, 10), constant(9, 10)
    (1.0, 1.0)
    """
    return 1.0


def one_cycle(
    step: int, max_steps: int, *, warmup: float = 0.3, start: float = 1 / 25, end: float = 4e-6
) -> float:
    r"""Rise along a half cosine from ``start`` to 1, then fall along another to ``end``.

    .. math:: c(a, b, u) = b + (a - b)\,\tfrac12 (1 + \cos \pi u)

    Parameters
    ----------
    step, max_steps : int
        Step 0, ..., max_steps - 1, and how many there are.
    warmup : float, default 0.3
        Share of the steps that rise.
    start, end : float
        First and last value, as shares of the peak.

    Returns
    -------
    float
        The same numbers as `torch.optim.lr_scheduler.OneCycleLR`.

    References
    ----------
    Smith and Topin (2017), Super-convergence: very fast training of neural networks using large learning rates.

    Examples
    --------
    >>> [round(one_cycle(step, 10), 3) for step in range(10)]
    [0.04, 0.52, 1.0, 0.95, 0.812, 0.611, 0.389, 0.188, 0.05, 0.0]
    """
    peak, last = max(warmup * max_steps - 1, 0.0), max_steps - 1
    if step < peak:
        return _half_cosine(start, 1.0, step / peak)
    return _half_cosine(1.0, end, (step - peak) / (last - peak)) if last > peak else 1.0


def cosine(step: int, max_steps: int, *, warmup: float = 0.1, end: float = 0.0) -> float:
    """Rise along a line to 1, then fall along a half cosine towards ``end``.

    Parameters
    ----------
    step, max_steps : int
        Step 0, ..., max_steps - 1, and how many there are.
    warmup : float, default 0.1
        Share of the steps that rise.
    end : float, default 0
        Where the fall would arrive one step after the last, as a share of the peak.

    Returns
    -------
    float

    References
    ----------
    Loshchilov and Hutter (2017), SGDR: stochastic gradient descent with warm restarts, ICLR.

    Examples
    --------
    >>> [round(cosine(step, 10, warmup=0.2), 2) for step in range(10)]
    [0.5, 1.0, 1.0, 0.96, 0.85, 0.69, 0.5, 0.31, 0.15, 0.04]
    """
    rising = warmup * max_steps
    if step < rising:
        return min((step + 1) / rising, 1.0)
    return _half_cosine(1.0, end, (step - rising) / (max_steps - rising))


def inverse_sqrt(step: int, max_steps: int, *, warmup: float = 0.1) -> float:
    r"""Rise along a line to 1, then fall with the inverse square root of the step.

    .. math:: \min\big((t + 1) / w,\; \sqrt{w / (t + 1)}\big), \qquad w = \text{warmup} \cdot \text{max\_steps}

    Parameters
    ----------
    step, max_steps : int
        Step t = 0, ..., max_steps - 1, and how many there are.
    warmup : float, default 0.1
        Share of the steps that rise.

    Returns
    -------
    float

    References
    ----------
    Vaswani et al. (2017), Attention is all you need, section 5.3.

    Examples
    --------
    >>> [round(inverse_sqrt(step, 8, warmup=0.25), 2) for step in range(8)]
    [0.5, 1.0, 0.82, 0.71, 0.63, 0.58, 0.53, 0.5]
    """
    rising = max(warmup * max_steps, 1.0)
    return min((step + 1) / rising, math.sqrt(rising / (step + 1)))


SCHEDULES: dict[str, Schedule] = {
    "constant": constant,
    "cosine": cosine,
    "inverse_sqrt": inverse_sqrt,
    "one_cycle": one_cycle,
}


def find_schedule(schedule: str | Schedule) -> Schedule:
    """Return the schedule of that name; a function is returned as it is.

    Examples
    --------
    >>> find_schedule("cosine") is cosine
    True
    """
    if callable(schedule):
        return schedule
    if schedule not in SCHEDULES:
        raise InputError(
            f"schedule: expected one of {sorted(SCHEDULES)} or a function of (step, max_steps), got {schedule!r}."
            f"{did_you_mean(schedule, SCHEDULES)}"
        )
    return SCHEDULES[schedule]


def _half_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
