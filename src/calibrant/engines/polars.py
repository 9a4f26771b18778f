"""Polars: how files are opened as a lazy frame and how a lazy frame is written in bounded memory."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.engines.formats import pick_writer
from calibrant.engines.partitions import partition_values, typed

__all__ = ["open_files", "write"]

#: Column of the path while keys of partitions are looked up.
_PATH = "__calibrant_path"


def open_files(
    files: list[str],
    kind: str,
    master: str = "",  # noqa: ARG001 -- one signature for all engines
    *,
    types: Mapping[str, Any] | None = None,
    partitions: Mapping[str, Any] | None = None,
    session: Any = None,  # noqa: ARG001
    path_column: str | None = None,
) -> Any:
    """Return a lazy frame over files of one schema, with the columns that their directories name."""
    import polars as pl

    hive: dict[str, Any] = {"hive_partitioning": False, "glob": False}
    if partitions:
        hive |= {"hive_partitioning": True, "hive_schema": dict(partitions)}
    if kind == "parquet":
        return pl.scan_parquet(files, include_file_paths=path_column, **hive)
    if kind == "arrow":
        return pl.scan_ipc(files, include_file_paths=path_column, **hive)
    path = path_column or (_PATH if partitions else None)
    more: dict[str, Any] = {"infer_schema_length": 10_000, "include_file_paths": path}
    if types is not None:
        known = {name: pl.String() if dtype == pl.Null else dtype for name, dtype in types.items()}
        more["schema_overrides" if kind != "jsonl" else "schema"] = known
    if kind == "jsonl":
        frame = pl.scan_ndjson([glob.escape(name) for name in files], **more)  # it knows no glob=False
    else:
        frame = pl.scan_csv(files, separator="\t" if kind == "tsv" else ",", glob=False, **more)
    if not partitions or path is None:
        return frame
    frame = frame.with_columns(
        *(
            pl.col(path).replace_strict(_lookup(files, name, dtype), return_dtype=dtype).alias(name)
            for name, dtype in partitions.items()
        )
    )
    return frame if path_column else frame.drop(path)


def _lookup(files: Sequence[str], name: str, dtype: Any) -> dict[str, Any]:
    return {file: typed(partition_values(file)[name], dtype) for file in files}


def write(frame: Any, path: Path, kind: str, partition_by: Sequence[str] = ()) -> None:
    """Write a lazy frame, streaming: as one file, or as Parquet in a directory per combination of keys."""
    import polars as pl

    if partition_by:
        frame.sink_parquet(pl.PartitionBy(path, key=list(partition_by), include_key=False), mkdir=True)
        return
    writers = {
        "parquet": lambda: frame.sink_parquet(path),
        "csv": lambda: frame.sink_csv(path),
        "tsv": lambda: frame.sink_csv(path, separator="\t"),
        "jsonl": lambda: frame.sink_ndjson(path),
        "arrow": lambda: frame.sink_ipc(path),
    }
    pick_writer(writers, kind)()
