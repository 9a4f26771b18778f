"""One-versus-rest logistic maps: K small independent problems solved side by side by Newton."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.calibrators._program import Graph, Node
from calibrant.core.links import log_sum_exp, sigmoid

GRADIENT_TOLERANCE = 1e-9
MAX_STEPS = 100
#: Classes solved together: their features stay within a few megabytes.
BLOCK_VALUES = 1 << 18


def log_complement(log_p: Floats) -> Floats:
    """Return log(1 − p) entry by entry; for the top class as the log-sum of the others, so 1 − p never cancels."""
    top = log_p.argmax(axis=1)[:, None]
    others = log_p.copy()
    np.put_along_axis(others, top, -np.inf, axis=1)
    with np.errstate(divide="ignore"):
        small = np.log1p(-np.minimum(np.exp(log_p), 0.75))
    rest = log_sum_exp(others)[:, None]
    return np.where(log_p > np.log(0.5), rest, small)


def log_complement_node(graph: Graph, log_p: Node, n_classes: int) -> Node:
    """`log_complement` as graph steps."""
    ordered = graph.take(log_p, graph.order(log_p))
    others = graph.columns(ordered, 1, n_classes)
    peak = graph.columns(ordered, 1, 2)
    rest = graph.log(graph.sum(graph.exp(others - peak))) + peak
    small = graph.log(1.0 - graph.minimum(graph.exp(log_p), 0.75))
    return graph.where(log_p > float(np.log(0.5)), rest, small)


def normalised_sigmoids(scores: Floats) -> Floats:
    """Return σ(s_k)/Σ_j σ(s_j) without underflow of a whole row (rows are divided by their sum by the caller)."""
    log_sigmoid = np.minimum(scores, 0.0) - np.log1p(np.exp(-np.abs(scores)))
    log_sigmoid -= log_sigmoid.max(axis=1, keepdims=True)
    return np.asarray(np.exp(log_sigmoid, out=log_sigmoid))


def normalised_sigmoids_node(graph: Graph, scores: Node) -> Node:
    """`normalised_sigmoids` as graph steps."""
    size = graph.maximum(scores, -scores)
    return graph.softmax(graph.minimum(scores, 0.0) - graph.log(1.0 + graph.exp(-size)))


def class_blocks(n: int, n_classes: int) -> list[slice]:
    """Slices of classes to solve together."""
    step = max(1, BLOCK_VALUES // n)
    return [slice(i, min(i + step, n_classes)) for i in range(0, n_classes, step)]


def fit_logistic(
    features: Sequence[Floats], targets: Floats, weights: Floats, start: Floats, free: Array
) -> tuple[Floats, Floats, bool]:
    """Fit σ(Σ_d θ_d f_d) to targets in [0, 1], one problem per column.

    Parameters
    ----------
    features : D arrays of shape (n, K)
    targets : (n, K)
    weights : (n,)
    start : (D, K)
        Where the search starts and what the ridge 1/n² pulls towards.
    free : bool (D, K)
        Which parameters move; the others stay at `start`.

    Returns
    -------
    Parameters (D, K), objective (K,) and whether every gradient ended below 1e-9.
    """
    d, k = start.shape
    share = (weights / weights.sum())[:, None]
    ridge = float(weights.sum()) ** -2
    theta = start.copy()

    def objective(at: Floats) -> tuple[Floats, Floats]:
        s = sum(t * f for t, f in zip(at, features, strict=True))
        loss = np.maximum(s, 0.0) - targets * s + np.log1p(np.exp(-np.abs(s)))
        return np.asarray(s), (share * loss).sum(axis=0) + ridge * ((at - start) ** 2).sum(axis=0)

    s, value = objective(theta)
    converged = False
    for _ in range(MAX_STEPS):
        q = sigmoid(s)
        gap = share * (q - targets)
        gradient = np.stack([(gap * f).sum(axis=0) for f in features]) + 2 * ridge * (theta - start)
        gradient *= free
        if np.abs(gradient).max() <= GRADIENT_TOLERANCE:
            converged = True
            break
        bend = share * q * (1 - q)
        hessian = np.zeros((k, d, d))
        for i in range(d):
            weighted = bend * features[i]
            for j in range(i, d):
                hessian[:, i, j] = hessian[:, j, i] = np.einsum("ij,ij->j", weighted, features[j]) * free[i] * free[j]
        index = np.arange(d)
        hessian[:, index, index] += 2 * ridge + 1e-13 * hessian[:, index, index] + ~free.T * 1.0
        direction = -np.linalg.solve(hessian, gradient.T[:, :, None])[:, :, 0].T
        slope = (gradient * direction).sum(axis=0)
        step = np.ones(k)
        for _ in range(50):
            trial, new = objective(theta + step * direction)
            poor = ~(new <= value + 1e-4 * step * slope + 1e-15 * np.abs(value))
            if not poor.any():
                break
            step[poor] *= 0.5
        else:
            step[poor] = 0.0
            trial, new = objective(theta + step * direction)
            if not step.any():
                converged = float(np.abs(gradient).max()) <= 1e3 * GRADIENT_TOLERANCE
                break
        theta = theta + step * direction
        s, value = trial, new
    return theta, value, converged
