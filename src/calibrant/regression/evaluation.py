"""`evaluate`, `compare` and `interval` of means and variances: check the columns, then the functions of every task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from calibrant._typing import RNG, ArrayLike
from calibrant.core.declare import declared, lookup
from calibrant.core.inputs import check_names
from calibrant.core.options import check_rng, check_share
from calibrant.core.predictions import Means, Prediction
from calibrant.core.results import Interval
from calibrant.core.rows import check_rows
from calibrant.errors import input_error
from calibrant.inference.comparison import Comparison, compare_evidence
from calibrant.inference.evaluation import Evaluation, evaluate_evidence
from calibrant.inference.intervals import offered_interval
from calibrant.inference.verdict import TOLERANCE

__all__ = ["Comparison", "compare", "evaluate", "interval"]

Method = Literal["auto", "normal", "bca"]


def evaluate(
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    metrics: Iterable[str] | str | None = None,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 15,
    levels: int | ArrayLike = 99,
    level: float = 0.95,
    n_resamples: int = 1000,
    groups: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    rng: RNG = None,
) -> Evaluation:
    """Measure the calibration of mean and variance, say how sure that is, and put it into words.

    Parameters
    ----------
    y_true : array of shape (n,)
        Truth.
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
        Predicted means; a forecast object stands for mean and variance.
    variance : array of shape (n,), optional
        Predicted variances, positive.
    metrics : iterable of str, optional
        Short names, see ``list_metrics("regression")``; default the default set, ``"all"`` takes every metric.
    sample_weight : array of shape (n,), optional
        Frequencies; weights that are not whole numbers give values alone.
    n_bins : int, default 15
        Equal-mass ranges of the variance for "ence" and "vce".
    levels : int or increasing levels in (0, 1), default 99
        Levels of "qce" and "pinball".
    level, n_resamples, groups, tolerance
        As in `calibrant.evaluate`.
    rng : None, int or Generator
        Coins of samples and quantiles, and draws of null distributions.

    Returns
    -------
    Evaluation
        ``.results``, ``["dss"]``, ``.verdict``, ``.to_dict()``, ``.to_frame()``; ``str()`` is the terminal text.

    Notes
    -----
    "If calibrated" assumes y ~ N(μ, v) row by row; samples and quantiles have it for the PIT metrics only. p-values
    of scores, bias and ratio are two-sided, those of errors one-sided. "skce" uses all pairs up to 5,000 rows and
    blocks of 50 (fewer beyond 100,000) rows above. The verdict rests on bias, ratio, PIT and ENCE together at an error
    rate of 5%.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=1000)
    >>> y = mean + rng.normal(size=1000)
    >>> verdict = evaluate(y, mean, np.full(1000, 0.25), rng=0).verdict
    >>> verdict.status, verdict.headline
    ('miscalibrated', 'Error bars too narrow')
    """
    generator = check_rng(rng, "evaluate")
    rows = check_rows(y_true, mean, variance, caller="evaluate", sample_weight=sample_weight, coins=generator)
    return evaluate_evidence(
        rows,
        metrics=metrics,
        n_bins=n_bins,
        params={"levels": levels},
        level=level,
        n_resamples=n_resamples,
        groups=groups,
        tolerance=tolerance,
        rng=generator,
    )


def interval(
    metric: str,
    y_true: ArrayLike,
    mean: Means,
    variance: ArrayLike | None = None,
    *,
    level: float = 0.95,
    method: Method = "auto",
    n_resamples: int = 1000,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    rng: RNG = None,
) -> Interval:
    """Return the interval of a mean score of normal, sample or quantile forecasts.

    Parameters
    ----------
    metric : str
        A mean over rows such as "dss"; for calibration errors ("ence", "pit-ks" …) no interval is offered, because
        none keeps its level near 0.
    y_true, mean, variance
        As in `evaluate`.
    level : float, default 0.95
        Level of the interval.
    method : {"auto", "normal", "bca"}
        "auto" is corrected for skewness (Hall 1992), "normal" is not; "bca" is the bias-corrected and accelerated
        bootstrap.
    n_resamples : int, default 1000
        For "bca".
    groups : array of shape (n,), optional
        Clusters of rows that belong together.
    sample_weight : array of shape (n,), optional
        Whole numbers: repetitions of rows.
    rng : None, int or Generator
        Randomness of "bca".

    Returns
    -------
    Interval

    Examples
    --------
    >>> interval("dss", [0.0, 1.0, -1.0], [0.0] * 3, [1.0] * 3).value
    0.6667
    """
    caller = "interval"
    means = [declaration.name for declaration in declared("regression") if declaration.build().is_mean]
    metrics = lookup(check_names(metric, tuple(means), "metric", caller), caller, "regression")
    check_names(method, ("auto", "normal", "bca"), "method", caller)
    check_share(level, "level", caller)
    rows = check_rows(y_true, mean, variance, caller=caller, sample_weight=sample_weight, counts=True)
    found = offered_interval(
        metrics,
        metrics.build(),
        rows,
        level=level,
        groups=groups,
        rng=check_rng(rng, caller),
        method=method,
        n_resamples=n_resamples,
    )
    if found is None:
        raise input_error("y_true", caller, "hold at least two rows", str(rows.n), "collect more rows")
    return found


def compare(
    y_true: ArrayLike,
    before: Prediction | tuple[ArrayLike, ArrayLike],
    after: Prediction | tuple[ArrayLike, ArrayLike],
    *,
    metrics: Iterable[str] | None = None,
    injective: bool = False,
    level: float = 0.95,
    method: Method = "auto",
    n_resamples: int = 1000,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    rng: RNG = None,
) -> Comparison:
    """Compare two forecasts of the same rows by proper scores, paired.

    Parameters
    ----------
    y_true : array of shape (n,)
        Truth.
    before, after : pair (mean, variance), or `Normal`, `Samples` or `Quantiles`
        ``change = before − after``, so positive means improved.
    metrics : iterable of str, optional
        Short names; default all proper scores.
    injective : bool, default False
        Whether `after` is a one-to-one map of `before` (a calibrator's ``injective``): the change of a proper score is
        then exactly that of its calibration error.
    level : float, default 0.95
        Level of the paired intervals.
    method, n_resamples, groups, sample_weight, rng
        As in `interval`.

    Returns
    -------
    Comparison
        Each score with paired interval and two-sided p-value.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
        NeurIPS, proposition 4.5.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.random.default_rng(0).normal(size=400)
    >>> zero, one = np.zeros(400), np.ones(400)
    >>> print(compare(y, (zero, 0.1 * one), (zero, one), injective=True)["dss"])
    dss 7.613 -> 0.9916: improved by 6.622 [5.443, 8.307], p < 0.001 (equals the change of its calibration error)
    """
    check_share(level, "level", "compare")
    check_names(method, ("auto", "normal", "bca"), "method", "compare")
    first, second = (
        check_rows(
            y_true,
            *(forecast if isinstance(forecast, tuple | list) else (forecast,)),
            caller="compare",
            sample_weight=sample_weight,
            counts=True,
        )
        for forecast in (before, after)
    )
    return compare_evidence(
        first,
        second,
        metrics=metrics,
        injective=injective,
        level=level,
        groups=groups,
        method=method,
        n_resamples=n_resamples,
        rng=rng,
    )
