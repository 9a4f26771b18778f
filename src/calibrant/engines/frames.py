"""Cells by group-by inside the engine: one Narwhals expression for Polars, pandas, PyArrow, DuckDB, Spark, Dask, Ibis.

The rule of `core.edges` is written here once more, as an expression; tests hold the two together count by count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Array
from calibrant.core.edges import FINE, PARTS, SLACK
from calibrant.core.tables import Bins, Table
from calibrant.engines import frame_rows as rows
from calibrant.engines.batches import first_length, is_missing, summarize_lists
from calibrant.engines.columns import Columns, find_columns
from calibrant.engines.files import Layout
from calibrant.engines.slices import Slices
from calibrant.engines.summary import Summary
from calibrant.errors import InputError, input_error
from calibrant.views import ClassK, Classwise, Entropy, Pooled, TopLabel, View

__all__ = ["summarize", "top_bins", "top_table", "with_cells"]

_KEY, _GROUP = "__key", "__group"
_CELL, _DEPTH = "__cell", "__depth"


def with_cells(frame: Any, grid: int) -> Any:
    """Add the key of the cell of each score, as `core.edges.cell_key` gives it, on any engine.

    ``cell = clip(ceil((s − 2⁻²⁴)·m) − 1, 0, m − 1)``; the first and last cell are split by sixteenths of the
    octave of s and of 1 − s. Keys fit 32 bits, which halves the time of the group-by. Every step is a column:
    Spark writes an expression out wherever it is named, and `clip` and `log` name theirs several times.
    """
    score, cell, depth = nw.col(rows.SCORE), nw.col(_CELL), nw.col(_DEPTH)
    frame = _with_places(frame, grid)
    frame = frame.with_columns(nw.when(cell < 1).then(score).otherwise(1.0 - score).alias(_DEPTH))
    frame = frame.with_columns(depth.clip(lower_bound=2.0**-80).alias(_DEPTH))  # no logarithm of 0
    sixteenths = depth.log() * (16.0 / math.log(2.0)) + (16.0 * 64.0 + 1e-6 + 1.0)
    frame = frame.with_columns(sixteenths.floor().alias(_DEPTH))
    frame = frame.with_columns(depth.clip(0.0, PARTS - 1.0).alias(_DEPTH))
    last = nw.when(cell > grid - 1.5).then(PARTS - 1.0 - depth).otherwise(0.0)
    part = nw.when(cell < 1).then(depth).otherwise(last)
    return frame.with_columns((cell * float(PARTS) + part).cast(nw.Int32).alias(_KEY))


def with_bins(frame: Any, m: int) -> Any:
    """Add the equal-width bin of each score."""
    return _with_places(frame, m).with_columns(nw.col(_CELL).cast(nw.Int32).alias(_KEY))


def _with_places(frame: Any, m: int) -> Any:
    frame = frame.with_columns((((nw.col(rows.SCORE) - SLACK) * float(m)).ceil() - 1.0).alias(_CELL))
    return frame.with_columns(nw.col(_CELL).clip(0.0, m - 1.0).alias(_CELL))


def summarize(
    frame: Any,
    layout: Layout | None = None,
    *,
    by: Sequence[str] = (),
    views: Iterable[View | str] | None = None,
    n_bins: Iterable[int] = (),
    strict: bool = False,
    normalize: bool = False,
    n_classes: int | None = None,
) -> Slices:
    """Summarise a frame, lazy frame or relation of any engine Narwhals knows.

    Parameters
    ----------
    frame
        pandas, Polars (eager or lazy), PyArrow, DuckDB, PySpark, Dask or Ibis; or a list of such frames with
        the same columns, summarised one after the other.
    layout : Layout, optional
        Names of the columns; default: ``p_*``, ``logit_*``, ``score``, ``probs``, ``logits`` or ``confidence``
        with ``correct``; truth in ``label``, weights in ``weight``.
    by : sequence of str
        Columns whose combinations are summarised each, on the coarse grid.
    views, n_bins
        As in `Summary`; wide frames know top-1, class-K, classwise, pooled and entropy.
    strict : bool, default False
        Raise when a row is missing a value or out of range, instead of counting it.
    normalize : bool, default False
        Rescale rows to sum 1.
    n_classes : int, optional
        Number of classes of list columns; default: the length of the first list.

    Returns
    -------
    Slices
        ``.whole``, ``.parts`` and the counts of rows left out, ``.rejected``.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.LazyFrame({"confidence": [0.9, 0.6, None], "correct": [True, False, True]})
    >>> found = summarize(frame)
    >>> found.whole.n, found.rejected["missing"], round(found.whole.measure("ece"), 2)
    (2, 1, 0.35)
    """
    blocks = [nw.from_native(part) for part in (frame if isinstance(frame, list) else [frame])]
    columns = find_columns(blocks[0].collect_schema(), layout or Layout(), by)
    kept = None if views is None else tuple(views)
    options: dict[str, Any] = {"views": kept, "n_bins": tuple(n_bins), "normalize": normalize}
    if columns.kind == "list":
        options["n_classes"] = n_classes or first_length(blocks[0], columns)
    found = reduce(add, (_summarize_block(block, columns, options) for block in blocks))
    check_rejected(found.rejected, strict)
    if not found.whole.n:
        raise input_error(
            "frame",
            "summarize",
            "hold at least one usable row",
            f"none ({_listed(found.rejected) or 'no rows at all'})",
            "check the columns and the filter",
        )
    return found


def _summarize_block(table: Any, columns: Columns, options: dict[str, Any]) -> Slices:
    if columns.kind == "list":
        return summarize_lists(table, columns, **options)
    if table.implementation.is_dask():  # its frames are pandas frames in a row
        parts = (nw.from_native(part.compute()) for part in table.to_native().partitions)
        return reduce(add, (_summarize_columns(part, columns, **options) for part in parts))
    return _summarize_columns(table, columns, **options)


def check_rejected(rejected: dict[str, int], strict: bool) -> None:
    """Raise when rows were left out and that is not allowed."""
    if strict and any(rejected.values()):
        raise InputError(
            f"frame of summarize must hold only usable rows in strict mode; got {_listed(rejected)}. "
            "Hint: mend the rows, or allow them to be counted and left out."
        )


def _listed(rejected: dict[str, int]) -> str:
    return ", ".join(f"{count} rows {reason}" for reason, count in rejected.items() if count)


def _summarize_columns(
    table: Any, columns: Columns, *, views: Iterable[View | str] | None, n_bins: Iterable[int], normalize: bool
) -> Slices:
    prepared = rows.prepare(table, columns, normalize)
    n_classes = len(columns.scores) if columns.kind == "wide" else 2
    pairs = columns.kind == "pairs"
    shape: dict[str, Any] = {
        "n_classes": None if pairs else n_classes,
        "views": views,
        "n_bins": n_bins,
        "classes": columns.classes,
        "pairs": pairs,
    }
    whole = Summary(**shape)
    targets: list[tuple[Summary, tuple[str, ...]]] = [(whole, ())]
    if columns.by:
        targets.append((Summary(**shape, coarse=True), columns.by))
    queries, readers = [], []
    for model, by in targets:
        for query, reader in _queries(prepared, model, by):
            queries.append(query)
            readers.append((model, reader))
    parts: dict[tuple[Any, ...], Summary] = {}
    for (model, reader), result in zip(readers, _collect(queries), strict=True):
        for key, chunk in _split(result, () if model is whole else columns.by):
            target = whole if model is whole else parts.setdefault(key, model.empty())
            reader(target, chunk)
    return Slices(whole, columns.by, parts)


def top_table(frame: Any, layout: Layout | None = None) -> Table:
    """Return the fine top-label cells of a frame and nothing else: one query."""
    (chunk, prepared) = _one_query(frame, layout, lambda pairs: with_cells(pairs, FINE))
    return _table(chunk, FINE, prepared.weighted, TopLabel())


def top_bins(frame: Any, n_bins: int = 15, layout: Layout | None = None) -> Bins:
    """Return the top-label bins of a frame and nothing else: what the ECE alone needs, one query."""
    chunk, prepared = _one_query(frame, layout, lambda pairs: with_bins(pairs, n_bins))
    out = np.zeros((3, 1, n_bins))
    out[:, 0, chunk[_KEY]] = [chunk["w" if prepared.weighted else "n"], chunk["ws"], chunk["wt"]]
    return Bins(*out)


def _one_query(frame: Any, layout: Layout | None, key: Any) -> tuple[dict[str, Array], rows.Rows]:
    table = nw.from_native(frame)
    prepared = rows.prepare(table, find_columns(table.collect_schema(), layout or Layout()), False)
    (result,) = _collect([_aggregate(key(prepared.top(())), [_KEY], prepared.weighted, TopLabel())])
    return next(iter(_split(result, ())))[1], prepared


def _queries(prepared: rows.Rows, model: Summary, by: tuple[str, ...]) -> Iterable[tuple[Any, Any]]:
    """Yield each query with the function that puts its result into a summary."""
    yield prepared.sums(by), rows.read_sums
    for position, view in enumerate(model.views):
        long = _pairs(prepared, view, by)
        groups = model.group_count(view) > 1
        grid = model.grid_of(view)
        keys = [*by, *([_GROUP] if groups else []), _KEY]
        yield (
            _aggregate(with_cells(long, grid), keys, prepared.weighted, view),
            _reader_of_cells(position, grid, prepared, view),
        )
        for m in model.n_bins:
            yield (
                _aggregate(with_bins(long, m), keys, prepared.weighted, view),
                _reader_of_bins(position, m, model, prepared, view),
            )


def _pairs(prepared: rows.Rows, view: View, by: tuple[str, ...]) -> Any:
    """Return the pairs of a view as a frame: score, outcome, weight, expected, group."""
    if isinstance(view, TopLabel):
        return prepared.top(by)
    if isinstance(view, Entropy):
        return prepared.entropy(by, _GROUP if view.by else None)
    if isinstance(view, Classwise | Pooled):
        return prepared.classes(by, _GROUP)
    if isinstance(view, ClassK) and view.k < prepared.n_classes:
        return prepared.one_class(by, view.k)
    raise input_error(
        "views",
        "summarize",
        "be top-1, class-K, classwise, pooled or entropy on an engine",
        view.name,
        "use Summary.update on batches of rows for other ranks",
    )


def _aggregate(frame: Any, keys: list[str], weighted: bool, view: View) -> Any:
    sums = [nw.len().alias("n"), nw.col(rows.SCORE).sum().alias("ws"), nw.col(rows.OUTCOME).sum().alias("wt")]
    product = {"ws": rows.SCORE, "wt": rows.OUTCOME}
    if isinstance(view, Entropy):
        sums.append(nw.col(rows.EXPECTED).sum().alias("we"))
        product["we"] = rows.EXPECTED
    if not weighted:
        return frame.group_by(*keys).agg(*sums)
    weight = nw.col(rows.WEIGHT)
    frame = frame.filter(weight > 0).with_columns(
        (weight * weight).alias("__w2"), *((weight * nw.col(name)).alias(f"__{key}") for key, name in product.items())
    )
    named = [nw.col(f"__{key}").sum().alias(key) for key in product]
    return frame.group_by(*keys).agg(
        nw.len().alias("n"), weight.sum().alias("w"), nw.col("__w2").sum().alias("w2"), *named
    )


def _collect(queries: list[Any]) -> list[Any]:
    """Run the queries one after the other: sharing a scan would keep rows of one waiting for the other."""
    if not isinstance(queries[0], nw.LazyFrame):
        return queries
    if queries[0].implementation.is_polars():
        return [nw.from_native(query.to_native().collect(engine="streaming")) for query in queries]
    return [query.collect() for query in queries]


def _split(result: Any, by: Sequence[str]) -> Iterable[tuple[tuple[Any, ...], dict[str, Array]]]:
    """Cut a result into slices: columns as arrays, one dict per combination of values."""
    arrays = {name: result[name].to_numpy() for name in result.columns if name not in by}
    if not by:
        yield (), arrays
        return
    combinations: dict[tuple[Any, ...], int] = {}
    rows_by = list(zip(*(_values(result[name]) for name in by), strict=True))
    codes = np.array([combinations.setdefault(row, len(combinations)) for row in rows_by], dtype=np.int64)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(combinations) + 1))
    for number, key in enumerate(combinations):
        chosen = order[edges[number] : edges[number + 1]]
        yield key, {name: array[chosen] for name, array in arrays.items()}


def _values(series: Any) -> list[Any]:
    """Plain Python values; NaN, a missing value in some engines, is None like NULL."""
    return [None if is_missing(value) else value for value in series.to_list()]


def _table(chunk: dict[str, Array], grid: int, weighted: bool, view: View) -> Table:
    order = np.argsort(chunk[_KEY], kind="stable")

    def column(name: str) -> Any:
        return chunk[name][order].astype(np.float64)

    n, ws = column("n"), column("ws")
    w, w2 = (column("w"), column("w2")) if weighted else (n, n)
    we = column("we") if isinstance(view, Entropy) else ws
    return Table(grid, chunk[_KEY][order].astype(np.int64), n, w, ws, column("wt"), we, w2)


def _by_group(chunk: dict[str, Array]) -> Iterable[tuple[int, dict[str, Array]]]:
    if _GROUP not in chunk:
        yield 0, chunk
        return
    numbers = rows.group_numbers(chunk[_GROUP])
    for number in np.unique(numbers).tolist():
        yield number, {name: array[numbers == number] for name, array in chunk.items()}


def _reader_of_cells(position: int, grid: int, prepared: rows.Rows, view: View) -> Any:
    def read(summary: Summary, chunk: dict[str, Array]) -> None:
        for group, part in _by_group(chunk):
            summary.add_cells(position, group, _table(part, grid, prepared.weighted, view))

    return read


def _reader_of_bins(position: int, m: int, model: Summary, prepared: rows.Rows, view: View) -> Any:
    def read(summary: Summary, chunk: dict[str, Array]) -> None:
        w, ws, wt = np.zeros((3, model.group_count(view), m))
        for group, part in _by_group(chunk):
            index = part[_KEY].astype(np.int64)
            w[group, index] = part["w"] if prepared.weighted else part["n"]
            ws[group, index], wt[group, index] = part["ws"], part["wt"]
        summary.add_bins(position, m, Bins(w, ws, wt))

    return read
