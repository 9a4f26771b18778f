"""Truth, forecast and weights of one call, checked once; what every score and error of this room starts from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.core.inputs import check_weights
from calibrant.core.parallel import row_chunks
from calibrant.errors import input_error
from calibrant.regression._inputs import check_column, check_counts
from calibrant.regression.predictions import Normal, Prediction, is_prediction

__all__ = ["Rows", "check_rows"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows: truth `y`, one predictive distribution each, frequency weights or None."""

    y: Floats
    forecast: Prediction
    weights: Floats | None

    @property
    def n(self) -> int:
        """Number of rows handed in."""
        return len(self.y)

    @property
    def total(self) -> float:
        """Sum of weights, the number of rows without them."""
        return float(self.n) if self.weights is None else float(self.weights.sum())

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

    @property
    def is_normal(self) -> bool:
        """Whether the forecast is a normal law, so that its null distributions are known."""
        return isinstance(self.forecast, Normal)

    def average(self, values: Floats) -> float:
        """Weighted mean over rows."""
        return float(values.mean() if self.weights is None else np.average(values, weights=self.weights))

    def pieces(self, width: int) -> list[tuple[slice, Prediction]]:
        """Cut into slices whose (rows, width) tables fit the cache."""
        return [(rows, self.forecast.part(rows)) for rows in row_chunks(self.n, 8 * width)]


def check_rows(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None, *, caller: str,
    sample_weight: ArrayLike | None = None, counts: bool = False,
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
            raise input_error(
                "mean", caller, f"have {len(y)} rows like y_true", f"{forecast.n} rows",
                "check that both come from the same split",
            )
    else:
        if variance is None:
            raise input_error(
                "variance", caller, "be given with mean", "None", "pass mean and variance, or Samples or Quantiles"
            )
        check_column(mean, "mean", caller, len(y))
        forecast = Normal(mean, variance, caller=caller)
    weights = (check_counts if counts else check_weights)(sample_weight, len(y), caller)
    return Rows(y, forecast, weights)
