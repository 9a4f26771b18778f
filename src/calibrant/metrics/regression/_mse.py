"""Mean squared error of the predicted mean."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.predictions import Means
from calibrant.core.rows import Rows
from calibrant.metrics.regression.nulls import mse_law
from calibrant.metrics.regression.recipes import RowMean


def mse_rows(rows: Rows) -> Floats:
    """Return (y − μ)² of each row."""
    return rows.squared_error


METRIC = Metric(
    name="mse",
    title="Mean squared error",
    plain="squared error of the predicted mean",
    notion="proper score of the mean",
    estimates="mean squared error; a calibrated model's average variance",
    bound=None,
    weakness="sees the variance only through what a calibrated model would show",
    paper="–",
    cost="O(n)",
    state="score sums",
    range=(0.0, math.inf),
    unit="y²",
    proper=True,
    default=True,
    task="regression",
    percent=False,
)


@METRIC.defines
def mean_squared_error(
    y_true: ArrayLike, mean: Means, variance: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
) -> Recipe:
    """Average the squared error of the predicted mean.

    Notes
    -----
    mean((y − μ)²); `variance` is checked and gives what a calibrated model would show.

    Examples
    --------
    >>> from calibrant.metrics import mean_squared_error
    >>> mean_squared_error([2.0, 0.0], [0.0, 0.0], [1.0, 1.0])
    2.0
    """
    return RowMean(mse_rows, mse_law)
