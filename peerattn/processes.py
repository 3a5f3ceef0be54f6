"""Several processes that fit one model: rows shown to all, the work shared out, sums over all of them."""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from peerattn.exceptions import InputError

Value = TypeVar("Value")

_place = {"number": 0, "of": 1}  # of this process among those that fit together


@contextmanager
def data_parallel() -> Iterator[None]:
    """Let the processes that ``torchrun`` started fit one model together inside the ``with`` block.

    Every process calls the same methods in the same order, with its own rows: no row may be in two processes. A panel in files
    is shared out by itself: each process reads its share of the periods. ``fit`` shows the rows to all, and shares out the work:
    each process computes losses, gradients and products of columns for some of the periods, which are summed by gloo on CPUs and
    by NCCL on GPUs, so that all take the same steps and end with the same model.

    Raises
    ------
    InputError
        When the script was not started by ``torchrun``.

    Notes
    -----
    Attention models only; an own model that is an estimator raises an error. ``reference=`` is the same in all processes. Sums in
    another order differ in their last bits, so that figures are those of one process to rounding only. The processes exchange
    Python objects: let only your own machines, of one kind, take part.

    Examples
    --------
    A script, started by ``torchrun --nproc-per-node=2 script.py``::

        with data_parallel():
            model = PeerAttentionRegressor(random_state=0).fit(scan_panel("panel.parquet", outcome="y_next"))
        if os.environ["RANK"] == "0":
            model.save("y.model")
    """
    import torch
    import torch.distributed as dist

    lacking = [name for name in ("RANK", "WORLD_SIZE") if name not in os.environ]
    remedy = "Start the script with torchrun --nproc-per-node=2 SCRIPT."
    if lacking and not dist.is_initialized():
        raise InputError(f"data_parallel: {' and '.join(lacking)} are not in the environment. {remedy}")
    if not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        # at the end: a group that is left and joined again may meet its old addresses
        atexit.register(dist.destroy_process_group)
    _place.update({"number": dist.get_rank(), "of": dist.get_world_size()})
    try:
        yield
    finally:
        _place.update({"number": 0, "of": 1})


def joined() -> bool:
    """Whether this process fits together with others."""
    return n_processes() > 1


def n_processes() -> int:
    """Return how many processes fit together."""
    return _place["of"]


def process() -> int:
    """Return the number of this process, from 0."""
    return _place["number"]


def share() -> slice:
    """Return which items of a list are this process's: every n-th of n processes."""
    return slice(process(), None, n_processes())


def all_sum(value: Any) -> Any:
    """Return the sum over the processes of a tensor or a number.

    Of a tensor the derivative is that of the own part, times the number of processes: the mean of the processes' gradients is
    then the gradient of a loss of the sum.
    """
    if not joined():
        return value
    import torch
    import torch.distributed as dist

    wide = torch.float64 if isinstance(value, float) else None
    total = torch.as_tensor(value, dtype=wide).detach().clone()
    dist.all_reduce(total, dist.ReduceOp.SUM)
    if not isinstance(value, torch.Tensor):
        return type(value)(total.item())
    if torch.is_grad_enabled() and value.requires_grad:  # each process differentiates its own part
        total = total + n_processes() * (value - value.detach())
    return total


def averaged(gradients: Sequence[Any]) -> list[Any]:
    """Return the mean over the processes of each gradient: each differentiates the loss as far as it depends on its own rows."""
    if not joined():
        return list(gradients)
    import torch

    flat = all_sum(torch.cat([each.flatten() for each in gradients])) / n_processes()
    parts = flat.split([each.numel() for each in gradients])
    return [part.view_as(each) for part, each in zip(parts, gradients, strict=True)]


def gathered(value: Value) -> list[Value]:
    """Return what every process has, in their order."""
    if not joined():
        return [value]
    import torch.distributed as dist

    found: list[Any] = [None] * n_processes()
    dist.all_gather_object(found, value)
    return found


def from_first(value: Value) -> Value:
    """Return what the first process has."""
    return gathered(value)[0]
