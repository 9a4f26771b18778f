"""What is registered, as one shape: a sequence of names with a table behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibrant.core.inputs import check_names
from calibrant.core.text import table
from calibrant.errors import require

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Listing"]


class Listing(Sequence[str]):
    """Names of what is registered: iterates names, ``[name]`` gives the entry, prints as a table.

    Parameters
    ----------
    entries : mapping
        Name → entry (a `Metric` or a calibrator class).
    record : callable
        Name and entry → plain dictionary of what the entry declares.
    columns : sequence of pairs
        Heading of a column of the printed table, and the record → cell function that fills it.
    note : str
        Last line of the printed table.
    """

    def __init__(
        self,
        entries: Mapping[str, Any],
        record: Callable[[str, Any], dict[str, Any]],
        columns: Sequence[tuple[str, Callable[[dict[str, Any]], str]]],
        note: str = "",
    ) -> None:
        self._entries = dict(entries)
        self._record = record
        self._columns = columns
        self._note = note

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, key: Any) -> Any:
        """Return the entry of a name, or the name at a position."""
        if isinstance(key, str):
            return self._entries[check_names(key, tuple(self._entries), "name", type(self).__name__)]
        return list(self._entries)[key]

    def records(self) -> list[dict[str, Any]]:
        """Return one dictionary of declared properties per entry."""
        return [self._record(name, entry) for name, entry in self._entries.items()]

    def to_frame(self) -> pl.DataFrame:
        """Return the declared properties as a Polars frame, one row per entry."""
        frame: pl.DataFrame = require("polars", "polars", "a frame").DataFrame(self.records(), infer_schema_length=None)
        return frame

    def to_text(self) -> str:
        """Return the table."""
        rows = [[head for head, _ in self._columns]]
        rows += [[cell(record) for _, cell in self._columns] for record in self.records()]
        return "\n".join(table(rows))

    def __repr__(self) -> str:
        return "\n".join([self.to_text(), *([self._note] if self._note else [])])
