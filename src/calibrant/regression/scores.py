"""Proper scores of a predictive distribution: Dawid-Sebastiani, CRPS, normal log score, interval and pinball score."""

from __future__ import annotations

import numpy as np

from calibrant._typing import ArrayLike, Floats
from calibrant.core.parallel import map_chunks
from calibrant.regression._inputs import check_levels, check_share
from calibrant.regression.predictions import Prediction
from calibrant.regression.rows import Rows, check_rows

__all__ = ["crps", "dss", "interval_score", "nll_normal", "pinball"]

LOG_2PI = float(np.log(2 * np.pi))


def dss_rows(rows: Rows) -> Floats:
    """Dawid-Sebastiani score of each row."""
    return rows.ratio + np.log(rows.variance)  # [1] section 2: S(P, y) = (μ − y)²/σ² + log σ²


def crps_rows(rows: Rows) -> Floats:
    """Continuous ranked probability score of each row."""
    width = 1 if rows.is_normal else 64
    parts = map_chunks(lambda item: item[1].crps(rows.y[item[0]]), rows.pieces(width))
    return np.concatenate(list(parts))


def nll_rows(rows: Rows) -> Floats:
    """Negative log density of the normal law with the forecast's mean and variance."""
    return 0.5 * (dss_rows(rows) + LOG_2PI)


def interval_rows(rows: Rows, level: float) -> Floats:
    """Interval score of the central interval of each row."""
    alpha = 1 - level

    def visit(item: tuple[slice, Prediction]) -> Floats:
        y = rows.y[item[0]]
        low, high = item[1].quantile(np.array([alpha / 2, 1 - alpha / 2])).T
        miss = np.maximum(low - y, 0) + np.maximum(y - high, 0)
        return np.asarray(high - low + 2 / alpha * miss)  # [1] eq. (43)

    return np.concatenate(list(map_chunks(visit, rows.pieces(2))))


def pinball_rows(rows: Rows, levels: Floats) -> Floats:
    """Pinball loss of each row, mean over the levels."""

    def visit(item: tuple[slice, Prediction]) -> Floats:
        gap = rows.y[item[0]][:, None] - item[1].quantile(levels)
        return np.asarray(np.maximum(levels * gap, (levels - 1) * gap).mean(axis=1))  # [1] check function

    return np.concatenate(list(map_chunks(visit, rows.pieces(len(levels)))))


def dss(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Dawid-Sebastiani score: squared error in units of the predicted variance, plus the log variance.

    Proper score of mean and variance; smaller is better; unbounded below (its unit is that of log y²), so only
    differences speak. One wild row with a tiny variance can decide the mean.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
        With a forecast object `variance` is left out.
    variance : array of shape (n,)
        Positive.
    sample_weight : array of shape (n,), optional
        Frequencies: weight 2 equals the row twice.

    Returns
    -------
    float

    Raises
    ------
    InputError
        Non-finite numbers, variances that are not positive, or columns of different length.

    Notes
    -----
    DSS = mean((y − μ)²/v + log v). It is strictly proper for (mean, variance): E S is least at the true ones. For an
    injective map of the variance the change of DSS is the change of its proper calibration error. O(n).

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
        NeurIPS, section 2; Dawid & Sebastiani (1999), "Coherent dispersion criteria for optimal experimental design".

    Examples
    --------
    >>> dss([1.0, 3.0], [1.0, 1.0], [1.0, 4.0])  # (0 + 0 + 1 + log 4)/2
    1.193
    """
    rows = check_rows(y_true, mean, variance, caller="dss", sample_weight=sample_weight)
    return rows.average(dss_rows(rows))


def crps(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Continuous ranked probability score: the absolute error of a whole predictive distribution.

    Proper score; smaller is better; 0 is a certain and right forecast. In the unit of y; rewards sharp rows less than
    the log score punishes wild ones.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
        With a forecast object `variance` is left out.
    variance : array of shape (n,)
        Positive.
    sample_weight : array of shape (n,), optional
        Frequencies: weight 2 equals the row twice.

    Returns
    -------
    float

    Raises
    ------
    InputError
        Non-finite numbers, variances that are not positive, or columns of different length.

    Notes
    -----
    CRPS = ∫ (F(x) − 1[x ≥ y])² dx; closed for normal laws, exact for the empirical law of samples and for the
    piecewise linear law of quantiles. O(n), O(n m log m) for m samples.

    References
    ----------
    [1] Gneiting & Raftery (2007), "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA, eq. (20)-(21).

    Examples
    --------
    >>> crps([0.0], [0.0], [1.0])  # (√2 − 1)/√π
    0.2337
    """
    rows = check_rows(y_true, mean, variance, caller="crps", sample_weight=sample_weight)
    return rows.average(crps_rows(rows))


def nll_normal(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Negative log likelihood under normal laws: half the Dawid-Sebastiani score plus a constant.

    Proper score; smaller is better; unbounded below. Same weakness as `dss`.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
        Of samples and quantiles the normal law with the same mean and variance is scored.
    variance : array of shape (n,)
        Positive.
    sample_weight : array of shape (n,), optional
        Frequencies: weight 2 equals the row twice.

    Returns
    -------
    float

    Raises
    ------
    InputError
        Non-finite numbers, variances that are not positive, or columns of different length.

    Notes
    -----
    NLL = (DSS + log 2π)/2. O(n).

    References
    ----------
    [1] Gneiting & Raftery (2007), "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA, section 4.1.

    Examples
    --------
    >>> nll_normal([0.0], [0.0], [1.0])  # log(2π)/2
    0.9189
    """
    rows = check_rows(y_true, mean, variance, caller="nll_normal", sample_weight=sample_weight)
    return rows.average(nll_rows(rows))


def interval_score(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *, level: float = 0.9,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Width of the central interval plus a fine for every truth outside it.

    Proper score of two quantiles; smaller is better; in the unit of y. Looks at one interval only.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
        With a forecast object `variance` is left out.
    variance : array of shape (n,)
        Positive.
    level : float, default 0.9
        Probability the interval claims to hold.
    sample_weight : array of shape (n,), optional
        Frequencies: weight 2 equals the row twice.

    Returns
    -------
    float

    Raises
    ------
    InputError
        `level` outside (0, 1), non-finite numbers, variances that are not positive, or unequal lengths.

    Notes
    -----
    (u − l) + 2/α·max(l − y, 0) + 2/α·max(y − u, 0) with α = 1 − level, l and u the quantiles at α/2 and 1 − α/2. O(n).

    References
    ----------
    [1] Gneiting & Raftery (2007), "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA, eq. (43).

    Examples
    --------
    >>> interval_score([0.0], [0.0], [1.0], level=0.9)  # 2·1.6449, nothing outside
    3.2897
    """
    rows = check_rows(y_true, mean, variance, caller="interval_score", sample_weight=sample_weight)
    return rows.average(interval_rows(rows, check_share(level, "level", "interval_score")))


def pinball(
    y_true: ArrayLike, mean: ArrayLike | Prediction, variance: ArrayLike | None = None, *,
    levels: int | ArrayLike = 99, sample_weight: ArrayLike | None = None,
) -> float:
    """Pinball (check) loss of the predicted quantiles, averaged over levels.

    Proper score of the quantiles at `levels`; smaller is better; 0 is a certain and right forecast.

    Parameters
    ----------
    y_true : array of shape (n,)
    mean : array of shape (n,), or a `Normal`, `Samples` or `Quantiles` forecast
        With a forecast object `variance` is left out.
    variance : array of shape (n,)
        Positive.
    levels : int or increasing levels in (0, 1), default 99
        A whole number m means j/(m + 1); twice the value then tends to the CRPS as m grows.
    sample_weight : array of shape (n,), optional
        Frequencies: weight 2 equals the row twice.

    Returns
    -------
    float

    Raises
    ------
    InputError
        Levels outside (0, 1), non-finite numbers, variances that are not positive, or unequal lengths.

    Notes
    -----
    mean over rows and levels of max(τ(y − q), (τ − 1)(y − q)). O(n · levels) in time, in cache-sized pieces.

    References
    ----------
    [1] Koenker & Bassett (1978), "Regression Quantiles", Econometrica.

    Examples
    --------
    >>> pinball([1.0], [0.0], [1.0], levels=[0.5])  # half the absolute error
    0.5
    """
    rows = check_rows(y_true, mean, variance, caller="pinball", sample_weight=sample_weight)
    return rows.average(pinball_rows(rows, check_levels(levels, "pinball")))
