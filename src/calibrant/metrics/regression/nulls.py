"""What a calibrated normal forecast would show at this n: exact or closed where possible, a small simulation else.

If y ~ N(μ, v) then z = (y − μ)/σ is standard normal, the PIT uniform, and the squared-error sum of a bin Σ v z²: no
truth needs to be drawn row by row, so the cost does not grow with n × resamples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.core.moments import NullMoments, pearson_tails, skewness_of, supported
from calibrant.core.rows import Rows

__all__ = [
    "CRPS_VARIANCE", "KolmogorovNull", "NormalNull", "SumNull", "bias_law", "crps_law", "dss_law", "mse_law",
    "nll_law", "ratio_law"
]  # fmt: skip

LOG_2PI = math.log(2 * math.pi)
#: Variance and third central moment of the CRPS of a standard normal forecast whose truth follows it (quadrature).
CRPS_VARIANCE = 0.16275157944175445
CRPS_THIRD = 0.12681070907859812
#: Mean √(π/2)·log 2 and standard deviation √(π²/12 − mean²) of the Kolmogorov distribution.
KOLMOGOROV_MEAN = math.sqrt(math.pi / 2) * math.log(2)
KOLMOGOROV_STD = math.sqrt(math.pi**2 / 12 - KOLMOGOROV_MEAN**2)


class SumNull(NullMoments):
    """Moments of a mean of continuous row scores under calibration.

    The p-value is that of the shifted gamma distribution with these three moments, which is exact for means of z²
    (their sum is χ²). Unlike counts, continuous sums have no jumps to correct for.
    """

    def pvalue(self) -> float:
        """Return the two-sided p-value of the observed mean: twice the smaller tail."""
        if not math.isfinite(self.excess) or not self.error > 0:
            return float(self.excess == 0)
        above, below = pearson_tails(self.excess / self.error, self.skewness / math.sqrt(self.count))
        return supported(2 * min(above, below))


def _law(mean: float, second: float, third: float, total: float, excess: float) -> SumNull:
    """Return the distribution of a mean from Σ of the rows' variances and third central moments."""
    skewness = skewness_of(second, third) * math.sqrt(total)
    return SumNull(mean, math.sqrt(second) / total, skewness, total, excess)


def ratio_law(rows: Rows, *, shift: float = 0.0, factor: float = 1.0) -> SumNull:
    """Return the distribution of factor·(mean z² + shift): W·mean z² is χ² with W degrees of freedom."""
    total, excess = rows.total, rows.average(rows.ratio) - 1.0
    return _law(factor * (1.0 + shift), 2 * factor**2 * total, 8 * factor**3 * total, total, factor * excess)


def dss_law(rows: Rows) -> SumNull:
    """Return the distribution of the mean of z² + log v."""
    return ratio_law(rows, shift=rows.average(np.log(rows.variance)))


def nll_law(rows: Rows) -> SumNull:
    """Return the distribution of half the Dawid-Sebastiani score, moved."""
    return ratio_law(rows, shift=rows.average(np.log(rows.variance)) + LOG_2PI, factor=0.5)


def mse_law(rows: Rows) -> SumNull:
    """Return the distribution of the mean of v z²: cumulants Σv, 2Σv², 8Σv³."""
    total, first = rows.total, rows.average(rows.variance)
    second, third = (rows.average(rows.variance**power) * total for power in (2, 3))
    return _law(first, 2 * second, 8 * third, total, rows.average(rows.squared_error) - first)


def crps_law(rows: Rows) -> SumNull:
    """Return the distribution of the mean CRPS: σ/√π per row, variance and third moment constants times σ², σ³."""
    std = np.sqrt(rows.variance)
    mean = rows.average(std) / math.sqrt(math.pi)
    second, third = rows.average(rows.variance) * rows.total, rows.average(std**3) * rows.total
    excess = rows.average(rows.forecast.crps(rows.y)) - mean
    return _law(mean, CRPS_VARIANCE * second, CRPS_THIRD * third, rows.total, excess)


def bias_law(rows: Rows) -> SumNull:
    """Return the distribution of the mean of z: normal with variance 1/W."""
    return SumNull(0.0, rows.total**-0.5, 0.0, rows.total, rows.average((rows.y - rows.mean) / np.sqrt(rows.variance)))


@dataclass(frozen=True, slots=True)
class NormalNull:
    """A normal distribution."""

    mean: float
    std: float

    def pvalue(self, observed: float, *, two_sided: bool = False) -> float:
        """Return the upper tail, or both."""
        z = (observed - self.mean) / self.std
        return supported(math.erfc(abs(z) / math.sqrt(2)) if two_sided else 0.5 * math.erfc(z / math.sqrt(2)))


@dataclass(frozen=True, slots=True)
class KolmogorovNull:
    """The Kolmogorov-Smirnov distribution of n uniform values; moments of its limit with Stephens' correction for n."""

    n: int

    @property
    def _scale(self) -> float:
        return self.n**0.5 + 0.12 + 0.11 / self.n**0.5

    @property
    def mean(self) -> float:
        """Mean."""
        return KOLMOGOROV_MEAN / self._scale

    @property
    def std(self) -> float:
        """Standard deviation."""
        return KOLMOGOROV_STD / self._scale

    def pvalue(self, observed: float, *, two_sided: bool = False) -> float:  # noqa: ARG002 -- a distance has one tail
        """Return the exact upper tail."""
        from scipy.stats import kstwo

        return float(kstwo.sf(observed, self.n))
