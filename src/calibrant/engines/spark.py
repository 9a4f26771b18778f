"""Spark: how files are opened as a DataFrame and how a DataFrame is written as a directory."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibrant.engines.partitions import base_of
from calibrant.errors import FileError, require

__all__ = ["connect", "open_files", "short_methods", "without_origins", "write"]

_PURPOSE = "the engine spark"
#: Characters that make a pattern of a name.
_PATTERN = re.compile(r"([\\*?\[\]{}])")
#: No row is lost in silence, and a hidden ``.x.crc`` of another time beside a file is no data: this reading alone takes
#: the local file system without checksums, as every other engine does.
_READ = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
_READ |= {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
#: Spark makes a directory of its own, all or nothing; no file is renamed after it.
WRITES_ALONE = True


@contextmanager
def without_origins() -> Iterator[None]:
    """Build queries without the lines of code that PySpark notes for errors, by asking Java; no setting changes."""
    known: Any = sys.modules.get("pyspark.errors.utils")
    if known is not None:
        known._enable_debugging_cache = False
    try:
        yield
    finally:
        if known is not None:
            known._enable_debugging_cache = None  # it asks the session again


#: Bytes of a generated method above which Spark takes shorter ones, and from which on Java leaves it uncompiled.
_LIMIT, _HUGE = "spark.sql.codegen.hugeMethodLimit", "8000"
#: Lets Java compile them all the same, which is faster still; only a session that we start can have it.
_COMPILE = "-XX:-DontCompileHugeMethods"


@contextmanager
def short_methods(frame: Any) -> Iterator[None]:
    """Let a query on a user's own session be compiled: all scores of a row make a method that Java would interpret.

    The session has its own setting again afterwards; a limit that the user set, or our Java option, stays as it is.
    """
    settings = getattr(getattr(frame, "sparkSession", None), "conf", None)
    if settings is None or settings.get(_LIMIT, None) or _COMPILE in settings.get("spark.driver.extraJavaOptions", ""):
        yield
        return
    settings.set(_LIMIT, _HUGE)
    try:
        yield
    finally:
        settings.unset(_LIMIT)


def open_files(
    files: list[str],
    kind: str,
    master: str = "local[*]",
    *,
    types: Mapping[str, Any] | None = None,
    partitions: Mapping[str, Any] | None = None,
    session: Any = None,
    path_column: str | None = None,
) -> Any:
    """Return a DataFrame over files of one schema, with the columns that their directories name."""
    if kind == "arrow":
        raise FileError("Spark does not read Arrow files", hint="use {engine=polars}, or write Parquet")
    half = [name for name, dtype in (types or {}).items() if "Float16" in str(dtype)]
    if half:
        raise FileError(
            f"Spark does not read numbers of 16 bits ({half[0]} in {files[0]})", hint="use {engine=polars} or duckdb"
        )
    session = session or connect(master)
    hidden = next((name for name in files if Path(name).name.startswith((".", "_"))), None)
    if hidden is not None:
        raise FileError(f"Spark skips files whose name begins with . or _ ({hidden})", hint="use {engine=polars}")
    paths = [_PATTERN.sub(r"\\\1", str(Path(name).resolve())) for name in files]
    reader = session.read.options(**_READ)
    if kind == "parquet" and partitions:
        # keys are typed by us, the same on every engine: Spark would take 01 for a number
        known = require("pyspark.sql.types", "spark", _PURPOSE)
        own = [field for field in reader.parquet(paths[0]).schema if field.name not in partitions]
        kinds = {"Int64": known.LongType(), "Date": known.DateType()}
        keys = [known.StructField(n, kinds.get(str(dtype), known.StringType())) for n, dtype in partitions.items()]
        reader = reader.schema(known.StructType([*own, *keys]))
    elif kind != "parquet" and types is not None:
        every = {**types, **(partitions or {})}
        reader = reader.schema(", ".join(f"{_quoted(name)} {sql_type(dtype)}" for name, dtype in every.items()))
    if partitions:
        reader = reader.option("basePath", base_of(Path(files[0]).resolve()))
    if kind == "parquet":
        frame = reader.parquet(*paths)
    elif kind == "jsonl":
        frame = reader.json(paths)
    else:
        infer = {} if types is not None else {"inferSchema": True}
        frame = reader.csv(paths, header=True, sep="\t" if kind == "tsv" else ",", escape='"', **infer)
    if path_column:
        functions = require("pyspark.sql.functions", "spark", _PURPOSE)
        frame = frame.withColumn(path_column, functions.input_file_name())
    return frame


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def sql_type(dtype: Any) -> str:
    """Return a Polars type as Spark SQL writes it."""
    name = type(dtype).__name__
    if name in ("List", "Array"):
        return f"array<{sql_type(dtype.inner)}>"
    if name == "Struct":
        return "struct<" + ", ".join(f"{_quoted(f.name)}: {sql_type(f.dtype)}" for f in dtype.fields) + ">"
    return {"Int64": "bigint", "Float64": "double", "Boolean": "boolean", "Date": "date"}.get(name, "string")


def write(frame: Any, path: Path, kind: str, partition_by: Sequence[str] = ()) -> None:
    """Write a DataFrame as a directory of Parquet, which must be new; Spark makes it all or nothing."""
    if kind != "parquet":
        raise FileError(f"Spark writes Parquet, not {kind}", hint="name a directory, or a path that ends in .parquet")
    with short_methods(frame):
        frame.write.mode("errorifexists").partitionBy(*partition_by).parquet(str(path.resolve()))


def connect(master: str = "local[*]") -> Any:
    """Return the running Spark session as it is, or start one with settings for its master."""
    sql = require("pyspark.sql", "spark", _PURPOSE)
    running = sql.SparkSession.getActiveSession()
    if running is not None:
        return running
    builder = sql.SparkSession.builder
    if require("pyspark", "spark", _PURPOSE).SparkContext._active_spark_context is not None:
        return builder.getOrCreate()  # another thread's session; options would change it
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # it asks Java four things more for every operation
    }
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run the same Python as this process
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "localhost",
            "spark.driver.extraJavaOptions": _COMPILE,
            "spark.sql.shuffle.partitions": str(_threads(master)),  # the default, 200, is for clusters
        }
    return builder.master(master).appName("calibrant").config(map=settings).getOrCreate()


def _threads(master: str) -> int:
    """Return the number of threads of a local master: ``local``, ``local[4]``, ``local[*]``, ``local[2,4]``."""
    inside = master.removeprefix("local").strip("[]").split(",")[0]
    return (os.cpu_count() or 1) if inside == "*" else int(inside or 1)
