"""The kernel test of canonical calibration (Widmann et al. 2019): SKCE against labels resampled from the forecasts.

With residuals R = one-hot(y) − p the unbiased SKCE is a quadratic form in R whose kernel matrix does not depend
on the labels; so all replicates share one matrix. Beyond a stated number of rows the test uses a random part of
the rows: its size is kept, its power is that of the part.
"""

from __future__ import annotations

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.inputs import Forecast
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
    gram = laplace_gram(p)

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


def laplace_gram(p: Floats) -> Floats:
    """Return exp(−‖p_i − p_j‖/γ) with the median heuristic for γ and a zero diagonal."""
    square = (p * p).sum(axis=1)
    distance = np.sqrt(np.maximum(square[:, None] + square[None, :] - 2.0 * (p @ p.T), 0.0))
    positive = distance[np.triu_indices(len(p), 1)]
    positive = positive[positive > 0]
    gamma = float(np.median(positive)) if len(positive) else 1.0
    gram = np.exp(-distance / gamma)
    np.fill_diagonal(gram, 0.0)
    return gram
