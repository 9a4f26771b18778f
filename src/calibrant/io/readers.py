"""Readers: they open a file, nothing else; the resolver decides what its columns or arrays are."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calibrant._typing import Array
from calibrant.core.pipes import read_bytes
from calibrant.errors import FileError, input_error
from calibrant.io.bounds import check_archive, open_bytes
from calibrant.io.json_files import frame_of, read_json, read_lines, unnested
from calibrant.io.layout import Columns, Layout, array_fields, choose_part
from calibrant.io.logs import find_log, read_inspect_archive
from calibrant.io.paths import bounded_lengths, file_format, in_utf8, plain_errors
from calibrant.io.predictions import Look, Predictions, assemble, frame_predictions
from calibrant.io.resolver import resolve
from calibrant.io.text import read_text, sniff

__all__ = ["read_predictions", "read_table"]


def read_predictions(path: str | Path, layout: Layout | None = None, *, input_format: str | None = None) -> Predictions:
    r"""Return the rows of one file (``-`` is standard input) as arrays, by the names of the file layouts.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "preds.csv"
    >>> _ = path.write_text("score,label\n0.9,1\n0.2,0\n")
    >>> read_predictions(path).scores
    array([0.9, 0.2])
    """
    layout = layout or Layout()
    kind = file_format(path, input_format)
    if kind in _READERS:
        return _READERS[kind](path, layout)
    if kind in ("csv", "tsv"):
        with plain_errors(path):
            raw = _raw(path)
            frame = read_text(raw, str(path))
            skipped = sniff(raw[:4096], str(path)).skipped
            lines = raw.rstrip(b"\r\n\0;,|\t ").count(b"\n") - skipped  # others than rows: lines cannot be counted
            first_line = skipped + 2 if lines == frame.height else None
        return frame_predictions(_with_rows(frame, path), layout, str(path), first_line=first_line)
    return frame_predictions(unnested(read_table(path, input_format=input_format)), layout, str(path))


def _raw(path: str | Path) -> bytes:
    return read_bytes(path) if str(path) == "-" else open_bytes(path)


def _with_rows(frame: Any, path: str | Path) -> Any:
    if not frame.height:
        raise FileError(f"{path} has no rows", hint="check how it was written")
    return frame


# -- arrays ---------------------------------------------------------------------------------------


def read_arrays(path: str | Path) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file."""
    with plain_errors(path):
        check_archive(path)
    with plain_errors(path), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _read_npz(path: str | Path, layout: Layout) -> Predictions:
    arrays = read_arrays(path)
    keys = choose_part(arrays, layout, str(path))
    classes = arrays.get(keys.get("classes", ""))
    plain = {name: arrays[key] for name, key in keys.items() if name != "classes"}
    layout = layout if classes is None else replace(layout, classes=tuple(classes.tolist()))
    found = resolve(array_fields(plain), layout, source=str(path), things="arrays", values=Look(plain.__getitem__))
    if found.kind in ("wide", "quantiles"):
        scores = np.stack([plain[name] for name in found.scores], axis=1)
    else:
        scores = plain[found.scores[0]]
    n = len(scores)
    rest = {name: a for name, a in plain.items() if name not in found.used and a.ndim == 1 and len(a) == n}
    read = assemble(found, plain.__getitem__, scores, rest, layout)
    names = read.classes if classes is None else tuple(classes.tolist())
    return replace(read, classes=names, source=tuple(keys[name] for name in read.source))


def _read_npy(path: str | Path, layout: Layout) -> Predictions:
    names = ("proba", "weight", "part", "mean", "variance", "std", "positive", "confidence", "correct")
    _refuse(layout, names, "for a .npy file: it holds one array")

    def load(name: str | Path) -> Array:
        with plain_errors(name):
            if name != path and file_format(name) in ("csv", "tsv"):
                return _label_lines(name, len(scores))
            array: Array = np.load(name, allow_pickle=False)
        return array

    scores = load(path)
    if layout.label is None and layout.labels_needed:
        raise FileError(f"{path} holds no labels", hint="name them with {label=labels.npy}")
    kind: Literal["list", "binary"] = "list" if scores.ndim > 1 else "binary"
    found = Columns(kind, ("probs",), layout.label or "", layout.space or "proba")
    return assemble(found, load, scores, {}, layout)


def _label_lines(path: str | Path, n: int) -> Array:
    """Return the labels of a text file with one in each line, below a name or not."""
    lines = [line.strip().strip('"') for line in open_bytes(path).decode("utf-8-sig").splitlines() if line.strip()]
    lines = lines[1:] if len(lines) == n + 1 else lines
    if len(lines) != n:
        raise FileError(f"{path} has {len(lines)} lines for {n} rows", hint="write one label in each line")
    try:
        return np.array([int(line) for line in lines])
    except ValueError:
        return np.array(lines)


# -- tables ---------------------------------------------------------------------------------------


def read_table(path: str | Path, *, input_format: str | None = None) -> Any:
    r"""Return a table as a Polars frame.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "preds.csv"
    >>> _ = path.write_text("score,label\n0.9,1\n0.2,0\n")
    >>> read_table(path).columns
    ['score', 'label']
    """
    import polars as pl

    kind = file_format(path, input_format)

    def source() -> Any:
        """Return the file, or the bytes of standard input."""
        return path if str(path) != "-" and in_utf8(path) else io.BytesIO(read_bytes(path))

    readers: dict[str, Callable[[], Any]] = {
        "csv": lambda: read_text(_raw(path), str(path)),
        "tsv": lambda: read_text(_raw(path), str(path)),
        "parquet": lambda: pl.read_parquet(source(), glob=False),
        "arrow": lambda: _read_arrow(path),
        "jsonl": lambda: frame_of(read_lines(_raw(path).decode("utf-8-sig"), str(path)), str(path)),
        "json": lambda: frame_of(read_json(_raw(path).decode("utf-8-sig"), str(path)), str(path)),
    }
    if kind not in readers:
        raise FileError(f"{path} is not a table", hint="tables are csv, tsv, parquet, arrow and jsonl")
    with plain_errors(path):
        frame = readers[kind]()
    return _with_rows(frame, path)


def _read_arrow(path: str | Path) -> Any:
    """Return an Arrow file or stream; PyArrow, where it is there, checks every length and offset first."""
    import polars as pl

    raw = read_bytes(path)
    whole = raw.startswith(b"ARROW1")
    if find_spec("pyarrow") is None:
        return (pl.read_ipc if whole else pl.read_ipc_stream)(raw)
    import pyarrow.ipc

    with bounded_lengths(path), (pyarrow.ipc.open_file if whole else pyarrow.ipc.open_stream)(raw) as reader:
        table = reader.read_all()
        table.validate(full=True)
    return pl.from_arrow(table)


# -- JSON -----------------------------------------------------------------------------------------


def _read_json(path: str | Path, layout: Layout, *, lines: bool = False) -> Predictions:
    with plain_errors(path):
        text = _raw(path).decode("utf-8-sig")
    document = read_lines(text, str(path)) if lines else read_json(text, str(path))
    found = find_log(document, layout, str(path))
    if found is not None:
        return found
    first_line = 1 if lines else None
    classes = document.get("classes", document.get("class_names")) if isinstance(document, dict) else None
    layout = replace(layout, classes=tuple(classes)) if isinstance(classes, list) else layout
    return frame_predictions(frame_of(document, str(path)), layout, str(path), first_line=first_line)


def _refuse(layout: Layout, names: tuple[str, ...], why: str) -> None:
    """Refuse options that a format has no use for, by name."""
    for name in names:
        if getattr(layout, name) is not None:
            raise input_error(name, "read", f"be left out {why}", repr(getattr(layout, name)), "leave it out")


_READERS: dict[str, Callable[[str | Path, Layout], Predictions]] = {
    "npz": _read_npz,
    "npy": _read_npy,
    "json": _read_json,
    "jsonl": partial(_read_json, lines=True),
    "eval": read_inspect_archive,
}
