"""`measure` and `list_measures`: any declared measure by its short name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calibrant import metrics as _metrics  # noqa: F401  -- importing the room declares every measure
from calibrant._typing import ArrayLike
from calibrant.core.declare import Measure, declared, lookup

__all__ = ["MeasureList", "list_measures", "measure"]


def measure(name: str, y_true: ArrayLike, y_proba: ArrayLike, **params: Any) -> float:
    """Compute any registered measure by its short name.

    Parameters
    ----------
    name : str
        Short name such as ``"ece"``; `list_measures` shows them all.
    y_true, y_proba
        Truth and forecast.
    **params
        Parameters of the measure and of the door (``sample_weight``, ``classes``, ``space``, ``normalize``).

    Examples
    --------
    >>> measure("ks", [1, 0, 1, 1], [0.9, 0.9, 0.6, 0.6])
    0.2
    """
    return lookup(name)(y_true, y_proba, **params)


class MeasureList:
    """The declared measures: iterates short names, prints as a table, `to_frame()` for the rest."""

    def __iter__(self) -> Iterator[str]:
        return (m.name for m in declared())

    def __len__(self) -> int:
        return sum(1 for _ in declared())

    def __contains__(self, name: object) -> bool:
        return any(m.name == name for m in declared())

    def __getitem__(self, name: str) -> Measure:
        return lookup(name)

    def to_frame(self) -> Any:
        """Return one row per measure as a Polars frame."""
        import polars as pl

        keys = (
            "name",
            "function",
            "title",
            "notion",
            "estimates",
            "bound",
            "smaller_is_better",
            "perfect",
            "proper",
            "consistent",
            "state",
            "cost",
            "weakness",
            "paper",
            "since",
        )
        return pl.DataFrame([{key: getattr(m, key) for key in keys} for m in declared()], infer_schema_length=None)

    def __repr__(self) -> str:
        rows = [("measure", "notion", "estimates", "cost")]
        for m in declared():
            side = {"lower": "lower bound of ", "upper": "upper bound of "}.get(m.bound or "", "")
            rows.append((m.name, m.notion, side + m.estimates, m.cost))
        sizes = [max(len(row[i]) for row in rows) for i in range(4)]
        return "\n".join(
            "  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows
        )


def list_measures() -> MeasureList:
    """Return all declared measures.

    Examples
    --------
    >>> "ece" in list_measures()
    True
    """
    return MeasureList()
