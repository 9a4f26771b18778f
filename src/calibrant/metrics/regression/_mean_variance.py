"""Mean predicted variance."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import DESCRIPTIVE, Metric, Recipe
from calibrant.core.predictions import Means
from calibrant.core.rows import Rows
from calibrant.metrics.regression.recipes import RowMean


def _rows(rows: Rows) -> Floats:
    return rows.variance


METRIC = Metric(
    name="mean-variance",
    title="Mean predicted variance",
    plain="squared error the model expects of itself",
    notion=DESCRIPTIVE,
    estimates="the squared error the model claims",
    bound="exact",
    weakness="says nothing about where the claim is wrong",
    paper="–",
    cost="O(n)",
    state="score sums",
    smaller_is_better=None,
    perfect=None,
    range=(0.0, math.inf),
    unit="y²",
    task="regression",
    percent=False,
)


@METRIC.defines
def average_variance(
    y_true: ArrayLike, mean: Means, variance: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
) -> Recipe:
    """Average the predicted variance, to be held against `mean_squared_error`; `y_true` is checked but not used.

    Examples
    --------
    >>> from calibrant.metrics import average_variance
    >>> average_variance([2.0, 0.0], [0.0, 0.0], [1.0, 3.0])
    2.0
    """
    return RowMean(_rows)
