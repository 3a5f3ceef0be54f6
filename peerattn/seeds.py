"""Seeds: what ``random_state`` may be."""

from numbers import Integral
from typing import Any

import numpy as np

from peerattn.exceptions import InputError


def seeded_generator(random_state: int) -> np.random.Generator:
    """Return numpy's generator of a seed, or an InputError as :func:`check_seed` raises it."""
    check_seed(random_state)
    return np.random.default_rng(random_state)


def check_seed(random_state: Any) -> None:
    """Raise an InputError for what seeds no generator of numpy: a negative number, a fraction, text.

    >>> check_seed(-1)
    Traceback (most recent call last):
    peerattn.exceptions.InputError: random_state: expected a whole number from 0 to 4294967295, a RandomState or None, got -1.
    """
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if random_state is None or hasattr(random_state, "randint") or (whole and 0 <= int(random_state) < 2**32):
        return
    raise InputError(f"random_state: expected a whole number from 0 to {2**32 - 1}, a RandomState or None, got {random_state!r}.")
