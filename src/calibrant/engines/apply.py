"""Apply a calibrator to frames of any size: as an expression where its map is simple, else batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Floats
from calibrant.calibrators.application import calibrate, check_applicable, input_program
from calibrant.core.arguments import check_options
from calibrant.engines.batches import BATCH_ROWS, _floats, first_length, raw_scores, score_reasons
from calibrant.engines.expressions import EXPRESSIONS, expr, write_program
from calibrant.engines.private import private
from calibrant.engines.spark import without_origins
from calibrant.engines.unusable import find_scores, is_loose, look_through, moment_reasons, unusable
from calibrant.io.layout import Columns, Layout
from calibrant.io.predictions import refuse_normalize
from calibrant.io.writers import new_names

__all__ = ["apply_frame", "find_scores", "is_simple", "look_through"]

#: Whether a row can be mapped.
_GOOD = "__good"


def is_simple(calibrator: Any) -> bool:
    """Whether the fitted map can run as an expression inside an engine."""
    return bool(calibrator.can_export) and all(
        step.op in EXPRESSIONS or step.op == "input" for step in calibrator.program().steps
    )


@without_origins()
def apply_frame(
    calibrator: Any, frame: Any, layout: Layout | None = None, *, normalize: bool = False, once: bool = False
) -> Any:
    """Return the frame with calibrated probabilities in place of its scores; every other column passes through.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted. Maps of plain arithmetic (temperature, vector, matrix, Dirichlet, ensemble temperature) become
        an expression of the engine; others, and maps of means and variances, run batch by batch on Polars, Spark
        (``mapInArrow``), pandas and PyArrow.
    frame
        Any frame or relation Narwhals knows; lazy ones stay lazy.
    layout : Layout, optional
        Names of the columns; the truth is not needed.
    normalize : bool, default False
        Rescale rows of probabilities to sum 1 first.
    once : bool, default False
        The result is read once: maps that need batches stream on DuckDB too, as an Arrow reader.

    Notes
    -----
    A row whose scores cannot be used (a value is missing or out of range) gives NULL, whatever the map and the
    engine; `look_through` counts such rows by reason.

    Examples
    --------
    >>> import polars as pl
    >>> from calibrant.calibrators import TemperatureScaling
    >>> repair = TemperatureScaling().fit([[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 2, [0, 0, 1, 1, 1])
    >>> frame = pl.LazyFrame({"id": [7], "p_0": [0.9], "p_1": [0.1]})
    >>> [round(value, 3) for value in apply_frame(repair, frame).collect().row(0)]
    [7, 0.8, 0.2]
    """
    check_options(apply_frame, locals())
    hidden = private(frame)
    found = find_scores(calibrator, frame, layout or Layout())
    table, names, columns = hidden.table, list(hidden.names.values()), hidden.columns(found)
    if columns.kind == "regression":
        same = {n: n for n in columns.used}
        made = _apply_batches(
            table, columns, names, _moments_of(calibrator, columns), same, once and list(hidden.schema)
        )
        return made if hasattr(made, "read_next_batch") else hidden.restore(made, {})
    k = first_length(table, columns) if columns.kind == "list" else max(len(columns.scores), 2)
    if columns.space == "logit":
        refuse_normalize(normalize, "apply", "logits")
    check_applicable(calibrator, columns.space, k)
    renamed = new_names(found.scores, list(hidden.schema), "the frame")
    if columns.kind == "list" or not is_simple(calibrator):
        same = {n: n for n in columns.scores}
        final = once and [renamed.get(name, name) for name in hidden.schema]
        made = _apply_batches(table, columns, names, _scores_of(calibrator, columns, k, normalize), same, final)
        return made if hasattr(made, "read_next_batch") else hidden.restore(made, renamed)
    missing, outside = unusable(table, columns, normalize)
    raw = [nw.col(name).cast(nw.Float64) for name in columns.scores]
    schema = table.collect_schema()
    single = all(schema[name] == nw.Float32 for name in columns.scores)
    if (normalize and columns.kind == "wide" and columns.space == "proba") or is_loose(columns, single):
        total = nw.sum_horizontal(*raw)
        total = nw.when(total > 0.0).then(total)  # Spark does not divide by 0
        raw = [value / total for value in raw]
    if columns.space == "proba":
        raw = [value.clip(0.0, 1.0) for value in raw]
    if columns.kind == "binary":
        raw = [1.0 - raw[0] if columns.space == "proba" else raw[0] * 0.0, raw[0]]
    work = table.with_columns(
        (~missing & ~outside).alias(_GOOD), *(value.alias(f"__x{i}") for i, value in enumerate(raw))
    )
    work, answer = write_program(
        input_program(calibrator, columns.space), work, {"input": [nw.col(f"__x{i}") for i in range(k)]}
    )
    chosen = answer[1:] if columns.kind == "binary" else answer
    new = {name: nw.when(nw.col(_GOOD)).then(expr(value)) for name, value in zip(columns.scores, chosen, strict=True)}
    done = work.select(*((new[n].alias(n) if n in new else nw.col(n)) for n in names)).to_native()
    return hidden.restore(done, renamed)


#: From raw columns to the new values of those that change.
Make = Callable[[dict[str, Any]], dict[str, Any]]


def _scores_of(calibrator: Any, columns: Columns, k: int, normalize: bool) -> Make:
    def make(raw: dict[str, Any]) -> dict[str, Any]:
        x = raw_scores(raw, columns, k)
        good = score_reasons(x, columns, normalize) == 0
        q = np.full((len(x), k), np.nan)
        if good.any():
            loose = normalize or is_loose(columns, x.dtype == np.float32)
            q[good] = calibrate(calibrator, x[good], columns.space, normalize=loose)
        if columns.kind == "list":
            return {columns.scores[0]: q}
        if columns.kind == "binary":
            return {columns.scores[0]: q[:, 1]}
        return {name: q[:, i] for i, name in enumerate(columns.scores)}

    return make


def _moments_of(calibrator: Any, columns: Columns) -> Make:
    mean, spread = columns.scores[0], str(columns.variance)

    def make(raw: dict[str, Any]) -> dict[str, Any]:
        center, given = _floats(raw[mean]).astype(np.float64), _floats(raw[spread]).astype(np.float64)
        good = moment_reasons(center, given) == 0
        out = {mean: np.full(len(center), np.nan), spread: np.full(len(center), np.nan)}
        if good.any():
            variance = np.square(given[good]) if columns.std else given[good]
            out[mean][good], moved = calibrator.predict(center[good], variance)
            out[spread][good] = np.sqrt(moved) if columns.std else moved
        return out

    return make


def _lists(values: Floats) -> list[Any]:
    """Return rows as lists, None where a row could not be mapped."""
    return [None if bad else row for row, bad in zip(values.tolist(), np.isnan(values[:, 0]).tolist(), strict=True)]


def _apply_batches(
    table: Any, columns: Columns, names: list[str], make: Make, outputs: dict[str, str], final: Any
) -> Any:
    if table.implementation.is_polars():
        return _polars_batches(table.to_native(), names, outputs, columns, make)
    if table.implementation.is_pyspark():
        return _spark_batches(table.to_native(), names, outputs, make)
    if final and table.implementation.is_duckdb():
        return _arrow_batches(table.to_native(), names, final, columns, make)
    eager = table.collect() if hasattr(table, "collect") else table
    natives = {name: eager[name].to_native() for name in outputs}
    made = make({name: c.combine_chunks() if hasattr(c, "combine_chunks") else c for name, c in natives.items()})
    series = {outputs[name]: _series(outputs[name], value, eager.implementation) for name, value in made.items()}
    return eager.select(*(series[outputs[n]] if n in made else nw.col(n) for n in names)).to_native()


def _series(name: str, value: Floats, backend: Any) -> Any:
    plain = (
        _lists(value)
        if value.ndim == 2
        else [None if bad else x for x, bad in zip(value.tolist(), np.isnan(value).tolist(), strict=True)]
    )
    if value.ndim == 1 and not np.isnan(value).any():
        return nw.new_series(name, value, backend=backend)
    return nw.new_series(name, plain, None if value.ndim == 2 else nw.Float64, backend=backend)


def _polars_batches(native: Any, names: list[str], outputs: dict[str, str], columns: Columns, make: Make) -> Any:
    import polars as pl

    lazy = isinstance(native, pl.LazyFrame)
    kind = pl.List(pl.Float64) if columns.kind == "list" else pl.Float64
    schema = {outputs.get(n, n): kind if n in outputs else t for n, t in native.lazy().collect_schema().items()}

    def run(frame: Any) -> Any:
        made = make({name: frame[name] for name in outputs})
        new = {
            n: pl.Series(
                outputs[n], _lists(value) if value.ndim == 2 else value, dtype=kind, nan_to_null=value.ndim == 1
            )
            for n, value in made.items()
        }
        return frame.select(*(new[n] if n in new else pl.col(n) for n in names))

    done = native.lazy().map_batches(run, schema=schema, streamable=True)
    return done if lazy else done.collect()


def _arrow(pa: Any, values: Floats) -> Any:
    if values.ndim == 2:
        return pa.array(_lists(values), pa.list_(pa.float64()))
    return pa.array(values, pa.float64(), from_pandas=True)  # NaN is NULL


def _arrow_batches(native: Any, names: list[str], final: list[str], columns: Columns, make: Make) -> Any:
    """Return an Arrow reader that maps the batches of a relation as they are read: for one pass, in flat memory."""
    import pyarrow as pa

    source = native.to_arrow_reader(BATCH_ROWS)
    kind = pa.list_(pa.float64()) if columns.kind == "list" else pa.float64()
    changed = {*columns.scores, columns.variance}
    types = [kind if n in changed else source.schema.field(n).type for n in names]
    schema = pa.schema(list(zip(final, types, strict=True)))

    def stream() -> Iterator[Any]:
        for batch in source:
            raw = dict(zip(batch.schema.names, batch.columns, strict=True))
            made = make(raw)
            yield pa.RecordBatch.from_arrays(
                [_arrow(pa, made[n]) if n in made else raw[n] for n in names], schema=schema
            )

    return pa.RecordBatchReader.from_batches(schema, stream())


def _spark_batches(native: Any, names: list[str], outputs: dict[str, str], make: Make) -> Any:
    types = {field.name: field.dataType.simpleString() for field in native.schema.fields}
    listed = any(types[n].startswith("array") for n in outputs)
    new_type = "array<double>" if listed else "double"
    schema = ", ".join(f"`{outputs.get(n, n)}` {new_type if n in outputs else types[n]}" for n in names)

    def run(stream: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in stream:
            raw = dict(zip(batch.schema.names, batch.columns, strict=True))
            made = make(raw)
            arrays = [_arrow(pa, made[n]) if n in made else raw[n] for n in names]
            yield pa.RecordBatch.from_arrays(arrays, [outputs.get(n, n) for n in names])

    return native.mapInArrow(run, schema)
