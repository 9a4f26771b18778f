"""Fixed chunks on all cores: the partition depends on the data only, so no number depends on `n_jobs`."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
S = TypeVar("S")

#: Scores per chunk of a vector and bytes per chunk of a matrix: both fit the second-level cache.
CHUNK_SCORES = 1 << 16
CHUNK_BYTES = 1 << 20
_THREAD = threading.local()


def cores(n_jobs: int | None = None) -> int:
    """Return the number of threads to use; None means all this process may run on."""
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def row_chunks(n_rows: int, row_bytes: int = 0) -> list[slice]:
    """Cut `n_rows` into cache-sized slices."""
    step = max(16, CHUNK_BYTES // row_bytes) if row_bytes else CHUNK_SCORES
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def map_chunks(function: Callable[[S], T], items: Iterable[S], n_jobs: int | None = None) -> Iterator[T]:
    """Apply `function` to each item on all cores and yield the results in order.

    This thread works too: one that only waits disturbs the others when it wakes. What a busy thread hands on it does.
    """
    work = list(items)
    threads = min(cores(n_jobs), len(work))
    if threads < 2 or getattr(_THREAD, "busy", False):
        yield from map(function, work)
        return
    tasks, done, failed = enumerate(work), dict[int, T](), dict[int, BaseException]()

    def run(wanted: int = -1) -> None:
        while wanted not in done and (task := next(tasks, None)):  # the threads share what is left
            try:
                done[task[0]] = function(task[1])
            except BaseException as error:  # raised when its turn comes, so that the first of several is the one
                failed[task[0]] = error
                work.clear()

    pool, names = _pool(threads - 1)
    _confine(names, away=True)
    helpers = [pool.submit(run) for _ in range(threads - 1)]
    _confine(names, away=False)  # they woke up elsewhere and may move on
    try:
        for number in range(len(work)):
            _THREAD.busy = True
            run(number)
            _THREAD.busy = False
            for helper in () if number in done else helpers:  # one of them has it
                if not helper.cancel():
                    helper.result()
            if number in failed:
                raise failed[number]
            yield done.pop(number)
    finally:
        work.clear()
        _THREAD.busy = False


def _confine(names: Iterable[int], away: bool) -> None:
    """Let threads run where this one may, `away` from its core: a kernel with few cores wakes them there otherwise."""
    with suppress(AttributeError, OSError):  # a system without these calls, or one that forbids them
        allowed = os.sched_getaffinity(0)
        here = {ctypes.CDLL(None).sched_getcpu()} if away else set()
        for name in names:
            os.sched_setaffinity(name, (allowed - here) or allowed)


@functools.cache
def _pool(threads: int) -> tuple[ThreadPoolExecutor, list[int]]:
    """Threads that stay for the next call: starting them takes longer than many a chunk."""
    names: list[int] = []

    def enter() -> None:
        _THREAD.busy = True
        names.append(threading.get_native_id())

    return ThreadPoolExecutor(threads, initializer=enter), names


if hasattr(os, "register_at_fork"):  # a child has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
