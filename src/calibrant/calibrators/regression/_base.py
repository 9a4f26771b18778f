"""The contract of calibrators of means and variances."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from calibrant._typing import ArrayLike, Floats
from calibrant.calibrators._common import BaseCalibrator
from calibrant.core.columns import check_column, check_levels, check_variance
from calibrant.core.fingerprint import fingerprint, moment_rows
from calibrant.core.inputs import check_weights
from calibrant.core.predictions import Normal, Prediction
from calibrant.core.weights import effective_weights

__all__ = ["RegressionCalibrator"]


class RegressionCalibrator(BaseCalibrator):
    """Base of every map of means and variances: `fit(mean, variance, y)`, `predict(mean, variance)`.

    A subclass declares the facts below and writes `_fit` and `_predict` on checked columns; the fitted attributes
    named in `state` make the artifact.
    """

    task = "regression"
    fit_call = "fit(mean, variance, y)"
    default_loss: ClassVar[str] = "dss"
    #: Whether the mean is left alone.
    keeps_mean: ClassVar[bool] = True
    #: Free numbers of the map; inf when they grow with the rows.
    n_parameters: ClassVar[float] = 0

    @classmethod
    def count_parameters(cls, n_classes: int) -> float:  # noqa: ARG003 -- there are no classes
        """Return the free numbers of the map."""
        return cls.n_parameters

    def _fit(self, mean: Floats, variance: Floats, y: Floats, weights: Floats) -> None:
        raise NotImplementedError

    def _predict(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        raise NotImplementedError

    def fit(self, mean: ArrayLike, variance: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on rows the model was not trained on.

        Parameters
        ----------
        mean, variance : array of shape (n,)
            Predictions; `variance` positive.
        y : array of shape (n,)
            Truth.
        sample_weight : array of shape (n,), optional
            Whole numbers equal repeated rows; others are importance weights, worth Kish's effective number of rows.

        Returns
        -------
        self
        """
        caller = f"{type(self).__name__}.fit"
        self._check_choices(caller)
        center = check_column(mean, "mean", caller)
        spread = check_variance(variance, caller, len(center))
        truth = check_column(y, "y", caller, len(center))
        weights = check_weights(sample_weight, len(center), caller)
        self.fitted_on_ = fingerprint(moment_rows(center, spread))
        weights = effective_weights(weights, len(center))
        used = weights > 0
        self._fit(center[used], spread[used], truth[used], weights[used])
        self.fitted_ = True
        return self

    def predict(self, mean: ArrayLike, variance: ArrayLike) -> tuple[Floats, Floats]:
        """Return the recalibrated mean and variance of each row.

        Parameters
        ----------
        mean, variance : array of shape (n,)
            New predictions of the same model.

        Returns
        -------
        mean, variance : array of shape (n,)
        """
        return self._predict(*self._check(mean, variance, "predict"))

    def predict_distribution(self, mean: ArrayLike, variance: ArrayLike) -> Prediction:
        """Return the recalibrated predictive distributions, one per row.

        Parameters
        ----------
        mean, variance : array of shape (n,)
            New predictions of the same model.

        Returns
        -------
        Normal or Quantiles
        """
        return Normal(*self._predict(*self._check(mean, variance, "predict_distribution")))

    def predict_quantiles(self, mean: ArrayLike, variance: ArrayLike, *, levels: int | ArrayLike = 99) -> Floats:
        """Return recalibrated quantiles, shape (n, levels).

        Parameters
        ----------
        mean, variance : array of shape (n,)
            New predictions of the same model.
        levels : int or increasing levels in (0, 1), default 99
            A whole number m means j/(m + 1).

        Returns
        -------
        array of shape (n, levels)
        """
        wanted = check_levels(levels, f"{type(self).__name__}.predict_quantiles")
        return self.predict_distribution(mean, variance).quantile(wanted)

    def _check(self, mean: ArrayLike, variance: ArrayLike, method: str) -> tuple[Floats, Floats]:
        caller = f"{type(self).__name__}.{method}"
        self._check_fitted(caller)
        center = check_column(mean, "mean", caller)
        return center, check_variance(variance, caller, len(center))

    def restore(self, state: dict[str, Any]) -> None:
        """Take the attributes of a fitted map, as read from an artifact."""
        super().restore(state)
        self.fitted_ = True

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")
