"""Spherical score."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.programs import Node
from calibrant.core.row_scores import ScoreGraph
from calibrant.metrics.recipes import MeanScore


def possible(graph: ScoreGraph) -> Node:
    """−p_k/‖p‖₂ [1]."""
    return -graph.p / graph.sqrt(graph.sum(graph.p * graph.p))


METRIC = Metric(
    name="spherical",
    title="Spherical score",
    plain="probability of the outcome over the length of the forecast, negated",
    notion="proper score",
    estimates="the spherical calibration error, less 1",
    bound="upper",
    weakness="hard to read: no unit, and flat near the optimum",
    paper="Gneiting & Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation, JASA 102, section 4.1",
    cost="O(n·K)",
    state="score sums",
    range=(-1.0, 0.0),
    perfect=-1.0,
    proper=True,
    percent=False,
)


@METRIC.defines
def spherical_score(y_true: ArrayLike, y_proba: ArrayLike, **rows: Unpack[RowOptions]) -> Recipe:
    """Average the negative cosine between forecast and outcome.

    Strictly proper.

    Notes
    -----
    −(1/n) Σ_i p_i(y_i)/‖p_i‖₂: range [−1, 0].

    Examples
    --------
    >>> from calibrant.metrics import spherical_score
    >>> spherical_score([1], [0.8]) == -0.8 / (0.8**2 + 0.2**2) ** 0.5
    True
    """
    return MeanScore(possible)
