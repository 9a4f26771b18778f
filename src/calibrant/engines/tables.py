"""Delta and Iceberg tables: which files belong to the table now, so that deleted ones are not counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from calibrant.core.options import check_path
from calibrant.errors import FileError, require

__all__ = ["local_path", "table_files"]


def table_files(source: str | Path) -> tuple[list[str], str] | None:
    """Return the data files of a Delta or Iceberg table and their format, None where the path is no table."""
    path = Path(check_path(source, "data", "read"))
    if not path.is_dir():
        return None
    if (path / "_delta_log").is_dir():
        return _delta(path)
    if any((path / "metadata").glob("*.metadata.json")):
        return _iceberg(path)
    return None


def _delta(path: Path) -> tuple[list[str], str]:
    table = require("deltalake", "deltalake", "Delta tables").DeltaTable(str(path))
    properties: Any = table.metadata().configuration
    features = getattr(table.protocol(), "reader_features", None) or ()
    if "deletionVectors" in features and str(properties.get("delta.enableDeletionVectors", "")).lower() == "true":
        raise FileError(
            f"{path} is a Delta table with deletion vectors, which name deleted rows inside its files",
            hint="run OPTIMIZE or REORG … APPLY (PURGE) on it, or pass a frame of an engine that reads them",
        )
    if "columnMapping" in features and str(properties.get("delta.columnMapping.mode", "none")) != "none":
        raise FileError(
            f"{path} is a Delta table with renamed columns (columnMapping)",
            hint="pass a frame of an engine that reads them",
        )
    files = sorted(local_path(name) for name in table.file_uris())
    if not files:
        raise FileError(f"{path} is a Delta table without rows", hint="check the table")
    return files, "parquet"


def _iceberg(path: Path) -> tuple[list[str], str]:
    table = require("pyiceberg.table", "pyiceberg", "Iceberg tables").StaticTable.from_metadata(str(_latest(path)))
    tasks = list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise FileError(
            f"{path} is an Iceberg table with delete files, which name deleted rows inside its files",
            hint="rewrite its data files (rewrite_data_files), or pass a frame of an engine that reads them",
        )
    formats = {str(getattr(task.file.file_format, "value", task.file.file_format)).upper() for task in tasks}
    if formats - {"PARQUET"}:
        raise FileError(f"{path} is an Iceberg table of {', '.join(sorted(formats))}", hint="write it as Parquet")
    files = sorted(local_path(task.file.file_path) for task in tasks)
    if not files:
        raise FileError(f"{path} is an Iceberg table without rows", hint="check the table")
    return files, "parquet"


def _latest(path: Path) -> Path:
    """Return the newest metadata of an Iceberg table: the hint if there is one, else the highest number."""
    folder = path / "metadata"
    hint = folder / "version-hint.text"
    if hint.exists():
        named = folder / f"v{hint.read_text(encoding='utf-8').strip()}.metadata.json"
        if named.exists():
            return named

    def number(name: str) -> int:
        found = re.match(r"v?(\d+)", name)
        return int(found[1]) if found else -1

    return max(folder.glob("*.metadata.json"), key=lambda file: (number(file.name), file.stat().st_mtime))


def local_path(uri: str) -> str:
    """Return a local path from a path or a ``file:`` address."""
    parsed = urlparse(uri)
    return unquote(parsed.path) if parsed.scheme == "file" else uri
