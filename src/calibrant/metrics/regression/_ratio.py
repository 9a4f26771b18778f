"""Squared error over predicted variance."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.predictions import Means
from calibrant.core.rows import Rows
from calibrant.metrics.regression.nulls import ratio_law
from calibrant.metrics.regression.recipes import RowMean


def ratio_rows(rows: Rows) -> Floats:
    """Return (y − μ)²/v of each row."""
    return rows.ratio


METRIC = Metric(
    name="ratio",
    title="Squared error over variance",
    plain="squared error over predicted variance; 1 is perfect, above it overconfident",
    notion="calibration of the variance",
    estimates="squared error over variance; 1 is perfect, above it overconfident",
    bound="exact",
    weakness="decided by the few largest ratios, and right on average where errors of opposite sign cancel",
    paper="Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores for Classification and "
    "Beyond, NeurIPS, section 5 and table 2",
    cost="O(n)",
    state="score sums",
    smaller_is_better=None,
    perfect=1.0,
    range=(0.0, math.inf),
    two_sided=True,
    default=True,
    task="regression",
    percent=False,
)


@METRIC.defines
def se_variance_ratio(
    y_true: ArrayLike, mean: Means, variance: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
) -> Recipe:
    """Average squared error over predicted variance: above 1 the model is overconfident, below 1 underconfident.

    Notes
    -----
    mean((y − μ)²/v).

    Examples
    --------
    >>> from calibrant.metrics import se_variance_ratio
    >>> se_variance_ratio([2.0, 0.0], [0.0, 0.0], [1.0, 1.0])
    2.0
    """
    return RowMean(ratio_rows, ratio_law)
