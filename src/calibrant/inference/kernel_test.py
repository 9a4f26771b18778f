"""The kernel test of canonical calibration (Widmann et al. 2019): SKCE against labels resampled from the forecasts.

With residuals R = one-hot(y) − p the unbiased SKCE is a quadratic form in R whose kernel matrix does not depend
on the labels; so all replicates share one matrix. Beyond a stated number of rows the test uses a random part of
the rows: its size is kept, its power is that of the part.
"""

from __future__ import annotations

import numpy as np

from calibrant._typing import Ints
from calibrant.core.inputs import Forecast
from calibrant.core.kernels import kernel_matrix, resolve_gamma
from calibrant.core.resampling import Null, draw_labels
from calibrant.core.results import TestResult

#: Rows of the kernel matrix; 8 · 2,000² bytes.
_ROWS = 2_000


def kernel_test(forecast: Forecast, n_resamples: int, rng: np.random.Generator) -> TestResult:
    """Return the unbiased SKCE with its p-value under resampled labels."""
    rows = forecast.repeated()
    if rows.n > _ROWS:
        rows = rows.take(np.sort(rng.choice(rows.n, _ROWS, replace=False)))
    p = rows.proba()
    gram = kernel_matrix(p, p, "exponential", resolve_gamma(forecast, "exponential", "median"))
    np.fill_diagonal(gram, 0.0)

    def statistic(labels: Ints) -> float:
        residual = -p.copy()
        residual[np.arange(len(p)), labels] += 1.0
        return float(np.einsum("ij,ij->", gram @ residual, residual)) / (len(p) * (len(p) - 1))

    value = statistic(rows.codes)
    # bilinear in the one-hot part: R = E − P, and only E changes between replicates
    center = gram @ p
    constant = float(np.einsum("ij,ij->", center, p))
    index = np.arange(len(p))
    replicates = np.empty(n_resamples)
    for b, labels in enumerate(draw_labels(rows, n_resamples, rng)):
        one_hot = np.zeros_like(p)
        one_hot[index, labels] = 1.0
        square = float(np.einsum("ij,ij->", gram @ one_hot, one_hot))
        replicates[b] = (square - 2.0 * float(center[index, labels].sum()) + constant) / (len(p) * (len(p) - 1))
    part = "" if rows.n == forecast.n else f" on {rows.n} rows"
    return TestResult(value, Null(replicates).pvalue(value), f"skce{part}", forecast.n)
