"""Platt scaling: a logistic curve on the log-odds of each class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator, Floor
from calibrant.calibrators._logistic import (
    fit_logistic,
    log_complement,
    log_complement_node,
    normalized_sigmoids,
    normalized_sigmoids_node,
    solve_classes,
)
from calibrant.calibrators._scores import Scores, View
from calibrant.core.programs import Graph, Node


class PlattScaling(Calibrator):
    """Fit a logistic curve to the log-odds of each class: σ(a·log(p/(1−p)) + b), then normalize.

    The classic for two classes and few rows; for more classes one curve per class against the rest.
    It cannot fix errors that are not sigmoid-shaped, and may change the predicted class.

    Parameters
    ----------
    smooth : bool, default True
        Replace the labels 1 and 0 by (n₊+1)/(n₊+2) and 1/(n₋+2), as Platt does against overfitting.

    Attributes
    ----------
    slope_, shift_ : ndarray of shape (K,)
        a and b of each class.

    Notes
    -----
    Each class is a convex problem in two numbers, all solved side by side by Newton until every
    gradient is below 1e-9. With smoothed labels that is the published optimum; with ``smooth=False``
    a ridge ‖(a, b) − (1, 0)‖²/n² keeps separable rows, and only those, finite. For two classes the two
    curves are mirror images, so normalizing changes nothing.
    log(1 − p) of the top class is taken as the log-sum of the other classes, so sharp forecasts do not
    cancel. Cost O(n·K) per step.

    References
    ----------
    [1] Platt (1999), "Probabilistic outputs for support vector machines", section 2.2.

    Examples
    --------
    >>> cal = PlattScaling(smooth=False).fit([0.9] * 10 + [0.1] * 10, [1] * 8 + [0] * 11 + [1])
    >>> cal.predict_proba([0.9, 0.1])[:, 1].round(2)  # 8 of 10 and 1 of 10
    array([0.8, 0.1])
    """

    short_name = "platt"
    title = "Platt scaling"
    paper = "Platt (1999), Probabilistic outputs for support vector machines, section 2.2"
    when = (
        "For two classes and few rows (from fifty on), when the error is sigmoid-shaped, as for margins and boosted "
        "trees. Not when forecasts are already good at the ends: beta calibration bends less there."
    )
    view: ClassVar[View] = "log"
    state: ClassVar[tuple[str, ...]] = ("slope_", "shift_")

    def __init__(
        self, *, smooth: bool = True, floor: Floor = "fit", space: Space = "proba", classes: ArrayLike | None = None
    ) -> None:
        self.smooth = smooth
        self.floor = floor
        self.space = space
        self.classes = classes

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:
        """Return 2K, or 2 for two classes."""
        return 2 if n_classes == 2 else 2 * n_classes

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        log_p = scores.values()
        odds = log_p - log_complement(log_p)
        k = scores.n_classes
        counts = np.bincount(codes, weights=weights, minlength=k)
        high, low = np.ones(k), np.zeros(k)
        if self.smooth:  # [1] section 2.2
            high, low = (counts + 1) / (counts + 2), 1 / (weights.sum() - counts + 2)
        start = np.stack([np.ones(k), np.zeros(k)])

        def solve(columns: slice) -> tuple[Floats, bool]:
            part = odds[:, columns]
            hit = codes[:, None] == np.arange(k)[columns]
            targets = np.where(hit, high[columns], low[columns])
            begin = start[:, columns]
            theta, _, good = fit_logistic(
                [part, np.ones_like(part)],
                targets,
                weights,
                begin,
                np.ones(begin.shape, dtype=bool),
                finite=bool(self.smooth),
            )
            return theta, good

        self.slope_, self.shift_ = solve_classes(solve, scores.n, k, "Platt scaling")

    def _predict(self, x: Floats) -> Floats:
        return normalized_sigmoids(self.slope_ * (x - log_complement(x)) + self.shift_)

    def _map(self, graph: Graph, x: Node) -> Node:
        odds = x - log_complement_node(graph, x)
        return normalized_sigmoids_node(graph, odds * self.slope_ + self.shift_)
