"""Mean standardized residual."""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.predictions import Means
from calibrant.core.rows import Rows
from calibrant.metrics.regression.nulls import bias_law
from calibrant.metrics.regression.recipes import RowMean


def bias_rows(rows: Rows) -> Floats:
    """Return (y − μ)/σ of each row."""
    return np.asarray((rows.y - rows.mean) / np.sqrt(rows.variance))


METRIC = Metric(
    name="bias",
    title="Mean standardized residual",
    plain="mean error in predicted standard deviations; 0 is perfect",
    notion="calibration of the mean",
    estimates="mean standardized residual; 0 is perfect",
    bound="exact",
    weakness="blind to errors of opposite sign, which cancel",
    paper="–",
    cost="O(n)",
    state="score sums",
    smaller_is_better=None,
    range=(-math.inf, math.inf),
    two_sided=True,
    default=True,
    task="regression",
    percent=False,
)


@METRIC.defines
def mean_standardized_residual(
    y_true: ArrayLike, mean: Means, variance: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
) -> Recipe:
    """Average the error in units of the predicted standard deviation.

    Notes
    -----
    mean((y − μ)/σ): positive where means are too low.

    Examples
    --------
    >>> from calibrant.metrics import mean_standardized_residual
    >>> mean_standardized_residual([2.0, 0.0], [0.0, 0.0], [1.0, 1.0])
    1.0
    """
    return RowMean(bias_rows, bias_law)
