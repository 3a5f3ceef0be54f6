"""Schedules against formulas and their shapes."""

from __future__ import annotations

import math

import pytest
import torch

from peerattn.exceptions import InputError
from peerattn.training import SCHEDULES, find_device, make_schedule, precision_of


def shares(schedule, max_steps):
    """The learning rate of every step, as a share of the peak."""
    rate = make_schedule(schedule, 0.1, max_steps)
    return [rate(step) / 0.1 for step in range(max_steps)]


@pytest.mark.parametrize("max_steps", [1, 2, 3, 10, 450])
def test_one_cycle_is_torchs(max_steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.02)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=max_steps, cycle_momentum=False)
    ours = make_schedule("one_cycle", 0.02, max_steps)
    for step in range(max_steps):
        assert ours(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        if step < max_steps - 1:
            scheduler.step()


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_schedule("cosine", "high", 5), "peak: expected a number, got 'high'"),
        (lambda: make_schedule("cosine", 0.1, 0), "max_steps: expected an integer of at least 1"),
        (lambda: find_device(None), "name: expected text, got None"),
        (lambda: precision_of("auto", "cpu"), "device: expected device, got 'cpu'"),
    ],
)
def test_arguments_of_another_kind_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
