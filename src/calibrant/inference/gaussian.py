"""Sampling noise of cell means as a Gaussian: the joint law behind the intervals of calibration errors.

A calibration error is a function of m_c = E[(t − s)·1(cell c)]; with many rows the estimate is m + h with h
Gaussian. Drawing h costs two normals per cell instead of a bootstrap of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._typing import Floats
from calibrant.core.tables import Pairs


@dataclass(frozen=True, slots=True)
class CellSums:
    """Per cell: count, Σd, Σd² and Σd³ with d = t − s, empty cells left out, and the total count."""

    w: Floats
    d: Floats
    d2: Floats
    d3: Floats
    total: float

    @property
    def mean(self) -> Floats:
        """m_c = Σd/W of each cell."""
        return self.d / self.total

    def path_skewness(self) -> Floats:
        """Skewness of d·1(cell ≤ c) over all rows, for every c: how lopsided the noise of the cumulative path is."""
        first, second, third = (np.cumsum(x) / self.total for x in (self.d, self.d2, self.d3))
        variance = second - first**2
        return np.where(
            variance > 0, (third - 3 * first * second + 2 * first**3) / np.maximum(variance, 1e-300) ** 1.5, 0.0
        )


def cell_sums(pairs: Pairs, index: Floats, m: int) -> CellSums:
    """Collect residuals by cell."""
    weight = np.ones(len(index)) if pairs.weight is None else pairs.weight
    d = pairs.outcome - pairs.score.astype(np.float64)
    w = np.bincount(index, weight, m)
    kept = w > 0
    return CellSums(
        w[kept],
        np.bincount(index, weight * d, m)[kept],
        np.bincount(index, weight * d * d, m)[kept],
        np.bincount(index, weight * d**3, m)[kept],
        float(weight.sum()),
    )


def draw_noise(cells: CellSums, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw the noise of m_c and of the cell shares w_c/W, `size` times each: shape (size, cells).

    Equals the law of Gaussian multipliers on rows: within a cell the sums of ξ and of ξ·d are jointly normal.
    """
    count = np.sqrt(cells.w) * rng.standard_normal((size, len(cells.w)))
    left = np.sqrt(np.maximum(cells.d2 - cells.d**2 / cells.w, 0.0))
    residual = cells.d / cells.w * count + left * rng.standard_normal((size, len(cells.w)))
    everything = count.sum(axis=1, keepdims=True)
    share = (count - cells.w / cells.total * everything) / cells.total
    return (residual - cells.mean * everything) / cells.total, share
