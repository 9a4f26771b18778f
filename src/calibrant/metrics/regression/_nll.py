"""Negative log likelihood under normal forecasts."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.predictions import Means
from calibrant.core.rows import Rows
from calibrant.metrics.regression._dss import dss_rows
from calibrant.metrics.regression.nulls import LOG_2PI, nll_law
from calibrant.metrics.regression.recipes import RowMean


def nll_rows(rows: Rows) -> Floats:
    """Return the negative log density of the normal distribution with the forecast's mean and variance."""
    return 0.5 * (dss_rows(rows) + LOG_2PI)


METRIC = Metric(
    name="nll",
    title="Normal log score",
    plain="negative log likelihood under normal forecasts",
    notion="proper score",
    estimates="normal log score (proper score)",
    bound=None,
    weakness="unbounded below, so only differences speak; one wild row with a tiny variance can decide it",
    paper="Gneiting & Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation, JASA, section 4.1",
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
def nll_normal(
    y_true: ArrayLike, mean: Means, variance: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
) -> Recipe:
    """Average the negative log density of the truth under normal forecasts.

    Notes
    -----
    NLL = (DSS + log 2π)/2.

    Examples
    --------
    >>> from calibrant.metrics import nll_normal
    >>> nll_normal([0.0], [0.0], [1.0])  # log(2π)/2
    0.9189
    """
    return RowMean(nll_rows, nll_law)
