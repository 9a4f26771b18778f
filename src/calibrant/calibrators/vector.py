"""Vector scaling: one scale and one shift per class."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import ClassVar

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator, Floor
from calibrant.calibrators._multinomial import WARM_TOLERANCE, Diagonal, minimize, one_blas_thread, score_unit
from calibrant.calibrators._scores import Scores, View
from calibrant.core.links import scaled_exp
from calibrant.core.programs import Graph, Node
from calibrant.errors import ConvergenceWarning


class VectorScaling(Calibrator):
    """Scale and shift every logit on its own: softmax(a∘z + b).

    For models whose classes are miscalibrated to different degrees, with some hundred rows per class.
    It may change the predicted class. With few rows per class it overfits: prefer temperature scaling.

    Parameters
    ----------
    space : {"proba", "logit"}, default "proba"
        What X holds; probabilities are read as logits log p.

    Attributes
    ----------
    scale_, shift_ : ndarray of shape (K,)
        a and b.

    Notes
    -----
    Minimizes the mean negative log-likelihood + ‖(a, b) − (1, 0)‖²/n², n the sum of weights: the ridge
    picks one of the equivalent shifts, keeps absent and separable classes finite and vanishes with n.
    The problem is convex; Newton (conjugate gradients above 250 classes) from the identity until
    every entry of the gradient is below 1e-8. Cost O(n·K²) per step.

    References
    ----------
    [1] Guo et al. (2017), "On Calibration of Modern Neural Networks", ICML, section 4.2.

    Examples
    --------
    >>> cal = VectorScaling().fit([[0.9, 0.1]] * 10 + [[0.1, 0.9]] * 10, [0] * 8 + [1] * 11 + [0])
    >>> cal.predict_proba([[0.9, 0.1], [0.1, 0.9]]).round(2)  # 8 and 9 of 10 were right
    array([[0.8, 0.2],
           [0.1, 0.9]])
    """

    short_name = "vector"
    title = "Vector scaling"
    paper = "Guo et al. (2017), On Calibration of Modern Neural Networks, ICML, section 4.2"
    when = (
        "When classes are miscalibrated to different degrees and each has a hundred rows or more. "
        "Not with few rows per class, and not when the predicted class must stay."
    )
    view: ClassVar[View] = "logit"
    state: ClassVar[tuple[str, ...]] = ("scale_", "shift_")

    def __init__(self, *, floor: Floor = "fit", space: Space = "proba", classes: ArrayLike | None = None) -> None:
        self.floor = floor
        self.space = space
        self.classes = classes

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:
        """Return 2K."""
        return 2 * n_classes

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        k = scores.n_classes
        start = np.stack([np.ones(k), np.zeros(k)])
        ridge = np.full((2, k), float(weights.sum()) ** -2)
        x = scores.values()
        unit = score_unit(x)
        problem = Diagonal(x if unit == 1 else x / unit, codes, weights, ridge, start)
        with one_blas_thread() if k <= 100 else nullcontext():
            if self._warm is None:
                theta, _, converged = minimize(problem, start)
            else:
                begin = np.stack([self._warm.scale_ * unit, self._warm.shift_])
                theta, _, converged = minimize(problem, begin, WARM_TOLERANCE)
        warn_if_doubtful("vector scaling", converged, problem.q, codes)
        self.scale_, self.shift_ = theta[0] / unit, theta[1].copy()

    def _predict(self, x: Floats) -> Floats:
        return scaled_exp(x * self.scale_ + self.shift_)

    def _map(self, graph: Graph, x: Node) -> Node:
        return graph.softmax(x * self.scale_ + self.shift_)


def warn_if_doubtful(method: str, converged: bool, q: Floats, codes: Ints) -> None:
    """Warn when a multinomial fit did not converge or separates the rows."""
    if not converged:
        warnings.warn(
            f"{method}: the solver stopped before its gradient tolerance; the map may be slightly off its optimum.",
            ConvergenceWarning,
            stacklevel=4,
        )
    elif (q.argmax(axis=1) == codes).all():
        warnings.warn(
            f"{method}: the fitted map gets every calibration row right, so the likelihood has no finite optimum; "
            "a ridge of 1/n² keeps the map finite. Use more calibration rows or a method with fewer parameters.",
            ConvergenceWarning,
            stacklevel=4,
        )
