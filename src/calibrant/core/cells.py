"""Cells in bulk: fill them without a sort, merge many tables at once, say where a cell begins and ends."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.tables import COLUMNS, PARTS, SLACK, Bins, Pairs, Table, cell_table, depth, merge, width_index
from calibrant.errors import input_error

#: Below this many pairs a sort is cheaper than a dense array of all cells.
_FEW = 8_192


def dense_index(score: Array, grid: int) -> Ints:
    """Number the cells of a grid without gaps: parts of the first cell, the middle, parts of the last."""
    index = width_index(score, grid)
    first, last = np.flatnonzero(index == 0), np.flatnonzero(index == grid - 1)
    index += PARTS - 1
    index[first] = depth(score[first])
    index[last] += PARTS - 1 - depth(1.0 - score[last].astype(np.float64))
    return index


def dense_keys(index: Ints, grid: int) -> Ints:
    """Return the keys of dense cell numbers."""
    cell = np.clip(index - (PARTS - 1), 0, grid - 1)
    part = np.where(cell == 0, index, np.maximum(index - (PARTS - 1) - (grid - 1), 0))
    return np.asarray(cell * PARTS + np.where(index < PARTS, index, part))


def fill_cells(pairs: Pairs, grid: int) -> Table:
    """Key pairs by cell: the same table as `cell_table`, by counting instead of sorting."""
    if len(pairs.score) < _FEW:
        return cell_table(pairs, grid)
    if pairs.weight is not None and not pairs.weight.all():
        pairs = pairs.take(pairs.weight > 0)
    index = dense_index(pairs.score, grid)
    size = grid + 2 * (PARTS - 1)
    count = np.bincount(index, minlength=size)
    used = np.flatnonzero(count)

    def collect(values: Array) -> Floats:
        return np.bincount(index, values, size)[used].astype(np.float64)

    return Table.of(grid, dense_keys(used, grid), count[used], pairs, collect)


def bounds(table: Table) -> tuple[Floats, Floats]:
    """Return the lowest and highest score a cell can hold."""
    cell, part = table.key // PARTS, table.key % PARTS
    low = cell / table.grid + SLACK * (cell > 0)
    high = np.minimum((cell + 1) / table.grid + SLACK, 1.0)
    first, last = cell == 0, cell == table.grid - 1
    low[first], high[first] = _octave(part[first], high[first])
    near, far = _octave(PARTS - 1 - part[last], 1.0 - low[last])
    low[last], high[last] = 1.0 - far, 1.0 - near
    return low, high


def _octave(depth: Ints, limit: Floats) -> tuple[Floats, Floats]:
    """Distances to the end of the range that share a part: sixteenths of an octave, 0 alone below 2⁻⁶⁴."""
    wider = 1e-6  # the border's nudge and rounding
    near = np.where(depth > 0, 2.0 ** ((depth - 1) / 16 - 64) * (1 - wider), 0.0)
    far = np.where(depth < PARTS - 1, 2.0 ** (depth / 16 - 64) * (1 + wider), 1.0)
    return near, np.minimum(far, limit)


def mirror(table: Table) -> Table:
    """Return the table of the other class of two: scores 1 − s, outcomes 1 − t."""
    cell, part = table.key // PARTS, table.key % PARTS
    end = (cell == 0) | (cell == table.grid - 1)
    key = (table.grid - 1 - cell) * PARTS + np.where(end, PARTS - 1 - part, 0)
    order = slice(None, None, -1)
    return Table(
        table.grid,
        key[order],
        table.n[order],
        table.w[order],
        (table.w - table.ws)[order],
        (table.w - table.wt)[..., order],
        (table.w - table.we)[order],
        table.w2[order],
    )


def cut(table: Table, cells: int) -> Table:
    """Keep the cells from number `cells` on."""
    start = int(np.searchsorted(table.key, cells * PARTS))
    return Table(table.grid, table.key[start:], *(getattr(table, name)[..., start:] for name in COLUMNS))


def above(table: Table, threshold: float) -> Table:
    """Keep the cells above a threshold that lies on a cell border."""
    cells = threshold * table.grid
    if abs(cells - round(cells)) > 1e-9 * table.grid:
        raise input_error(
            "threshold", "Summary", f"be a multiple of 1/{table.grid}", str(threshold), "take for example 0.01 or 0.05"
        )
    return cut(table, round(cells))


def gaps(table: Table) -> tuple[Floats, Floats]:
    """Return an upper bound of Σ|t − s| in every cell, and the width of the cell."""
    low, high = bounds(table)
    return table.wt * (1.0 - low) + (table.w - table.wt) * high, high - low


def mean_gap(table: Table) -> float:
    """Return an upper bound of the mean |t − s|."""
    return float(gaps(table)[0].sum() / table.total) if len(table) else 0.0


def hidden_path(table: Table) -> float:
    """Return the largest part of the cumulative path hidden inside a cell.

    Hits raise the path by 1 − s, misses lower it by s, in any order.
    """
    if not len(table):
        return 0.0
    low, high = bounds(table)
    hidden = np.maximum(table.wt * (1.0 - low), (table.w - table.wt) * high)
    return float(np.where((table.n > 1) & (high > low), hidden, 0.0).max() / table.total)


def add_bins(one: Bins | None, other: Bins) -> Bins:
    """Add bins to what there is."""
    return other if one is None else one + other


class Growing:
    """A table that small ones are added to; they are merged when they outweigh it, so that adding stays cheap."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._waiting: list[Table] = []
        self._rows = 0

    def add(self, table: Table) -> None:
        """Take in a small table."""
        self._waiting.append(table)
        self._rows += len(table)
        if self._rows > 4096 + len(self._table):
            self.table()

    def table(self) -> Table:
        """Return the sum of all tables so far."""
        if self._waiting:
            self._table = merge([self._table, *self._waiting], self._table.grid)
            self._waiting, self._rows = [], 0
        return self._table


def joined(table: Table, block: int) -> Table:
    """Join every `block` neighboring cells; the parts of the end cells by a quarter of an octave.

    The hits of a joined cell are binomial with its mean probability: the mean is exact, the variance too large by the
    variance of the scores inside.
    """
    if not len(table):
        return table
    cell, part = table.key // PARTS, table.key % PARTS
    end = (cell == 0) | (cell == table.grid - 1)
    group = np.where(end, -1 - cell * PARTS - part // 4, cell // block)
    start = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    return table.joined(start)


def evened(table: Table, most: int) -> Table:
    """Join neighboring rows of a table into at most `most` steps of about equal weight and variance.

    The outcomes of a step are binomial with its mean probability, as in `joined`.
    """
    if len(table) <= most:
        return table
    share = np.clip(table.we / table.w, 0.0, 1.0)
    variance = table.w * share * (1.0 - share)
    size = table.w / table.total + variance / max(float(variance.sum()), 1e-300)
    middle = np.cumsum(size) - 0.5 * size
    group = np.minimum((middle / size.sum() * most).astype(np.int64), most - 1)
    start = np.flatnonzero(np.diff(group, prepend=-1))
    return table.joined(start)


def cell_pairs(table: Table) -> Pairs:
    """Return each cell's hits and misses as weighted pairs at the cell's mean score."""
    score = np.clip(table.ws / table.w, 0.0, 1.0)
    weight = np.concatenate([table.wt, table.w - table.wt])
    kept = weight > 0
    return Pairs(np.tile(score, 2)[kept], np.repeat([True, False], len(score))[kept], weight[kept])
