"""Predictions of one view on 240 cells: enough to re-bin exactly in the browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.core.parallel import row_chunks
from calibrant.core.tables import Pairs, sum_by, width_index

GRID = 240
#: Bin counts the slider offers: the divisors of the grid from 5 up to 60.
BIN_COUNTS = tuple(m for m in range(5, 61) if GRID % m == 0)


@dataclass(frozen=True)
class ViewCells:
    """Sums per cell: weight, Σw·s, Σw·t and Σw·s(1 − s)."""

    name: str
    label: str
    w: Floats
    ws: Floats
    wt: Floats
    noise: Floats

    def rebin(self, m: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Collect the cells into `m` equal-width bins."""
        shape = (m, GRID // m)
        w, ws, wt, noise = (a.reshape(shape).sum(axis=1) for a in (self.w, self.ws, self.wt, self.noise))
        return w, ws, wt, noise

    def error(self, m: int) -> float:
        """Return Σ|wt − ws|/W over `m` bins."""
        w, ws, wt, _ = self.rebin(m)
        return float(np.abs(wt - ws).sum() / w.sum())

    def to_json(self) -> dict[str, Any]:
        """Return the occupied cells as plain lists."""
        kept = np.flatnonzero(self.w)
        return {
            "name": self.name,
            "label": self.label,
            "cell": kept.tolist(),
            "w": [float(f"{v:.12g}") for v in self.w[kept]],
            "s": [float(f"{v:.14g}") for v in self.ws[kept]],
            "t": [float(f"{v:.12g}") for v in self.wt[kept]],
            "v": [float(f"{v:.6g}") for v in self.noise[kept]],
        }


def pair_cells(pairs: Pairs, name: str, label: str) -> ViewCells:
    """Collect pairs into the 240 cells."""
    sums = np.zeros((4, GRID))
    for rows in row_chunks(len(pairs.score)):
        index, s = width_index(pairs.score[rows], GRID), pairs.score[rows].astype(np.float64)
        expected = s if pairs.expected is None else pairs.expected[rows]
        weight = np.ones(len(s)) if pairs.weight is None else pairs.weight[rows]
        columns = (weight, weight * s, weight * pairs.outcome[rows], weight * expected * (1 - expected))
        sums += [sum_by(index, column, GRID) for column in columns]
    return ViewCells(name, label, *sums)
