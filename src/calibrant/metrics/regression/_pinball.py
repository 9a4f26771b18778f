"""Pinball loss of predicted quantiles."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.core.columns import check_levels
from calibrant.core.declare import Metric, Recipe
from calibrant.core.parallel import map_chunks
from calibrant.core.predictions import Means, Prediction
from calibrant.core.rows import Rows
from calibrant.metrics.regression.recipes import RowMean, unstated


def pinball_rows(rows: Rows, levels: Floats) -> Floats:
    """Return the pinball loss of each row, mean over the levels."""
    if rows.table is not None and not (stated := rows.table.states(levels)).all():
        raise unstated("levels", "pinball", f"{levels[~stated][0]:g}", rows.table.levels.tolist())

    def visit(item: tuple[slice, Prediction]) -> Floats:
        gap = rows.y[item[0]][:, None] - item[1].quantile(levels)
        return np.asarray(np.maximum(levels * gap, (levels - 1) * gap).mean(axis=1))  # [1] check function

    return np.concatenate(list(map_chunks(visit, rows.pieces(len(levels)))))


METRIC = Metric(
    name="pinball",
    title="Pinball loss",
    plain="distance between predicted quantiles and the outcome",
    notion="proper score of quantiles",
    estimates="the quantiles at the levels (proper score)",
    bound=None,
    weakness="says nothing between and beyond the levels",
    paper="Koenker & Bassett (1978), Regression Quantiles, Econometrica",
    cost="O(n · levels), in cache-sized pieces",
    state="score sums",
    range=(0.0, math.inf),
    unit="y",
    proper=True,
    task="regression",
    percent=False,
)


@METRIC.defines
def pinball(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    levels: int | ArrayLike = 99,
    sample_weight: ArrayLike | None = None,
) -> Recipe:
    """Average the pinball (check) loss of the predicted quantiles over rows and levels.

    Notes
    -----
    A table of quantiles has a value at the levels it states, and is refused at others.

    mean over rows and levels of max(τ(y − q), (τ − 1)(y − q)). With m equally spaced levels twice the value tends to
    the CRPS as m grows.

    Examples
    --------
    >>> from calibrant.metrics import pinball
    >>> pinball([1.0], [0.0], [1.0], levels=[0.5])  # half the absolute error
    0.5
    """
    checked = check_levels(levels, "pinball")
    return RowMean(partial(pinball_rows, levels=checked), table_levels=tuple(checked.tolist()))
