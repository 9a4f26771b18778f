"""Tables of a regression forecast: the PIT and its histogram, predicted variance against squared error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats
from calibrant.core.inputs import check_n_bins
from calibrant.core.options import check_rng
from calibrant.core.predictions import Means
from calibrant.core.results import Record
from calibrant.core.rows import check_rows
from calibrant.metrics.regression._qce import coverage
from calibrant.metrics.regression.variance_bins import Bins, check_bins, collect

__all__ = ["PitTable", "VarianceTable", "compute_pit", "compute_variance_table", "pit_values"]


@dataclass(frozen=True)
class PitTable(Record):
    """Histogram of the PIT: bin edges, weighted fraction of rows in each bin, that if calibrated, and its noise."""

    edges: tuple[float, ...]
    share: tuple[float, ...]
    expected: float
    expected_std: float
    n: int

    def __str__(self) -> str:
        lines = ["PIT          fraction   if calibrated"]
        for low, high, share in zip(self.edges, self.edges[1:], self.share, strict=False):
            lines.append(f"({low:.3f}, {high:.3f}]  {share:.4f}  {self.expected:.4f} ± {self.expected_std:.4f}")
        return "\n".join(lines)


@dataclass(frozen=True)
class VarianceTable(Record):
    """Average predicted variance against mean squared error, by ranges of the predicted variance (one row each)."""

    count: tuple[float, ...]
    variance: tuple[float, ...]
    mse: tuple[float, ...]

    @property
    def ratio(self) -> tuple[float, ...]:
        """Mean squared error over average variance; 1 is perfect, above 1 overconfident."""
        return tuple(e / v for e, v in zip(self.mse, self.variance, strict=True))

    def __str__(self) -> str:
        lines = ["      rows  avg variance           mse   ratio"]
        for n, v, e, r in zip(self.count, self.variance, self.mse, self.ratio, strict=True):
            lines.append(f"{n:10g}  {v:12.5g}  {e:12.5g}  {r:6.3g}")
        return "\n".join(lines)


def pit_values(y_true: ArrayLike, mean: Means, variance: ArrayLike | None = None, *, rng: RNG = None) -> Floats:
    """Return the probability integral transform of each truth: where it falls in its own forecast.

    Uniform on (0, 1) if the forecasts are calibrated; piled up at both ends if they are overconfident, in the middle
    if underconfident, on one side if biased.

    Parameters
    ----------
    y_true, mean, variance, rng
        As in `calibrant.metrics.pit_ks`.

    Returns
    -------
    array of shape (n,)

    References
    ----------
    [1] Gneiting, Balabdaoui & Raftery (2007), "Probabilistic forecasts, calibration and sharpness", JRSS B, section 3.

    Examples
    --------
    >>> pit_values([0.0, 1.96], [0.0, 0.0], [1.0, 1.0])
    array([0.5  , 0.975])
    """
    return check_rows(y_true, mean, variance, caller="pit_values", coins=check_rng(rng, "pit_values")).pit


def compute_pit(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    n_bins: int = 20,
    sample_weight: ArrayLike | None = None,
    rng: RNG = None,
) -> PitTable:
    """Return the histogram of the probability integral transform, with what a calibrated model would show.

    Parameters
    ----------
    y_true, mean, variance, sample_weight, rng
        As in `calibrant.metrics.pit_ks`.
    n_bins : int, default 20
        Equal-width bins (lo, hi], the first closed.

    Returns
    -------
    PitTable
        `share` per bin; `expected` = 1/n_bins with the standard deviation of a calibrated fraction at this n.

    Examples
    --------
    >>> compute_pit([-1.0, 1.0], [0.0, 0.0], [1.0, 1.0], n_bins=2).share
    (0.5, 0.5)
    """
    caller = "compute_pit"
    coins = check_rng(rng, caller)
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight, coins=coins)
    check_n_bins(n_bins, caller)
    edges = np.arange(n_bins + 1) / n_bins
    upto = coverage(rows.pit, rows.weights, edges[1:-1], "quantile")
    share = np.diff(np.concatenate([[0.0], upto, [1.0]]))
    p = 1 / n_bins
    noise = float(np.sqrt(p * (1 - p) / rows.total))
    return PitTable(tuple(edges.tolist()), tuple(share.tolist()), p, noise, rows.n)


def compute_variance_table(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    bins: Bins = "mass",
    sample_weight: ArrayLike | None = None,
) -> VarianceTable:
    """Return average predicted variance against mean squared error, by ranges of the predicted variance.

    Parameters
    ----------
    y_true, mean, variance, bins, sample_weight
        As in `calibrant.metrics.variance_calibration_error`.
    n_bins : int, default 15
        Ranges; 1 gives the two numbers of Gruber & Buettner's table 1.

    Returns
    -------
    VarianceTable

    Examples
    --------
    >>> print(compute_variance_table([0.5, -0.5], [0.0, 0.0], [1.0, 1.0], n_bins=1))
          rows  avg variance           mse   ratio
             2             1          0.25    0.25
    """
    caller = "compute_variance_table"
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight)
    check_bins(n_bins, bins, caller)
    binning = collect(rows, n_bins, bins)
    columns = (binning.w, binning.variance / binning.w, binning.error / binning.w)
    return VarianceTable(*(tuple(column.tolist()) for column in columns))
