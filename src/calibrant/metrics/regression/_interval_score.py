"""Interval score of the central interval."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.core.declare import Metric, Recipe
from calibrant.core.options import check_share
from calibrant.core.parallel import map_chunks
from calibrant.core.predictions import Means, Prediction
from calibrant.core.rows import Rows
from calibrant.metrics.regression.recipes import RowMean, unstated


def interval_rows(rows: Rows, level: float) -> Floats:
    """Return the interval score of the central interval of each row."""
    alpha = 1 - level
    ends = np.array([alpha / 2, 1 - alpha / 2])
    if rows.table is not None and not rows.table.states(ends).all():
        raise unstated("level", "interval_score", f"{level:g}", rows.table.central_levels())

    def visit(item: tuple[slice, Prediction]) -> Floats:
        y = rows.y[item[0]]
        low, high = item[1].quantile(ends).T
        miss = np.maximum(low - y, 0) + np.maximum(y - high, 0)
        return np.asarray(high - low + 2 / alpha * miss)  # [1] eq. (43)

    return np.concatenate(list(map_chunks(visit, rows.pieces(2))))


METRIC = Metric(
    name="interval-score",
    title="Interval score",
    plain="width of the central interval plus a fine for truths outside it",
    notion="proper score of two quantiles",
    estimates="one central interval (proper score)",
    bound=None,
    weakness="looks at one interval only",
    paper="Gneiting & Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation, JASA, eq. (43)",
    cost="O(n)",
    state="score sums",
    range=(0.0, math.inf),
    unit="y",
    proper=True,
    task="regression",
    percent=False,
)


@METRIC.defines
def interval_score(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    level: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> Recipe:
    """Average the width of the central interval plus a fine for every truth outside it.

    Parameters
    ----------
    level : float, default 0.9
        Probability the interval claims to hold; a table of quantiles must state both ends.

    Notes
    -----
    (u − l) + 2/α·max(l − y, 0) + 2/α·max(y − u, 0) with α = 1 − level, l and u the quantiles at α/2 and 1 − α/2.

    Examples
    --------
    >>> from calibrant.metrics import interval_score
    >>> interval_score([0.0], [0.0], [1.0], level=0.9)  # 2·1.6449, nothing outside
    3.2897
    """
    alpha = 1 - check_share(level, "level", "interval_score")
    return RowMean(partial(interval_rows, level=level), table_levels=(alpha / 2, 1 - alpha / 2))
