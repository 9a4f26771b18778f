"""Proper U-scores of order two: scores of pairs of forecasts, with SKCE as the instance."""

from __future__ import annotations

import math
import warnings

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.inputs import check_forecast, check_names
from calibrant.core.kernels import (
    KERNELS,
    check_gamma,
    paired_kernel,
    residuals,
    resolve_gamma,
    unbiased_value,
)
from calibrant.core.results import Decomposition
from calibrant.errors import UndefinedWarning, input_error

__all__ = ["KernelScore"]


class KernelScore:
    """The U-score S(P₁, P₂, y₁, y₂) = k(P₁, P₂)·⟨P₁ − e_{y₁}, P₂ − e_{y₂}⟩, whose mean is SKCE.

    It has the interface of a proper score, on pairs. Its entropy is 0 everywhere and its sharpness vanishes: the
    score measures calibration and nothing else. Proper, not strictly proper.

    Parameters
    ----------
    kernel : {"exponential", "gaussian", "total-variation"}, default "exponential"
    gamma : float or "median", default "median"
        Width of the kernel. "median" depends on the sample and serves `mean` and `decomposition` only.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, appendix F.
    [2] Widmann, Lindsten & Zachariah (2019), "Calibration tests in multi-class classification", NeurIPS.

    Examples
    --------
    >>> score = KernelScore("gaussian", gamma=1.0)
    >>> score.score([[1.0, 0.0]], [[0.0, 1.0]], [1], [0])  # −2/e
    array([-0.735759])
    >>> score.mean([1, 0], [[1.0, 0.0], [0.0, 1.0]])
    -0.735759
    """

    name = "skce"
    order = 2

    def __init__(self, kernel: str = "exponential", gamma: float | str = "median") -> None:
        self.kernel = check_names(kernel, KERNELS, "kernel", "KernelScore")
        check_gamma(gamma, "KernelScore")
        self.gamma = gamma

    def __repr__(self) -> str:
        return f"KernelScore({self.kernel!r}, gamma={self.gamma!r})"

    def _kernel(self, first: Floats, second: Floats) -> Floats:
        if isinstance(self.gamma, str):
            raise input_error(
                "gamma", "KernelScore", "be a number to score single pairs", repr(self.gamma), "pass gamma=0.5"
            )
        return paired_kernel(first, second, self.kernel, float(self.gamma))

    def score(self, first: ArrayLike, second: ArrayLike, y_first: ArrayLike, y_second: ArrayLike) -> Floats:
        """Return S of each pair of rows."""
        p, q = (np.asarray(value, dtype=np.float64) for value in (first, second))
        product = np.einsum("ij,ij->i", residuals(p, np.asarray(y_first)), residuals(q, np.asarray(y_second)))
        return np.asarray(self._kernel(p, q) * product)  # [1] eq. (58)

    def expected_score(
        self, first: ArrayLike, second: ArrayLike, truth_first: ArrayLike, truth_second: ArrayLike
    ) -> Floats:
        """Return E S with Y₁ ~ Q₁, Y₂ ~ Q₂ independent; equal to the divergence, because the entropy is 0."""
        p, q, a, b = (np.asarray(x, dtype=np.float64) for x in (first, second, truth_first, truth_second))
        return np.asarray(self._kernel(p, q) * np.einsum("ij,ij->i", p - a, q - b))  # [1] eq. (60)

    def entropy(self, first: ArrayLike, second: ArrayLike) -> Floats:
        """Return g(Q₁, Q₂) = 0."""
        return np.zeros(len(np.broadcast_arrays(np.atleast_1d(first), np.atleast_1d(second))[0]))  # [1] eq. (59)

    def divergence(
        self, first: ArrayLike, second: ArrayLike, truth_first: ArrayLike, truth_second: ArrayLike
    ) -> Floats:
        """Return d(P₁, P₂, Q₁, Q₂); its mean over independent pairs is never negative."""
        return self.expected_score(first, second, truth_first, truth_second)

    def infimum(self, n_classes: int) -> float:  # noqa: ARG002 -- the same for every number of classes
        """Return inf g = 0."""
        return 0.0

    def mean(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        space: Space = "proba",
    ) -> float:
        """Return the U-statistic over all pairs of rows: the unbiased SKCE."""
        forecast = check_forecast(
            y_true, y_proba, caller="KernelScore.mean", sample_weight=sample_weight, classes=classes, space=space
        )
        if forecast.total < 2:
            warnings.warn("one row has no pairs: nan is returned", UndefinedWarning, stacklevel=2)
            return math.nan
        points = forecast.proba()
        gamma = resolve_gamma(forecast, self.kernel, self.gamma)
        return unbiased_value(points, residuals(points, forecast.codes), forecast.weights, self.kernel, gamma)

    def decomposition(
        self,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        space: Space = "proba",
    ) -> Decomposition:
        """Return score = 0 + calibration − 0: nothing but calibration."""
        value = self.mean(y_true, y_proba, sample_weight=sample_weight, classes=classes, space=space)
        return Decomposition(value, 0.0, value, 0.0)  # [1] eq. (56), (61)
