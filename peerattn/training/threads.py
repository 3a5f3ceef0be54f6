"""One thread: sums in one order, so that figures do not depend on how many threads there are."""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache

import torch
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
# Python threads that are inside a block
_inside: set[int] = set()
# what ends with the last of them
_ends = ExitStack()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread inside the ``with`` block, or the function it decorates: linear algebra, trees, torch.

    Sums, products of matrices, and decompositions by torch, MKL and OpenBLAS are split among threads, and their last bits depend
    on how. Threads of OpenMP, which boosted trees use, too, wait for each other where other processes hold the cores. Blocks may
    be nested, and entered from several Python threads; afterwards numbers of threads are what they were.

    Examples
    --------
    >>> import torch
    >>> from peerattn.training import one_thread
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    if threading.get_ident() in _inside:
        yield
        return
    libraries = _libraries(len(sys.modules))
    before = torch.get_num_threads()
    # OpenMP counts for each Python thread by itself
    with libraries.select(user_api="openmp").limit(limits=1):
        # at the first block what counts for the whole process is limited, too
        with _lock:
            blas = libraries.select(user_api="blas").limit(limits=1)
            if not _inside:
                _ends.callback(torch.set_num_threads, before)
                _ends.callback(blas.restore_original_limits)
            _inside.add(threading.get_ident())
            torch.set_num_threads(1)
        try:
            yield
        finally:
            with _lock:
                _inside.remove(threading.get_ident())
                if not _inside:
                    _ends.close()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Return the libraries that are loaded: looking for them takes milliseconds, and only new modules bring others."""
    return ThreadpoolController()
