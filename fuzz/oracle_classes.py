"""The metrics of class probabilities once more: loops over labels, rows and weights."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from loops import binned, class_pairs, hits, kish, mean_of, root_of, top_label, total_of, typical


def accuracy(y: Any, p: Any, w: Any) -> float:
    return mean_of(hits(y, p)[1], w)


def confidence(y: Any, p: Any, w: Any) -> float:
    return mean_of(hits(y, p)[0], w)


def ece(y: Any, p: Any, w: Any, **params: Any) -> float:
    return binned(*hits(y, p), w, **params)


def mce(y: Any, p: Any, w: Any, **params: Any) -> float:
    return binned(*hits(y, p), w, norm=math.inf, **params)


def tce(y: Any, p: Any, w: Any, norm: float = 2.0, **params: Any) -> float:
    return root_of(binned(*hits(y, p), w, norm=norm, **params), norm)


def _path(y: Any, p: Any, w: Any) -> list[float]:
    score, hit = hits(y, p)
    return [
        math.fsum(w[i] * (hit[i] - score[i]) for i in range(len(w)) if score[i] <= level) / total_of(w)
        for level in sorted({s for s, weight in zip(score, w, strict=True) if weight > 0})
    ]


def ks(y: Any, p: Any, w: Any) -> float:
    return max(abs(step) for step in _path(y, p, w))


def kuiper(y: Any, p: Any, w: Any) -> float:
    path = [0.0, *_path(y, p, w)]
    return max(path) - min(path)


def _deviation(score: Any, w: Any) -> float:
    if len({s for s, weight in zip(score, w, strict=True) if weight > 0}) < 2:
        return 0.0
    middle = mean_of(score, w)
    return math.sqrt(mean_of([(s - middle) ** 2 for s in score], w))


def kde(y: Any, p: Any, w: Any, norm: float = 1.0, bandwidth: Any = "published") -> float:
    """Triweight kernels on a grid of 2¹⁴ points from −0.6 to 1.6, every score mirrored at the nearer end."""
    score, hit = hits(y, p)
    grid, low, high = 2**14, -0.6, 1.6
    step = (high - low) / (grid - 1)
    n = kish(w)
    if bandwidth == "published":
        half = 3 * (_deviation(score, [a * b for a, b in zip(w, hit, strict=True)]) or _deviation(score, w))
        half *= (2 * n) ** -0.2
    elif bandwidth == "text":
        half = 1.06 * _deviation(score, w) * n**-0.2
    else:
        half = bandwidth
    half = max(half, 4 * step)
    x = low + step * np.arange(grid)
    x = x[(x > 0) & (x < 1)]
    density, joint = np.zeros(len(x)), np.zeros(len(x))
    for s, t, weight in zip(score, hit, w, strict=True):
        for mirrored in (s, -s if s < 0.5 else 2 - s):
            position = (mirrored - low) / step
            left = int(position)
            for point, share in ((left, 1 - (position - left)), (left + 1, position - left)):
                u = (x - (low + step * point)) / half
                bump = np.where(np.abs(u) < 1, 35 / 32 * (1 - u * u) ** 3, 0.0) / half * (share * weight)
                density += bump
                joint += bump * t
    ratio = np.divide(joint, density, out=np.zeros(len(x)), where=density > 0)
    mass = float(np.trapezoid(density, x))
    power = float(np.trapezoid(np.abs(x - ratio) ** norm * density, x)) / mass
    return root_of(power, norm)


def mmce(y: Any, p: Any, w: Any, width: float = 0.4) -> float:
    score, hit = hits(y, p)
    d = [a * (t - s) for a, t, s in zip(w, hit, score, strict=True)]
    rows = range(len(d))
    total = math.fsum(d[i] * d[j] * math.exp(-abs(score[i] - score[j]) / width) for i in rows for j in rows)
    return math.sqrt(max(total, 0.0)) / total_of(w)


def smece(y: Any, p: Any, w: Any, *, value: float) -> float | None:
    """Return the value if the smoothed error at it equals it; None where it is as fine as the grid."""
    score, hit = hits(y, p)
    grid = 8192
    mass = np.zeros(grid)
    for s, t, weight in zip(score, hit, w, strict=True):
        position = s * grid - 0.5
        left = min(max(int(position), 0), grid - 2)
        share = min(max(position - left, 0.0), 1.0)
        mass[left] += (1 - share) * weight * (t - s) / total_of(w)
        mass[left + 1] += share * weight * (t - s) / total_of(w)
    x = (np.arange(grid) + 0.5) / grid
    places = np.flatnonzero(mass)

    def smoothed(sigma: float) -> float:
        total = np.zeros(grid)
        images = math.ceil(5 * sigma) + 1
        for i in places:
            for k in range(-images, images + 1):
                for center in (x[i] + 2 * k, -x[i] + 2 * k):  # reflected at 0 and 1
                    total += mass[i] * np.exp(-0.5 * ((x - center) / sigma) ** 2)
        return float(np.abs(total).sum()) / (sigma * math.sqrt(2 * math.pi) * grid)

    if value < 4 / grid:
        return None if value > 0 or np.abs(mass).sum() < 1e-9 else math.nan
    near = 1e-8
    good = smoothed(value - near) >= value - near and smoothed(value + near) <= value + near
    return value if good else math.nan


def sweep(y: Any, p: Any, w: Any, norm: float = 1.0) -> float:
    """Return the error over the most equal-mass bins whose frequencies do not fall; sums are exact."""
    score, hit = hits(y, p)
    rows = [i for i in range(len(w)) if w[i] > 0]
    exact = {i: Fraction(w[i]) for i in rows}
    whole = sum(exact.values())
    levels = sorted({score[i] for i in rows})
    before = {s: sum((exact[i] for i in rows if score[i] < s), Fraction(0)) / whole for s in levels}
    found = dict.fromkeys(levels, 0)
    for m in range(2, min(len(levels), 2000) + 1):
        index = {s: min(int(before[s] * m + Fraction(1e-9)), m - 1) for s in levels}
        rates = []
        for b in sorted(set(index.values())):
            inside = [i for i in rows if index[score[i]] == b]
            rates.append(sum(exact[i] * int(hit[i]) for i in inside) / sum(exact[i] for i in inside))
        if any(b < a for a, b in itertools.pairwise(rates)):
            break
        found = index
    powers, shares = [], []
    for b in sorted(set(found.values())):
        inside = [i for i in rows if found[score[i]] == b]
        mass = math.fsum(w[i] for i in inside)
        gap = abs(math.fsum(w[i] * (hit[i] - score[i]) for i in inside)) / mass
        powers.append(gap if math.isinf(norm) else gap**norm)
        shares.append(mass)
    return max(powers) if math.isinf(norm) else root_of(mean_of(powers, shares), norm)


def tl_ece(y: Any, p: Any, w: Any, n_bins: int = 15, norm: float = 1.0) -> float:
    score, hit = hits(y, p)
    label = top_label(p)[1]
    powers, shares = [], []
    for k in sorted(set(label)):
        rows = [i for i in range(len(w)) if label[i] == k and w[i] > 0]
        if rows:
            parts = [[column[i] for i in rows] for column in (score, hit, w)]
            powers.append(binned(*parts, norm=norm, n_bins=n_bins))
            shares.append(total_of(parts[2]))
    return max(powers) if math.isinf(norm) else root_of(mean_of(powers, shares), norm)


def _each_class(y: Any, p: Any, w: Any, **params: Any) -> list[float]:
    return [binned(*class_pairs(y, p, k), w, **params) for k in range(len(p[0]))]


def cwce(y: Any, p: Any, w: Any, norm: float = 2.0, **params: Any) -> float:
    powers = _each_class(y, p, w, norm=norm, **params)
    return max(powers) if math.isinf(norm) else root_of(sum(powers), norm)


def sce(y: Any, p: Any, w: Any, **params: Any) -> float:
    return sum(_each_class(y, p, w, **params)) / len(p[0])


def ace(y: Any, p: Any, w: Any, n_bins: int = 15, threshold: float = -1.0, pooled: bool = False) -> float:
    found, together = [], ([], [], [])
    for k in range(len(p[0])):
        score, hit = class_pairs(y, p, k)
        rows = [i for i in range(len(w)) if score[i] > threshold]
        parts = [[column[i] for i in rows] for column in (score, hit, w)]
        for whole, part in zip(together, parts, strict=True):
            whole.extend(part)
        found.append(binned(*parts, n_bins=n_bins, bins="mass", alike=True))
    return binned(*together, n_bins=n_bins, bins="mass", alike=True) if pooled else sum(found) / len(found)


def tace(y: Any, p: Any, w: Any, threshold: float = 0.01, **params: Any) -> float:
    return ace(y, p, w, threshold=threshold, **params)


def _entropy(row: Any) -> float:
    return -math.fsum(x * math.log(x) for x in row if x > 0)


def uce(y: Any, p: Any, w: Any, per_class: bool = False, **params: Any) -> float:
    label = top_label(p)[1]
    unsure = [min(max(_entropy(row) / math.log(len(row)), 0.0), 1.0) for row in p]
    wrong = [1.0 - hit for hit in hits(y, p)[1]]
    if not per_class:
        return binned(unsure, wrong, w, **params)
    found = []
    for k in sorted({k for k, weight in zip(label, w, strict=True) if weight > 0}):
        rows = [i for i in range(len(w)) if label[i] == k]
        found.append(binned(*([column[i] for i in rows] for column in (unsure, wrong, w)), **params))
    return sum(found) / len(found)


def _distance(a: Any, b: Any, kernel: str) -> float:
    """Two classes lie on a line and are measured by the second: 1e-19 beside a second class of 1 is no distance."""
    if len(a) == 2 and kernel != "gaussian":
        return abs(a[1] - b[1]) * (math.sqrt(2.0) if kernel == "exponential" else 1.0)
    if kernel == "total-variation":
        return 0.5 * math.fsum(abs(x - z) for x, z in zip(a, b, strict=True))
    return math.dist(a, b)


def skce(
    y: Any, p: Any, w: Any, estimator: str = "unbiased", kernel: str = "exponential", gamma: Any = "median"
) -> float | None:
    n = len(w)
    counts = all(x == int(x) for x in w)
    copies = [int(x) for x in w] if counts else [1 if x > 0 else 0 for x in w]
    if gamma == "median":
        if sum(copies) > 1024:
            return None  # the library looks at 1,024 of them
        every = [i for i in range(n) for _ in range(copies[i])]
        gamma = typical([_distance(p[i], p[j], kernel) for a, i in enumerate(every) for j in every[a + 1 :]])
    rest = [[row[k] - (k == label) for k in range(len(row))] for label, row in zip(y, p, strict=True)]

    def h(i: int, j: int) -> float:
        d = _distance(p[i], p[j], kernel)
        value = math.exp(-d * d / (2 * gamma * gamma)) if kernel == "gaussian" else math.exp(-d / gamma)
        return value * math.fsum(a * b for a, b in zip(rest[i], rest[j], strict=True))

    whole = math.fsum(w[i] * w[j] * h(i, j) for i in range(n) for j in range(n))
    total = total_of(w)
    if estimator == "biased":
        return whole / total**2
    return (whole - math.fsum(w[i] * h(i, i) for i in range(n))) / (total * (total - 1))


#: Bandwidths tried: 15 from 1e-5 to 1e-1 in equal ratios, then 0.2 … 1.
GRID = [10 ** (-5 + 4 * j / 14) for j in range(15)] + [0.2, 0.4, 0.6, 0.8, 1.0]


def ce_kde(y: Any, p: Any, w: Any, norm: float = 2.0, bandwidth: Any = "likelihood", root: bool = True) -> Any:
    """Dirichlet kernels, every row left out of its own estimate; rows of one count only once are left out whole."""
    rows = [i for i in range(len(w)) if w[i] > 0]
    k = len(p[0])
    logs = [[math.log(x) if x > 0 else math.log(2.0**-1022) for x in row] for row in p]
    total = total_of(w)

    def frequencies(j: int, h: float) -> list[float]:
        weights = {i: w[i] - (1 if i == j else 0) for i in rows}
        inside = [i for i in rows if weights[i] > 0]
        log_kernel = {
            i: math.fsum(p[i][c] / h * logs[j][c] for c in range(k))
            - math.fsum(math.lgamma(p[i][c] / h + 1) for c in range(k))
            for i in inside
        }
        peak = max(log_kernel[i] + math.log(weights[i]) for i in inside)
        value = {i: math.exp(log_kernel[i] + math.log(weights[i]) - peak) for i in inside}
        whole = math.fsum(value.values())
        return [math.fsum(value[i] for i in inside if y[i] == c) / whole for c in range(k)]

    def error(h: float) -> float:
        gaps = [
            math.fsum(abs(a - b) ** norm for a, b in zip(frequencies(j, h), p[j], strict=True)) * w[j] for j in rows
        ]
        power = math.fsum(gaps) / total
        return power ** (1 / norm) if root else power

    def likelihood(h: float) -> float:
        share = 1 / total
        return math.fsum(w[j] * math.log((1 - share) * frequencies(j, h)[y[j]] + share / k) for j in rows)

    if bandwidth != "likelihood":
        return error(bandwidth)
    if total > 512:
        return None  # the search looks at some rows only
    found = [likelihood(h) for h in GRID]
    best = max(found)
    return [error(h) for h, one in zip(GRID, found, strict=True) if one >= best - 1e-9 * (1 + abs(best))]


def brier(y: Any, p: Any, w: Any, scale_by_half: bool = False) -> float:
    rows = [math.fsum((row[k] - (k == t)) ** 2 for k in range(len(row))) for t, row in zip(y, p, strict=True)]
    return mean_of(rows, w) * (0.5 if scale_by_half else 1.0)


def nll(y: Any, p: Any, w: Any) -> float:
    values = []
    for t, row, weight in zip(y, p, w, strict=True):
        if row[t] <= 0 and weight > 0:
            return math.inf
        values.append(-math.log(row[t]) if row[t] > 0 else 0.0)
    return mean_of(values, w)


def spherical(y: Any, p: Any, w: Any) -> float:
    return mean_of([-row[t] / math.sqrt(math.fsum(x * x for x in row)) for t, row in zip(y, p, strict=True)], w)


def rps(y: Any, p: Any, w: Any) -> float:
    values = []
    for t, row in zip(y, p, strict=True):
        reached, total = 0.0, 0.0
        for k in range(len(row) - 1):
            reached += row[k]
            total += (reached - (t <= k)) ** 2
        values.append(total)
    return mean_of(values, w)


def rbs(y: Any, p: Any, w: Any) -> float:
    return math.sqrt(brier(y, p, w))


def entropy(y: Any, p: Any, w: Any) -> float:  # noqa: ARG001 -- one signature
    return mean_of([_entropy(row) for row in p], w)
