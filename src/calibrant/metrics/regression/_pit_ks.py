"""Kolmogorov-Smirnov distance of the PIT from uniform."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.options import check_rng
from calibrant.core.predictions import Means
from calibrant.core.rows import Rows
from calibrant.metrics.regression.nulls import KolmogorovNull


def pit_of(rows: Rows, rng: RNG, caller: str) -> Floats:
    """Return the PIT of the rows: with coins of its own if `rng` is given, else the one all metrics share."""
    return rows.pit if rng is None else rows.pit_values(check_rng(rng, caller))


def ks_distance(values: Floats, weights: Floats | None) -> float:
    """Return the largest distance of the weighted distribution function of values in [0, 1] from the uniform one."""
    order = np.argsort(values, kind="stable")
    u = values[order]
    w = np.ones(len(u)) if weights is None else weights[order]
    upto = np.cumsum(w)
    upto /= upto[-1]
    # ties are walked one by one: at the first the lower gap, at the last the upper gap are the ones of the step
    before = np.concatenate([[0.0], upto[:-1]])
    return float(max((upto - u).max(), (u - before).max(), 0.0))


@dataclass(frozen=True)
class PitDistance(Recipe):
    """Distance of the PIT from uniform; its null distribution is Kolmogorov's, whatever the forecasts."""

    rng: RNG = None

    @property
    def table_levels(self) -> tuple[float, ...]:
        """The PIT of a table is right at any levels."""
        return ()

    def value(self, forecast: Rows) -> float:
        """Return the distance."""
        return ks_distance(pit_of(forecast, self.rng, "pit_ks"), forecast.weights)

    def null(self, forecast: Rows, n_resamples: int, rng: np.random.Generator) -> KolmogorovNull:  # noqa: ARG002
        """Return the exact distribution of n uniform values."""
        return KolmogorovNull(round(forecast.total))


METRIC = Metric(
    name="pit-ks",
    title="Kolmogorov-Smirnov distance of the PIT",
    plain="largest gap between quantile levels and how often truths fall below them",
    notion="probabilistic calibration",
    estimates="distance of the PIT from uniform",
    bound="lower",
    weakness="blind to errors that cancel over rows (too wide here, too narrow there); a calibrated model shows "
    "about 0.87/√n",
    paper="Gneiting, Balabdaoui & Raftery (2007), Probabilistic forecasts, calibration and sharpness, JRSS B, "
    "section 3",
    cost="O(n log n)",
    state="all rows",
    task="regression",
    percent=False,
    default=True,
)


@METRIC.defines
def pit_ks(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    rng: RNG = None,
) -> Recipe:
    """Measure how far the probability integral transform is from uniform.

    Notes
    -----
    sup_u |F̂_PIT(u) − u|, both sides of every step.

    Examples
    --------
    >>> from calibrant.metrics import pit_ks
    >>> pit_ks([0.0], [0.0], [1.0])  # PIT 0.5: the step of height 1 is 0.5 away on both sides
    0.5
    """
    return PitDistance(rng)
