"""Accuracy."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.programs import Node
from calibrant.core.row_scores import ScoreGraph
from calibrant.metrics.recipes import MeanScore


def possible(graph: ScoreGraph) -> Node:
    """0 if the top label is wrong, 1 if it is right."""
    return graph.constant([0.0, 1.0])


METRIC = Metric(
    name="accuracy",
    title="Accuracy",
    plain="fraction of rows whose top label is right",
    notion="descriptive",
    estimates="the probability that the top label is right",
    bound="exact",
    weakness="says nothing about the probabilities",
    paper="–",
    cost="O(n·K)",
    state="score sums",
    smaller_is_better=False,
    perfect=1.0,
    default=True,
)


@METRIC.defines
def accuracy(y_true: ArrayLike, y_proba: ArrayLike, **rows: Unpack[RowOptions]) -> Recipe:
    """Fraction of rows whose largest probability names the truth.

    Notes
    -----
    Ties of the largest probability go to the lowest class index.

    Examples
    --------
    >>> from calibrant.metrics import accuracy
    >>> accuracy([1, 0, 1, 0], [0.9, 0.2, 0.4, 0.5])
    0.75
    """
    return MeanScore(possible, pairs_suffice=True)
