"""The table of methods, read from what each class declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from calibrant.core.catalog import Listing

if TYPE_CHECKING:
    from calibrant.calibrators._common import BaseCalibrator

__all__ = ["CalibratorList"]


def _yes(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda record: "-" if not record[key] else "yes"


def _size(record: dict[str, Any]) -> str:
    return "grows" if record["n_parameters_10"] is None else str(record["n_parameters_10"])


def _text(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda record: str(record[key])


#: Columns of the printed table, by task.
_COLUMNS: dict[str, tuple[tuple[str, Callable[[dict[str, Any]], str]], ...]] = {
    "classes": (
        ("name", _text("name")),
        ("short_name", _text("short_name")),
        ("argmax", _yes("preserves_argmax")),
        ("order", _yes("preserves_order")),
        ("injective", _yes("injective")),
        ("saturates", _yes("may_saturate")),
        ("parameters", _size),
        ("loss", _text("default_loss")),
        ("exports", lambda record: ", ".join(record["exports"]) or "-"),
    ),
    "regression": (
        ("name", _text("name")),
        ("short_name", _text("short_name")),
        ("mean kept", _yes("keeps_mean")),
        ("injective", _yes("injective")),
        ("parameters", _size),
        ("loss", _text("default_loss")),
        ("title", _text("title")),
    ),
}


class CalibratorList(Listing):
    """Class names of the methods; ``[name]`` gives the class, `to_frame()` shows what each declares.

    Names that two tasks have come once; the frame has a row for both.
    """

    def __init__(self, by_task: Mapping[str, Mapping[str, type[BaseCalibrator]]], note: str = "") -> None:
        entries: dict[str, type[BaseCalibrator]] = {}
        for classes in by_task.values():
            for name, kind in classes.items():
                entries.setdefault(name, kind)
        self._classes = [kind for classes in by_task.values() for kind in classes.values()]
        task = next(iter(by_task)) if len(by_task) == 1 else None
        every = (
            ("name", _text("name")),
            ("task", _text("task")),
            ("short_name", _text("short_name")),
            ("injective", _yes("injective")),
            ("parameters", _size),
            ("title", _text("title")),
        )
        super().__init__(entries, _record, every if task is None else _COLUMNS[task], note)

    def records(self) -> list[dict[str, Any]]:
        """Return one dictionary of declared properties per method."""
        return [_record(kind.__name__, kind) for kind in self._classes]


def _record(name: str, kind: type[BaseCalibrator]) -> dict[str, Any]:
    count = kind.count_parameters(10)
    return {
        "name": name,
        "task": kind.task,
        "short_name": kind.short_name,
        "title": kind.title,
        "preserves_argmax": getattr(kind, "preserves_argmax", None),
        "preserves_order": getattr(kind, "preserves_order", None),
        "keeps_mean": getattr(kind, "keeps_mean", None),
        "injective": kind.injective,
        "may_saturate": getattr(kind, "may_saturate", None),
        "n_parameters_10": None if count == float("inf") else int(count),
        "default_loss": kind.default_loss,
        "exports": list(kind.exports),
        "paper": kind.paper,
        "when": kind.when,
    }
