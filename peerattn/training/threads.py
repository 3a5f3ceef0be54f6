"""One thread: sums in one order, so that figures do not depend on how many threads there are."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
# torch's number of threads when the first block was entered; one entry for each block
_before: list[int] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one thread inside the ``with`` block, or the function it decorates.

    Sums, products of matrices, and decompositions by torch, MKL and OpenBLAS are split among threads, and their last bits depend
    on how. Blocks may be nested, and entered from several Python threads.
    """
    with _lock:
        _before.append(_before[0] if _before else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before:
                torch.set_num_threads(before)


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
