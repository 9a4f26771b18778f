"""The one table under every one-dimensional measure: key, n, Σw, Σw·s, Σw·t, rows sorted by key.

A table is keyed by distinct score (`grid` 0, exact) or by cell of a fixed grid (mergeable); bins are dense
arrays of the same sums. Tables add with ``+``, the empty one is neutral, arguments never change. Outcome sums
may carry leading axes (replicates of resampled labels), so one finishing code serves value and null alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from calibrant._typing import Array, Bools, Floats, Ints
from calibrant.core.edges import PARTS, cell_key, width_index
from calibrant.core.parallel import CHUNK_SCORES, map_chunks, row_chunks
from calibrant.core.pool import pool_ties

#: Copies of the bins neighbouring rows count into, and up to how many bins that pays.
_LANES = 8
_FEW_BINS = 512


def sum_by(index: Ints, values: Array, m: int) -> Floats:
    """Sum the last axis of `values` by `index` into `m` slots; leading axes stay."""
    if values.ndim == 1:
        return np.bincount(index, values, m).astype(np.float64)
    flat = values.reshape(-1, values.shape[-1])
    out = np.stack([np.bincount(index, row, m) for row in flat])
    return out.reshape(*values.shape[:-1], m).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Scores in [0, 1] with binary outcomes; `expected` is what the forecast says of t (None: the score itself)."""

    score: Array
    outcome: Bools
    weight: Floats | None = None
    expected: Floats | None = None

    def take(self, rows: Array) -> Pairs:
        """Keep some rows (indices or a mask)."""
        return Pairs(
            self.score[rows],
            self.outcome[rows],
            None if self.weight is None else self.weight[rows],
            None if self.expected is None else self.expected[rows],
        )


@dataclass(frozen=True, slots=True)
class Table:
    """Sums of (score, outcome) pairs by key, in key order."""

    grid: int
    key: Array
    n: Floats
    w: Floats
    ws: Floats
    wt: Floats
    we: Floats
    w2: Floats

    @classmethod
    def empty(cls, grid: int = 0) -> Table:
        """Return the neutral element of ``+``."""
        none = np.zeros(0)
        return cls(grid, none if grid == 0 else none.astype(np.int64), none, none, none, none, none, none)

    @property
    def score(self) -> Floats:
        """Mean score of each row: the score itself where the key is a score."""
        return self.key if self.grid == 0 else self.ws / self.w

    @property
    def total(self) -> float:
        """Sum of weights."""
        return float(self.w.sum())

    def __len__(self) -> int:
        return len(self.key)

    def __add__(self, other: Table) -> Table:
        if self.grid != other.grid:
            raise ValueError(f"tables on different grids do not add: {self.grid} and {other.grid}")
        keys, where = np.unique(np.concatenate([self.key, other.key]), return_inverse=True)

        def both(name: str) -> Floats:
            return np.bincount(where, np.concatenate([getattr(self, name), getattr(other, name)]), len(keys))

        return Table(self.grid, keys, both("n"), both("w"), both("ws"), both("wt"), both("we"), both("w2"))

    def with_outcomes(self, wt: Floats) -> Table:
        """Return the table with other outcome sums, possibly with leading axes."""
        return replace(self, wt=wt)

    def bins(self, m: int) -> Bins:
        """Collect into `m` equal-width bins: exact on a grid that `m` divides, by value otherwise."""
        if self.grid:
            if self.grid % m:
                raise ValueError(f"{m} bins do not divide the grid of {self.grid} cells")
            index = (self.key // PARTS) // (self.grid // m)
        else:
            index = width_index(self.key, m)
        return self._collect(index, m)

    def mass_bins(self, m: int) -> Bins:
        """Collect into at most `m` equal-mass bins; equal scores are never split.

        The j-th edge is the smallest score whose cumulative weight reaches j·W/m.
        """
        if not len(self):
            return Bins.zeros(1, m)
        reached = np.cumsum(self.w) * m
        edges = np.searchsorted(reached, np.arange(1, m) * (reached[-1] / m))
        index = np.searchsorted(edges, np.arange(len(self)), side="left")
        return self._collect(index, m)

    def _collect(self, index: Ints, m: int) -> Bins:
        return Bins(*(sum_by(index, values, m)[..., None, :] for values in (self.w, self.ws, self.wt)))


@dataclass(frozen=True, slots=True)
class Bins:
    """Dense bin sums; the last axis is the bin, the one before it the group (class), leading ones replicates."""

    w: Floats
    ws: Floats
    wt: Floats

    @classmethod
    def zeros(cls, groups: int, m: int) -> Bins:
        """Return empty bins."""
        return cls(np.zeros((groups, m)), np.zeros((groups, m)), np.zeros((groups, m)))

    @classmethod
    def stack(cls, parts: list[Bins]) -> Bins:
        """Join one-group bins into many groups."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts], axis=-2) for name in ("w", "ws", "wt")))

    def __add__(self, other: Bins) -> Bins:
        return Bins(self.w + other.w, self.ws + other.ws, self.wt + other.wt)

    def with_outcomes(self, wt: Floats) -> Bins:
        """Return the bins with other outcome sums, possibly with leading axes."""
        return replace(self, wt=wt)


def value_table(pairs: Pairs) -> Table:
    """Key pairs by distinct score: the exact table.

    Without weights the outcome rides in one extra low bit of the score's own bits (scores in [0, 1] leave
    it free), so one fast integer sort orders everything; tied scores are pooled.
    """
    if pairs.weight is not None or pairs.expected is not None:
        return _group(0, pairs.score.astype(np.float64), pairs)
    score, counts, hits, ws = pool_ties(sorted_keys(pairs.score, pairs.outcome), pairs.score.dtype)
    return Table(0, score, counts, counts, ws, hits, ws, counts)


def sorted_keys(score: Array, outcome: Bools) -> Array:
    """Sort pairs as integers ``bits(score) << 1 | outcome``, ascending; exact for scores in [0, 1]."""
    unsigned = np.dtype(f"i{score.dtype.itemsize}")
    keys = np.ascontiguousarray(score + score.dtype.type(0)).view(unsigned)  # + 0 turns −0 into 0, and copies
    keys <<= 1
    keys |= outcome
    keys.sort()
    return keys


def cell_table(pairs: Pairs, grid: int) -> Table:
    """Key pairs by cell of a fixed grid: the mergeable table."""
    return _group(grid, cell_key(pairs.score, grid), pairs)


def _group(grid: int, key: Array, pairs: Pairs) -> Table:
    if pairs.weight is not None and not pairs.weight.all():
        kept = pairs.weight > 0
        key, pairs = key[kept], pairs.take(kept)
    keys, where = np.unique(key, return_inverse=True)
    size = len(keys)
    score = pairs.score.astype(np.float64)
    n: Floats = np.bincount(where, minlength=size).astype(np.float64)
    w: Floats
    w2: Floats
    ws: Floats
    we: Floats
    if pairs.weight is None:
        w = w2 = n
        ws = np.bincount(where, score, size)
        wt = np.bincount(where, pairs.outcome, size)
        we = ws if pairs.expected is None else np.bincount(where, pairs.expected, size)
    else:
        weight = pairs.weight
        w = np.bincount(where, weight, size)
        w2 = np.bincount(where, weight * weight, size)
        ws = np.bincount(where, weight * score, size)
        wt = np.bincount(where, weight * pairs.outcome, size)
        we = ws if pairs.expected is None else np.bincount(where, weight * pairs.expected, size)
    return Table(grid, keys, n, w, ws, wt, we, w2)


def width_bins(pairs: Pairs, m: int) -> Bins:
    """Collect pairs into `m` equal-width bins in one chunked pass: no sort, two counts per chunk."""
    return index_bins(pairs, lambda score: width_index(score, m), m)


def index_bins(pairs: Pairs, index_of: Callable[[Array], Ints], m: int) -> Bins:
    """Collect pairs into `m` bins given a function score → bin index.

    Neighbouring rows count into different copies of the bins (`_LANES`): sharp forecasts all fall into the last
    bin, and adding to one memory cell again and again waits for the last addition each time.
    """
    cells, lanes = 2 * m, _LANES if m <= _FEW_BINS else 1
    lane = np.arange(min(len(pairs.score), CHUNK_SCORES)) % lanes * cells

    def visit(rows: slice) -> Floats:
        score = pairs.score[rows]
        joint = index_of(score)
        joint *= 2
        joint += pairs.outcome[rows]
        joint += lane[: len(joint)]
        weight = None if pairs.weight is None else pairs.weight[rows]
        counts = np.bincount(joint, weight, lanes * cells)
        sums = np.bincount(joint, score if weight is None else weight * score, lanes * cells)
        return np.stack([counts, sums]).reshape(2, lanes, cells).sum(axis=1)

    total = np.zeros((2, cells))
    for part in map_chunks(visit, row_chunks(len(pairs.score))):
        total += part
    counts, sums = total.reshape(2, 1, m, 2)
    return Bins(counts.sum(axis=-1), sums.sum(axis=-1), counts[..., 1].copy())


def mass_bins(pairs: Pairs, m: int) -> Bins:
    """Collect pairs into at most `m` equal-mass bins (see `Table.mass_bins`), sorting values only."""
    if pairs.weight is not None:
        return value_table(pairs).mass_bins(m)
    n = len(pairs.score)
    if n == 0:
        return Bins.zeros(1, m)
    values = np.sort(pairs.score)
    edges = values[-(-np.arange(1, m) * n // m) - 1]
    cuts = np.concatenate([[0], np.searchsorted(values, edges, side="right"), [n]])
    running = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    hits = np.searchsorted(edges, pairs.score[pairs.outcome], side="left")
    return Bins(
        np.diff(cuts).astype(np.float64)[None, :],
        np.diff(running[cuts])[None, :],
        np.bincount(hits, minlength=m).astype(np.float64)[None, :],
    )
