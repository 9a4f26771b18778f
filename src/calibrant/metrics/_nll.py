"""Log score."""

from __future__ import annotations

import math

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.programs import Node
from calibrant.core.row_scores import ScoreGraph
from calibrant.metrics.recipes import MeanScore


def possible(graph: ScoreGraph) -> Node:
    """−log p_k [1]; from the logits themselves where they are known."""
    return 0.0 - graph.log_p  # a certain truth gives 0, not −0


METRIC = Metric(
    name="nll",
    title="Log score",
    plain="negative log probability of the outcome",
    notion="proper score",
    estimates="the Kullback–Leibler calibration error",
    bound="upper",
    weakness="one confident mistake can outweigh everything else; an exact 0 on the truth is infinite",
    paper="Good (1952), Rational decisions, JRSS B 14",
    cost="O(n)",
    state="score sums",
    range=(0.0, math.inf),
    proper=True,
    percent=False,
    default=True,
)


@METRIC.defines
def log_score(y_true: ArrayLike, y_proba: ArrayLike, **rows: Unpack[RowOptions]) -> Recipe:
    """Average the negative log-probability of the truth.

    Strictly proper.

    Notes
    -----
    −(1/n) Σ_i log p_i(y_i). An exact zero on the truth gives inf, never a hidden clip.

    Examples
    --------
    >>> from calibrant.metrics import log_score
    >>> round(log_score([1, 0], [0.5, 0.75]), 4)  # (log 2 + log 4)/2
    1.0397
    """
    return MeanScore(possible)
