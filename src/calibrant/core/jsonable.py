"""Plain data for JSON: records, arrays and non-finite numbers in one stable form."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

__all__ = ["dumps", "jsonable", "plain"]


def plain(value: Any) -> Any:
    """Return nested records and tuples as dicts and lists, NumPy scalars as Python's; numbers stay numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def jsonable(value: Any) -> Any:
    """Return what `json.dumps` takes: infinite and undefined numbers become "inf", "-inf" and "nan".

    Examples
    --------
    >>> jsonable({"a": float("inf"), 2: (1, None)})
    {'a': 'inf', '2': [1, None]}
    """
    value = plain(value)
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, decimal.Decimal | Path | dt.timedelta):
        return str(value)
    return value


def dumps(document: Any, **options: Any) -> str:
    """Return one valid JSON document in ASCII."""
    return json.dumps(jsonable(document), ensure_ascii=True, allow_nan=False, **options)
