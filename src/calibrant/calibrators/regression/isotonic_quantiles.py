"""Recalibrated quantiles of Kuleshov et al.: the distribution of standardized residuals replaces the normal one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.calibrators.regression._base import RegressionCalibrator
from calibrant.core.columns import check_levels
from calibrant.core.predictions import Quantiles
from calibrant.errors import input_error

__all__ = ["IsotonicQuantiles"]

#: More knots than this are thinned to equally spaced levels.
KNOTS = 999


class IsotonicQuantiles(RegressionCalibrator):
    """Learn at which level the model's quantiles really lie, by a monotone map of its distribution function.

    Attributes
    ----------
    levels_ : array of shape (knots,)
        Levels the map gives.
    values_ : array of shape (knots,)
        Standardized residual (y − μ)/σ at each level.

    Notes
    -----
    [1] fits a monotone R with R(p) ≈ fraction of calibration rows whose PIT is at most p and predicts the distribution
    R∘F. That fraction already rises with p, so R is the distribution of the PIT itself. Since F(y) = Φ((y − μ)/σ), the
    new distribution of a row is μ + σZ with one Z for all rows, the distribution of (y − μ)/σ on the calibration rows:
    k-th smallest at level k/(n + 1), ties at their middle, linear between, held beyond the outermost (nothing is known
    there). Kept in residuals, the map never saturates, however overconfident the model. `predict` gives that
    distribution's exact mean and variance. Not a normal distribution any more; moves the mean; needs some hundred rows.

    References
    ----------
    [1] Kuleshov, Fenner & Ermon (2018), "Accurate Uncertainties for Deep Learning Using Calibrated Regression",
        ICML, algorithm 1.

    Examples
    --------
    >>> method = IsotonicQuantiles().fit([0.0] * 3, [1.0] * 3, [-2.0, 0.0, 2.0])
    >>> method.predict_quantiles([10.0], [4.0], levels=[0.25, 0.5, 0.75])
    array([[ 6., 10., 14.]])
    """

    short_name: ClassVar[str] = "isotonic-quantiles"
    title: ClassVar[str] = "monotone map of the quantile levels"
    paper: ClassVar[str] = "Kuleshov et al. 2018"
    when: ClassVar[str] = (
        "When the shape of the errors is not normal (skewed, heavy tails) and quantiles are used; some hundred rows."
    )
    keeps_mean: ClassVar[bool] = False
    n_parameters: ClassVar[float] = float("inf")
    state: ClassVar[tuple[str, ...]] = ("levels_", "values_")
    levels_: Floats
    values_: Floats

    def _fit(self, mean: Floats, variance: Floats, y: Floats, weights: Floats) -> None:
        z, where = np.unique((y - mean) / np.sqrt(variance), return_inverse=True)
        if len(z) < 2:
            raise input_error(
                "y",
                "IsotonicQuantiles.fit",
                "give at least two different standardized residuals",
                f"{len(z)}",
                "fit on more rows, which the model was not trained on",
            )
        mass = np.bincount(where, weights)
        upto = np.cumsum(mass)
        levels = (upto - mass + (mass + 1) / 2) / (upto[-1] + 1)  # [1] algorithm 1: P̂(p), k/(n + 1)
        if len(z) > KNOTS:
            wanted = np.linspace(levels[0], levels[-1], KNOTS)
            levels, z = wanted, np.interp(wanted, levels, z)
        self.levels_, self.values_ = levels, z

    def _predict(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        law = Quantiles(self.levels_, self.values_[None, :])
        return mean + np.sqrt(variance) * law.mean[0], variance * law.variance[0]

    def predict_distribution(self, mean: ArrayLike, variance: ArrayLike, *, levels: int | ArrayLike = 99) -> Quantiles:
        """Return the recalibrated distribution of each row as a table of quantiles: arguments as in the base class."""
        center, spread = self._check(mean, variance, "predict_distribution")
        wanted = check_levels(levels, "IsotonicQuantiles.predict_distribution")
        z = Quantiles(self.levels_, self.values_[None, :]).quantile(wanted)
        return Quantiles(wanted, center[:, None] + np.sqrt(spread)[:, None] * z)

    def predict_quantiles(self, mean: ArrayLike, variance: ArrayLike, *, levels: int | ArrayLike = 99) -> Floats:
        """Return recalibrated quantiles, shape (n, levels), without the detour over a coarser table."""
        return self.predict_distribution(mean, variance, levels=levels).values
