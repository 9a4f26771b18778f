"""The table of methods, read from what each class declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import calibrant.calibrators as room
from calibrant.core.inputs import check_names

if TYPE_CHECKING:
    import polars as pl

    from calibrant.calibrators._base import Calibrator


class CalibratorList(Sequence[str]):
    """Class names of the methods; `str()` and `to_frame()` show what each declares."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: Any) -> Any:
        return self._names[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def records(self) -> list[dict[str, Any]]:
        """One dictionary of declared properties per method."""
        return [_record(name) for name in self._names]

    def to_frame(self) -> pl.DataFrame:
        """Return the declared properties as a Polars frame, one row per method."""
        import polars as pl

        return pl.DataFrame(self.records(), infer_schema_length=None)

    def __str__(self) -> str:
        columns = ("name", "short_name", "argmax", "order", "injective", "saturates", "parameters", "loss", "exports")
        table = [columns]
        for record in self.records():
            count = record["n_parameters_10"]
            table.append((
                record["name"], record["short_name"],
                *("yes" if record[key] else "-" for key in
                  ("preserves_argmax", "preserves_order", "injective", "may_saturate")),
                "grows" if count is None else str(count), record["default_loss"], ", ".join(record["exports"]) or "-",
            ))
        widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                 for row in table]
        return "\n".join([*lines, "(parameters: free numbers at 10 classes; grows = with the rows)"])

    __repr__ = __str__


def _record(name: str) -> dict[str, Any]:
    method = getattr(room, name)
    count = method.n_parameters(10)
    return {
        "name": name, "short_name": method.short_name, "title": method.title,
        "preserves_argmax": method.preserves_argmax, "preserves_order": method.preserves_order,
        "injective": method.injective, "may_saturate": method.may_saturate,
        "n_parameters_10": None if count == float("inf") else int(count),
        "default_loss": method.default_loss, "exports": list(method.exports),
        "paper": method.paper, "when": method.when,
    }


def find_short_name(name: str, caller: str) -> type[Calibrator]:
    """Return the class that declares this short name, or say which exist."""
    found: dict[str, type[Calibrator]] = {}
    for class_name in room.CALIBRATORS:
        method = getattr(room, class_name)
        found[method.short_name] = method
    return found[check_names(name, tuple(found), "method", caller)]
