"""Standard-deviation scaling: one factor for every error bar."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant._typing import Floats
from calibrant.calibrators.regression._base import RegressionCalibrator
from calibrant.errors import input_error

__all__ = ["StdScaling", "refuse_perfect"]


def refuse_perfect(total: float, caller: str) -> None:
    """Refuse rows without any residual: nothing can be learned from them."""
    if not total > 0:
        raise input_error(
            "y",
            caller,
            "differ from mean in at least one row",
            "no residual at all",
            "fit on rows the model was not trained on",
        )


class StdScaling(RegressionCalibrator):
    """Multiply every standard deviation by one factor.

    Attributes
    ----------
    factor_ : float
        σ → factor·σ; above 1 when the model was overconfident.

    Notes
    -----
    factor² = mean((y − μ)²/v) minimizes DSS and the normal log score in closed form: the SE/variance ratio of the
    calibration rows becomes 1. Keeps the mean, one-to-one, one parameter.

    References
    ----------
    [1] Levi, Gispan, Giladi & Fetaya (2022), "Evaluating and Calibrating Uncertainty Prediction in Regression Tasks",
        Sensors, section on standard-deviation scaling.

    Examples
    --------
    >>> StdScaling().fit([0.0, 0.0], [1.0, 1.0], [2.0, -2.0]).factor_
    2.0
    """

    short_name: ClassVar[str] = "std-scaling"
    title: ClassVar[str] = "one factor on the standard deviation"
    paper: ClassVar[str] = "Levi et al. 2022"
    when: ClassVar[str] = (
        "First choice with few rows, when all error bars are too wide or too narrow by about the same factor."
    )
    injective: ClassVar[bool] = True
    n_parameters: ClassVar[float] = 1
    state: ClassVar[tuple[str, ...]] = ("factor_",)
    factor_: float

    def _fit(self, mean: Floats, variance: Floats, y: Floats, weights: Floats) -> None:
        ratio = float(np.average((y - mean) ** 2 / variance, weights=weights))
        refuse_perfect(ratio, "StdScaling.fit")
        self.factor_ = float(np.sqrt(ratio))  # [1] the minimizer of the normal log score

    def _predict(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        return mean, self.factor_**2 * variance
