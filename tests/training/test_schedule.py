"""Schedules against formulas and their shapes."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from peerattn.exceptions import InputError
from peerattn.training import SCHEDULES, make_scheduler


def shares(schedule, max_steps):
    """The learning rate of every step, as a share of the peak; torch gives no warning."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler = make_scheduler(schedule, optimizer, max_steps)
        for step in range(max_steps):
            found.append(optimizer.param_groups[0]["lr"] / 0.1)
            optimizer.step()
            if step < max_steps - 1:
                scheduler.step()
    return found


def half_cosine(start, end, share):
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def test_one_cycle_rises_for_three_tenths_then_falls():
    up = [half_cosine(1 / 25, 1, step / 29) for step in range(30)]
    down = [half_cosine(1, 4e-6, step / 70) for step in range(1, 71)]
    assert shares("one_cycle", 100) == pytest.approx(up + down, abs=1e-12)


def test_inverse_sqrt_is_vaswanis():
    d_model, warmup = 512, 200
    theirs = [d_model**-0.5 * min(t**-0.5, t * warmup**-1.5) for t in range(1, 2001)]
    assert shares("inverse_sqrt", 2000) == pytest.approx([value / max(theirs) for value in theirs])


def test_cosine_rises_then_falls_to_zero():
    up = [(step + 1) / 10 for step in range(10)]
    down = [half_cosine(1, 0, step / 90) for step in range(90)]
    assert shares("cosine", 100) == pytest.approx(up + down, abs=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("max_steps", [1, 2, 3, 4, 50])
def test_every_schedule_stays_in_range_for_any_length(name, max_steps):
    assert all(0 < value <= 1 + 1e-12 for value in shares(name, max_steps))


def test_a_function_is_a_schedule():
    assert shares(lambda step, max_steps: (max_steps - step) / max_steps, 4) == pytest.approx([1, 0.75, 0.5, 0.25])


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="schedule: expected one of .* got 'cosin'. Near matches: 'cosine'"):
        shares("cosin", 10)
