"""Cells of text that hold something else: numbers in quotes, decimal commas, percent signs, lists written out."""

from __future__ import annotations

import re
from typing import Any

from calibrant.errors import FileError
from calibrant.io.layout import note

__all__ = ["MISSING", "number_like", "tidy_cells"]

#: How programs write a value that is not there.
MISSING = ("", "NA", "N/A", "#N/A", "NULL", "null", "None", "\\N", "nan", "NaN", "NAN", "-", "?")
_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_COMMA = r"[-+]?\d+,\d+([eE][-+]?\d+)?"
_PERCENT = r"[-+]?\d+([.,]\d+)?[\s\u00a0\u202f]*%"
_LIST = r"(?s)\s*(tensor|array|np\.array|DenseVector)?\(?\s*[\[(].*[\])]\s*\)?\s*"
#: How NumPy 2 shows its numbers.
_NUMPY = r"(?:np|numpy)\.\w+\((-?[\d.][^()]*)\)"
_FLOAT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf|nan", re.IGNORECASE)


def number_like(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def tidy_cells(frame: Any) -> Any:
    """Return a Polars frame whose columns of text are what their cells hold, where all cells agree."""
    import polars as pl

    changed = []
    for name, dtype in frame.schema.items():
        if dtype == pl.String:
            new = _tidied(frame[name])
            if new is not None:
                changed.append(new)
    return frame.with_columns(changed) if changed else frame


def _tidied(column: Any) -> Any:
    import polars as pl

    cells = (re.sub(_NUMPY, r"\1", cell.strip()) for cell in column if cell is not None)
    first = next((cell for cell in cells if cell not in MISSING), "")
    if not first.isdigit() and not any(re.fullmatch(one, first) for one in (_NUMBER, _COMMA, _PERCENT, _LIST)):
        return None  # at once: a table may have 100,000 columns of text
    text = column.str.strip_chars().str.replace_all(_NUMPY, "$1")
    held = text.filter(text.is_not_null() & ~text.is_in(list(MISSING)))

    def every(pattern: str) -> bool:
        return bool(held.str.contains(f"^(?:{pattern})$").all())

    text = pl.select(pl.when(text.is_in(list(MISSING))).then(None).otherwise(text).alias(column.name)).to_series()
    if re.fullmatch(_NUMBER, first) and every(_NUMBER):
        return text.cast(pl.Int64) if every(r"[-+]?\d{1,18}") else text.cast(pl.Float64)
    if re.fullmatch(_COMMA, first) or (first.isdigit() and bool(held.str.contains(",").any())):
        if every(f"{_COMMA}|\\d+"):
            return text.str.replace(",", ".", literal=True).cast(pl.Float64)
        return None
    if re.fullmatch(_PERCENT, first) and every(f"{_PERCENT}"):
        note(f"{column.name} has percent signs: 85% is read as 0.85")
        plain = text.str.replace(",", ".", literal=True).str.replace_all(r"[\s%\x{a0}\x{202f}]", "")
        return plain.cast(pl.Float64) / 100
    if re.fullmatch(_LIST, first) and any(sign.isdigit() for sign in first):
        return _lists(column.name, text)
    return None


def _lists(name: str, text: Any) -> Any:
    import polars as pl

    rows = []
    for row, cell in enumerate(text.to_list()):
        if cell is not None and "..." in cell:
            raise FileError(
                f"{name} holds lists that were cut short with '...' (first in row {row + 1})",
                hint="write the numbers in full, for example one column per class",
            )
        rows.append(None if cell is None else [float(found) for found in _FLOAT.findall(_inside(cell))])
    return pl.Series(name, rows, dtype=pl.List(pl.Float64))


def _inside(cell: str) -> str:
    """Return what stands between the outermost brackets."""
    start = min((cell.find(mark) for mark in "[(" if mark in cell), default=0)
    inner = cell[start:]
    return inner[: inner.rfind("]") + 1] if "]" in inner else inner
