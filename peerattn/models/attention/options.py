"""Where torch can learn."""

from __future__ import annotations

import torch

from peerattn.exceptions import InputError


def check_device(device: str) -> None:
    """Raise for a device that torch cannot use."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f'device={device!r} cannot be used ({reason}). Use device="cpu".') from error
