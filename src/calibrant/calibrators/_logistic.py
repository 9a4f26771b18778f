"""One-versus-rest logistic maps: K small independent problems solved side by side by Newton."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.links import log_sum_exp, scaled_exp
from calibrant.core.parallel import map_chunks
from calibrant.core.programs import Graph, Node
from calibrant.errors import ConvergenceWarning

GRADIENT_TOLERANCE, WARM_TOLERANCE = 1e-9, 1e-6
MAX_STEPS = 100
#: A step in features of size 1; more only overflows.
LONGEST_STEP = 1e10
#: Newton steps shorten towards a finite optimum; where rows are separable each is as long as the one before.
LAST_STEP = 1e-2
#: Largest log-odds at which a search starts.
MODEST = 30.0
#: Size of features below which they count as 0: squares of smaller ones have no inverse.
TINY = 1e-100
#: Classes solved together: their features stay within a few megabytes.
BLOCK_VALUES = 1 << 16
#: A logarithm whose exponential is 0.
OUT = -1e300


def log_complement(log_p: Floats) -> Floats:
    """Return log(1 − p) entry by entry; for the top class as the log-sum of the others, so 1 − p never cancels."""
    top = log_p.argmax(axis=1)[:, None]
    others = log_p.copy()
    np.put_along_axis(others, top, -np.inf, axis=1)
    with np.errstate(divide="ignore"):
        small = np.log1p(-np.minimum(np.exp(log_p), 0.75))
    rest = log_sum_exp(others)[:, None]
    return np.where(log_p > np.log(0.75), rest, small)


def log_complement_node(graph: Graph, log_p: Node) -> Node:
    """`log_complement` as graph steps, without sorting: then every engine and SQL can take them."""
    most = float(np.log(0.75))
    others = graph.where(log_p > most, OUT, log_p)  # at most one class has more, however a row is rounded
    peak = graph.max(others)
    rest = graph.log(graph.sum(graph.exp(others - peak))) + peak
    small = graph.log(1.0 - graph.minimum(graph.exp(log_p), 0.75))
    return graph.where(log_p > most, rest, small)


def log_odds_node(graph: Graph, logits: Node, n_classes: int) -> Node:
    """`calibrant.core.links.log_odds` as graph steps."""
    if n_classes == 2:
        gap = graph.columns(logits, 1, 2) - graph.columns(logits, 0, 1)
        return graph.concat([-gap, gap])
    log_p = graph.log_softmax(logits)
    return log_p - log_complement_node(graph, log_p)


def normalized_sigmoids(scores: Floats) -> Floats:
    """Return σ(s_k)/Σ_j σ(s_j) without underflow of a whole row (rows are divided by their sum by the caller)."""
    return scaled_exp(np.minimum(scores, 0.0) - np.log1p(np.exp(-np.abs(scores))))


def normalized_sigmoids_node(graph: Graph, scores: Node) -> Node:
    """`normalized_sigmoids` as graph steps."""
    size = graph.maximum(scores, -scores)
    return graph.softmax(graph.minimum(scores, 0.0) - graph.log(1.0 + graph.exp(-size)))


def solve_classes(solve: Callable[[slice], tuple[Floats, bool]], n: int, n_classes: int, title: str) -> Floats:
    """Return the parameters of all classes, shape (D, K), solved in blocks side by side; warn where a search stopped.

    `solve` takes a slice of classes and returns their parameters and whether the search converged.
    """
    step = max(1, BLOCK_VALUES // n)
    blocks = [slice(i, min(i + step, n_classes)) for i in range(0, n_classes, step)]
    parts = list(map_chunks(solve, blocks))
    if not all(good for _, good in parts):
        message = f"{title}: the solver stopped before its gradient tolerance."
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return np.concatenate([theta for theta, _ in parts], axis=1)


def fit_logistic(
    features: Sequence[Floats],
    targets: Floats,
    weights: Floats,
    start: Floats,
    free: Array,
    *,
    finite: bool = False,
    warm: Floats | None = None,
) -> tuple[Floats, Floats, bool]:
    """Fit σ(Σ_d θ_d f_d) to targets in [0, 1], one problem per column.

    Parameters
    ----------
    features : D arrays of shape (n, K)
    targets : (n, K)
    weights : (n,)
    start : (D, K)
        Where the search starts and what the ridge pulls towards.
    free : bool (D, K)
        Which parameters move; the others stay at `start`.
    finite : bool
        Whether the optimum is known to be finite (smoothed targets). Otherwise columns in which the rows are separable,
        so that parameters would run away, are solved again with a ridge ‖θ − start‖²/n².

    warm : (D, K), optional
        A solution for nearly the same rows: the search starts there and ends at 1e-6.

    Returns
    -------
    Parameters (D, K), objective (K,) and whether every gradient ended below 1e-9.

    Notes
    -----
    Features are divided by their largest size, so scores of any size above 1e-100 are the same problem.
    """
    scale = np.stack([np.abs(f).max(axis=0) for f in features])
    scale = np.where(scale > TINY, scale, 1.0)
    small = [f / s for f, s in zip(features, scale, strict=True)]
    share = (weights / weights.sum())[:, None]
    center = start * scale
    begin = center / np.maximum(scale.max(axis=0) / MODEST, 1.0)  # saturated curves have no slope to follow
    tolerance = GRADIENT_TOLERANCE if warm is None else WARM_TOLERANCE
    if warm is not None:
        begin = np.where(free, warm * scale, begin)
    theta, value, good = _solve_logistic(small, targets, share, begin, free, np.zeros_like(scale), center, tolerance)
    broken = np.zeros(len(good), dtype=bool) if finite else ~good
    if broken.any():
        ridge = (float(weights.sum()) * scale[:, broken]) ** -2.0
        theta[:, broken], value[broken], good[broken] = _solve_logistic(
            [f[:, broken] for f in small],
            targets[:, broken],
            share,
            begin[:, broken],
            free[:, broken],
            ridge,
            center[:, broken],
            tolerance,
        )
    return theta / scale, value, bool(good.all())


def _solve_logistic(
    features: Sequence[Floats],
    targets: Floats,
    share: Floats,
    start: Floats,
    free: Array,
    ridge: Floats,
    center: Floats,
    tolerance: float,
) -> tuple[Floats, Floats, Array]:
    """Newton on features of size 1; a column is good when its gradient is small and its next step is, too."""
    d, k = start.shape
    theta = start.copy()

    good, value = np.zeros(k, dtype=bool), np.empty(k)
    index = np.arange(d)
    active = np.arange(k)  # columns that still move; the others are done
    part = list(features), targets, theta, free, ridge, center

    def objective(at: Floats) -> tuple[Floats, Floats]:
        """Return σ of the scores, and the loss of each column."""
        s = np.asarray(sum(t * f for t, f in zip(at, part[0], strict=True)))
        small = np.exp(-np.abs(s))
        loss = np.log1p(small)
        loss += np.maximum(s, 0.0)
        loss -= part[1] * s
        q = np.where(s >= 0, 1.0, small)
        q /= 1.0 + small
        return q, share[:, 0] @ loss + (part[4] * (at - part[5]) ** 2).sum(axis=0)

    q, now = objective(theta)
    for _ in range(MAX_STEPS):
        columns, goal, at, moves, pull, middle = part
        gap = share * (q - goal)
        gradient = np.stack([np.einsum("ij,ij->j", gap, f) for f in columns]) + 2 * pull * (at - middle)
        gradient *= moves
        bend = share * q * (1 - q)
        hessian = np.zeros((len(active), d, d))
        for i in range(d):
            weighted = bend * columns[i]
            for j in range(i, d):
                hessian[:, i, j] = hessian[:, j, i] = np.einsum("ij,ij->j", weighted, columns[j]) * moves[i] * moves[j]
        hessian[:, index, index] += 2 * pull.T
        largest = hessian[:, index, index].max(axis=1, keepdims=True)
        hessian[:, index, index] += 1e-10 * largest + ~moves.T * 1.0 + 1e-300
        direction = -np.linalg.solve(hessian, gradient.T[:, :, None])[:, :, 0].T
        direction /= np.maximum(np.abs(direction).max(axis=0) / LONGEST_STEP, 1.0)  # saturated rows have no curvature
        flat = np.abs(gradient).max(axis=0) <= tolerance
        theta[:, active], value[active] = at, now
        good[active] = flat & (np.abs(direction).max(axis=0) <= LAST_STEP * (1.0 + np.abs(at).max(axis=0)))
        if flat.all():
            break
        slope = (gradient * direction).sum(axis=0)
        step = np.ones(len(active))
        for _ in range(50):
            trial, new = objective(at + step * direction)
            poor = ~(new <= now + 1e-4 * step * slope + 1e-15 * np.abs(now))
            if not poor.any():
                break
            step[poor] *= 0.5
        else:  # no descent left at working precision
            step[poor] = 0.0
            trial, new = objective(at + step * direction)
            good[active[poor]] = np.abs(gradient).max(axis=0)[poor] <= 1e3 * tolerance
            flat = flat | poor
        at, q, now = at + step * direction, trial, new
        part = columns, goal, at, moves, pull, middle
        if flat.all():
            break
        if flat.any() and 2 * flat.sum() >= len(active):  # leave the columns that are done behind
            theta[:, active], value[active] = at, now
            left = ~flat
            active, q, now = active[left], q[:, left], now[left]
            part = (
                [f[:, left] for f in columns],
                goal[:, left],
                at[:, left],
                moves[:, left],
                pull[:, left],
                middle[:, left],
            )
    theta[:, active], value[active] = part[2], now
    return theta, value, good
