"""Cells of the whole and of slices in one pass: a local engine prepares rows, NumPy counts batches into dense arrays.

A group-by of a hundred thousand cells misses the cache for every row and grows; an array of all cells does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
#: Bytes of cells that all slices may take together; beyond it the engine groups them.
MOST_BYTES = 600 << 20


@dataclass
class _Source:
    """The columns of a batch as a source of pairs: (class, scores, outcomes); without a batch it notes their names."""

    n_classes: int
    batch: dict[str, Array] | None = None
    names: dict[str, None] = field(default_factory=dict)

    def _pair(self, group: int, score: str, outcome: str) -> tuple[int, Array, Array]:
        self.names |= {score: None, outcome: None}
        if self.batch is None:
            return group, np.zeros(0), np.zeros(0)
        held = self.batch[outcome]
        return group, self.batch[score], held if outcome == OUTCOME else held == group

    def top(self) -> list[Any]:
        return [self._pair(0, SCORE, OUTCOME)]

    def one_class(self, k: int) -> list[Any]:
        return [self._pair(k, _p(k), LABEL)]

    def classes(self) -> list[Any]:
        return [self._pair(k, _p(k), LABEL) for k in range(self.n_classes)]

    def entropy(self, *, by_predicted: bool) -> None:  # noqa: ARG002 -- counted by the engine
        return None


class _Cells:
    """All cells of one group of a view, those of `slots` slices one after the other."""

    def __init__(self, grid: int, weighted: bool, slots: int = 1) -> None:
        self.grid, self.size = grid, grid + 2 * (PARTS - 1)
        self.sums = np.zeros((5 if weighted else 3, slots * self.size))  # pages nobody touches take no memory

    def add(self, score: Floats, outcome: Array, weight: Floats | None, slot: Ints | None = None) -> None:
        index = dense_index(score, self.grid)
        if slot is not None:
            index += slot * self.size
        one: list[Any] = [1.0, score, outcome]
        if weight is not None:
            one = [1.0, weight * score, weight * outcome, weight, weight**2]
        for row, values in enumerate(one):
            if slot is not None:
                np.add.at(self.sums[row], index, values)
            else:
                self.sums[row] += np.bincount(index, None if row == 0 else values, self.size)

    def table(self, slot: int = 0) -> Table:
        cells = self.sums[:, slot * self.size : (slot + 1) * self.size]
        used = np.flatnonzero(cells[0])
        n, ws, wt, *more = cells[:, used]
        w, w2 = more or (n, n)
        return Table(self.grid, dense_keys(used, self.grid), n, w, ws, wt, ws, w2)


@dataclass
class SliceCells:
    """The cells of slices on the coarse grid, numbered as their values come."""

    model: Summary
    by: tuple[str, ...]
    known: pl.DataFrame = field(default_factory=pl.DataFrame)
    cells: dict[tuple[View, int], _Cells] = field(default_factory=dict)

    def slots(self, frame: pl.DataFrame) -> Ints:
        """Return the number of the slice of each row."""
        for _ in range(2):  # values that are new get numbers
            numbered = (self.known if self.known.width else frame.clear()).with_row_index("__slot")
            joined = frame.join(numbered, on=frame.columns, how="left", nulls_equal=True, maintain_order="left")
            found = joined["__slot"]
            if not found.null_count():
                break
            self.known = numbered.drop("__slot").vstack(frame.filter(found.is_null()).unique())
        return found.to_numpy().astype(np.int64)

    def read(self, parts: dict[tuple[Any, ...], Summary]) -> None:
        """Put the cells into the summaries of the slices."""
        for view, group in list(self.cells):
            held = self.cells.pop((view, group))  # its memory goes as the tables come
            for slot, key in enumerate(self.known.rows()):
                part = parts.setdefault(tuple(map(canonical, key)), self.model.empty())
                part.add_cells(self.model.views.index(view), group, held.table(slot))


def is_local(table: Any) -> bool:
    """Whether an engine works in this process and gives its rows in batches."""
    return bool(table.implementation.is_polars() or table.implementation.is_duckdb())


def fill_batches(
    prepared: FrameRows, summary: Summary, views: Sequence[View], *, sums: bool, slices: SliceCells | None = None
) -> set[View]:
    """Count cells of these views and of `slices`, and `sums`, in one pass over the rows; return the views it could.

    The pass ends where there are more slices than their cells have room for.
    """
    source = _Source(prepared.n_classes)
    done = [view for view in (views if slices is None else slices.model.views) if view.select(source)]
    sums = sums and (prepared.weighted or any(prepared.recipes()))
    cells: dict[tuple[View, int], _Cells] = {}
    names = [*source.names, *(prepared.summed if sums else []), *([WEIGHT] if prepared.weighted else [])]
    names = list(dict.fromkeys(names))
    groups = sum(1 if view.single_group else prepared.n_classes for view in done) or 1
    most = MOST_BYTES // (groups * (COARSE + 2 * PARTS) * (40 if prepared.weighted else 24))
    waiting: list[pl.DataFrame] = []
    if sums:
        prepared.sums(())  # asks for its references now: DuckDB gives up a stream when another query begins
    for raw in raw_batches(prepared.good_top, [*names, *(slices.by if slices else ())], _BATCH) if names else ():
        batch = {name: _floats(raw[name]) for name in names}
        slot = None if slices is None else slices.slots(pl.DataFrame({name: raw[name] for name in slices.by}))
        if slot is not None and slot.max(initial=0) >= most:
            return set()
        if sums:
            waiting.append(pl.DataFrame(batch))
            if sum(map(len, waiting)) >= _SUMMED:
                _add_sums(prepared, summary, waiting)
        weight = batch.get(WEIGHT)
        if weight is not None and not weight.all():
            batch = {name: column[weight > 0] for name, column in batch.items()}
            slot = None if slot is None else slot[weight > 0]
        for view in done:
            for number, score, outcome in view.select(_Source(prepared.n_classes, batch)) or ():
                group = 0 if view.single_group else number
                kept: list[Any] = [] if view not in views else [(cells, summary, 1, None)]
                kept += [] if slices is None else [(slices.cells, slices.model, most, slot)]
                for held, model, room, places in kept:
                    if (view, group) not in held:
                        held[view, group] = _Cells(model.grid_of(view), prepared.weighted, room)
                    held[view, group].add(score, outcome, batch.get(WEIGHT), places)
    if sums:
        _add_sums(prepared, summary, waiting or [pl.DataFrame(schema=dict.fromkeys(names, pl.Float64))])
    for (view, group), counted in cells.items():
        summary.add_cells(summary.views.index(view), group, counted.table())
    return set(done)


def _add_sums(prepared: FrameRows, summary: Summary, waiting: list[pl.DataFrame]) -> None:
    """Add the score sums of some batches, by Polars: a plan of many steps is worth it for a million rows."""
    query = prepared.sums((), nw.from_native(pl.concat(waiting).lazy())).to_native()
    found = query.collect(engine="streaming")
    read_sums(prepared, summary, {name: found[name].to_numpy() for name in found.columns})
    waiting.clear()
