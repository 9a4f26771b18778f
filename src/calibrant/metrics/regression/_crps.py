"""Continuous ranked probability score."""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.parallel import map_chunks
from calibrant.core.predictions import Means
from calibrant.core.rows import Rows
from calibrant.metrics.regression.nulls import crps_law
from calibrant.metrics.regression.recipes import RowMean


def crps_rows(rows: Rows) -> Floats:
    """Return the continuous ranked probability score of each row."""
    width = 1 if rows.is_normal else 64
    parts = map_chunks(lambda item: item[1].crps(rows.y[item[0]]), rows.pieces(width))
    return np.concatenate(list(parts))


METRIC = Metric(
    name="crps",
    title="Continuous ranked probability score",
    plain="distance between the whole forecast and the outcome",
    notion="proper score",
    estimates="the whole distribution (proper score)",
    bound="upper",
    weakness="rewards sharp rows less than the log score punishes wild ones",
    paper="Gneiting & Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation, JASA, eq. (20)-(21)",
    cost="O(n), O(n·m log m) for m samples",
    state="score sums",
    range=(0.0, math.inf),
    unit="y",
    proper=True,
    default=True,
    task="regression",
    percent=False,
)


@METRIC.defines
def crps(
    y_true: ArrayLike, mean: Means, variance: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
) -> Recipe:
    """Average the absolute error of whole predictive distributions.

    Notes
    -----
    CRPS = ∫ (F(x) − 1[x ≥ y])² dx; closed for normal distributions, exact for the empirical one of samples and for the
    piecewise linear one of quantiles.

    Examples
    --------
    >>> from calibrant.metrics import crps
    >>> crps([0.0], [0.0], [1.0])  # (√2 − 1)/√π
    0.2337
    """
    return RowMean(crps_rows, crps_law, table_levels=())
