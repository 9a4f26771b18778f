"""Open files by path, pattern or directory with Polars (streaming), DuckDB or Spark, and summarise them."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.core.edges import COARSE, FINE
from calibrant.core.inputs import check_names
from calibrant.engines.files import FORMATS, PICKLES, Layout
from calibrant.engines.frames import summarize
from calibrant.engines.slices import Slices
from calibrant.engines.summary import Summary
from calibrant.errors import CalibrantError, FileError, input_error, require
from calibrant.views import View

if TYPE_CHECKING:
    from calibrant.engines.evaluating import FileEvaluation

__all__ = ["ENGINES", "evaluate_files", "evaluate_paths", "expand", "is_many", "open_paths", "summarize_any"]

#: Suffixes that are scanned in place.
_TABLES = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".ipc", ".ndjson")
#: Rows of a block when slices are asked for.
BLOCK_ROWS = 1 << 23
ENGINES = ("auto", "polars", "duckdb", "spark")


def expand(pattern: str | Path) -> tuple[list[str], str]:
    """Return the files a path, pattern or directory names, and their one format."""
    text = str(pattern)
    if Path(text).is_dir():
        found = sorted(str(p) for p in Path(text).rglob("*") if p.suffix.lower() in FORMATS and p.is_file())
    else:
        found = [text] if Path(text).exists() else sorted(glob.glob(text, recursive=True))  # noqa: PTH207 -- patterns may be absolute
    files = [name for name in found if not Path(name).name.startswith((".", "_"))]
    if not files:
        raise FileError(f"{text} matches no file. Hint: check the path, and quote the pattern.")
    suffixes = {Path(name).suffix.lower() for name in files}
    if suffixes & PICKLES:
        raise FileError(f"{text} looks like a pickle, which is never loaded. Hint: write Parquet or CSV.")
    kinds = {FORMATS.get(suffix, suffix) for suffix in suffixes}
    if len(kinds) > 1 or not kinds <= {"csv", "tsv", "parquet", "arrow", "jsonl"}:
        listed = ", ".join(sorted(suffixes))
        raise FileError(
            f"{text} must be tables of one kind (csv, tsv, parquet, arrow, jsonl); got {listed}. Hint: name one."
        )
    return files, kinds.pop()


def open_paths(pattern: str | Path, engine: str = "auto", *, master: str = "local[*]") -> Any:
    """Open files lazily: a Polars LazyFrame, a DuckDB relation or a Spark DataFrame.

    Parameters
    ----------
    pattern : str or Path
        A file, a pattern such as ``logs/*.parquet``, or a directory.
    engine : {"auto", "polars", "duckdb", "spark"}
        ``auto`` is Polars.
    master : str
        Spark master, ``local[*]`` unless told otherwise; a running session is used as it is.
    """
    check_names(engine, ENGINES, "engine", "open_paths")
    files, kind = expand(pattern)
    return {"duckdb": _duckdb, "spark": _spark}.get(engine, _polars)(files, kind, master)


def _polars(files: list[str], kind: str, master: str) -> Any:  # noqa: ARG001 -- one signature for all engines
    import polars as pl

    scans: dict[str, Any] = {
        "parquet": lambda: pl.scan_parquet(files),
        "arrow": lambda: pl.scan_ipc(files),
        "csv": lambda: pl.scan_csv(files, infer_schema_length=10_000),
        "tsv": lambda: pl.scan_csv(files, separator="\t", infer_schema_length=10_000),
        "jsonl": lambda: pl.scan_ndjson(files, infer_schema_length=10_000),
    }
    return scans[kind]()


def _blocks(files: list[str], kind: str) -> list[Any]:
    """Cut files into blocks of bounded size: a group-by with many slices keeps rows waiting in memory otherwise."""
    import polars as pl

    blocks: list[Any] = []
    waiting: list[str] = []
    held = 0
    for name in files:
        if kind == "parquet":
            rows = int(pl.scan_parquet(name).select(pl.len()).collect().item())
        else:  # about a hundred bytes a row
            rows = Path(name).stat().st_size // 100
        if kind == "parquet" and rows > 2 * BLOCK_ROWS:
            scan = pl.scan_parquet(name)
            blocks += [scan.slice(start, BLOCK_ROWS) for start in range(0, rows, BLOCK_ROWS)]
            continue
        if waiting and held + rows > BLOCK_ROWS:
            blocks.append(_polars(waiting, kind, ""))
            waiting, held = [], 0
        waiting.append(name)
        held += rows
    return [*blocks, _polars(waiting, kind, "")] if waiting else blocks


def _duckdb(files: list[str], kind: str, master: str) -> Any:  # noqa: ARG001 -- one signature for all engines
    connection = require("duckdb", "engines", "--engine duckdb").connect()
    if kind == "arrow":
        dataset = require("pyarrow.dataset", "engines", "Arrow files on DuckDB")
        return connection.from_arrow(dataset.dataset(files, format="ipc"))
    if kind == "parquet":
        return connection.read_parquet(files)
    if kind == "jsonl":
        return connection.read_json(files, format="newline_delimited")
    return connection.read_csv(files, delimiter="\t" if kind == "tsv" else ",")


def _session(master: str) -> Any:
    """Return the running Spark session as it is, or start one with settings for its master."""
    sql = require("pyspark.sql", "spark", "--engine spark")
    running = sql.SparkSession.getActiveSession()
    if running is not None:
        return running
    builder = sql.SparkSession.builder
    if require("pyspark", "spark", "--engine spark").SparkContext._active_spark_context is not None:
        return builder.getOrCreate()  # another thread's session; options would change it
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    # rows of many columns make methods so long that Java leaves them uncompiled unless told, or unless they are split
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run the same Python as this process
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "localhost",
            "spark.driver.extraJavaOptions": "-XX:-DontCompileHugeMethods",
            "spark.sql.shuffle.partitions": str(_threads(master)),  # the default, 200, is for clusters
        }
    else:
        settings["spark.sql.codegen.hugeMethodLimit"] = "8000"
    return builder.master(master).appName("calibrant").config(map=settings).getOrCreate()


def _threads(master: str) -> int:
    """Return the number of threads of a local master: ``local``, ``local[4]``, ``local[*]``, ``local[2,4]``."""
    inside = master.removeprefix("local").strip("[]").split(",")[0]
    return (os.cpu_count() or 1) if inside == "*" else int(inside or 1)


def _spark(files: list[str], kind: str, master: str) -> Any:
    session = _session(master)
    paths = [str(Path(name).resolve()) for name in files]
    if kind == "parquet":
        return session.read.parquet(*paths)
    if kind == "jsonl":
        return session.read.json(paths)
    if kind == "arrow":
        raise FileError("Spark does not read Arrow files. Hint: use --engine polars, or write Parquet.")
    return session.read.csv(paths, header=True, inferSchema=True, sep="\t" if kind == "tsv" else ",")


def evaluate_paths(
    pattern: str | Path,
    engine: str = "auto",
    *,
    layout: Layout | None = None,
    by: Sequence[str] = (),
    views: Iterable[View | str] | None = None,
    n_bins: Iterable[int] = (),
    strict: bool = False,
    normalize: bool = False,
    master: str = "local[*]",
) -> Slices:
    """Summarise files larger than memory, whole and by slices.

    Parameters
    ----------
    pattern, engine, master
        As in `open_paths`.
    layout, by, views, n_bins, strict, normalize
        As in `calibrant.engines.frames.summarize`.

    Returns
    -------
    Slices
        ``.whole`` and ``.parts``: summaries; ``.rejected``: rows left out; ``.evaluate()``: the table.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"score": [0.9, 0.2, 0.6], "label": [1, 0, 0]}).write_parquet(f"{folder}/day.parquet")
    ...     found = evaluate_paths(f"{folder}/*.parquet")
    >>> found.whole.n
    3
    """
    frame = open_paths(pattern, engine, master=master)
    with plain_errors(pattern, engine):
        if by and engine in ("auto", "polars"):
            frame = _blocks(*expand(pattern))
        return summarize(frame, layout, by=by, views=views, n_bins=n_bins, strict=strict, normalize=normalize)


@contextmanager
def plain_errors(pattern: str | Path, engine: str) -> Iterator[None]:
    """Turn any engine's complaint into one clear line: every engine has its own family."""
    try:
        yield
    except (CalibrantError, MemoryError):
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise FileError(
            f"{pattern} cannot be read with {engine}: {text[:300]}. Hint: check that every file is complete "
            "and has the same columns."
        ) from error


def is_many(path: str) -> bool:
    """Whether a path names more than one file: a pattern or a directory."""
    return not Path(path).is_file() and (glob.has_magic(path) or Path(path).is_dir())


def evaluate_files(
    pattern: str,
    layout: Layout | None = None,
    *,
    engine: str = "auto",
    master: str = "local[*]",
    strict: bool = False,
    measures: list[str] | None = None,
    n_bins: int = 15,
    by: str | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
    normalize: bool = False,
    groups: str | None = None,
) -> FileEvaluation:
    """Evaluate many or large files on an engine: the library call behind ``calibrant evaluate --engine``."""
    if groups is not None:
        raise input_error(
            "groups",
            "evaluate",
            "be left out on an engine: cells have no clusters",
            repr(groups),
            "evaluate one file without --engine",
        )
    names = [name.strip() for name in by.split(",")] if by else []
    told = [n_bins] if COARSE % n_bins or FINE % n_bins else []
    found = evaluate_paths(
        pattern, engine, layout=layout, by=names, n_bins=told, strict=strict, normalize=normalize, master=master
    )
    return found.evaluate(measures=measures, n_bins=n_bins, level=level, n_resamples=n_resamples, rng=seed)


def summarize_any(
    path: str,
    layout: Layout | None = None,
    *,
    engine: str | None = None,
    master: str = "local[*]",
    strict: bool = False,
    normalize: bool = False,
    input_format: str | None = None,
) -> Summary:
    """Summarise any file: tables on an engine, arrays and standard input at once."""
    if engine or is_many(path) or (Path(path).suffix.lower() in _TABLES and input_format is None):
        options: dict[str, Any] = {"layout": layout, "strict": strict, "normalize": normalize, "master": master}
        return evaluate_paths(path, engine or "auto", **options).whole
    from calibrant.engines.evaluating import to_forecast
    from calibrant.engines.files import read_predictions

    forecast = to_forecast(
        read_predictions(path, layout, input_format=input_format), caller="monitor", normalize=normalize
    )
    pairs = not forecast.has_vectors
    return Summary(None if pairs else forecast.n_classes, pairs=pairs, classes=forecast.classes).add(forecast)
