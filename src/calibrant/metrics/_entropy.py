"""Mean entropy."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.programs import Node
from calibrant.core.row_scores import ScoreGraph
from calibrant.metrics.recipes import MeanScore


def possible(graph: ScoreGraph) -> Node:
    """−Σ p log p, whatever happens; 0·log 0 = 0."""
    return 0.0 - graph.sum(graph.p_log_p())


METRIC = Metric(
    name="entropy",
    title="Mean entropy",
    plain="log score the model expects of itself",
    notion="descriptive",
    estimates="the log score the model expects of itself",
    bound="exact",
    weakness="equal to the log score for a calibrated model, but not only for one",
    paper="–",
    cost="O(n·K)",
    state="score sums",
    smaller_is_better=None,
    perfect=None,
    percent=False,
    range=(0.0, math.inf),
)


@METRIC.defines
def mean_entropy(y_true: ArrayLike, y_proba: ArrayLike, **rows: Unpack[RowOptions]) -> Recipe:
    """Mean entropy of the forecasts in nats: the log score the model expects.

    Notes
    -----
    −(1/n) Σ_i Σ_k p_ik log p_ik with 0·log 0 = 0.

    Examples
    --------
    >>> from calibrant.metrics import mean_entropy
    >>> round(mean_entropy([1, 0], [0.5, 0.5]), 4)  # log 2
    0.6931
    """
    return MeanScore(possible)
