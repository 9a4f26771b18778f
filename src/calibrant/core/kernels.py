"""Double sums over pairs of forecasts, block by block: no n² memory, matrix products where they help.

All functions take float64 points (rows on the simplex). A *kernel* is named by a word:
``"exponential"`` exp(−‖p−q‖₂/γ), ``"gaussian"`` exp(−‖p−q‖₂²/(2γ²)), ``"total-variation"`` exp(−½‖p−q‖₁/γ).
"""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.inputs import Forecast
from calibrant.core.options import check_scale
from calibrant.core.parallel import map_chunks
from calibrant.core.weights import are_counts

__all__ = [
    "KERNELS", "check_gamma", "kernel_matrix", "laplace_sum", "median_distance", "median_rows", "pair_sum",
    "paired_kernel", "residuals", "resolve_gamma", "spread_rows", "unbiased_value"
]  # fmt: skip

KERNELS = ("exponential", "gaussian", "total-variation")

#: Rows of a square block. With few columns BLAS multiplies small blocks on one thread, and our own threads take many
#: blocks at once; wider products are left to the threads of BLAS, one larger block after another.
_SMALL_BLOCK, _LARGE_BLOCK, _NARROW = 128, 512, 14
#: Squared distances below this are recomputed from differences: ‖p‖² + ‖q‖² − 2p·q keeps no digit of them.
_NEAR = 1e-8
#: Below this width a kernel sees the digits that ‖p‖² + ‖q‖² − 2p·q loses.
_NARROW_GAMMA = 1e-3
#: … unless the residuals of the pair are so small that even a wrong kernel value cannot be seen.
_NEGLIGIBLE = 1e-6
#: Pairs of at most this many rows enter the median heuristic.
_MEDIAN_ROWS = 1024


def _euclidean(a: Floats, b: Floats) -> Floats:
    """Squared Euclidean distances by one matrix product; those near 0 keep few digits."""
    left = np.column_stack([-2.0 * a, np.einsum("ij,ij->i", a, a), np.ones(len(a))])
    right = np.column_stack([b, np.ones(len(b)), np.einsum("ij,ij->i", b, b)])
    square = left @ right.T
    np.maximum(square, 0.0, out=square)
    return np.asarray(square)


def _refine(square: Floats, a: Floats, b: Floats, important: Floats | None) -> None:
    """Recompute squared distances near 0 from differences, unless the pair cannot matter."""
    near = square < _NEAR
    if important is not None:
        near &= np.abs(important) > _NEGLIGIBLE
    rows, columns = np.nonzero(near)
    for start in range(0, len(rows), 1 << 16):
        i, j = rows[start : start + (1 << 16)], columns[start : start + (1 << 16)]
        difference = a[i] - b[j]
        square[i, j] = np.einsum("ij,ij->i", difference, difference)


def _distances(a: Floats, b: Floats, kernel: str) -> Floats:
    """Distances of all rows of `a` to all rows of `b`: total variation for that kernel, else Euclidean."""
    if kernel == "total-variation":
        from scipy.spatial.distance import cdist

        return np.asarray(0.5 * cdist(a, b, "cityblock"))
    square = _euclidean(a, b)
    _refine(square, a, b, None)
    return np.sqrt(square, out=square)


def kernel_matrix(a: Floats, b: Floats, kernel: str, gamma: float, important: Floats | None = None) -> Floats:
    """Return k(a_i, b_j) for all rows; `important` (same shape) says how much each pair counts."""
    if kernel == "total-variation":
        values = _distances(a, b, kernel)
        values *= -1.0 / gamma
    elif kernel == "gaussian":
        values = _euclidean(a, b)
        if gamma < _NARROW_GAMMA:  # forecasts that differ by less than a rounding error of the product
            _refine(values, a, b, important)
        values *= -0.5 / max(gamma**2, 1e-300)
    else:
        values = _euclidean(a, b)
        _refine(values, a, b, important)
        np.sqrt(values, out=values)
        values *= -1.0 / gamma
    return np.exp(values, out=values)


def paired_kernel(a: Floats, b: Floats, kernel: str, gamma: float) -> Floats:
    """Return k(a_i, b_i) row by row."""
    difference = a - b
    if kernel == "total-variation":
        return np.asarray(np.exp(np.abs(difference).sum(axis=1) * (-0.5 / gamma)))
    square = np.einsum("ij,ij->i", difference, difference)
    return np.asarray(np.exp(square * (-0.5 / gamma**2) if kernel == "gaussian" else np.sqrt(square) * (-1.0 / gamma)))


def pair_sum(points: Floats, residuals: Floats, kernel: str, gamma: float) -> float:
    """Return Σ_{i≠j} k(p_i, p_j) ⟨r_i, r_j⟩ over all ordered pairs.

    Notes
    -----
    O(n²K) time, O(nK) memory; each unordered pair is computed once. Two columns that sum to 1
    with an exponential or total-variation kernel lie on a line, where the sum costs O(n log n).
    """
    n, k = points.shape
    if k == 2 and kernel != "gaussian":
        return _pair_sum_binary(points, residuals, kernel, gamma)
    block = _SMALL_BLOCK if k <= _NARROW else _LARGE_BLOCK

    def corner(first: int, second: int) -> float:
        rows, columns = slice(first, first + block), slice(second, second + block)
        product = residuals[rows] @ residuals[columns].T
        if first == second:
            np.fill_diagonal(product, 0.0)
        values = kernel_matrix(points[rows], points[columns], kernel, gamma, product)
        return (1.0 if first == second else 2.0) * float(np.einsum("ij,ij->", values, product))

    def stripe(first: int) -> float:
        return math.fsum(corner(first, second) for second in range(first, n, block))

    return math.fsum(map_chunks(stripe, range(0, n, block), None if k <= _NARROW else 1))


def _pair_sum_binary(points: Floats, residuals: Floats, kernel: str, gamma: float) -> float:
    """Two classes: ‖p−q‖₂ = √2·|p₁−q₁| and ½‖p−q‖₁ = |p₁−q₁|, so the Laplace recursion applies per column."""
    order = np.argsort(points[:, 1], kind="stable")
    score, sorted_residuals = points[order, 1], residuals[order].T
    width = gamma / math.sqrt(2.0) if kernel == "exponential" else gamma
    total = laplace_sum(score, np.ascontiguousarray(sorted_residuals), width).sum()
    return float(total - np.einsum("ij,ij->", residuals, residuals))


def laplace_sum(score: Floats, d: Floats, width: float) -> Floats:
    """Return Σ_ij d_i d_j exp(−|s_i − s_j|/width) for sorted scores (last axis of `d`), exactly in O(n).

    Examples
    --------
    >>> float(laplace_sum(np.array([0.0, 1.0]), np.array([1.0, -1.0]), 1.0))  # 2 − 2/e
    1.264241
    """
    span = 30.0 * width  # within a span exp(s/width) stays below e³⁰: no digit is lost
    carry: Floats = np.zeros(d.shape[:-1])
    total: Floats = np.zeros(d.shape[:-1])
    previous = start = 0
    while start < len(score):
        origin = float(score[start])
        stop = int(np.searchsorted(score, origin + span, side="right"))
        growth = np.exp((score[start:stop] - origin) / width)
        part = d[..., start:stop]
        carry = carry * math.exp(-(origin - float(score[previous])) / width)
        running = (carry[..., None] + np.cumsum(part * growth, axis=-1)) / growth  # Σ_{j≤i} d_j e^{−(s_i−s_j)/width}
        total = total + (part * (2.0 * running - part)).sum(axis=-1)
        carry = running[..., -1]
        previous, start = stop - 1, stop
    return total


def spread_rows(key: Array, weights: Floats | None, limit: int) -> Ints:
    """Pick at most `limit` rows spread evenly over the distribution of `key`, the same for every row order.

    Integer weights act like repeated rows: positions are counted in the repeated sample.
    """
    n = len(key)
    if weights is None:
        counts = np.ones(n, dtype=np.int64)
    else:
        counts = weights.astype(np.int64) if are_counts(weights) else (weights > 0).astype(np.int64)
    total = int(counts.sum())
    if total <= limit:
        return np.repeat(np.arange(n), counts)
    order = np.argsort(key, kind="stable")
    position = ((np.arange(limit) + 0.5) * total / limit).astype(np.int64)
    return np.asarray(order[np.searchsorted(np.cumsum(counts[order]), position, side="right")], dtype=np.int64)


def median_distance(points: Floats, kernel: str) -> float:
    """Return the median distance of all pairs of rows: the median heuristic for γ.

    When more than half of the pairs coincide the median is 0 and the mean distance is used; when all
    coincide, 1 (the kernel is then constant whatever γ).
    """
    pairs = np.triu_indices(len(points), 1)
    if points.shape[1] == 2 and kernel != "gaussian":  # on the line where `pair_sum` measures them
        distance = np.abs(points[pairs[0], 1] - points[pairs[1], 1]) * (2.0**0.5 if kernel == "exponential" else 1.0)
    else:
        distance = _distances(points, points, kernel)[pairs]
    if not distance.size:
        return 1.0
    return float(np.median(distance)) or float(distance.mean()) or 1.0


def square_norms(forecast: Forecast) -> Floats:
    """Return Σ_k p_k² of each row: a key that knows neither row order nor class order."""
    out = np.empty(forecast.n)
    for rows in forecast.chunks():
        block = np.asarray(forecast.block(rows), dtype=np.float64)
        out[rows] = np.einsum("ij,ij->i", block, block)
    return out


def take_rows(forecast: Forecast, rows: Ints) -> Floats:
    """Return the probabilities of a few rows in any order, shape (rows, K), float64."""
    if forecast.matrix is not None and forecast.matrix.ndim == 1:
        one = forecast.column(1)[rows].astype(np.float64)
        return np.stack([1.0 - one, one], axis=1)
    out = np.empty((len(rows), forecast.n_classes))
    for i, row in enumerate(rows.tolist()):
        out[i] = forecast.block(slice(row, row + 1))[0]
    return out


def median_rows(key: Array, weights: Floats | None) -> Ints:
    """Rows that enter the median heuristic: all of a small sample, a fixed spread of a large one."""
    return spread_rows(key, weights, _MEDIAN_ROWS)


def residuals(points: Floats, codes: Ints) -> Floats:
    """Return p − e_y of each row."""
    out = points.copy()
    out[np.arange(len(out)), codes] -= 1.0
    return out


def resolve_gamma(forecast: Forecast, kernel: str, gamma: float | str) -> float:
    """Return γ itself or the median distance between forecasts."""
    if not isinstance(gamma, str):
        return float(gamma)
    return median_distance(take_rows(forecast, median_rows(square_norms(forecast), forecast.weights)), kernel)


def unbiased_value(points: Floats, rest: Floats, weights: Floats | None, kernel: str, gamma: float) -> float:
    """Return the U-statistic of these rows; with weights that of the repeated rows."""
    if weights is None:
        n = len(points)
        return pair_sum(points, rest, kernel, gamma) / (n * (n - 1.0))  # Widmann et al. (2019), table 1
    total = float(weights.sum())
    copies = float(np.dot(weights * (weights - 1.0), np.einsum("ij,ij->i", rest, rest)))  # pairs of equal rows, k = 1
    return (pair_sum(points, rest * weights[:, None], kernel, gamma) + copies) / (total * (total - 1.0))


def check_gamma(gamma: float | str, caller: str) -> None:
    """Refuse anything but a positive number or the word ``"median"``."""
    if isinstance(gamma, str) and gamma == "median":
        return
    check_scale(gamma, "gamma", caller, "use gamma='median'")  # type: ignore[arg-type]  # refuses words
