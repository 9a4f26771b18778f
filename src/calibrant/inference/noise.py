"""The noise of cell means: residuals collected by cell (and cluster), and draws of their Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.clusters import clustered_error
from calibrant.core.moments import normal_quantile, t_quantile
from calibrant.core.tables import Pairs, sum_by

__all__ = ["CellSums", "cell_sums", "draw_noise"]


@dataclass(frozen=True, slots=True)
class CellSums:
    """Per cell: count, Σd, Σd² and Σd³ with d = t − s, empty cells left out, and the total count."""

    w: Floats
    d: Floats
    d2: Floats
    d3: Floats
    total: float
    #: Σd and the count of every cluster and cell, and how much wider t is than the normal distribution; for clusters.
    by_cluster: tuple[Floats, Floats, float] | None = None

    @property
    def mean(self) -> Floats:
        """m_c = Σd/W of each cell."""
        return self.d / self.total

    def path_skewness(self) -> Floats:
        """Skewness of d·1(cell ≤ c) over all rows, for every c: how lopsided the noise of the cumulative path is."""
        if self.by_cluster is not None:
            return np.zeros(len(self.w))
        first, second, third = (np.cumsum(x) / self.total for x in (self.d, self.d2, self.d3))
        variance = second - first**2
        varies = variance > 1e-15 * second  # below, only rounding
        return np.where(
            varies, (third - 3 * first * second + 2 * first**3) / np.where(varies, variance, 1.0) ** 1.5, 0.0
        )


def cell_sums(pairs: Pairs, index: Ints, m: int, clusters: Ints | None = None) -> CellSums:
    """Collect residuals by cell, and by cluster where there are clusters."""
    weight = np.ones(len(index)) if pairs.weight is None else pairs.weight
    d: Floats = pairs.outcome - pairs.score.astype(np.float64)
    first = weight * d
    second = first * d
    powers = (first, second, second * d)
    w = sum_by(index, weight, m)
    kept = w > 0
    by_cluster = None
    if clusters is not None:
        count = int(clusters.max()) + 1
        joint = clusters * m + index
        rows = np.bincount(joint, weight, count * m).reshape(count, m)[:, kept].astype(np.float64)
        residuals = np.bincount(joint, powers[0], count * m).reshape(count, m)[:, kept].astype(np.float64)
        sizes = rows.sum(axis=1)
        _, freedom = clustered_error(sizes, sizes)
        wider = t_quantile(0.975, freedom) / normal_quantile(0.975) * math.sqrt(count / (count - 1.0))
        by_cluster = (residuals, rows, wider)
    d1, d2, d3 = (sum_by(index, power, m)[kept] for power in powers)
    return CellSums(w[kept], d1, d2, d3, float(weight.sum()), by_cluster)


def draw_noise(cells: CellSums, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw the noise of m_c and of the cell weights w_c/W, `size` times each: shape (size, cells).

    Equals the distribution of Gaussian multipliers on rows: within a cell the sums of ξ and of ξ·d are jointly normal.
    With clusters a multiplier belongs to a whole cluster.
    """
    if cells.by_cluster is not None:
        residuals, rows, wider = cells.by_cluster
        sizes = rows.sum(axis=1, keepdims=True)
        multiplier = wider * rng.standard_normal((size, len(rows)))
        noise = multiplier @ (residuals - sizes * cells.mean) / cells.total
        return noise, multiplier @ (rows - sizes * cells.w / cells.total) / cells.total
    share, noise = both = rng.standard_normal((2, size, len(cells.w)))
    share *= np.sqrt(cells.w)  # in place: new memory costs more than the arithmetic
    noise *= np.sqrt(np.maximum(cells.d2 - cells.d**2 / cells.w, 0.0))
    part = cells.d / cells.w * share
    noise += part
    everything = share.sum(axis=1, keepdims=True)
    noise -= np.multiply(cells.mean, everything, out=part)
    share -= np.multiply(cells.w / cells.total, everything, out=part)
    both /= cells.total
    return noise, share
