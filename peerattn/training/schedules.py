"""Learning rates over the steps of training."""

import math
from collections.abc import Callable

from peerattn.exceptions import InputError, check_at_least, did_you_mean, validate_arguments

#: ``schedule(step, max_steps)`` with step = 0, ..., max_steps - 1 gives the share of the peak learning rate.
Schedule = Callable[[int, int], float]
SCHEDULES = ("constant", "cosine", "inverse_sqrt", "one_cycle")
WARMUP = 0.1  # share of the steps in which "cosine" and "inverse_sqrt" rise
ONE_CYCLE = (0.3, 1 / 25, 1 / 250_000)  # share of the steps that rise, first and last rate as shares of the peak


@validate_arguments
def make_schedule(schedule: str | Schedule, peak: float, max_steps: int) -> Callable[[int], float]:
    r"""Return the function that gives the learning rate of a step, from 0.

    Parameters
    ----------
    schedule : {"one_cycle", "cosine", "inverse_sqrt", "constant"} or callable
        "one_cycle": up along a half cosine for 30 % of the steps, then down along another, as torch's `OneCycleLR`. "cosine" and
        "inverse_sqrt": up along a line for 10 % of the steps (w), then along a half cosine to 0, or as :math:`\sqrt{w / t}`. A
        function of (step, max_steps) gives the share of the peak.
    peak : float
        The largest learning rate.
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
    >>> rate = make_schedule("inverse_sqrt", 0.5, 20)
    >>> rate(0)  # half of the peak in the first of two rising steps
    0.25
    """
    check_at_least(1, max_steps=max_steps)
    rising = max(WARMUP * max_steps, 1.0)
    if callable(schedule):
        return lambda step: peak * schedule(step, max_steps)
    if schedule == "constant":
        return lambda step: peak
    if schedule == "inverse_sqrt":
        return lambda step: peak * min((step + 1) / rising, math.sqrt(rising / (step + 1)))
    if schedule == "one_cycle":
        share, first, last = ONE_CYCLE
        top = share * max_steps - 1
        return lambda step: _up_and_down(step, peak, first * peak, last * peak, top, max_steps - 1)
    if schedule == "cosine":
        # a cosine from the peak on, after a straight rise
        rise = round(rising)
        fall = max(max_steps - rise, 1)
        return lambda step: peak * min((step + 1) / rise, _half_cosine(1.0, 0.0, max(step - rise, 0) / fall))
    wanted = f"schedule: expected one of {list(SCHEDULES)} or a function of (step, max_steps)"
    raise InputError(f"{wanted}, got {schedule!r}.{did_you_mean(schedule, SCHEDULES)}")


def _up_and_down(step: int, peak: float, first: float, last: float, top: float, end: float) -> float:
    """Return the rate that rises from ``first`` to the peak at ``top``, and falls to ``last`` at ``end``."""
    if step <= top:
        return _half_cosine(first, peak, step / top)
    return _half_cosine(peak, last, (step - top) / (end - top))


def _half_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (math.cos(math.pi * share) + 1)
