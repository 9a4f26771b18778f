"""What every engine must do: give the same counts and sums as NumPy, for any frame made from arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant._typing import Array
from calibrant.engines.frames import summarize
from calibrant.summary.summary import Summary


def hostile_predictions(n: int = 2000, n_classes: int = 3, seed: int = 0) -> dict[str, Array]:
    """Return columns of predictions that test every rule: ties, exact 0 and 1, decimals on edges, all in one cell."""
    rng = np.random.default_rng(seed)
    sharp = rng.dirichlet(np.full(n_classes, 0.05), n)
    tenths = np.diff(np.sort(rng.integers(0, 11, (n, n_classes - 1)), axis=1), axis=1, prepend=0, append=10) / 10
    flat = np.full((n, n_classes), 1 / n_classes)
    p = np.where(rng.random((n, 1)) < 0.5, sharp, np.where(rng.random((n, 1)) < 0.8, tenths, flat))
    p[:n_classes] = np.eye(n_classes)
    p = np.abs(p) / np.abs(p).sum(axis=1, keepdims=True)
    columns: dict[str, Array] = {f"p_{k}": np.ascontiguousarray(p[:, k]) for k in range(n_classes)}
    columns["label"] = rng.integers(0, n_classes, n)
    columns["weight"] = rng.integers(0, 4, n).astype(np.float64)
    columns["day"] = rng.integers(0, 3, n)
    return columns


def check_engine(make_frame: Callable[[dict[str, Array]], Any]) -> None:
    """Raise AssertionError unless an engine gives NumPy's cells: counts identical, sums to 1e-9, slices too.

    `make_frame` turns a dict of arrays into a frame or relation of the engine.
    """
    columns = hostile_predictions()
    k = sum(name.startswith("p_") for name in columns)
    p = np.stack([columns[f"p_{j}"] for j in range(k)], axis=1)
    y, w, day = columns["label"], columns["weight"], columns["day"]
    found = summarize(make_frame(columns), by=["day"], n_bins=[7])
    assert_same(Summary(k, n_bins=[7]).update(y, p, sample_weight=w), found.whole)
    for value in np.unique(day).tolist():
        rows = day == value
        part = Summary(k, coarse=True, n_bins=[7]).update(y[rows], p[rows], sample_weight=w[rows])
        assert_same(part, found.parts[value,])
    pairs = {"confidence": p.max(axis=1).astype(np.float32), "correct": p.argmax(axis=1) == y}
    found = summarize(make_frame(pairs), n_bins=[7])
    assert_same(Summary(pairs=True, n_bins=[7]).update(pairs["correct"], pairs["confidence"]), found.whole)


def assert_same(expected: Summary, found: Summary, tolerance: float = 1e-9) -> None:
    """Raise AssertionError unless two summaries have identical counts and sums within `tolerance`."""
    _equal("rows", expected.n, found.n)
    _equal("fractional weights", expected.fractional, found.fractional)
    for view in expected.views:
        for group, (one, two) in enumerate(zip(expected.tables(view), found.tables(view), strict=True)):
            where = f"{view.name}, group {group}"
            _equal(f"cells of {where}", one.key.tolist(), two.key.tolist())
            _equal(f"counts of {where}", one.n.tolist(), two.n.tolist())
            for name in ("w", "ws", "wt", "we", "w2"):
                _close(f"{name} of {where}", getattr(one, name), getattr(two, name), tolerance)
    _equal("scores", sorted(expected.sums), sorted(found.sums))
    for name, sums in expected.sums.items():
        _close(f"sums of {name}", np.array(sums), np.array(found.sums[name]), tolerance)
    for place, bins in expected._bins.items():
        for name in ("w", "ws", "wt"):
            _close(f"{name} of bins {place}", getattr(bins, name), getattr(found._bins[place], name), tolerance)


def _equal(what: str, expected: Any, found: Any) -> None:
    if expected != found:
        raise AssertionError(f"{what} differ: {str(expected)[:200]} expected, {str(found)[:200]} found")


def _close(what: str, expected: Array, found: Array, tolerance: float) -> None:
    if not np.allclose(expected, found, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise AssertionError(f"{what} differ by up to {np.abs(expected - found).max():.3g}")


def spellings(values):
    """Rows whose slices an engine may tell apart though they are one: NULL and NaN, 0 and −0."""
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(3), 200)
    y = [*rng.integers(0, 3, 198).tolist(), None, 7]
    return p, y, {**{f"p_{k}": p[:, k] for k in range(3)}, "label": y, "site": values * 50}
