"""Cells by group-by inside the engine: one Narwhals expression for Polars, pandas, PyArrow, DuckDB, Spark, Dask, Ibis.

The rule of `core.tables` is written here once more, as an expression; tests hold the two together count by count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add
from types import SimpleNamespace
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Array
from calibrant.core.arguments import check_options
from calibrant.core.inputs import check_words
from calibrant.core.options import listed
from calibrant.core.tables import COARSE, FINE, PARTS, SLACK, Bins, Table
from calibrant.engines import frame_rows as rows
from calibrant.engines.batches import first_length, summarize_lists
from calibrant.engines.dense import SliceCells, _Source, fill_batches, is_local
from calibrant.engines.expressions import expr
from calibrant.engines.private import known_frame, private
from calibrant.engines.spark import short_methods, without_origins
from calibrant.errors import InputError, input_error
from calibrant.io.layout import Columns, Layout
from calibrant.io.resolver import find_columns
from calibrant.metrics.recipes import ScoreSums
from calibrant.summary.keys import canonical
from calibrant.summary.slices import Slices
from calibrant.summary.summary import Summary
from calibrant.summary.sums import scores_of
from calibrant.views import View

__all__ = ["collect", "summarize", "with_cells"]

#: Views, and names of scores.
Need: TypeAlias = tuple[Sequence[View], Iterable[str]]
_KEY, _GROUP = "__key", "__group"
_CELL, _DEPTH, _GRID = "__cell", "__depth", "__grid"


def with_cells(frame: Any, grid: int | nw.Expr) -> Any:
    """Add the key of the cell of each score, as `core.tables.cell_key` gives it, on any engine.

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


def _with_places(frame: Any, m: int | nw.Expr) -> Any:
    frame = frame.with_columns((((nw.col(rows.SCORE) - SLACK) * expr(m)).ceil() - 1.0).alias(_CELL))
    return frame.with_columns(nw.col(_CELL).clip(0.0, expr(m) - 1.0).alias(_CELL))


@without_origins()
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
    need: Callable[[Summary], Need] | None = None,
) -> Slices:
    """Summarize a frame, lazy frame or relation of any engine Narwhals knows.

    Parameters
    ----------
    frame
        pandas, Polars (eager or lazy), PyArrow, DuckDB, PySpark, Dask or Ibis; or a list of such frames with
        the same columns, summarized one after the other.
    layout : Layout, optional
        Names of the columns; default: ``p_*``, ``logit_*``, ``score``, ``probs``, ``logits`` or ``confidence``
        with ``correct``; truth in ``label``, weights in ``weight``.
    by : sequence of str
        Columns whose combinations are summarized each, on the coarse grid.
    views, n_bins
        As in `Summary`; wide frames know top-1, class-K, classwise, pooled and entropy.
    strict : bool, default False
        Raise when a row is missing a value or out of range, instead of counting it.
    normalize : bool, default False
        Rescale rows to sum 1.
    n_classes : int, optional
        Number of classes of list columns; default: the length of the first list.
    need : callable, optional
        From an empty summary to the views and the names of the scores that are kept; default: all. Queries whose
        results nobody reads are not run.

    Returns
    -------
    Slices
        ``.whole``, ``.parts`` and the counts of rows left out, ``.rejected``.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.LazyFrame({"confidence": [0.9, 0.6, None], "correct": [True, False, True]})
    >>> found = summarize(frame)
    >>> found.whole.n, found.rejected["missing"], round(found.whole.metric("ece"), 2)
    (2, 1, 0.35)
    """
    check_options(summarize, locals())
    tables = [known_frame(part) for part in (frame if isinstance(frame, list) and frame else [frame])]
    named = tuple(check_words(by, "by", "summarize"))
    by = _nested(tables[0], named)
    blocks = [private(_unnested(table, named, by)) for table in tables]
    values = rows.label_values(*blocks)
    columns = find_columns(blocks[0].schema, layout or Layout(), by, values=values)
    kept = None if views is None else tuple(listed(views, "views", "summarize"))
    options: dict[str, Any] = {
        "views": kept,
        "n_bins": tuple(listed(n_bins, "n_bins", "summarize")),
        "normalize": normalize,
    }
    if columns.kind != "list":
        options["need"] = need
    if columns.kind == "list":
        options["n_classes"] = n_classes or first_length(blocks[0].table, blocks[0].columns(columns))
    found = reduce(add, (_summarize_block(block.table, block.columns(columns), options) for block in blocks))
    found = replace(found, by=named)
    rows.refuse_counted(columns, found.whole.n_classes or 0, found.rejected, values)
    check_rejected(found.rejected, strict)
    if not found.whole.n:
        rule, hint = "hold at least one usable row", "check the columns and the filter"
        hint += " (percentages: divide by 100)" if found.rejected.get("outside") else ""
        raise input_error("frame", "summarize", rule, f"none ({_listed(found.rejected) or 'no rows at all'})", hint)
    return found


def _nested(table: Any, by: Sequence[str]) -> list[str]:
    """Return the names of slice columns; fields of nested columns (``user.country``) get names without a dot."""
    schema = table.collect_schema()
    return [
        f"__nested{i}" if name not in schema and name.split(".")[0] in schema else name for i, name in enumerate(by)
    ]


def _unnested(table: Any, by: Sequence[str], new: Sequence[str]) -> Any:
    """Add the fields of nested columns that make slices."""
    fields = []
    for name, plain in zip(by, new, strict=True):
        if name != plain:
            head, *rest = name.split(".")
            column = nw.col(head)
            for step in rest:
                column = column.struct.field(step)
            fields.append(column.alias(plain))
    return table.with_columns(*fields) if fields else table


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
            "Hint: fix the rows, or allow them to be counted and left out."
        )


def _listed(rejected: dict[str, int]) -> str:
    return ", ".join(f"{count} rows {reason}" for reason, count in rejected.items() if count)


def _summarize_columns(
    table: Any,
    columns: Columns,
    *,
    views: Iterable[View | str] | None,
    n_bins: Iterable[int],
    normalize: bool,
    need: Callable[[Summary], Need] | None = None,
) -> Slices:
    pairs = columns.kind == "pairs"
    shape: dict[str, Any] = {
        "n_classes": None if pairs else len(columns.scores) if columns.kind == "wide" else 2,
        "views": views,
        "n_bins": n_bins,
        "classes": columns.classes or columns.names,
        "pairs": pairs,
    }
    scores = None
    if need is not None:
        empty = Summary(**shape)
        empty.sums = {name: ScoreSums(0.0, 0.0) for group in scores_of(pairs=pairs) for name in group}
        shape["views"], scores = need(empty)
    prepared = rows.prepare(table, columns, normalize, None if scores is None else frozenset(scores))
    whole, model = Summary(**shape), Summary(**shape, coarse=True)
    by = columns.by
    parts: dict[tuple[Any, ...], Summary] = {}
    known = {view for view in whole.views if by and model.grid_of(view) == whole.grid_of(view)}  # slices add up
    rest = [view for view in whole.views if view not in known]
    local = is_local(table)
    summed = bool(by) or local
    slices = SliceCells(model, by) if by and local else None
    filled = fill_batches(prepared, whole, rest, slices=slices) if local else set()
    if slices is not None and filled:
        slices.read(prepared, parts)
    queries = list(_queries(prepared, model, by, filled, sums=not filled)) if by else []
    mine = len(queries)
    queries += _queries(prepared, whole, (), filled | known, sums=not summed, bins=not by)

    def read(reader: Any, result: Any, sliced: bool) -> None:
        for key, chunk in _split(result, by if sliced else ()):
            if sliced and key not in parts:
                parts[key] = model.empty()
            reader(parts[key] if sliced else whole, chunk)

    for number, ((_, reader), result) in enumerate(zip(queries, collect([q for q, _ in queries]), strict=True)):
        read(reader, result, number < mine)
    for part in parts.values():
        part.finish_rows()
        whole.add_slice(part)
    whole.finish_rows()
    if _length(table) != whole.n:
        (left,) = collect([prepared.reasons(by)])
        read(rows.read_reasons, left, bool(by))
        for part in parts.values():
            whole.add_rows(0, 0, {}, part.rejected)
    return Slices(whole, by, parts)


def _length(table: Any) -> int:
    """Return the number of rows; Parquet tells it without a look at them."""
    if not isinstance(table, nw.LazyFrame):
        return len(table)
    (counted,) = collect([table.select(nw.len().alias("n"))])
    return int(counted["n"].to_list()[0])


def _queries(
    prepared: rows.FrameRows,
    model: Summary,
    by: tuple[str, ...],
    known: set[View],
    *,
    sums: bool = True,
    bins: bool = True,
) -> Iterable[tuple[Any, Any]]:
    """Yield each query with the function that puts its result into a summary; cells of `known` views are there."""
    if sums and (prepared.weighted or any(prepared.recipes())):
        yield prepared.sums(by), partial(rows.read_sums, prepared)
    pairs = {view: view.select(_Source(prepared.n_classes)) for view in model.views if view not in known}
    several = {view: found for view, found in pairs.items() if found}
    if len(several) > 1 and not is_local(prepared.frame):
        yield _merged(prepared, model, by, several)
        known = known | set(several)
    for position, view in enumerate(model.views):
        grid = model.grid_of(view)
        long = _pairs(prepared, view, by)
        groups = not view.single_group
        keys = [*by, *([_GROUP] if groups else []), _KEY]
        if view not in known:
            yield (
                _aggregate(with_cells(long, grid), keys, prepared.weighted, view),
                _reader_of_cells(position, grid, prepared, view),
            )
        for m in model.n_bins if bins else ():
            yield (
                _aggregate(with_bins(long, m), keys, prepared.weighted, view),
                _reader_of_bins(position, m, model, prepared, view),
            )


def _merged(prepared: rows.FrameRows, model: Summary, by: tuple[str, ...], views: dict[View, Any]) -> tuple[Any, Any]:
    """Return one query for the pairs of several views, and its reader: Spark reads and checks rows for each."""
    held: dict[tuple[int, str, str, int], list[tuple[View, int]]] = {}  # a pair and its grid: groups of views
    for view, pairs in views.items():
        for pair in pairs:
            group = 0 if view.single_group else pair[0]
            held.setdefault((*pair, model.grid_of(view)), []).append((view, group))
    found = list(held.items())
    # never empty: Arrow looks for nothing of no type
    fine = ["", *(rows._p(place) for place, (pair, _) in enumerate(found) if pair[3] == FINE)]
    grid = nw.when(nw.col(_GROUP).is_in(fine)).then(float(FINE)).otherwise(float(COARSE))
    long = prepared.stacked([pair[:3] for pair in held], by, _GROUP).with_columns(grid.alias(_GRID))

    def read(summary: Summary, chunk: dict[str, Array]) -> None:
        for place, part in _by_group(chunk):
            pair, groups = found[place]
            for view, group in groups:
                table = _table(part, pair[3], prepared.weighted, view)
                summary.add_cells(model.views.index(view), group, table)

    cells = with_cells(long, nw.col(_GRID))
    return _aggregate(cells, [*by, _GROUP, _KEY], prepared.weighted, next(iter(views))), read


def _pairs(prepared: rows.FrameRows, view: View, by: tuple[str, ...]) -> Any:
    """Return the pairs of a view as a frame: score, outcome, weight, expected, group."""
    source: Any = SimpleNamespace(
        n_classes=prepared.n_classes,
        top=partial(prepared.top, by),
        one_class=partial(prepared.one_class, by),
        classes=partial(prepared.classes, by, _GROUP),
        entropy=lambda *, by_predicted: prepared.entropy(by, _GROUP if by_predicted else None),
    )
    found = view.select(source)
    if found is not None:
        return found
    rule = "be top-1, class-K, classwise, pooled or entropy on an engine"
    raise input_error("views", "summarize", rule, view.name, "use Summary.update on batches of rows for other ranks")


def _aggregate(frame: Any, keys: list[str], weighted: bool, view: View) -> Any:
    sums = [nw.len().alias("n"), nw.col(rows.SCORE).sum().alias("ws"), nw.col(rows.OUTCOME).sum().alias("wt")]
    product = {"ws": rows.SCORE, "wt": rows.OUTCOME}
    if view.own_expectation:
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


def collect(queries: list[Any]) -> list[Any]:
    """Run the queries one after the other: sharing a scan would keep rows of one waiting for the other."""
    if not queries or not isinstance(queries[0], nw.LazyFrame):
        return queries
    if queries[0].implementation.is_polars():
        return [nw.from_native(query.to_native().collect(engine="streaming")) for query in queries]
    with short_methods(queries[0].to_native()):
        return [query.collect() for query in queries]


def _split(result: Any, by: Sequence[str]) -> Iterable[tuple[tuple[Any, ...], dict[str, Array]]]:
    """Cut a result into slices: columns as arrays, one dict per combination of values.

    An engine may tell NULL from NaN and 0 from −0: then a slice has several rows of one cell, which add up.
    """
    arrays = {name: result[name].to_numpy() for name in result.columns if name not in by}
    if not by:
        yield (), arrays
        return
    places: dict[Any, list[int]] = {}
    for row, key in enumerate(result.select(*by).rows()):
        places.setdefault(tuple(map(canonical, key)), []).append(row)
    for key, rows_of in places.items():
        yield key, {name: array[rows_of] for name, array in arrays.items()}


def _table(chunk: dict[str, Array], grid: int, weighted: bool, view: View) -> Table:
    order = np.argsort(chunk[_KEY], kind="stable")

    def column(name: str) -> Any:
        return chunk[name][order].astype(np.float64)

    n, ws = column("n"), column("ws")
    w, w2 = (column("w"), column("w2")) if weighted else (n, n)
    we = column("we") if view.own_expectation else ws
    keys = chunk[_KEY][order].astype(np.int64)
    table = Table(grid, keys, n, w, ws, column("wt"), we, w2)
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return table if len(starts) == len(keys) else table.joined(starts)


def _by_group(chunk: dict[str, Array]) -> Iterable[tuple[int, dict[str, Array]]]:
    if _GROUP not in chunk:
        yield 0, chunk
        return
    numbers = rows.group_numbers(chunk[_GROUP])
    for number in np.unique(numbers).tolist():
        yield number, {name: array[numbers == number] for name, array in chunk.items()}


def _reader_of_cells(position: int, grid: int, prepared: rows.FrameRows, view: View) -> Any:
    def read(summary: Summary, chunk: dict[str, Array]) -> None:
        for group, part in _by_group(chunk):
            summary.add_cells(position, group, _table(part, grid, prepared.weighted, view))

    return read


def _reader_of_bins(position: int, m: int, model: Summary, prepared: rows.FrameRows, view: View) -> Any:
    def read(summary: Summary, chunk: dict[str, Array]) -> None:
        w, ws, wt = np.zeros((3, model.group_count(view), m))
        for group, part in _by_group(chunk):
            index = part[_KEY].astype(np.int64)
            for total, name in ((w, "w" if prepared.weighted else "n"), (ws, "ws"), (wt, "wt")):
                np.add.at(total[group], index, part[name].astype(np.float64))
        summary.add_bins(position, m, Bins(w, ws, wt))

    return read
