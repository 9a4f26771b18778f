"""Tests of calibration: a statistic, a p-value, and a size that simulation has verified."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Space
from calibrant.core.declare import lookup
from calibrant.core.inputs import Forecast, check_forecast, check_names, check_rng
from calibrant.core.results import TestResult
from calibrant.errors import input_error
from calibrant.estimators import check_counts
from calibrant.inference.null import null_values, resampling_table
from calibrant.views import View, as_view


def test_calibration(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    method: str = "ks",
    measure: str | None = None,
    n_resamples: int = 1000,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
    rng: RNG = None,
) -> TestResult:
    """Test whether the forecasts are calibrated.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes, space, normalize
        As in `calibrant.evaluate`; weights must be counts.
    method : {"ks", "skce", "hosmer-lemeshow", "spiegelhalter", "resampling"}
        ``"ks"``: largest cumulative gap of the top label. ``"skce"``: the kernel test of the whole vector.
        ``"hosmer-lemeshow"``: top-label counts in ten equal-mass groups, ten degrees of freedom, because the
        forecasts were not fitted to these labels. ``"spiegelhalter"``: two-sided z of the Brier score.
        ``"resampling"``: any `measure` against its distribution under resampled labels.
    measure : str, optional
        Short name for ``method="resampling"``.
    n_resamples : int, default 1000
        Label resamplings.
    rng : None, int or Generator
        Randomness.

    Returns
    -------
    TestResult
        ``statistic``, ``pvalue``, ``method``, ``n``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> p = rng.random(500)
    >>> test_calibration(rng.random(500) < 0.7 * p, p, rng=0).pvalue < 0.05
    True
    """
    check_names(method, tuple(_METHODS), "method", "test_calibration")
    if measure is not None and method != "resampling":
        raise input_error(
            "measure", "test_calibration", "go with method='resampling'", f"method={method!r}", "drop one of the two"
        )
    forecast = check_forecast(
        y_true,
        y_proba,
        caller="test_calibration",
        sample_weight=sample_weight,
        classes=classes,
        space=space,
        normalize=normalize,
    )
    check_counts(forecast, "a test")
    generator = check_rng(rng, "test_calibration")
    if method == "resampling":
        return resampling_test(forecast, measure or "ece", n_resamples, generator)
    return _METHODS[method](forecast, n_resamples, generator)


test_calibration.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it


def resampling_test(forecast: Forecast, name: str, n_resamples: int, rng: np.random.Generator) -> TestResult:
    """Compare any measure with its distribution under labels resampled from the forecasts."""
    short, _, view = name.partition("@")
    declared = lookup(short, "test_calibration")
    recipe = declared.build(**({"view": view} if view else {}))
    value = recipe.value(forecast)
    null = null_values({name: recipe}, forecast, n_resamples, rng)
    if name not in null:
        raise input_error("measure", "test_calibration", "depend on the labels", repr(name), "use ece, ks or brier")
    return TestResult(value, null[name].pvalue(value, two_sided=declared.proper), f"resampling of {name}", forecast.n)


def _ks(forecast: Forecast, n_resamples: int, rng: np.random.Generator) -> TestResult:
    result = resampling_test(forecast, "ks", n_resamples, rng)
    return TestResult(
        result.statistic, ks_pvalue(forecast, result.statistic, result.pvalue, n_resamples), "ks", forecast.n
    )


def ks_pvalue(
    forecast: Forecast, value: float, resampled: float, n_resamples: int, view: View | str = "top-1"
) -> float:
    """Return the resampled p-value, or the tail of its limit law where resampling can see no further.

    Under calibration the cumulative gap is a random walk with variances s(1 − s); its largest excursion
    tends to that of Brownian motion.
    """
    if resampled > 10 / (n_resamples + 1):
        return resampled
    table = resampling_table(forecast, as_view(view))
    share = np.clip(table.we / table.w, 0.0, 1.0)
    spread = math.sqrt(float((table.w * share * (1 - share)).sum()))
    if spread <= 0:
        return resampled
    return min(resampled, brownian_excursion(value * table.total / spread))


def brownian_excursion(x: float) -> float:
    """Return P(sup_{0≤t≤1} |W(t)| > x) of Brownian motion.

    Examples
    --------
    >>> round(brownian_excursion(2.2414), 3)
    0.05
    """
    if x <= 0:
        return 1.0
    if x > 3:  # the series below loses digits; two one-sided reflections are exact to e^{−4x²} there
        return min(1.0, 2.0 * math.erfc(x / math.sqrt(2.0)))
    inside = sum((-1) ** k / (2 * k + 1) * math.exp(-(math.pi**2) * (2 * k + 1) ** 2 / (8 * x * x)) for k in range(50))
    return min(1.0, max(0.0, 1.0 - 4.0 / math.pi * inside))


def _spiegelhalter(forecast: Forecast, n_resamples: int, rng: np.random.Generator) -> TestResult:  # noqa: ARG001
    scores, variance = _brier_moments(forecast)
    z = float(scores / math.sqrt(variance)) if variance > 0 else 0.0
    return TestResult(z, math.erfc(abs(z) / math.sqrt(2.0)), "spiegelhalter", forecast.n)


def _brier_moments(forecast: Forecast) -> tuple[float, float]:
    """Return Σw·(S − E S) of the Brier score and its variance under calibration."""
    excess = variance = 0.0
    for rows in forecast.chunks():
        p = forecast.block(rows).astype(np.float64)
        w = np.ones(len(p)) if forecast.weights is None else forecast.weights[rows]
        square = (p * p).sum(axis=1)
        truth = p[np.arange(len(p)), forecast.codes[rows]]
        excess += float((w * 2.0 * (square - truth)).sum())  # S(y) − E S = 2(Σp² − p_y)
        variance += float((w * 4.0 * ((p**3).sum(axis=1) - square**2)).sum())
    return excess, variance


def spiegelhalter_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> TestResult:
    """Test calibration in the large and in spread by the z-score of the Brier score, two-sided.

    Notes
    -----
    z = Σ(S_i − E S_i)/√ΣVar S_i with the moments the forecasts themselves imply; for K classes
    S(y) − E S = 2(Σp² − p_y). Blind to errors that leave the mean Brier score as expected.

    References
    ----------
    [1] Spiegelhalter (1986), Probabilistic prediction in patient management, Statistics in Medicine 5.

    Examples
    --------
    >>> round(spiegelhalter_test([1, 1, 1, 1], [0.6, 0.7, 0.8, 0.6]).statistic, 3)
    -1.204
    """
    forecast = check_forecast(
        y_true, y_proba, caller="spiegelhalter_test", sample_weight=sample_weight, classes=classes, space=space
    )
    check_counts(forecast, "a test")
    return _spiegelhalter(forecast, 0, np.random.default_rng(0))


def hosmer_lemeshow_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_groups: int = 10,
    view: View | str = "top-1",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> TestResult:
    """Test observed against expected counts in equal-mass groups of the score.

    Notes
    -----
    Σ_g (O_g − E_g)²/V_g with V_g = Σ s(1 − s). On held-out data no parameter was fitted, so the law is χ² with
    as many degrees of freedom as groups (not two fewer, as on training data). The exact V_g keeps the size
    also when scores vary within a group.

    References
    ----------
    [1] Hosmer & Lemeshow (1980), Goodness of fit tests for the multiple logistic regression model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> hosmer_lemeshow_test(rng.random(500) < p**2, p, view="class-1").pvalue < 0.01
    True
    """
    forecast = check_forecast(
        y_true, y_proba, caller="hosmer_lemeshow_test", sample_weight=sample_weight, classes=classes, space=space
    )
    check_counts(forecast, "a test")
    return _hosmer_lemeshow(forecast, n_groups, as_view(view))


def _hosmer_lemeshow(forecast: Forecast, n_groups: int, view: View) -> TestResult:
    from scipy.stats import chi2

    table = resampling_table(forecast, view)
    share = np.clip(table.we / table.w, 0.0, 1.0)
    reached = np.cumsum(table.w) * n_groups
    edges = np.searchsorted(reached, np.arange(1, n_groups) * (reached[-1] / n_groups))
    group = np.searchsorted(edges, np.arange(len(table)), side="left")

    def by_group(values: Floats) -> Floats:
        return np.bincount(group, values, n_groups)

    variance = by_group(table.w * share * (1 - share))
    gap = by_group(table.wt - table.we)
    usable = variance > 1e-12
    statistic = float((gap[usable] ** 2 / variance[usable]).sum())
    return TestResult(statistic, float(chi2.sf(statistic, max(1, int(usable.sum())))), "hosmer-lemeshow", forecast.n)


def _default_hosmer_lemeshow(forecast: Forecast, n_resamples: int, rng: np.random.Generator) -> TestResult:  # noqa: ARG001
    return _hosmer_lemeshow(forecast, 10, as_view("top-1"))


def _skce(forecast: Forecast, n_resamples: int, rng: np.random.Generator) -> TestResult:
    from calibrant.inference.kernel_test import kernel_test

    return kernel_test(forecast, n_resamples, rng)


_METHODS: dict[str, Callable[[Forecast, int, np.random.Generator], TestResult]] = {
    "ks": _ks,
    "skce": _skce,
    "hosmer-lemeshow": _default_hosmer_lemeshow,
    "spiegelhalter": _spiegelhalter,
    "resampling": _ks,
}
