"""Values that name slices: one plain form whatever engine gave them, and a typed form in bytes that comes back."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

__all__ = ["canonical", "from_typed", "order", "typed"]


def canonical(value: Any) -> Any:
    """Return a value as every engine gives it: NaN is None like NULL, times with a zone are in UTC, lists are tuples.

    Examples
    --------
    >>> canonical(float("nan")), canonical(bytearray(b"a")), canonical(["x", 1])
    (None, b'a', ('x', 1))
    """
    if value is None or isinstance(value, bool | int | str | decimal.Decimal | bytes):
        return value
    if hasattr(value, "to_pydatetime"):  # pandas
        value = None if value != value else value.to_pydatetime()  # noqa: PLR0124 -- NaT differs from itself
    elif hasattr(value, "item") and not hasattr(value, "isoformat"):
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0  # −0 is 0
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return tuple((str(name), canonical(item)) for name, item in sorted(value.items()))
    if isinstance(value, list | tuple):
        return tuple(canonical(item) for item in value)
    return value


def typed(value: Any) -> Any:
    """Return a value for JSON with its type, so that `from_typed` gives it back.

    Examples
    --------
    >>> typed(dt.date(2026, 11, 15)), typed("a"), typed(b"a")
    ({'date': '2026-11-15'}, 'a', {'bytes': '61'})
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": value.hex()}
    if isinstance(value, dt.datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, dt.time):
        return {"time": value.isoformat()}
    if isinstance(value, dt.timedelta):
        return {"seconds": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, tuple):
        return {"items": [typed(item) for item in value]}
    return str(value)


_READ: dict[str, Any] = {
    "float": float.fromhex,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "seconds": lambda parts: dt.timedelta(*parts),
    "decimal": decimal.Decimal,
    "bytes": bytes.fromhex,
    "items": lambda items: tuple(from_typed(item) for item in items),
}


def from_typed(value: Any) -> Any:
    """Return the value that `typed` wrote.

    Examples
    --------
    >>> from_typed({"decimal": "1.50"})
    Decimal('1.50')
    """
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    return _READ[kind](held)


def order(key: tuple[Any, ...]) -> tuple[tuple[bool, str, Any], ...]:
    """Return what sorts keys by value, mixed types and None included."""

    def one(value: Any) -> tuple[bool, str, Any]:
        if value is None:
            return True, "", 0
        plain = (
            value if isinstance(value, bool | int | float | str | bytes | dt.date | decimal.Decimal) else repr(value)
        )
        aware = isinstance(value, dt.datetime) and value.tzinfo is not None
        return False, f"{type(plain).__name__}{'+' if aware else ''}", plain

    return tuple(one(value) for value in key)
