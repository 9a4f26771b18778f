"""Fixed chunks on all cores: the partition depends on the data only, so no number depends on `n_jobs`."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
    """Apply `function` to each item on all cores and yield the results in order; of several errors the first is raised.

    A thread of the pool that calls this again does its work alone: nested calls cannot wait for each other.
    """
    work = list(items)
    threads = min(cores(n_jobs), len(work))
    if threads < 2 or getattr(_THREAD, "busy", False):
        yield from map(function, work)
    else:
        yield from _pool(threads).map(function, work)


def _enter() -> None:
    _THREAD.busy = True


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay for the next call: starting them takes longer than many a chunk."""
    return ThreadPoolExecutor(threads, initializer=_enter)


if hasattr(os, "register_at_fork"):  # a child has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
