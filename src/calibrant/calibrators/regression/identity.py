"""Identity: the reference every map of means and variances must beat."""

from __future__ import annotations

from typing import ClassVar

from calibrant._typing import Floats
from calibrant.calibrators.regression._base import RegressionCalibrator

__all__ = ["Identity"]


class Identity(RegressionCalibrator):
    """Change nothing: the reference every other map must beat.

    Examples
    --------
    >>> Identity().fit([0.0], [1.0], [2.0]).predict([0.0], [1.0])
    (array([0.]), array([1.]))
    """

    short_name: ClassVar[str] = "identity"
    title: ClassVar[str] = "no change"
    paper: ClassVar[str] = ""
    when: ClassVar[str] = "Always, as the reference in a comparison; ship it when no method beats it on held-out rows."
    injective: ClassVar[bool] = True

    def _fit(self, mean: Floats, variance: Floats, y: Floats, weights: Floats) -> None:
        """Nothing to learn."""

    def _predict(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        return mean, variance
