"""Squared kernel calibration error of normal forecasts: closed form, in tiles, without an n × n matrix."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats
from calibrant.core.inputs import check_names, check_rng
from calibrant.core.parallel import map_chunks
from calibrant.core.results import TestResult
from calibrant.errors import UndefinedWarning, input_error
from calibrant.regression.predictions import Prediction
from calibrant.regression.rows import Rows, check_rows

__all__ = ["skce", "skce_test"]

SkceEstimator = Literal["unbiased", "biased", "block", "linear"]
Bandwidth = float | tuple[float, float] | Literal["median", "published"]

#: Rows and columns of one tile of pairs; a handful of such tables fits the second-level cache.
TILE = 192
#: Rows used for the median heuristic, and for the spectrum of the test.
MEDIAN_ROWS = 1000
SPECTRUM_ROWS = 300
#: Largest n for which the test looks at all pairs.
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
        expected(a.y, b.y, spread_a + spread_b) - expected(a.mean, b.y, a.variance + spread_b)
        - expected(a.y, b.mean, b.variance + spread_a) + expected(a.mean, b.mean, a.variance + b.variance)
    )
    return np.asarray(np.exp(-np.hypot(a.mean - b.mean, a.std - b.std) / lengths[0]) * bracket)


def median_lengths(points: Points) -> tuple[float, float]:
    """Median Wasserstein distance of forecasts and median distance of truths, over evenly spaced rows.

    A median of 0 (most forecasts equal) gives way to the mean, and that to 1.
    """
    step = -(-len(points.y) // MEDIAN_ROWS)
    sub = points.part(slice(None, None, step))
    upper = np.triu_indices(len(sub.y), 1)

    def typical(distance: Floats) -> float:
        if not distance.size:
            return 1.0
        return float(np.median(distance)) or float(distance.mean()) or 1.0

    forecasts = np.hypot(sub.mean[upper[0]] - sub.mean[upper[1]], sub.std[upper[0]] - sub.std[upper[1]])
    return typical(forecasts), typical(np.abs(sub.y[upper[0]] - sub.y[upper[1]]))


def check_lengths(bandwidth: Bandwidth, points: Points, caller: str) -> tuple[float, float]:
    """Return (ℓ₁, ℓ₂), both positive."""
    if isinstance(bandwidth, str):
        check_names(bandwidth, ("median", "published"), "bandwidth", caller)
        return median_lengths(points) if bandwidth == "median" else (1.0, 1.0)
    pair = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (2,))
    if not (np.isfinite(pair).all() and (pair > 0).all()):
        raise input_error("bandwidth", caller, "be positive", f"{bandwidth}", "'median' adapts to the data")
    return float(pair[0]), float(pair[1])


def row_points(rows: Rows) -> Points:
    """Return what pairs of rows are compared by."""
    return Points(rows.y, rows.mean, np.sqrt(rows.variance), rows.variance)


def unbiased_value(points: Points, weights: Floats | None, lengths: tuple[float, float]) -> float:
    """Mean of h over pairs of different rows, a row of weight w standing for w rows."""
    w = np.ones(len(points.y)) if weights is None else weights
    total, diagonal = pair_sum(points, w, lengths)
    size = float(w.sum())
    return (total - diagonal) / (size * (size - 1))


def skce(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    estimator: SkceEstimator = "unbiased", bandwidth: Bandwidth = "median", block_size: int = 50,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Squared kernel calibration error of normal forecasts.

    Calibration of the whole predictive law; smaller is better; 0 is perfect. The unbiased estimators have mean 0 for
    a calibrated model (and are negative half the time), the biased one is positive. Scale-bound: see `bandwidth`.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
        Of samples and quantiles the normal law with the same mean and variance is tested.
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    estimator : {"unbiased", "biased", "block", "linear"}
        Mean over pairs of different rows; over all pairs; mean over blocks of the unbiased value (O(n · block_size));
        blocks of two.
    bandwidth : "median", "published", float or pair of floats
        Lengths ℓ₁ of the kernel on forecasts and ℓ₂ of the kernel on truths. "published" is 1 for both, which sees
        nothing when y is large (house prices: every pair of forecasts is then infinitely far apart).
    block_size : int, default 50
        For ``estimator="block"``; an incomplete last block is dropped.
    sample_weight : array of shape (n,), optional
        Frequencies; not for blocks, which depend on the row order.

    Returns
    -------
    float
        nan with a warning if there are fewer than two rows (or one block) to compare.

    Notes
    -----
    E h(Z, Z') with h = exp(−W₂(P, P')/ℓ₁)·(κ(y, y') − E κ(Y, y') − E κ(y, Y') + E κ(Y, Y')), Y ~ P, Y' ~ P',
    κ(y, y') = exp(−(y − y')²/(2ℓ₂²)), W₂² = (μ − μ')² + (σ − σ')². All expectations are closed. It is a proper score
    of two forecasts (U-score, r = 2). O(n²) time in tiles, O(n) memory.

    References
    ----------
    [1] Widmann, Lindsten & Zachariah (2021), "Calibration tests beyond classification", ICLR.
    [2] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
        NeurIPS, appendix F and G.5, eq. (58)-(61).

    Examples
    --------
    >>> skce([0.0, 0.0], [0.0, 0.0], [1.0, 1.0], bandwidth="published")  # 1 − 2/√2 + 1/√3
    0.1631
    """
    caller = "skce"
    check_names(estimator, ("unbiased", "biased", "block", "linear"), "estimator", caller)
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight)
    points = row_points(rows)
    lengths = check_lengths(bandwidth, points, caller)
    if estimator in ("block", "linear"):
        return _block_mean(points, rows.weights, 2 if estimator == "linear" else block_size, lengths, caller)
    if estimator == "biased":
        weights = np.ones(rows.n) if rows.weights is None else rows.weights
        return pair_sum(points, weights, lengths)[0] / rows.total**2
    if rows.total <= 1:
        return _undefined("two rows")
    return unbiased_value(points, rows.weights, lengths)


def _block_mean(
    points: Points, weights: Floats | None, size: int, lengths: tuple[float, float], caller: str
) -> float:
    if weights is not None:
        raise input_error(
            "sample_weight", caller, "be None for blocks of rows", "weights", "use estimator='unbiased', or repeat rows"
        )
    if size < 2:
        raise input_error("block_size", caller, "be at least 2", str(size), "50 is the default")
    values = block_values(points, size, lengths)
    return float(values.mean()) if len(values) else _undefined("one whole block")


def _undefined(needed: str) -> float:
    import warnings

    warnings.warn(f"skce needs at least {needed}; nan is returned", UndefinedWarning, stacklevel=3)
    return float("nan")


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


def skce_test(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    bandwidth: Bandwidth = "median", n_resamples: int = 1000, rng: RNG = None,
) -> TestResult:
    """Test whether normal forecasts are calibrated, by their squared kernel calibration error.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    bandwidth : "median", "published", float or pair of floats
        As in `skce`.
    n_resamples : int, default 1000
        Draws of the null distribution.
    rng : None, int or Generator

    Returns
    -------
    TestResult
        ``method`` "skce" (all pairs, spectrum of the null) up to 5 000 rows, "skce-block" (blocks of √n rows, normal
        theory) above.

    Notes
    -----
    With at most 5 000 rows the p-value is (1 + #{draws ≥ statistic})/(n_resamples + 1).

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
    rows = check_rows(y_true, mean, variance, caller=caller)
    return run_test(row_points(rows), bandwidth, n_resamples, check_rng(rng, caller), caller)


def run_test(
    points: Points, bandwidth: Bandwidth, n_resamples: int, rng: np.random.Generator, caller: str
) -> TestResult:
    """Run the test on checked rows."""
    n = len(points.y)
    lengths = check_lengths(bandwidth, points, caller)
    if n < 2:
        return TestResult(_undefined("two rows"), float("nan"), "skce", n)
    if n <= ALL_PAIRS:
        value = unbiased_value(points, None, lengths)
        draws = null_draws(points, n, lengths, n_resamples, rng)
        return TestResult(value, float((1 + (draws >= value).sum()) / (n_resamples + 1)), "skce", n)
    from scipy.special import ndtr

    values = block_values(points, int(np.sqrt(n)), lengths)
    value = float(values.mean())
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    return TestResult(value, float(ndtr(-value / error)), "skce-block", n)
