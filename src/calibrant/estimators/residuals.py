"""Sizes of the residuals t − s themselves: their path, their norm in a kernel space, their smoothed sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.cells import gaps, hidden_path, mean_gap
from calibrant.core.curves import smooth_error
from calibrant.core.inputs import Forecast
from calibrant.core.kernels import laplace_sum
from calibrant.core.options import check_positive
from calibrant.core.parallel import row_chunks
from calibrant.core.tables import Pairs, Table, even_cells
from calibrant.estimators.estimator import Estimator, Noise, State, over_replicates, row_tables
from calibrant.estimators.precision import Precision, within
from calibrant.views import View

#: Cells of a kernel norm in an interval, whose matrix grows with their square.
_KERNEL_CELLS = 150


@dataclass(frozen=True)
class Cumulative(Estimator):
    """Kolmogorov–Smirnov error: max_σ |Σ_{s_i ≤ σ}(t_i − s_i)|/n (Gupta et al. 2021, eq. 11–12)."""

    has_norm: ClassVar[bool] = False
    is_path: ClassVar[bool] = True

    def precision(self, view: View, tables: Sequence[Table]) -> Precision:
        """Bound what the path does inside a cell."""
        bound = float(view.join(np.array([hidden_path(table) for table in tables])))
        return Precision(bound, f"from cells: at most {bound:.2g} below the value from rows")

    def joint_cells(self, grid: int) -> int | None:  # noqa: ARG002 -- on any grid
        """Say that every cell is a step of the path."""
        return None

    def noise(self, norm: float, root: bool) -> Noise | None:  # noqa: ARG002 -- has no norm
        """Return the supremum of a path."""
        return Noise.PATH

    def table_power(self, table: Table, norm: float) -> Floats:  # noqa: ARG002 -- has no norm
        """Return the largest absolute cumulative difference."""
        if table.wt.ndim == 1:
            return np.asarray(max(cumulative_extent(table.wt, table.ws)) / table.total)
        path = np.cumsum(table.wt - table.ws, axis=-1)
        return np.asarray(np.maximum(path.max(axis=-1), -path.min(axis=-1)) / table.total)


@dataclass(frozen=True)
class PathRange(Cumulative):
    """Kuiper error: range of the path, max_σ C(σ) − min_σ C(σ), C = Σ_{s_i ≤ σ}(t_i − s_i)/n and C = 0 at the start.

    Errors of opposite sign that cancel in the supremum add up here (Arrieta-Ibarra et al. 2022, ECCE-R).
    """

    is_path: ClassVar[bool] = False

    def precision(self, view: View, tables: Sequence[Table]) -> Precision:
        """Bound what the path does inside a cell, at both ends of its range."""
        bound = 2.0 * float(view.join(np.array([hidden_path(table) for table in tables])))
        return Precision(bound, f"from cells: at most {bound:.2g} below the value from rows")

    def noise(self, norm: float, root: bool) -> Noise | None:  # noqa: ARG002 -- has no norm
        """Return None: no interval of the range is verified."""
        return None

    def table_power(self, table: Table, norm: float) -> Floats:  # noqa: ARG002 -- has no norm
        """Return the range of the cumulative differences, 0 at the start included."""
        if table.wt.ndim == 1:
            return np.asarray(sum(cumulative_extent(table.wt, table.ws)) / table.total)
        path = np.cumsum(table.wt - table.ws, axis=-1)
        high, low = np.maximum(path.max(axis=-1), 0.0), np.minimum(path.min(axis=-1), 0.0)
        return np.asarray((high - low) / table.total)


@dataclass(frozen=True)
class Kernel(Estimator):
    """MMCE: sqrt(Σ_ij d_i d_j exp(−|s_i − s_j|/width))/n with d = t − s (Kumar et al. 2018), in O(n log n).

    On sorted scores the Laplace kernel factorizes, so the double sum is one running sum.
    """

    width: float = 0.4
    has_norm: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive(self.width, "width", "Kernel")

    def precision(self, view: View, tables: Sequence[Table]) -> Precision:
        """Bound the change when rows move within their cells."""
        grid = max(table.grid for table in tables)
        factor = math.sqrt(2.0 / (grid * self.width))  # ‖k(s) − k(s')‖² = 2 − 2e^{−|s − s'|/width}
        return within(view, [factor * mean_gap(table) for table in tables])

    def noise(self, norm: float, root: bool) -> Noise | None:  # noqa: ARG002 -- has no norm
        """Return a norm in the kernel's space."""
        return Noise.KERNEL

    def noise_cells(self, pairs: Pairs) -> tuple[Ints, int]:
        """Return fewer cells than for a path: their matrix is square."""
        return even_cells(pairs, _KERNEL_CELLS)

    def gram(self, scores: Floats) -> Floats:
        """Return exp(−|s − s'|/width)."""
        return np.asarray(np.exp(-np.abs(scores[:, None] - scores[None, :]) / self.width))

    def table_power(self, table: Table, norm: float) -> Floats:  # noqa: ARG002 -- has no norm
        """Return the root of the kernel double sum."""
        return np.sqrt(np.maximum(laplace_sum(table.score, table.wt - table.ws, self.width), 0.0)) / table.total


@dataclass(frozen=True)
class Smooth(Estimator):
    """smECE (Błasiok & Nakkiran 2023): residuals smoothed by a reflected Gaussian whose width equals the error."""

    grid: int = 2**13
    has_norm: ClassVar[bool] = False

    def fill(self, forecast: Forecast, view: View) -> State:
        """Return one table per group whose rows are the pairs: a grid needs neither order nor pooled ties."""
        return row_tables(forecast, view)

    def precision(self, view: View, tables: Sequence[Table]) -> Precision:
        """Bound the change of the fixed point when rows move within their cells."""
        return within(view, [self._bound(table) for table in tables])

    def _bound(self, table: Table) -> float:
        """Largest change of the fixed point σ = f(σ), f non-increasing.

        A score moved by d (its cell and a step of the estimator's grid) moves a Gaussian of width σ by at most
        d·√(2/π)/σ in the integral of |·|, so f by c/σ: the fixed point falls by at most x = c/(σ − x), rises by c/σ.
        """
        if not len(table):
            return 0.0
        gap, width = gaps(table)
        moved = np.where(width > 0, width + 1.0 / self.grid, 0.0)
        c = math.sqrt(2 / math.pi) * float(gap @ moved) / table.total
        sigma = float(self.table_power(table, 1.0))
        if sigma * sigma >= 4 * c:
            return (sigma - math.sqrt(sigma * sigma - 4 * c)) / 2
        return min(max(sigma, c / sigma), 1.0) if sigma > 0 else 1.0

    def table_power(self, table: Table, norm: float) -> Floats:  # noqa: ARG002 -- has no norm
        """Return the fixed point σ = smECE_σ."""

        def one(wt: Floats) -> float:
            return smooth_error(table.score, (wt - table.ws).__getitem__, self.grid, table.total)

        return over_replicates(one, table.wt)


def cumulative_extent(wt: Floats, ws: Floats) -> tuple[float, float]:
    """Return how far the running sum of wt − ws rises above 0 and falls below it."""
    high = low = running = 0.0
    for rows in row_chunks(len(wt)):
        path = np.cumsum(wt[rows] - ws[rows])
        path += running
        high, low, running = max(high, float(path.max())), min(low, float(path.min())), float(path[-1])
    return high, -low
