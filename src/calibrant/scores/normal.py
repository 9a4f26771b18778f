"""Proper scores of forecasts with a mean and a variance: the same interface as scores over classes.

A distribution is a pair (mean, variance), each a number or an array of shape (n,); or an array of rows (mean,
variance). With S(P, y) a loss, s(P, Q) = E S(P, Y) for Y ~ Q, g(Q) = s(Q, Q), d(P, Q) = s(P, Q) − g(Q) ≥ 0 [1].

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
    NeurIPS, section 2.3.
[2] Gneiting & Raftery (2007), "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 102, eq. (20)-(21).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.errors import input_error
from calibrant.scores.rules import ProperScore

__all__ = ["DawidSebastiani", "Law", "NormalCRPS", "NormalScore", "as_laws"]

#: Normal distributions: (mean, variance), or rows of both.
Law = tuple[ArrayLike, ArrayLike] | ArrayLike


def as_laws(law: Any, argument: str) -> tuple[Floats, Floats]:
    """Return means and variances: a tuple holds the two columns, anything else rows (mean, variance)."""
    if isinstance(law, tuple) and len(law) == 2:
        mean, variance = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in law)
    else:
        rows = np.atleast_2d(np.asarray(law, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise input_error(
                argument,
                "ProperScore",
                "hold rows (mean, variance)",
                f"shape {rows.shape}",
                "stack the columns with numpy.stack([mean, variance], axis=1)",
            )
        mean, variance = rows.T
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance > 0).all()):
        rule = "hold finite means and positive variances"
        raise input_error(argument, "ProperScore", rule, f"{law!r}"[:60], "pass (mean, variance), or rows of both")
    return mean, variance


class NormalScore(ProperScore, ABC):
    """What scores of normal distributions share: the divergence from expected score and entropy."""

    name = "score"
    #: inf g over all distributions.
    lowest = 0.0

    def score(self, forecast: Law, outcome: ArrayLike) -> Floats:
        """Return S(P, y) of each row."""
        y = np.atleast_1d(np.asarray(outcome, dtype=np.float64))
        if y.ndim != 1 or not np.isfinite(y).all():
            raise input_error("outcome", "ProperScore.score", "be finite, one number per row", f"{y}"[:60], "drop it")
        return self._score_of(*as_laws(forecast, "forecast"), y)

    def expected_score(self, forecast: Law, truth: Law) -> Floats:
        """Return s(P, Q) = E S(P, Y) with Y ~ Q."""
        return self._expected_of(*as_laws(forecast, "forecast"), *as_laws(truth, "truth"))

    def entropy(self, law: Law) -> Floats:
        """Return g(Q) = s(Q, Q)."""
        return self.expected_score(law, law)

    def divergence(self, forecast: Law, truth: Law) -> Floats:
        """Return d(P, Q) = s(P, Q) − g(Q) ≥ 0."""
        return np.asarray(self.expected_score(forecast, truth) - self.entropy(truth))

    def infimum(self, n_classes: int = 0) -> float:  # noqa: ARG002 -- a real outcome has no classes
        """Return inf g."""
        return self.lowest

    @abstractmethod
    def _score_of(self, mean: Floats, variance: Floats, y: Floats) -> Floats:
        """Return S of checked columns."""

    @abstractmethod
    def _expected_of(self, mean: Floats, variance: Floats, true_mean: Floats, true_variance: Floats) -> Floats:
        """Return E S of checked columns."""


class DawidSebastiani(NormalScore):
    """(y − μ)²/σ² + log σ² [1]: depends on mean and variance only; entropy 1 + log σ², unbounded below.

    So it has no upper bound of its calibration error.

    Examples
    --------
    >>> score = DawidSebastiani()
    >>> score.score((0.0, 1.0), 2.0)
    array([4.])
    >>> score.divergence((1.0, 2.0), (0.0, 2.0))  # (μ − μ')²/σ²
    array([0.5])
    >>> score.divergence([[0.0, 1.0]], [[0.0, 2.0]])  # rows (mean, variance): 2 − 1 − log 2
    array([0.306853])
    """

    name = "dss"
    lowest = -math.inf

    def _score_of(self, mean: Floats, variance: Floats, y: Floats) -> Floats:
        return np.asarray((y - mean) ** 2 / variance + np.log(variance))

    def _expected_of(self, mean: Floats, variance: Floats, true_mean: Floats, true_variance: Floats) -> Floats:
        return np.asarray(((mean - true_mean) ** 2 + true_variance) / variance + np.log(variance))


class NormalCRPS(NormalScore):
    """Continuous ranked probability score of normal distributions [2]: entropy σ/√π, inf g = 0.

    Examples
    --------
    >>> score = NormalCRPS()
    >>> score.score((0.0, 1.0), 0.0)  # (√2 − 1)/√π
    array([0.23369498])
    >>> score.entropy((0.0, 1.0))  # 1/√π
    array([0.56418958])
    """

    name = "crps"

    def _score_of(self, mean: Floats, variance: Floats, y: Floats) -> Floats:
        return np.asarray(_folded_mean(mean - y, variance) - np.sqrt(variance / np.pi))  # E|X − y| − ½E|X − X'|

    def _expected_of(self, mean: Floats, variance: Floats, true_mean: Floats, true_variance: Floats) -> Floats:
        return np.asarray(_folded_mean(mean - true_mean, variance + true_variance) - np.sqrt(variance / np.pi))


def _folded_mean(mean: Floats, variance: Floats) -> Floats:
    """Return E|Z| of Z ~ N(mean, variance)."""
    from scipy.special import erf

    sigma = np.sqrt(variance)
    z = mean / sigma
    return np.asarray(sigma * math.sqrt(2 / math.pi) * np.exp(-0.5 * z**2) + mean * erf(z / math.sqrt(2)))
