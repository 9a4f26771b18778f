"""Squared kernel calibration error of normal forecasts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant._typing import ArrayLike
from calibrant.core.declare import Metric, Recipe
from calibrant.core.inputs import check_names
from calibrant.core.options import check_count
from calibrant.core.predictions import Means
from calibrant.core.resampling import Null
from calibrant.core.row_evidence import digest
from calibrant.core.rows import Rows
from calibrant.core.weights import effective_n
from calibrant.errors import UndefinedWarning, input_error
from calibrant.metrics.regression.kernel import (
    ALL_PAIRS,
    Bandwidth,
    Points,
    block_values,
    check_lengths,
    null_draws,
    pair_sum,
    row_points,
    spread,
    unbiased_value,
)
from calibrant.metrics.regression.nulls import NormalNull

CALLER = "skce"
SkceEstimator = Literal["auto", "unbiased", "biased", "block", "linear"]
#: Pairs that blocks may compare at most, about: the block size shrinks from 50 as the rows grow.
PAIRS = 5_000_000


def undefined(needed: str) -> float:
    """Warn that there is nothing to compare and return nan."""
    warnings.warn(f"skce needs at least {needed}; nan is returned", UndefinedWarning, stacklevel=5)
    return float("nan")


@dataclass(frozen=True)
class NormalKernelError(Recipe):
    """Mean of h over pairs of rows; "auto" takes all pairs up to 5,000 rows and blocks above."""

    estimator: str
    bandwidth: Bandwidth
    block_size: int

    def __post_init__(self) -> None:
        check_names(self.estimator, ("auto", "unbiased", "biased", "block", "linear"), "estimator", CALLER)
        check_count(self.block_size, "block_size", CALLER, 2, "50")

    def value(self, forecast: Rows) -> float:
        """Return the estimate; nan with a warning without a pair."""
        points = row_points(forecast)
        lengths = check_lengths(self.bandwidth, points, CALLER, forecast.weights)
        if self.estimator in ("block", "linear"):
            return self._block_mean(points, forecast, lengths)
        if self.estimator == "biased":
            weights = np.ones(forecast.n) if forecast.weights is None else forecast.weights
            return pair_sum(points, weights, lengths)[0] / forecast.total**2
        if self._size(forecast) <= 1:
            return undefined("two rows")
        if self.in_blocks(forecast):
            return float(self._blocks(forecast, lengths).mean())
        return unbiased_value(points, forecast.weights, lengths)

    def null(self, forecast: Rows, n_resamples: int, rng: np.random.Generator) -> Null | NormalNull | None:
        """Return draws from the spectrum of the kernel, or normal theory of the blocks above 5,000 rows."""
        if not forecast.is_normal or self._size(forecast) < 2 or self.estimator not in ("auto", "unbiased"):
            return None
        points = row_points(forecast)
        lengths = check_lengths(self.bandwidth, points, CALLER, forecast.weights)
        if not self.in_blocks(forecast):
            return Null(null_draws(points, self._size(forecast), lengths, n_resamples, rng))
        values = self._blocks(forecast, lengths)
        return NormalNull(0.0, float(values.std(ddof=1) / np.sqrt(len(values))))

    def in_blocks(self, rows: Rows) -> bool:
        """Whether there are too many rows for all pairs."""
        return self.estimator == "auto" and (rows.total if rows.counts else rows.n) > ALL_PAIRS

    def _size(self, rows: Rows) -> float:
        """Return for how many rows the weights stand: their sum if they are counts, else Kish's number."""
        return rows.total if rows.counts else effective_n(rows.weights, rows.n)

    def _blocks(self, rows: Rows, lengths: tuple[float, float]) -> np.ndarray:
        points = spread(row_points(rows), rows.weights, PAIRS)
        # a random order that the rows decide alone; one order for all data would pair the same ranks of truths forever
        order = np.random.default_rng(int(digest(points), 16)).permutation(len(points.y))
        points = Points(*(column[order] for column in points))
        return block_values(points, int(np.clip(PAIRS // len(points.y), 2, 50)), lengths)

    def _block_mean(self, points: Points, rows: Rows, lengths: tuple[float, float]) -> float:
        size = 2 if self.estimator == "linear" else self.block_size
        if rows.weights is not None:
            raise input_error(
                "sample_weight",
                CALLER,
                "be None for blocks of rows",
                "weights",
                "use estimator='unbiased', or repeat rows",
            )
        values = block_values(points, size, lengths)
        return float(values.mean()) if len(values) else undefined("one whole block")


METRIC = Metric(
    name="skce",
    title="Squared kernel calibration error of normal forecasts",
    plain="gap between whole forecasts and outcomes, compared by a kernel",
    notion="calibration of the whole distribution",
    estimates="kernel calibration error, squared",
    bound=None,
    weakness="its scale depends on the kernel, so compare it only with itself; unbiased values may be negative",
    paper="Widmann, Lindsten & Zachariah (2021), Calibration tests beyond classification, ICLR",
    cost="O(n²) time in tiles up to 5,000 rows, O(n) in blocks above; O(n) memory",
    state="all rows",
    range=(-4.0, 4.0),
    task="regression",
    percent=False,
    default=True,
)


@METRIC.defines
def skce_normal(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    estimator: SkceEstimator = "auto",
    bandwidth: Bandwidth = "median",
    block_size: int = 50,
    sample_weight: ArrayLike | None = None,
) -> Recipe:
    """Measure how far normal forecasts are from calibrated, by comparing pairs of rows.

    Of samples and quantiles the normal distribution with the same mean and variance is judged.

    Parameters
    ----------
    estimator : {"auto", "unbiased", "biased", "block", "linear"}, default "auto"
        Mean over pairs of different rows ("unbiased"); over all pairs; mean over blocks of the unbiased value
        (O(n · block_size)); blocks of two. "auto" is "unbiased" up to 5,000 rows; above it takes blocks of 50 (fewer
        beyond 100,000) rows, in a random order that depends on the rows alone.
    bandwidth : "median", "published", float or pair of floats, default "median"
        Lengths ℓ₁ of the kernel on forecasts and ℓ₂ of the kernel on truths. "published" is 1 for both, which sees
        nothing when y is large (house prices: every pair of forecasts is then infinitely far apart).
    block_size : int, default 50
        For ``estimator="block"``; an incomplete last block is dropped.
    sample_weight : array-like of shape (n,), optional
        Counts of equal rows, or importance weights, whose pairs weigh w_i·w_j; not for "block" and
        "linear", which depend on the row order.

    Returns
    -------
    float
        The value; nan with a warning if there are fewer than two rows (or one block) to compare.

    Notes
    -----
    E h(Z, Z') with h = exp(−W₂(P, P')/ℓ₁)·(κ(y, y') − E κ(Y, y') − E κ(y, Y') + E κ(Y, Y')), Y ~ P, Y' ~ P',
    κ(y, y') = exp(−(y − y')²/(2ℓ₂²)), W₂² = (μ − μ')² + (σ − σ')². All expectations are closed. It is a proper score
    of two forecasts (U-score, r = 2).

    References
    ----------
    [1] Widmann, Lindsten & Zachariah (2021), "Calibration tests beyond classification", ICLR.
    [2] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
        NeurIPS, appendix F and G.5, eq. (58)-(61).

    Examples
    --------
    >>> from calibrant.metrics import skce_normal
    >>> skce_normal([0.0, 0.0], [0.0, 0.0], [1.0, 1.0], bandwidth="published")  # 1 − 2/√2 + 1/√3
    0.1631
    """
    return NormalKernelError(estimator, bandwidth, block_size)
