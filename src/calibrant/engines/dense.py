"""Cells of the whole and of slices in one pass: a local engine prepares rows, NumPy counts batches into dense arrays.

A group-by of a hundred thousand cells misses the cache for every row and grows; an array of all cells does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from mmap import mmap
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from calibrant._typing import Array, Floats, Ints
from calibrant.core.cells import dense_index, dense_keys
from calibrant.core.tables import COARSE, PARTS, Table
from calibrant.engines.batches import _floats, raw_batches
from calibrant.engines.frame_rows import LABEL, OUTCOME, SCORE, WEIGHT, FrameRows, _p, read_sums
from calibrant.summary.keys import canonical
from calibrant.summary.summary import Summary
from calibrant.views import View

__all__ = ["SliceCells", "fill_batches", "is_local"]

#: Rows of a batch, as many as there are cells or more, and rows whose score sums are made at once.
_BATCH, _SUMMED = 1 << 17, 1 << 20
#: Column with the number of the slice of a row.
_SLOT = "__slot"
#: Types whose values are whole numbers, and combinations of values among which slices are looked up.
_WHOLE = (pl.Boolean, pl.Date, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
_NEAR = 1 << 20
#: Pieces of work that wait while the engine reads on.
_AHEAD = 4
#: Bytes of cells that all slices may take together; beyond it the engine groups them.
MOST_BYTES = 600 << 20


@dataclass
class _Source:
    """The columns of a batch as a source of pairs: (class, scores, outcomes); without a batch, their names."""

    n_classes: int
    batch: dict[str, Array] | None = None
    names: dict[str, None] = field(default_factory=dict)

    def _pair(self, group: int, score: str, outcome: str) -> tuple[int, Any, Any]:
        self.names |= {score: None, outcome: None}
        if self.batch is None:
            return group, score, outcome
        return group, self.batch[score], self.batch[outcome]

    def top(self) -> list[Any]:
        return [self._pair(1, SCORE, OUTCOME)]  # right is 1

    def one_class(self, k: int) -> list[Any]:
        return [self._pair(k, _p(k), LABEL)]

    def classes(self) -> list[Any]:
        return [self._pair(k, _p(k), LABEL) for k in range(self.n_classes)]

    def entropy(self, *, by_predicted: bool) -> None:  # noqa: ARG002 -- counted by the engine
        return None


class _Cells:
    """All cells of one group of a view, those of `slots` slices one after the other.

    Without weights a cell is 16 bytes, so that a row touches one place: rows and hits in one number, and Σs.
    """

    def __init__(self, grid: int, weighted: bool, slots: int = 1) -> None:
        self.grid, self.size, self.weighted = grid, grid + 2 * (PARTS - 1), weighted
        shape = (5, slots * self.size) if weighted else (slots * self.size, 2)
        # pages nobody touches take no memory; NumPy would ask for large ones, of which few stay untouched
        self.sums = np.frombuffer(mmap(-1, 8 * shape[0] * shape[1])).reshape(shape)
        self.counts = self.sums.view(np.int64)
        self.rows, self.spilled = 0, np.zeros((2, 0))

    def add(self, score: Floats, label: Floats, group: int, weight: Floats | None, slot: Ints | None = None) -> None:
        """Count the pairs (score, label = group)."""
        if weight is None:
            self._spill(len(score))
        index, outcome = dense_index(score, self.grid), label == group
        if slot is None:

            def put(target: Array, values: Array) -> None:
                target += np.bincount(index, values, self.size).astype(target.dtype, copy=False)
        else:
            index += slot * self.size

            def put(target: Array, values: Array) -> None:
                np.add.at(target, index, values)

        if weight is None:
            put(self.counts[:, 0], 1 + (outcome.astype(np.int64) << 32))  # whole numbers below 2⁵³
            put(self.sums[:, 1], score)
            return
        for row, values in enumerate([np.ones(len(index)), weight * score, weight * outcome, weight, weight**2]):
            put(self.sums[row], values)

    def _spill(self, more: int) -> None:
        """Move the counts away before one could pass 32 bits."""
        self.rows += more
        if self.rows >= 1 << 31:
            held = self.counts[:, 0]
            self.spilled = np.stack([held & 0xFFFFFFFF, held >> 32]) + (self.spilled if self.spilled.size else 0.0)
            self.counts[:, 0], self.rows = 0, more

    def tables(self, slots: int = 1) -> Iterator[Table]:
        """Yield the cells of the first slots."""
        here = slice(0, slots * self.size)
        if self.weighted:
            used = np.flatnonzero(self.sums[0, here])
            columns = dict(zip(("n", "ws", "wt", "w", "w2"), self.sums[:, used], strict=True))
        else:
            held = self.counts[here, 0]
            used = np.flatnonzero(held | self.spilled[0, here].astype(np.int64) if self.spilled.size else held)
            n, wt = (held[used] & 0xFFFFFFFF).astype(np.float64), (held[used] >> 32).astype(np.float64)
            if self.spilled.size:
                n, wt = n + self.spilled[0, used], wt + self.spilled[1, used]
            columns = {"n": n, "ws": self.sums[used, 1], "wt": wt}
        keys = dense_keys(used % self.size, self.grid)
        ends = np.searchsorted(used, np.arange(slots + 1) * self.size).tolist()
        for a, b in pairwise(ends):
            one = {name: column[a:b] for name, column in columns.items()}
            w, w2 = one.get("w", one["n"]), one.get("w2", one["n"])
            yield Table(self.grid, keys[a:b], one["n"], w, one["ws"], one["wt"], one["ws"], w2)


@dataclass
class SliceCells:
    """The cells of slices on the coarse grid, numbered as their values come."""

    model: Summary
    by: tuple[str, ...]
    known: pl.DataFrame = field(default_factory=pl.DataFrame)
    cells: dict[tuple[View, int], _Cells] = field(default_factory=dict)
    totals: dict[str, Floats] = field(default_factory=dict)
    room: int = 0

    def slots(self, frame: pl.DataFrame) -> Ints:
        """Return the number of the slice of each row."""
        while True:  # values that are new get numbers
            known = self.known if self.known.width else frame.clear()
            found = _looked_up(frame, known)
            if found is None:
                numbered = known.with_row_index(_SLOT)
                joined = frame.join(numbered, on=frame.columns, how="left", nulls_equal=True, maintain_order="left")
                found = joined[_SLOT].cast(pl.Int64).fill_null(-1).to_numpy()
            if found.min(initial=0) >= 0:
                return found
            self.known = known.vstack(frame.filter(found < 0).unique(maintain_order=True))

    def read(self, prepared: FrameRows, parts: dict[tuple[Any, ...], Summary]) -> None:
        """Put the cells and sums into the summaries of the slices."""
        keys = [tuple(map(canonical, key)) for key in self.known.rows()]
        parts |= {key: self.model.empty() for key in keys if key not in parts}
        for slot, key in enumerate(keys if self.totals else ()):
            read_sums(prepared, parts[key], {name: column[slot : slot + 1] for name, column in self.totals.items()})
        for view, group in list(self.cells):
            held = self.cells.pop((view, group))  # its memory goes as the tables come
            place = self.model.views.index(view)
            for key, table in zip(keys, held.tables(len(keys)), strict=True):
                parts[key].add_cells(place, group, table)


def _looked_up(frame: pl.DataFrame, known: pl.DataFrame) -> Ints | None:
    """Return the place of each row among known ones, −1 where it is new; None where values are not near integers."""
    place, held, size = np.zeros(frame.height, dtype=np.int64), np.zeros(known.height, dtype=np.int64), 1
    for parts in zip(frame, known, strict=True):
        new, old = parts
        if new.dtype in (pl.String, pl.Categorical, pl.Enum):
            new, old = new.cast(pl.String), old.cast(pl.String)
            words = pl.Enum(pl.concat([old, new.unique()]).unique().drop_nulls())
            new, old = new.cast(words), old.cast(words)
        elif new.dtype not in _WHOLE:
            return None
        missing = bool(new.null_count() + old.null_count())
        for kind in (lambda x: x.to_physical().cast(pl.Int64).fill_null(0), pl.Series.is_null)[: 1 + missing]:
            a, b = (kind(part).to_numpy() for part in (new, old))
            ends = [int(end) for part in (a, b) if len(part) for end in (part.min(), part.max())]
            low, span = min(ends, default=0), max(ends, default=0) - min(ends, default=0) + 1
            size *= span
            if size > _NEAR:
                return None
            if span > 1:
                place *= span
                place += np.subtract(a, low, dtype=np.int64)
                held = held * span + np.subtract(b, low, dtype=np.int64)
    numbers = np.full(size, -1, dtype=np.int64)
    numbers[held] = np.arange(len(held))
    return np.asarray(numbers[place])


def is_local(table: Any) -> bool:
    """Whether an engine works in this process and gives its rows in batches."""
    return bool(table.implementation.is_polars() or table.implementation.is_duckdb())


def fill_batches(
    prepared: FrameRows, summary: Summary, views: Sequence[View], *, slices: SliceCells | None = None
) -> set[View]:
    """Count cells of these views, or those of `slices`, and sums in one pass over the rows; return the views it could.

    The pass ends where there are more slices than their cells have room for.
    """
    source = _Source(prepared.n_classes)
    done = [view for view in (views if slices is None else slices.model.views) if view.select(source)]
    sums = prepared.weighted or any(prepared.recipes())
    cells: dict[tuple[View, int], _Cells] = {}
    names = [*(prepared.summed if sums else []), *source.names, *([WEIGHT] if prepared.weighted else [])]
    names = list(dict.fromkeys(names))
    groups = sum(1 if view.single_group else prepared.n_classes for view in done) or 1
    most = MOST_BYTES // (groups * (COARSE + 2 * PARTS) * (40 if prepared.weighted else 16))
    waiting: list[pl.DataFrame] = []
    if sums:
        prepared.references  # noqa: B018 -- asked for now: DuckDB gives up a stream when another query begins

    if slices is not None:
        slices.room = most

    def add_sums(batch: dict[str, Array], slot: Ints | None) -> None:
        waiting.append(pl.DataFrame(batch if slot is None else {**batch, _SLOT: slot}))
        if sum(map(len, waiting)) >= _SUMMED:
            _add_sums(prepared, summary, waiting, slices)

    def add_cells(batch: dict[str, Array], slot: Ints | None) -> None:
        weight = batch.get(WEIGHT)
        if weight is not None and not weight.all():
            batch = {name: column[weight > 0] for name, column in batch.items()}
            slot = None if slot is None else slot[weight > 0]
        for view in done:
            for number, score, label in view.select(_Source(prepared.n_classes, batch)) or ():
                group = 0 if view.single_group else number
                kept: list[Any] = [] if view not in views else [(cells, summary, 1, None)]
                kept += [] if slices is None else [(slices.cells, slices.model, most, slot)]
                for held, model, room, places in kept:
                    if (view, group) not in held:
                        held[view, group] = _Cells(model.grid_of(view), prepared.weighted, room)
                    held[view, group].add(score, label, number, batch.get(WEIGHT), places)

    with _Lanes() as lanes:  # sums and cells side by side, each batch after batch
        for batch, keys in _batches(prepared, names, () if slices is None else slices.by) if names else ():
            slot = None if slices is None else slices.slots(keys)
            if slot is not None and slot.max(initial=0) >= most:
                return set()
            if sums:
                lanes.put(0, add_sums, batch, slot)
            lanes.put(1, add_cells, batch, slot)
    if sums and (waiting or not slices):
        _add_sums(prepared, summary, waiting or [pl.DataFrame(schema=dict.fromkeys(names, pl.Float64))], slices)
    for (view, group), counted in cells.items():
        summary.add_cells(summary.views.index(view), group, *counted.tables())
    return set(done)


def _batches(
    prepared: FrameRows, names: Sequence[str], by: Sequence[str]
) -> Iterator[tuple[dict[str, Array], pl.DataFrame]]:
    """Yield columns of rows that count, and what names their slices."""
    for raw in raw_batches(prepared.good_top, [*names, *by], _BATCH):
        rows = np.stack([_floats(raw[name]) for name in names])
        yield dict(zip(names, rows, strict=True)), pl.DataFrame({name: raw[name] for name in by})


class _Lanes:
    """Two threads that take their work in the order it is given, a few pieces ahead at most."""

    def __init__(self) -> None:
        self.pools = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]
        self.waiting: deque[Future[None]] = deque()

    def put(self, lane: int, work: Callable[..., None], *given: Any) -> None:
        self.waiting.append(self.pools[lane].submit(work, *given))
        while len(self.waiting) > _AHEAD:
            self.waiting.popleft().result()

    def __enter__(self) -> _Lanes:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            while self.waiting and kind is None:
                self.waiting.popleft().result()
        finally:
            for pool in self.pools:
                pool.shutdown(cancel_futures=True)


def _add_sums(prepared: FrameRows, summary: Summary, waiting: list[pl.DataFrame], slices: SliceCells | None) -> None:
    """Add the score sums of some batches, by Polars: a plan of many steps is worth it for a million rows."""
    query = prepared.sums(() if slices is None else (_SLOT,), nw.from_native(pl.concat(waiting).lazy())).to_native()
    found = query.collect(engine="streaming")
    waiting.clear()
    columns = {name: found[name].to_numpy() for name in found.columns}
    if slices is None:
        read_sums(prepared, summary, columns)
        return
    slot = columns.pop(_SLOT)
    for name, values in columns.items():
        slices.totals.setdefault(name, np.zeros(slices.room))[slot] += values
