"""One thread inside the block, and as many as before after it."""

import threading

import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_info, threadpool_limits

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.models import OwnCharacteristicsRegressor
from peerattn.training import one_thread


def blas(kind="blas"):
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == kind}


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


def test_trees_are_grown_on_one_thread_and_numbers_of_threads_come_back():
    with threadpool_limits(3):
        before = threadpool_info()
        with one_thread():
            assert blas("openmp") == {1}
        assert threadpool_info() == before


class Counts(HistGradientBoostingRegressor):
    """Boosting that notes the threads it has."""

    def fit(self, X, y):
        self.threads_ = blas("openmp") | blas() | {torch.get_num_threads()}
        return super().fit(X, y)


@pytest.mark.parametrize(
    "make", [OwnCharacteristicsRegressor, lambda estimator: PeerAttentionRegressor(own=estimator, n_heads=0)]
)
def test_an_estimator_inside_a_fit_has_one_thread(make):
    panel = simulate_panel(20, 8, 2, random_state=0)
    found = []
    fit = Counts.fit

    def noted(self, X, y):
        fit(self, X, y)
        found.append(self.threads_)
        return self

    with threadpool_limits(3), pytest.MonkeyPatch.context() as patched:
        patched.setattr(Counts, "fit", noted)
        before = threadpool_info()
        make(Counts(max_iter=1)).fit(panel.X, panel.y)
        assert threadpool_info() == before
    assert found and all(threads == {1} for threads in found)


def test_two_threads_that_overlap_leave_the_numbers_as_they_were():
    """The one that entered first leaves first."""
    before, states = threadpool_info(), []
    entered, go = threading.Event(), threading.Event()

    def first():
        torch.get_num_threads()  # which tells OpenMP, once in each thread
        own = blas("openmp")
        with one_thread():
            entered.set()
            go.wait()
        states.append(blas("openmp") == own)

    with threadpool_limits(3):
        thread = threading.Thread(target=first)
        thread.start()
        entered.wait()
        with one_thread():
            go.set()
            thread.join()
            assert torch.get_num_threads() == 1 and blas("openmp") == {1}
        assert blas() == {3} and blas("openmp") == {3}
    assert states == [True] and threadpool_info() == before


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
