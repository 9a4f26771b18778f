"""Chunks on a pool of threads that stays: order, errors, nesting, and children that have none of the threads."""

from __future__ import annotations

import multiprocessing
import threading
import time

import pytest

from calibrant.core.parallel import map_chunks


def squares() -> list[int]:
    return list(map_chunks(lambda i: i * i, range(20), 2))


def test_results_come_in_order_from_threads_that_stay():
    names = {name for _ in range(2) for name in map_chunks(lambda _: threading.current_thread().name, range(20), 2)}
    assert len(names) <= 2  # the threads of the pool
    assert squares() == [i * i for i in range(20)]


def test_who_stops_asking_stops_the_work():
    seen = []
    results = map_chunks(lambda i: seen.append(i) or time.sleep(0.001), range(1000), 2)
    next(results)
    results.close()
    before = len(seen)
    time.sleep(0.05)
    assert len(seen) <= before + 1
    both = threading.Barrier(2)
    assert sorted(map_chunks(lambda _: both.wait(20), range(2), 2)) == [0, 1]  # and two threads work again


def test_work_handed_on_by_a_thread_of_the_pool_runs_in_it():
    def outer(_: int) -> bool:
        return set(map_chunks(lambda _: threading.get_ident(), range(4), 3)) == {threading.get_ident()}

    assert all(map_chunks(outer, range(4), 3))


def test_an_error_leaves_the_pool_usable():
    for bad in range(4):
        with pytest.raises(IndexError):
            list(map_chunks(lambda i, bad=bad: [0][i == bad], range(4), 2))
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


@pytest.mark.parametrize("slow", [0.0, 0.2])
def test_the_first_of_several_errors_is_raised(slow):
    def chunk(i: int) -> int:
        if i in (2, 3):
            time.sleep(slow if i == 2 else 0.0)
            raise ValueError(f"item {i}")
        time.sleep(0.02)
        return i

    found = map_chunks(chunk, range(20), 2)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="item 2"):
        next(found)
