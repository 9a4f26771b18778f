"""Weights on the simplex: an exact quadratic program, and Newton steps built from it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from calibrant._typing import Floats

#: Up to this many weights every support is tried, which is exact; beyond, an active-set walk is used.
ENUMERATED = 8


def quadratic(gram: Floats, linear: Floats) -> Floats:
    """Minimize ½ w'Gw − c'w over w ≥ 0, Σw = 1, exactly (G positive semi-definite)."""
    m = len(linear)
    size = max(float(np.abs(gram).max()), 1e-300)
    gram, linear = gram / size, linear / size  # a system of ones and huge numbers would lose rank
    if m <= ENUMERATED:
        supports = [list(s) for size in range(1, m + 1) for s in combinations(range(m), size)]
        found = [w for w in (_on_support(gram, linear, s) for s in supports) if w is not None]
        return min(found, key=lambda w: 0.5 * w @ gram @ w - linear @ w)
    return _active_set(gram, linear)


def _on_support(gram: Floats, linear: Floats, support: list[int]) -> Floats | None:
    """Stationary point with only these weights free, or None if one of them is negative."""
    m, size = len(linear), len(support)
    if size == 1:
        return np.eye(m)[support[0]]
    system = np.zeros((size + 1, size + 1))
    system[:size, :size] = gram[np.ix_(support, support)]
    system[size, :size] = system[:size, size] = 1.0
    solution = np.linalg.lstsq(system, np.append(linear[support], 1.0), rcond=1e-13)[0][:size]
    if (solution < -1e-12).any() or abs(solution.sum() - 1) > 1e-9:
        return None
    w = np.zeros(m)
    w[support] = np.maximum(solution, 0.0)
    return np.asarray(w / w.sum())


def _active_set(gram: Floats, linear: Floats) -> Floats:
    """Add the weight with the steepest descent, drop those that turn negative, until none descends."""
    m = len(linear)
    start = int(np.argmin(0.5 * np.diag(gram) - linear))
    w = np.zeros(m)
    w[start] = 1.0
    support = [start]
    for _ in range(20 * m):
        gradient = gram @ w - linear
        gain = gradient - gradient[support].max()
        best = int(np.argmin(gain))
        if gain[best] > -1e-12 * (1 + np.abs(gradient).max()):
            break
        support = sorted({*support, best})
        while True:
            size = len(support)
            system = np.ones((size + 1, size + 1))
            system[:size, :size], system[size, size] = gram[np.ix_(support, support)], 0.0
            goal = np.linalg.lstsq(system, np.append(linear[support], 1.0), rcond=1e-13)[0][:size]
            if (goal > 0).all():
                w = np.zeros(m)
                w[support] = goal
                break
            old = w[support]
            falling = goal <= 0
            share = np.min(old[falling] / np.maximum(old[falling] - goal[falling], 1e-300))
            w[support] = np.maximum(old + share * (goal - old), 0.0)
            kept = [i for i, x in zip(support, w[support], strict=True) if x > 1e-15]
            if kept == support or not kept:
                return np.asarray(w / w.sum())
            support = kept
    return np.asarray(w / w.sum())


def minimize(loss: Callable[[Floats], tuple[float, Floats, Floats]], start: Floats) -> Floats:
    """Minimize a convex smooth loss (value, gradient, Hessian) over the simplex by Newton with exact sub-problems."""
    w = start
    value, gradient, hessian = loss(w)
    for _ in range(100):
        ridge = hessian + 1e-12 * (1 + np.trace(hessian)) * np.eye(len(w))
        direction = quadratic(ridge, ridge @ w - gradient) - w
        slope = float(gradient @ direction)
        if slope > -1e-13 * (1 + abs(value)):
            break
        step = 1.0
        while step > 1e-10:
            trial = loss(w + step * direction)
            if np.isfinite(trial[0]) and trial[0] <= value + 1e-4 * step * slope:
                break
            step /= 2
        else:
            break
        w = w + step * direction
        value, gradient, hessian = trial
    return np.asarray(w / w.sum())


def mixture_weights(truth: Floats, gram: Floats, weights: Floats, loss: str) -> Floats:
    """Return the weights of a mixture of M forecasts with the least proper score.

    Parameters
    ----------
    truth : (n, M)
        Probability each forecast gave to the truth.
    gram : (M, M)
        Weighted sum over rows and classes of products of forecasts (used by the squared error).
    weights : (n,)
        Row weights.
    loss : "brier" (a convex quadratic, solved exactly) or "nll" (convex, Newton).
    """
    m = truth.shape[1]
    if loss == "brier":
        return quadratic(2 * gram, 2 * (weights @ truth))  # Σ‖Pw − e_y‖² = w'Gw − 2w'Σp_y + n
    scale = weights.sum()

    def nll(w: Floats) -> tuple[float, Floats, Floats]:
        mixed = truth @ w
        if not mixed.min() > 1e-100:  # ratios are squared below
            return np.inf, np.zeros(m), np.eye(m)
        ratio = truth / mixed[:, None]
        return (
            float(-(weights @ np.log(mixed)) / scale),
            -(weights @ ratio) / scale,
            (ratio * weights[:, None]).T @ ratio / scale,
        )

    # start inside: every row must have a positive mixture, which the uniform weights give if any weights do
    return minimize(nll, np.full(m, 1.0 / m))
