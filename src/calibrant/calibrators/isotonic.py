"""Isotonic regression of every class against the rest (IROvA)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator
from calibrant.calibrators._one_vs_rest import fit_each, map_each
from calibrant.calibrators._scores import Scores, View
from calibrant.core.links import sigmoid
from calibrant.core.pav import isotonic_fit, pool_ties, smooth_knots
from calibrant.core.programs import Graph, Node
from calibrant.errors import input_error


class IsotonicOneVsRest(Calibrator):
    """Fit one non-decreasing step-like curve per class, then normalize.

    Flexible and free of tuning, but it needs many rows per class, may change the predicted class and pulls
    rare classes to exact zeros on small calibration sets.

    Parameters
    ----------
    epsilon : float, default 1e-9
        Fraction of the input that is added to the fitted values, as in the authors' program. It keeps every class
        with p > 0 possible; 0 gives the bare fit.
    smooth : float, default 0.0
        Rows by which every constant stretch is drawn towards the input; above 0 the curve runs straight from the
        center of one stretch to the next, without steps. 1 suits a thousand rows and keeps rare classes possible.

    Attributes
    ----------
    thresholds_, values_ : lists of K arrays (of one array, for class 1, with two classes)
        Ends of the constant stretches of each class's curve and the values there.

    Notes
    -----
    q_k ∝ g_k(p_k) + ε·p_k, where g_k minimizes Σ_i w_i (g_k(p_ik) − 1[y_i = k])² over non-decreasing functions [1]_.
    Equal scores are pooled, the fit is linear between thresholds and held outside. A row whose
    fitted values are all 0 keeps its input; an absent class is fitted by 0. With two classes one curve is fitted, to
    class 1. Cost: O(K·n log n).

    With ``space="logit"`` the curves run over log-odds, which keep apart what a softmax rounds to 0 or 1.
    With ``smooth`` = a, a stretch of n rows, h of them hits, at mean score s has the value (h + a·s) / (n + a) at s.

    References
    ----------
    .. [1] Zadrozny & Elkan (2002), "Transforming classifier scores into accurate multiclass probability
       estimates", KDD.
    .. [2] Zhang, Kailkhura & Han (2020), "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
       Calibration in Deep Learning", ICML, section 3.3.1 (IROvA).

    Examples
    --------
    >>> p = [0.1, 0.4, 0.4, 0.8]
    >>> IsotonicOneVsRest(epsilon=0.0).fit(p, [0, 1, 0, 1]).predict_proba([0.1, 0.25, 0.6]).round(3)
    array([[1.  , 0.  ],
           [0.75, 0.25],
           [0.25, 0.75]])
    """

    short_name = "isotonic"
    title = "Isotonic regression, one class against the rest"
    paper = "Zadrozny & Elkan (2002); Zhang et al. (2020), section 3.3.1"
    when = (
        "Use it with two classes, or with hundreds of calibration rows per class, when the curve of reliability has no "
        "simple shape. Not with few rows or many classes (it saturates), nor when the predicted class must stay."
    )
    may_saturate = True
    default_loss = "brier"
    view: ClassVar[View] = "rank"
    free_parameters: ClassVar[float] = float("inf")  # the curves grow with the rows
    state: ClassVar[tuple[str, ...]] = ("thresholds_", "values_")

    thresholds_: list[Floats]
    values_: list[Floats]

    def __init__(
        self, *, epsilon: float = 1e-9, smooth: float = 0.0, space: Space = "proba", classes: ArrayLike | None = None
    ) -> None:
        self.epsilon = epsilon
        self.smooth = smooth
        self.space = space
        self.classes = classes

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        check_epsilon(self.epsilon, caller)
        if isinstance(self.smooth, bool) or not isinstance(self.smooth, int | float) or not 0 <= self.smooth < np.inf:
            raise input_error("smooth", caller, "be a number of rows, 0 or more", repr(self.smooth), "use 0 or 1")

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        x = scores.values()
        weight = None if bool((weights == 1).all()) else weights

        def one(k: int) -> tuple[Floats, Floats]:
            score = np.ascontiguousarray(x[:, k])
            if self.smooth > 0:
                pieces = pool_ties(score, codes == k, weight)
                return smooth_knots(pieces, self.smooth, sigmoid(pieces.first) if scores.space == "logit" else None)
            return isotonic_fit(score, codes == k, weight)  # [1] section 3

        curves = fit_each(self.n_classes_, one)
        self.thresholds_ = [thresholds for thresholds, _ in curves]
        self.values_ = [values for _, values in curves]

    def _map(self, graph: Graph, x: Node) -> Node:
        fitted = map_each(graph, x, graph.interp, self.thresholds_, self.values_)
        return add_share(graph, self._probabilities(graph, x), fitted, self.epsilon)


def check_epsilon(epsilon: float, caller: str) -> None:
    """Refuse anything but a small non-negative number."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise input_error(
            "epsilon", caller, "be a number in [0, 1)", repr(epsilon), "leave it at 1e-9, or take 0 for the bare fit"
        )


def add_share(graph: Graph, x: Node, fitted: Node, epsilon: float) -> Node:
    """Return g(p) + ε·p; without ε a row fitted by zeros alone keeps its input."""
    if epsilon > 0:
        return fitted + epsilon * x  # [2] section 3.3.2: a row of zeros becomes ε·p, the input after normalizing
    return graph.where(graph.sum(fitted) > 0.0, fitted, x)
