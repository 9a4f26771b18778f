"""What a calibrated normal forecast would show at this n: exact or closed where possible, a small simulation else.

If y ~ N(μ, v) then z = (y − μ)/σ is standard normal, the PIT uniform, and the squared-error sum of a bin Σ v z²: no
label needs to be drawn row by row, so the cost does not grow with n × resamples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._typing import Floats
from calibrant.regression.pit import quantile_gap
from calibrant.regression.rows import Rows
from calibrant.regression.variance_errors import Binning

__all__ = ["Null", "from_draws", "null_coverage", "null_crps", "null_errors", "null_ks", "null_ratio", "null_sum"]

#: Variance of the CRPS of a standard normal forecast whose truth follows it (quadrature; see the tests).
CRPS_VARIANCE = 0.16275157944175445
#: Mean √(π/2)·log 2 and standard deviation √(π²/12 − mean²) of the Kolmogorov law.
KOLMOGOROV_MEAN = float(np.sqrt(np.pi / 2) * np.log(2))
KOLMOGOROV_STD = float(np.sqrt(np.pi**2 / 12 - KOLMOGOROV_MEAN**2))


@dataclass(frozen=True)
class Null:
    """Mean and standard deviation under calibration, and the p-value of the observed value."""

    mean: float
    std: float
    pvalue: float


def from_draws(draws: Floats, value: float) -> Null:
    """One-sided p-value (1 + #{draw ≥ value})/(B + 1)."""
    return Null(float(draws.mean()), float(draws.std()), float((1 + (draws >= value).sum()) / (len(draws) + 1)))


def null_ks(value: float, n: int) -> Null:
    """Exact p-value of the Kolmogorov-Smirnov law; moments of its limit with Stephens' correction for n."""
    from scipy.stats import kstwo

    scale = n**0.5 + 0.12 + 0.11 / n**0.5
    return Null(KOLMOGOROV_MEAN / scale, KOLMOGOROV_STD / scale, float(kstwo.sf(value, n)))


def null_coverage(
    levels: Floats, kind: str, norm: float, value: float, n: int, n_resamples: int, rng: np.random.Generator
) -> Null:
    """Quantile error of uniform PITs: rows fall between the levels like a multinomial draw, whatever `kind`."""
    del kind  # |2u − 1| is uniform too
    cells = np.diff(np.concatenate([[0.0], levels, [1.0]]))
    counts = rng.multinomial(n, cells / cells.sum(), n_resamples)
    observed = np.cumsum(counts, axis=1)[:, :-1] / n
    return from_draws(quantile_gap(observed, levels, norm), value)


def null_errors(binning: Binning, n_resamples: int, rng: np.random.Generator) -> Floats:
    """Draws of the squared-error sums of the bins, shape (n_resamples, bins).

    Σ v z² is a weighted sum of χ²₁; the gamma law with its mean Σv and variance 2Σv² is exact for equal variances, and
    within a bin they are nearly equal.
    """
    scale = 2 * binning.variance2 / binning.variance
    return rng.gamma(binning.variance / scale, scale, (n_resamples, len(scale)))


def null_sum(first: float, second: float, total: float, value: float) -> Null:
    """Null of Σ v z²/W with Σv = `first`, Σv² = `second`: gamma law, two-sided."""
    from scipy.stats import gamma

    scale = 2 * second / first
    law = gamma(first / scale, scale=scale / total)
    pvalue = min(1.0, 2 * min(law.cdf(value), law.sf(value)))
    return Null(first / total, float(np.sqrt(2 * second)) / total, float(pvalue))


def null_ratio(total: float, ratio: float, *, shift: float = 0.0, factor: float = 1.0) -> Null:
    """Null of factor·(mean z² + shift): W·mean z² is χ² with W degrees of freedom, two-sided."""
    base = null_sum(total, total, total, ratio)
    return Null(factor * (base.mean + shift), factor * base.std, base.pvalue)


def null_crps(rows: Rows, value: float) -> Null:
    """Null of the mean CRPS: E = σ/√π per row, variance a constant times σ²; normal, two-sided."""
    from scipy.special import ndtr

    w = np.ones(rows.n) if rows.weights is None else rows.weights
    mean = float(w @ np.sqrt(rows.variance)) / np.sqrt(np.pi) / rows.total
    std = float(np.sqrt(CRPS_VARIANCE * (w @ rows.variance))) / rows.total
    return Null(mean, std, float(2 * ndtr(-abs(value - mean) / std)))
