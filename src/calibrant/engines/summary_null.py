"""Null distributions from cells: labels drawn with the probability the forecasts give, or the limit law of a path."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import Floats
from calibrant.core.edges import COARSE, PARTS, width_index
from calibrant.core.parallel import map_chunks
from calibrant.core.tables import Bins, Table
from calibrant.engines.cells import mirror
from calibrant.estimators import Binned, Cumulative, Estimator
from calibrant.inference.null import Null, draw_outcomes
from calibrant.metrics.recipes import CalibrationError
from calibrant.views import Classwise, View

if TYPE_CHECKING:
    from calibrant.engines.summary import Summary

__all__ = ["BrownianNull", "null_from_cells", "path_variance"]

#: Cells times replicates worked on at once per thread.
_ENTRIES = 1 << 19
#: Cells times replicates above which neighbouring cells draw their labels together.
_DRAWS = 20_000_000
#: Equal steps of the cumulative path from which its limit law is closer than a thousand replicates.
_STEPS = 5_000


def null_from_cells(
    summary: Summary, recipes: Mapping[str, CalibrationError], n_resamples: int, rng: np.random.Generator
) -> dict[str, Null | BrownianNull]:
    """Resample the outcomes of cells with the probability the forecasts give them; a view's measures share draws."""
    by_view: dict[View, dict[str, CalibrationError]] = {}
    for name, recipe in recipes.items():
        by_view.setdefault(recipe.view, {})[name] = recipe
    out: dict[str, Null | BrownianNull] = {}
    for view, members in by_view.items():
        tables = summary.tables(view)
        if getattr(view, "by", None):
            tables = tuple(table for table in tables if len(table))
        if len(tables) == 1 and _steps(tables[0]) >= _STEPS:
            walks = {name for name, recipe in members.items() if isinstance(recipe.estimator, Cumulative)}
            out.update({name: BrownianNull(tables[0]) for name in walks})
        drawn = {name: recipe for name, recipe in members.items() if name not in out}
        if not drawn:
            continue
        if sum(map(len, tables)) * n_resamples > _DRAWS:
            tables = _coarser(tables, [recipe.estimator for recipe in drawn.values()])
        mirrored = isinstance(view, Classwise) and summary.n_classes == 2 and view.threshold is None
        out.update(_replicates(drawn, tables[1:] if mirrored else tables, mirrored, n_resamples, rng))
    return out


def _steps(table: Table) -> float:
    """Number of equal steps whose path varies like the one through these cells."""
    variance = _cell_variance(table)
    squares = float(variance @ variance)
    return float(variance.sum()) ** 2 / squares if squares > 0 else 0.0


def _coarser(tables: Sequence[Table], estimators: Sequence[Estimator]) -> tuple[Table, ...]:
    """Join neighbouring cells that lie in one bin and close together, so that fewer labels need be drawn.

    The hits of a joined cell are binomial with its mean probability: the mean is exact, the variance too large by the
    spread of the scores inside, at most 1/(4·120²) of a row (1/(4·1 200²) where a measure looks between the bins).
    """
    if any(isinstance(e, Cumulative) for e in estimators):
        return tuple(tables)
    grid = max(table.grid for table in tables)
    bins = [e.n_bins for e in estimators if isinstance(e, Binned) and e.bins == "width"]
    if any(grid % m for m in bins):
        return tuple(tables)
    block = math.gcd(grid // (120 if len(bins) == len(estimators) else COARSE), *(grid // m for m in bins))
    return tuple(_joined(table, block) for table in tables)


def _joined(table: Table, block: int) -> Table:
    if not len(table):
        return table
    cell, part = table.key // PARTS, table.key % PARTS
    end = (cell == 0) | (cell == table.grid - 1)
    group = np.where(end, -1 - cell * PARTS - part // 4, cell // block)  # a quarter of an octave at both ends
    start = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    sums = (np.add.reduceat(x, start) for x in (table.n, table.w, table.ws, table.wt, table.we, table.w2))
    return Table(table.grid, table.key[start], *sums)


def _replicates(
    members: dict[str, CalibrationError],
    tables: Sequence[Table],
    mirrored: bool,
    n_resamples: int,
    rng: np.random.Generator,
) -> dict[str, Null]:
    cells = max(1, sum(len(table) for table in tables))
    step = min(n_resamples, max(_ENTRIES // cells, 64 if len(tables) > 1 else 1))  # many classes: calls cost, not cells
    sizes = [min(step, n_resamples - start) for start in range(0, n_resamples, step)]

    def run(job: tuple[int, np.random.Generator]) -> dict[str, Floats]:
        size, generator = job
        drawn = [table.with_outcomes(draw_outcomes(table, size, generator)) for table in tables]
        if mirrored:
            drawn = [mirror(drawn[0]), *drawn]
        return {name: np.asarray(r.finish(_state(r, drawn, size))) for name, r in members.items()}

    parts = list(map_chunks(run, zip(sizes, rng.spawn(len(sizes)), strict=True)))
    return {name: Null(np.concatenate([part[name] for part in parts])) for name in members}


def _state(recipe: CalibrationError, tables: Sequence[Table], size: int) -> Any:
    estimator = recipe.estimator
    if not isinstance(estimator, Binned):
        return tuple(tables)
    m = estimator.n_bins
    parts = []
    for table in tables:
        if not len(table):
            parts.append(Bins(np.zeros((1, m)), np.zeros((1, m)), np.zeros((size, 1, m))))
        elif estimator.bins == "width" and table.grid % m:
            parts.append(table._collect(width_index(table.score, m), m))  # bins kept apart: cells by their mean score
        else:
            parts.append(estimator.state(table))
    return Bins.stack(parts)


class BrownianNull:
    """The limit law of KS under calibration: the path is a random walk, its maximum that of a Brownian motion.

    P(sup |W| ≤ x) = (4/π) Σ_k (−1)^k/(2k + 1) · exp(−π²(2k + 1)²/(8x²)), scaled by √(Σw·s(1 − s))/Σw.

    References
    ----------
    [1] Feller (1971), An Introduction to Probability Theory and Its Applications II, section X.5.
    """

    def __init__(self, table: Table) -> None:
        self.scale = math.sqrt(path_variance(table)) / table.total

    @property
    def mean(self) -> float:
        """Mean √(π/2)·σ."""
        return math.sqrt(math.pi / 2) * self.scale

    @property
    def std(self) -> float:
        """Standard deviation: E sup² = 2·Catalan's constant."""
        return math.sqrt(2 * 0.915965594177219 - math.pi / 2) * self.scale

    def pvalue(self, observed: float) -> float:
        """Return P(sup ≥ observed)."""
        if self.scale <= 0:
            return 1.0 if observed <= 1e-12 else 0.0
        return 1.0 - _brownian_cdf(observed / self.scale)

    def quantile(self, q: float) -> float:
        """Return a quantile by bisection."""
        low, high = 0.0, 20.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _brownian_cdf(middle) < q else (low, middle)
        return high * self.scale


def _brownian_cdf(x: float) -> float:
    if x <= 0:
        return 0.0
    if x > 3:  # tail by reflection: sums that cancel lose digits
        from scipy.stats import norm

        return float(1 - 4 * norm.sf(x) + 4 * norm.sf(3 * x))
    k = np.arange(30)
    terms = (-1.0) ** k / (2 * k + 1) * np.exp(-((np.pi * (2 * k + 1)) ** 2) / (8 * x * x))  # [1]
    return float(np.clip(4 / np.pi * terms.sum(), 0.0, 1.0))


def _cell_variance(table: Table) -> Floats:
    """w·s(1 − s) of every cell at its mean score."""
    score = np.clip(table.ws / table.w, 0.0, 1.0)
    return np.asarray(table.w * score * (1 - score))


def path_variance(table: Table) -> float:
    """Σw·s(1 − s), each cell at its mean score."""
    return float(_cell_variance(table).sum())
