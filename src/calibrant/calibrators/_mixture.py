"""Weights of a mixture of forecasts by their held-out proper score, drawn towards weights known before."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Bools, Floats
from calibrant.calibrators._crossfit import Held
from calibrant.calibrators._simplex import quadratic
from calibrant.scores.rules import Brier, Log, ProperScore

#: Strength of the pull towards the prior weights, in rows; the squared error is flatter.
PULL, PULL_SQUARED = 20.0, 4.0
#: Steps of the greedy search used for scores without a solver of their own.
GREEDY_STEPS = 25
#: A smaller weight is dropped.
SMALL = 0.01


class Mixture:
    """Σ w p with w on the simplex: convex for the log score and the squared error, greedy for any other."""

    def __init__(self, held: Held, score: ProperScore, prior: Floats) -> None:
        self.held, self.score, self.prior = held, score, prior

    def weights(self, rows: Bools) -> Floats:
        """Return the weights with the least mean score over some rows."""
        share, truth = self.held.weights[rows], self.held.truth[rows]
        if isinstance(self.score, Log):
            return most_likely(truth, share, self.prior)
        p = self._forecasts()[:, rows]
        if isinstance(self.score, Brier):
            flat = p.reshape(len(p), -1)
            gram = (flat * np.repeat(share, p.shape[2])) @ flat.T + PULL_SQUARED * np.eye(len(p))
            return quadratic(2 * gram, 2 * (share @ truth + PULL_SQUARED * self.prior))  # Σ‖Pw − e_y‖²
        counts, total = np.zeros(len(p)), np.zeros(p.shape[1:])
        for step in range(GREEDY_STEPS):  # add the member that helps most, again and again
            losses = [share @ self.score._rows((total + part) / (step + 1), self.held.codes[rows]) for part in p]
            best = int(np.argmin(losses))
            counts[best] += 1
            total = total + p[best]
        return np.asarray(counts / counts.sum())

    def losses(self, weights: Floats, rows: Bools) -> Floats:
        """Return the score of the mixture row by row."""
        if isinstance(self.score, Log):
            return np.asarray(-np.log(self.held.truth[rows] @ weights))
        return self.score._rows(np.tensordot(weights, self._forecasts()[:, rows], 1), self.held.codes[rows])

    def cross_fitted_losses(self, share: float = 1.0) -> Floats:
        """Return the score on rows the weights have not seen, either; the first member gets the rest of `share`."""
        fold = self.held.fold
        out = np.empty(len(fold))
        for index in np.unique(fold):
            rows = fold == index
            weights = share * self.weights(~rows)
            weights[0] += 1.0 - share
            out[rows] = self.losses(weights, rows)
        return out

    def _forecasts(self) -> Floats:
        if self.held.forecasts is None:
            raise RuntimeError("the comparison kept no whole forecasts")
        return self.held.forecasts


def most_likely(truth: Floats, share: Floats, prior: Floats) -> Floats:
    """Weights of the most likely mixture with a pull towards the prior.

    −Σ s log(Tw) + Σs·Σw over w ≥ 0 is least where Σw = 1; Newton steps on the free weights, projected.
    """
    total = float(share.sum())

    def value(w: Floats) -> tuple[float, Floats]:
        mixed = truth @ w
        if not mixed.min() > 0:
            return np.inf, mixed
        return float(total * w.sum() - share @ np.log(mixed) + PULL / 2 * ((w - prior) ** 2).sum()), mixed

    w = prior
    now, mixed = value(w)
    for _ in range(60):
        ratio = truth / mixed[:, None]
        gradient = total - share @ ratio + PULL * (w - prior)
        hessian = (ratio * share[:, None]).T @ ratio + PULL * np.eye(len(w))
        free = (w > 0) | (gradient < 0)
        direction = np.zeros(len(w))
        direction[free] = -np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        step = 1.0
        while step > 1e-6:
            trial = np.maximum(w + step * direction, 0.0)
            new, mixed_new = value(trial)
            if new <= now:
                break
            step /= 2
        else:
            break
        fall, w, now, mixed = now - new, trial, new, mixed_new
        if fall < 1e-8 * total:
            break
    return np.asarray(w / w.sum())


def prior_shares(given: Floats) -> Floats:
    """Return positive weights that sum to 1: those given, and the rest spread evenly."""
    rest = max(1.0 - float(given.sum()), 0.2)
    shares = given + rest / len(given)
    return np.asarray(shares / shares.sum())


def drop_small(weights: Floats, least: float = SMALL) -> Floats:
    """Set weights that do not matter to 0 and scale the rest."""
    kept = np.where(weights < least, 0.0, weights)
    return np.asarray(kept / kept.sum())
