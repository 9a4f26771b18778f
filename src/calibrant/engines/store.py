"""A directory of daily summaries: one file per day, written aside and linked into place, never changed."""

from __future__ import annotations

import json
import os
import secrets
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.engines.summary import Summary
from calibrant.errors import FileError, InputError

__all__ = ["Day", "Store"]

SCHEMA = 1
_SETTINGS = "store.json"


@dataclass(frozen=True)
class Day:
    """One entry: its name, its place in time, and the small numbers that charts and tests need."""

    number: int
    name: str
    n: int
    facts: dict[str, Any]
    path: Path

    def summary(self) -> Summary:
        """Read the whole summary."""
        data = self.path.read_bytes()
        return Summary.from_bytes(data[data.index(b"\n") + 1 :])


class Store:
    """Days in the order they were added; survives a kill at any moment and two writers at once.

    A day is written to a file of its own name aside, then linked to the next free number: the link either
    happens whole or not at all, and of two writers one is told to take the next number.

    Parameters
    ----------
    path : str or Path
        The directory; made if it is not there.
    settings : dict, optional
        Kept with the store at its creation; a later different wish is refused.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any] | None = None) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise FileError(f"{self.path} is a file, not a store. Hint: name a directory.")
        self.path.mkdir(parents=True, exist_ok=True)
        target = self.path / _SETTINGS
        if not target.exists():
            if any(p.suffix != ".aside" for p in self.path.iterdir()) and not list(self.path.glob("*.day")):
                raise FileError(f"{self.path} holds other files and is not a store. Hint: name a new directory.")
            self._link(json.dumps({"schema": SCHEMA, **(settings or {})}).encode(), target)
        self.settings = self._read_settings(target)
        for name, value in (settings or {}).items():
            if self.settings.get(name) != value:
                raise InputError(
                    f"{name} of monitor must stay {self.settings.get(name)!r}, as this store was made; got {value!r}. "
                    "Hint: leave it out, or start a new store."
                )

    def _read_settings(self, target: Path) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileError(f"{target} cannot be read ({error}). Hint: restore it or start a new store.") from error
        if found.get("schema", 0) > SCHEMA:
            raise FileError(
                f"{target} has schema {found['schema']}; this version reads up to {SCHEMA}. Hint: update calibrant."
            )
        return found

    def days(self) -> list[Day]:
        """Return all days in order."""
        return [self._read_day(path) for path in sorted(self.path.glob("[0-9]*.day"))]

    def _read_day(self, path: Path) -> Day:
        with path.open("rb") as file:
            line = file.readline()
        check, _, text = line.rstrip(b"\n").partition(b" ")
        if len(check) != 8 or int(check, 16) != zlib.crc32(text):
            raise FileError(f"{path} is damaged. Hint: restore it from a copy, or remove it and add the day again.")
        head = json.loads(text)
        return Day(int(path.stem), head["name"], head["n"], head["facts"], path)

    def add(self, name: str, summary: Summary, facts: dict[str, Any]) -> Day:
        """Append a day; adding the same day again with the same predictions changes nothing, with others is refused."""
        body = summary.to_bytes()
        head = {"schema": SCHEMA, "name": name, "n": summary.n, "facts": facts}
        text = json.dumps(head, ensure_ascii=True).encode()
        data = f"{zlib.crc32(text):08x} ".encode() + text + b"\n" + body
        while True:
            days = self.days()
            twin = next((day for day in days if day.name == name), None)
            if twin is not None:
                if twin.summary().to_bytes() == body:
                    return twin
                raise InputError(
                    f"name of monitor must be new; got {name!r}, which the store holds with other predictions. "
                    "Hint: give the day its own name with --name."
                )
            number = days[-1].number + 1 if days else 1
            target = self.path / f"{number:08d}.day"
            if self._link(data, target):
                return self._read_day(target)

    def _link(self, data: bytes, target: Path) -> bool:
        """Put data under a name that must be free; all or nothing."""
        aside = self.path / f"{target.stem}-{os.getpid()}-{secrets.token_hex(4)}.aside"
        try:
            with aside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(aside, target)
            except FileExistsError:
                return False
            except OSError:  # a file system without hard links: rename, after a last look
                if target.exists():
                    return False
                aside.replace(target)
            return True
        finally:
            aside.unlink(missing_ok=True)
