"""Apply a calibrator to frames and files of any size: as an expression where its map is simple, else batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant._typing import Array, Floats
from calibrant.calibrators._program import Graph, Program, Step
from calibrant.core.links import softmax
from calibrant.engines.batches import _floats, _matrix, first_length
from calibrant.engines.columns import Columns, find_columns
from calibrant.engines.files import FORMATS, Layout
from calibrant.errors import CalibrantError, FileError, input_error

__all__ = ["apply_frame", "apply_paths", "is_simple"]

Block = list[Any]


def _pairwise(function: Callable[[Any, Any], Any]) -> Callable[..., Block]:
    def run(_: Step, x: Block, y: Block) -> Block:
        size = max(len(x), len(y))
        return [function(x[i % len(x)], y[i % len(y)]) for i in range(size)]

    return run


def _each(function: Callable[[Any], Any]) -> Callable[..., Block]:
    return lambda _, x: [function(value) for value in x]


def _expr(value: Any) -> nw.Expr:
    return value if isinstance(value, nw.Expr) else nw.lit(float(value))


def _where(_: Step, test: Block, x: Block, y: Block) -> Block:
    size = max(len(test), len(x), len(y))
    return [nw.when(_expr(test[i % len(test)])).then(x[i % len(x)]).otherwise(y[i % len(y)]) for i in range(size)]


def _softmax(_: Step, x: Block) -> Block:
    peak = nw.max_horizontal(*map(_expr, x))
    mass = nw.sum_horizontal(*((_expr(value) - peak).exp() for value in x))
    return [(_expr(value) - peak).exp() / mass for value in x]


def _log_softmax(_: Step, x: Block) -> Block:
    peak = nw.max_horizontal(*map(_expr, x))
    mass = nw.sum_horizontal(*((_expr(value) - peak).exp() for value in x)).log()
    return [_expr(value) - peak - mass for value in x]


def _sigmoid(value: Any) -> nw.Expr:
    small = (_expr(value).abs() * -1.0).exp()
    return nw.when(_expr(value) >= 0.0).then(1.0 / (1.0 + small)).otherwise(small / (1.0 + small))


def _matmul(step: Step, x: Block) -> Block:
    matrix = step.arrays[0]
    return [
        nw.sum_horizontal(*(_expr(value) * float(matrix[i, j]) for i, value in enumerate(x)))
        for j in range(matrix.shape[1])
    ]


#: Steps that every engine can take as an expression; maps that sort or search rows are not among them.
EXPRESSIONS: dict[str, Callable[..., Block]] = {
    "constant": lambda step: [float(value) for value in np.atleast_1d(step.arrays[0]).ravel()],
    "add": _pairwise(lambda x, y: _expr(x) + _expr(y)),
    "sub": _pairwise(lambda x, y: _expr(x) - _expr(y)),
    "mul": _pairwise(lambda x, y: _expr(x) * _expr(y)),
    "div": _pairwise(lambda x, y: _expr(x) / _expr(y)),
    "greater": _pairwise(lambda x, y: _expr(x) > _expr(y)),
    "not_less": _pairwise(lambda x, y: _expr(x) >= _expr(y)),
    "maximum": _pairwise(lambda x, y: nw.max_horizontal(_expr(x), _expr(y))),
    "minimum": _pairwise(lambda x, y: nw.min_horizontal(_expr(x), _expr(y))),
    "exp": _each(lambda x: _expr(x).exp()),
    "log": _each(lambda x: _expr(x).log()),
    "sigmoid": _each(_sigmoid),
    "where": _where,
    "sum": lambda _, x: [nw.sum_horizontal(*map(_expr, x))],
    "max": lambda _, x: [nw.max_horizontal(*map(_expr, x))],
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "matmul": _matmul,
    "columns": lambda step, x: x[step.options["start"] : step.options["stop"]],
    "concat": lambda _, *parts: [value for part in parts for value in part],
}


def is_simple(calibrator: Any) -> bool:
    """Whether the fitted map can run as an expression inside an engine."""
    return bool(calibrator.can_export) and all(
        step.op in EXPRESSIONS or step.op == "input" for step in calibrator.program().steps
    )


def _run(program: Program, frame: Any, inputs: list[nw.Expr]) -> tuple[Any, Block]:
    """Write the steps as new columns of a lazy or eager frame, one layer each, so that no expression is repeated."""
    values: list[Block] = []
    for number, step in enumerate(program.steps):
        if step.op == "input":
            values.append(inputs)
            continue
        block = EXPRESSIONS[step.op](step, *(values[i] for i in step.inputs))
        if any(isinstance(value, nw.Expr) for value in block) and step.op not in ("columns", "concat"):
            names = [f"__step{number}_{i}" for i in range(len(block))]
            frame = frame.with_columns(*(_expr(value).alias(name) for value, name in zip(block, names, strict=True)))
            block = [nw.col(name) for name in names]
        values.append(block)
    return frame, values[-1]


def _input_program(calibrator: Any, space: str) -> Program:
    """Return the map from the frame's scores: logits go through softmax before a calibrator of probabilities."""
    graph = Graph()
    x = graph.x
    if space == "logit" and calibrator.input_space == "proba":
        x = graph.softmax(x)
    return graph.program(calibrator.describe(graph, x))


def _check(calibrator: Any, columns: Columns, k: int) -> None:
    calibrator._check_fitted("apply")
    if columns.kind == "pairs":
        raise input_error("frame", "apply", "hold probabilities or logits", "top-label pairs", "keep the vectors")
    if columns.space == "proba" and calibrator.input_space == "logit":
        raise input_error(
            "frame",
            "apply",
            "hold logits, which this calibrator was fitted on",
            "probabilities",
            "store logit_* columns",
        )
    if k != calibrator.n_classes_:
        raise input_error(
            "frame", "apply", f"have {calibrator.n_classes_} classes", str(k), "use the same model's file"
        )


def _outputs(columns: Columns, names: list[str]) -> list[str]:
    """Names of the calibrated columns: the given ones, ``p_*`` for ``logit_*``."""
    if columns.space == "proba":
        return names
    return [
        ("p_" + n.removeprefix("logit_")) if n.startswith("logit_") else "probs" if n == "logits" else n for n in names
    ]


def apply_frame(calibrator: Any, frame: Any, layout: Layout | None = None, *, normalize: bool = False) -> Any:
    """Return the frame with calibrated probabilities in place of its scores; every other column passes through.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted. Maps of plain arithmetic (temperature, vector, matrix, Dirichlet, ensemble temperature) become
        an expression of the engine; others run batch by batch on Polars, Spark (``mapInArrow``), pandas and
        PyArrow.
    frame
        Any frame or relation Narwhals knows; lazy ones stay lazy.
    layout : Layout, optional
        Names of the columns; the truth is not needed.
    normalize : bool, default False
        Rescale rows of probabilities to sum 1 first.

    Examples
    --------
    >>> import polars as pl
    >>> from calibrant.calibrators import TemperatureScaling
    >>> repair = TemperatureScaling().fit([[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 2, [0, 0, 1, 1, 1])
    >>> frame = pl.LazyFrame({"id": [7], "p_0": [0.9], "p_1": [0.1]})
    >>> [round(value, 3) for value in apply_frame(repair, frame).collect().row(0)]
    [7, 0.8, 0.2]
    """
    table = nw.from_native(frame)
    names = list(table.collect_schema())
    columns = _find(table, layout or Layout())
    k = first_length(table, columns) if columns.kind == "list" else max(len(columns.scores), 2)
    _check(calibrator, columns, k)
    if columns.kind == "list" or not is_simple(calibrator):
        return _apply_batches(calibrator, table, columns, k, names, normalize)
    raw = [nw.col(name).cast(nw.Float64) for name in columns.scores]
    if normalize and columns.kind == "wide" and columns.space == "proba":
        total = nw.sum_horizontal(*raw)
        raw = [value / total for value in raw]
    if columns.kind == "binary":
        raw = [1.0 - raw[0] if columns.space == "proba" else raw[0] * 0.0, raw[0]]
    work = table.with_columns(*(value.alias(f"__x{i}") for i, value in enumerate(raw)))
    work, answer = _run(_input_program(calibrator, columns.space), work, [nw.col(f"__x{i}") for i in range(k)])
    chosen = answer[1:] if columns.kind == "binary" else answer
    renamed = dict(zip(columns.scores, _outputs(columns, list(columns.scores)), strict=True))
    new = dict(zip(columns.scores, chosen, strict=True))
    return work.select(*((_expr(new[n]).alias(renamed[n]) if n in new else nw.col(n)) for n in names)).to_native()


def _find(table: Any, layout: Layout) -> Columns:
    schema = dict(table.collect_schema())
    label = layout.label or "label"
    if label not in schema:  # the truth is not needed here: any column may stand in
        label = next(iter(schema))
    from dataclasses import replace

    return find_columns(schema, replace(layout, label=label, weight=None))


def _calibrate(calibrator: Any, scores: Array, space: str, normalize: bool) -> Floats:
    if normalize and space == "proba" and scores.ndim == 2:
        scores = scores / scores.sum(axis=1, keepdims=True, dtype=np.float64)
    if space == "logit" and calibrator.input_space == "proba":
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        scores = softmax(scores)
    return np.asarray(calibrator.predict_proba(scores)) if len(scores) else np.zeros((0, calibrator.n_classes_))


def _apply_batches(
    calibrator: Any, table: Any, columns: Columns, k: int, names: list[str], normalize: bool
) -> Any:
    outputs = dict(zip(columns.scores, _outputs(columns, list(columns.scores)), strict=True))

    def scores_of(raw: dict[str, Any]) -> Array:
        if columns.kind == "list":
            return _matrix(raw[columns.scores[0]], k)
        arrays = [_floats(raw[name]) for name in columns.scores]
        return np.stack(arrays, axis=1) if len(arrays) > 1 else arrays[0]

    def new_columns(raw: dict[str, Any]) -> dict[str, Any]:
        q = _calibrate(calibrator, scores_of(raw), columns.space, normalize)
        if columns.kind == "list":
            return {columns.scores[0]: q}
        if columns.kind == "binary":
            return {columns.scores[0]: q[:, 1]}
        return {name: q[:, i] for i, name in enumerate(columns.scores)}

    if table.implementation.is_polars():
        return _polars_batches(table.to_native(), names, outputs, columns, new_columns)
    if table.implementation.is_pyspark():
        return _spark_batches(table.to_native(), names, outputs, new_columns)
    eager = table.collect() if hasattr(table, "collect") else table
    raw = {name: _chunkless(eager[name].to_native()) for name in columns.scores}
    made = new_columns(raw)
    series = {
        outputs[name]: nw.new_series(
            outputs[name], value.tolist() if value.ndim == 2 else value, backend=eager.implementation
        )
        for name, value in made.items()
    }
    return eager.select(*(series[outputs[n]] if n in made else nw.col(n) for n in names)).to_native()


def _chunkless(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _polars_batches(native: Any, names: list[str], outputs: dict[str, str], columns: Columns, make: Any) -> Any:
    import polars as pl

    lazy = isinstance(native, pl.LazyFrame)
    kind = pl.List(pl.Float64) if columns.kind == "list" else pl.Float64
    schema = {outputs.get(n, n): kind if n in outputs else t for n, t in native.lazy().collect_schema().items()}

    def run(frame: Any) -> Any:
        made = make({name: frame[name] for name in columns.scores})
        new = {
            n: pl.Series(outputs[n], value.tolist() if value.ndim == 2 else value, dtype=kind)
            for n, value in made.items()
        }
        return frame.select(*(new[n] if n in new else pl.col(n) for n in names))

    done = native.lazy().map_batches(run, schema=schema, streamable=True)
    return done if lazy else done.collect()


def _spark_batches(native: Any, names: list[str], outputs: dict[str, str], make: Any) -> Any:
    types = {field.name: field.dataType.simpleString() for field in native.schema.fields}
    listed = any(types[n].startswith("array") for n in outputs)
    new_type = "array<double>" if listed else "double"
    schema = ", ".join(f"`{outputs.get(n, n)}` {new_type if n in outputs else types[n]}" for n in names)

    def run(stream: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in stream:
            raw = dict(zip(batch.schema.names, batch.columns, strict=True))
            made = make(raw)
            arrays = [pa.array(list(made[n]) if made[n].ndim == 2 else made[n]) if n in made else raw[n] for n in names]
            yield pa.RecordBatch.from_arrays(arrays, [outputs.get(n, n) for n in names])

    return native.mapInArrow(run, schema)


def apply_paths(
    calibrator: Any,
    pattern: str | Path,
    out: str | Path,
    *,
    engine: str = "auto",
    layout: Layout | None = None,
    normalize: bool = False,
    master: str = "local[*]",
) -> None:
    """Stream files through a calibrator into one file (or, on Spark, a directory of Parquet): all or nothing.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.
    pattern, engine, master
        As in `calibrant.engines.paths.open_paths`.
    out : str or Path
        ``.parquet``, ``.csv``, ``.tsv``, ``.jsonl`` or ``.arrow`` on Polars; the first three on DuckDB.
    layout, normalize
        As in `apply_frame`.
    """
    from calibrant.engines.paths import open_paths

    out = Path(out)
    frame = open_paths(pattern, engine, master=master)
    aside = out.with_name(f".{out.name}.{os.getpid()}.aside")
    try:
        done = apply_frame(calibrator, frame, layout, normalize=normalize)
        if engine == "spark":
            done.write.mode("errorifexists").parquet(str(out.resolve()))
            return
        _write(done, aside, out.suffix.lower())
        aside.replace(out)
    except (CalibrantError, MemoryError):
        raise
    except Exception as error:  # every engine has its own family; the user needs one line
        text = " ".join(str(error).split())
        raise FileError(
            f"{pattern} cannot be calibrated: {text[:300]}. Hint: check the file and the columns."
        ) from error
    finally:
        aside.unlink(missing_ok=True)


def _write(frame: Any, path: Path, suffix: str) -> None:
    if hasattr(frame, "sink_parquet"):
        sinks: dict[str, Callable[[], Any]] = {
            "parquet": lambda: frame.sink_parquet(path),
            "csv": lambda: frame.sink_csv(path),
            "tsv": lambda: frame.sink_csv(path, separator="\t"),
            "jsonl": lambda: frame.sink_ndjson(path),
            "arrow": lambda: frame.sink_ipc(path),
        }
    elif not hasattr(frame, "write_parquet"):  # DuckDB gave batches: an Arrow table
        import polars as pl

        _write(pl.from_arrow(frame).lazy(), path, suffix)  # type: ignore[union-attr]
        return
    else:
        sinks = {
            "parquet": lambda: frame.write_parquet(str(path)),
            "csv": lambda: frame.write_csv(str(path)),
            "tsv": lambda: frame.write_csv(str(path), sep="\t"),
        }
    kind = FORMATS.get(suffix, suffix)
    if kind not in sinks:
        raise FileError(f"No table is written here with suffix {suffix!r}. Hint: use one of {', '.join(sinks)}.")
    sinks[kind]()
