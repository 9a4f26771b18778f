"""Damage: lengths that a binary table declares, checked against its bytes before a library trusts them.

A library that allocates what a damaged file declares ends the process, which Python cannot catch. Nothing here reads
values: it walks the heads of batches (Arrow) and of pages (Parquet), which is quick at any size.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileError

__all__ = ["check_lengths"]

#: Heads of Arrow messages that hold buffers.
_DICTIONARY, _BATCH = 2, 3
_CONTINUED = 0xFFFFFFFF
#: Deepest structs of a Parquet footer; more are damage.
_DEEP = 32
#: Bytes that old writers of Parquet forgot in the length of a column: the head of its dictionary.
_FORGOTTEN = 100


def check_lengths(source: str | Path | bytes, kind: str, name: str) -> None:
    """Refuse a table of this kind (arrow, parquet; others pass) whose declared lengths its bytes cannot hold."""
    if kind not in ("arrow", "parquet"):
        return
    try:
        if isinstance(source, bytes):
            _check(source, kind)
            return
        with Path(source).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _check(data, kind)
    except (AttributeError, LookupError, MemoryError, TypeError, ValueError, struct.error) as error:
        raise FileError(
            f"{name} cannot be read: it is damaged ({error})", hint="check that it is complete, or write it again"
        ) from error


def _check(data: Any, kind: str) -> None:
    if kind == "parquet":
        _check_parquet(data)
    elif data[:6] == b"ARROW1":
        _check_arrow_file(data)
    else:
        _check_arrow_stream(data)


def _inside(start: int, length: int, end: int, what: str) -> None:
    if start < 0 or length < 0 or start + length > end:
        raise ValueError(f"{what} of {length} bytes at {start} does not fit into {end}")


def _room(size: int) -> None:
    """Ask for so many bytes, here where a refusal is an error of Python; nothing is touched."""
    if not 0 <= size < 1 << 62:
        raise ValueError(f"it declares {size} bytes")
    np.empty(size, np.uint8)


# -- Arrow: FlatBuffers ---------------------------------------------------------------------------


def _number(data: Any, at: int, form: str) -> int:
    _inside(at, struct.calcsize(form), len(data), "a number")
    return int(struct.unpack_from(form, data, at)[0])


def _field(data: Any, table: int, place: int) -> int | None:
    """Return where a field of a table lies, None where it is left out."""
    fields = table - _number(data, table, "<i")
    if 4 + 2 * place + 2 > _number(data, fields, "<H"):
        return None
    offset = _number(data, fields + 4 + 2 * place, "<H")
    return table + offset if offset else None


def _value(data: Any, table: int, place: int, form: str) -> int:
    at = _field(data, table, place)
    return 0 if at is None else _number(data, at, form)


def _target(data: Any, table: int, place: int) -> int | None:
    at = _field(data, table, place)
    return None if at is None else at + _number(data, at, "<I")


def _structs(data: Any, table: int, place: int, form: str) -> Iterator[tuple[int, ...]]:
    at = _target(data, table, place)
    if at is None:
        return iter(())
    size = _number(data, at, "<I") * struct.calcsize(form)
    _inside(at + 4, size, len(data), "a list")
    return struct.iter_unpack(form, bytes(data[at + 4 : at + 4 + size]))


def _check_arrow_file(data: Any) -> None:
    if data[-6:] != b"ARROW1":
        raise ValueError("its end is missing")
    end = len(data) - 10
    size = _number(data, end, "<i")
    _inside(end - size, size, end, "its footer")
    footer = bytes(data[end - size : end])
    table = _number(footer, 0, "<I")
    for place in (2, 3):
        for offset, head, body in _structs(footer, table, place, "<qi4xq"):
            _inside(offset, head, end, "a head")
            _inside(offset + head, body, end, "a batch")
            start, length = _message(data, offset)
            if start + length > offset + head:
                raise ValueError("a head is longer than declared")
            _check_message(data, start, length, offset + head, body)


def _check_arrow_stream(data: Any) -> None:
    at = 0
    while at < len(data):
        start, length = _message(data, at)
        if not length:
            return
        _inside(start, length, len(data), "a head")
        body = _check_message(data, start, length, start + length)
        at = start + length + body


def _message(data: Any, at: int) -> tuple[int, int]:
    """Return where the head of a message starts and how long it is; old ones have no mark."""
    first = _number(data, at, "<I")
    return (at + 8, _number(data, at + 4, "<I")) if first == _CONTINUED else (at + 4, first)


def _check_message(data: Any, start: int, length: int, where: int, held: int | None = None) -> int:
    """Check the buffers of a message whose body starts at `where`; return the body's length."""
    _inside(start, length, len(data), "a head")
    head = bytes(data[start : start + length])
    table = _number(head, 0, "<I")
    body = _value(head, table, 3, "<q")
    _inside(where, body, len(data), "a body")
    if held is not None and held < body:
        raise ValueError(f"a body of {body} bytes is declared with {held}")
    kind, batch = _value(head, table, 1, "<B"), _target(head, table, 2)
    if kind == _DICTIONARY and batch is not None:
        batch = _target(head, batch, 1)
    if batch is None or kind not in (_DICTIONARY, _BATCH):
        return body
    packed = _field(head, batch, 3) is not None
    sizes = []
    for offset, size in _structs(head, batch, 2, "<qq"):
        _inside(offset, size, body, "a buffer")
        plain = _number(data, where + offset, "<q") if packed and size >= 8 else -1
        sizes.append(size if plain == -1 else plain)
        _room(sizes[-1])
    _room(sum(sizes))
    for rows, missing in _structs(head, batch, 1, "<qq"):
        if not 0 <= missing <= rows:
            raise ValueError(f"{missing} of {rows} values are missing")
        _room(8 * rows)
    if any(not 0 <= count <= len(sizes) for (count,) in _structs(head, batch, 4, "<q")):
        raise ValueError("it counts more buffers than it has")
    _room(8 * _value(head, batch, 0, "<q"))
    return body


# -- Parquet: compact Thrift ----------------------------------------------------------------------


def _varint(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = shift = 0
    while shift < 70 and at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number has no end")


def _thrift_value(data: Any, at: int, end: int, kind: int, deep: int) -> tuple[Any, int]:
    """Return a value of this kind and where it ends; texts are skipped."""
    if kind in (4, 5, 6):
        raw, at = _varint(data, at, end)
        return (raw >> 1) ^ -(raw & 1), at
    if kind in (7, 8):
        size, at = (8, at) if kind == 7 else _varint(data, at, end)
        _inside(at, size, end, "a text")
        return None, at + size
    if kind == 12:
        return _thrift_struct(data, at, end, deep + 1)
    if kind in (1, 2):
        return kind == 1, at
    if kind not in (3, 9, 10):
        raise ValueError(f"a field has the unknown kind {kind}")
    _inside(at, 1, end, "a head")
    head, at = data[at], at + 1
    if kind == 3:
        return head, at
    count, at = (head >> 4, at) if head >> 4 < 15 else _varint(data, at, end)
    _inside(at, count, end, "a list")
    inner, found = 3 if head & 15 in (1, 2) else head & 15, []
    for _ in range(count):
        one, at = _thrift_value(data, at, end, inner, deep + 1)
        found.append(one)
    return found, at


def _thrift_struct(data: Any, at: int, end: int, deep: int = 0) -> tuple[dict[int, Any], int]:
    """Return a struct as a dictionary by the numbers of its fields, and where it ends."""
    if deep > _DEEP:
        raise ValueError("a head is nested without end")
    found: dict[int, Any] = {}
    place = 0
    while 0 <= at < end:
        head, at = data[at], at + 1
        if not head:
            return found, at
        if head >> 4:
            place += head >> 4
        else:
            raw, at = _varint(data, at, end)
            place = (raw >> 1) ^ -(raw & 1)
        found[place], at = _thrift_value(data, at, end, head & 15, deep)
    raise ValueError("a head has no end")


def _check_parquet(data: Any) -> None:
    if len(data) < 12 or data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise ValueError("its begin or end is missing")
    end = len(data) - 8
    size = _number(data, end, "<I")
    _inside(end - size, size, end, "its footer")
    footer, _ = _thrift_struct(data[end - size : end], 0, size)
    rows = 0
    for group in footer[4]:
        rows += group[3]
        _room(8 * group[3])
        for column in group[1]:
            _check_column(data, column[3], end - size)
    if footer[3] != rows:
        raise ValueError(f"its parts have {rows} rows, not {footer[3]}")


def _check_column(data: Any, column: dict[int, Any], end: int) -> None:
    declared, length = column[5], column[7]
    at = min(column[9], column.get(11) or column[9])
    _inside(at, length, end, "a column")
    _room(8 * declared)
    stop, seen = at + length, 0
    while at < stop and seen < declared:
        last = min(stop + _FORGOTTEN, end)
        page, at = _thrift_struct(data, at, last)
        _inside(at, page[3], last, "a page")
        _room(page[2])
        head = page.get(5) or page.get(8) or page.get(7) or {1: 0}
        if head[1] < 0 or (7 not in page and seen + head[1] > declared):
            raise ValueError(f"a page of {head[1]} values in a column of {declared}")
        if 8 in page and not 0 <= head[5] + head[6] <= page[3]:
            raise ValueError("levels are longer than their page")
        if 7 in page:
            _room(8 * head[1])
        else:
            seen += head[1]
        at += page[3]
