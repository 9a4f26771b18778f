"""Kernel arithmetic of normal forecasts: pairs of rows in closed form, in tiles, without an n × n matrix."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from calibrant._typing import Floats
from calibrant.core.inputs import check_names
from calibrant.core.parallel import map_chunks
from calibrant.core.rows import Rows
from calibrant.core.weights import are_counts
from calibrant.errors import input_error

__all__ = [
    "ALL_PAIRS", "Bandwidth", "Points", "block_values", "check_lengths", "expected_terms", "null_draws", "pair_sum",
    "pair_terms", "row_points", "spread", "unbiased_value"
]  # fmt: skip

Bandwidth = float | tuple[float, float] | Literal["median", "published"]

#: Rows and columns of one tile of pairs; a handful of such tables fits the second-level cache.
TILE = 192
#: Rows used for the median heuristic, and for the spectrum of the test.
MEDIAN_ROWS = 1000
SPECTRUM_ROWS = 300
#: Largest n for which value and test look at all pairs.
ALL_PAIRS = 5000


class Points(NamedTuple):
    """What a pair of rows is compared by."""

    y: Floats
    mean: Floats
    std: Floats
    variance: Floats

    def part(self, rows: slice) -> Points:
        """Return some of the rows."""
        return Points(*(column[rows] for column in self))


def pair_terms(a: Points, b: Points, lengths: tuple[float, float]) -> Floats:
    """h(i, j) for all rows i of `a` and j of `b`, shape (a, b).

    k(P, P')·(κ(y, y') − E κ(Y, y') − E κ(y, Y') + E κ(Y, Y')), Y ~ P, Y' ~ P', with κ the Gaussian target kernel: each
    expectation is a Gaussian kernel whose squared length has grown by the variances taken over.
    """
    square = lengths[1] ** 2
    # [1] example of the normal case; W₂² = (μ − μ')² + (σ − σ')²
    distance = _squares(a.mean, b.mean)
    near = distance + _squares(a.std, b.std)
    np.sqrt(near, out=near)
    near *= -1.0 / lengths[0]
    terms = np.exp(_squares(a.y, b.y) * (-0.5 / square) + near)
    for x, z, wide in ((a.mean, b.y, square + a.variance[:, None]), (a.y, b.mean, square + b.variance[None, :])):
        table = _squares(x, z)
        table *= -0.5 / wide
        table += 0.5 * np.log(square / wide)  # ℓ/√(ℓ² + s²), the factor of the widened kernel
        table += near
        terms -= np.exp(table, out=table)
    both = a.variance[:, None] + (square + b.variance[None, :])
    distance *= -0.5
    distance /= both
    distance += near
    np.exp(distance, out=distance)
    np.divide(square, both, out=both)
    distance *= np.sqrt(both, out=both)
    terms += distance
    return terms


def _squares(x: Floats, z: Floats) -> Floats:
    """(x_i − z_j)² as a table."""
    table: Floats = x[:, None] - z[None, :]
    table *= table
    return table


def pair_sum(points: Points, weights: Floats, lengths: tuple[float, float]) -> tuple[float, float]:
    """Σ_ij w_i w_j h_ij over all ordered pairs, and Σ_i w_i h_ii; upper triangle of tiles on all cores."""
    n = len(points.y)
    starts = range(0, n, TILE)
    tiles = [(slice(i, i + TILE), slice(j, j + TILE)) for i in starts for j in starts if j >= i]

    def visit(tile: tuple[slice, slice]) -> tuple[float, float]:
        first, second = tile
        terms = pair_terms(points.part(first), points.part(second), lengths)
        same = first.start == second.start
        diagonal = float((weights[first] * np.diagonal(terms)).sum()) if same else 0.0
        terms *= weights[None, second]  # sums by hand: these threads should not wait for those of a matrix library
        total = float((terms.sum(axis=1) * weights[first]).sum())
        return (total if same else 2 * total), diagonal

    sums = np.array(list(map_chunks(visit, tiles)))
    return float(sums[:, 0].sum()), float(sums[:, 1].sum())


def block_values(points: Points, size: int, lengths: tuple[float, float]) -> Floats:
    """Unbiased value of each complete block of `size` consecutive rows; an incomplete last block is dropped."""
    blocks = len(points.y) // size
    if not blocks:
        return np.empty(0)
    # small blocks are stacked: one (rows, rows) table per block would waste its time on calls
    if size <= 64:
        grouped = Points(*(column[: blocks * size].reshape(blocks, size) for column in points))
        return np.asarray(_stacked(grouped, lengths))
    values = []
    for b in range(blocks):
        total, diagonal = pair_sum(points.part(slice(b * size, (b + 1) * size)), np.ones(size), lengths)
        values.append((total - diagonal) / (size * (size - 1)))
    return np.array(values)


def _stacked(grouped: Points, lengths: tuple[float, float]) -> Floats:
    """Unbiased values of many small blocks, one shift at a time: rows i and i + s of every block."""
    size = grouped.y.shape[1]
    total = np.zeros(len(grouped.y))
    for shift in range(1, size):
        a = Points(*(column[:, :-shift].ravel() for column in grouped))
        b = Points(*(column[:, shift:].ravel() for column in grouped))
        total += expected_terms(a, b, 0.0, 0.0, lengths).reshape(len(total), -1).sum(axis=1)
    return np.asarray(2 * total / (size * (size - 1)))


def expected_terms(
    a: Points, b: Points, spread_a: Floats | float, spread_b: Floats | float, lengths: tuple[float, float]
) -> Floats:
    """Value h of row i of `a` with row i of `b`, the truths being normal around y with these variances (0: known)."""
    square = lengths[1] ** 2

    def expected(x: Floats, z: Floats, widened: Floats | float) -> Floats:
        total = square + widened
        return np.asarray(np.sqrt(square / total) * np.exp(-((x - z) ** 2) / (2 * total)))

    bracket = (
        expected(a.y, b.y, spread_a + spread_b)
        - expected(a.mean, b.y, a.variance + spread_b)
        - expected(a.y, b.mean, b.variance + spread_a)
        + expected(a.mean, b.mean, a.variance + b.variance)
    )
    return np.asarray(np.exp(-np.hypot(a.mean - b.mean, a.std - b.std) / lengths[0]) * bracket)


def spread(points: Points, weights: Floats | None, most: int) -> Points:
    """Return at most so many rows, evenly spaced over all of them when sorted: the same whatever order they came in.

    A count w stands for w rows; of other weights as many rows as there are are taken evenly over the sum of weights.
    """
    order = np.lexsort((points.variance, points.mean, points.y))
    w = np.ones(len(order)) if weights is None else weights[order]
    ends = np.cumsum(w)
    m = min(int(ends[-1]) if are_counts(weights) else int(np.count_nonzero(w)), most)
    rows = order[np.searchsorted(ends, (np.arange(m) + 0.5) * (ends[-1] / m))]
    return Points(*(column[rows] for column in points))


def median_lengths(points: Points, weights: Floats | None = None) -> tuple[float, float]:
    """Median Wasserstein distance of forecasts and median distance of truths, over at most a thousand rows.

    Whole weights repeat rows. A median of 0 (most forecasts equal, or nearer than 1e-100) gives way to the mean, and
    that to 1.
    """
    sub = spread(points, weights if are_counts(weights) else None, MEDIAN_ROWS)
    upper = np.triu_indices(len(sub.y), 1)

    def typical(distance: Floats) -> float:
        if not distance.size:
            return 1.0
        return next((d for d in (float(np.median(distance)), float(distance.mean())) if d > 1e-100), 1.0)

    forecasts = np.hypot(sub.mean[upper[0]] - sub.mean[upper[1]], sub.std[upper[0]] - sub.std[upper[1]])
    return typical(forecasts), typical(np.abs(sub.y[upper[0]] - sub.y[upper[1]]))


def check_lengths(
    bandwidth: Bandwidth, points: Points, caller: str, weights: Floats | None = None
) -> tuple[float, float]:
    """Return (ℓ₁, ℓ₂), both positive."""
    if isinstance(bandwidth, str):
        check_names(bandwidth, ("median", "published"), "bandwidth", caller)
        return median_lengths(points, weights) if bandwidth == "median" else (1.0, 1.0)
    try:
        pair = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (2,))
    except (TypeError, ValueError):
        pair = np.full(2, np.nan)
    if not ((pair >= 1e-100) & (pair <= 1e100)).all():
        raise input_error(
            "bandwidth", caller, "be positive (1e-100 to 1e100)", f"{bandwidth}", "'median' adapts to the data"
        )
    return float(pair[0]), float(pair[1])


def row_points(rows: Rows) -> Points:
    """Return what pairs of rows are compared by."""
    return Points(rows.y, rows.mean, np.sqrt(rows.variance), rows.variance)


def unbiased_value(points: Points, weights: Floats | None, lengths: tuple[float, float]) -> float:
    """Mean of h over pairs of different rows: a count w stands for w rows; pairs of other weights weigh w_i·w_j."""
    w = np.ones(len(points.y)) if weights is None else weights
    total, diagonal = pair_sum(points, w, lengths)
    size = float(w.sum())
    if are_counts(w):
        return (total - diagonal) / (size * (size - 1))
    own = expected_terms(points, points, 0.0, 0.0, lengths)
    return (total - float((w * w * own).sum())) / (size**2 - float((w * w).sum()))


def null_draws(
    points: Points, n: float, lengths: tuple[float, float], n_resamples: int, rng: np.random.Generator
) -> Floats:
    """Draws of the unbiased SKCE of a calibrated model with these forecasts.

    n·SKCE tends to Σ λ_l (Z_l² − 1) with λ the eigenvalues of h under the null. They are read off one matrix of at
    most `SPECTRUM_ROWS` rows whose truths are drawn from the forecasts.
    """
    rows = np.arange(len(points.y))
    if len(rows) > SPECTRUM_ROWS:
        rows = rng.choice(rows, SPECTRUM_ROWS, replace=False)
    mean, std = points.mean[rows], points.std[rows]
    fake = Points(mean + std * rng.standard_normal(len(rows)), mean, std, points.variance[rows])
    spectrum = np.linalg.eigvalsh(pair_terms(fake, fake, lengths)) / len(rows)
    spectrum = spectrum[spectrum > 1e-6 * spectrum[-1]]
    squares = rng.standard_normal((n_resamples, len(spectrum))) ** 2 - 1
    return np.asarray(squares @ spectrum / n)
