"""How much of an ECE is noise: its expectation at this n, and the n that resolves a given error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.inputs import check_flag, check_forecast, check_n_bins, to_array, to_float
from calibrant.core.options import check_scale
from calibrant.core.results import Record
from calibrant.core.tables import Bins, Pairs, width_bins
from calibrant.errors import input_error
from calibrant.inference.facts import judged


@dataclass(frozen=True)
class EceBias(Record):
    """Expected ECE if calibrated, and expected excess over the truth at the debiased observed gaps."""

    value: float
    if_calibrated: float
    excess: float
    n: int

    def __str__(self) -> str:
        return (
            f"ece {self.value:.4g}: a calibrated model would show {self.if_calibrated:.4g} at n = {self.n}; "
            f"about {self.excess:.2g} of the value is noise"
        )


def folded_mean(gap: Floats, spread: Floats) -> Floats:
    """Return E|N(gap, spread²)|: the folded normal mean of proposition 3.3 [1].

    References
    ----------
    [1] Gruber & Buettner (2022), Better Uncertainty Calibration via Proper Scores, NeurIPS, proposition 3.3.

    Examples
    --------
    >>> round(float(folded_mean(np.array(0.0), np.array(1.0))), 4)
    0.7979
    """
    from scipy.special import ndtr

    safe = np.where(spread > 0, spread, 1.0)
    ratio = gap / safe
    mean = safe * math.sqrt(2 / math.pi) * np.exp(-(ratio**2) / 2) + gap * (1 - 2 * ndtr(-ratio))
    return np.where(spread > 0, mean, np.abs(gap))


def _bin_noise(pairs: Pairs, n_bins: int, *, calibrated: bool) -> tuple[Bins, Floats]:
    """Return the bins and the standard deviation of each bin's mean outcome."""
    bins = width_bins(pairs, n_bins)
    w = np.where(bins.w > 0, bins.w, 1.0)
    if calibrated:
        score = pairs.score.astype(np.float64)
        variance = score * (1 - score) * (1.0 if pairs.weight is None else pairs.weight)
        spread = width_bins(Pairs(pairs.score, np.zeros(len(score), bool), variance), n_bins)
        return bins, np.sqrt(spread.w / w**2)
    frequency = bins.wt / w
    return bins, np.sqrt(frequency * (1 - frequency) / w)


def ece_bias(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> EceBias:
    """Return what a calibrated model's ECE would be at this n, and the excess of the observed one.

    The ECE is that of the view of the verdict: class 1 of two classes, else the top label.

    Notes
    -----
    Given the bin counts, a bin's gap is nearly normal, so its absolute value has the folded normal mean
    (proposition 3.3). For the excess the observed squared gaps are debiased first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> found = ece_bias(rng.random(500) < p, p)
    >>> found.value < 2 * found.if_calibrated  # a calibrated model: all of it is noise
    True
    """
    forecast = check_forecast(
        y_true, y_proba, caller="ece_bias", sample_weight=sample_weight, classes=classes, space=space
    )
    forecast.need_counts("the bias")
    check_n_bins(n_bins, "ece_bias")
    return noise_of(forecast.pairs_of(judged(forecast)), n_bins, forecast.n)


def noise_of(pairs: Pairs, n_bins: int, n: int) -> EceBias:
    """Return how much of the binned error of pairs is noise; `n` is the number of rows to name."""
    bins, calm = _bin_noise(pairs, n_bins, calibrated=True)
    _, spread = _bin_noise(pairs, n_bins, calibrated=False)
    w, share = np.where(bins.w > 0, bins.w, 1.0), bins.w / bins.w.sum()
    observed = np.abs(bins.wt - bins.ws) / w
    gap = np.sqrt(np.maximum(observed**2 - spread**2, 0.0))
    expected_now = float((share * folded_mean(gap, spread)).sum())
    return EceBias(
        float((share * observed).sum()),
        float((share * folded_mean(np.zeros_like(gap), calm)).sum()),
        expected_now - float((share * gap).sum()),
        n,
    )


def expected_ece(
    n: int | ArrayLike,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    space: Space = "proba",
    classes: ArrayLike | None = None,
    calibrated: bool = False,
) -> Floats:
    """Return the expected ECE of this model at other sample sizes `n` (proposition 3.3).

    With ``calibrated=True`` the gaps are taken as zero: the floor that noise alone produces. The ECE is that of
    `ece_bias`: of class 1 of two classes, else of the top label.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> few, many = expected_ece([100, 10_000], rng.random(500) < p, p, calibrated=True)
    >>> round(float(few / many), 1)  # noise falls with 1/√n
    10.0
    """
    forecast = check_forecast(y_true, y_proba, caller="expected_ece", classes=classes, space=space)
    check_n_bins(n_bins, "expected_ece")
    check_flag(calibrated, "calibrated", "expected_ece")
    single = isinstance(n, int | float | np.number)
    sizes = to_float(to_array([n] if single else n, "n", "expected_ece"), "n", "expected_ece").astype(np.float64)
    if not (np.isfinite(sizes) & (sizes >= 1)).all():
        raise input_error("n", "expected_ece", "be at least 1", repr(n), "pass sample sizes")
    pairs = forecast.pairs_of(judged(forecast))
    bins, spread = _bin_noise(pairs, n_bins, calibrated=calibrated)
    w, share = np.where(bins.w > 0, bins.w, 1.0), bins.w / bins.w.sum()
    observed = np.abs(bins.wt - bins.ws) / w
    gap = np.zeros_like(observed) if calibrated else np.sqrt(np.maximum(observed**2 - spread**2, 0.0))
    scale = np.sqrt(forecast.total / sizes)[:, None]
    return np.asarray(
        (share[0] * folded_mean(np.broadcast_to(gap[0], (len(sizes), n_bins)), spread[0] * scale)).sum(axis=1)
    )


def required_sample_size(
    error: float,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    space: Space = "proba",
    classes: ArrayLike | None = None,
) -> int:
    """Return the smallest n at which noise alone gives an expected ECE of at most half of `error`.

    The expected ECE of a calibrated model falls with 1/√n, so the answer follows from this sample's. The ECE is that
    of `ece_bias`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p
    >>> required_sample_size(0.01, y, p) > 3 * required_sample_size(0.02, y, p)  # four times
    True
    """
    check_scale(error, "error", "required_sample_size", "for example 0.01")
    forecast = check_forecast(y_true, y_proba, caller="required_sample_size", classes=classes, space=space)
    floor = float(
        expected_ece(forecast.n, y_true, y_proba, n_bins=n_bins, space=space, classes=classes, calibrated=True)[0]
    )
    return max(1, math.ceil(forecast.n * (floor / (0.5 * error)) ** 2))
