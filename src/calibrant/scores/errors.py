"""What a proper score says about calibration: the error, its upper bound, and the decomposition."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Ints, Space
from calibrant.core.arguments import check_options
from calibrant.core.inputs import Forecast, check_forecast
from calibrant.core.results import Decomposition
from calibrant.core.tables import Pairs
from calibrant.core.weights import are_counts
from calibrant.errors import CalibrantWarning, input_error
from calibrant.scores.recalibrated import cross_fitted, isotonic, plug_in
from calibrant.scores.rules import Brier, EventBrier, ProperScore, as_score
from calibrant.views import View, as_view

__all__ = ["calibration_error", "decomposition", "mean_score", "upper_bound"]


def row_scores(forecast: Forecast, score: ProperScore) -> Floats:
    """Return S(f(x), y) of each row, chunk by chunk."""
    parts = [
        score._rows(np.asarray(forecast.block(rows), dtype=np.float64), forecast.codes[rows])
        for rows in forecast.chunks()
    ]
    return np.concatenate(parts)


def average(rows: Floats, weights: Floats | None) -> float:
    """Return the weighted mean; a row of weight 0 is absent, also when its score is infinite."""
    if weights is None:
        return float(rows.mean())
    used = weights > 0
    return float(np.dot(weights[used], rows[used]) / weights.sum())


def mean_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: ProperScore | str = "brier",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> float:
    """Average a proper score over the rows.

    Smaller is better. Mixes calibration with sharpness; see `decomposition`.

    Examples
    --------
    >>> mean_score([1, 0], [0.8, 0.4], score="brier")
    0.2
    """
    forecast = check_forecast(
        y_true, y_proba, caller="mean_score", sample_weight=sample_weight, classes=classes, space=space
    )
    return average(row_scores(forecast, as_score(score, "mean_score")), forecast.weights)


def upper_bound(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: ProperScore | str = "brier",
    root: bool = False,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> float:
    """Bound the proper calibration error from above by the mean score.

    Smaller is better; 0 only for forecasts that are certain and right. It bounds and does not estimate: loose where
    classes overlap. Unbiased at every n, so differences of it can be trusted (`improvement`).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    score : ProperScore or {"brier", "nll", "spherical", "rps"}, default "brier"
        The score whose calibration error is bounded.
    root : bool, default False
        Take the square root: for the Brier score this is RBS ≥ CE₂.
    sample_weight, classes, space
        As everywhere.

    Returns
    -------
    float

    Notes
    -----
    U_S(f) = E S(f(X), Y) − inf g ≥ CE_S(f) = E d(f(X), P(Y|f(X))) [1]. Raises when inf g is not finite. O(n·K).

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, theorem 4.3.

    Examples
    --------
    >>> upper_bound([1, 0], [0.8, 0.4])
    0.2
    >>> upper_bound([1, 0], [0.8, 0.4], root=True)
    0.447214
    """
    check_options(upper_bound, locals())
    forecast = check_forecast(
        y_true, y_proba, caller="upper_bound", sample_weight=sample_weight, classes=classes, space=space
    )
    rule = as_score(score, "upper_bound")
    infimum = rule.infimum(forecast.n_classes)
    if not math.isfinite(infimum):
        raise input_error("score", "upper_bound", "have a finite inf g", f"{infimum}", "use improvement instead")
    bound = average(row_scores(forecast, rule), forecast.weights) - infimum  # [1] theorem 4.3
    return math.sqrt(max(bound, 0.0)) if root else bound


def _rows_in_use(forecast: Forecast) -> tuple[Floats, Ints, Floats | None]:
    """Return probabilities, codes and weights without rows of weight 0."""
    if forecast.weights is None or (forecast.weights > 0).all():
        return forecast.proba(), forecast.codes, forecast.weights
    used = forecast.weights > 0
    return forecast.proba()[used], forecast.codes[used], forecast.weights[used]


def _conditional(
    recalibrator: Any, proba: Floats, codes: Ints, weights: Floats | None, cv: int, rng: RNG, caller: str
) -> Floats:
    """Return the estimate of P(Y | f) that was asked for."""
    if isinstance(recalibrator, str):
        if recalibrator == "isotonic" and proba.shape[1] == 2:
            one = isotonic(proba[:, 1], (codes == 1).astype(np.float64), weights)
            return np.stack([1.0 - one, one], axis=1)
        if recalibrator == "plug-in":
            frequencies, distinct = plug_in(proba, codes, weights)
            counted = are_counts(weights)
            total = len(proba) if weights is None else float(weights.sum())
            if counted and total < 2 * distinct:
                warnings.warn(
                    f"{distinct} distinct forecasts in {len(proba)} rows: the plug-in value says little, "
                    "pass a recalibrator",
                    CalibrantWarning,
                    stacklevel=3,
                )
            return frequencies
        rule = "be 'plug-in', 'isotonic' (two classes) or have fit and predict_proba"
        raise input_error(
            "recalibrator",
            caller,
            rule,
            f"{recalibrator!r} for {proba.shape[1]} classes",
            "pass for example TemperatureScaling(), or view='top-1'",
        )
    return cross_fitted(recalibrator, proba, codes, weights, cv=cv, rng=rng, caller=caller)


def calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: ProperScore | str = "brier",
    recalibrator: Any = "plug-in",
    cv: int = 5,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    rng: RNG = None,
) -> float:
    """Estimate the proper calibration error E d(f, P(Y|f)).

    Canonical calibration; smaller is better; 0 is perfect. P(Y|f) is known for forecasts with few distinct values
    (plug-in); otherwise it takes a recalibrator, and the value is only a lower bound, as good as the recalibrator.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    score : ProperScore or str, default "brier"
        With "brier" the value is CE₂².
    recalibrator : "plug-in" or object with fit and predict_proba, default "plug-in"
        "plug-in" compares equal forecasts with their class frequencies: exact for the empirical distribution. An object
        is fitted on the other folds only.
    cv : int, default 5
        Number of folds, dealt class by class.
    sample_weight, classes, space, rng
        As everywhere; `rng` deals the folds.

    Returns
    -------
    float
        With a recalibrator the value may fall below 0: then it found nothing.

    Notes
    -----
    E d(f, P(Y|f)) = E S(f, Y) − E g(P(Y|f)) [1]. For any map c fitted on other rows E S(c(f), Y) ≥ E g(P(Y|f)),
    so mean S(f, y) − mean S(c(f), y) is a lower bound in expectation. Cost: that of the recalibrator times `cv`.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, definition 4.2,
        lemma D.1.

    Examples
    --------
    >>> calibration_error([1, 1, 1, 0], [0.5, 0.5, 0.5, 0.5])  # 2·(3/4 − 1/2)²
    0.125
    """
    caller = "calibration_error"
    forecast = check_forecast(y_true, y_proba, caller=caller, sample_weight=sample_weight, classes=classes, space=space)
    rule = as_score(score, caller)
    proba, codes, weights = _rows_in_use(forecast)
    conditional = _conditional(recalibrator, proba, codes, weights, cv, rng, caller)
    if isinstance(recalibrator, str):
        return average(rule._divergence(proba, conditional), weights)  # [1] definition 4.2
    return average(rule._rows(proba, codes) - rule._rows(conditional, codes), weights)  # [1] lemma D.1


def decomposition(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    score: ProperScore | str = "brier",
    view: View | str = "canonical",
    recalibrator: Any = "isotonic",
    cv: int = 5,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    rng: RNG = None,
) -> Decomposition:
    """Take a mean score apart: score = entropy + calibration − sharpness.

    Calibration (smaller is better) is what recalibration would save, sharpness (larger is better) what the
    forecasts know beyond the class frequencies. Both depend on how P(Y|f) is estimated; isotonic values are in-sample
    and never negative.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    y_proba : array-like of shape (n, K) or (n,)
        Probabilities, or the probability of class 1.
    score : ProperScore or str, default "brier"
        Score of the whole vector; for a one-dimensional view that of the yes/no forecast (1 − s, s), and
        (s − t)² for "brier", as in ``brier_score(view="top-1")``: over all classes these sum to the Brier score.
    view : View or str, default "canonical"
        "canonical", or "top-1", "class-K", "within-R", "classwise" (each class on its own, then the mean).
    recalibrator : "isotonic", "plug-in" or object, default "isotonic"
        "isotonic" (CORP) for two classes and one-dimensional views; "plug-in" for forecasts with few distinct
        values; an object with fit and predict_proba is cross-fitted (then calibration may fall below 0).
    cv, sample_weight, classes, space, rng
        As in `calibration_error`.

    Returns
    -------
    Decomposition
        With fields score, entropy, calibration, sharpness that add up to rounding.

    Notes
    -----
    entropy = g(P_Y), calibration = S̄(f) − S̄(c), sharpness = g(P_Y) − S̄(c) with c the estimate of P(Y|f) [1, 2].
    O(n log n) for isotonic.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, lemma 4.1.
    [2] Dimitriadis, Gneiting & Jordan (2021), "Stable reliability diagrams for probabilistic classifiers", PNAS 118.

    Examples
    --------
    >>> print(decomposition([0, 1, 1, 1], [0.2, 0.2, 0.7, 0.7]))
    score 0.43 = entropy 0.375 + calibration 0.18 - sharpness 0.125
    """
    caller = "decomposition"
    forecast = check_forecast(y_true, y_proba, caller=caller, sample_weight=sample_weight, classes=classes, space=space)
    rule, chosen = as_score(score, caller), as_view(view, caller)
    if chosen.canonical:
        proba, codes, weights = _rows_in_use(forecast)
        conditional = _conditional(recalibrator, proba, codes, weights, cv, rng, caller)
        return _parts(rule, proba, conditional, codes, weights)
    if chosen.own_expectation:
        raise input_error("view", caller, "hold forecasts of an event", repr(chosen), "use view='top-1'")
    if not chosen.additive:
        raise input_error("view", caller, "join all pairs by mean or sum", repr(chosen), "use view='classwise'")
    groups = [_of_pairs(rule, pairs, recalibrator, cv, rng, caller) for pairs in chosen.groups(forecast)]
    fields = np.array([[part.score, part.entropy, part.calibration, part.sharpness] for part in groups])
    return Decomposition(*(float(value) for value in chosen.join(fields.T)))


def _of_pairs(rule: ProperScore, pairs: Pairs, recalibrator: Any, cv: int, rng: RNG, caller: str) -> Decomposition:
    """Decompose the score of one yes/no forecast."""
    if pairs.weight is not None:
        pairs = pairs.take(pairs.weight > 0)
    one = np.asarray(pairs.score, dtype=np.float64)
    proba, codes = np.stack([1.0 - one, one], axis=1), np.asarray(pairs.outcome).astype(np.int64)
    conditional = _conditional(recalibrator, proba, codes, pairs.weight, cv, rng, caller)
    rule = EventBrier() if type(rule) is Brier else rule
    return _parts(rule, proba, conditional, codes, pairs.weight)


def _parts(rule: ProperScore, proba: Floats, conditional: Floats, codes: Ints, weights: Floats | None) -> Decomposition:
    """Return the parts from forecast and estimated conditional distribution."""
    frequency = np.bincount(codes, weights, proba.shape[1]).astype(np.float64)
    score = average(rule._rows(proba, codes), weights)
    recalibrated = average(rule._rows(conditional, codes), weights)
    entropy = float(rule.entropy(frequency / frequency.sum())[0])
    return Decomposition(score, entropy, score - recalibrated, entropy - recalibrated)  # [1] lemma 4.1
