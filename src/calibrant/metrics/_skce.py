"""Squared kernel calibration error."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calibrant._typing import ArrayLike, Floats, RowOptions, Unpack
from calibrant.core.declare import Metric, Recipe
from calibrant.core.inputs import Forecast, check_n_bins, check_names
from calibrant.core.kernels import (
    KERNELS,
    check_gamma,
    pair_sum,
    paired_kernel,
    residuals,
    resolve_gamma,
    unbiased_value,
)
from calibrant.errors import UndefinedWarning, input_error

ESTIMATORS = ("unbiased", "biased", "block", "linear")


def _batches(forecast: Forecast, size: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield points and residuals of `size` consecutive rows, rows repeated by their weight; the last may be short."""
    index = np.arange(forecast.n)
    if forecast.weights is not None:
        index = np.repeat(index, forecast.weights.astype(np.int64))
    for start in range(0, len(index), size):
        part = index[start : start + size]
        first = int(part[0])
        rows = slice(first, int(part[-1]) + 1)
        points = np.asarray(forecast.block(rows), dtype=np.float64)[part - first]
        yield points, residuals(points, forecast.codes[part])


def pair_terms(forecast: Forecast, kernel: str, gamma: float) -> Floats:
    """Return h of rows (0, 1), (2, 3), …: independent terms whose mean is the linear estimator."""
    terms = []
    for points, rest in _batches(forecast, 2 * max(1, (1 << 16) // forecast.n_classes)):
        even, odd = slice(0, len(points) // 2 * 2, 2), slice(1, None, 2)
        values = paired_kernel(points[even], points[odd], kernel, gamma)
        terms.append(values * np.einsum("ij,ij->i", rest[even], rest[odd]))  # [1] table 1
    return np.concatenate(terms)


@dataclass(frozen=True)
class SquaredKernelError(Recipe):
    """The mean of k(p, q)·⟨p − e_y, q − e_z⟩ over pairs of rows."""

    estimator: str
    kernel: str
    gamma: float | str
    block_size: int | None

    def __post_init__(self) -> None:
        caller = "squared_kernel_calibration_error"
        check_names(self.estimator, ESTIMATORS, "estimator", caller)
        check_names(self.kernel, KERNELS, "kernel", caller)
        check_gamma(self.gamma, caller)
        if self.block_size is not None and check_n_bins(self.block_size, caller, "block_size") < 2:
            raise input_error("block_size", caller, "be at least 2", repr(self.block_size), "use None for √n rows")

    def fill(self, forecast: Forecast) -> Forecast:
        """Keep all rows: pairs cannot be summarized."""
        if self.estimator != "biased":
            forecast.need_counts(f"estimator='{self.estimator}'")
        return forecast

    def finish(self, state: Forecast) -> float:
        """Return the estimate."""
        if state.total < 2 and self.estimator != "biased":
            warnings.warn("one row has no pairs: skce is undefined, nan is returned", UndefinedWarning, stacklevel=2)
            return math.nan
        gamma = resolve_gamma(state, self.kernel, self.gamma)
        if self.estimator == "linear":
            return float(pair_terms(state, self.kernel, gamma).mean())
        if self.estimator == "block":
            return self._block(state, gamma)
        points = state.proba()
        rest = residuals(points, state.codes)
        if self.estimator == "unbiased":
            return unbiased_value(points, rest, state.weights, self.kernel, gamma)
        if state.weights is not None:
            rest *= state.weights[:, None]
        diagonal = float(np.einsum("ij,ij->", rest, rest))
        return (pair_sum(points, rest, self.kernel, gamma) + diagonal) / state.total**2  # [1] table 1, SKCE_b

    def _block(self, forecast: Forecast, gamma: float) -> float:
        size = min(self.block_size or max(2, math.isqrt(int(forecast.total))), int(forecast.total))
        values = [
            unbiased_value(points, rest, None, self.kernel, gamma)
            for points, rest in _batches(forecast, size)
            if len(points) == size
        ]
        return math.fsum(values) / len(values)


METRIC = Metric(
    name="skce",
    title="Squared kernel calibration error",
    plain="gap between whole forecasts and outcomes, compared by a kernel",
    notion="canonical calibration",
    estimates="the squared kernel calibration error, zero only for a calibrated model",
    bound="exact",
    weakness="its scale depends on the kernel, so compare it only with itself; unbiased values may be negative",
    paper="Widmann, Lindsten & Zachariah (2019), Calibration tests in multi-class classification: a unifying "
    "framework, NeurIPS, section 5 and table 1",
    cost="O(n²·K), O(n log n) for two classes; block O(n^1.5·K), linear O(n·K)",
    state="all rows",
    range=(-2.0, 2.0),
    percent=False,
)


@METRIC.defines
def squared_kernel_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    estimator: str = "unbiased",
    kernel: str = "exponential",
    gamma: float | str = "median",
    block_size: int | None = None,
    **rows: Unpack[RowOptions],
) -> Recipe:
    """Measure how far whole forecasts are from calibrated, by comparing all pairs of rows.

    Parameters
    ----------
    estimator : {"unbiased", "biased", "block", "linear"}, default "unbiased"
        The U-statistic over all pairs, the V-statistic (never negative), the mean of U-statistics of consecutive
        blocks, or the mean over pairs of neighbors (blocks of two). The last two depend on the order of the rows.
    kernel : {"exponential", "gaussian", "total-variation"}, default "exponential"
        exp(−‖p−q‖₂/γ), exp(−‖p−q‖₂²/(2γ²)) or exp(−½‖p−q‖₁/γ), times the identity.
    gamma : float or "median", default "median"
        Width of the kernel; by default the median distance between two forecasts (of at most 1024 rows spread
        evenly over the distribution of ‖p‖, so that no seed is needed; the mean where the median is 0).
    block_size : int, optional
        Rows per block of ``estimator="block"``; √n by default. A last, shorter block is left out.
    sample_weight : array-like of shape (n,), optional
        Frequencies: an integer weight equals repeated rows. Only ``"biased"`` takes other weights.

    Returns
    -------
    float
        The value; nan with a warning when there is no pair.

    Notes
    -----
    h_ij = k(p_i, p_j)·⟨p_i − e_{y_i}, p_j − e_{y_j}⟩; unbiased: Σ_{i≠j} h_ij/(n(n−1)), with weights
    (Σ_ij w_i w_j h_ij − Σ_i w_i h_ii)/(W(W−1)); biased: Σ_ij w_i w_j h_ij/W².
    Memory is O(n·K); two classes cost O(n²) with the Gaussian kernel.

    Examples
    --------
    >>> from calibrant.metrics import squared_kernel_calibration_error
    >>> y, p = [1, 0], [[1.0, 0.0], [0.0, 1.0]]  # wrong for sure, twice
    >>> squared_kernel_calibration_error(y, p, kernel="gaussian", gamma=1.0)  # −2/e
    -0.735759
    >>> squared_kernel_calibration_error(y, p, kernel="gaussian", gamma=1.0, estimator="biased")  # 1 − 1/e
    0.632121
    """
    return SquaredKernelError(estimator, kernel, gamma, block_size)
