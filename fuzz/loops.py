"""What the slow twins share: means, pairs of score and outcome, bins."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import median
from typing import Any


def total_of(w: Any) -> float:
    return float(sum(w))


def mean_of(values: Any, w: Any) -> float:
    return math.fsum(a * b for a, b in zip(values, w, strict=True)) / total_of(w)


def kish(w: Any) -> float:
    """Return how many rows the weights stand for: their sum if they are counts, else Kish's number."""
    if all(x == int(x) for x in w) and sum(w) <= 2.0**53:
        return total_of(w)
    return total_of(w) ** 2 / math.fsum(x * x for x in w)


def top_label(p: Any) -> tuple[list[float], list[int]]:
    score, label = [], []
    for row in p:
        best = 0
        for k in range(1, len(row)):
            if row[k] > row[best]:
                best = k
        score.append(float(row[best]))
        label.append(best)
    return score, label


def hits(y: Any, p: Any) -> tuple[list[float], list[float]]:
    score, label = top_label(p)
    return score, [1.0 if a == b else 0.0 for a, b in zip(label, y, strict=True)]


def class_pairs(y: Any, p: Any, k: int) -> tuple[list[float], list[float]]:
    return [float(row[k]) for row in p], [1.0 if label == k else 0.0 for label in y]


def width_bins(score: Any, w: Any, m: int) -> list[int]:  # noqa: ARG001 -- one signature with `mass_bins`
    """Bins (lo, hi], the first closed; a score up to 2⁻²⁴ above an edge counts as on it."""
    return [min(max(math.ceil((s - 2.0**-24) * m) - 1, 0), m - 1) for s in score]


def mass_bins(score: Any, w: Any, m: int) -> list[int]:
    """The j-th edge is the smallest score whose cumulative weight reaches j·W/m; bins (lo, hi]."""
    order = sorted(range(len(score)), key=lambda i: score[i])
    exact = [Fraction(x) for x in w]
    whole = sum(exact)
    reached, levels = Fraction(0), []  # cumulative weight at the last row of every tie
    for place, i in enumerate(order):
        reached += exact[i]
        if place + 1 == len(order) or score[order[place + 1]] != score[i]:
            levels.append((reached * m / whole, score[i]))
    edges = [next(level for weight, level in levels if weight >= j) for j in range(1, m) if levels]
    return [sum(edge < s for edge in edges) for s in score]


def binned(
    score: Any,
    hit: Any,
    w: Any,
    *,
    norm: float = 1.0,
    n_bins: int = 15,
    bins: str = "width",
    debias: bool = False,
    alike: bool = False,
) -> float:
    """Return Σ_b (n_b/n)·|t̄_b − s̄_b|^p, or the largest gap; `alike`: every bin with rows counts the same."""
    index = (width_bins if bins == "width" else mass_bins)(score, w, n_bins)
    powers, shares = [], []
    for b in sorted(set(index)):
        rows = [i for i in range(len(w)) if index[i] == b and w[i] > 0]
        if not rows:
            continue
        mass = math.fsum(w[i] for i in rows)
        gap = abs(math.fsum(w[i] * (hit[i] - score[i]) for i in rows)) / mass
        power = gap if math.isinf(norm) else gap**norm
        if debias:
            rate = math.fsum(w[i] * hit[i] for i in rows) / mass
            power = power - rate * (1 - rate) / (mass - 1) if mass > 1 else 0.0
        powers.append(power)
        shares.append(1.0 if alike else mass)
    if not powers:
        return 0.0
    return max(powers) if math.isinf(norm) else mean_of(powers, shares)


def root_of(power: float, norm: float) -> float:
    return power if math.isinf(norm) else max(power, 0.0) ** (1 / norm)


def typical(distances: list[float], least: float = 0.0) -> float:
    """Return the median, the mean where it is as good as 0, and 1 where that is."""
    found = [float(median(distances)), math.fsum(distances) / len(distances)] if distances else []
    return next((distance for distance in found if distance > least), 1.0)
