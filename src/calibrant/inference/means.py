"""The sampling law of a mean: normal theory, Hall's correction for skewness, BCa; whole clusters if there are any."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._typing import Floats
from calibrant.core.shares import normal_quantile


@dataclass(frozen=True, slots=True)
class Moments:
    """A mean, its standard error, the skewness of what is summed, and how many summands there are."""

    mean: float
    error: float
    skewness: float
    count: float


def mean_moments(x: Floats, weights: Floats | None, clusters: Floats | None) -> Moments:
    """Return the moments of a (weighted) mean; with clusters, whole clusters are the summands."""
    w = np.ones(len(x)) if weights is None else weights
    total = float(w.sum())
    mean = float((w * x).sum()) / total
    centred = x - mean
    if clusters is None:
        count = total
        second, third = float((w * centred**2).sum()) / total, float((w * centred**3).sum()) / total
        error = math.sqrt(second / max(total - 1.0, 1.0))
    else:
        sums = np.bincount(clusters, w * centred)
        count = float(len(sums))
        second, third = float((sums**2).mean()), float((sums**3).mean())
        error = math.sqrt(second * count * count / max(count - 1.0, 1.0)) / total
    return Moments(mean, error, third / second**1.5 if second > 0 else 0.0, count)


def mean_ends(moments: Moments, level: float, *, skew: bool) -> tuple[float, float]:
    """Return the ends for a mean: t theory, optionally corrected for skewness.

    References
    ----------
    [1] Hall (1992), On the removal of skewness by transformation, JRSS B 54, eq. (2.3).
    """
    z = _t_quantile(0.5 + level / 2, moments.count - 1.0)
    step = moments.skewness / math.sqrt(moments.count)
    if not skew or abs(step) < 1e-9:
        return moments.mean - z * moments.error, moments.mean + z * moments.error

    def inverse(q: float) -> float:  # [1] eq. (2.3) solved for the statistic
        return 3.0 / step * (float(np.cbrt(1.0 + step * (q - step / 6.0))) - 1.0)

    return moments.mean - inverse(z) * moments.error, moments.mean - inverse(-z) * moments.error


def _t_quantile(q: float, freedom: float) -> float:
    if freedom > 2000:
        return normal_quantile(q)
    from scipy.special import stdtrit

    return float(stdtrit(max(freedom, 1.0), q))


def bca_ends(
    x: Floats,
    weights: Floats | None,
    clusters: Floats | None,
    level: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap of a mean (Efron 1987), whole clusters at a time."""
    from scipy.special import ndtr, ndtri

    w = np.ones(len(x)) if weights is None else weights
    groups = np.arange(len(x)) if clusters is None else clusters
    sums, sizes = np.bincount(groups, w * x), np.bincount(groups, w)
    keep = sizes > 0
    sums, sizes = sums[keep], sizes[keep]
    value = sums.sum() / sizes.sum()
    replicates = []
    for _ in range(n_resamples):
        drawn = rng.integers(0, len(sums), len(sums))
        replicates.append(sums[drawn].sum() / sizes[drawn].sum())
    values = np.sort(replicates)
    z0 = ndtri(np.clip((values < value).mean(), 1 / (n_resamples + 1), n_resamples / (n_resamples + 1)))
    influence = (sums - value * sizes) / sizes.mean()
    a = (influence**3).sum() / (6.0 * (influence**2).sum() ** 1.5)
    ends = []
    for q in ((1 - level) / 2, (1 + level) / 2):
        z = z0 + ndtri(q)
        ends.append(float(np.quantile(values, ndtr(z0 + z / (1 - a * z)))))
    return ends[0], ends[1]
