"""The change of one metric between two forecasts of the same rows: an interval and a p-value of one distribution.

The p-value is everywhere read off the interval: it is at most 1 − level exactly where the interval leaves out 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.declare import Metric
from calibrant.core.moments import FEW_EVENTS, garwood, mean_moments, normal_quantile
from calibrant.core.results import Interval
from calibrant.core.row_scores import pair_block, possible_scores
from calibrant.core.tables import Pairs
from calibrant.estimators import Noise
from calibrant.inference.intervals import offered_interval

__all__ = [
    "accuracy_change", "error_change", "exact_mcnemar", "inverted", "row_correlation", "score_ends", "slopes", "tango"
]  # fmt: skip

#: From a level to the ends of the interval at that level.
Ends: TypeAlias = Callable[[float], tuple[float, float]]
#: Smallest p-value that is searched for.
_SMALLEST = 1e-8
#: What a change is told as: its interval and p-value, None where neither is honest.
Change: TypeAlias = tuple[Interval | None, float | None]


def inverted(ends: Ends, steps: int = 40) -> float:
    """Return the p-value of "no change" that belongs to an interval: 1 − the level at which 0 is at its border.

    Examples
    --------
    >>> normal = lambda level: (1 - normal_quantile((1 + level) / 2), 1 + normal_quantile((1 + level) / 2))
    >>> round(inverted(normal), 4)  # a change of one standard error
    0.3173
    """

    def holds_zero(alpha: float) -> bool:
        low, high = ends(1.0 - alpha)
        return low <= 0.0 <= high

    small, large = math.log(_SMALLEST), 0.0
    if not holds_zero(_SMALLEST):
        return _SMALLEST
    for _ in range(steps):
        middle = 0.5 * (small + large)
        small, large = (middle, large) if holds_zero(math.exp(middle)) else (small, middle)
    return math.exp(small) if small < -1e-9 else 1.0


# -- accuracy ---------------------------------------------------------------------------------


def exact_mcnemar(gained: float, lost: float) -> float:
    """Return the exact two-sided p-value of McNemar's test: twice the smaller binomial tail of the discordant pairs.

    References
    ----------
    [1] McNemar (1947), Note on the sampling error of the difference between correlated proportions, Psychometrika 12.

    Examples
    --------
    >>> exact_mcnemar(5, 0), exact_mcnemar(3, 3)
    (0.0625, 1.0)
    """
    from scipy.special import bdtr

    pairs = gained + lost
    return 1.0 if pairs <= 0 else min(1.0, 2.0 * float(bdtr(min(gained, lost), round(pairs), 0.5)))


def tango(gained: float, lost: float, n: float, level: float) -> tuple[float, float]:
    """Return Tango's score interval of the difference of two paired proportions, (gained − lost)/n.

    References
    ----------
    [1] Tango (1998), Equivalence test and confidence interval for the difference in proportions for the paired-sample
        design, Statistics in Medicine 17, eq. (12)-(14).

    Examples
    --------
    >>> [round(end, 4) for end in tango(12, 2, 50, 0.95)]
    [0.0611, 0.3447]
    >>> [round(end, 4) for end in tango(0, 0, 100, 0.95)]
    [-0.037, 0.037]
    """
    z = normal_quantile(0.5 + level / 2)
    value = (gained - lost) / n

    def score(delta: float) -> float:
        b = -gained - lost + (2 * n - gained + lost) * delta
        c = -lost * delta * (1 - delta)
        share = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)  # [1] eq. (13)
        variance = n * (2 * share + delta * (1 - delta))
        return (gained - lost - n * delta) / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, -delta)

    def solve(inside: float, outside: float, target: float) -> float:
        for _ in range(60):
            middle = 0.5 * (inside + outside)
            inside, outside = (middle, outside) if abs(score(middle)) <= target else (inside, middle)
        return 0.5 * (inside + outside)

    return solve(value, -1.0, z), solve(value, 1.0, z)


def accuracy_change(gained: float, lost: float, n: int, total: float, level: float) -> Change:
    """Return the change of accuracy with Tango's interval and McNemar's exact p-value; one never contradicts the other.

    At 0 the exact test takes the place of the score test behind the interval: where it does not reject, 0 belongs to
    the interval. (It rejects less often than the score test, so it never asks for 0 to be left out.)
    """
    low, high = tango(gained, lost, total, level)
    pvalue = exact_mcnemar(gained, lost)
    if pvalue > 1 - level:
        low, high = min(low, 0.0), max(high, 0.0)
    elif low <= 0.0 <= high:
        pvalue = math.nextafter(1 - level, 1.0)
    return Interval((gained - lost) / total, low, high, level, "tango", n), pvalue


# -- mean scores where hardly any row goes against its forecast ---------------------------------


def score_ends(recipe: Any, first: Any, second: Any, difference: Floats, sign: float) -> Ends | None:
    """Return the ends of the change of a mean score that few surprises decide; None where there are enough of them.

    `difference` is that of every row, first − second times `sign`.

    Notes
    -----
    A surprise is a row that does not have its likeliest class (of both forecasts together). Without one the difference
    of a row is known; with one it jumps. Sums of jumps up and of jumps down are weighted Poisson sums with the interval
    of [1], which counts one more event of the size that is due; the ends join as in `error_change`, with the spread of
    what is known.

    References
    ----------
    [1] Fay & Feuer (1997), Confidence intervals for directly standardized rates: a method based on the gamma
        distribution, Statistics in Medicine 16, eq. (4)-(6).
    """
    if first.task == "regression":
        return None
    weight = np.ones(len(difference)) if first.weights is None else first.weights
    if min(float(weight @ ~np.asarray(one.hit, dtype=bool)) for one in (first, second)) >= FEW_EVENTS:
        return None
    if recipe.pairs_suffice and first.task != "pairs":  # each forecast has a top label of its own
        return lambda _: (-math.inf, math.inf)
    blocks, truth = _blocks(recipe, first, second)
    rows, likely = np.arange(len(truth)), (blocks[0] + blocks[1]).argmax(axis=1)
    struck = truth != likely
    with np.errstate(invalid="ignore"):
        possible = sign * (possible_scores(recipe.score, blocks[0]) - possible_scores(recipe.score, blocks[1]))
    known = possible[rows, likely]
    jump = possible - known[:, None]
    jump[~np.isfinite(jump)] = 0.0
    total = float(weight.sum())
    seen = np.where(struck, difference - known, 0.0)
    sides = []
    for side in (1.0, -1.0):
        size = np.maximum(side * jump, 0.0)
        due = [(weight @ (q * size**2).sum(axis=1), weight @ (q * size).sum(axis=1)) for q in blocks]
        one = np.maximum(side * seen, 0.0)
        largest = max([float(one.max()), *(float(a / b) for a, b in due if b > 0)])
        sides.append((float(weight @ one), float(weight @ one**2), largest))
    middle, spread = float(weight @ known), mean_moments(known, first.weights, None).error * total

    def ends(level: float) -> tuple[float, float]:
        z = normal_quantile(0.5 + level / 2)
        (up, down), reach = (_weighted_counts(*one, level) for one in sides), z * spread
        value = middle + sides[0][0] - sides[1][0]
        low = math.hypot(sides[0][0] - up[0], down[1] - sides[1][0], reach)
        high = math.hypot(up[1] - sides[0][0], sides[1][0] - down[0], reach)
        return (value - low) / total, (value + high) / total

    return ends


def _weighted_counts(total: float, squares: float, largest: float, level: float) -> tuple[float, float]:
    """Return the interval of a weighted sum of Poisson counts [1 of `score_ends`]."""
    low = squares / total * garwood(total**2 / squares, level)[0] if total > 0 else 0.0
    if largest <= 0:
        return low, total
    more, above = total + largest, squares + largest**2
    return low, above / more * garwood(more**2 / above - 1.0, level)[1]


def _blocks(recipe: Any, first: Any, second: Any) -> tuple[list[Floats], Ints]:
    """Return the probabilities of both forecasts, and the place of what happened."""
    if recipe.pairs_suffice:
        return [pair_block(one.top_score) for one in (first, second)], np.asarray(first.hit, dtype=np.int64)
    return [np.asarray(one.proba(), dtype=np.float64) for one in (first, second)], np.asarray(first.codes)


# -- calibration errors -----------------------------------------------------------------------


def error_change(
    metric: Metric,
    recipe: Any,
    first: Any,
    second: Any,
    level: float,
    groups: Any,
    rng: np.random.Generator,
    correlate: Callable[[Any], float | None],
) -> Change:
    """Return the change of a calibration error from the intervals of its two values and how they move together.

    `correlate` gives the correlation of the two values of a recipe on the same rows, as `row_correlation` does.

    Notes
    -----
    The variance estimates are recovered from the two intervals [1]: with ends (l, u) of the values a and b, the low end
    of a − b is a − b − √((a − l_a)² + (u_b − b)² − 2r(a − l_a)(u_b − b)), the high end its mirror image. r is the
    correlation of the two values on the same rows, from the derivatives of the errors in the means of their cells.
    Where one of the errors may be 0 it has no derivative there and a positive r is not used, only a negative one; and
    on the side where its own value is the doubt, r = −1: the plug-in value of an error near 0 is too large. The
    p-value is normal on the side of 0, at the scale of that end.

    References
    ----------
    [1] Zou & Donner (2008), Construction of confidence limits about effect measures: a general approach, Statistics in
        Medicine 27, eq. (6)-(7).
    """
    spans = [
        offered_interval(metric, recipe, one, level=level, groups=groups, rng=generator)
        for one, generator in zip((first, second), rng.spawn(2), strict=True)
    ]
    a, b = spans
    if a is None or b is None:
        return None, None
    r = correlate(recipe)
    if r is None:
        return None, None
    if a.low <= 0 or b.low <= 0:
        r = min(r, 0.0)
    value = a.value - b.value
    # an error that may be 0 lies above its truth by its bias, which would use up the other's share: the ends add up
    down = _recovered(a.value - a.low, b.high - b.value, -1.0 if a.low <= 0 else r)
    up = _recovered(a.high - a.value, b.value - b.low, -1.0 if b.low <= 0 else r)
    side = down if value > 0 else up
    pvalue = 1.0
    if value != 0:
        z = normal_quantile(0.5 + level / 2) * abs(value) / side if side > 0 else math.inf
        pvalue = max(math.erfc(z / math.sqrt(2.0)), _SMALLEST)
    return Interval(value, value - down, value + up, level, "recovered", first.n), pvalue


def _recovered(one: float, two: float, r: float) -> float:
    return math.sqrt(max(one * one + two * two - 2 * r * one * two, 0.0))  # [1] eq. (6)


def row_correlation(recipe: Any, first: Any, second: Any) -> float | None:
    """Return the correlation of two estimates of an error on the same rows; None where rows are not known."""
    view = recipe.resampled_view()
    if view is None:
        return None
    one, two = (_influence(recipe, evidence.pairs_of(view)) for evidence in (first, second))
    if one is None or two is None or len(one) != len(two):
        return None
    spread = math.sqrt(float(one @ one) * float(two @ two))
    return float(np.clip(one @ two / spread, -1.0, 1.0)) if spread > 0 else 0.0


def _influence(recipe: Any, pairs: Pairs) -> Floats | None:
    """Return how much each row moves the error, up to a factor: the slope in its cell's mean times its residual."""
    slope = slopes(recipe, pairs)
    if slope is None:
        return None
    weight = np.ones(len(slope)) if pairs.weight is None else pairs.weight
    moved = slope * (pairs.outcome - pairs.score.astype(np.float64))
    return np.asarray(np.sqrt(weight) * (moved - weight @ moved / weight.sum()))


def slopes(recipe: Any, pairs: Pairs) -> Floats | None:
    """Return the derivative of an error in the mean of each pair's cell, up to a common factor; None without one."""
    estimator = recipe.estimator
    kind = estimator.noise(recipe.norm, recipe.root)
    if kind is None:
        return None
    index, m = estimator.noise_cells(pairs)
    weight = np.ones(len(index)) if pairs.weight is None else pairs.weight
    counts = np.bincount(index, weight, m)
    means = np.bincount(index, weight * (pairs.outcome - pairs.score.astype(np.float64)), m) / weight.sum()
    scores = np.bincount(index, weight * pairs.score, m) / np.maximum(counts, 1e-300)
    return _slope(kind, means, counts / weight.sum(), estimator, scores)[index]


def _slope(kind: Noise, means: Floats, shares: Floats, estimator: Any, scores: Floats) -> Floats:
    """Return the derivative of the error in every cell mean, up to a common factor."""
    filled: Ints = np.flatnonzero(shares > 0)
    if kind is Noise.PATH:
        path = np.cumsum(means)
        top = int(np.argmax(np.abs(path)))
        return np.where(np.arange(len(means)) <= top, np.sign(path[top]), 0.0)
    if kind is Noise.ABSOLUTE:
        return np.sign(means)
    slope = np.zeros(len(means))
    if kind is Noise.SQUARE:
        slope[filled] = means[filled] / shares[filled]
    else:
        slope[filled] = estimator.gram(scores[filled]) @ means[filled]
    return slope
