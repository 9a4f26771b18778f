"""A directory of daily summaries: one file per day, linked into place when it is complete, never changed."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from calibrant.core.atomic import explained, sweep, temporary_name
from calibrant.core.options import check_path
from calibrant.core.weights import observations
from calibrant.errors import FileError, input_error
from calibrant.summary.summary import Summary

__all__ = ["DEFAULTS", "FAMILY", "Day", "Store", "date_of", "link"]

SCHEMA = 1
_SETTINGS = "store.json"
#: Gives the summary of a day, fit for the days of the store, and its small numbers.
Made = Callable[[], tuple[Summary, dict[str, Any]]]
#: How the names of temporary files begin.
_SHORT = ".day."
#: Settings of a store that is made without a wish.
DEFAULTS: dict[str, Any] = {"alpha": 0.01, "tolerance": 0.0, "view": "judged"}
#: Folder of the stores of many models.
FAMILY = "models"
_DATE = re.compile(r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})(?:[T_ ]?(\d{2}):?(\d{2})?)?(?!\d)")


@dataclass(frozen=True)
class Day:
    """One entry: its name, its place in time, and the small numbers that charts and tests need."""

    number: int
    name: str
    n: int
    facts: dict[str, Any]
    path: Path
    #: When the predictions were made, in ISO form; a late day takes its place by it.
    date: str | None = None

    def summary(self) -> Summary:
        """Read the whole summary."""
        try:
            data = self.path.read_bytes()
            return Summary.from_bytes(data[data.index(b"\n") + 1 :])
        except FileError as error:  # it names no file
            raise FileError(f"{self.path}: {error.problem}", hint=error.hint) from error
        except (OSError, LookupError, TypeError, ValueError) as error:
            raise _damaged(self.path, error) from error


def _damaged(path: Path, error: Exception) -> FileError:
    why = " ".join(str(error).split())[:200]
    return FileError(f"{path} is damaged ({why})", hint="restore it from a copy, or remove it and add the day again")


def date_of(name: str) -> str | None:
    """Return the date that a name holds, in ISO form.

    Examples
    --------
    >>> date_of("logs-2026-11-15"), date_of("20261115T0600"), date_of("monday")
    ('2026-11-15', '2026-11-15T06:00', None)
    """
    found = _DATE.search(name)
    if found is None:
        return None
    year, month, day, hour, minute = found.groups()
    try:
        plain = dt.date(int(year), int(month), int(day)).isoformat()
        return plain if hour is None else f"{plain}T{dt.time(int(hour), int(minute or 0)).isoformat('minutes')}"
    except ValueError:
        return None


def is_store(path: Any) -> bool:
    """Return whether a store was begun at a path."""
    return (Path(check_path(path, "store", "monitor")) / _SETTINGS).exists()


class Store:
    """Days in the order they were added; survives a kill at any moment and two writers at once.

    A day is written to a temporary file, then linked to the next free number: the link either
    happens whole or not at all, and of two writers one has to take the next number.

    Parameters
    ----------
    path : str or Path
        The directory; made if it is not there.
    settings : dict, optional
        Kept with the store at its creation, default `DEFAULTS`; a later different wish is refused.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any] | None = None) -> None:
        self.path = Path(check_path(path, "store", "monitor"))
        if self.path.exists() and not self.path.is_dir():
            raise FileError(f"{self.path} is a file, not a store. Hint: name a directory.")
        self.path.mkdir(parents=True, exist_ok=True)
        sweep(self.path, _SHORT)
        target = self.path / _SETTINGS
        if not target.exists():
            found = [p for p in self.path.iterdir() if p.suffix not in (".part", ".tmp")]
            other = [p for p in found if p.name not in (FAMILY, _SETTINGS)]  # another writer may just have made them
            if other and not any(p.suffix == ".day" for p in other):
                raise FileError(f"{self.path} holds other files and is not a store. Hint: name a new directory.")
            link(json.dumps({"schema": SCHEMA, **(DEFAULTS if settings is None else settings)}).encode(), target)
        self.settings = self._read_settings(target)
        for name, value in (settings or {}).items():
            if self.settings.get(name) != value:
                rule = f"stay {self.settings.get(name)!r}, as this store was made"
                raise input_error(name, "monitor", rule, repr(value), "leave it out, or start a new store")

    def _read_settings(self, target: Path) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
            if not isinstance(found, dict) or not isinstance(found.get("schema", 0), int):
                raise TypeError("it holds no settings")
        except (OSError, RecursionError, TypeError, ValueError) as error:
            raise FileError(f"{target} cannot be read ({error}). Hint: restore it or start a new store.") from error
        if found.get("schema", 0) > SCHEMA:
            raise FileError(
                f"{target} has schema {found['schema']}; this version reads up to {SCHEMA}. Hint: update calibrant."
            )
        return found

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let writers of several days take turns, where the system has locks; a lock ends with its process."""
        with (self.path / _SETTINGS).open("rb") as file:
            with suppress(ImportError, OSError):
                locks = import_module("fcntl")
                locks.flock(file, locks.LOCK_EX)
            yield

    def days(self) -> list[Day]:
        """Return all days in the order in which they arrived; a day that was replaced keeps its place."""
        found: dict[str, Day] = {}
        for path in sorted(self.path.glob("[0-9]*.day")):
            day = self._read_day(path)
            known = found.get(day.name)
            found[day.name] = day if known is None else replace(day, number=known.number)
        return list(found.values())

    def ordered(self) -> list[Day]:
        """Return all days by their dates; one without a date stands after those that arrived before it."""
        latest = ""
        keys = {}
        for day in self.days():
            latest = day.date or latest
            keys[day.name] = (day.date or latest, day.number), day
            latest = max(latest, max((key[0] for key, _ in keys.values()), default=""))
        return [day for _, day in sorted(keys.values(), key=lambda item: item[0])]

    def _read_day(self, path: Path) -> Day:
        try:
            with path.open("rb") as file:
                line = file.readline()
            check, _, text = line.rstrip(b"\n").partition(b" ")
            if len(check) != 8 or int(check, 16) != zlib.crc32(text):
                raise ValueError("its checksum does not match")
            head = json.loads(text)
            name, n, facts, date = head["name"], head["n"], head["facts"], head.get("date")
            gains, values, _ = facts["gains"], facts["values"], facts["restart"]
            rejected = facts.get("rejected", {})
            known = isinstance(name, str) and isinstance(n, int) and isinstance(date, str | None)
            if not (known and isinstance(gains, list) and isinstance(values, dict) and isinstance(rejected, dict)):
                raise TypeError("its head is none of a day")
            return Day(int(path.stem), name, n, facts, path, date or date_of(name))
        except (OSError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise _damaged(path, error) from error

    def twin(self, name: str, summary: Summary, *, replace_day: bool = False) -> Day | None:
        """Return the day of this name if it holds the same rows; other rows are refused unless they replace it."""
        found = next((day for day in self.days() if day.name == name), None)
        if found is None or found.summary().same_rows(summary):
            return found
        if not replace_day:
            rule, hint = "be new", "give the day its own name with {name}, or {replace} the day"
            raise input_error("name", "monitor", rule, f"{name!r}, which the store holds with other predictions", hint)
        return None

    def add(self, name: str, made: Made, *, date: str | None = None, replace_day: bool = False) -> Day:
        """Append a day; adding the same rows again changes nothing, other rows are refused unless they replace it."""
        while True:  # made for the days that are there, and again where another writer took the next number meanwhile
            files = sorted(self.path.glob("[0-9]*.day"))
            summary, facts = made()
            twin = self.twin(name, summary, replace_day=replace_day)
            if twin is not None and twin.facts["restart"] >= facts["restart"]:  # else it starts anew with rows it has
                return twin
            head = {"schema": SCHEMA, "name": name, "n": observations(summary), "facts": facts, "date": date}
            text = json.dumps(head, ensure_ascii=True).encode()
            data = f"{zlib.crc32(text):08x} ".encode() + text + b"\n" + summary.to_bytes()
            number = int(files[-1].stem) + 1 if files else 1
            if link(data, self.path / f"{number:08d}.day"):
                return next(day for day in self.days() if day.name == name)


def link(data: bytes, target: Path) -> bool:
    """Put data under a name that must be free; all or nothing.

    A link, not the rename of `calibrant.core.atomic`: two writers of one day must not replace each other.
    """
    temporary = temporary_name(target.parent, _SHORT)
    try:
        with explained(target.parent, temporary):
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except OSError:  # a file system without hard links: rename, after a last look
                if target.exists():
                    return False
                temporary.replace(target)
            return True
    finally:
        temporary.unlink(missing_ok=True)
