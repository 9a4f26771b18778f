"""Columns that directories name, as Hive, Spark and dbt write them: ``model=a/day=2026-11-15/part-0.parquet``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from calibrant.errors import FileError

__all__ = ["MISSING", "base_of", "partition_types", "partition_values", "typed"]

#: The directory of rows whose key is missing.
MISSING = "__HIVE_DEFAULT_PARTITION__"


def partition_values(path: str | Path) -> dict[str, str | None]:
    """Return the keys of a file's directories; text, not yet typed.

    Examples
    --------
    >>> partition_values("lake/model=a%20b/day=2026-11-15/part-0.parquet")
    {'model': 'a b', 'day': '2026-11-15'}
    """
    found: dict[str, str | None] = {}
    for part in Path(path).parts[:-1]:
        name, sign, value = part.partition("=")
        if sign and name:
            found[unquote(name)] = None if value == MISSING else unquote(value)
    return found


def base_of(path: str | Path) -> str:
    """Return the directory above the first key.

    Examples
    --------
    >>> base_of("lake/model=a/part-0.parquet")
    'lake'
    """
    parts = Path(path).parts[:-1]
    first = next((i for i, part in enumerate(parts) if "=" in part.lstrip("=")), len(parts))
    return str(Path(*parts[:first])) if first else "."


def partition_types(values: Mapping[str, Mapping[str, str | None]], source: str) -> dict[str, Any]:
    """Return the Polars type of every key: whole numbers, dates or text, the same on every engine.

    Files with other keys than the first are refused by name.
    """
    import polars as pl

    first = next(iter(values))
    keys = list(values[first])
    for path, held in values.items():
        if list(held) != keys:
            raise FileError(
                f"{source} holds files with other keys in their directories: {', '.join(keys) or 'none'} in {first}, "
                f"{', '.join(held) or 'none'} in {path}",
                hint="name the files of one layout",
            )
    types: dict[str, Any] = {}
    for key in keys:
        texts = {held[key] for held in values.values()} - {None}
        if texts and all(_is_integer(str(text)) for text in texts):
            types[key] = pl.Int64()
        elif texts and all(_is_date(str(text)) for text in texts):
            types[key] = pl.Date()
        else:
            types[key] = pl.String()
    return types


def typed(text: str | None, dtype: Any) -> Any:
    """Return a key as a value of its type."""
    if text is None:
        return None
    name = str(dtype)
    return int(text) if name == "Int64" else dt.date.fromisoformat(text) if name == "Date" else text


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and (digits == "0" or not digits.startswith("0"))


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and dt.date.fromisoformat(text) is not None
    except ValueError:
        return False
