"""Venn–Abers calibration: isotonic regression that asks what the new row would change."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._one_vs_rest import fit_each, map_each
from calibrant.calibrators._scores import Scores, View, check_scores
from calibrant.calibrators.application import frame_order
from calibrant.core.pav import pool_ties
from calibrant.core.programs import Graph, Node


def upper_curve(weight: Floats, hits: Floats) -> Floats:
    """Return, for each group of tied scores, its isotonic value after one more hit has joined it.

    Walks the greatest convex minorant of the cumulative sums with the extra step (1, 1) put before group
    0, 1, 2, … in turn; only the part right of the step is kept on the stack, so the whole walk is O(m).
    """
    m = len(weight)
    px = np.concatenate([[-1.0, 0.0], np.cumsum(weight)]).tolist()  # [1] P₋₁, P₀, …, P_m
    py = np.concatenate([[-1.0, 0.0], np.cumsum(hits)]).tolist()
    stack: list[tuple[float, float]] = []
    for x, y in zip(reversed(px), reversed(py), strict=True):  # [1] Algorithm 1; the top of the stack is the left end
        _push(stack, x, y)
    values = np.empty(m)
    for i in range(m):  # [1] Algorithm 2
        (x0, y0), (x1, y1) = stack[-1], stack[-2]
        slope = (y1 - y0) / (x1 - x0)
        values[i] = slope
        # the extra step now follows group i: P_i becomes the point after the group and before the step
        px[i + 1] = px[i] + px[i + 2] - px[i + 1]
        py[i + 1] = py[i] + py[i + 2] - py[i + 1]
        x, y = px[i + 1], py[i + 1]
        if y < y0 + slope * (x - x0):
            stack.pop()
            _push(stack, x, y)
    return np.clip(values, 0.0, 1.0)


def _push(stack: list[tuple[float, float]], x: float, y: float) -> None:
    """Put a point left of a convex chain, dropping corners that are no longer below the new line."""
    while len(stack) > 1:
        (x1, y1), (x2, y2) = stack[-1], stack[-2]
        if (y1 - y) * (x2 - x1) < (y2 - y1) * (x1 - x):
            break
        stack.pop()
    stack.append((x, y))


def venn_abers_curves(weight: Floats, hits: Floats) -> tuple[Floats, Floats]:
    """Return p₀ and p₁ as tables of m + 1 values, read at `searchsorted(scores, s)`, side "right" and "left".

    One more hit between two scores joins the one on its right, one more miss the one on its left; right of all rows
    p₁ is 1, left of all rows p₀ is 0. A miss is a hit of the mirrored problem.
    """
    upper = np.append(upper_curve(weight, hits), 1.0)
    lower = 1.0 - upper_curve(weight[::-1], (weight - hits)[::-1])[::-1]
    return np.concatenate([[0.0], lower]), upper


class VennAbers(Calibrator):
    """Give the probability between two isotonic fits: the new row as a miss, the new row as a hit.

    The pair (p₀, p₁) of `predict_interval` contains a perfectly calibrated probability whatever the distribution,
    for two classes and exchangeable rows; its width tells how little the calibration rows say. With more than two
    classes each class is treated against the rest and the guarantee is lost in the normalization.

    Attributes
    ----------
    scores_ : list of arrays, one per fitted class
        Distinct scores of the calibration rows.
    lower_, upper_ : lists of arrays, one per fitted class
        p₀ and p₁ between those scores.

    Notes
    -----
    Inductive Venn–Abers [1]: p₁(s) is the value at s of the isotonic regression of the calibration rows and the pair
    (s, 1), p₀(s) the same with (s, 0). The single probability is p = p₁ / (1 − p₀ + p₁), which minimizes the largest
    regret in log loss [1, Sec. 4]; with K > 2, p_k / Σ p. Both curves are step functions found once, in O(n log n)
    for the sort and O(n) for the walk, per class; a query is two binary searches. Never 0 or 1. With two classes
    class 1 is fitted. Weights count as repeated rows; the new row has weight 1.

    References
    ----------
    [1] Vovk, Petej and Fedorova (2015), "Large-scale probabilistic predictors with and without guarantees of
    validity", NeurIPS, Algorithms 1-4 and Sec. 4.

    Examples
    --------
    >>> cal = VennAbers().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    >>> lower, upper = cal.predict_interval([0.5])  # isotonic on 0 | 1 0 y | 1
    >>> float(lower[0, 1]), float(upper[0, 1])
    (0.3333333333333333, 0.6666666666666666)
    >>> float(cal.predict_proba([0.5])[0, 1])
    0.5
    """

    short_name = "venn-abers"
    title = "Venn–Abers"
    paper = "Vovk, Petej and Fedorova (2015), Large-scale probabilistic predictors, NeurIPS"
    when = (
        "Two classes and the wish for a guarantee: the interval holds a calibrated probability without assumptions. "
        "Not with many classes or when ties between probabilities hurt: it is a step function."
    )
    view: ClassVar[View] = "rank"
    free_parameters: ClassVar[float] = float("inf")  # the curves grow with the rows
    state: ClassVar[tuple[str, ...]] = ("scores_", "lower_", "upper_")

    scores_: list[Floats]
    lower_: list[Floats]
    upper_: list[Floats]

    def __init__(self, *, space: Space = "proba", classes: ArrayLike | None = None) -> None:
        self.space = space
        self.classes = classes

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        p = scores.values()

        def one(k: int) -> tuple[Floats, Floats, Floats]:
            pieces = pool_ties(np.ascontiguousarray(p[:, k]), codes == k, weights)
            return np.asarray(pieces.first, dtype=np.float64), *venn_abers_curves(pieces.weight, pieces.hits)

        fitted = fit_each(self.n_classes_, one)
        self.scores_ = [score for score, _, _ in fitted]
        self.lower_ = [lower for _, lower, _ in fitted]
        self.upper_ = [upper for _, _, upper in fitted]

    def _interval(self, x: Floats) -> tuple[Floats, Floats]:
        lower, upper = np.empty_like(x), np.empty_like(x)
        columns = [1] if self.n_classes_ == 2 else range(self.n_classes_)
        for curve, k in enumerate(columns):
            lower[:, k] = self.lower_[curve][np.searchsorted(self.scores_[curve], x[:, k], side="right")]
            upper[:, k] = self.upper_[curve][np.searchsorted(self.scores_[curve], x[:, k], side="left")]
        if self.n_classes_ == 2:
            lower[:, 0], upper[:, 0] = 1 - upper[:, 1], 1 - lower[:, 1]
        return lower, upper

    @property
    def can_export(self) -> bool:
        """Whether scores are compared as they come in; log-odds of more than two logits differ in the last digit."""
        return self.space == "proba" or self.n_classes_ == 2

    def _map(self, graph: Graph, x: Node) -> Node:
        def curves(column: Node, *tables: Any) -> Node:
            low, below, high, above = tables
            lower = graph.lookup(below, graph.search(column, low, side="right"))
            upper = graph.lookup(above, graph.search(column, high, side="left"))
            return upper / (1.0 - lower + upper)  # [1] Sec. 4: the log-loss minimax of the pair

        steps = [
            (*_steps(score, lower), *_steps(score, upper))
            for score, lower, upper in zip(self.scores_, self.lower_, self.upper_, strict=True)
        ]
        return map_each(graph, x, curves, *([step[i] for step in steps] for i in range(4)))

    def predict_interval(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Return p₀ and p₁ of every class, each of shape (n, K), before any normalization.

        Parameters
        ----------
        X : array-like of shape (n, K) or (n,)
            Scores as in `predict_proba`: columns of a frame meet the classes by name and leave in their own order.
        """
        caller = "VennAbers.predict_interval"
        self._check_fitted(caller)
        x = check_scores(X, space=self.space, view=self.view, caller=caller, n_classes=self.n_classes_).values()
        order = frame_order(self.classes_, X, caller=caller)
        if order is None:
            return self._interval(x)
        lower, upper = self._interval(x[:, order])
        back = np.argsort(order)
        return lower[:, back], upper[:, back]


def _steps(scores: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the scores after which a step function changes, and its values: it has few steps for many scores."""
    new = np.flatnonzero(np.diff(values))
    if not len(new):
        new = np.zeros(1, dtype=np.int64)
    return scores[new], np.append(values[0], values[new + 1])
