"""Private names: whatever the columns of a user are called, a query sees ``c0``, ``c1`` … and never those names.

A name may hold dots, quotes, backticks or spaces, which engines read as their own signs, or be one of ours (``n``,
``ws``, ``__key``). So columns are renamed once, by position, before any query, and get their names back in what is
returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw

from calibrant.errors import input_error
from calibrant.io.layout import Columns

__all__ = ["Private", "private"]


@dataclass(frozen=True)
class Private:
    """A frame under private names, with its own names and types beside it."""

    table: Any
    schema: Mapping[str, Any]

    @cached_property
    def names(self) -> dict[str, str]:
        """The private name of every column."""
        return {name: f"c{i}" for i, name in enumerate(self.schema)}

    def columns(self, found: Columns) -> Columns:
        """Return the same roles under private names."""
        new: dict[Any, Any] = {"": "", None: None, **self.names}
        return replace(
            found,
            scores=tuple(new[name] for name in found.scores),
            label=new[found.label],
            weight=new[found.weight],
            variance=new[found.variance],
            predicted=new[found.predicted],
            by=tuple(new[name] for name in found.by),
        )

    def restore(self, native: Any, renamed: Mapping[str, str]) -> Any:
        """Return a native frame of the same columns under their own names, or the new names some of them got."""
        table = nw.from_native(native)
        return _rename(table, [renamed.get(name, name) for name in self.schema], list(self.names.values())).to_native()


def private(frame: Any) -> Private:
    """Return a frame under private names.

    Examples
    --------
    >>> import polars as pl
    >>> hidden = private(pl.DataFrame({"a.b": [1], "n": [2]}))
    >>> hidden.names, hidden.table.columns
    ({'a.b': 'c0', 'n': 'c1'}, ['c0', 'c1'])
    """
    table = known_frame(frame)
    schema = dict(table.collect_schema())
    return Private(_rename(table, [f"c{i}" for i in range(len(schema))], list(schema)), schema)


def known_frame(frame: Any) -> Any:
    """Return a frame of any library that is known; another thing is refused by name."""
    try:
        return nw.from_native(frame)
    except TypeError:
        rule = "be a frame of pandas, Polars, PyArrow, DuckDB or Spark"
        raise input_error("frame", "engine", rule, type(frame).__name__, "pass for example a Polars frame") from None


def _rename(table: Any, new: Sequence[str], old: Sequence[str]) -> Any:
    if list(new) == list(old):
        return table
    if table.implementation.is_pyspark():  # by position: a column with a dot in its name cannot be asked for by it
        return nw.from_native(table.to_native().toDF(*new))
    return table.rename(dict(zip(old, new, strict=True)))
