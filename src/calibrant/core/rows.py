"""Rows of means and variances: the form of evidence that regression has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints
from calibrant.core.columns import check_column, check_distance
from calibrant.core.inputs import check_weights
from calibrant.core.parallel import row_chunks
from calibrant.core.predictions import Means, Normal, Prediction, Quantiles, is_prediction
from calibrant.core.row_evidence import RowEvidence, digest
from calibrant.errors import input_error

if TYPE_CHECKING:
    from calibrant.core.declare import Recipe
    from calibrant.evidence import NullDistribution, Task

__all__ = ["Rows", "check_rows"]


@dataclass(frozen=True, eq=False)
class Rows(RowEvidence):
    """Checked rows: truth `y`, one predictive distribution each, frequency weights or None.

    `caller` is the public function that errors name; `coins` decide the PIT where a distribution has steps.
    """

    y: Floats
    forecast: Prediction
    weights: Floats | None
    caller: str = "evaluate"
    coins: np.random.Generator | None = None

    # -- the columns -------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of rows handed in."""
        return len(self.y)

    @cached_property
    def mean(self) -> Floats:
        """Predicted means."""
        return self.forecast.mean

    @cached_property
    def variance(self) -> Floats:
        """Predicted variances."""
        return self.forecast.variance

    @cached_property
    def squared_error(self) -> Floats:
        """(y − μ)² of each row."""
        return np.square(self.y - self.mean)

    @cached_property
    def ratio(self) -> Floats:
        """(y − μ)²/v of each row."""
        return self.squared_error / self.variance

    @cached_property
    def pit(self) -> Floats:
        """Probability integral transform of each row; all metrics of one call share its coins."""
        return self.pit_values(np.random.default_rng() if self.coins is None else self.coins)

    def pit_values(self, rng: np.random.Generator) -> Floats:
        """Return the PIT of every row, by cache-sized pieces in row order (one stream of coins)."""
        width = 1 if self.is_normal else 64
        return np.concatenate([part.pit(self.y[piece], rng) for piece, part in self.pieces(width)])

    @property
    def is_normal(self) -> bool:
        """Whether the forecast is a normal distribution, so that null distributions are known."""
        return isinstance(self.forecast, Normal)

    @property
    def table(self) -> Quantiles | None:
        """The table of quantiles, if the forecast is one."""
        return self.forecast if isinstance(self.forecast, Quantiles) else None

    def central_levels(self, among: Sequence[float]) -> tuple[float, ...]:
        """Return which central intervals can be judged: these, or all that a table of quantiles states."""
        return tuple(among) if self.table is None else self.table.central_levels()

    def average(self, values: Floats) -> float:
        """Weighted mean over rows."""
        return float(values.mean() if self.weights is None else np.average(values, weights=self.weights))

    def inside(self, level: float) -> float:
        """Return the fraction of truths inside the central interval of this probability."""
        return self.average((np.abs(2 * self.pit - 1) <= level).astype(np.float64))

    def pieces(self, width: int) -> list[tuple[slice, Prediction]]:
        """Cut into slices whose (rows, width) tables fit the cache."""
        return [(rows, self.forecast.part(rows)) for rows in row_chunks(self.n, 8 * width)]

    # -- what evidence answers ---------------------------------------------------------------

    @property
    def task(self) -> Task:
        """Means with variances."""
        return "regression"

    @property
    def n_classes(self) -> int:
        """There are no classes."""
        return 0

    @property
    def classes(self) -> None:
        """There are no classes."""
        return None

    def answers(self, recipe: Recipe) -> bool:
        """Rows answer every metric of their task; a table of quantiles those that need its levels alone."""
        levels = recipe.table_levels
        return self.table is None or (levels is not None and bool(self.table.states(levels).all()))

    def null_draws(
        self,
        recipes: Mapping[str, Recipe],
        n_resamples: int,
        rng: np.random.Generator,
        clusters: Ints | None = None,
    ) -> dict[str, NullDistribution]:
        """Return the null distributions of calibration errors, by name; what has none is left out.

        Draws of independent rows say nothing of clusters: with `clusters` there are none.
        """
        if clusters is not None:
            return {}
        found = {name: recipe.null(self, n_resamples, rng) for name, recipe in recipes.items()}
        return {name: law for name, law in found.items() if law is not None}

    def checksum(self) -> str:
        """Return sixteen digits that tell these rows and their weights from others."""
        own = [getattr(self.forecast, name) for name in ("levels", "values") if hasattr(self.forecast, name)]
        weights = () if self.weights is None else (self.weights,)
        return digest((self.y, *weights, *(own or (self.mean, self.variance))))

    def take(self, rows: Any) -> Rows:
        """Return some rows (indices or a mask) as evidence of their own."""
        weights = None if self.weights is None else self.weights[rows]
        other = replace(self, y=self.y[rows], forecast=self.forecast.part(rows), weights=weights)
        return other.read_weights(self.weight_kind)


def check_rows(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    caller: str,
    sample_weight: ArrayLike | None = None,
    counts: bool = False,
    coins: np.random.Generator | None = None,
) -> Rows:
    """Check one call: `mean` with `variance`, or a `Normal`, `Samples` or `Quantiles` forecast in place of both."""
    y = check_column(y_true, "y_true", caller)
    if is_prediction(mean):
        if variance is not None:
            raise input_error(
                "variance", caller, "be left out next to a forecast object", "both", "pass the forecast alone"
            )
        forecast: Prediction = mean
        if forecast.n != len(y):
            hint = "check that both come from the same split"
            raise input_error("mean", caller, f"have {len(y)} rows like y_true", f"{forecast.n} rows", hint)
    else:
        if variance is None:
            raise input_error(
                "variance", caller, "be given with mean", "None", "pass mean and variance, or Samples or Quantiles"
            )
        check_column(mean, "mean", caller, len(y))
        forecast = Normal(mean, variance, caller=caller)
    if isinstance(forecast, Normal):
        check_distance(y, forecast.mean, forecast.variance, caller)
    rows = Rows(y, forecast, check_weights(sample_weight, len(y), caller), caller, coins)
    if counts:
        rows.need_counts(caller)
    return rows
