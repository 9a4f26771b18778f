"""Off-diagonal and intercept regularization (ODIR): the penalty and its choice by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.calibrators._multinomial import (
    GRADIENT_TOLERANCE,
    WARM_TOLERANCE,
    Affine,
    Diagonal,
    log_likelihood,
    minimize,
    one_blas_thread,
)
from calibrant.calibrators._scores import folds
from calibrant.core.parallel import map_chunks

#: λ of the published convention (sum of squares), strong to weak, and the μ the λ are compared at.
LAMBDAS = 10.0 ** np.arange(3.0, -6.1, -1.0)
FIRST_MU = 1e-2
#: Values of μ around FIRST_MU, weak and strong.
WEAKER = (1e-3, 1e-4, 1e-5)
STRONGER = (1e-1, 1.0, 1e1)
#: Classes above which cross-validation is not asked: no calibration set determines so many off-diagonal numbers.
MOST_FREE = 200
#: The λ reported for W kept diagonal.
FROZEN = 1e12
#: Gradient tolerance of the fits inside cross-validation.
ROUGH = 1e-5


def penalty_matrix(k: int, lam: float, mu: float, convention: str, ridge: float) -> Floats:
    """Return R of the penalty Σ R∘(θ − identity)² for θ = [W | b].

    "sum": λ Σ_{i≠j} W_ij² + μ Σ b_i², as the published code has it; "mean": λ and μ divided by
    K(K−1) and K, as the paper's eq. (7) writes it. `ridge` is added everywhere.
    """
    if convention == "mean":
        lam, mu = lam / (k * (k - 1)), mu / k
    penalty = np.full((k, k + 1), lam)
    penalty[np.arange(k), np.arange(k)] = 0.0
    penalty[:, k] = mu
    return penalty + ridge


def identity_start(k: int) -> Floats:
    """Return θ of the identity map."""
    return np.concatenate([np.eye(k), np.zeros((k, 1))], axis=1)


def fit_affine(
    x: Floats, codes: Ints, weights: Floats, lam: float, mu: float, convention: str, warm: Floats | None = None
) -> tuple[Floats, bool, Floats]:
    """Fit [W | b] under ODIR; returns θ, whether it converged, and the fitted probabilities.

    `warm` is a solution for nearly the same rows, from which the search starts and ends sooner.
    """
    k = x.shape[1]
    penalty = penalty_matrix(k, lam, mu, convention, float(weights.sum()) ** -2)
    problem = Affine(x, codes, weights, penalty, identity_start(k))
    with one_blas_thread():  # rows are the parallel work
        if warm is None:
            theta, _, converged = minimize(problem, fit_diagonal(x, codes, weights, ROUGH)[0])
        else:
            theta, _, converged = minimize(problem, warm, WARM_TOLERANCE)
    return theta, converged, problem.q


def fit_diagonal(
    x: Floats, codes: Ints, weights: Floats, tolerance: float = GRADIENT_TOLERANCE
) -> tuple[Floats, bool, Floats]:
    """Fit [W | b] in the limit λ → ∞: W diagonal, a start close to the full matrix; returns as `fit_affine`."""
    k = x.shape[1]
    start = np.stack([np.ones(k), np.zeros(k)])
    problem = Diagonal(x, codes, weights, np.full((2, k), float(weights.sum()) ** -2), start)
    theta, _, converged = minimize(problem, start, tolerance)
    return np.concatenate([np.diag(theta[0]), theta[1][:, None]], axis=1), converged, problem.q


@dataclass
class _Fold:
    """One split, with the last fit kept as the next start."""

    x: Floats
    codes: Ints
    weights: Floats
    held_x: Floats
    held_codes: Ints
    held_weights: Floats
    start: Any = None

    def __post_init__(self) -> None:
        k = self.x.shape[1]
        self.ridge = float(self.weights.sum()) ** -2
        self.problem = Affine(self.x, self.codes, self.weights, np.zeros((k, k + 1)), identity_start(k))

    def loss(self, lam: float, mu: float) -> float:
        if self.start is None:
            self.start = fit_diagonal(self.x, self.codes, self.weights, ROUGH)[0]
        self.problem.penalty = penalty_matrix(self.x.shape[1], lam, mu, "sum", self.ridge)
        theta, _, _ = minimize(self.problem, self.start, ROUGH)
        self.start = theta
        logits = self.held_x @ theta[:, :-1].T + theta[:, -1]
        return log_likelihood(logits, self.held_codes, self.held_weights)


def choose_penalty(
    x: Floats, codes: Ints, weights: Floats, n_folds: int, rng: Any, caller: str
) -> tuple[float, float, list[tuple[float, float, float]]]:
    """Return (λ, μ) with the least cross-validated negative log-likelihood, and every pair tried.

    λ walks from strong to weak with warm starts and stops after two steps uphill; then μ walks from
    its middle value in both directions until it gets worse. Pairs are in the "sum" convention.
    """
    splits = [
        _Fold(x[fit], codes[fit], weights[fit], x[held], codes[held], weights[held])
        for fit, held in folds(codes, n_folds, rng, caller)
        if len(fit) and len(held)
    ]
    if not splits:  # a single row says nothing about the penalty: the strongest
        return float(LAMBDAS[0]), STRONGER[-1], []
    total = float(sum(split.held_weights.sum() for split in splits))
    tried: list[tuple[float, float, float]] = []

    def score(lam: float, mu: float) -> float:
        with one_blas_thread():  # the folds are the parallel work
            value = sum(map_chunks(lambda split: split.loss(lam, mu), splits)) / total
        tried.append((lam, mu, value))
        return value

    best_lam, best_mu, best = float(LAMBDAS[0]), FIRST_MU, np.inf
    worse = 0
    for lam in LAMBDAS.tolist():
        value = score(lam, best_mu)
        if value < best:
            best, best_lam, worse = value, lam, 0
        else:
            worse += 1
            if worse == 2:
                break
    for walk in (WEAKER, STRONGER):
        for mu in walk:
            value = score(best_lam, mu)
            if value >= best:
                break
            best, best_mu = value, mu
        if best_mu != FIRST_MU:
            break
    return best_lam, best_mu, tried
