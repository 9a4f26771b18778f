"""Estimates of P(Y | f) that the calibration part of a score is measured against."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from calibrant._typing import RNG, Floats, Ints
from calibrant.core.folds import stratified_folds
from calibrant.core.options import check_rng
from calibrant.core.pav import isotonic_fit
from calibrant.errors import input_error

__all__ = ["cross_fitted", "isotonic", "plug_in"]


def isotonic(score: Floats, outcome: Floats, weights: Floats | None) -> Floats:
    """Return the isotonic (CORP) frequencies of a yes/no outcome at its own scores."""
    thresholds, values = isotonic_fit(score, outcome, weights)
    return np.asarray(np.interp(score, thresholds, values))


def plug_in(proba: Floats, codes: Ints, weights: Floats | None) -> tuple[Floats, int]:
    """Return class frequencies among equal forecasts, row by row, and the number of distinct forecasts."""
    _, group = np.unique(proba, axis=0, return_inverse=True)
    group = group.reshape(-1)
    n_groups, k = int(group.max()) + 1, proba.shape[1]
    counts = np.bincount(group * k + codes, weights, n_groups * k).reshape(n_groups, k)
    with np.errstate(invalid="ignore"):
        frequencies = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(frequencies[group]), n_groups


def cross_fitted(
    recalibrator: Any, proba: Floats, codes: Ints, weights: Floats | None, *, cv: int, rng: RNG, caller: str
) -> Floats:
    """Return recalibrated forecasts in which no row was used to fit its own map.

    `recalibrator` is copied for each fold; it needs ``fit(X, y)`` (with ``sample_weight=`` when there are weights) and
    ``predict_proba(X)``.
    """
    if not (hasattr(recalibrator, "fit") and hasattr(recalibrator, "predict_proba")):
        raise input_error(
            "recalibrator",
            caller,
            "be 'isotonic', 'plug-in' or have fit and predict_proba",
            type(recalibrator).__name__,
            "pass for example TemperatureScaling()",
        )
    if not 2 <= cv <= len(codes):
        raise input_error("cv", caller, f"lie between 2 and the {len(codes)} rows", repr(cv), "use cv=5")
    fold = stratified_folds(codes, cv, check_rng(rng, caller))
    out = np.empty_like(proba)
    for k in range(cv):
        train, test = fold != k, fold == k
        fitted = copy.deepcopy(recalibrator)
        extra = {} if weights is None else {"sample_weight": weights[train]}
        fitted.fit(proba[train], codes[train], **extra)
        predicted = np.asarray(fitted.predict_proba(proba[test]), dtype=np.float64)
        if predicted.shape != (int(test.sum()), proba.shape[1]):
            raise input_error(
                "recalibrator",
                caller,
                f"predict {proba.shape[1]} columns",
                f"shape {predicted.shape}",
                "use a recalibrator that keeps classes absent from the fold",
            )
        out[test] = predicted
    return out
