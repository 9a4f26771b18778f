"""What the files of one scan hold, schema first: types are widened, and files that do not fit together are named.

Schemas are read by Polars whatever engine works on the rows afterwards, so that all engines see the same columns, the
same types and the same keys of partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibrant.engines.partitions import partition_types, partition_values
from calibrant.engines.polars import open_files
from calibrant.engines.tables import table_files
from calibrant.errors import CalibrantError, FileError
from calibrant.io.layout import Columns, Layout, table_fields
from calibrant.io.paths import expand
from calibrant.io.resolver import refuse_wide, resolve
from calibrant.io.scale import tolerance_of

__all__ = ["FileGroup", "Scan", "join_types", "open_session", "read_scan"]

_log = logging.getLogger("calibrant.scan")
#: Formats without types of their own: those that were found are told to every engine.
_UNTYPED = ("csv", "tsv", "jsonl")
#: Files an error names at most.
_NAMED = 3
_HINT = "move these files elsewhere, or name the ones that belong together"


@dataclass(frozen=True)
class FileGroup:
    """Files with the same columns of the same types: one scan of an engine."""

    files: tuple[str, ...]
    schema: dict[str, Any]


@dataclass(frozen=True)
class Scan:
    """The files of a path, pattern, directory or table, in groups of one schema.

    Attributes
    ----------
    source : str
        What the user named.
    kind : str
        Format of the files.
    groups : tuple of FileGroup
        In the order of their first files.
    types : dict
        Every column with its widened Polars type.
    partitions : dict
        Columns that the directories name (``day=2026-11-15``), with their types.
    skipped : tuple of str
        Files that could not be read and were left out.
    conflicts : dict
        Columns whose types cannot be joined, with two files that show it.
    """

    source: str
    kind: str
    groups: tuple[FileGroup, ...]
    types: dict[str, Any]
    partitions: dict[str, Any]
    skipped: tuple[str, ...] = ()
    conflicts: dict[str, str] | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return tuple(name for group in self.groups for name in group.files)

    def check(self, layout: Layout, by: Sequence[str] = (), *, every: bool = False) -> None:
        """Refuse files whose columns play other roles than those of the first; `every` column counts for `apply`."""
        first: tuple[FileGroup, Columns] | None = None
        for group in self.groups:
            fields = table_fields({**group.schema, **self.partitions})
            known = {**group.schema, **self.partitions}
            columns = [name if name in known else name.split(".")[0] for name in by]  # or fields of nested columns
            found = resolve(fields, layout, columns, source=group.files[0])
            refuse_wide(found)  # before an engine sees them: its time grows with their square
            if first is None:
                first = group, found
            else:
                self._same_roles(*first, group, found)
        used = first[1].used if first is not None and not every else tuple(self.types)
        for name in used:
            if name in (self.conflicts or {}):
                raise FileError((self.conflicts or {})[name], hint=_HINT)

    def _same_roles(self, one: FileGroup, mine: Columns, other: FileGroup, yours: Columns) -> None:
        for what, a, b in (
            ("form", mine.kind, yours.kind),
            ("scores", sorted(mine.scores), sorted(yours.scores)),
            ("space", mine.space, yours.space),
            ("label", mine.label, yours.label),
            ("weight", mine.weight, yours.weight),
        ):
            if a != b:
                shown = [", ".join(v) if isinstance(v, list) else str(v or "none") for v in (a, b)]
                raise FileError(
                    f"{self.source} holds files that do not fit together: {what} {shown[0]} in {_names(one.files)}, "
                    f"{shown[1]} in {_names(other.files)}",
                    hint=_HINT,
                )

    def tolerance(self, names: Sequence[str]) -> float:
        """Return how far probabilities may miss their bounds: as far as the least precise file declares."""
        return max(tolerance_of([group.schema.get(name) for name in names]) for group in self.groups)

    def open(self, module: Any, master: str = "local[*]", session: Any = None, path_column: str | None = None) -> Any:
        """Return one lazy frame over all files, with widened types and the columns of partitions.

        Frames that meet in one query share a `session` of the engine; `path_column` gets the file of each row.
        """
        import narwhals.stable.v2 as nw

        session = session or open_session(module, master)
        untyped = self.kind in _UNTYPED
        frames = [
            module.open_files(
                list(group.files),
                self.kind,
                master,
                types={name: self.types[name] for name in group.schema} if untyped else group.schema,
                partitions=self.partitions,
                session=session,
                path_column=path_column,
            )
            for group in self.groups
        ]
        if len(frames) == 1:
            names = [*self.groups[0].schema, *self.partitions, *([path_column] if path_column else [])]
            return frames[0] if not self.partitions or _columns(frames[0]) == names else _select(frames[0], names)
        wanted = _narwhals({**self.types, **self.partitions})
        parts = []
        for frame, group in zip(frames, self.groups, strict=True):
            table = nw.from_native(frame)
            have = table.collect_schema()
            columns = []
            for name, dtype in wanted.items():
                if name in (self.conflicts or {}):
                    continue
                if name not in have:
                    columns.append(nw.lit(None).cast(dtype).alias(name))
                else:
                    same = untyped or group.schema.get(name) == self.types.get(name) or name in self.partitions
                    columns.append(nw.col(name) if same else nw.col(name).cast(dtype))
            parts.append(table.select(*columns, *([nw.col(path_column)] if path_column else [])))
        return nw.concat(parts, how="vertical").to_native()

    def without(self, bad: Sequence[str]) -> Scan:
        """Return the scan without some files, which count as skipped."""
        gone = set(bad)
        groups = [replace(g, files=tuple(f for f in g.files if f not in gone)) for g in self.groups]
        kept = tuple(group for group in groups if group.files)
        if not kept:
            raise FileError(f"{self.source} has no file that can be read", hint="write the files again")
        return replace(self, groups=kept, skipped=(*self.skipped, *bad))

    def damaged(self, names: Sequence[str]) -> list[str]:
        """Read these columns of every file and return the files that fail, after a query over all of them did."""
        import polars as pl

        bad = []
        for group in self.groups:
            chosen = [name for name in names if name in group.schema]
            for name in group.files:
                try:
                    frame = open_files([name], self.kind, types=group.schema)
                    frame.select(pl.col(chosen).count()).collect(engine="streaming")
                except Exception:  # any reader's complaint
                    bad.append(name)
        return bad


def read_scan(source: str | Path, *, skip_bad: bool = False) -> Scan:
    """Read the schemas of all files that a path, pattern, directory or table names."""
    found = table_files(source)
    files, kind = expand(source) if found is None else found
    known: list[tuple[str, dict[str, Any]]] = []
    skipped = []
    for name in files:
        try:
            known.append((name, _schema(name, kind)))
        except Exception as error:
            text = " ".join(str(error).split())
            if not skip_bad:
                if isinstance(error, CalibrantError):
                    raise
                raise FileError(
                    f"{name} cannot be read: {text[:300]}", hint="write it again, or leave it out with {skip_bad_files}"
                ) from error
            _log.warning("skipped %s: %s", name, text[:300])
            skipped.append(name)
    if not known:
        raise FileError(f"{source} has no file that can be read", hint="write the files again")
    partitions = partition_types({name: partition_values(name) for name, _ in known}, str(source))
    types: dict[str, Any] = {}
    where: dict[str, str] = {}
    conflicts: dict[str, str] = {}
    for name, schema in known:
        for column, dtype in schema.items():
            if types.get(column) == dtype:
                continue
            joined = dtype if column not in types else join_types(types[column], dtype, text=kind in _UNTYPED)
            if joined is None:
                conflicts.setdefault(
                    column,
                    f"{source} holds files whose column {column!r} does not fit together: {types[column]} in "
                    f"{where[column]}, {dtype} in {name}",
                )
                continue
            types[column] = joined
            where[column] = name
    groups: dict[tuple[Any, ...], list[str]] = {}
    schemas: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, schema in known:
        plain = {column: dtype for column, dtype in schema.items() if column not in partitions}
        key = tuple(plain) if kind in _UNTYPED else tuple((c, str(t)) for c, t in plain.items())
        groups.setdefault(key, []).append(name)
        schemas.setdefault(key, plain)
    _log.info("%s: %d files, %d schemas", source, len(known), len(groups))
    return Scan(
        str(source),
        kind,
        tuple(FileGroup(tuple(names), schemas[key]) for key, names in groups.items()),
        {column: dtype for column, dtype in types.items() if column not in partitions},
        partitions,
        tuple(skipped),
        conflicts,
    )


def _schema(name: str, kind: str) -> dict[str, Any]:
    if kind == "parquet":
        import polars as pl

        return dict(pl.scan_parquet(name, glob=False).collect_schema())
    frame = open_files([name], kind)
    found = dict(frame.collect_schema())
    if kind in _UNTYPED and any(str(dtype) == "String" for dtype in found.values()):
        import polars as pl

        # a column without a value has no type yet
        texts = [column for column, dtype in found.items() if str(dtype) == "String"]
        head = frame.select(pl.col(texts).is_not_null().any()).collect().row(0, named=True)
        found |= {column: pl.Null() for column in texts if not head[column]}
    return found


def join_types(one: Any, two: Any, *, text: bool = False) -> Any:
    """Return the type that holds the values of both, or None; in files of `text` numbers and words are words.

    Examples
    --------
    >>> import polars as pl
    >>> join_types(pl.Float32(), pl.Float64()), join_types(pl.Int32(), pl.Int64()), join_types(pl.Int8(), pl.String())
    (Float64, Int64, None)
    """
    import polars as pl

    if two in (one, pl.Null):
        return one
    if one == pl.Null:
        return two
    words = (pl.String, pl.Categorical, pl.Enum)
    kinds = [type(dtype) for dtype in (one, two)]
    if all(kind in words for kind in kinds):
        return pl.String()
    if text and pl.String in kinds:
        return pl.String()
    if all(kind is pl.Decimal for kind in kinds):
        return pl.Decimal(38, max(one.scale, two.scale))
    numbers = [dtype.is_numeric() or dtype == pl.Boolean for dtype in (one, two)]
    if all(numbers):
        if all(dtype.is_integer() or dtype == pl.Boolean for dtype in (one, two)):
            return pl.Int64()
        return pl.Float32() if all(kind in (pl.Float16, pl.Float32) for kind in kinds) else pl.Float64()
    if all(kind in (pl.List, pl.Array) for kind in kinds):
        inner = join_types(one.inner, two.inner)
        return None if inner is None else pl.List(inner)
    if all(kind is pl.Datetime for kind in kinds) and (one.time_zone is None) == (two.time_zone is None):
        return pl.Datetime("us", one.time_zone and "UTC")
    return None


def _columns(frame: Any) -> list[str]:
    return list(frame.collect_schema() if hasattr(frame, "collect_schema") else frame.columns)


def _select(frame: Any, names: Sequence[str]) -> Any:
    """Return the columns of a native frame in one order, whatever they are called."""
    if hasattr(frame, "sparkSession"):
        return frame.select(*("`" + name.replace("`", "``") + "`" for name in names))
    import narwhals.stable.v2 as nw

    return nw.from_native(frame).select(*names).to_native()


def open_session(module: Any, master: str = "local[*]") -> Any:
    """Return a session of an engine, None where it has none."""
    connect = getattr(module, "connect", None)
    return None if connect is None else connect(master)


def _narwhals(types: dict[str, Any]) -> dict[str, Any]:
    import narwhals.stable.v2 as nw
    import polars as pl

    return dict(nw.from_native(pl.DataFrame(schema=types)).schema)


def _names(files: Sequence[str]) -> str:
    shown = ", ".join(files[:_NAMED])
    return f"{shown} and {len(files) - _NAMED} more" if len(files) > _NAMED else shown
