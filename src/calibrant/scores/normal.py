"""Proper scores of forecasts with a mean and a variance: the same interface as scores over classes.

A law is a pair (mean, variance), each a number or an array of shape (n,).

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
    NeurIPS, section 2.3.
[2] Gneiting & Raftery (2007), "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 102, eq. (20)-(21).
"""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.errors import input_error

__all__ = ["DawidSebastiani", "NormalCRPS"]

Law = tuple[ArrayLike, ArrayLike]


def _moments(law: Law, argument: str) -> tuple[Floats, Floats]:
    mean, variance = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in law)
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance > 0).all()):
        raise input_error(
            argument, "ProperScore", "hold finite means and positive variances", f"{law!r}"[:60],
            "pass (mean, variance)",
        )
    return mean, variance


class _MomentScore:
    """What both scores share: the divergence from expected score and entropy."""

    name = "score"
    #: inf g over all laws.
    lowest = 0.0

    def expected_score(self, forecast: Law, truth: Law) -> Floats:
        """Return s(P, Q) = E S(P, Y) with Y ~ Q."""
        return self._expected(*_moments(forecast, "forecast"), *_moments(truth, "truth"))

    def _expected(self, *moments: Floats) -> Floats:  # noqa: ARG002 -- for subclasses
        raise TypeError(f"{type(self).__name__} defines no expected score")

    def entropy(self, law: Law) -> Floats:
        """Return g(Q) = s(Q, Q)."""
        return self.expected_score(law, law)

    def divergence(self, forecast: Law, truth: Law) -> Floats:
        """Return d(P, Q) = s(P, Q) − g(Q) ≥ 0."""
        return np.asarray(self.expected_score(forecast, truth) - self.entropy(truth))

    def infimum(self) -> float:
        """Return inf g."""
        return self.lowest

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class DawidSebastiani(_MomentScore):
    """(y − μ)²/σ² + log σ² [1]: depends on mean and variance only; entropy 1 + log σ², unbounded below.

    Examples
    --------
    >>> score = DawidSebastiani()
    >>> score.score((0.0, 1.0), 2.0)
    array([4.])
    >>> score.divergence((1.0, 2.0), (0.0, 2.0))  # (μ − μ')²/σ²
    array([0.5])
    """

    name = "dss"
    lowest = -math.inf

    def score(self, forecast: Law, outcome: ArrayLike) -> Floats:
        """Return S(P, y) of each row."""
        mean, variance = _moments(forecast, "forecast")
        return np.asarray((np.asarray(outcome, dtype=np.float64) - mean) ** 2 / variance + np.log(variance))

    def _expected(self, *moments: Floats) -> Floats:
        mean, variance, true_mean, true_variance = moments
        return np.asarray(((mean - true_mean) ** 2 + true_variance) / variance + np.log(variance))


class NormalCRPS(_MomentScore):
    """Continuous ranked probability score of normal laws [2]: entropy σ/√π, inf g = 0.

    Examples
    --------
    >>> score = NormalCRPS()
    >>> score.score((0.0, 1.0), 0.0)  # (√2 − 1)/√π
    array([0.23369498])
    >>> score.entropy((0.0, 1.0))  # 1/√π
    array([0.56418958])
    """

    name = "crps"

    def score(self, forecast: Law, outcome: ArrayLike) -> Floats:
        """Return S(P, y) of each row."""
        mean, variance = _moments(forecast, "forecast")
        gap = mean - np.asarray(outcome, dtype=np.float64)
        return np.asarray(_folded_mean(gap, variance) - np.sqrt(variance / np.pi))  # E|X − y| − ½E|X − X'|

    def _expected(self, *moments: Floats) -> Floats:
        mean, variance, true_mean, true_variance = moments
        return np.asarray(_folded_mean(mean - true_mean, variance + true_variance) - np.sqrt(variance / np.pi))


def _folded_mean(mean: Floats, variance: Floats) -> Floats:
    """Return E|Z| of Z ~ N(mean, variance)."""
    from scipy.special import erf

    sigma = np.sqrt(variance)
    z = mean / sigma
    return np.asarray(sigma * math.sqrt(2 / math.pi) * np.exp(-0.5 * z**2) + mean * erf(z / math.sqrt(2)))
