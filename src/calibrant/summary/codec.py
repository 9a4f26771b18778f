"""A `Summary` as bytes: magic, schema, checksum, a JSON head and compressed little-endian arrays."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import Array
from calibrant.core.tables import Bins, Table
from calibrant.errors import CalibrantError, FileError
from calibrant.metrics.recipes import ScoreSums
from calibrant.views import from_spec

if TYPE_CHECKING:
    from calibrant.summary.summary import Summary

MAGIC = b"CALSUM"
SCHEMA = 2
_HEAD = struct.Struct("<6sHQ32s")
#: What reading a head or arrays that do not fit together raises.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error, zlib.error)
_COLUMNS = ("n", "w", "ws", "wt", "we", "w2")


def pack(summary: Summary) -> bytes:
    """Return the bytes of a summary."""
    arrays: list[Array] = []
    cells = [[_pack_table(growing.table(), arrays) for growing in groups] for groups in summary._cells]
    bins = []
    for (view, m), held in sorted(summary._bins.items()):
        bins.append([view, m, held.w.shape[0]])
        arrays += [held.w, held.ws, held.wt]
    head = {
        "n_classes": summary.n_classes,
        "classes": None if summary.classes is None else list(summary.classes),
        "views": [view.spec() for view in summary.views],
        "n_bins": list(summary.n_bins),
        "coarse": summary.coarse,
        "n": summary.n,
        "fractional": summary.fractional,
        "rejected": summary.rejected,
        **({"skipped": list(summary.skipped)} if summary.skipped else {}),
        "sums": {name: [x.hex() for x in sums] for name, sums in summary.sums.items()},
        "cells": cells,
        "bins": bins,
    }
    text = json.dumps(head, ensure_ascii=False, sort_keys=True).encode()
    data = b"".join(np.ascontiguousarray(a, dtype="<i8" if a.dtype.kind == "i" else "<f8").tobytes() for a in arrays)
    body = struct.pack("<Q", len(text)) + text + zlib.compress(data, 1)
    return _HEAD.pack(MAGIC, SCHEMA, len(body), hashlib.sha256(body).digest()) + body


def _pack_table(table: Table, arrays: list[Array]) -> list[Any]:
    """Store the key and each column once; columns that equal an earlier one are named, not repeated."""
    arrays.append(table.key)
    stored: dict[str, Array] = {}
    names = []
    for name in _COLUMNS:
        column = getattr(table, name)
        twin = next((k for k, v in stored.items() if v is column or np.array_equal(v, column)), None)
        names.append(twin or name)
        if twin is None:
            stored[name] = column
            arrays.append(column)
    return [table.grid, len(table), names]


def unpack(data: bytes, kind: type[Summary]) -> Summary:
    """Read bytes written by `pack` into a summary of this kind; whatever is wrong with them is one `FileError`."""
    if len(data) < _HEAD.size or data[:6] != MAGIC:
        raise FileError("These bytes are not a Summary. Hint: use what Summary.to_bytes() gave.")
    _, schema, length, checksum = _HEAD.unpack_from(data)
    if schema != SCHEMA:
        raise FileError(
            f"This Summary has schema {schema}; this version reads {SCHEMA}. Hint: summarize the rows again."
        )
    body = data[_HEAD.size :]
    if len(body) != length or hashlib.sha256(body).digest() != checksum:
        raise FileError("This Summary is damaged (its checksum does not match). Hint: copy or write it again.")
    try:
        return _read(body, kind)
    except (*_DAMAGE, CalibrantError) as error:
        raise FileError(
            f"This Summary is damaged ({type(error).__name__}: {error}). Hint: copy or write it again."
        ) from error


def _read(body: bytes, kind: type[Summary]) -> Summary:
    (size,) = struct.unpack_from("<Q", body)
    head = json.loads(body[8 : 8 + size].decode())
    raw = zlib.decompress(body[8 + size :])
    place = 0

    def take(count: int, dtype: str = "<f8") -> Array:
        nonlocal place
        array = np.frombuffer(raw, dtype=dtype, count=count, offset=place).astype(dtype[1:], copy=True)
        place += 8 * count
        return array

    views = [from_spec(spec) for spec in head["views"]]
    summary = kind(
        head["n_classes"] or None,
        views=views,
        n_bins=head["n_bins"],
        classes=head["classes"],
        pairs=head["n_classes"] == 0,
        coarse=head["coarse"],
    )
    for position, groups in enumerate(head["cells"]):
        for group, (grid, rows, names) in enumerate(groups):
            key = take(rows, "<i8")
            columns: dict[str, Array] = {}
            for name, source in zip(_COLUMNS, names, strict=True):
                columns[name] = columns[source] if source in columns else take(rows)
            summary.add_cells(position, group, Table(grid, key, *(columns[name] for name in _COLUMNS)))
    for view, m, groups in head["bins"]:
        w, ws, wt = (take(groups * m).reshape(groups, m) for _ in range(3))
        summary.add_bins(view, m, Bins(w, ws, wt))
    sums = {
        name: ScoreSums(*(float.fromhex(x) for x in values)) for name, values in head["sums"].items() if "." not in name
    }
    summary.add_rows(head["n"], head["fractional"], sums, head["rejected"])
    summary.skipped = tuple(head.get("skipped", ()))
    if place != len(raw):
        raise ValueError("arrays left over")
    return summary
