"""Schedules against torch's, and their shapes."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from peerattn.exceptions import InputError
from peerattn.training import SCHEDULES, constant, cosine, inverse_sqrt, one_cycle
from peerattn.training.schedule import find_schedule


@pytest.mark.parametrize(("max_steps", "warmup"), [(10, 0.3), (101, 0.3), (37, 0.1), (1000, 0.5)])
def test_one_cycle_equals_torch(max_steps, warmup):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1.0, total_steps=max_steps, pct_start=warmup, cycle_momentum=False
    )
    for step in range(max_steps):
        want = optimizer.param_groups[0]["lr"]
        assert one_cycle(step, max_steps, warmup=warmup) == pytest.approx(want, abs=1e-12)
        optimizer.step()
        if step < max_steps - 1:
            theirs.step()


def test_inverse_sqrt_is_vaswanis():
    d_model, warmup, max_steps = 512, 400, 2000
    theirs = [d_model**-0.5 * min(t**-0.5, t * warmup**-1.5) for t in range(1, max_steps + 1)]
    ours = [inverse_sqrt(t, max_steps, warmup=warmup / max_steps) for t in range(max_steps)]
    assert ours == pytest.approx([value / max(theirs) for value in theirs])


def test_cosine_rises_then_falls_to_its_end():
    values = [cosine(step, 100, warmup=0.2, end=0.1) for step in range(100)]
    assert values[:20] == pytest.approx([(step + 1) / 20 for step in range(20)])
    assert values[20] == pytest.approx(1.0) and values[60] == pytest.approx(0.55)
    assert 0.1 < values[-1] < 0.101
    assert all(a > b for a, b in zip(values[20:], values[21:]))


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("max_steps", [1, 2, 3, 4, 50])
def test_every_schedule_stays_in_range_for_any_length(name, max_steps):
    values = [SCHEDULES[name](step, max_steps) for step in range(max_steps)]
    assert all(0 < value <= 1 for value in values)


def test_find_schedule():
    mine = partial(cosine, warmup=0.3)
    assert find_schedule(mine) is mine
    assert find_schedule("constant") is constant
    with pytest.raises(InputError, match="schedule: expected one of .* got 'cosin'. Near matches: 'cosine'"):
        find_schedule("cosin")
