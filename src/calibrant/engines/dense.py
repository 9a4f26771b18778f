"""Cells of the whole in one pass: a local engine checks and prepares rows, NumPy counts its batches into dense arrays.

A group-by of a hundred thousand cells misses the cache for every row; an array of all cells does not. Only the sums of
a batch are new memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from calibrant._typing import Array, Floats
from calibrant.core.cells import dense_index, dense_keys
from calibrant.core.tables import PARTS, Table
from calibrant.engines.batches import _floats, raw_batches
from calibrant.engines.frame_rows import LABEL, OUTCOME, SCORE, WEIGHT, FrameRows, _p, read_sums
from calibrant.summary.summary import Summary
from calibrant.views import View

__all__ = ["fill_batches", "is_local"]

#: Rows of a batch, as many as there are cells or more, and rows whose score sums are made at once.
_BATCH, _SUMMED = 1 << 17, 1 << 20


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
    """All cells of one group of a view."""

    def __init__(self, grid: int, weighted: bool) -> None:
        self.grid = grid
        self.sums = np.zeros((5 if weighted else 3, grid + 2 * (PARTS - 1)))

    def add(self, score: Floats, outcome: Array, weight: Floats | None) -> None:
        index, size = dense_index(score, self.grid), self.sums.shape[1]
        one = [score, outcome] if weight is None else [weight * score, weight * outcome, weight, weight * weight]
        self.sums[0] += np.bincount(index, minlength=size)
        for row, values in enumerate(one, 1):
            self.sums[row] += np.bincount(index, values, size)

    def table(self) -> Table:
        used = np.flatnonzero(self.sums[0])
        n, ws, wt, *more = self.sums[:, used]
        w, w2 = more or (n, n)
        return Table(self.grid, dense_keys(used, self.grid), n, w, ws, wt, ws, w2)


def is_local(table: Any) -> bool:
    """Whether an engine works in this process and gives its rows in batches."""
    return bool(table.implementation.is_polars() or table.implementation.is_duckdb())


def fill_batches(prepared: FrameRows, summary: Summary, views: Sequence[View], *, sums: bool) -> set[View]:
    """Count the cells of these views, and `sums`, in one pass over the rows; return the views that could be."""
    source = _Source(prepared.n_classes)
    done = [view for view in views if view.select(source)]
    sums = sums and (prepared.weighted or any(prepared.recipes()))
    cells: dict[tuple[View, int], _Cells] = {}
    wanted = [*source.names, *(prepared.summed if sums else []), *([WEIGHT] if prepared.weighted else [])]
    names = list(dict.fromkeys(wanted))
    waiting: list[pl.DataFrame] = []
    if sums:
        prepared.sums(())  # asks for its references now: DuckDB gives up a stream when another query begins
    for raw in raw_batches(prepared.good_top, names, _BATCH) if names else ():
        batch = {name: _floats(column) for name, column in raw.items()}
        if sums:
            waiting.append(pl.DataFrame(batch))
            if sum(map(len, waiting)) >= _SUMMED:
                _add_sums(prepared, summary, waiting)
        weight = batch.get(WEIGHT)
        if weight is not None and not weight.all():
            batch = {name: column[weight > 0] for name, column in batch.items()}
        for view in done:
            for number, score, outcome in view.select(_Source(prepared.n_classes, batch)) or ():
                group = 0 if view.single_group else number
                if (view, group) not in cells:
                    cells[view, group] = _Cells(summary.grid_of(view), prepared.weighted)
                cells[view, group].add(score, outcome, batch.get(WEIGHT))
    if sums:
        _add_sums(prepared, summary, waiting or [pl.DataFrame(schema=dict.fromkeys(names, pl.Float64))])
    for (view, group), held in cells.items():
        summary.add_cells(summary.views.index(view), group, held.table())
    return set(done)


def _add_sums(prepared: FrameRows, summary: Summary, waiting: list[pl.DataFrame]) -> None:
    """Add the score sums of some batches, by Polars: a plan of many steps is worth it for a million rows."""
    query = prepared.sums((), nw.from_native(pl.concat(waiting).lazy())).to_native()
    found = query.collect(engine="streaming")
    read_sums(prepared, summary, {name: found[name].to_numpy() for name in found.columns})
    waiting.clear()
