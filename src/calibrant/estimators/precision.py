"""How far a value from cells may be from the value from rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.core.tables import Table
from calibrant.views import View

__all__ = ["EXACT", "Precision", "placed", "within"]


@dataclass(frozen=True)
class Precision:
    """How far a value from cells may be from the value from rows: `bound` 0 is exact, None has no useful bound."""

    bound: float | None
    sentence: str


EXACT = Precision(0.0, "exact")


def placed(tables: Sequence[Table]) -> Precision:
    """Say that scores are known to a cell."""
    grid = max(table.grid for table in tables)
    return Precision(None, f"approximate: scores are placed to the width of a cell ({1 / grid:.1g})")


def within(view: View, errors: Sequence[float]) -> Precision:
    """Say that a value lies within the joined bounds of its groups."""
    bound = float(view.join(np.array(errors)))
    return Precision(bound, f"from cells: within {bound:.2g} of the value from rows")
