"""Brier score."""

from __future__ import annotations

from calibrant._typing import ArrayLike, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.inputs import check_flag
from calibrant.core.programs import Node
from calibrant.core.row_scores import ScoreGraph
from calibrant.metrics.recipes import MeanScore, top_label_or
from calibrant.views import View


def possible(graph: ScoreGraph) -> Node:
    """‖p − e_k‖² = (1 − p_k)² + Σ_{j≠k} p_j² [1], the sum over j taken so that sharp forecasts keep their digits."""
    square = graph.p * graph.p
    likely = graph.p > 0.75  # one class at most, however a row is rounded
    small = graph.sum(graph.where(likely, 0.0, square))
    others = graph.where(likely, small, graph.sum(square) - square)
    miss = 1.0 - graph.p
    return miss * miss + others


def possible_top(graph: ScoreGraph) -> Node:
    """(s − t)² of the top label: s² if wrong, (1 − s)² if right."""
    miss = 1.0 - graph.p
    return miss * miss


def half(graph: ScoreGraph) -> Node:
    """½‖p − e_k‖²."""
    return 0.5 * possible(graph)


def half_top(graph: ScoreGraph) -> Node:
    """½(s − t)² of the top label."""
    return 0.5 * possible_top(graph)


METRIC = Metric(
    name="brier",
    title="Brier score",
    plain="squared distance between forecast and outcome",
    notion="proper score",
    estimates="the squared canonical error CE₂²",
    bound="upper",
    weakness="mixes calibration with sharpness: a better classifier may be worse calibrated",
    paper="Brier (1950), Verification of forecasts expressed in terms of probability, Monthly Weather Review 78",
    cost="O(n·K)",
    state="score sums",
    range=(0.0, 2.0),
    proper=True,
    percent=False,
    default=True,
)


@METRIC.defines
def brier_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    view: View | str = "canonical",
    scale_by_half: bool = False,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Average the squared distance between forecast and outcome.

    Strictly proper.

    Parameters
    ----------
    scale_by_half : bool, default False
        Divide by 2, so that the range is [0, 1].

    Notes
    -----
    (1/n) Σ_i ‖p_i − e_{y_i}‖², the sum over classes: range [0, 2]. `view="top-1"` gives (1/n) Σ (s − t)² of the top
    label. `scale_by_half=True` divides by 2: range [0, 1], and for two classes (1/n) Σ (p₁ − y)², as other libraries
    have it.

    Examples
    --------
    >>> from calibrant.metrics import brier_score
    >>> brier_score([1, 0], [0.8, 0.4])  # (2·0.2² + 2·0.4²)/2
    0.2
    >>> brier_score([1, 0], [0.8, 0.4], scale_by_half=True)
    0.1
    """
    whole, top = (
        (half, half_top) if check_flag(scale_by_half, "scale_by_half", "brier_score") else (possible, possible_top)
    )
    return top_label_or(view, MeanScore(whole), MeanScore(top, pairs_suffice=True), "brier_score")
