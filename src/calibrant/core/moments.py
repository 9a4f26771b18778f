"""The sampling distribution of a mean to its third moment, and of a fraction: one interval, whoever counted the rows.

Rows, summaries and regression all bring a `Moments` here, so they agree: the interval is Hall's, corrected for
skewness [1]; the p-value under calibration is that of the shifted gamma distribution (Pearson type III) with the
null distribution's mean, variance and skewness [2].

References
----------
[1] Hall (1992), On the removal of skewness by transformation, JRSS B 54, eq. (2.3).
[2] Pearson (1895), Contributions to the mathematical theory of evolution II, Phil. Trans. R. Soc. A 186, type III.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.clusters import clustered_error

__all__ = [
    "SMALLEST", "Moments", "NullMoments", "clopper_pearson", "clustered_null", "event_ends", "garwood",
    "mean_ends", "mean_moments", "normal_quantile", "pearson_tails", "skewness_of", "supported", "t_quantile", "wilson"
]  # fmt: skip

#: Below this skewness of the mean the gamma distribution is replaced by its expansion, whose error is the square.
_NEARLY_NORMAL = 1e-4
#: Events expected under calibration, and seen, below which a mean is that of a count.
FEW_EVENTS = 20.0
FEW_SEEN = 6.0
#: By how much a sample understates its skewness per unit of it, and how far the corrected interval follows.
_MISSED, _STEEP = 1.5, 0.95
#: A difference from the expected mean below this is rounding.
_ROUNDING = 1e-14
#: Smallest p-value that an approximate law is trusted with.
SMALLEST = 1e-6


def normal_quantile(q: float) -> float:
    """Return the standard normal quantile."""
    return NormalDist().inv_cdf(q)


def wilson(share: Floats | float, n: Floats | float, level: float) -> tuple[Floats, Floats]:
    """Return Wilson's interval of a fraction, elementwise.

    References
    ----------
    [1] Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22.

    Examples
    --------
    >>> [round(float(end), 3) for end in wilson(0.5, 100, 0.95)]
    [0.404, 0.596]
    """
    z = normal_quantile(0.5 + level / 2)
    p, count = np.asarray(share, dtype=np.float64), np.asarray(n, dtype=np.float64)
    middle = (p + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * np.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return np.where(p == 0, 0.0, middle - half), np.where(p == 1, 1.0, middle + half)  # exact at the ends


def garwood(count: float, level: float) -> tuple[float, float]:
    """Return the exact interval of a Poisson mean from one count, which need not be whole.

    References
    ----------
    [1] Garwood (1936), Fiducial limits for the Poisson distribution, Biometrika 28.

    Examples
    --------
    >>> [round(end, 2) for end in garwood(0, 0.95)], [round(end, 2) for end in garwood(3, 0.95)]
    ([0.0, 3.69], [0.62, 8.77])
    """
    from scipy.special import gammainccinv, gammaincinv

    tail = (1.0 - level) / 2
    low = float(gammaincinv(count, tail)) if count > 0 else 0.0
    return low, float(gammainccinv(count + 1.0, tail))


def clopper_pearson(count: float, n: float, level: float) -> tuple[float, float]:
    """Return the exact interval of a fraction.

    References
    ----------
    [1] Clopper & Pearson (1934), The use of confidence or fiducial limits illustrated in the case of the binomial,
        Biometrika 26.

    Examples
    --------
    >>> [round(end, 4) for end in clopper_pearson(0, 100, 0.95)]
    [0.0, 0.0362]
    """
    from scipy.special import betaincinv

    tail = (1.0 - level) / 2
    low = float(betaincinv(count, n - count + 1.0, tail)) if count > 0 else 0.0
    high = float(betaincinv(count + 1.0, n - count, 1.0 - tail)) if count < n else 1.0
    return low, high


@dataclass(frozen=True, slots=True)
class Moments:
    """A mean, its standard error, the skewness of what is summed, and how many summands there are.

    `freedom` are the degrees of freedom of the error, where they are not the number of summands less one.
    """

    mean: float
    error: float
    skewness: float
    count: float
    freedom: float | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class NullMoments(Moments):
    """Moments of a mean score over outcomes drawn from the forecasts, and how far the observed mean is from theirs.

    `excess` is the observed mean minus `mean`; it is summed row by row, because the difference of the two means
    would lose the digits they share. The skewness is that of one of `count` equal summands, as in `Moments`: the
    mean itself has ``skewness / sqrt(count)``.
    """

    excess: float = 0.0
    #: Another law that may hold; the larger p-value stands.
    other: NullMoments | None = None

    def pvalue(self) -> float:
        """Return the two-sided p-value of the observed mean under calibration: twice the smaller tail.

        Notes
        -----
        The mean is taken as Pearson's type III with the null mean, variance and skewness γ, moved by half a jump: a
        sum of rare events steps by γ standard deviations (exactly so for a Poisson count), and "at least this many"
        includes the step it stands on.

        Against exact binomial tails of 50 to 10,000 rows with events of 1% or 0.01%, p-values between 0.008 and 0.2 are
        0.96 to 1.7 times the exact ones (0.96 to 1.2 near 0.05). Where jumps differ in size it errs on the safe side:
        up to twice the exact value near 0.05 in ordinary mixtures, 6 to 11 times in extreme ones (1,000 rows at 0.9999
        with 5 at 0.6). The worst case on the other side is a fair coin over 30 rows: 0.66. No p-value is below
        `SMALLEST`: three moments say nothing of the tail beyond it. Where no outcome can change the mean, the p-value
        is 1 if the observed mean is the expected one, else 0.
        """
        if not math.isfinite(self.excess):
            return 0.0
        if abs(self.excess) <= _ROUNDING * max(1.0, abs(self.mean)):
            return 1.0
        if not self.error > 0:
            return 0.0
        if self.freedom is not None:  # whole clusters: t with their degrees of freedom
            from scipy.special import stdtr

            tails = supported(2.0 * float(stdtr(self.freedom, -abs(self.excess / self.error))))
            return tails if self.other is None else max(tails, self.other.pvalue())
        skewness = self.skewness / math.sqrt(self.count)
        half = 0.5 * abs(skewness)  # a compound Poisson sum has jumps of E[J³]/E[J²] = γ standard deviations
        z = self.excess / self.error
        upper, lower = pearson_tails(z - half, skewness)[0], pearson_tails(z + half, skewness)[1]
        return supported(2.0 * min(upper, lower))


def supported(tail: float) -> float:
    """Return the tail of an approximate law as a p-value: never below `SMALLEST`, never above 1.

    Examples
    --------
    >>> supported(3e-36), supported(0.04), supported(1.2)
    (1e-06, 0.04, 1.0)
    """
    return min(1.0, max(tail, SMALLEST))


def pearson_tails(z: float, skewness: float) -> tuple[float, float]:
    """Return P(Z ≥ z) and P(Z ≤ z) of the type III distribution with mean 0, variance 1 and this skewness.

    Z = (γ/2)·(G − 4/γ²) with G a gamma variable of shape 4/γ²; the normal distribution at γ = 0.

    Examples
    --------
    >>> [round(tail, 4) for tail in pearson_tails(1.0, 2.0)]  # the exponential distribution, shifted
    [0.1353, 0.8647]
    >>> [round(tail, 4) for tail in pearson_tails(1.96, 0.0)]
    [0.025, 0.975]
    """
    from scipy.special import gammainc, gammaincc, ndtr

    if abs(skewness) < _NEARLY_NORMAL:
        bent = z - skewness * (z * z - 1.0) / 6.0  # Cornish & Fisher (1938), first term
        return float(ndtr(-bent)), float(ndtr(bent))
    shape = 4.0 / (skewness * skewness)
    place = max(shape + 2.0 * z / skewness, 0.0)
    above, below = float(gammaincc(shape, place)), float(gammainc(shape, place))
    return (above, below) if skewness > 0 else (below, above)


def skewness_of(second: float, third: float) -> float:
    """Return the skewness from the second and third central moments, whose powers may be too small for a float.

    Examples
    --------
    >>> skewness_of(1.0, 2.0), skewness_of(0.0, 0.0), skewness_of(1e-300, 1e-300) > 1e149
    (2.0, 0.0, True)
    """
    return third / second / math.sqrt(second) if second > 0 else 0.0


def mean_moments(x: Floats, weights: Floats | None, clusters: Ints | None) -> Moments:
    """Return the moments of a (weighted) mean; with clusters, whole clusters are the summands."""
    w = np.ones(len(x)) if weights is None else weights
    total = float(w.sum())
    mean = float((w * x).sum()) / total
    centered = x - mean
    if clusters is None:
        count = total
        squares = w * centered * centered
        second, third = float(squares.sum()) / total, float((squares * centered).sum()) / total
        error = math.sqrt(second / max(total - 1.0, 1.0))
    else:
        sums = np.bincount(clusters, w * centered).astype(np.float64)
        count = float(len(sums))
        second, third = float((sums**2).mean()), float((sums**3).mean())
        error, freedom = clustered_error(sums, np.bincount(clusters, w).astype(np.float64))
        return Moments(mean, error, skewness_of(second, third), count, freedom=freedom)
    return Moments(mean, error, skewness_of(second, third), count)


def clustered_null(observed: float, null: Sequence[Floats], weights: Floats | None, clusters: Ints) -> NullMoments:
    """Return the moments of a mean under calibration from the excess of each row, whole clusters as summands.

    `null` holds the excess of each row over what its forecast expects, its variance and its third central moment. The
    spread over clusters allows any dependence and any weights; it knows nothing of surprises that did not come, so the
    law of independent labels must reject as well.
    """
    excess, second, third = null
    w = np.ones(len(excess)) if weights is None else weights
    sums, sizes = np.bincount(clusters, w * excess), np.bincount(clusters, w).astype(np.float64)
    total = float(sizes.sum())
    gap = float(sums.sum()) / total
    error, freedom = clustered_error(sums - gap * sizes, sizes)
    v2, v3, n = float(w**2 @ second), float(w**3 @ third), float(len(w))
    labels = NullMoments(observed - gap, math.sqrt(v2) / total, skewness_of(v2, v3) * math.sqrt(n), n, gap)
    return NullMoments(observed - gap, error, 0.0, float(len(sums)), gap, labels, freedom=freedom)


def mean_ends(moments: Moments, level: float, *, skew: bool = True) -> tuple[float, float]:
    """Return the ends of the interval of a mean: t theory, corrected for skewness unless `skew` is False.

    Notes
    -----
    The statistic (mean − truth)/error is bent by the cubic transformation of [1] (see the module), whose inverse is a
    cube root, so that its skewness vanishes to second order. A sample that lacks its rare large values shows too small
    a mean, error and skewness at once, so on the side of the long tail the skewness γ/√n counts as
    γ/√n·(1 + 1.5γ/√n), as far as the transformation stays steep.
    """
    freedom = moments.count - 1.0 if moments.freedom is None else moments.freedom
    z = t_quantile(0.5 + level / 2, freedom)
    step = abs(moments.skewness) / math.sqrt(moments.count)
    if not skew or step < 1e-9:
        return moments.mean - z * moments.error, moments.mean + z * moments.error

    def reach(step: float, q: float) -> float:  # [1] eq. (2.3) solved for the statistic
        return 3.0 / step * (1.0 - float(np.cbrt(1.0 - step * (q + step / 6.0))))

    steepest = 3.0 * (math.sqrt(z * z + 2.0 * _STEEP / 3.0) - z)
    near = -reach(step, -z) * moments.error
    far = max(reach(step, z), reach(min(step * (1.0 + _MISSED * step), steepest), z)) * moments.error
    below, above = (near, far) if moments.skewness > 0 else (far, near)
    return moments.mean - below, moments.mean + above


def event_ends(moments: Moments, null: Moments, level: float) -> tuple[float, float] | None:
    """Return the ends of the interval of a mean that few events decide; None where there are enough of them.

    Notes
    -----
    A mean of n rows whose sum jumps by J at rare events has variance J²λ/n² and skewness 1/√λ: three moments tell how
    many events λ there are and how large they are. Under calibration the forecasts say both, also where none was seen.
    With fewer than twenty due, or fewer than six seen, the sum is J times a Poisson count, whose exact interval [1] is
    scaled by J.

    References
    ----------
    [1] Garwood (1936), see `garwood`.
    """
    skewness = abs(null.skewness) / math.sqrt(null.count)
    seen = abs(moments.skewness) / math.sqrt(moments.count)
    second, total = (moments.error * moments.count) ** 2, moments.count
    came = second >= FEW_SEEN * (skewness * null.error * total) ** 2  # of the events that were due
    if came and skewness * skewness * FEW_EVENTS <= 1.0 and seen * seen * FEW_SEEN <= 1.0:
        return None
    jump = max(skewness * null.error * total, seen * math.sqrt(second))
    events = second / (jump * jump)
    low, high = garwood(events, level)
    # a jump that lowers the score (an easy row) counts from the other side
    down = null.skewness < 0 if skewness >= seen else moments.skewness < 0
    below, above = (high - events, events - low) if down else (events - low, high - events)
    return moments.mean - jump * below / total, moments.mean + jump * above / total


def t_quantile(q: float, freedom: float) -> float:
    """Return the quantile of Student's t."""
    if freedom > 2000:
        return normal_quantile(q)
    from scipy.special import stdtrit

    return float(stdtrit(max(freedom, 1.0), q))
