"""Gaussian-process calibration: one latent function for all classes, as smooth as the evidence wants it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np

from calibrant._typing import ArrayLike, Floats, Ints, Space
from calibrant.calibrators._base import Calibrator, Floor
from calibrant.calibrators._increasing import (
    KEPT_VALUES,
    ROUNDS,
    TOLERANCE,
    CurveSums,
    Penalty,
    common_slope,
    minimize,
    place_knots,
)
from calibrant.calibrators._multinomial import one_blas_thread
from calibrant.calibrators._newton import blocks
from calibrant.calibrators._scores import Scores, View
from calibrant.core.links import scaled_exp, softmax
from calibrant.core.options import check_count
from calibrant.core.parallel import map_chunks
from calibrant.errors import input_error

MAX_CLASSES = 100
#: Length scales tried, as fractions of the range of the inducing points.
LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)
JITTER = 1e-8
#: Draws of the latent function that predictions average over; antithetic, from a fixed seed.
N_DRAWS = 32
#: Scores per block of one pass; each has a number per inducing point.
BLOCK_VALUES = 1 << 14


class Likelihood:
    """Negative log-likelihood of softmax(features(u)·a) in a, summed over rows in blocks."""

    def __init__(
        self, scores: Scores, codes: Ints, weights: Floats, features: Callable[[Floats], Floats], n_features: int
    ) -> None:
        self.scores, self.codes, self.weights, self.features = scores, codes, weights, features
        self.blocks = blocks(scores, BLOCK_VALUES)
        self.kept: list[Floats] | None = None
        if scores.n * scores.n_classes * n_features <= KEPT_VALUES:
            self.kept = [features(scores.block(rows)) for rows in self.blocks]

    def __call__(self, parameters: Floats) -> CurveSums:
        """Return the sums at some parameters."""

        def visit(number: int) -> CurveSums:
            rows = self.blocks[number]
            phi = self.kept[number] if self.kept is not None else self.features(self.scores.block(rows))
            return self._block(phi, self.codes[rows], self.weights[rows], parameters)

        return CurveSums.sum(map_chunks(visit, range(len(self.blocks))))

    @staticmethod
    def _block(phi: Floats, codes: Ints, weights: Floats, parameters: Floats) -> CurveSums:
        rows, size = np.arange(len(phi)), phi.shape[-1]
        z = (phi.reshape(-1, size) @ parameters).reshape(phi.shape[:2])
        truth = z[rows, codes] - z.max(axis=1)
        q = scaled_exp(z)
        mass = q.sum(axis=1)
        q /= mass[:, None]
        mean = np.matmul(q[:, None, :], phi)[:, 0, :]  # E_q of the features, one row each
        weighted = phi * (q * weights[:, None])[:, :, None]
        hessian = phi.reshape(-1, size).T @ weighted.reshape(-1, size) - mean.T @ (mean * weights[:, None])
        return CurveSums(float(weights @ (np.log(mass) - truth)), weights @ (mean - phi[rows, codes]), hessian)


def kernel_features(u: Floats, points: Floats, length: float, root: Floats) -> Floats:
    """Return k(u, Z)·L⁻ᵀ, shape (…, M), for the squared-exponential kernel of variance 1."""
    distance = np.minimum(np.abs(u[..., None] - points) / length, 1e3)  # beyond, the kernel is 0
    np.square(distance, out=distance)
    distance *= -0.5
    np.exp(distance, out=distance)
    return np.asarray(distance @ root)


def whitening(points: Floats, length: float) -> Floats:
    """Return L⁻ᵀ with LLᵀ = k(Z, Z) + jitter."""
    gap = (points[:, None] - points) / length
    gram = np.exp(-0.5 * gap * gap) + JITTER * np.eye(len(points))
    return np.asarray(np.linalg.inv(np.linalg.cholesky(gram)).T)


class GaussianProcessCalibration(Calibrator):
    """Put one smooth latent function with a Gaussian-process prior on every log-probability.

    Predictions average over what the calibration rows leave open, so few rows give careful probabilities. The
    function need not increase: rankings may change. For up to 100 classes.

    Parameters
    ----------
    n_inducing : int, default 12
        Points that carry the function.
    floor : "fit", float or None, default "fit"
        Uniform weight mixed in before the logarithm when the calibration probabilities hold exact zeros.
    space : {"proba", "logit"}, default "proba"
        What X holds; logits are turned into log-probabilities.

    Attributes
    ----------
    slope_ : float
        Slope of the prior mean (1/T).
    length_, variance_ : float
        Length scale and variance of the kernel.
    evidence_ : float
        Lower bound on the log marginal likelihood.

    Notes
    -----
    f ~ GP(βu, s²·exp(−(u − u′)²/2ℓ²)) on u = log p is shared by the classes, y ~ softmax(f(u_1), …, f(u_K))
    [1, Sec. 3]; the prior mean is the best temperature instead of the identity. Sparse variational inference with
    inducing points evenly spaced in log-odds: the expected log-likelihood is taken to second order as in [1], for
    which the optimal covariance given the mean is (Hessian + prior precision)⁻¹; the mean is found by Newton, leaving
    out the (third-order) gradient of the trace term. s² follows the bound by fixed-point steps, ℓ is the
    best of five. Everything is deterministic: predictions average softmax over 32 antithetic draws from a fixed seed.
    Cost O(n·K·M²) per Newton step.

    References
    ----------
    [1] Wenger, Kjellström and Triebel (2020), "Non-Parametric Calibration for Classification", AISTATS.

    Examples
    --------
    >>> p = [[0.9, 0.1]] * 10 + [[0.6, 0.4]] * 10
    >>> y = [0] * 8 + [1] * 2 + [0] * 6 + [1] * 4
    >>> q = GaussianProcessCalibration().fit(p, y).predict_proba([[0.9, 0.1]])
    >>> bool(0.6 < q[0, 0] < 0.9)
    True
    """

    short_name = "gaussian-process"
    title = "Gaussian process"
    paper = "Wenger, Kjellström and Triebel (2020), Non-Parametric Calibration for Classification, AISTATS"
    when = (
        "Few calibration rows and probabilities that should admit it, up to 100 classes. Not when rankings must stay "
        "or the map must leave Python; order-preserving calibration is faster and as good with many rows."
    )
    exports: ClassVar[tuple[str, ...]] = ()
    view: ClassVar[View] = "log"
    free_parameters: ClassVar[float] = 15  # inducing values and hyperparameters
    state: ClassVar[tuple[str, ...]] = (
        "slope_",
        "points_",
        "length_",
        "variance_",
        "mean_",
        "covariance_",
        "evidence_",
    )

    def __init__(
        self, *, n_inducing: int = 12, floor: Floor = "fit", space: Space = "proba", classes: ArrayLike | None = None
    ) -> None:
        self.n_inducing = n_inducing
        self.floor = floor
        self.space = space
        self.classes = classes

    def _check_options(self, caller: str) -> None:
        super()._check_options(caller)
        check_count(self.n_inducing, "n_inducing", caller, 3, "12", 10_000)

    def _fit(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        if scores.n_classes > MAX_CLASSES:
            raise input_error(
                "X",
                "GaussianProcessCalibration.fit",
                f"have at most {MAX_CLASSES} classes",
                f"{scores.n_classes}",
                "use OrderPreserving, which has the same form",
            )
        self._fit_at_floor(scores, codes, weights)
        points = place_knots(scores, weights, self.slope_, self.n_inducing)
        if len(points) < 3 or not points[-1] > points[0]:
            return
        self.points_ = points
        with one_blas_thread():
            for share in LENGTHS:
                self._try_length(share * float(points[-1] - points[0]), scores, codes, weights)

    def _fit_at_floor(self, scores: Scores, codes: Ints, weights: Floats) -> None:
        """Fit the prior mean alone; a flat latent function is what remains when the scores hardly differ."""
        self.slope_ = common_slope(scores, codes, weights)
        self.points_, self.mean_, self.covariance_ = np.zeros(1), np.zeros(1), np.zeros((1, 1))
        self.length_, self.variance_, self.evidence_ = 1.0, 0.0, -np.inf

    def _try_length(self, length: float, scores: Scores, codes: Ints, weights: Floats) -> None:
        """Fit with one length scale and keep it if its evidence is the best so far."""
        size = len(self.points_)
        root = whitening(self.points_, length)
        features = partial(self._features, length=length, root=root)
        whole = Likelihood(scores, codes, weights, features, size + 1)

        def likelihood(values: Floats) -> CurveSums:
            sums = whole(np.append(values, self.slope_))  # the last feature is u itself: the prior mean
            return CurveSums(sums.loss, sums.gradient[:size], sums.hessian[:size, :size])

        total = float(weights.sum())
        penalty = Penalty([np.eye(size)], [float(size)], [0.0], [1.0], np.zeros(size), 0.0)
        mean, precision = minimize(
            likelihood, penalty, np.zeros(size), np.ones(1), np.full(size, -np.inf), TOLERANCE * total, ROUNDS
        )
        sums = likelihood(mean)
        posterior = sums.hessian + precision[0] * np.eye(size)
        # [1] Sec. 3: expected log-likelihood − KL; with the optimal covariance the traces sum to M
        bound = -sums.loss - float(precision[0] * (mean @ mean)) / 2
        bound += (size * np.log(precision[0]) - np.linalg.slogdet(posterior)[1]) / 2
        bound -= self._left_out(features, mean, scores, weights) / (2 * precision[0])
        if bound > self.evidence_:
            self.evidence_, self.length_, self.variance_ = float(bound), length, 1.0 / float(precision[0])
            self.mean_, self.covariance_ = mean, np.linalg.inv(posterior)

    def _features(self, u: Floats, length: float, root: Floats) -> Floats:
        return np.concatenate([kernel_features(u, self.points_, length, root), u[..., None]], axis=-1)

    def _left_out(self, features: partial[Floats], mean: Floats, scores: Scores, weights: Floats) -> float:
        """Σ w·q(1 − q)·(fraction of the prior variance that the inducing points do not carry)."""

        def visit(rows: slice) -> float:
            phi = features(scores.block(rows))
            q = softmax(phi @ np.append(mean, self.slope_))
            carried = np.einsum("nkm,nkm->nk", phi[..., :-1], phi[..., :-1])
            return float((weights[rows] @ (q * (1 - q) * np.maximum(1 - carried, 0.0))).sum())

        return sum(map_chunks(visit, blocks(scores, BLOCK_VALUES)))

    def _predict(self, x: Floats) -> Floats:
        if self.variance_ == 0:
            return softmax(self.slope_ * x)
        root = whitening(self.points_, self.length_)
        half = np.random.default_rng(0).standard_normal((N_DRAWS // 2, len(self.mean_)))
        noise = np.concatenate([half, -half]) @ _root(self.covariance_).T
        out = np.zeros_like(x)
        step = max(1, (1 << 17) // (x.shape[1] * N_DRAWS))
        for start in range(0, len(x), step):
            u = x[start : start + step]
            latent = kernel_features(u, self.points_, self.length_, root) @ (self.mean_ + noise).T
            latent += (self.slope_ * u)[..., None]
            latent -= latent.max(axis=1, keepdims=True)
            np.exp(latent, out=latent)
            latent /= latent.sum(axis=1, keepdims=True)
            out[start : start + step] = latent.mean(axis=2)
        return out


def _root(covariance: Floats) -> Floats:
    """Return R with RRᵀ = covariance: Cholesky, or by eigenvalues where rounding cost definiteness."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        size, basis = np.linalg.eigh((covariance + covariance.T) / 2)
        return np.asarray(basis * np.sqrt(np.maximum(size, 0.0)))
