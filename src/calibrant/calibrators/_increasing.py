"""One increasing function for all classes: its basis, its knots, and the convex fit of its slopes.

The derivative of the function is piecewise linear between knots, so its values a_j ≥ 0 at the knots are the
coefficients of I-splines (the integrals of the hat functions); equal a_j give a straight line. The negative
log-likelihood of softmax(f(u)) is convex in the slopes. How much they may differ is decided by the evidence.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.calibrators import _newton
from calibrant.calibrators._multinomial import one_blas_thread
from calibrant.calibrators._scores import Scores
from calibrant.core.links import row_max
from calibrant.core.parallel import map_chunks
from calibrant.errors import ConvergenceWarning

#: Knots of the slope, evenly spaced in log-odds over the range that holds 99% of the information.
N_KNOTS = 12
#: Most knots that are counted one by one.
FEW_KNOTS = 32
#: Cells of the histogram of log-odds that finds this range: width and reach.
CELL, REACH = 0.025, 60.0
#: A slope never falls below this fraction of the common slope, so that distinct scores stay distinct.
LEAST_SLOPE = 1e-3
#: Standard deviation of the weak prior that pulls the mean slope to 1, the map that changes nothing; wider under a
#: floor, which compresses the scores.
PRIOR_SCALE, PRIOR_SCALE_FLOOR = 0.7, 2.0
#: Prior of the smoothness: worth so many slopes, around this value. Without it few rows may ask for any bend.
SMOOTHNESS_WORTH, SMOOTHNESS_CENTRE = 1.0, 50.0
#: The fit stops when a Newton step promises less than this per unit of weight.
TOLERANCE, TOLERANCE_NEAR, TOLERANCE_SAMPLE = 1e-10, 1e-7, 1e-5
#: Beyond this many scores (but not fewer rows) a strided sample of rows finds start and precisions.
SAMPLE_VALUES, SAMPLE_ROWS = 1 << 17, 1500
#: Most steps in which the precisions follow the evidence, without and with a sample before.
ROUNDS, ROUNDS_AFTER_SAMPLE = 12, 1
#: The same from a fit to nearly the same rows.
ROUNDS_NEAR = 3
#: Numbers kept between passes (8 bytes each); beyond, they are made again in every pass.
KEPT_VALUES = 1 << 24
#: Scores per block of one pass.
BLOCK_VALUES = 1 << 17


def stretches(knots: Floats, u: Floats) -> Ints:
    """Return how many knots lie at or below each value: with a dozen knots counting is faster than searching."""
    if len(knots) > FEW_KNOTS:
        return np.searchsorted(knots, u, side="right")
    passed = np.zeros(u.shape, dtype=np.uint8)
    for knot in knots:
        passed += u >= knot
    return passed.astype(np.int64)


@dataclass(frozen=True)
class Increasing:
    """f with slope a_j at knot t_j, linear between in the slope, constant slope outside; f(t_0) = 0."""

    knots: Floats
    slopes: Floats

    def pieces(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return origin t and c, b, a of f = c + b·(u − t) + a·(u − t)² for each stretch left to right."""
        width = np.diff(self.knots)
        bend = np.diff(self.slopes) / (2 * width)
        heights = np.concatenate([[0.0], np.cumsum(width * (self.slopes[1:] + self.slopes[:-1]) / 2)])
        return (
            np.concatenate([self.knots[:1], self.knots]),
            np.concatenate([[0.0], heights]),
            np.concatenate([self.slopes[:1], self.slopes]),
            np.concatenate([[0.0], bend, [0.0]]),
        )

    def __call__(self, u: Floats) -> Floats:
        """Return f(u), entry by entry."""
        origin, constant, slope, bend = self.pieces()
        index = stretches(self.knots, u)
        step = u - origin[index]
        return np.asarray(constant[index] + step * (slope[index] + step * bend[index]))


def common_slope(scores: Scores, codes: Ints, weights: Floats, start: float = 1.0) -> float:
    """Return β of softmax(βu) under the weak prior around 1; 1 if the scores say nothing."""
    width, _ = _newton.spread(scores, codes)
    pull = prior_scale(scores) ** -2
    if width == 0:
        return 1.0

    def sums(some: slice, beta: float) -> _newton.Sums:
        data = _newton.total_sums(scores.rows(some), codes[some], weights[some], 0.0, beta)
        gap = beta - 1.0
        return _newton.Sums(data.loss + pull * gap * gap / 2, data.slope + pull * gap, data.curve + pull, data.more)

    return _newton.search(sums, scores.n, start, 1e-3 / max(width, 1.0), 1e6)[0]


def prior_scale(scores: Scores) -> float:
    """Return the standard deviation of the prior on the mean slope."""
    return PRIOR_SCALE if scores.floor == 0 else PRIOR_SCALE_FLOOR


def place_knots(scores: Scores, weights: Floats, beta: float, n_knots: int = N_KNOTS) -> Floats:
    """Return knots in log p, evenly spaced in log-odds where 99% of Σ w·q(1 − q) lies, q = softmax(βu)."""
    n_cells = int(2 * REACH / CELL)

    def visit(rows: slice) -> Floats:
        u = scores.block(rows)
        q = np.exp(beta * (u - u.max(axis=1, keepdims=True)))
        q /= q.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            odds = u - np.log(-np.expm1(np.minimum(u, 0.0)))
        cell = np.clip((odds + REACH) / CELL, 0, n_cells - 1).astype(np.int64)
        information = (q * (1 - q) * weights[rows, None]).ravel()
        return np.asarray(np.bincount(cell.ravel(), information, n_cells), dtype=np.float64)

    mass = np.cumsum(np.sum(list(map_chunks(visit, _newton.blocks(scores, BLOCK_VALUES))), axis=0))
    low, high = np.searchsorted(mass, np.array([0.005, 0.995]) * mass[-1])
    odds = np.linspace(low * CELL - REACH, (high + 1) * CELL - REACH, n_knots)
    knots = np.unique(-np.logaddexp(0.0, -odds))
    return np.asarray(knots[np.concatenate([[True], np.diff(knots) > 1e-4 * (knots[-1] - knots[0])])])


class CurveSums(NamedTuple):
    """Loss, gradient and Hessian of the data in the parameters (slopes, then biases)."""

    loss: float
    gradient: Floats
    hessian: Floats

    @classmethod
    def sum(cls, parts: Iterable[CurveSums]) -> CurveSums:
        """Add up the sums of several parts of the rows."""
        loss, gradient, hessian = (reduce(operator.add, values) for values in zip(*parts, strict=True))
        return cls(loss, gradient, hessian)


class CurveLikelihood:
    """Negative log-likelihood of softmax(f(u) + b) in (slopes of f, biases), summed over rows in blocks.

    On the stretch t between two knots the integrated hat functions are parabolas: φ(u) = P_t + s·A_t + s²·B_t, s being
    the distance to the knot. So all sums follow from sums of q·s^m by row and stretch, class and stretch, and stretch:
    nothing of size (n, K, J) is ever made. Two classes are a logistic regression on φ(u₁) − φ(u₀).
    """

    def __init__(self, scores: Scores, codes: Ints, weights: Floats, knots: Floats, biases: bool = False) -> None:
        self.scores, self.knots, self.biases = scores, knots, biases
        self.codes, self.weights = np.ascontiguousarray(codes, np.int64), np.ascontiguousarray(weights)
        self.blocks = _newton.blocks(scores, BLOCK_VALUES)
        self.parts = _parabolas(knots)
        self.kept: list[Any] | None = None
        prepare = self._gaps if scores.n_classes == 2 else self._places
        each = len(knots) if scores.n_classes == 2 else 2 * scores.n_classes
        if scores.n * each <= KEPT_VALUES:
            self.kept = list(map_chunks(prepare, self.blocks))

    def _gaps(self, rows: slice) -> Floats:
        """Return φ(u₁) − φ(u₀) of every row, followed by −1 and 1 for the biases."""
        stretch, s = self._places(rows)
        steps = np.stack([np.ones_like(s), s, s * s], axis=1)[:, None, :]
        phi = np.matmul(steps, self.parts[stretch]).reshape(-1, 2, len(self.knots))
        signs = [np.tile([-1.0, 1.0], (len(phi), 1))] if self.biases else []
        return np.concatenate([phi[:, 1] - phi[:, 0], *signs], axis=1)

    def _places(self, rows: slice) -> tuple[Ints, Floats]:
        """Return the stretch of every score of a block and the distance to its knot."""
        u = self.scores.block(rows)
        stretch = stretches(self.knots, u.ravel())
        return stretch, u.ravel() - np.append(self.knots[:1], self.knots)[stretch]

    def __call__(self, parameters: Floats) -> CurveSums:
        pieces = Increasing(self.knots, parameters[: len(self.knots)]).pieces()[1:]

        def visit(number: int) -> CurveSums:
            rows = self.blocks[number]
            if self.scores.n_classes == 2:
                gap = self.kept[number] if self.kept is not None else self._gaps(rows)
                return logistic_sums(gap, self.codes[rows], self.weights[rows], parameters)
            stretch, s = self.kept[number] if self.kept is not None else self._places(rows)
            return self._block(stretch, s, self.codes[rows], self.weights[rows], parameters, pieces)

        return CurveSums.sum(map_chunks(visit, range(len(self.blocks))))

    def _block(
        self, stretch: Ints, s: Floats, codes: Ints, weights: Floats, parameters: Floats, pieces: Sequence[Floats]
    ) -> CurveSums:
        n, k, size = len(codes), self.scores.n_classes, len(self.knots)
        n_stretches, rows = size + 1, np.arange(n)
        flat = self.parts.reshape(-1, size)  # (stretch, power) to slope
        truth, places = rows * k + codes, stretch.reshape(n, k)

        bias = parameters[size:] if self.biases else np.zeros(k)
        by_row, found = np.zeros((n, n_stretches * 3)), np.zeros((k, n_stretches * 5))
        z = pieces[2][stretch]
        for coefficients in pieces[1::-1]:
            z *= s
            z += coefficients[stretch]
        z = z.reshape(n, k)
        z += bias
        z -= row_max(z)[:, None]
        loss = -float(weights @ z.ravel()[truth])
        mass_w = np.exp(z, out=z)
        mass = mass_w.sum(axis=1)
        loss += float(weights @ np.log(mass))
        mass_w *= (weights / mass)[:, None]
        power = mass_w.ravel().copy()
        in_row = (places + n_stretches * rows[:, None]).ravel()
        in_class = (places + n_stretches * np.arange(k)).ravel()
        for m in range(5):
            if m < 3:
                by_row[:, m::3] = np.bincount(in_row, power, n * n_stretches).reshape(n, -1)
            found[:, m::5] = np.bincount(in_class, power, k * n_stretches).reshape(k, -1)
            power *= s
        cells = found.reshape(k, n_stretches, 5)
        moments, classes = cells.sum(axis=0), cells[:, :, :3].reshape(k, -1)
        mean_w = by_row @ flat  # E_q of the basis, one row each, times its weight
        here = [np.bincount(stretch[truth], weights * s[truth] ** m, n_stretches) for m in range(3)]
        gradient = mean_w.sum(axis=0) - np.stack(here, axis=1).ravel() @ flat
        hankel = moments[:, np.add.outer(np.arange(3), np.arange(3))]
        hessian = np.matmul(self.parts.transpose(0, 2, 1), np.matmul(hankel, self.parts)).sum(axis=0)
        hessian -= (mean_w / weights[:, None]).T @ mean_w
        if not self.biases:
            return CurveSums(loss, gradient, hessian)
        by_class, scale = classes[:, ::3].sum(axis=1), 1 / np.sqrt(weights)[:, None]
        root = np.multiply(mass_w, scale, out=mass_w)
        cross = (classes @ flat).T - (mean_w * scale).T @ root
        return CurveSums(
            loss,
            np.concatenate([gradient, by_class - np.bincount(codes, weights, k)]),
            np.block([[hessian, cross], [cross.T, np.diag(by_class) - root.T @ root]]),
        )


def logistic_sums(features: Floats, hits: Ints, weights: Floats, parameters: Floats) -> CurveSums:
    """Return the sums of a logistic regression."""
    z = features @ parameters
    small = np.exp(-np.abs(z))
    loss = float(weights @ (np.maximum(z, 0.0) - hits * z + np.log1p(small)))
    q = np.where(z >= 0, 1.0, small) / (1.0 + small)
    curve = weights * small / (1.0 + small) ** 2
    return CurveSums(loss, (weights * (q - hits)) @ features, (features * curve[:, None]).T @ features)


def _parabolas(knots: Floats) -> Floats:
    """Return P_t, A_t, B_t of φ(u) = P_t + s·A_t + s²·B_t for each stretch left to right, shape (J + 1, 3, J).

    φ_j is the integral of the hat function of knot j from the first knot on, straight outside the knots.
    """
    size, width = len(knots), np.diff(knots)
    out = np.zeros((size + 1, 3, size))
    for j in range(size - 1):
        out[j + 2 :, 0, [j, j + 1]] += width[j] / 2  # the integrals of all stretches passed
        out[j + 1, 2, [j, j + 1]] = np.array([-0.5, 0.5]) / width[j]
    place = np.maximum(np.arange(size + 1) - 1, 0)
    out[np.arange(size + 1), 1, place] = 1.0
    return out


@dataclass
class Penalty:
    """Quadratic terms λ_g/2·θᵀS_gθ, one matrix per group, and (pull·θ − goal)²/2 for the mean slope."""

    matrices: list[Floats]
    #: Rank of each matrix, and worth and center of the Gamma prior on its λ (worth 0: none).
    ranks: list[float]
    worths: list[float]
    centers: list[float]
    pull: Floats
    goal: float

    def matrix(self, precision: Floats) -> Floats:
        """Return the Hessian of the whole penalty."""
        total = np.outer(self.pull, self.pull)
        return np.asarray(total + sum(p * s for p, s in zip(precision, self.matrices, strict=True)))

    def update(self, precision: Floats, parameters: Floats, hessian: Floats) -> Floats:
        """One step of Fellner and Schall towards the largest evidence: freedom used over squares spent.

        Wood and Fasiolo (2017), Biometrics 73, Sec. 2.
        """
        whole = hessian + self.matrix(precision)
        try:
            root = np.linalg.inv(np.linalg.cholesky(whole))
            covariance = root.T @ root
        except np.linalg.LinAlgError:  # rounding may cost definiteness in flat directions
            covariance = np.linalg.pinv(whole, hermitian=True)
        new = precision.copy()
        for g, s in enumerate(self.matrices):
            used = max(self.ranks[g] - precision[g] * float(np.sum(covariance * s)), 1e-12)
            spent = float(parameters @ s @ parameters)
            ratio = (used + self.worths[g]) / max(spent + self.worths[g] / self.centers[g], 1e-12)
            new[g] = precision[g] * np.clip(ratio / precision[g], 1 / 30, 30.0) ** 1.5  # over-relaxed
        return np.clip(new, 1e-6, 1e6)


def newton_step(
    sums: CurveSums, penalty: Floats, push: Floats, parameters: Floats, least: Floats
) -> tuple[Floats, Floats]:
    """Return gradient and projected Newton direction; slopes at their bound that want to fall are held."""
    gradient = sums.gradient + penalty @ parameters - push
    free = ~((parameters <= least) & (gradient > 0))
    matrix = (sums.hessian + penalty)[np.ix_(free, free)]
    matrix[np.diag_indices(len(matrix))] += 1e-12 * np.trace(matrix) / max(len(matrix), 1)
    direction = np.zeros_like(parameters)
    direction[free] = -np.linalg.solve(matrix, gradient[free])
    return gradient, direction


def minimize(
    likelihood: Callable[[Floats], CurveSums],
    penalty: Penalty,
    start: Floats,
    precision: Floats,
    least: Floats,
    enough: float,
    rounds: int,
    sums: CurveSums | None = None,
) -> tuple[Floats, Floats]:
    """Minimize penalized likelihood over θ ≥ least; for at most `rounds` steps the precisions follow the evidence.

    Projected Newton with an active set and backtracking: the problem is convex for fixed precisions, and those
    are held from the moment they settle until the step promises less than `enough`; that last step is taken unseen.
    """
    parameters, sums = start, sums or likelihood(start)
    push = penalty.goal * penalty.pull
    for _ in range(100):
        matrix = penalty.matrix(precision)

        def objective(theta: Floats, at: CurveSums, matrix: Floats = matrix) -> float:
            return at.loss + float(theta @ matrix @ theta) / 2 - float(push @ theta)

        now = objective(parameters, sums)
        gradient, direction = newton_step(sums, matrix, push, parameters, least)
        size = 1.0
        while True:
            trial = np.maximum(parameters + size * direction, least)
            promise = float(gradient @ (trial - parameters))
            if not rounds and size == 1.0 and -enough <= promise <= 0:
                return trial, precision
            new = likelihood(trial)
            if objective(trial, new) <= now + 1e-4 * promise + 1e-13 * abs(now) or size < 1e-8:
                break
            size /= 2
        parameters, sums = trial, new
        if rounds:
            previous = precision
            precision = penalty.update(precision, parameters, sums.hessian)
            change = np.abs(np.log(precision / previous))
            rounds = rounds - 1 if change[0] > 0.05 or change[-1] > 0.2 else 0
        elif -promise <= enough or size < 1e-8:
            return parameters, precision
    warnings.warn("the increasing function did not converge in 100 Newton steps.", ConvergenceWarning, stacklevel=7)
    return parameters, precision


@one_blas_thread()
def fit_increasing(
    scores: Scores,
    codes: Ints,
    weights: Floats,
    *,
    biases: bool = False,
    smoothness: float | None = None,
    bias_precision: float | None = None,
    warm: Increasing | None = None,
    warm_smoothness: float = 0.0,
) -> tuple[Increasing, Floats, float]:
    """Fit f (and class biases, shrunk to 0) by penalized likelihood; return f, biases and the smoothness λ.

    Minimizes −Σ w log softmax(f(u) + b)_y + λ/2·∫(f″/β)² + (mean slope − 1)²/2σ² over slopes ≥ LEAST_SLOPE·β, with β
    the slope of the best straight line. `smoothness` None lets the evidence choose λ and the precision of b. `warm` is
    a fit to nearly the same rows: its knots are kept, the search starts there and ends sooner.
    """
    n_classes, total = scores.n_classes, float(weights.sum())
    if scores.n * n_classes <= KEPT_VALUES:  # the logarithms of all passes
        scores = replace(scores, matrix=scores.values(), space="logit", view="raw", ends=None)
    near = warm is not None and len(warm.knots) >= 3 and np.isfinite(warm_smoothness)
    beta = common_slope(scores, codes, weights, 1.0 if warm is None else float(warm.slopes.mean()))
    stride = scores.n // max(SAMPLE_ROWS, SAMPLE_VALUES // n_classes)
    some = slice(None, None, max(stride, 1))
    knots = warm.knots if warm is not None and near else place_knots(scores.rows(some), weights[some], beta)
    if len(knots) < 3:
        return Increasing(np.array([-1.0, 0.0]), np.full(2, beta)), np.zeros(n_classes), np.inf
    n_slopes, n_biases = len(knots), n_classes if biases else 0
    size = n_slopes + n_biases
    start = np.concatenate([np.full(n_slopes, beta), np.zeros(n_biases)])
    least = np.concatenate([np.full(n_slopes, LEAST_SLOPE * beta), np.full(n_biases, -np.inf)])
    stages = [CurveLikelihood(scores, codes, weights, knots, biases)]
    if stride > 1:
        stages.insert(0, CurveLikelihood(scores.rows(some), codes[some], weights[some], knots, biases))
    bend = np.zeros((n_slopes - 1, size))
    bend[:, :n_slopes] = np.diff(np.eye(n_slopes), axis=0) / (beta * np.sqrt(np.diff(knots))[:, None])
    goal = 1.0 / prior_scale(scores)
    first = stages[0](start)
    pull = goal * straight_slope(first.hessian, n_slopes)
    penalty = Penalty([bend.T @ bend], [n_slopes - 1.0], [SMOOTHNESS_WORTH], [SMOOTHNESS_CENTRE], pull, goal)
    precision = np.array([SMOOTHNESS_CENTRE if smoothness is None else smoothness])
    if biases:
        center = prior_precision(n_classes, total)
        penalty.matrices.append(np.diag(np.arange(size) >= n_slopes).astype(np.float64))
        penalty.ranks.append(float(n_classes))
        penalty.worths.append(0.1 * n_classes)
        penalty.centers.append(center)
        precision = np.append(precision, center if bias_precision is None else bias_precision)
    parameters = start
    if warm is not None and near:
        stages = stages[-1:]
        parameters = np.maximum(np.concatenate([warm.slopes, np.zeros(n_biases)]), least)
        precision[0] = warm_smoothness if smoothness is None else smoothness
    for number, stage in enumerate(stages):
        rounds = 0 if smoothness is not None else ROUNDS_AFTER_SAMPLE if number else ROUNDS
        rounds, tolerance = (min(rounds, ROUNDS_NEAR), TOLERANCE_NEAR) if near else (rounds, TOLERANCE)
        enough = float(stage.weights.sum()) * (tolerance if stage is stages[-1] else TOLERANCE_SAMPLE)
        given = penalty, parameters, precision, least, enough, rounds
        parameters, precision = minimize(stage, *given, None if number or near else first)
    return Increasing(knots, parameters[:n_slopes]), parameters[n_slopes:], float(precision[0])


def straight_slope(hessian: Floats, n_slopes: int) -> Floats:
    """Return v with v·a = the slope of the straight line closest to f in the metric of the Hessian."""
    weight = np.zeros(len(hessian))
    weight[:n_slopes] = hessian[:n_slopes, :n_slopes].sum(axis=1)
    total = float(weight.sum())
    if total > 0:
        return np.asarray(weight / total)
    weight[:n_slopes] = 1.0 / n_slopes
    return weight


def prior_precision(n_classes: int, total: float) -> float:
    """Return the prior center of the precision of class biases: 2K, more below 5,000 rows."""
    return 2.0 * n_classes * min(max(5000.0 / total, 1.0), 50.0)
