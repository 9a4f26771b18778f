"""Mean confidence."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.programs import Node
from calibrant.core.row_scores import ScoreGraph
from calibrant.metrics.recipes import MeanScore


def possible(graph: ScoreGraph) -> Node:
    """The confidence s, whatever happens."""
    return graph.columns(graph.p, 1, 2)


METRIC = Metric(
    name="confidence",
    title="Mean confidence",
    plain="mean probability of the top label",
    notion="descriptive",
    estimates="the accuracy the model claims",
    bound="exact",
    weakness="says nothing about where the claim is wrong",
    paper="–",
    cost="O(n·K)",
    state="score sums",
    smaller_is_better=None,
    perfect=None,
    default=True,
)


@METRIC.defines
def mean_confidence(y_true: ArrayLike, y_proba: ArrayLike, **rows: Unpack[RowOptions]) -> Recipe:
    """Mean of the largest probability: the accuracy the model claims.

    Equal to the accuracy for a calibrated model.

    Notes
    -----
    (1/n) Σ_i max_k p_ik.

    Examples
    --------
    >>> from calibrant.metrics import mean_confidence
    >>> mean_confidence([1, 0], [0.9, 0.4])
    0.75
    """
    return MeanScore(possible, pairs_suffice=True)
