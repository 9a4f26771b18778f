"""DuckDB: how files are opened as a relation and how a relation is written."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.engines.formats import pick_writer
from calibrant.engines.partitions import base_of
from calibrant.errors import require

__all__ = ["connect", "open_files", "write"]

_FUNCTIONS = {"parquet": "read_parquet", "jsonl": "read_json", "csv": "read_csv", "tsv": "read_csv"}


def connect(master: str = "") -> Any:  # noqa: ARG001 -- one signature for all engines
    """Return a connection of our own; times with a zone are told in UTC."""
    connection = require("duckdb", "engines", "the engine duckdb").connect()
    connection.execute("SET TimeZone = 'UTC'")
    # statistics of Parquet leave NaN out, and DuckDB would drop tests that only NaN fails
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")
    return connection


def open_files(
    files: list[str],
    kind: str,
    master: str = "",
    *,
    types: Mapping[str, Any] | None = None,
    partitions: Mapping[str, Any] | None = None,
    session: Any = None,
    path_column: str | None = None,
) -> Any:
    """Return a relation over files of one schema, with the columns that their directories name."""
    connection = session or connect(master)
    if kind == "arrow":
        return _arrow(connection, files, partitions)
    options = {"hive_partitioning": "true" if partitions else "false"}
    if partitions:
        options["hive_types"] = _struct({name: sql_type(dtype) for name, dtype in partitions.items()})
    if path_column:
        options["filename"] = _text(path_column)
    if kind != "parquet" and types is not None:
        options["columns"] = _struct({name: sql_type(dtype) for name, dtype in types.items()})
    if kind == "jsonl":
        options["format"] = "'newline_delimited'"
    elif kind != "parquet":
        options |= {"delim": _text("\t" if kind == "tsv" else ","), "header": "true"}
        if types is not None:
            options["auto_detect"] = "false"
            options["quote"] = "'\"'"
            options["escape"] = "'\"'"
    listed = ", ".join(_text(_literal(name)) for name in files)
    more = "".join(f", {name} = {value}" for name, value in options.items())
    return connection.sql(f"SELECT * FROM {_FUNCTIONS[kind]}([{listed}]{more})")  # noqa: S608 -- quoted above


def _literal(name: str) -> str:
    """Return a name as a pattern that matches it alone; from the root where a first character would mean something."""
    special = glob.has_magic(name) or name.startswith("~")
    return glob.escape(str(Path(name).absolute())) if special else name


def _arrow(connection: Any, files: list[str], partitions: Mapping[str, Any] | None) -> Any:
    dataset = require("pyarrow.dataset", "engines", "Arrow files on DuckDB")
    if not partitions:
        return connection.from_arrow(dataset.dataset(files, format="ipc"))
    arrow = require("pyarrow", "engines", "Arrow files on DuckDB")
    known = {"Int64": arrow.int64(), "Date": arrow.date32()}
    schema = arrow.schema([(name, known.get(str(dtype), arrow.string())) for name, dtype in partitions.items()])
    hive = dataset.partitioning(schema, flavor="hive")
    options = {"partition_base_dir": base_of(files[0])}
    return connection.from_arrow(dataset.dataset(files, format="ipc", partitioning=hive, **options))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _struct(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_text(name)}: {_text(value)}" for name, value in values.items()) + "}"


def sql_type(dtype: Any) -> str:
    """Return a Polars type as DuckDB writes it."""
    name = type(dtype).__name__
    if name in ("List", "Array"):
        return f"{sql_type(dtype.inner)}[]"
    if name == "Struct":
        fields = ", ".join(f'"{field.name}" {sql_type(field.dtype)}' for field in dtype.fields)
        return f"STRUCT({fields})"
    plain = {"Int64": "BIGINT", "Float64": "DOUBLE", "Boolean": "BOOLEAN", "Date": "DATE", "Int128": "HUGEINT"}
    return plain.get(name, "VARCHAR")


def write(frame: Any, path: Path, kind: str, partition_by: Sequence[str] = ()) -> None:
    """Write a relation, or the Arrow table that batches gave, as one file or in a directory per combination of keys."""
    if not hasattr(frame, "write_parquet"):
        frame = connect().from_arrow(frame)
    if partition_by:
        frame.write_parquet(str(path), partition_by=list(partition_by))
        return
    writers = {
        "parquet": lambda: frame.write_parquet(str(path)),
        "csv": lambda: frame.write_csv(str(path)),
        "tsv": lambda: frame.write_csv(str(path), sep="\t"),
    }
    pick_writer(writers, kind)()
