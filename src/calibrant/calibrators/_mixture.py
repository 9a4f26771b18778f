"""Weights of a pool of forecasts by their held-out proper score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant._typing import Bools, Floats, Ints
from calibrant.calibrators._league import Held
from calibrant.calibrators._pool import LEAST
from calibrant.calibrators._simplex import mixture_weights
from calibrant.core.links import softmax
from calibrant.scores.rules import Brier, Log, ProperScore

#: Ridge of the log pool towards equal weights, in rows.
LOG_RIDGE = 20.0
#: Steps of the greedy search used for scores without a solver of their own.
GREEDY_STEPS = 25
#: A smaller weight of a linear pool is dropped.
SMALL = 0.01


def descend(
    value: Callable[[Floats], tuple[float, Floats]], slopes: Callable[[Floats, Floats], tuple[Floats, Floats]],
    start: Floats, tolerance: float,
) -> Floats:
    """Minimise a convex function over w ≥ 0 by Newton steps on the free weights, projected.

    `value(w)` gives the function and whatever `slopes(w, extra)` needs for gradient and Hessian.
    """
    w = start
    now, extra = value(w)
    for _ in range(60):
        gradient, hessian = slopes(w, extra)
        free = (w > 0) | (gradient < 0)
        direction = np.zeros(len(w))
        direction[free] = -np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        step = 1.0
        while step > 1e-6:
            trial = np.maximum(w + step * direction, 0.0)
            new, extra_new = value(trial)
            if new <= now:
                break
            step /= 2
        else:
            break
        fall, w, now, extra = now - new, trial, new, extra_new
        if fall < tolerance:
            break
    return w


class LinearPool:
    """Σ w p with w on the simplex: convex for the log score and the squared error, greedy for any other."""

    kind = "linear"

    def __init__(self, held: Held, score: ProperScore) -> None:
        self.held, self.score = held, score
        self.truth = held.truth

    def weights(self, rows: Bools) -> Floats:
        """Return the weights with the least mean score over some rows."""
        share = self.held.weights[rows]
        if isinstance(self.score, Log):
            return _likely(self.truth[rows], share)
        p = self.held.forecasts[:, rows]
        if isinstance(self.score, Brier):
            flat = p.reshape(len(p), -1)
            gram = (flat * np.repeat(share, p.shape[2])) @ flat.T
            return mixture_weights(self.truth[rows], gram, share, "brier")
        return self._greedy(p, self.held.codes[rows], share)

    def _greedy(self, p: Floats, codes: Ints, share: Floats) -> Floats:
        """Add the member that helps most, again and again; the counts are the weights."""
        counts, total = np.zeros(len(p)), np.zeros(p.shape[1:])
        for step in range(GREEDY_STEPS):
            losses = [float(share @ self.score._rows((total + part) / (step + 1), codes)) for part in p]
            best = int(np.argmin(losses))
            counts[best] += 1
            total = total + p[best]
        return np.asarray(counts / counts.sum())

    def losses(self, weights: Floats, rows: Bools) -> Floats:
        """Return the score of the pool row by row."""
        if isinstance(self.score, Log):
            return np.asarray(-np.log(self.truth[rows] @ weights))
        p = np.tensordot(weights, self.held.forecasts[:, rows], 1)
        return self.score._rows(p, self.held.codes[rows])


def _likely(truth: Floats, share: Floats) -> Floats:
    """Weights of the most likely mixture: −Σ s log(Tw) + Σs·Σw over w ≥ 0 is least where Σw = 1."""
    m, total = truth.shape[1], float(share.sum())

    def value(w: Floats) -> tuple[float, Floats]:
        mixed = truth @ w
        if not mixed.min() > 0:
            return np.inf, mixed
        return float(total * w.sum() - share @ np.log(mixed)), mixed

    def slopes(_: Floats, mixed: Floats) -> tuple[Floats, Floats]:
        ratio = truth / mixed[:, None]
        hessian = (ratio * share[:, None]).T @ ratio
        hessian[np.diag_indices(m)] += 1e-6 * total
        return total - share @ ratio, hessian

    w = descend(value, slopes, np.full(m, 1.0 / m), 1e-8 * total)
    return np.asarray(w / w.sum())


class LogPool:
    """softmax(Σ w log p) with w ≥ 0, likelihood with a ridge towards equal weights."""

    kind = "log"

    def __init__(self, held: Held, score: ProperScore) -> None:
        self.held, self.score = held, score
        self.logs = np.log(np.maximum(held.forecasts, LEAST)).transpose(1, 2, 0)  # (N, K, M)

    def weights(self, rows: Bools) -> Floats:
        """Return the weights with the least mean negative log-likelihood over some rows."""
        logs, codes, share = self.logs[rows], self.held.codes[rows], self.held.weights[rows]
        m = logs.shape[2]
        start = np.full(m, 1.0 / m)
        index = np.arange(len(codes))
        goal = share @ logs[index, codes]

        def value(w: Floats) -> tuple[float, Floats]:
            z = logs @ w
            z -= z.max(axis=1, keepdims=True)
            q = np.exp(z)
            total = q.sum(axis=1, keepdims=True)
            q /= total
            fit = share @ (np.log(total[:, 0]) - z[index, codes])
            return float(fit + LOG_RIDGE / 2 * ((w - start) ** 2).sum()), q

        def slopes(w: Floats, q: Floats) -> tuple[Floats, Floats]:
            mean = np.einsum("nk,nkm->nm", q, logs)
            heavy = (logs * (q * share[:, None])[:, :, None]).reshape(-1, m)
            hessian = heavy.T @ logs.reshape(-1, m) - (mean * share[:, None]).T @ mean
            hessian[np.diag_indices(m)] += LOG_RIDGE
            return share @ mean - goal + LOG_RIDGE * (w - start), hessian

        return descend(value, slopes, start, 1e-7 * float(share.sum()))

    def losses(self, weights: Floats, rows: Bools) -> Floats:
        """Return the score of the pool row by row."""
        return self.score._rows(softmax(self.logs[rows] @ weights), self.held.codes[rows])


def cross_fitted_losses(pool: LinearPool | LogPool) -> Floats:
    """Return the score of the pool on rows its weights have not seen, either."""
    fold = pool.held.fold
    out = np.empty(len(fold))
    for index in np.unique(fold):
        rows = fold == index
        out[rows] = pool.losses(pool.weights(~rows), rows)
    return out


def drop_small(weights: Floats, least: float = SMALL) -> Floats:
    """Set weights that do not matter to 0 and scale the rest."""
    kept = np.where(weights < least, 0.0, weights)
    return np.asarray(kept / kept.sum())
