"""Metrics as scorers: what scikit-learn's searches and cross-validation call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant._typing import ArrayLike
from calibrant.core.declare import Metric, lookup
from calibrant.errors import input_error

__all__ = ["Scorer", "scorer"]


@dataclass(frozen=True)
class Scorer:
    """Call with a fitted classifier, features and labels; larger is better, so errors come with a minus."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, y_true: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the metric of ``estimator.predict_proba(X)`` with the sign that makes larger better."""
        metric = _declared(self.name)
        classes = list(estimator.classes_)
        plain = classes == list(range(len(classes)))
        value = metric(
            y_true=np.asarray(y_true),
            y_proba=np.asarray(estimator.predict_proba(X)),
            sample_weight=sample_weight,
            classes=None if plain else classes,
            **self.options,
        )
        return float(-value if metric.smaller_is_better else value)


def _declared(name: str) -> Metric:
    return lookup(name, "scorer", task="classes")


def scorer(name: str, **options: Any) -> Scorer:
    """Make a scorer for scikit-learn of a metric: ``cross_val_score(model, X, y, scoring=scorer("ece"))``.

    Parameters
    ----------
    name : str
        Short name of a metric of class probabilities.
    **options
        Parameters of the metric, such as ``n_bins=10``.

    Notes
    -----
    Labels of any kind are met by ``estimator.classes_``. Calibration errors of few rows are mostly noise: search with
    a proper score (``"nll"``, ``"brier"``) and look at errors afterwards.

    Examples
    --------
    >>> class Model:
    ...     classes_ = ["no", "yes"]
    ...     def predict_proba(self, X):
    ...         return np.column_stack([1 - X, X])
    >>> scorer("ece")(Model(), np.array([0.9, 0.9, 0.2]), ["yes", "no", "no"]).__round__(3)
    -0.333
    """
    if _declared(name).smaller_is_better is None:
        raise input_error("name", "scorer", "be a metric with a better direction", repr(name), "use 'nll' or 'ece'")
    return Scorer(name, options)
