"""The engines: a new one is a module with `open_files` and `write`, and one line here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from calibrant.core.inputs import check_names
from calibrant.engines.scans import read_scan

__all__ = ["ENGINES", "get_engine", "open_paths"]

#: Name → module; the first is the default, ``auto``.
_MODULES = {
    "polars": "calibrant.engines.polars",
    "duckdb": "calibrant.engines.duckdb",
    "spark": "calibrant.engines.spark",
}
ENGINES = ("auto", *_MODULES)


def get_engine(name: str, caller: str = "open_paths") -> Any:
    """Return the module of an engine; ``auto`` is Polars."""
    check_names(name, ENGINES, "engine", caller)
    return import_module(_MODULES["polars" if name == "auto" else name])


def open_paths(pattern: str | Path, engine: str = "auto", *, master: str = "local[*]") -> Any:
    """Open files lazily: a Polars LazyFrame, a DuckDB relation or a Spark DataFrame.

    Parameters
    ----------
    pattern : str or Path
        A file, a pattern such as ``logs/*.parquet``, a directory, or a Delta or Iceberg table.
    engine : {"auto", "polars", "duckdb", "spark"}
        ``auto`` is Polars.
    master : str
        Spark master, ``local[*]`` unless given; a running session is used as it is.
    """
    module = get_engine(engine)
    return read_scan(pattern).open(module, master)
