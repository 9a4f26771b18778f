"""Chunks on a pool of threads that stays: order, errors, nesting, and children that have none of the threads."""

from __future__ import annotations

import multiprocessing
import threading

import pytest

from calibrant.core.parallel import map_chunks


def squares() -> list[int]:
    return list(map_chunks(lambda i: i * i, range(20), 2))


def test_results_come_in_order_from_threads_that_stay():
    names = [name for _ in range(2) for name in map_chunks(lambda _: threading.current_thread().name, range(20), 2)]
    assert threading.current_thread().name not in names
    assert len({name.rpartition("_")[0] for name in names}) == 1  # the name of the pool
    assert squares() == [i * i for i in range(20)]


def test_work_handed_on_runs_in_its_own_thread():
    def outer(_: int) -> bool:
        return set(map_chunks(lambda _: threading.get_ident(), range(4), 2)) == {threading.get_ident()}

    assert all(map_chunks(outer, range(4), 2))


def test_an_error_leaves_the_pool_usable():
    with pytest.raises(ZeroDivisionError):
        list(map_chunks(lambda i: 1 // i, range(4), 2))
    assert squares()[3] == 9


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own():
    squares()
    child = multiprocessing.get_context("fork").Process(target=squares)
    child.start()
    child.join(20)
    stuck = child.is_alive()
    child.kill()
    assert not stuck
    assert child.exitcode == 0
