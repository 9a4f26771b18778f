"""What needs rows, such as list columns: NumPy batches from any engine, one state row per Spark partition."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from calibrant._typing import Array, Bools, Floats, Ints
from calibrant.core.inputs import TOLERANCE
from calibrant.errors import FileError
from calibrant.io.layout import Columns
from calibrant.summary.keys import canonical
from calibrant.summary.slices import Slices
from calibrant.summary.summary import REASONS, Summary
from calibrant.views import View

__all__ = ["Batch", "batches", "reduce_rows", "summarize_lists"]

#: Rows per batch: a few megabytes for ten classes.
BATCH_ROWS = 1 << 16
#: Above this many Spark partitions their states are merged on the cluster first.
_MANY_STATES = 64
_STATE = "place int, state binary"


@dataclass(frozen=True)
class Batch:
    """Some rows as arrays: scores (n, K) or (n,), class codes, weights, slice columns; only good rows are kept."""

    scores: Array
    codes: Ints
    weights: Floats | None
    by: tuple[list[Any], ...]
    rejected: dict[str, int]
    #: Rows left out by the values of the slice columns.
    rejected_by: dict[tuple[Any, ...], dict[str, int]]
    #: Which of the raw rows are kept.
    good: Bools


def batches(table: Any, columns: Columns, n_classes: int, *, normalize: bool = False) -> Iterator[Batch]:
    """Yield the rows of a local Narwhals frame (not Spark) as checked batches, in bounded memory."""
    for raw in raw_batches(table, columns.used):
        yield clean(raw, columns, n_classes, normalize)


def raw_batches(table: Any, names: Sequence[str], size: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield dicts of column → Polars series, Arrow array or pandas series, for `size` rows at once."""
    size = size or BATCH_ROWS
    native = table.select(*names).to_native()
    kind = table.implementation
    if kind.is_polars():
        for frame in native.lazy().collect_batches(chunk_size=size, engine="streaming"):
            yield {name: frame[name] for name in names}
        return
    if kind.is_duckdb():
        for batch in native.to_arrow_reader(size):
            yield dict(zip(names, batch.columns, strict=True))
        return
    if hasattr(table, "collect"):  # Dask, Ibis: no batches to be had
        native = table.select(*names).collect().to_native()
    if hasattr(native, "to_batches"):
        for batch in native.to_batches(max_chunksize=size):
            yield dict(zip(names, batch.columns, strict=True))
        return
    for start in range(0, len(native), size):
        part = native.iloc[start : start + size]
        yield {name: part[name] for name in names}


def clean(raw: dict[str, Any], columns: Columns, n_classes: int, normalize: bool) -> Batch:
    """Turn raw columns into arrays; rows that are missing values or out of range are counted and left out."""
    scores = raw_scores(raw, columns, n_classes)
    label = _codes(raw[columns.label], columns)
    weights = None if columns.weight is None else _floats(raw[columns.weight]).astype(np.float64)
    reason = _reasons(scores, label, weights, columns, n_classes, normalize)
    good = reason == 0
    counts = {name: int((reason == i + 1).sum()) for i, name in enumerate(REASONS)}
    keys = [_objects(raw[name]) for name in columns.by]
    by = tuple([value for value, ok in zip(column, good, strict=True) if ok] for column in keys)
    left: dict[tuple[Any, ...], dict[str, int]] = {}
    if keys and not good.all():
        for row in np.flatnonzero(~good).tolist():
            found = left.setdefault(tuple(column[row] for column in keys), dict.fromkeys(REASONS, 0))
            found[REASONS[reason[row] - 1]] += 1
    held = None if weights is None else weights[good]
    return Batch(scores[good], label[good].astype(np.int64), held, by, counts, left, good)


def raw_scores(raw: dict[str, Any], columns: Columns, n_classes: int) -> Array:
    """Return the scores of raw columns: (n, K), or (n,) where there is one."""
    if columns.kind == "list":
        return _matrix(raw[columns.scores[0]], n_classes)
    arrays = [_floats(raw[name]) for name in columns.scores]
    return np.stack(arrays, axis=1) if columns.kind == "wide" else arrays[0]


def _reasons(scores: Array, label: Floats, weights: Floats | None, columns: Columns, k: int, normalize: bool) -> Ints:
    reason = score_reasons(scores, columns, normalize)
    missing = (reason == 1) | np.isnan(label)
    with np.errstate(invalid="ignore"):
        if weights is not None:
            missing |= np.isnan(weights)
            reason[(weights < 0) | np.isinf(weights)] = 4
        reason[(label < 0) | (label > max(k, 2) - 1) | (label != np.floor(label))] = 2
    reason[missing] = 1
    return reason


def score_reasons(scores: Array, columns: Columns, normalize: bool) -> Ints:
    """Return 0 for usable scores, else 1 + the place in REASONS of why they are not: missing, or outside."""

    def rows(test: Bools) -> Bools:
        return np.asarray(test.any(axis=1) if test.ndim == 2 else test)

    reason = np.zeros(len(scores), dtype=np.int64)
    with np.errstate(invalid="ignore"):
        if columns.space == "logit":
            outside = rows(~np.isfinite(scores))
        elif normalize and scores.ndim == 2:
            total = scores.sum(axis=1, dtype=np.float64)
            outside = rows(scores < 0) | ~np.isfinite(total) | (total <= 0)
        else:
            tolerance = columns.tolerance
            outside = rows((scores < -tolerance) | (scores > 1 + tolerance))
            if scores.ndim == 2:
                outside |= np.abs(scores.sum(axis=1, dtype=np.float64) - 1) > tolerance
    reason[outside] = 3
    reason[rows(np.isnan(scores))] = 1
    return reason


def _floats(column: Any) -> Array:
    """A column as float32 or float64, NaN where a value is missing."""
    array = column.to_numpy(zero_copy_only=False) if hasattr(column, "to_pylist") else column.to_numpy()
    if array.dtype == object or array.dtype.kind not in "fiub":
        array = np.array([np.nan if x is None else float(x) for x in array.tolist()])
    return array if array.dtype.kind == "f" and array.dtype.itemsize > 2 else array.astype(np.float64)


def _objects(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist() if hasattr(column, "to_pylist") else list(column.to_list())
    return [canonical(value) for value in values]


def _codes(column: Any, columns: Columns) -> Floats:
    if columns.classes is None:
        return _floats(column).astype(np.float64)
    codes: dict[Any, float] = {}  # numbers are found by value, 1.0 as 1; the rest by its text
    for k, name in enumerate(columns.classes):
        codes |= {name: float(k), str(name): float(k)}
    values = _objects(column)
    return np.array([np.nan if x is None else codes.get(x, codes.get(str(x), -1.0)) for x in values])


def _matrix(column: Any, k: int) -> Array:
    """Stack a list column; a row that is missing or of another length becomes NaN."""
    if hasattr(column, "to_pylist"):
        lengths, flat = _arrow_lists(column)
    elif hasattr(column, "explode") and hasattr(column, "arr"):
        lists = column.arr.to_list() if "Array" in str(column.dtype) else column
        lengths = lists.list.len().cast(int).fill_null(-1).to_numpy()
        flat = _floats(lists.filter(lists.list.len() > 0).explode())
    else:
        values = [
            None if value is None or isinstance(value, float) else np.asarray(value, dtype=np.float64).ravel()
            for value in column
        ]
        lengths = np.array([-1 if value is None else len(value) for value in values])
        flat = np.concatenate([np.zeros(0), *(value for value in values if value is not None)])
    if (lengths == k).all():
        return flat.reshape(len(lengths), k)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    out = np.full((len(lengths), k), np.nan, dtype=flat.dtype)
    fits = lengths == k
    out[fits] = flat[starts[fits][:, None] + np.arange(k)]
    return out


def _arrow_lists(column: Any) -> tuple[Ints, Array]:
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    size = getattr(column.type, "list_size", -1)
    if size >= 0:
        lengths = np.full(len(column), size)
    else:
        lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(valid, lengths, -1), _floats(column.flatten())


# -- summaries -------------------------------------------------------------------------------------


def summarize_lists(
    table: Any,
    columns: Columns,
    *,
    views: Iterable[View | str] | None,
    n_bins: Iterable[int],
    normalize: bool,
    n_classes: int,
) -> Slices:
    """Summarize a frame with a list column: batches through `Summary`, or `mapInArrow` on Spark."""
    model = Summary(n_classes, views=views, n_bins=n_bins)
    return reduce_rows(table, columns, n_classes, normalize, lambda rows: fold(rows, model, columns))


def first_length(table: Any, columns: Columns) -> int:
    """Return the number of classes from the first list that is there."""
    head = table.select(columns.scores[0]).head(1000)
    series = (head.collect() if hasattr(head, "collect") else head)[columns.scores[0]]
    lengths = [len(value) for value in series.to_list() if value is not None]
    if not lengths or lengths[0] < 2:
        raise FileError("The column of lists starts with no usable list", hint="give the number of classes")
    return lengths[0]


def fold(rows: Iterable[Batch], model: Summary, columns: Columns) -> Slices:
    """Put batches into summaries: the whole, and the slices on the coarse grid."""
    whole, parts = model.empty(), {}  # type: tuple[Summary, dict[tuple[Any, ...], Summary]]
    coarse = Summary(model.n_classes, views=model.views, n_bins=model.n_bins, coarse=True)
    for batch in rows:
        whole.add_rows(0, 0, {}, batch.rejected)
        for key, left in batch.rejected_by.items():
            parts.setdefault(key, coarse.empty()).add_rows(0, 0, {}, left)
        if not len(batch.codes):
            continue
        _update(whole, batch, columns, slice(None))
        if columns.by:
            places: dict[tuple[Any, ...], list[int]] = {}
            for row, key in enumerate(zip(*batch.by, strict=True)):
                places.setdefault(key, []).append(row)
            for key, chosen in places.items():
                _update(parts.setdefault(key, coarse.empty()), batch, columns, np.array(chosen))
    return Slices(whole, columns.by, parts)


def _update(summary: Summary, batch: Batch, columns: Columns, rows: Any) -> None:
    weights = None if batch.weights is None else batch.weights[rows]
    if weights is not None and not weights.any():
        summary.add_rows(len(weights), 0, {})
        return
    summary.update(
        batch.codes[rows],
        batch.scores[rows],
        sample_weight=weights,
        space=columns.space,
        normalize=False if columns.space == "logit" else _off_simplex(batch.scores),
    )


def _off_simplex(scores: Array) -> bool:
    """Rows that passed the check miss 1 beyond rounding only when they are to be rescaled."""
    tolerance = TOLERANCE[scores.dtype.name]
    return scores.ndim == 2 and bool((np.abs(scores.sum(axis=1, dtype=np.float64) - 1) > tolerance).any())


def reduce_rows(
    table: Any, columns: Columns, n_classes: int, normalize: bool, state: Callable[[Iterable[Batch]], Any]
) -> Any:
    """Fold all rows into one state that adds with ``+``: locally batch by batch, on Spark once per partition."""

    def checked(stream: Iterable[dict[str, Any]]) -> Any:
        return state(clean(raw, columns, n_classes, normalize) for raw in stream)

    return reduce_raw(table, columns.used, checked)


def reduce_raw(table: Any, names: Sequence[str], state: Callable[[Iterable[dict[str, Any]]], Any]) -> Any:
    """Fold raw batches of these columns, as `reduce_rows` folds checked ones."""
    if not table.implementation.is_pyspark():
        return state(raw_batches(table, names))
    native = table.select(*names).to_native()

    def packed(place: int, one: Any) -> Any:
        import pyarrow as pa

        return pa.RecordBatch.from_pydict({"place": pa.array([place], pa.int32()), "state": [pack_state(one)]})

    def partition(stream: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        rows = (dict(zip(names, b.columns, strict=True)) for b in stream)
        yield packed(TaskContext.get().partitionId(), state(rows))

    def join(stream: Iterator[Any]) -> Iterator[Any]:
        found = ((row["place"], unpack_state(row["state"])) for b in stream for row in b.to_pylist())
        first = next(found, None)
        if first is not None:
            yield packed(first[0], reduce(lambda total, one: total + one[1], found, first[1]))

    states, many = native.mapInArrow(partition, _STATE), native.rdd.getNumPartitions()
    for few in [_MANY_STATES // 4] * (many > _MANY_STATES) + [1] * (many > 1):
        # joined in order by one job; given to this process one by one, each would be a job that waits for the last
        states = states.repartition(few, "place").sortWithinPartitions("place").mapInArrow(join, _STATE)
    found = [unpack_state(bytes(row["state"])) for row in states.collect()]
    return reduce(add, found) if found else state([])


def pack_state(state: Any) -> bytes:
    """Return a state as bytes: an array, or the summaries of slices; plain data only."""
    if isinstance(state, np.ndarray):
        head = {"array": list(state.shape)}
        return json.dumps(head).encode() + b"\n" + state.astype("<f8").tobytes()
    return bytes(state.to_bytes())


def unpack_state(data: bytes) -> Any:
    """Read what `pack_state` wrote."""
    if not data.startswith(b"{"):
        return Slices.from_bytes(data)
    line, _, rest = data.partition(b"\n")
    return np.frombuffer(rest, dtype="<f8").reshape(json.loads(line)["array"]).copy()
