"""One thread inside the block, and as many as before after it."""

import threading

import torch
from threadpoolctl import threadpool_info

from peerattn.training import one_thread


def blas():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_inside_and_as_many_as_before_after():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1 and blas() == {1}
            with one_thread():
                pass
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_block_that_ends_leaves_one_that_another_thread_is_in():
    entered, left = threading.Event(), threading.Event()
    seen = []

    def other():
        with one_thread():
            entered.set()
            left.wait()
            seen.append(torch.get_num_threads())

    with one_thread():
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
    left.set()
    thread.join()
    assert seen == [1]
