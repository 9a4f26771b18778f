"""Continuous models with known truth: the two Gaussians of Zhang et al., Gruber's 100 classes, Dirichlet families."""

from __future__ import annotations

import base64
import math

import numpy as np

from calibrant._typing import RNG, Floats
from calibrant.core.inputs import check_names
from calibrant.core.links import sigmoid, softmax
from calibrant.core.options import check_count, check_number, check_rng, check_scale
from calibrant.datasets._orientation import SIGNS
from calibrant.datasets.forecasts import SimulatedForecast, draw_labels
from calibrant.errors import input_error

__all__ = ["dirichlet_temperature", "hundred_classes", "two_gaussians"]


def _positive(value: float, argument: str, caller: str) -> None:
    check_scale(value, argument, caller, "use 1.0")


def two_gaussians(n: int = 1000, *, beta0: float = 0.5, beta1: float = -1.5, rng: RNG = None) -> SimulatedForecast:
    """Two classes with normal features and a logistic forecast (Zhang et al., section 5.1).

    x ~ N(−1, 1) for class 1 and N(1, 1) for class 0, equally likely, so P(Y=1|x) = 1/(1 + e^{2x}); the forecast is
    1/(1 + e^{−β₀−β₁x}). (0.5, −1.5) is the less, (0.2, −1.9) the better calibrated case of the paper, (0, −2) perfect.

    Parameters
    ----------
    n : int, default 1000
    beta0, beta1 : float
        `beta1` must not be 0: then P(Y|f) is P(Y|x).
    rng : None, int or Generator

    Returns
    -------
    SimulatedForecast
        `y_proba` is the column of class 1. `errors` by quadrature: ``class1_ce1`` and ``class1_ce2`` (after the root)
        of that column, and the canonical ``ce1``, ``ce2`` of both columns.

    References
    ----------
    [1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, section 5.1 and appendix E, eq. (14).

    Examples
    --------
    >>> data = two_gaussians(10, rng=0)
    >>> round(data.errors["class1_ce1"], 6), round(data.errors["class1_ce2"] ** 2, 8)
    (0.074443, 0.00924516)
    """
    generator = check_rng(rng, "two_gaussians")
    check_count(n, "n", "two_gaussians", 1)
    for name, beta, usual in (("beta0", beta0, 0.5), ("beta1", beta1, -1.5)):
        rule, hint = "be a number from -1e100 to 1e100", f"use {name}={usual}"
        if not abs(check_number(beta, name, "two_gaussians", rule, hint)) <= 1e100:
            raise input_error(name, "two_gaussians", rule, repr(beta), hint)
    if beta1 == 0:
        raise input_error("beta1", "two_gaussians", "not be 0", "0", "use beta1=-1.5")
    label = generator.integers(0, 2, n)
    x = generator.standard_normal(n) + 1.0 - 2.0 * label
    grid = np.linspace(-12.0, 12.0, 1 << 17)
    density = 0.5 * (np.exp(-0.5 * (grid + 1) ** 2) + np.exp(-0.5 * (grid - 1) ** 2)) / np.sqrt(2 * np.pi)
    gap = np.abs(sigmoid(-2.0 * grid) - sigmoid(beta0 + beta1 * grid))  # [1] eq. (14)
    one, two = (float(np.sum(gap**p * density) * (grid[1] - grid[0])) for p in (1, 2))
    errors = {"class1_ce1": one, "class1_ce2": two**0.5, "ce1": 2 * one, "ce2": (2 * two) ** 0.5}
    true = sigmoid(-2.0 * x)
    return SimulatedForecast(
        "two_gaussians",
        label,
        sigmoid(beta0 + beta1 * x),
        errors,
        np.stack([1 - true, true], axis=1),
        about="one feature, logistic forecast, truth by quadrature",
    )


def hundred_classes(*, part: str = "test", scale: float = 1.0, seed: int = 1) -> SimulatedForecast:
    """Gruber & Buettner's simulated 100-class model: 10,000 rows of calibrated forecasts with realistic confidence.

    For each class i 200 logits ~ N(e_i, S_i), S_i inverse Wishart with scale 100·I and 100 degrees of freedom; labels
    are drawn from the softmax. The first 10,000 rows are the calibration part, the last 10,000 the test part.

    Parameters
    ----------
    part : {"test", "cal", "all"}, default "test"
    scale : float, default 1.0
        The forecast is softmax(scale · logits): 1 is calibrated, 1.5 "mediocre", 2.5 "bad" in the paper.
    seed : int, default 1
        Seed 1 is the published run, with accuracy 0.8763 on the calibration part (0.8635 on the test part).

    Returns
    -------
    SimulatedForecast
        `truth` is the softmax of the logits; `errors` are exact for the distribution of labels given these rows:
        ``ce1``, ``ce2``, and ``gap``, mean confidence minus expected accuracy.

    Notes
    -----
    The published stream of random numbers (NumPy's legacy generator, Bartlett's decomposition, singular value
    decomposition), with the orientation of singular vectors fixed, so that every machine draws the same rows.

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, figure 2, appendix G.1.
    """
    check_names(part, ("test", "cal", "all"), "part", "hundred_classes")
    _positive(scale, "scale", "hundred_classes")
    k, each = 100, 200
    stream = np.random.RandomState(seed)  # the published stream
    lower, diagonal = np.tril_indices(k, -1), np.diag_indices(k)
    normals = stream.normal(size=(k, k * (k - 1) // 2))
    roots = np.stack([np.sqrt(stream.chisquare(k - i, size=k)) for i in range(k)], axis=1)
    bits = np.frombuffer(base64.b64decode(SIGNS), dtype=np.uint8)
    up = np.unpackbits(bits)[: k * k].reshape(k, k).astype(bool) if seed == 1 else np.ones((k, k), dtype=bool)
    logits = np.empty((k * each, k))
    for i in range(k):
        factor = np.zeros((k, k))
        factor[lower], factor[diagonal] = normals[i], roots[i]  # Bartlett: factor·factorᵀ is Wishart(I, 100)
        inverse = 10.0 * np.linalg.inv(factor)
        _, values, vectors = np.linalg.svd(inverse.T @ inverse)  # S_i = inverseᵀ·inverse
        peak = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)[:, 0]
        vectors *= np.where((peak > 0) == up[i], 1.0, -1.0)[:, None]
        draws = stream.standard_normal((each, k)) @ (np.sqrt(values)[:, None] * vectors)
        draws[:, i] += 1.0
        logits[i * each : (i + 1) * each] = draws
    truth = softmax(logits)
    cumulative = np.cumsum(truth, axis=1)
    cumulative /= cumulative[:, -1:]
    label = (cumulative <= stream.random_sample(k * each)[:, None]).sum(axis=1)
    rows = {"cal": slice(0, 10_000), "test": slice(10_000, None), "all": slice(None)}[part]
    truth, label, forecast = truth[rows], label[rows], softmax(scale * logits[rows])
    gap = np.abs(forecast - truth)
    top = forecast.argmax(axis=1)[:, None]
    errors = {f"ce{p}": float((gap**p).sum(axis=1).mean() ** (1 / p)) for p in (1, 2)}
    over = np.take_along_axis(forecast, top, axis=1) - np.take_along_axis(truth, top, axis=1)
    errors["gap"] = float(over.mean())
    return SimulatedForecast(
        "hundred_classes", label, forecast, errors, truth, about="100 classes, calibrated by construction at scale 1"
    )


def _mixing_errors(mixing: float, n_classes: int, concentration: float) -> dict[str, float]:
    """Return m·E‖q − 1/K‖₁ and m·(E‖q − 1/K‖₂²)^½: mean deviation and variance of Beta(a, b) marginals."""
    a, b = concentration, concentration * (n_classes - 1)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    deviation = 2 * math.exp(a * math.log(a) + b * math.log(b) - log_beta - (a + b + 1) * math.log(a + b))
    return {
        "ce1": mixing * n_classes * deviation,
        "ce2": mixing * math.sqrt((1 - 1 / n_classes) / (concentration * n_classes + 1)),
    }


def dirichlet_temperature(
    n: int = 1000,
    *,
    n_classes: int = 3,
    concentration: float = 1.0,
    temperature: float = 1.0,
    mixing: float = 0.0,
    rng: RNG = None,
) -> SimulatedForecast:
    """Truths from a symmetric Dirichlet distribution, forecasts sharpened by a temperature or flattened.

    q ~ Dirichlet(c, …, c), Y ~ q; the forecast is proportional to q^{1/T} (T < 1 overconfident, T > 1 under-
    confident), then (1 − m)·forecast + m/K. Both maps are one-to-one, so P(Y|f) = q.

    Parameters
    ----------
    n : int, default 1000
    n_classes : int, default 3
    concentration : float, default 1.0
        Small values make sharp truths.
    temperature : float, default 1.0
    mixing : float, default 0.0
        m in [0, 1).
    rng : None, int or Generator

    Returns
    -------
    SimulatedForecast
        True ``ce1``, ``ce2``: in closed form at temperature 1, for example CE₂ = m·√((1 − 1/K)/(cK + 1)); otherwise
        the mean over 2¹⁸ draws of its own fixed seed (relative error about 0.1%).

    Examples
    --------
    >>> data = dirichlet_temperature(100, n_classes=3, concentration=1.0, mixing=0.3, rng=0)
    >>> round(data.errors["ce2"], 6)  # 0.3·√((2/3)/4)
    0.122474
    """
    caller = "dirichlet_temperature"
    _positive(concentration, "concentration", caller)
    _positive(temperature, "temperature", caller)
    check_count(n, "n", caller, 1)
    if not 0 <= check_number(mixing, "mixing", caller, "lie in [0, 1)", "use mixing=0") < 1:
        raise input_error("mixing", caller, "lie in [0, 1)", repr(mixing), "use mixing=0")
    check_count(n_classes, "n_classes", caller, 2, "3")
    alpha = np.full(n_classes, float(concentration))

    def forecast(q: Floats) -> Floats:
        logits = np.log(np.maximum(q, np.finfo(np.float64).tiny)) / temperature
        return (1.0 - mixing) * softmax(logits) + mixing / n_classes

    if temperature == 1:
        errors = _mixing_errors(mixing, n_classes, concentration)
    else:
        draws = np.random.default_rng(0).dirichlet(alpha, 1 << 18)
        gap = np.abs(forecast(draws) - draws)
        errors = {f"ce{p}": float((gap**p).sum(axis=1).mean() ** (1 / p)) for p in (1, 2)}
    generator = check_rng(rng, caller)
    q = generator.dirichlet(alpha, n)
    return SimulatedForecast(
        "dirichlet_temperature",
        draw_labels(q, generator),
        forecast(q),
        errors,
        q,
        about="Dirichlet truths, sharpened or flattened forecasts",
    )
