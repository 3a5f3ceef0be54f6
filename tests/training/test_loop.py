"""The training loop against torch's optimiser by hand, and each way to stop."""

from __future__ import annotations

import math
from itertools import cycle, repeat

import pytest
import torch
from torch import nn

from peerattn.exceptions import InputError
from peerattn.training import TrainingRecord, find_device, loop, multiplied_in, precision_of, train

TARGET = torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.float64, requires_grad=True)


def distance(parameter):
    return lambda batch: (parameter - batch).square().mean()


def test_minimises():
    parameter = zeros(2, 2)
    record = train([parameter], distance(parameter), repeat(TARGET), max_steps=300, learning_rate=0.1)
    torch.testing.assert_close(parameter.detach(), TARGET, rtol=0, atol=1e-4)
    assert record.steps == record.best_step == 300
    assert record.losses[0] == pytest.approx(TARGET.square().mean().item())


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_equals_adamw_by_hand(weight_decay):
    matrix, vector = zeros(2, 2), zeros(2)
    with torch.no_grad():
        matrix += 1
        vector += 1
    twins = [matrix.detach().clone().requires_grad_(), vector.detach().clone().requires_grad_()]
    draws = [TARGET * k for k in (1, -1, 2, 0.5, 3)]

    def loss(m, v, batch):
        return ((m + v) * batch).sin().square().sum()

    train([matrix, vector], lambda b: loss(matrix, vector, b), draws, max_steps=5, learning_rate=0.1,
          schedule=lambda step, max_steps: 1 / (step + 1), weight_decay=weight_decay, clip=0.5)  # fmt: skip
    optimizer = torch.optim.AdamW(
        [{"params": twins[:1], "weight_decay": weight_decay}, {"params": twins[1:], "weight_decay": 0.0}]
    )
    for step, batch in enumerate(draws):
        optimizer.zero_grad()
        loss(*twins, batch).backward()
        nn.utils.clip_grad_norm_(twins, 0.5)
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (step + 1)
        optimizer.step()
    for ours, theirs in zip((matrix, vector), twins):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_clipping_bounds_the_gradient():
    parameter = zeros(2, 2)
    seen = []
    parameter.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    steps = {"max_steps": 1, "learning_rate": 0.1}
    train([parameter], distance(parameter), [TARGET * 100], clip=0.25, **steps)
    assert seen[0].norm().item() == pytest.approx(0.25, rel=1e-4)
    parameter = zeros(2, 2)
    train([parameter], distance(parameter), [TARGET * 100], clip=None, **steps)
    torch.testing.assert_close(parameter.grad, -TARGET * 50)


def test_a_module_trains_and_frozen_parameters_stay():
    module = nn.utils.skip_init(nn.Linear, 2, 1).double()
    with torch.no_grad():
        module.weight.fill_(0.0)
        module.bias.fill_(5.0)
    module.bias.requires_grad_(False)
    train(module, lambda x: (module(x) - 7).square().mean(), repeat(TARGET), max_steps=10, learning_rate=0.1)
    assert module.bias.item() == 5.0 and (module.weight != 0).all()


def test_validation_restores_the_best_parameters():
    parameter = zeros(1)
    with torch.no_grad():
        parameter -= 5
    seen = {}

    def validate():  # best where the parameter passes zero, on its way from -5 to infinity
        assert not torch.is_grad_enabled()
        seen[len(seen)] = parameter.item()
        return parameter.abs().item()

    record = train([parameter], lambda b: -parameter.sum(), repeat(None), max_steps=100, learning_rate=0.1,
                   schedule="constant", validate=validate, validate_every=10)  # fmt: skip
    assert [step for step, _ in record.validation] == list(range(10, 101, 10))
    assert record.best_step == 50 and record.steps == 100
    assert parameter.item() == seen[4]
    assert abs(seen[9]) > 4
    assert str(record) == (f"100 steps, loss 5 to -4.9; best validation {dict(record.validation)[50]:.4g} after step 50")


def test_the_last_step_is_always_validated():
    parameter = zeros(1)
    record = train([parameter], lambda b: parameter.square().sum(), repeat(None), max_steps=7, learning_rate=0.1,
                   validate=lambda: 1.0, validate_every=5)  # fmt: skip
    assert [step for step, _ in record.validation] == [5, 7]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_divergence_names_the_step_and_the_cure(bad):
    parameter = zeros(2, 2)
    draws = [TARGET, TARGET, TARGET * bad]
    with pytest.raises(InputError, match=r"diverged at step 3: the loss is (nan|inf).* Lower learning_rate"):
        train([parameter], distance(parameter), draws, max_steps=3, learning_rate=0.1)
    assert parameter.isfinite().all()


def test_a_gradient_that_is_not_finite_is_caught_before_it_harms():
    parameter = zeros(1)
    with pytest.raises(InputError, match="diverged at step 1: the gradient's norm is (nan|inf)"):
        train([parameter], lambda b: parameter.sqrt().sum(), [None], max_steps=1, learning_rate=0.1)
    assert parameter.item() == 0


def test_a_validation_that_is_not_finite_is_an_error():
    parameter = zeros(1)
    with pytest.raises(InputError, match="diverged at step 1: the validation loss is nan"):
        train([parameter], lambda b: parameter.square().sum(), repeat(None), max_steps=1, learning_rate=0.1,
              validate=lambda: math.nan)  # fmt: skip


def test_too_few_batches_are_an_error():
    parameter = zeros(2, 2)
    with pytest.raises(InputError, match=r"batches: expected at least max_steps=5, got 2. Give an endless"):
        train([parameter], distance(parameter), [TARGET] * 2, max_steps=5, learning_rate=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_steps": 0}, "max_steps: expected an integer of at least 1, got 0"),
        ({"validate_every": -1}, "validate_every: expected"),
        ({"learning_rate": 0.0}, "learning_rate: expected a positive number, got 0.0"),
        ({"learning_rate": math.nan}, "learning_rate: expected a number, got nan"),
        ({"learning_rate": "fast"}, "learning_rate: expected a number, got 'fast'"),
        ({"clip": 0}, "clip: expected a positive number or None, got 0"),
        ({"clip": -1.0}, "clip: expected a positive number or None, got -1.0"),
        ({"weight_decay": -1}, "weight_decay: expected a number of at least 0, got -1"),
        ({"parameters": zeros(2)}, "parameters: expected at least one tensor"),
        (
            {"parameters": [torch.zeros(1)]},
            "parameters: expected at least one tensor with requires_grad=True",
        ),
    ],
)
def test_arguments_out_of_range(options, message):
    parameter = zeros(1)
    good = {"parameters": [parameter], "loss": distance(parameter), "batches": repeat(0.0)}
    with pytest.raises(InputError, match=message):
        train(**{**good, "max_steps": 1, "learning_rate": 0.1, **options})


def test_global_generators_stay_and_runs_repeat():
    state = torch.get_rng_state()

    def run() -> tuple[TrainingRecord, torch.Tensor]:
        parameter = zeros(2, 2)
        return train([parameter], distance(parameter), cycle([TARGET, -TARGET]), max_steps=20, learning_rate=0.1), parameter

    (first, one), (second, two) = run(), run()
    assert first == second and torch.equal(one, two)
    assert torch.equal(torch.get_rng_state(), state)


def test_progress_goes_to_standard_error_only_when_asked(capfd):
    for label in (None, "Training"):
        parameter = zeros(2, 2)
        train([parameter], distance(parameter), repeat(TARGET), max_steps=5, learning_rate=0.1, progress=label)
        out, err = capfd.readouterr()
        assert out == ""
        assert ("Training" in err and "5/5" in err) if label else err == ""


def test_average_is_the_mean_of_the_last_parameters():
    from itertools import repeat

    path: list[float] = []
    x = torch.tensor([1.0], requires_grad=True)

    def loss(_: None) -> torch.Tensor:
        path.append(x.item())
        return (x - 3).square().sum()

    train([x], loss, repeat(None), max_steps=12, learning_rate=0.3, average=4, schedule="constant")
    averaged = x.item()
    x.data.fill_(1.0)
    path.clear()
    train([x], loss, repeat(None), max_steps=12, learning_rate=0.3, schedule="constant")
    assert averaged == pytest.approx(sum([*path[-3:], x.item()]) / 4, rel=1e-5)
    with pytest.raises(InputError, match="average: goes without validation"):
        train([x], loss, repeat(None), max_steps=3, learning_rate=0.1, average=2, validate=x.item)
    with pytest.raises(InputError, match="average: expected an integer of at least 1"):
        train([x], loss, repeat(None), max_steps=3, learning_rate=0.1, average=0)


@pytest.mark.parametrize("read_every", [2, 4, 50])
def test_losses_that_are_read_together_are_those_that_are_read_each_step(read_every):
    records, ends = [], []
    for every in (1, read_every):
        parameter = zeros(2, 2)
        options = {"max_steps": 11, "learning_rate": 0.1, "read_every": every}
        records.append(train([parameter], distance(parameter), repeat(TARGET), **options))
        ends.append(parameter.detach())
    assert records[0] == records[1] and torch.equal(*ends)


@pytest.mark.parametrize("read_every", [1, 2, 5, 50])
@pytest.mark.parametrize("what", ["loss", "gradient's norm"])
def test_a_step_that_is_not_finite_changes_nothing_however_late_it_is_read(read_every, what):
    twin, parameter = zeros(2, 2), zeros(2, 2)
    rates = {"learning_rate": 0.1, "schedule": lambda step, max_steps: 1 / (1 + step)}
    train([twin], distance(twin), repeat(TARGET), max_steps=2, **rates)

    def loss(step):
        # the root has no derivative at zero
        gone = torch.nan if what == "loss" else (parameter * 0).sum().sqrt()
        return distance(parameter)(TARGET) + (gone if step == 3 else 0)

    with pytest.raises(InputError, match=rf"diverged at step 3: the {what} is nan \(learning rate then 0.0333\)"):
        train([parameter], loss, range(1, 8), max_steps=7, read_every=read_every, **rates)
    assert torch.equal(parameter, twin)


def test_the_device_is_waited_for_once_in_read_every_steps(monkeypatch):
    waits = []
    read = loop._Log.read
    monkeypatch.setattr(loop._Log, "read", lambda log: (waits.append(len(log.waiting)), read(log))[1])
    parameter = zeros(2, 2)
    train([parameter], distance(parameter), repeat(TARGET), max_steps=50, learning_rate=0.1, read_every=20)
    assert waits == [20, 20, 10, 0]


def test_bfloat16_multiplies_in_bfloat16_and_keeps_parameters_in_float32():
    kinds = set()
    parameter = torch.zeros(2, 2, requires_grad=True)

    def loss(batch):
        product = parameter @ batch
        kinds.add((product.dtype, parameter.dtype))
        return (product.float() - batch).square().mean()

    options = {"max_steps": 300, "learning_rate": 0.05, "precision": "bfloat16"}
    train([parameter], loss, repeat(TARGET.float()), **options)
    assert kinds == {(torch.bfloat16, torch.float32)}
    torch.testing.assert_close(parameter.detach(), torch.eye(2), rtol=0, atol=0.05)
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("precision", "words"), [("tf32", "needs a CUDA GPU"), ("float16", "expected one of"), (16, "expected text, got 16")]
)
def test_a_precision_that_the_device_lacks_is_named(precision, words):
    parameter = zeros(2, 2)
    with pytest.raises(InputError, match=f"precision: .*{words}"):
        train([parameter], distance(parameter), repeat(TARGET), max_steps=1, learning_rate=0.1, precision=precision)


def test_precision_is_found_by_the_device(monkeypatch):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    for capability, found in (((7, 5), "float32"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert precision_of("auto", gpu) == found and precision_of("auto", cpu) == "float32"
        inside = []
        before = torch.get_float32_matmul_precision()
        with multiplied_in("tf32" if found == "bfloat16" else "float32", gpu):
            inside.append(torch.get_float32_matmul_precision())
        assert inside == ["high" if found == "bfloat16" else before]
        assert torch.get_float32_matmul_precision() == before


def test_a_device_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == "cpu"
    for name in ("cuda:99", "gpu", "abacus"):
        with pytest.raises(InputError, match=f"device='{name}' cannot be used .*Use device=\"cpu\""):
            find_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == "cuda"


def test_parameters_that_the_last_step_has_spoiled_are_an_error():
    weight = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(InputError, match="Training diverged at step 1: the parameters' norm is inf"):
        train([weight], lambda x: weight.sum() * x, repeat(1.0), max_steps=1, learning_rate=0.1, weight_decay=1e30)
