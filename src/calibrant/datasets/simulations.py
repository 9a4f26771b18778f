"""Continuous models with known truth: the two Gaussians of Zhang et al., Dirichlet families."""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import RNG, Floats
from calibrant.core.links import sigmoid, softmax
from calibrant.core.options import check_count, check_number, check_rng, check_scale
from calibrant.datasets.forecasts import SimulatedForecast, draw_labels
from calibrant.errors import input_error

__all__ = ["dirichlet_temperature", "two_gaussians"]


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
