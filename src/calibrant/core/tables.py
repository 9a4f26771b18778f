"""The one bin rule, and the one table under every one-dimensional metric: key, n, Σw, Σw·s, Σw·t, sorted by key.

``index = clip(ceil((float64(s) − 2⁻²⁴)·m) − 1, 0, m − 1)``: the intervals (lo, hi], the first closed. A score
up to 2⁻²⁴ above an edge counts as on it, so decimals stored as float32 or float64 fall in the bin they name.

A table is keyed by distinct score (`grid` 0, exact) or by cell of a fixed grid (mergeable); bins are dense
arrays of the same sums. Tables add with ``+``, the empty one is neutral, arguments never change. Outcome sums
may carry leading axes (replicates of resampled labels), so one finishing code serves value and null alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant._typing import Array, Bools, Floats, Ints
from calibrant.core.parallel import CHUNK_SCORES
from calibrant.core.weights import mass_edges

#: Cells of the fine grid (2¹⁰·3·5²) and of the coarse one (classes, slices); bins are whole numbers of cells.
FINE = 76_800
COARSE = 1_200
#: Steps of the path on which the joint test of the verdict works, and those of each of many slices.
TEST_STEPS, SLICE_STEPS = 1_000, 128
#: Half an ulp of float32 at 1: how far above an edge still counts as on it.
SLACK = 2.0**-24
#: Keys a cell may take: the first and last cell are split by octave, 16 parts each, down to 2⁻⁶⁴.
PARTS = 1024
PER_OCTAVE = 16
DEEPEST = 64
#: Moves the octave borders off exact powers of two, so that every engine's log2 agrees on the side.
NUDGE = 1e-6
#: The sums of a table.
COLUMNS = ("n", "w", "ws", "wt", "we", "w2")


def width_index(score: Array, m: int) -> Ints:
    """Return the equal-width bin (of `m`) of each score in [0, 1]."""
    index = score.astype(np.float64)
    index -= SLACK
    index *= m
    np.ceil(index, out=index)
    index -= 1.0
    np.clip(index, 0, m - 1, out=index)
    return index.astype(np.int64)


def depth(distance: Array) -> Ints:
    """Rank of a distance to 0 (or 1) within its end cell: 0 at exactly zero, then by sixteenth octaves."""
    with np.errstate(divide="ignore"):
        octave = np.log2(distance.astype(np.float64))
    rank = np.floor(PER_OCTAVE * (octave + DEEPEST) + NUDGE) + 1
    return np.clip(rank, 0, PARTS - 1).astype(np.int64)


def cell_key(score: Array, m: int) -> Ints:
    """Return the ordered integer key of each score's cell on a grid of `m`; ``key // PARTS`` is the cell.

    Sharp networks put most rows into the last cell, so the first and the last cell are split further by
    the octave of s and of 1 − s.
    """
    key = width_index(score, m)
    first, last = key == 0, key == m - 1
    key *= PARTS
    if first.any():
        key[first] += depth(score[first])
    if last.any():
        key[last] += PARTS - 1 - depth(1.0 - score[last].astype(np.float64))
    return key


def sum_by(index: Ints, values: Array, m: int) -> Floats:
    """Sum the last axis of `values` by `index` into `m` slots; leading axes stay."""
    if values.ndim == 1:
        return np.bincount(index, values, m).astype(np.float64, copy=False)
    flat = values.reshape(-1, values.shape[-1])
    if len(index) and (index[1:] >= index[:-1]).all():
        start = np.flatnonzero(np.diff(index, prepend=-1))
        out = np.zeros((len(flat), m))
        out[:, index[start]] = flat if len(start) == len(index) else np.add.reduceat(flat, start, axis=1)
    else:
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

    @classmethod
    def of(cls, grid: int, keys: Array, count: Array, pairs: Pairs, collect: Callable[[Array], Floats]) -> Table:
        """Return the table of pairs by key, given how many there are of each key and how values are added up by key."""
        n, score, weight = count.astype(np.float64), pairs.score.astype(np.float64), pairs.weight
        if weight is None:
            ws = collect(score)
            we = ws if pairs.expected is None else collect(pairs.expected)
            return cls(grid, keys, n, n, ws, collect(pairs.outcome), we, n)
        ws = collect(weight * score)
        we = ws if pairs.expected is None else collect(weight * pairs.expected)
        return cls(grid, keys, n, collect(weight), ws, collect(weight * pairs.outcome), we, collect(weight * weight))

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
        return merge([self, other], self.grid)

    def joined(self, start: Ints) -> Table:
        """Join neighboring rows, given the first of each group; the first key stands for all."""
        return Table(self.grid, self.key[start], *(np.add.reduceat(getattr(self, name), start) for name in COLUMNS))

    def with_outcomes(self, wt: Floats) -> Table:
        """Return the table with other outcome sums, possibly with leading axes."""
        return replace(self, wt=wt)

    def bins(self, m: int) -> Bins:
        """Collect into `m` equal-width bins: exact on a grid that `m` divides, by value otherwise."""
        if self.grid % m:
            raise ValueError(f"{m} bins do not divide the grid of {self.grid} cells")
        return self.collect(self.bin_of_row(m), m)

    def mass_bins(self, m: int) -> Bins:
        """Collect into at most `m` equal-mass bins; equal scores are never split."""
        return self.collect(self.mass_of_row(m), m)

    def bin_of_row(self, m: int) -> Ints:
        """Return the equal-width bin of each row: that of its mean score where `m` does not divide the grid."""
        if self.grid and not self.grid % m:
            return np.asarray((self.key // PARTS) // (self.grid // m))
        return width_index(self.score, m)

    def mass_of_row(self, m: int) -> Ints:
        """Return the equal-mass bin of each row: the j-th edge is the smallest score whose weight reaches j·W/m."""
        return np.searchsorted(mass_edges(self.w, m) if len(self) else np.empty(0), np.arange(len(self)), side="left")

    def collect(self, index: Ints, m: int) -> Bins:
        """Sum the rows into `m` bins, given the bin of each row."""
        return Bins(*(sum_by(index, values, m)[..., None, :] for values in (self.w, self.ws, self.wt)))


def merge(tables: Sequence[Table], grid: int) -> Table:
    """Add many tables of one grid in one go."""
    filled = [table for table in tables if len(table)]
    if len(filled) < 2:
        return filled[0] if filled else Table.empty(grid)
    keys, where = np.unique(np.concatenate([table.key for table in filled]), return_inverse=True)
    shared: dict[tuple[int, ...], Floats] = {}

    def both(name: str) -> Floats:
        columns = [getattr(table, name) for table in filled]
        same = tuple(id(column) for column in columns)  # w, w2 and n are one array without weights; so are ws and we
        if same not in shared:
            shared[same] = sum_by(where, np.concatenate(columns), len(keys))
        return shared[same]

    return Table(grid, keys, *(both(name) for name in COLUMNS))


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


def pool_ties(keys: Array, dtype: np.dtype[Any]) -> tuple[Floats, Floats, Floats, Floats]:
    """Pool the ties of sorted pairs: return the distinct scores, their counts, their hits and score times count.

    `keys` are sorted integers ``bits(score) << 1 | outcome`` (see `sorted_keys`) of scores of some `dtype`.
    """
    ends = np.flatnonzero(np.append(keys[1:] ^ keys[:-1] > 1, True)[: len(keys)])
    score = (keys[ends] >> 1).view(dtype).astype(np.float64)
    counts = np.diff(ends, prepend=-1).astype(np.float64)
    hits = np.diff(np.cumsum(keys & 1, dtype=np.int64)[ends], prepend=0).astype(np.float64)
    return score, counts, hits, score * counts


def sorted_keys(score: Array, outcome: Bools) -> Array:
    """Sort pairs as integers ``bits(score) << 1 | outcome``, ascending; exact for scores in [0, 1]."""
    keys = np.add(score, score.dtype.type(0)).view(np.dtype(f"i{score.dtype.itemsize}"))  # + 0 turns −0 into 0
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
    return Table.of(grid, keys, np.bincount(where, minlength=len(keys)), pairs, lambda x: sum_by(where, x, len(keys)))


def width_bins(pairs: Pairs, m: int) -> Bins:
    """Collect pairs into `m` equal-width bins in one chunked pass: no sort, two counts per chunk."""
    counts, sums = np.zeros(2 * m), np.zeros(2 * m)
    for start in range(0, len(pairs.score), CHUNK_SCORES):
        rows = slice(start, start + CHUNK_SCORES)
        score = pairs.score[rows]
        slot = 2 * width_index(score, m) + pairs.outcome[rows]
        weight = None if pairs.weight is None else pairs.weight[rows]
        counts += np.bincount(slot, weight, 2 * m)
        sums += np.bincount(slot, score if weight is None else weight * score, 2 * m)
    by_outcome = counts.reshape(1, m, 2)
    return Bins(by_outcome.sum(axis=-1), sums.reshape(1, m, 2).sum(axis=-1), by_outcome[..., 1].copy())


def class_bins(block: Array, codes: Ints, m: int) -> Floats:
    """Return counts, score sums and outcomes of `m` equal-width bins of every class, shape (3, K, m).

    A row has fewer than `m` scores above 1/m, the end of the first bin: only those are looked at one by one.
    """
    n, k = block.shape
    flat = (block.astype(np.float32) if block.dtype == np.float16 else block).ravel()  # 1/m rounds far in it
    above = np.flatnonzero(flat > 1 / m)
    score = flat[above].astype(np.float64)
    slot = above % k * m + width_index(score, m)
    counts, sums = np.zeros((2, k, m))
    counts += np.bincount(slot, minlength=k * m).reshape(k, m)
    sums += np.bincount(slot, score, k * m).reshape(k, m)  # whole numbers where no score is above
    counts[:, 0] = n - counts[:, 1:].sum(axis=1)
    sums[:, 0] = block.sum(axis=0, dtype=np.float64) - sums[:, 1:].sum(axis=1)
    truth = codes * m + width_index(flat[np.arange(0, n * k, k) + codes], m)
    return np.stack([counts, sums, np.bincount(truth, minlength=k * m).reshape(k, m)])


def even_cells(pairs: Pairs, most: int) -> tuple[Ints, int]:
    """Cut pairs, in score order, into at most `most` cells of about equal count; equal scores stay together.

    Returns the cell of each pair and the number of cells.
    """
    values, where = np.unique(pairs.score, return_inverse=True)
    counts = np.bincount(where, pairs.weight).astype(np.float64)
    middle = np.cumsum(counts) - 0.5 * counts
    m = min(len(values), most)
    cell = np.minimum((middle / counts.sum() * m).astype(np.int64), m - 1)
    return cell[where], m


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
    count, sums = np.diff(cuts), np.zeros(m)
    sums[count > 0] = np.add.reduceat(values.astype(np.float64), cuts[:-1][count > 0])
    hits = np.searchsorted(edges, pairs.score[pairs.outcome], side="left")
    return Bins(
        count.astype(np.float64)[None, :],
        sums[None, :],
        np.bincount(hits, minlength=m).astype(np.float64)[None, :],
    )
