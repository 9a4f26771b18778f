"""The arrays the races run on: overconfident forecasts with labels drawn from milder ones, one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from calibrant._typing import Array, Ints

_SEED = 7
#: Arrays of a quick run are this much shorter.
QUICK = 50


@lru_cache(maxsize=2)
def logits(n: int, k: int) -> tuple[Array, Ints]:
    """Return float32 logits (n, k) whose labels follow their softmax at temperature 1.5."""
    rng = np.random.default_rng(_SEED)
    z = rng.standard_normal((n, k), dtype=np.float32)
    z[np.arange(n), rng.integers(0, k, n)] += np.float32(3.0 + np.log(k))
    z *= np.float32(1.5)
    labels = np.empty(n, dtype=np.int64)
    for start in range(0, n, 4096):  # the largest of logits plus Gumbel noise is a draw from their softmax
        rows = slice(start, start + 4096)
        noise = -np.log(np.maximum(rng.standard_exponential(z[rows].shape, dtype=np.float32), 1e-30))
        labels[rows] = (z[rows] / np.float32(1.5) + noise).argmax(axis=1)
    return _maybe_broken(z), labels


@lru_cache(maxsize=2)
def probabilities(n: int, k: int) -> tuple[Array, Ints]:
    """Return float32 probabilities (n, k) and labels."""
    z, labels = logits(n, k)
    p = np.empty_like(z)
    for start in range(0, n, 4096):
        rows = slice(start, start + 4096)
        block = np.exp(z[rows].astype(np.float64) - z[rows].max(axis=1, keepdims=True))
        p[rows] = block / block.sum(axis=1, keepdims=True)
    return p, labels


@lru_cache(maxsize=2)
def binary(n: int) -> tuple[Array, Ints]:
    """Return float64 probabilities of class 1 and outcomes that follow a milder curve."""
    rng = np.random.default_rng(_SEED)
    z = rng.standard_normal(n) * 2.0
    outcome = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(np.int64)
    return _maybe_broken(1.0 / (1.0 + np.exp(-1.5 * z))), outcome


#: Whether one row is broken, and whether such an array was handed out.
_BROKEN = {"on": False, "used": False}


@contextmanager
def broken() -> Iterator[Callable[[], bool]]:
    """Hand out arrays of which one row holds nan; the function says whether any was asked for."""
    clear()
    _BROKEN.update(on=True, used=False)
    try:
        yield lambda: _BROKEN["used"]
    finally:
        _BROKEN["on"] = False
        clear()


def _maybe_broken(p: Array) -> Array:
    if _BROKEN["on"]:
        _BROKEN["used"] = True
        p[len(p) // 2] = np.nan
    return p


def clear() -> None:
    """Forget all arrays."""
    for cache in (logits, probabilities, binary):
        cache.cache_clear()
