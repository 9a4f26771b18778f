"""Quantile calibration error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats
from calibrant.core.columns import check_levels
from calibrant.core.declare import Metric, Recipe, check_norm
from calibrant.core.inputs import check_names
from calibrant.core.predictions import Means
from calibrant.core.resampling import Null
from calibrant.core.rows import Rows
from calibrant.metrics.regression._pit_ks import pit_of

CALLER = "quantile_calibration_error"
Coverage = Literal["quantile", "interval"]


def coverage(pit: Floats, weights: Floats | None, levels: Floats, kind: str) -> Floats:
    """Return the observed fraction of truths below each quantile, or inside each central interval."""
    position = pit if kind == "quantile" else np.abs(2 * pit - 1)
    index = np.searchsorted(levels, position, side="left")  # position ≤ level
    upto = np.cumsum(np.bincount(index, weights, len(levels) + 1))
    return np.asarray(upto[:-1] / upto[-1])


@dataclass(frozen=True)
class QuantileError(Recipe):
    """Distance of observed coverage from the levels."""

    levels: tuple[float, ...]
    kind: Coverage
    norm: float
    rng: RNG = None

    def gap(self, observed: Floats) -> Floats:
        """Return the root mean p-th power over levels of coverage (…, levels) against the levels."""
        gap = np.abs(observed - np.array(self.levels))
        if np.isinf(self.norm):
            return np.asarray(gap.max(axis=-1))
        return np.asarray((gap**self.norm).mean(axis=-1) ** (1 / self.norm))

    @property
    def table_levels(self) -> tuple[float, ...]:
        """The PIT of a table is right at any levels."""
        return ()

    def value(self, forecast: Rows) -> float:
        """Return the error."""
        pit = pit_of(forecast, self.rng, CALLER)
        return float(
            self.gap(coverage(pit, forecast.weights, np.array(self.levels), self.kind))
        )  # [1] calibration error

    def null(self, forecast: Rows, n_resamples: int, rng: np.random.Generator) -> Null:
        """Draw uniform PITs: rows fall between the levels like a multinomial draw, whatever `kind` and forecast."""
        n = round(forecast.total)
        cells = np.diff(np.concatenate([[0.0], self.levels, [1.0]]))
        counts = rng.multinomial(n, cells / cells.sum(), n_resamples)
        return Null(self.gap(np.cumsum(counts, axis=1)[:, :-1] / n))


METRIC = Metric(
    name="qce",
    title="Quantile calibration error",
    plain="mean gap between quantile levels and how often truths fall below them",
    notion="quantile (marginal) calibration",
    estimates="error of quantile levels",
    bound="lower",
    weakness="blind to errors that cancel over rows; a calibrated model shows about 0.31/√n",
    paper="Kuleshov, Fenner & Ermon (2018), Accurate Uncertainties for Deep Learning Using Calibrated Regression, "
    "ICML, calibration error of the diagnostic tools",
    cost="O(n log levels)",
    state="all rows",
    task="regression",
    percent=False,
    default=True,
)


@METRIC.defines
def quantile_calibration_error(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    levels: int | ArrayLike = 99,
    kind: Coverage = "quantile",
    norm: float = 1,
    sample_weight: ArrayLike | None = None,
    rng: RNG = None,
) -> Recipe:
    """Measure how far the fraction of truths below the predicted quantiles is from their levels.

    Parameters
    ----------
    kind : {"quantile", "interval"}, default "quantile"
        Fractions below each quantile, or inside each central interval of that probability (blind to bias).
    norm : float, default 1
        1 mean absolute, 2 root mean square, inf largest gap.

    Notes
    -----
    (mean_j |p̂_j − p_j|^p)^{1/p} with p̂_j the fraction of rows whose PIT is at most p_j. [1] sums squares over levels;
    the mean makes the value independent of their number.

    Examples
    --------
    >>> from calibrant.metrics import quantile_calibration_error
    >>> quantile_calibration_error([-1.0, 3.0], [0.0, 0.0], [1.0, 1.0], levels=[0.5])
    0.0
    """
    check_names(kind, ("quantile", "interval"), "kind", CALLER)
    return QuantileError(tuple(check_levels(levels, CALLER).tolist()), kind, check_norm(norm, CALLER), rng)
