"""The metrics of normal forecasts once more: loops over truths, means, variances and weights."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

from loops import mass_bins, mean_of, total_of, typical

NORMAL = NormalDist()


def mse(y: Any, mean: Any, variance: Any, w: Any) -> float:  # noqa: ARG001 -- one signature
    return mean_of([(a - b) ** 2 for a, b in zip(y, mean, strict=True)], w)


def ratio(y: Any, mean: Any, variance: Any, w: Any) -> float:
    """Mean of the squared error over its variance."""
    return mean_of([(a - b) ** 2 / v for a, b, v in zip(y, mean, variance, strict=True)], w)


def dss(y: Any, mean: Any, variance: Any, w: Any) -> float:
    return mean_of([(a - b) ** 2 / v + math.log(v) for a, b, v in zip(y, mean, variance, strict=True)], w)


def bias(y: Any, mean: Any, variance: Any, w: Any) -> float:
    return mean_of([(a - b) / math.sqrt(v) for a, b, v in zip(y, mean, variance, strict=True)], w)


def mean_variance(y: Any, mean: Any, variance: Any, w: Any) -> float:  # noqa: ARG001 -- one signature
    return mean_of(variance, w)


def crps(y: Any, mean: Any, variance: Any, w: Any) -> float:
    values = []
    for a, b, v in zip(y, mean, variance, strict=True):
        s = math.sqrt(v)
        z = (a - b) / s
        density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        values.append(s * (z * math.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi)))
    return mean_of(values, w)


def normal_nll(y: Any, mean: Any, variance: Any, w: Any) -> float:
    return (dss(y, mean, variance, w) + math.log(2 * math.pi)) / 2


def _pit(y: Any, mean: Any, variance: Any) -> list[float]:
    return [0.5 * math.erfc(-(a - b) / math.sqrt(2 * v)) for a, b, v in zip(y, mean, variance, strict=True)]


def pit_ks(y: Any, mean: Any, variance: Any, w: Any) -> float:
    u = _pit(y, mean, variance)
    largest = 0.0
    for x in u:
        below = math.fsum(weight for z, weight in zip(u, w, strict=True) if z < x) / total_of(w)
        upto = math.fsum(weight for z, weight in zip(u, w, strict=True) if z <= x) / total_of(w)
        largest = max(largest, x - below, upto - x)
    return largest


def _levels(levels: Any) -> list[float]:
    return [j / (levels + 1) for j in range(1, levels + 1)] if isinstance(levels, int) else list(levels)


def qce(
    y: Any, mean: Any, variance: Any, w: Any, levels: Any = 99, kind: str = "quantile", norm: float = 1
) -> float | None:
    u = _pit(y, mean, variance)
    if kind == "interval":
        u = [abs(2 * x - 1) for x in u]
    gaps = []
    for level in _levels(levels):
        if any(abs(x - level) < 1e-12 and x != level for x in u):
            return None  # rounding decides
        gaps.append(abs(math.fsum(a for a, x in zip(w, u, strict=True) if x <= level) / total_of(w) - level))
    if math.isinf(norm):
        return max(gaps)
    return (math.fsum(gap**norm for gap in gaps) / len(gaps)) ** (1 / norm)


def _variance_bins(key: Any, w: Any, n_bins: int, bins: str) -> list[list[int]]:
    if bins == "mass":
        index = mass_bins(key, w, n_bins)
    else:
        low, high = min(key), max(key)
        edges = [low + (high - low) * j / n_bins for j in range(1, n_bins)]
        index = [sum(edge < x for edge in edges) for x in key]
    return [[i for i in range(len(w)) if index[i] == b and w[i] > 0] for b in sorted(set(index))]


def ence(y: Any, mean: Any, variance: Any, w: Any, n_bins: int = 15, bins: str = "mass") -> float:
    key = [math.sqrt(v) for v in variance] if bins == "width" else variance
    found = []
    for rows in _variance_bins(key, w, n_bins, bins):
        if rows:
            mass = math.fsum(w[i] for i in rows)
            predicted = math.sqrt(math.fsum(w[i] * variance[i] for i in rows) / mass)
            observed = math.sqrt(math.fsum(w[i] * (y[i] - mean[i]) ** 2 for i in rows) / mass)
            found.append(abs(predicted - observed) / predicted)
    return sum(found) / len(found)


def vce(y: Any, mean: Any, variance: Any, w: Any, n_bins: int = 15, bins: str = "mass") -> float:
    parts = _variance_bins(variance, w, n_bins, bins)
    gaps = [abs(math.fsum(w[i] * ((y[i] - mean[i]) ** 2 - variance[i]) for i in rows)) for rows in parts]
    return math.fsum(gaps) / total_of(w)


def normal_skce(
    y: Any, mean: Any, variance: Any, w: Any, estimator: str = "auto", bandwidth: Any = "median"
) -> float | None:
    n = len(w)
    std = [math.sqrt(v) for v in variance]
    counts = all(x == int(x) for x in w)
    if bandwidth == "median":
        every = [i for i in range(n) for _ in range(int(w[i]) if counts else 1)]
        if len(every) > 1000:
            return None  # the library looks at some of them
        pairs = [(i, j) for a, i in enumerate(every) for j in every[a + 1 :]]
        first = typical([math.hypot(mean[i] - mean[j], std[i] - std[j]) for i, j in pairs], 1e-100)
        second = typical([abs(y[i] - y[j]) for i, j in pairs], 1e-100)
    else:
        first = second = 1.0 if bandwidth == "published" else bandwidth

    def kernel(x: float, z: float, wider: float) -> float:
        square = second * second + wider
        return second / math.sqrt(square) * math.exp(-((x - z) ** 2) / (2 * square))

    def h(i: int, j: int) -> float:
        near = math.exp(-math.hypot(mean[i] - mean[j], std[i] - std[j]) / first)
        return near * (
            kernel(y[i], y[j], 0.0)
            - kernel(mean[i], y[j], variance[i])
            - kernel(y[i], mean[j], variance[j])
            + kernel(mean[i], mean[j], variance[i] + variance[j])
        )

    whole = math.fsum(w[i] * w[j] * h(i, j) for i in range(n) for j in range(n))
    if estimator == "biased":
        return whole / total_of(w) ** 2
    if counts:
        return (whole - math.fsum(w[i] * h(i, i) for i in range(n))) / (total_of(w) * (total_of(w) - 1))
    own = math.fsum(w[i] * w[i] for i in range(n))
    return (whole - math.fsum(w[i] * w[i] * h(i, i) for i in range(n))) / (total_of(w) ** 2 - own)


def interval_score(y: Any, mean: Any, variance: Any, w: Any, level: float = 0.9) -> float:
    alpha = 1 - level
    z = -NORMAL.inv_cdf(alpha / 2)
    values = []
    for a, b, v in zip(y, mean, variance, strict=True):
        low, high = b - z * math.sqrt(v), b + z * math.sqrt(v)
        values.append(high - low + 2 / alpha * (max(low - a, 0.0) + max(a - high, 0.0)))
    return mean_of(values, w)


def pinball(y: Any, mean: Any, variance: Any, w: Any, levels: Any = 99) -> float:
    values = []
    for a, b, v in zip(y, mean, variance, strict=True):
        losses = []
        for level in _levels(levels):
            rest = a - (b + math.sqrt(v) * NORMAL.inv_cdf(level))
            losses.append(max(level * rest, (level - 1) * rest))
        values.append(math.fsum(losses) / len(losses))
    return mean_of(values, w)
