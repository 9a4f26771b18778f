"""Many tests at once: Holm's correction, tests of every class and of every slice."""

from __future__ import annotations

import numpy as np

from calibrant._typing import RNG, Array, ArrayLike, Floats, Space
from calibrant.core.inputs import check_forecast, check_rng, to_array
from calibrant.core.results import TestResult
from calibrant.errors import input_error
from calibrant.inference.null import null_values
from calibrant.inference.tests import ks_pvalue
from calibrant.metrics.ks import MEASURE as KS


def holm(pvalues: Array) -> Floats:
    """Return Holm-corrected p-values: the family-wise error is kept whatever the dependence.

    References
    ----------
    [1] Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(pvalues, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    factor = len(p) - np.arange(len(p))
    adjusted = np.minimum(1.0, np.maximum.accumulate(p[order] * factor))
    out = np.empty_like(adjusted)
    out[order] = adjusted
    return out


def classwise_tests(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    n_resamples: int = 1000,
    rng: RNG = None,
) -> dict[object, TestResult]:
    """Test every class probability with KS and resampled labels; p-values are Holm-corrected.

    Returns
    -------
    dict
        Class name (or index) → TestResult with the corrected p-value.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 400)
    >>> found = classwise_tests(rng.integers(0, 3, 400), p, classes=[0, 1, 2], rng=0)  # labels know nothing of p
    >>> max(test.pvalue for test in found.values()) < 0.05
    True
    """
    forecast = check_forecast(
        y_true, y_proba, caller="classwise_tests", sample_weight=sample_weight, classes=classes, space=space
    )
    recipes = {str(k): KS.build(view=f"class-{k}") for k in range(forecast.n_classes)}
    nulls = null_values(recipes, forecast, n_resamples, check_rng(rng, "classwise_tests"))
    values = {name: recipe.value(forecast) for name, recipe in recipes.items()}
    pvalues = [ks_pvalue(forecast, values[k], nulls[k].pvalue(values[k]), n_resamples, f"class-{k}") for k in recipes]
    corrected = holm(np.array(pvalues))
    names = forecast.classes or tuple(range(forecast.n_classes))
    return {
        names[k]: TestResult(values[str(k)], float(corrected[k]), "ks (Holm-corrected)", forecast.n)
        for k in range(forecast.n_classes)
    }


def sliced_tests(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    by: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    n_resamples: int = 1000,
    rng: RNG = None,
) -> dict[object, TestResult]:
    """Test the top label within every slice with KS and resampled labels; p-values are Holm-corrected.

    `by` names the slice of each row.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p, day = rng.random(600), np.repeat(["monday", "tuesday"], 300)
    >>> y = rng.random(600) < np.where(day == "monday", p, 0.5)  # on tuesday the forecast means nothing
    >>> found = sliced_tests(y, p, day, rng=0)
    >>> found["tuesday"].pvalue < 0.05 < found["monday"].pvalue
    True
    """
    forecast = check_forecast(
        y_true, y_proba, caller="sliced_tests", sample_weight=sample_weight, classes=classes, space=space
    )
    key = to_array(by, "by", "sliced_tests")
    if key.shape != (forecast.n,):
        raise input_error(
            "by", "sliced_tests", f"name one slice per row ({forecast.n})", f"shape {key.shape}", "pass one column"
        )
    generator = check_rng(rng, "sliced_tests")
    names = np.unique(key)
    recipe = KS.build()
    found = []
    for name in names:
        part = forecast.take(np.flatnonzero(key == name))
        value = recipe.value(part)
        resampled = null_values({"ks": recipe}, part, n_resamples, generator)["ks"].pvalue(value)
        found.append((value, ks_pvalue(part, value, resampled, n_resamples), part.n))
    corrected = holm(np.array([p for _, p, _ in found]))
    return {
        name: TestResult(value, float(p), "ks (Holm-corrected)", n)
        for name, (value, _, n), p in zip(names.tolist(), found, corrected, strict=True)
    }
