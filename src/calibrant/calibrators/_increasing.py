"""One increasing function for all classes: its basis, its knots, and the convex fit of its slopes.

The derivative of the function is piecewise linear between knots, so its values a_j ≥ 0 at the knots are the
coefficients of I-splines (the integrals of the hat functions); equal a_j give a straight line. The negative
log-likelihood of softmax(f(u)) is convex in the slopes. How much they may differ is decided by the evidence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.calibrators import _newton
from calibrant.calibrators._multinomial import one_blas_thread
from calibrant.calibrators._scores import Scores
from calibrant.core.parallel import map_chunks
from calibrant.errors import ConvergenceWarning

#: Knots of the slope, evenly spaced in log-odds over the range that holds 99 % of the information.
N_KNOTS = 12
#: Cells of the histogram of log-odds that finds this range: width and reach.
CELL, REACH = 0.025, 60.0
#: A slope never falls below this share of the common slope, so that distinct scores stay distinct.
LEAST_SLOPE = 1e-3
#: Standard deviation of the weak prior that pulls the mean slope to 1, the map that changes nothing; wider under a
#: floor, which compresses the scores.
PRIOR_SCALE, PRIOR_SCALE_FLOOR = 0.7, 2.0
#: Prior of the smoothness: worth so many slopes, around this value. Without it few rows may ask for any bend.
SMOOTHNESS_WORTH, SMOOTHNESS_CENTRE = 1.0, 50.0
#: The fit stops when a Newton step promises less than this per unit of weight.
TOLERANCE = 1e-10
#: Beyond this many scores (but not fewer rows) a strided sample of rows finds start and precisions.
SAMPLE_VALUES, SAMPLE_ROWS = 1 << 17, 1500
#: Most steps in which the precisions follow the evidence, without and with a sample before.
ROUNDS, ROUNDS_AFTER_SAMPLE = 12, 1
#: Basis values kept between passes (8 bytes each); beyond, they are made again in every pass.
KEPT_VALUES = 1 << 24
#: Scores per block of one pass.
BLOCK_VALUES = 1 << 14


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
            np.concatenate([self.knots[:1], self.knots]), np.concatenate([[0.0], heights]),
            np.concatenate([self.slopes[:1], self.slopes]), np.concatenate([[0.0], bend, [0.0]]),
        )

    def __call__(self, u: Floats) -> Floats:
        """Return f(u), entry by entry."""
        origin, constant, slope, bend = self.pieces()
        index = np.searchsorted(self.knots, u, side="right")
        step = u - origin[index]
        return np.asarray(constant[index] + step * (slope[index] + step * bend[index]))


def basis(u: Floats, knots: Floats) -> Floats:
    """Return the integrated hat functions at `u`, shape (…, J): f(u) = basis(u) @ slopes."""
    out = np.zeros((*u.shape, len(knots)))
    for j, width in enumerate(np.diff(knots)):
        step = np.clip(u - knots[j], 0.0, width)
        square = step * step / (2 * width)
        out[..., j] += step - square
        out[..., j + 1] += square
    out[..., 0] += np.minimum(u - knots[0], 0.0)
    out[..., -1] += np.maximum(u - knots[-1], 0.0)
    return out


def common_slope(scores: Scores, codes: Ints, weights: Floats) -> float:
    """Return β of softmax(βu) under the weak prior around 1; 1 if the scores say nothing."""
    width, _ = _newton.spread(scores, codes)
    pull = prior_scale(scores) ** -2
    if width == 0:
        return 1.0

    def sums(beta: float) -> _newton.Sums:
        data = _newton.total_sums(_newton.nll_sums, scores, codes, weights, 0.0, beta)
        gap = beta - 1.0
        return _newton.Sums(data.loss + pull * gap * gap / 2, data.slope + pull * gap, data.curve + pull)

    return _newton.solve(sums, 1.0, 1e-3 / max(width, 1.0), 1e6)[0]


def prior_scale(scores: Scores) -> float:
    """Return the standard deviation of the prior on the mean slope."""
    return PRIOR_SCALE if scores.floor == 0 else PRIOR_SCALE_FLOOR


def place_knots(scores: Scores, weights: Floats, beta: float, n_knots: int = N_KNOTS) -> Floats:
    """Return knots in log p, evenly spaced in log-odds where 99 % of Σ w·q(1 − q) lies, q = softmax(βu)."""
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

    mass = np.cumsum(np.sum(list(map_chunks(visit, pass_blocks(scores))), axis=0))
    low, high = np.searchsorted(mass, np.array([0.005, 0.995]) * mass[-1])
    odds = np.linspace(low * CELL - REACH, (high + 1) * CELL - REACH, n_knots)
    knots = np.unique(-np.logaddexp(0.0, -odds))
    return np.asarray(knots[np.concatenate([[True], np.diff(knots) > 1e-4 * (knots[-1] - knots[0])])])


def pass_blocks(scores: Scores) -> list[slice]:
    """Row slices of about BLOCK_VALUES scores."""
    step = max(1, BLOCK_VALUES // scores.n_classes)
    return [slice(i, min(i + step, scores.n)) for i in range(0, scores.n, step)]


@dataclass
class Sums:
    """Loss, gradient and Hessian of the data in the parameters (slopes, then biases)."""

    loss: float
    gradient: Floats
    hessian: Floats


class Likelihood:
    """Negative log-likelihood of softmax(features(u)·a + b) in (a, biases), summed over rows in blocks."""

    def __init__(
        self, scores: Scores, codes: Ints, weights: Floats, features: Callable[[Floats], Floats], n_features: int,
        biases: bool = False,
    ) -> None:
        self.scores, self.codes, self.weights = scores, codes, weights
        self.features, self.n_features, self.biases = features, n_features, biases
        self.blocks = pass_blocks(scores)
        self.kept: list[Floats] | None = None
        if scores.n * scores.n_classes * n_features <= KEPT_VALUES:
            self.kept = [features(scores.block(rows)) for rows in self.blocks]

    def __call__(self, parameters: Floats) -> Sums:
        def visit(number: int) -> Sums:
            rows = self.blocks[number]
            phi = self.kept[number] if self.kept is not None else self.features(self.scores.block(rows))
            return self._block(phi, self.codes[rows], self.weights[rows], parameters)

        parts = list(map_chunks(visit, range(len(self.blocks))))
        return Sums(
            sum(part.loss for part in parts), np.sum([part.gradient for part in parts], axis=0),
            np.sum([part.hessian for part in parts], axis=0),
        )

    def _block(self, phi: Floats, codes: Ints, weights: Floats, parameters: Floats) -> Sums:
        n_slopes, rows = self.n_features, np.arange(len(phi))
        z = (phi.reshape(-1, n_slopes) @ parameters[:n_slopes]).reshape(phi.shape[:2])
        if self.biases:
            z += parameters[n_slopes:]
        z -= z.max(axis=1, keepdims=True)
        q = np.exp(z)
        mass = q.sum(axis=1)
        q /= mass[:, None]
        loss = float(weights @ (np.log(mass) - z[rows, codes]))
        mean = np.matmul(q[:, None, :], phi)[:, 0, :]  # E_q of the basis, one row each
        gradient = weights @ (mean - phi[rows, codes])
        mass_w = q * weights[:, None]
        weighted = phi * mass_w[:, :, None]
        weighted_mean = mean * weights[:, None]
        hessian = phi.reshape(-1, n_slopes).T @ weighted.reshape(-1, n_slopes) - mean.T @ weighted_mean
        if not self.biases:
            return Sums(loss, gradient, hessian)
        by_class = mass_w.sum(axis=0)
        cross = weighted.sum(axis=0).T - weighted_mean.T @ q
        lower = np.diag(by_class) - mass_w.T @ q
        return Sums(
            loss, np.concatenate([gradient, by_class - np.bincount(codes, weights, len(by_class))]),
            np.block([[hessian, cross], [cross.T, lower]]),
        )


@dataclass
class Penalty:
    """Quadratic terms λ_g/2·θᵀS_gθ, one matrix per group, and (pull·θ − goal)²/2 for the mean slope."""

    matrices: list[Floats]
    #: Rank of each matrix, and worth and centre of the Gamma prior on its λ (worth 0: none).
    ranks: list[float]
    worths: list[float]
    centres: list[float]
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
        covariance = np.linalg.pinv(hessian + self.matrix(precision), hermitian=True)
        new = precision.copy()
        for g, s in enumerate(self.matrices):
            used = max(self.ranks[g] - precision[g] * float(np.sum(covariance * s)), 1e-12)
            spent = float(parameters @ s @ parameters)
            ratio = (used + self.worths[g]) / max(spent + self.worths[g] / self.centres[g], 1e-12)
            new[g] = precision[g] * np.clip(ratio / precision[g], 1 / 30, 30.0) ** 1.5  # over-relaxed
        return np.clip(new, 1e-6, 1e6)


def newton_step(sums: Sums, penalty: Floats, push: Floats, parameters: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Return gradient and projected Newton direction; slopes at their bound that want to fall are held."""
    gradient = sums.gradient + penalty @ parameters - push
    free = ~((parameters <= least) & (gradient > 0))
    matrix = (sums.hessian + penalty)[np.ix_(free, free)]
    matrix[np.diag_indices(len(matrix))] += 1e-12 * np.trace(matrix) / max(len(matrix), 1)
    direction = np.zeros_like(parameters)
    direction[free] = -np.linalg.solve(matrix, gradient[free])
    return gradient, direction


def minimise(
    likelihood: Callable[[Floats], Sums], penalty: Penalty, start: Floats, precision: Floats, least: Floats,
    total: float, rounds: int,
) -> tuple[Floats, Floats]:
    """Minimise penalised likelihood over θ ≥ least; for at most `rounds` steps the precisions follow the evidence.

    Projected Newton with an active set and backtracking: the problem is convex for fixed precisions, and those
    are held from the moment they settle until the step promises less than TOLERANCE per unit of weight.
    """
    parameters, sums = start, likelihood(start)
    push = penalty.goal * penalty.pull
    for _ in range(100):
        matrix = penalty.matrix(precision)

        def objective(theta: Floats, at: Sums, matrix: Floats = matrix) -> float:
            return at.loss + float(theta @ matrix @ theta) / 2 - float(push @ theta)

        now = objective(parameters, sums)
        gradient, direction = newton_step(sums, matrix, push, parameters, least)
        size = 1.0
        while True:
            trial = np.maximum(parameters + size * direction, least)
            new = likelihood(trial)
            promise = float(gradient @ (trial - parameters))
            if objective(trial, new) <= now + 1e-4 * promise + 1e-13 * abs(now) or size < 1e-8:
                break
            size /= 2
        parameters, sums = trial, new
        if rounds:
            previous = precision
            precision = penalty.update(precision, parameters, sums.hessian)
            change = np.abs(np.log(precision / previous))
            rounds = rounds - 1 if change[0] > 0.05 or change[-1] > 0.2 else 0
        elif -promise <= TOLERANCE * total or size < 1e-8:
            return parameters, precision
    warnings.warn("the increasing function did not converge in 100 Newton steps.", ConvergenceWarning, stacklevel=5)
    return parameters, precision


def fit_increasing(
    scores: Scores, codes: Ints, weights: Floats, *, biases: bool = False, smoothness: float | None = None,
    bias_precision: float | None = None,
) -> tuple[Increasing, Floats, float]:
    """Fit f (and class biases, shrunk to 0) by penalised likelihood; return f, biases and the smoothness λ.

    Minimises −Σ w log softmax(f(u) + b)_y + λ/2·∫(f″/β)² + (mean slope − 1)²/2σ² over slopes ≥ LEAST_SLOPE·β, with β
    the slope of the best straight line. `smoothness` None lets the evidence choose λ and the precision of b.
    """
    n_classes, total = scores.n_classes, float(weights.sum())
    beta = common_slope(scores, codes, weights)
    knots = place_knots(scores, weights, beta)
    if len(knots) < 3:
        return Increasing(np.array([-1.0, 0.0]), np.full(2, beta)), np.zeros(n_classes), np.inf
    n_slopes, n_biases = len(knots), n_classes if biases else 0
    size = n_slopes + n_biases
    start = np.concatenate([np.full(n_slopes, beta), np.zeros(n_biases)])
    least = np.concatenate([np.full(n_slopes, LEAST_SLOPE * beta), np.full(n_biases, -np.inf)])
    features = partial(basis, knots=knots)
    stages = [Likelihood(scores, codes, weights, features, n_slopes, biases)]
    stride = scores.n // max(SAMPLE_ROWS, SAMPLE_VALUES // n_classes)
    if stride > 1:
        some = slice(None, None, stride)
        stages.insert(0, Likelihood(scores.rows(some), codes[some], weights[some], features, n_slopes, biases))
    bend = np.zeros((n_slopes - 1, size))
    bend[:, :n_slopes] = np.diff(np.eye(n_slopes), axis=0) / (beta * np.sqrt(np.diff(knots))[:, None])
    goal = 1.0 / prior_scale(scores)
    pull = goal * straight_slope(stages[0](start).hessian, n_slopes)
    penalty = Penalty([bend.T @ bend], [n_slopes - 1.0], [SMOOTHNESS_WORTH], [SMOOTHNESS_CENTRE], pull, goal)
    precision = np.array([SMOOTHNESS_CENTRE if smoothness is None else smoothness])
    if biases:
        centre = prior_precision(n_classes, total)
        penalty.matrices.append(np.diag(np.arange(size) >= n_slopes).astype(np.float64))
        penalty.ranks.append(float(n_classes))
        penalty.worths.append(0.1 * n_classes)
        penalty.centres.append(centre)
        precision = np.append(precision, centre if bias_precision is None else bias_precision)
    parameters = start
    with one_blas_thread():
        for number, stage in enumerate(stages):
            rounds = 0 if smoothness is not None else ROUNDS_AFTER_SAMPLE if number else ROUNDS
            parameters, precision = minimise(
                stage, penalty, parameters, precision, least, float(stage.weights.sum()), rounds
            )
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
    """Return the prior centre of the precision of class biases: 2K, more below 5 000 rows."""
    return 2.0 * n_classes * min(max(5000.0 / total, 1.0), 50.0)
