"""Calibrated within ε: a test whose rejection clears a model, not its acceptance."""

from __future__ import annotations

import numpy as np

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.declare import lookup
from calibrant.core.inputs import check_forecast, check_names, check_rng
from calibrant.core.results import TestResult
from calibrant.errors import input_error
from calibrant.estimators import check_counts
from calibrant.inference.intervals import offered_interval


def equivalence_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    epsilon: float,
    error: str = "ks",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    rng: RNG = None,
) -> TestResult:
    """Test the hypothesis that the error is at least `epsilon`; a small p-value clears the model.

    The error it bounds is named by `error`: ``"ks"`` (top label) or ``"tce"`` (binned top-label error of order
    2, 15 equal-width bins). At error = epsilon it rejects in at most 5 % of samples.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space
        As in `calibrant.evaluate`.
    epsilon : float
        The largest error that still counts as calibrated.
    error : {"ks", "tce"}, default "ks"
        Which error is bounded.
    rng : None, int or Generator
        Randomness.

    Returns
    -------
    TestResult
        The observed error with the p-value of "the error is at least epsilon".

    Notes
    -----
    The p-value is the level at which the one-sided upper confidence limit falls below epsilon.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1, 20_000)
    >>> equivalence_test(rng.random(20_000) < p, p, epsilon=0.03, rng=0).pvalue < 0.05
    True
    """
    check_names(error, ("ks", "tce"), "error", "equivalence_test")
    if not 0 < epsilon < 1:
        raise input_error("epsilon", "equivalence_test", "lie between 0 and 1", repr(epsilon), "for example 0.02")
    forecast = check_forecast(
        y_true, y_proba, caller="equivalence_test", sample_weight=sample_weight, classes=classes, space=space
    )
    check_counts(forecast, "a test")
    measure = lookup(error)
    recipe = measure.build()
    seeds = check_rng(rng, "equivalence_test").integers(0, 2**63)
    value = recipe.value(forecast)

    def upper(alpha: float) -> float:
        found = offered_interval(
            measure,
            recipe,
            forecast,
            level=1 - 2 * alpha,
            n_resamples=0,
            groups=None,
            rng=np.random.default_rng(seeds),
        )
        return 1.0 if found is None else found.high

    if forecast.n < 30 or upper(0.499) >= epsilon:
        return TestResult(value, 1.0 if value >= epsilon else 0.5, f"{error} < {epsilon:g}", forecast.n)
    low, high = 1e-4, 0.499
    if upper(low) < epsilon:
        return TestResult(value, low, f"{error} < {epsilon:g}", forecast.n)
    for _ in range(20):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if upper(middle) < epsilon else (middle, high)
    return TestResult(value, high, f"{error} < {epsilon:g}", forecast.n)
