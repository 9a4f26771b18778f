"""The contract of regression calibrators, and their JSON artefacts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from calibrant._typing import ArrayLike, Floats
from calibrant.calibrators import _artifact
from calibrant.core.inputs import check_weights
from calibrant.errors import FileError, NotFittedError
from calibrant.regression._inputs import check_column, check_levels, check_variance
from calibrant.regression.predictions import Normal, Prediction

__all__ = ["RegressionCalibrator", "from_payload", "load"]

TASK = "regression"


class RegressionCalibrator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of every map of means and variances: `fit(mean, variance, y)`, `predict(mean, variance)`.

    A subclass declares the facts below and writes `_fit` and `_predict` on checked columns; the fitted attributes
    named in `state` make the artefact.
    """

    short_name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    #: Whether different forecasts stay different, so that score changes equal calibration changes.
    injective: ClassVar[bool] = False
    #: Whether the mean is left alone.
    keeps_mean: ClassVar[bool] = True
    n_parameters: ClassVar[float] = 0
    state: ClassVar[tuple[str, ...]] = ()

    def _fit(self, mean: Floats, variance: Floats, y: Floats, weights: Floats) -> None:
        raise NotImplementedError

    def _predict(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        raise NotImplementedError

    def fit(
        self, mean: ArrayLike, variance: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit on rows the model was not trained on.

        Parameters
        ----------
        mean, variance : array of shape (n,)
            Predictions; `variance` positive.
        y : array of shape (n,)
            Truth.
        sample_weight : array of shape (n,), optional
            Frequencies: weight 2 equals the row twice.

        Returns
        -------
        self
        """
        caller = f"{type(self).__name__}.fit"
        center = check_column(mean, "mean", caller)
        spread = check_variance(variance, caller, len(center))
        truth = check_column(y, "y", caller, len(center))
        weights = check_weights(sample_weight, len(center), caller)
        if weights is None:
            self._fit(center, spread, truth, np.ones(len(center)))
        else:
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
        """Return the recalibrated predictive laws, one per row.

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

    def save(self, path: str | Path) -> None:
        """Write the fitted calibrator as JSON (arrays in full precision, checksum, schema number)."""
        self._check_fitted("save")
        _artifact.write(self.to_payload(), path)

    def to_payload(self) -> dict[str, Any]:
        """Return the whole artefact as plain data."""
        from calibrant import __version__

        payload: dict[str, Any] = {
            "format": _artifact.FORMAT, "schema": _artifact.SCHEMA, "library": f"calibrant {__version__}",
            "task": TASK, **_describe(self),
        }
        payload["checksum"] = _artifact.checksum(payload)
        return payload

    def _check(self, mean: ArrayLike, variance: ArrayLike, method: str) -> tuple[Floats, Floats]:
        self._check_fitted(method)
        caller = f"{type(self).__name__}.{method}"
        center = check_column(mean, "mean", caller)
        return center, check_variance(variance, caller, len(center))

    def _check_fitted(self, method: str) -> None:
        if not hasattr(self, "fitted_"):
            name = type(self).__name__
            raise NotFittedError(f"{name}.{method} needs a fitted calibrator. Hint: call fit(mean, variance, y) first.")


def _describe(calibrator: RegressionCalibrator) -> dict[str, Any]:
    """Kind, options and fitted state; a calibrator inside the state is described the same way."""

    def encode(value: Any) -> Any:
        if isinstance(value, RegressionCalibrator):
            return {TASK: _describe(value)}
        return _artifact.encode(None if isinstance(value, np.random.Generator) else value)

    return {
        "kind": type(calibrator).__name__,
        "params": {name: encode(value) for name, value in calibrator.get_params(deep=False).items()},
        "state": {name: encode(getattr(calibrator, name)) for name in calibrator.state},
    }


def _rebuild(record: dict[str, Any]) -> RegressionCalibrator:
    import calibrant.regression as room

    kinds = {kind.__name__: kind for kind in room.calibrator_classes()}
    if record["kind"] not in kinds:
        raise FileError(f"the file holds a {record['kind']}, which this calibrant does not know. Hint: update it.")
    kind = kinds[record["kind"]]
    calibrator = kind(**{name: _artifact.decode(value) for name, value in record["params"].items()})
    for name, value in record["state"].items():
        inner = isinstance(value, dict) and TASK in value
        setattr(calibrator, name, _rebuild(value[TASK]) if inner else _artifact.decode(value))
    calibrator.fitted_ = True
    return calibrator


def from_payload(payload: dict[str, Any], name: str = "the calibrator") -> RegressionCalibrator:
    """Return the calibrator of a verified payload (see `calibrant.calibrators._artifact.read`)."""
    if payload.get("task") != TASK:
        raise FileError(f"{name} holds a calibrator of class probabilities. Hint: use calibrant.load.")
    try:
        return _rebuild(payload)
    except (KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{name} lacks a part of a calibrator ({error}). Hint: save it again.") from error


def load(path: str | Path) -> RegressionCalibrator:
    """Load a regression calibrator written by `save`; predictions equal the saved one's to the last bit.

    Parameters
    ----------
    path : str or Path
        A JSON file. A changed file, a newer schema or a foreign file raises `FileError`.

    Returns
    -------
    RegressionCalibrator

    Examples
    --------
    >>> import tempfile
    >>> from calibrant.regression import StdScaling
    >>> repair = StdScaling().fit([0.0] * 4, [1.0] * 4, [2.0, -2.0, 2.0, -2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     repair.save(f"{folder}/cal.json")
    ...     again = load(f"{folder}/cal.json")
    >>> again.predict([0.0], [1.0]) == repair.predict([0.0], [1.0])  # mean and variance
    True
    """
    return from_payload(_artifact.read(path), str(path))
