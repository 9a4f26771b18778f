"""Root Brier score."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.metrics._brier import possible
from calibrant.metrics.recipes import MeanScore


def _root(mean: float) -> float:
    return math.sqrt(max(mean, 0.0))  # the lower end of an interval may fall below 0


METRIC = Metric(
    name="rbs",
    title="Root Brier score",
    plain="distance between forecast and outcome (root of the Brier score)",
    notion="proper score",
    estimates="the canonical error CE₂",
    bound="upper",
    weakness="loose when classes overlap: it bounds, it does not estimate",
    paper="Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores, NeurIPS, theorem 3.1",
    cost="O(n·K)",
    state="score sums",
    range=(0.0, 2.0**0.5),
    proper=True,
    percent=False,
)


@METRIC.defines
def root_brier_score(y_true: ArrayLike, y_proba: ArrayLike, **rows: Unpack[RowOptions]) -> Recipe:
    """Bound the canonical calibration error from above by the root of the Brier score.

    Its changes are honest at any n.

    Notes
    -----
    √brier ≥ CE₂. Differences of it do not suffer from the bias of binned errors.

    Examples
    --------
    >>> from calibrant.metrics import root_brier_score
    >>> root_brier_score([1, 0], [0.8, 0.4]) == 0.2**0.5
    True
    """
    return MeanScore(possible, _root)
