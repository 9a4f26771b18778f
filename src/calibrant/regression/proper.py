"""Proper scores of normal forecasts as objects: score, expected score, entropy, divergence; the kernel U-score.

A law is a row (mean, variance). With S(P, y) a loss, s(P, Q) = E S(P, Y) for Y ~ Q, g(Q) = s(Q, Q), d(P, Q) = s(P, Q) −
g(Q) ≥ 0. [1] section 2.3.

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond", NeurIPS.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from calibrant._typing import RNG, ArrayLike, Floats
from calibrant.core.inputs import check_names, check_rng
from calibrant.core.results import Decomposition
from calibrant.errors import input_error
from calibrant.regression._base import RegressionCalibrator
from calibrant.regression._inputs import check_column, check_variance
from calibrant.regression.kernel import Points, expected_terms, skce
from calibrant.regression.predictions import Normal, Prediction
from calibrant.regression.rows import check_rows
from calibrant.scores.rules import ProperScore

__all__ = ["CRPSNormal", "DawidSebastiani", "NormalKernelScore", "calibration_error", "decomposition", "upper_bound"]


def check_laws(law: ArrayLike, argument: str) -> Floats:
    """Return normal laws as rows (mean, variance); one law may be a plain pair."""
    rows = np.atleast_2d(np.asarray(law, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise input_error(
            argument, "ProperScore", "hold rows (mean, variance)", f"shape {rows.shape}",
            "stack the columns with numpy.stack([mean, variance], axis=1)",
        )
    check_column(rows[:, 0], "mean", "ProperScore")
    check_variance(rows[:, 1], "ProperScore")
    return rows


class NormalScore(ProperScore):
    """Base of the two: the same methods as a score of classes, on rows (mean, variance) and real outcomes."""

    def score(self, forecast: ArrayLike, outcome: ArrayLike) -> Floats:
        """Return S(P, y) of each row."""
        p = check_laws(forecast, "forecast")
        return self._real(p, check_column(np.atleast_1d(np.asarray(outcome)), "outcome", "ProperScore.score", len(p)))

    def expected_score(self, forecast: ArrayLike, truth: ArrayLike) -> Floats:
        """Return s(P, Q) of each row."""
        p, q = np.broadcast_arrays(check_laws(forecast, "forecast"), check_laws(truth, "truth"))
        return self._expected(p, q)

    def entropy(self, law: ArrayLike) -> Floats:
        """Return g(Q) of each row."""
        q = check_laws(law, "law")
        return self._expected(q, q)

    def divergence(self, forecast: ArrayLike, truth: ArrayLike) -> Floats:
        """Return d(P, Q) = s(P, Q) − g(Q) ≥ 0 of each row."""
        p, q = np.broadcast_arrays(check_laws(forecast, "forecast"), check_laws(truth, "truth"))
        return self._divergence(p, q)

    def _real(self, p: Floats, y: Floats) -> Floats:
        raise NotImplementedError


class DawidSebastiani(NormalScore):
    """(y − μ)²/v + log v: entropy 1 + log v, inf g = −∞, so it has no upper bound of its calibration error.

    Examples
    --------
    >>> DawidSebastiani().divergence([0.0, 1.0], [0.0, 2.0])  # 2 − 1 − log 2
    array([0.306853])
    """

    name = "dss"

    def _real(self, p: Floats, y: Floats) -> Floats:
        return np.asarray((y - p[:, 0]) ** 2 / p[:, 1] + np.log(p[:, 1]))  # [1] section 2

    def _expected(self, p: Floats, q: Floats) -> Floats:
        return np.asarray((q[:, 1] + (p[:, 0] - q[:, 0]) ** 2) / p[:, 1] + np.log(p[:, 1]))

    def infimum(self, n_classes: int = 0) -> float:  # noqa: ARG002  # a real outcome has no classes
        """Return inf g = −∞."""
        return float("-inf")


class CRPSNormal(NormalScore):
    """Continuous ranked probability score of normal laws: entropy σ/√π, inf g = 0.

    Examples
    --------
    >>> CRPSNormal().entropy([0.0, 1.0])
    array([0.56419])
    """

    name = "crps"

    def _real(self, p: Floats, y: Floats) -> Floats:
        return Normal(p[:, 0], p[:, 1]).crps(y)

    def _expected(self, p: Floats, q: Floats) -> Floats:
        # E|X − Y| − E|X − X'|/2 with X ~ P, Y ~ Q; the mean of a folded normal
        gap, spread = p[:, 0] - q[:, 0], np.sqrt(p[:, 1] + q[:, 1])
        z = gap / spread
        distance = spread * np.sqrt(2 / np.pi) * np.exp(-0.5 * z * z) + gap * (2 * ndtr(z) - 1)
        return np.asarray(distance - np.sqrt(p[:, 1] / np.pi))

    def infimum(self, n_classes: int = 0) -> float:  # noqa: ARG002  # a real outcome has no classes
        """Return inf g = 0."""
        return 0.0


class NormalKernelScore:
    """The U-score of pairs of normal forecasts whose mean is SKCE: it measures calibration and nothing else.

    Parameters
    ----------
    lengths : float or pair of floats, default 1.0
        ℓ₁ of the kernel on forecasts, ℓ₂ of the kernel on outcomes.

    Notes
    -----
    S(P, P', y, y') is h of `skce`. Its entropy is 0 everywhere, so expected score and divergence are equal. Proper, not
    strictly proper. [1] appendix F.

    Examples
    --------
    >>> NormalKernelScore().score([0.0, 1.0], [0.0, 1.0], 0.0, 0.0)  # 1 − 2/√2 + 1/√3
    array([0.163136])
    """

    name = "skce"
    order = 2

    def __init__(self, lengths: float | tuple[float, float] = 1.0) -> None:
        self.lengths = lengths

    def __repr__(self) -> str:
        return f"NormalKernelScore(lengths={self.lengths!r})"

    def _pair(self) -> tuple[float, float]:
        first, second = np.broadcast_to(np.asarray(self.lengths, dtype=np.float64), (2,))
        return float(first), float(second)

    def score(self, first: ArrayLike, second: ArrayLike, y_first: ArrayLike, y_second: ArrayLike) -> Floats:
        """Return S of each pair of rows."""
        truths = [np.atleast_1d(np.asarray(y, dtype=np.float64)) for y in (y_first, y_second)]
        known = [np.stack([y, np.zeros(len(y))], axis=1) for y in truths]
        return self._mean_terms(first, second, known[0], known[1])

    def expected_score(
        self, first: ArrayLike, second: ArrayLike, truth_first: ArrayLike, truth_second: ArrayLike
    ) -> Floats:
        """Return E S with Y ~ `truth_first`, Y' ~ `truth_second` independent."""
        return self._mean_terms(
            first, second, check_laws(truth_first, "truth_first"), check_laws(truth_second, "truth_second")
        )

    def _mean_terms(self, first: ArrayLike, second: ArrayLike, a: Floats, b: Floats) -> Floats:
        p, q = check_laws(first, "first"), check_laws(second, "second")
        one, two = (Points(t[:, 0], law[:, 0], np.sqrt(law[:, 1]), law[:, 1]) for t, law in ((a, p), (b, q)))
        return expected_terms(one, two, a[:, 1], b[:, 1], self._pair())  # [1] eq. (58)

    def entropy(self, law_first: ArrayLike, law_second: ArrayLike) -> Floats:
        """Return 0 for every pair."""
        p, q = check_laws(law_first, "law_first"), check_laws(law_second, "law_second")
        return np.zeros(max(len(p), len(q)))  # [1] eq. (59)

    def divergence(
        self, first: ArrayLike, second: ArrayLike, truth_first: ArrayLike, truth_second: ArrayLike
    ) -> Floats:
        """Return the divergence, equal to the expected score because the entropy is 0."""
        return self.expected_score(first, second, truth_first, truth_second)  # [1] eq. (60)

    def mean(self, y_true: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> float:
        """Return the mean over pairs of different rows: the unbiased SKCE."""
        return skce(y_true, mean, variance, bandwidth=self._pair())


SCORES: dict[str, NormalScore] = {"dss": DawidSebastiani(), "crps": CRPSNormal()}


def _as_score(score: NormalScore | str, caller: str) -> NormalScore:
    return SCORES[check_names(score, tuple(SCORES), "score", caller)] if isinstance(score, str) else score


def upper_bound(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    score: NormalScore | str = "crps", sample_weight: ArrayLike | None = None,
) -> float:
    """Bound the proper calibration error from above by the mean score less inf g (refused for DSS, inf g = −∞).

    Examples
    --------
    >>> upper_bound([0.0], [0.0], [1.0])
    0.2337
    """
    rows = check_rows(y_true, mean, variance, caller="upper_bound", sample_weight=sample_weight)
    rule = _as_score(score, "upper_bound")
    infimum = rule.infimum(0)
    if not np.isfinite(infimum):
        raise input_error(
            "score", "upper_bound", "have a finite inf g", f"{infimum} for {rule.name}",
            "compare before and after instead: differences of the score are differences of calibration",
        )
    laws = np.stack([rows.mean, rows.variance], axis=1)
    return rows.average(rule._real(laws, rows.y)) - infimum  # [1] theorem 4.3


def decomposition(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    score: NormalScore | str = "dss", recalibrator: RegressionCalibrator | None = None, cv: int = 5,
    sample_weight: ArrayLike | None = None, rng: RNG = None,
) -> Decomposition:
    """Take a mean score apart: score = entropy + calibration − sharpness.

    Calibration (smaller is better) is what recalibration would save; sharpness (larger is better) what the recalibrated
    forecasts know beyond one normal law for all rows. Both are as good as the recalibrator: calibration is a lower
    bound in expectation and may fall below 0.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
    variance : array of shape (n,)
        Positive; left out next to a forecast object.
    score : {"dss", "crps"} or NormalScore
    recalibrator : RegressionCalibrator, optional
        Fitted on the other folds only; default `VarianceScaling`.
    cv : int, default 5
        Number of folds.
    sample_weight : array of shape (n,), optional
        Frequencies.
    rng : None, int or Generator
        Deals the folds.

    Returns
    -------
    Decomposition

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
        NeurIPS, lemma D.1.

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(size=300)
    >>> parts = decomposition(y, np.zeros(300), np.full(300, 4.0), rng=0)
    >>> parts.calibration > 0.5, abs(parts.sharpness) < 0.05
    (True, True)
    """
    from sklearn.base import clone

    from calibrant.regression.calibrators import VarianceScaling

    caller = "decomposition"
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight)
    rule = _as_score(score, caller)
    if not 2 <= cv <= rows.n:
        raise input_error("cv", caller, f"lie between 2 and the number of rows ({rows.n})", str(cv), "use 5")
    method = VarianceScaling() if recalibrator is None else recalibrator
    folds = check_rng(rng, caller).permutation(rows.n) % cv
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    better = np.empty((rows.n, 2))
    for fold in range(cv):
        inside = folds == fold
        rest = ~inside
        fitted = clone(method).fit(rows.mean[rest], rows.variance[rest], rows.y[rest], weights[rest])
        better[inside] = np.stack(fitted.predict(rows.mean[inside], rows.variance[inside]), axis=1)
    center = rows.average(rows.y)
    overall = np.array([[center, rows.average((rows.y - center) ** 2)]])
    total = rows.average(rule._real(np.stack([rows.mean, rows.variance], axis=1), rows.y))
    recalibrated = rows.average(rule._real(better, rows.y))
    entropy = rows.average(rule._real(np.repeat(check_laws(overall, "y_true"), rows.n, axis=0), rows.y))
    return Decomposition(total, entropy, total - recalibrated, entropy - recalibrated)  # [1] lemma D.1


def calibration_error(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    score: NormalScore | str = "dss", recalibrator: RegressionCalibrator | None = None, cv: int = 5,
    sample_weight: ArrayLike | None = None, rng: RNG = None,
) -> float:
    """Estimate the proper calibration error E d(f, P(Y|f)) from below: what a cross-fitted recalibrator saves.

    Arguments as in `decomposition`, whose calibration part this is.

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(size=300)
    >>> calibration_error(y, np.zeros(300), np.full(300, 4.0), rng=0) > 0.5  # truth: 1/4 − 1 + log 4 = 0.636
    True
    """
    parts = decomposition(
        y_true, mean, variance, score=score, recalibrator=recalibrator, cv=cv, sample_weight=sample_weight, rng=rng
    )
    return parts.calibration
