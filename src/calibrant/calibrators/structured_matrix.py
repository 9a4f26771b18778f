"""Structured matrix scaling: matrix and biases that leave the order-preserving map only where the rows ask for it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import ClassVar

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator, Floor
from calibrant.calibrators._increasing import Increasing, common_slope, fit_increasing, prior_precision
from calibrant.calibrators._multinomial import Affine, Diagonal, minimize, one_blas_thread
from calibrant.calibrators._scores import Scores, View
from calibrant.calibrators.order_preserving import describe_increasing, near_fit
from calibrant.core.links import log_softmax, scaled_exp
from calibrant.core.parallel import map_chunks
from calibrant.core.programs import Graph, Node
from calibrant.errors import ConvergenceWarning, input_error

#: Most classes for which entries off the diagonal are fitted.
FULL_CLASSES = 200
#: Most free numbers for which the evidence uses the exact Hessian.
EXACT = 300
#: Weight of the prior on each precision, as a fraction of the numbers it governs.
PRIOR_SHARE = 0.1
MAX_ROUNDS = 12
#: The same from a fit to nearly the same rows.
NEAR_ROUNDS = 2
#: Order of the three groups of numbers.
BIAS, DIAGONAL, OFF_DIAGONAL = 0, 1, 2


class StructuredMatrixScaling(Calibrator):
    """Apply softmax(W f(log p) + b), with f increasing and W, b shrunk towards the identity and 0.

    The map starts as temperature scaling and gains, as far as the calibration rows bear it, a bend (f), class
    biases, class scales and finally exchange between classes. The best single method from about a thousand rows on.

    Parameters
    ----------
    smoothness : float, optional
        Stiffness of f, see `OrderPreserving`; very large gives temperature scaling. None: chosen by the evidence.
    penalty : (float, float, float), optional
        Ridge precisions of biases, diagonal and off-diagonal entries (per sum of squares, against the summed
        negative log-likelihood). None: chosen by the evidence. A fitted ``precisions_`` can be passed on.
    floor : "fit", float or None, default "fit"
        Uniform weight mixed in before the logarithm when the calibration probabilities hold exact zeros.
    space : {"proba", "logit"}, default "proba"
        What X holds; logits are turned into log-probabilities.

    Attributes
    ----------
    knots_, slopes_ : arrays, shape (J,)
        The increasing function f.
    weight_, bias_ : arrays, shapes (K, K) and (K,)
        W and b.
    precisions_ : array, shape (3,)
        Ridge precisions of biases, diagonal and off-diagonal entries.

    Notes
    -----
    Two convex fits. First f together with class biases (see `OrderPreserving` for the spline), then, on
    x = log softmax f(log p), W = I + D and b by minimizing −Σ w log softmax(x + D(x − x̄) + b)_y +
    (λ_b‖b‖² + λ_d‖diag D‖² + λ_o‖off D‖²)/2 with Newton (conjugate gradients above 1000 numbers) to a gradient of 1e-6
    per row. The structure of the penalty follows [1]; there the precisions are fixed at 2K, 2K, 2K(K − 1) and the
    start is temperature scaling with a uniform weight. Here they follow the evidence (MacKay's steps [2]: effective
    numbers over sum of squares, from the Hessian up to 300 numbers and a Kronecker factorization beyond), with a
    prior worth a tenth of the numbers centered at the rule of [1], times 5000/n below 5,000 rows. Above 200 classes
    W is diagonal. Sample weights count as repeated rows. Cost O(n·K²) per product with the Hessian.

    References
    ----------
    [1] Berta, Holzmüller, Jordan and Bach (2026), "Structured Matrix Scaling for Multi-Class Calibration", AISTATS.

    [2] MacKay (1992), "Bayesian Interpolation", Neural Computation 4.

    Examples
    --------
    >>> p = [[0.7, 0.3]] * 40 + [[0.3, 0.7]] * 40
    >>> y = [0] * 36 + [1] * 4 + [0] * 20 + [1] * 20  # class 0 comes more often than predicted
    >>> q = StructuredMatrixScaling().fit(p, y).predict_proba([[0.7, 0.3], [0.3, 0.7]])
    >>> bool(q[0, 0] > 0.7), bool(q[1, 1] < 0.7)
    (True, True)
    """

    short_name = "structured-matrix"
    title = "Structured matrix scaling"
    paper = "Berta et al. (2026), Structured Matrix Scaling for Multi-Class Calibration, AISTATS"
    when = (
        "First choice for accuracy of the probabilities from about a thousand rows on; safe below, because it falls "
        "back to the order-preserving map. May change the predicted class."
    )
    view: ClassVar[View] = "log"
    state: ClassVar[tuple[str, ...]] = ("knots_", "slopes_", "weight_", "bias_", "smoothness_", "precisions_")

    def __init__(
        self,
        *,
        smoothness: float | None = None,
        penalty: tuple[float, float, float] | None = None,
        floor: Floor = "fit",
        space: Space = "proba",
        classes: ArrayLike | None = None,
    ) -> None:
        self.smoothness = smoothness
        self.penalty = penalty
        self.floor = floor
        self.space = space
        self.classes = classes

    @classmethod
    def n_parameters(cls, n_classes: int) -> float:
        """Return the entries of W and b, before shrinkage."""
        return n_classes * (n_classes + 1) if n_classes <= FULL_CLASSES else 2 * n_classes

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        if self.penalty is not None and not (np.shape(self.penalty) == (3,) and np.min(self.penalty) > 0):
            rule, caller = "be three positive numbers or None", "StructuredMatrixScaling.fit"
            raise input_error("penalty", caller, rule, repr(self.penalty), "leave it at None")
        x = scores.values()  # an array of its own, as these are logarithms: the base takes their place below
        curve, _, self.smoothness_ = fit_increasing(
            replace(scores, matrix=x, space="logit", view="raw"),
            codes,
            weights,
            biases=True,
            smoothness=self.smoothness,
            bias_precision=None if self.penalty is None else float(self.penalty[BIAS]),
            **({} if self._warm is None else near_fit(self._warm)),
        )
        self.knots_, self.slopes_ = curve.knots, curve.slopes
        with one_blas_thread():

            def visit(rows: slice) -> None:
                x[rows] = log_softmax(curve(x[rows]))

            list(map_chunks(visit, scores.chunks()))
            self.weight_, self.bias_, self.precisions_ = fit_structured(x, codes, weights, self.penalty, self._warm)

    def _fit_at_floor(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        """Compare floors by temperature scaling: the rest is for what a floor cannot fix."""
        self.knots_ = np.array([-1.0, 0.0])
        self.slopes_ = np.full(2, common_slope(scores, codes, weights))
        self.weight_, self.bias_ = np.eye(scores.n_classes), np.zeros(scores.n_classes)

    def _predict(self, x: Floats) -> Floats:
        return scaled_exp(log_softmax(Increasing(self.knots_, self.slopes_)(x)) @ self.weight_.T + self.bias_)

    def _map(self, graph: Graph, x: Node) -> Node:
        base = graph.log_softmax(describe_increasing(graph, x, self.knots_, self.slopes_))
        return graph.softmax(graph.matmul(base, self.weight_.T) + self.bias_)


def fit_structured(
    x: Floats,
    codes: Ints,
    weights: Floats,
    penalty: tuple[float, float, float] | None,
    warm: StructuredMatrixScaling | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return W, b and the three precisions for base log-probabilities `x`; `warm` is a fit to similar rows."""
    k, total = x.shape[1], float(weights.sum())
    full = k <= FULL_CLASSES
    mean = weights @ x / total
    x -= mean
    rule = prior_precision(k, total) * np.array([1.0, 1.0, max(k - 1.0, 1.0)])  # [1]: 2K, 2K, 2K(K − 1) on the sum
    precisions = rule if penalty is None else np.asarray(penalty, dtype=np.float64)
    if warm is not None and penalty is None:
        precisions = warm.precisions_
    center = theta = np.concatenate([np.eye(k), mean[:, None]], axis=1) if full else np.stack([np.ones(k), mean])
    given = x, codes, weights, _spread(precisions, k, full) / (2 * total), center
    problem: Affine | Diagonal = Affine(*given) if full else Diagonal(*given)
    if warm is not None:
        bias = warm.bias_ + warm.weight_ @ mean
        theta = (
            np.concatenate([warm.weight_, bias[:, None]], axis=1) if full else np.stack([np.diag(warm.weight_), bias])
        )
    if penalty is None:
        for _ in range(MAX_ROUNDS if warm is None else NEAR_ROUNDS):
            theta = minimize(problem, theta, tolerance=0.0, steps=1)[0]  # enough for the next precisions
            new = _evidence_step(problem, theta - center, precisions, rule, total)
            change = float(np.abs(np.log(new / precisions)).max())
            precisions = new
            problem.penalty = _spread(precisions, k, full) / (2 * total)
            if change < 0.05:
                break
    theta, _, converged = minimize(problem, theta, tolerance=1e-6 if warm is None else 1e-5)
    if not converged:
        warnings.warn(
            "structured matrix: the gradient did not fall below 1e-6 per row.", ConvergenceWarning, stacklevel=5
        )
    if full:
        weight, shift = theta[:, :k], theta[:, k]
    else:
        weight, shift = np.diag(theta[0]), theta[1]
    return weight, shift - weight @ mean, precisions


def _spread(precisions: Floats, k: int, full: bool) -> Floats:
    """Give each number the precision of its group."""
    if not full:
        return np.repeat(precisions[[DIAGONAL, BIAS], None], k, axis=1)
    out = np.full((k, k + 1), precisions[OFF_DIAGONAL])
    out[np.arange(k), np.arange(k)] = precisions[DIAGONAL]
    out[:, k] = precisions[BIAS]
    return out


def _evidence_step(problem: Affine | Diagonal, off: Floats, precisions: Floats, rule: Floats, total: float) -> Floats:
    """Return new precisions: (effective numbers + prior) / (sum of squares + prior)."""
    k = problem.k
    if isinstance(problem, Affine):
        diagonal = np.diag(off[:, :k])
        squares = np.array([off[:, k] @ off[:, k], diagonal @ diagonal, 0.0])
        squares[OFF_DIAGONAL] = float((off * off).sum()) - squares.sum()
        count = np.array([k, k, k * (k - 1.0)])
        used = (
            _exact_freedom(problem, precisions, total)
            if off.size <= EXACT
            else _factored_freedom(problem, precisions, total)
        )
    else:
        squares = np.array([off[1] @ off[1], off[0] @ off[0], 0.0])
        count = np.array([k, k, 0.0])
        curve = problem.q * (1 - problem.q) * problem.weights[:, None]
        bend = np.stack([curve.sum(axis=0), np.einsum("ij,ij,ij->j", curve, problem.x, problem.x)])
        used = np.append((bend / (bend + precisions[:2, None])).sum(axis=1), 0.0)
    prior = PRIOR_SHARE * np.maximum(count, 1.0)
    new = (used + prior) / (squares + prior / rule)  # [2] with a Gamma prior on each precision
    return np.asarray(np.clip(new, precisions / 10, precisions * 10))


def _exact_freedom(problem: Affine, precisions: Floats, total: float) -> Floats:
    """Effective numbers of each group: count − λ·tr of the posterior covariance."""
    k = problem.k
    covariance = np.linalg.inv(problem._hessian() * total)
    spread = _spread(precisions, k, full=True)
    share = 1 - spread * np.diag(covariance).reshape(spread.shape)
    inner = float(np.trace(share[:, :k]))
    return np.array([share[:, k].sum(), inner, share[:, :k].sum() - inner])


def _factored_freedom(problem: Affine, precisions: Floats, total: float) -> Floats:
    """The same with the Hessian of W taken as Σ(diag q − qqᵀ) ⊗ weighted second moments of x."""
    chances = problem.single()

    def visit(rows: slice) -> Floats:
        q, x = chances[rows], problem.narrow[rows, :-1]
        root = np.sqrt(problem.share[rows]).astype(np.float32)
        doubt = np.maximum(1 - np.einsum("ij,ij->i", q, q), 0.0)
        weighted = q * root[:, None]
        bend = [m.T @ m for m in (weighted, weighted * x, x * (root * np.sqrt(doubt))[:, None])]  # half the work
        bend[0] = np.diag(problem.share[rows] @ problem.q[rows]) - bend[0]
        bend[1] = np.diag(np.einsum("ij,ij->j", q, problem.squares[rows, :-1])) - bend[1]
        return np.stack([*bend, np.full_like(bend[0], problem.share[rows] @ doubt)])

    bias, scales, moments, doubt = np.asarray(list(map_chunks(visit, problem.chunks)), np.float64).sum(axis=0)
    moments /= max(float(doubt[0, 0]), 1e-300)
    eigen = [np.maximum(m, 0.0) for m in map_chunks(np.linalg.eigvalsh, (bias * total, scales * total, moments))]
    product = np.outer(eigen[0], eigen[2])
    return np.array(
        [
            (eigen[0] / (eigen[0] + precisions[BIAS])).sum(),
            (eigen[1] / (eigen[1] + precisions[DIAGONAL])).sum(),
            (product / (product + precisions[OFF_DIAGONAL])).sum() * (problem.k - 1) / problem.k,
        ]
    )
