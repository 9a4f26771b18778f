"""Every table of the page as CSV in a link of its own: nothing is fetched, and no script is needed."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Download"]


@dataclass(frozen=True)
class Download:
    """The rows of a table in full precision."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Download:
        """Collect rows; numbers of NumPy become plain ones."""
        return cls(name, columns, [[_plain(value) for value in row] for row in rows])

    @property
    def csv(self) -> str:
        """The address of the CSV file."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        odd = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would read such a name as a formula
        writer.writerows([f"'{v}" if isinstance(v, str) and v.startswith(odd) else v for v in row] for row in self.rows)
        return f"data:text/csv;charset=utf-8;base64,{_encoded(text.getvalue())}"


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, int | str | bool) else str(value)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode()
