"""Ranked probability score."""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.programs import Node
from calibrant.core.row_scores import ScoreGraph
from calibrant.metrics.recipes import MeanScore


def possible(graph: ScoreGraph) -> Node:
    """Σ_{j<K} (F_j − 1[k ≤ j])² = Σ_{j<k} F_j² + Σ_{k≤j<K} (1 − F_j)² [1], by running sums from both ends."""
    cumulative = graph.cumsum(graph.columns(graph.p, 0, graph.n_classes - 1))
    rest = 1.0 - cumulative
    none = graph.sum(graph.p) * 0.0
    below = graph.concat([none, graph.cumsum(cumulative * cumulative)])
    above = graph.concat([graph.flip(graph.cumsum(graph.flip(rest * rest))), none])
    miss = graph.where(graph.label > np.arange(graph.n_classes - 1.0), cumulative, rest)
    return graph.shortcut(below + above, graph.sum(miss * miss))


METRIC = Metric(
    name="rps",
    title="Ranked probability score",
    plain="squared distance between cumulative forecast and outcome",
    notion="proper score",
    estimates="the calibration error of the cumulative forecast",
    bound="upper",
    weakness="meaningful only when the classes are ordered",
    paper="Epstein (1969), A Scoring System for Probability Forecasts of Ranked Categories, Journal of Applied "
    "Meteorology 8",
    cost="O(n·K)",
    state="score sums",
    range=(0.0, math.inf),
    proper=True,
    ordered=True,
    percent=False,
)


@METRIC.defines
def ranked_probability_score(y_true: ArrayLike, y_proba: ArrayLike, **rows: Unpack[RowOptions]) -> Recipe:
    """Average the squared distance between cumulative forecast and cumulative outcome.

    Strictly proper for ordered classes.

    Notes
    -----
    (1/n) Σ_i Σ_{k<K} (F_ik − 1[y_i ≤ k])²: range [0, K − 1]; for two classes half the Brier score.

    Examples
    --------
    >>> from calibrant.metrics import ranked_probability_score
    >>> ranked_probability_score([2], [[0.5, 0.25, 0.25]])  # 0.5² + 0.75²
    0.8125
    """
    return MeanScore(possible)
