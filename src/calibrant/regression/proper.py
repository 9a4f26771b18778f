"""Calibration errors of proper scores of normal forecasts, and the kernel U-score.

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond", NeurIPS.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant._typing import RNG, ArrayLike, Floats
from calibrant.calibrators.regression import RegressionCalibrator, VarianceScaling
from calibrant.core.inputs import check_names
from calibrant.core.options import check_count, check_rng, check_scale
from calibrant.core.predictions import Means
from calibrant.core.results import Decomposition
from calibrant.core.rows import Rows, check_rows
from calibrant.errors import input_error
from calibrant.metrics.regression import skce_normal
from calibrant.metrics.regression.kernel import Points, expected_terms
from calibrant.scores.normal import DawidSebastiani, NormalCRPS, NormalScore, as_laws

__all__ = ["NormalKernelScore", "calibration_error", "decomposition", "upper_bound"]


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
        pair = self.lengths if isinstance(self.lengths, tuple) and len(self.lengths) == 2 else (self.lengths,) * 2
        first, second = (check_scale(one, "lengths", "NormalKernelScore", "use 1.0") for one in pair)
        return first, second

    def score(self, first: ArrayLike, second: ArrayLike, y_first: ArrayLike, y_second: ArrayLike) -> Floats:
        """Return S of each pair of rows."""
        truths = [np.atleast_1d(np.asarray(y, dtype=np.float64)) for y in (y_first, y_second)]
        one, two = ((y, np.zeros(len(y))) for y in truths)
        return self._mean_terms(first, second, one, two)

    def expected_score(
        self, first: ArrayLike, second: ArrayLike, truth_first: ArrayLike, truth_second: ArrayLike
    ) -> Floats:
        """Return E S with Y ~ `truth_first`, Y' ~ `truth_second` independent."""
        return self._mean_terms(
            first, second, as_laws(truth_first, "truth_first"), as_laws(truth_second, "truth_second")
        )

    def _mean_terms(
        self, first: ArrayLike, second: ArrayLike, a: tuple[Floats, Floats], b: tuple[Floats, Floats]
    ) -> Floats:
        laws = as_laws(first, "first"), as_laws(second, "second")
        one, two = (Points(y, mean, np.sqrt(v), v) for (y, _), (mean, v) in zip((a, b), laws, strict=True))
        return expected_terms(one, two, a[1], b[1], self._pair())  # [1] eq. (58)

    def entropy(self, law_first: ArrayLike, law_second: ArrayLike) -> Floats:
        """Return 0 for every pair."""
        sizes = [len(as_laws(law, name)[0]) for law, name in ((law_first, "law_first"), (law_second, "law_second"))]
        return np.zeros(max(sizes))  # [1] eq. (59)

    def divergence(
        self, first: ArrayLike, second: ArrayLike, truth_first: ArrayLike, truth_second: ArrayLike
    ) -> Floats:
        """Return the divergence, equal to the expected score because the entropy is 0."""
        return self.expected_score(first, second, truth_first, truth_second)  # [1] eq. (60)

    def mean(self, y_true: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> float:
        """Return the mean over pairs of different rows: the unbiased SKCE."""
        return skce_normal(y_true, mean, variance, bandwidth=self._pair(), estimator="unbiased")


SCORES: dict[str, NormalScore] = {"dss": DawidSebastiani(), "crps": NormalCRPS()}


def _as_score(score: NormalScore | str, caller: str) -> NormalScore:
    if isinstance(score, NormalScore):
        return score
    return SCORES[check_names(score, tuple(SCORES), "score", caller)]


def _row_scores(rule: NormalScore, rows: Rows) -> Floats:
    """Return the score of each row; the CRPS of samples and quantiles is that of their own distribution."""
    if isinstance(rule, NormalCRPS) and not rows.is_normal:
        return rows.forecast.crps(rows.y)
    return rule.score((rows.mean, rows.variance), rows.y)


def upper_bound(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    score: NormalScore | str = "crps",
    sample_weight: ArrayLike | None = None,
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
            "score",
            "upper_bound",
            "have a finite inf g",
            f"{infimum} for {rule.name}",
            "compare before and after instead: differences of the score are differences of calibration",
        )
    return rows.average(_row_scores(rule, rows)) - infimum  # [1] theorem 4.3


def decomposition(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    score: NormalScore | str = "dss",
    recalibrator: RegressionCalibrator | None = None,
    cv: int = 5,
    sample_weight: ArrayLike | None = None,
    rng: RNG = None,
) -> Decomposition:
    """Take a mean score apart: score = entropy + calibration − sharpness.

    Calibration (smaller is better) is what recalibration would save; sharpness (larger is better) what the recalibrated
    forecasts know beyond one normal distribution for all rows. Both are as good as the recalibrator: calibration is a
    lower bound in expectation and may fall below 0.

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
    caller = "decomposition"
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight)
    rule = _as_score(score, caller)
    if check_count(cv, "cv", caller, 2, "5") > rows.n:
        raise input_error("cv", caller, f"lie between 2 and the number of rows ({rows.n})", str(cv), "use 5")
    method = VarianceScaling() if recalibrator is None else recalibrator
    if not isinstance(method, RegressionCalibrator):
        raise input_error("recalibrator", caller, "be a regression calibrator", repr(recalibrator), "leave it out")
    folds = check_rng(rng, caller).permutation(rows.n) % cv
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    better = np.empty((2, rows.n))
    for fold in range(cv):
        inside = folds == fold
        rest = ~inside
        fitted = clone(method).fit(rows.mean[rest], rows.variance[rest], rows.y[rest], weights[rest])
        better[:, inside] = fitted.predict(rows.mean[inside], rows.variance[inside])
    center = rows.average(rows.y)
    overall: Any = (center, rows.average((rows.y - center) ** 2))
    total = rows.average(_row_scores(rule, rows))
    recalibrated = rows.average(rule.score((better[0], better[1]), rows.y))
    entropy = rows.average(rule.score(overall, rows.y))
    return Decomposition(total, entropy, total - recalibrated, entropy - recalibrated)  # [1] lemma D.1


def calibration_error(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    score: NormalScore | str = "dss",
    recalibrator: RegressionCalibrator | None = None,
    cv: int = 5,
    sample_weight: ArrayLike | None = None,
    rng: RNG = None,
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
