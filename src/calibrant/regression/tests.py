"""Tests of calibration for means and variances."""

from __future__ import annotations

from dataclasses import replace

from calibrant._typing import RNG, ArrayLike
from calibrant.core.options import check_count, check_rng
from calibrant.core.predictions import Means, Normal
from calibrant.core.results import TestResult
from calibrant.core.rows import check_rows
from calibrant.metrics.regression._pit_ks import PitDistance
from calibrant.metrics.regression._skce import NormalKernelError
from calibrant.metrics.regression.kernel import Bandwidth, check_lengths, row_points

__all__ = ["pit_ks_test", "skce_test"]


def pit_ks_test(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    rng: RNG = None,
) -> TestResult:
    """Test whether the PIT is uniform (exact Kolmogorov-Smirnov test).

    Parameters
    ----------
    y_true, mean, variance, rng
        As in `calibrant.metrics.pit_ks`.
    sample_weight : array of shape (n,), optional
        Whole numbers: repetitions of rows, which are then counted as independent.

    Returns
    -------
    TestResult
        `statistic` is the distance of `pit_ks`.

    Examples
    --------
    >>> pit_ks_test([0.0], [0.0], [1.0]).pvalue
    1.0
    """
    caller = "pit_ks_test"
    generator = check_rng(rng, caller)
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight, counts=True, coins=generator)
    recipe = PitDistance()
    distance = recipe.value(rows)
    return TestResult(distance, recipe.null(rows, 0, generator).pvalue(distance), "pit-ks", round(rows.total))


def skce_test(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    bandwidth: Bandwidth = "median",
    n_resamples: int = 1000,
    rng: RNG = None,
) -> TestResult:
    """Test whether normal forecasts are calibrated, by their squared kernel calibration error.

    Parameters
    ----------
    y_true, mean, variance, bandwidth
        As in `calibrant.metrics.skce_normal`.
    n_resamples : int, default 1000
        Draws of the null distribution.
    rng : None, int or Generator
        Randomness of the draws.

    Returns
    -------
    TestResult
        ``method`` "skce" (all pairs, spectrum of the null distribution) up to 5,000 rows, "skce-block" (blocks of
        rows, normal theory) above; `statistic` is the value of `calibrant.metrics.skce_normal`.

    Notes
    -----
    With at most 5,000 rows the p-value is (1 + #{draws ≥ statistic})/(n_resamples + 1).

    References
    ----------
    [1] Widmann, Lindsten & Zachariah (2021), "Calibration tests beyond classification", ICLR.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.random.default_rng(0).normal(size=200)
    >>> skce_test(y, np.zeros(200), np.full(200, 0.05), rng=0).pvalue < 0.01
    True
    """
    caller = "skce_test"
    check_count(n_resamples, "n_resamples", caller, 1)
    generator, rows = check_rng(rng, caller), check_rows(y_true, mean, variance, caller=caller)
    rows = replace(rows, forecast=Normal(rows.mean, rows.variance))
    recipe = NormalKernelError("auto", check_lengths(bandwidth, row_points(rows), caller), 50)
    value = recipe.value(rows)
    null = recipe.null(rows, n_resamples, generator)
    method = "skce-block" if recipe.in_blocks(rows) else "skce"
    return TestResult(value, float("nan") if null is None else null.pvalue(value), method, rows.n)
