"""Dawid-Sebastiani score."""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.predictions import Means
from calibrant.core.rows import Rows
from calibrant.metrics.regression.nulls import dss_law
from calibrant.metrics.regression.recipes import RowMean


def dss_rows(rows: Rows) -> Floats:
    """Return the Dawid-Sebastiani score of each row."""
    return rows.ratio + np.log(rows.variance)  # [1] section 2: S(P, y) = (μ − y)²/σ² + log σ²


METRIC = Metric(
    name="dss",
    title="Dawid-Sebastiani score",
    plain="fit of mean and variance together",
    notion="proper score",
    estimates="mean and variance together (proper score)",
    bound=None,
    weakness="unbounded below (its unit is that of log y²), so only differences speak; one wild row with a tiny "
    "variance can decide it",
    paper="Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores for Classification and "
    "Beyond, NeurIPS, section 2; Dawid & Sebastiani (1999), Coherent dispersion criteria for optimal "
    "experimental design",
    cost="O(n)",
    state="score sums",
    perfect=None,
    range=(-math.inf, math.inf),
    proper=True,
    default=True,
    task="regression",
    percent=False,
)


@METRIC.defines
def dss(
    y_true: ArrayLike, mean: Means, variance: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
) -> Recipe:
    """Score mean and variance: squared error in units of the predicted variance, plus the log variance.

    Notes
    -----
    DSS = mean((y − μ)²/v + log v). It is strictly proper for (mean, variance): E S is least at the true ones. For an
    one-to-one map of the variance the change of DSS is the change of its proper calibration error.

    Examples
    --------
    >>> from calibrant.metrics import dss
    >>> dss([1.0, 3.0], [1.0, 1.0], [1.0, 4.0])  # (0 + 0 + 1 + log 4)/2
    1.193
    """
    return RowMean(dss_rows, dss_law)
