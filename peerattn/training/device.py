"""Devices, and the precision in which they multiply matrices."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal, get_args

import torch

from peerattn.exceptions import InputError, reworded, validate_arguments

Precision = Literal["auto", "float32", "tf32", "bfloat16"]


@validate_arguments
def find_device(name: str) -> str:
    """Return the name of a device that is there.

    Parameters
    ----------
    name : str
        As torch has them; "auto" is a CUDA GPU where torch finds one, and the CPU elsewhere.

    Raises
    ------
    InputError
        When torch cannot use it.

    Examples
    --------
    >>> find_device("cpu")
    'cpu'
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    with reworded(f"device={name!r} cannot be used", ' Use device="cpu".', (RuntimeError, AssertionError, TypeError)):
        torch.empty(0, device=name)
    return name


@validate_arguments
def precision_of(precision: str, device: torch.device) -> str:
    """Return the precision of products on this device: "auto" is bfloat16 on a GPU that has it, and float32 elsewhere.

    Raises
    ------
    InputError
        When there is no such precision, or the device lacks it.

    Examples
    --------
    >>> import torch
    >>> from peerattn.training import precision_of
    >>> precision_of("auto", torch.device("cpu"))
    'float32'
    """
    if precision not in get_args(Precision):
        raise InputError(f"precision: expected one of {list(get_args(Precision))}, got {precision!r}.")
    if precision == "auto":
        return "bfloat16" if _is_recent(device) else "float32"
    lacks = precision == "tf32" or (precision == "bfloat16" and device.type == "cuda")
    if lacks and not _is_recent(device):
        needed = "a CUDA GPU of compute capability 8 or later"
        raise InputError(f"precision: {precision!r} needs {needed}, got device {str(device)!r}. Use 'auto'.")
    return precision


@validate_arguments
@contextmanager
def multiplied_in(precision: str, device: torch.device) -> Iterator[None]:
    """Multiply matrices in this precision, of those of `precision_of`, within the ``with`` block; parameters stay as they are.

    Examples
    --------
    >>> import torch
    >>> from peerattn.training import multiplied_in
    >>> with multiplied_in("float32", torch.device("cpu")):
    ...     (torch.ones(1, 1) @ torch.ones(1, 1)).dtype
    torch.float32
    """
    # a global setting of torch: put back at the end
    before = torch.get_float32_matmul_precision()
    if precision != "float32" and device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32
    narrow = torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()
    try:
        with narrow:
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def _is_recent(device: torch.device) -> bool:
    """Whether a device is a GPU that has TF32 and bfloat16."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8
