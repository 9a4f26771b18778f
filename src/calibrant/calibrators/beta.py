"""Beta calibration: the likelihood ratio of two beta distributions."""

from __future__ import annotations

from typing import ClassVar, Literal

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


class BetaCalibration(Calibrator):
    """Fit σ(a·log p − b·log(1−p) + c) with a, b ≥ 0 to each class, then normalize.

    Like Platt scaling, but it contains the identity and bends the two ends separately. For more than
    two classes one curve per class against the rest; it may change the predicted class.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default "abm"
        Three free numbers; a = b; or c fixed so that p = 1/2 stays.

    Attributes
    ----------
    a_, b_, c_ : ndarray of shape (K,)
        Parameters of each class.

    Notes
    -----
    Convex in (a, b, c); the signs are kept by solving every allowed set of zeros for a class whose free
    solution breaks them and taking the best, which is exact. Newton until every gradient is below
    1e-9; where rows are separable, and only there, a ridge ‖(a, b, c) − (1, 1, 0)‖²/n² keeps them finite. Cost
    O(n·K) per step.

    References
    ----------
    [1] Kull, Silva Filho & Flach (2017), "Beta calibration", AISTATS, eq. (1) and section 3.

    Examples
    --------
    >>> p = [0.9] * 10 + [0.5] * 10 + [0.1] * 10
    >>> cal = BetaCalibration().fit(p, [1] * 8 + [0] * 2 + [1] * 6 + [0] * 13 + [1])
    >>> cal.predict_proba([0.9, 0.5, 0.1])[:, 1].round(2)  # 8, 6 and 1 of 10
    array([0.8, 0.6, 0.1])
    """

    short_name = "beta"
    title = "Beta calibration"
    paper = "Kull, Silva Filho & Flach (2017), Beta calibration, AISTATS, eq. (1)"
    when = (
        "For two classes (or a few) with some hundred rows, for any classifier; harmless when the forecast is already "
        "calibrated. Not for many classes: the curves do not know of one another."
    )
    view: ClassVar[View] = "log"
    state: ClassVar[tuple[str, ...]] = ("a_", "b_", "c_")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"parameters": ("abm", "am", "ab")}

    def __init__(
        self,
        parameters: Literal["abm", "am", "ab"] = "abm",
        *,
        floor: Floor = "fit",
        space: Space = "proba",
        classes: ArrayLike | None = None,
    ) -> None:
        self.parameters = parameters
        self.floor = floor
        self.space = space
        self.classes = classes

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:
        """Return 3K, or 3 for two classes."""
        return 3 if n_classes == 2 else 3 * n_classes

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        log_p = scores.values()
        log_rest = log_complement(log_p)
        k = scores.n_classes

        def solve(columns: slice) -> tuple[Floats, bool]:
            hit = (codes[:, None] == np.arange(k)[columns]).astype(np.float64)
            return self._solve_block(log_p[:, columns], log_rest[:, columns], hit, weights, columns)

        self.a_, self.b_, self.c_ = solve_classes(solve, scores.n, k, "beta calibration")

    def _solve_block(
        self, log_p: Floats, log_rest: Floats, hit: Floats, weights: Floats, columns: slice = slice(None)
    ) -> tuple[Floats, bool]:
        """Return (a, b, c) of some classes, shape (3, classes)."""
        k = log_p.shape[1]
        if self.parameters == "am":
            features = [log_p - log_rest, np.ones_like(log_p)]
            start = np.stack([np.ones(k), np.zeros(k)])
            signed = 1
        elif self.parameters == "ab":  # m = 1/2: c = (a − b) log 2
            features = [log_p + np.log(2.0), -log_rest - np.log(2.0)]
            start = np.ones((2, k))
            signed = 2
        else:
            features = [log_p, -log_rest, np.ones_like(log_p)]
            start = np.stack([np.ones(k), np.ones(k), np.zeros(k)])
            signed = 2
        warm = None
        if self._warm is not None and self.parameters == "abm":
            warm = np.stack([self._warm.a_, self._warm.b_, self._warm.c_])[:, columns]
        theta, _, good = fit_logistic(features, hit, weights, start, np.ones(start.shape, dtype=bool), warm=warm)
        broken = np.flatnonzero((theta[:signed] < 0).any(axis=0))
        if len(broken):
            best, found = np.full(len(broken), np.inf), theta[:, broken]
            for zeros in range(1, 1 << signed):  # every set of signed parameters held at 0
                held = np.array([bool(zeros >> i & 1) for i in range(len(start))])
                begin = np.where(held[:, None], 0.0, start[:, broken])
                free = np.repeat(~held[:, None], len(broken), axis=1)
                trial, value, ok = fit_logistic([f[:, broken] for f in features], hit[:, broken], weights, begin, free)
                better = (trial[:signed] >= 0).all(axis=0) & (value < best)
                best, found = np.where(better, value, best), np.where(better, trial, found)
                good = good and ok
            theta[:, broken] = found
        if self.parameters == "am":
            return np.stack([theta[0], theta[0], theta[1]]), good
        if self.parameters == "ab":
            return np.stack([theta[0], theta[1], (theta[0] - theta[1]) * np.log(2.0)]), good
        return theta, good

    def _predict(self, x: Floats) -> Floats:
        return normalized_sigmoids(self.a_ * x - self.b_ * log_complement(x) + self.c_)  # [1] eq. (1)

    def _map(self, graph: Graph, x: Node) -> Node:
        rest = log_complement_node(graph, x)
        return normalized_sigmoids_node(graph, x * self.a_ - rest * self.b_ + self.c_)
