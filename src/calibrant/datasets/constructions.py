"""The constructions of Gruber & Buettner that fool weak calibration errors: finite laws with closed-form truths.

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond",
    NeurIPS, propositions 3.2 and D.2, appendix E.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import RNG, Floats, Ints
from calibrant.core.options import check_count, check_number, check_rng, check_share
from calibrant.datasets.forecasts import SimulatedForecast
from calibrant.errors import input_error

__all__ = ["accuracy_replaced", "collapsed", "hidden_miscalibration"]


def _check(n_classes: int, alpha: float, low: float, caller: str, argument: str = "alpha") -> None:
    if check_count(n_classes, "n_classes", caller, 2, "3") < 3:
        raise input_error("n_classes", caller, "be at least 3", repr(n_classes), "two classes have no construction")
    if not low < check_number(alpha, argument, caller, f"lie between {low} and 1", f"use {argument}=0.7") < 1:
        raise input_error(argument, caller, f"lie between {low} and 1", repr(alpha), f"use {argument}=0.7")


def _sample(laws: Floats, shares: Floats, n: int | None, rng: RNG, caller: str) -> tuple[Ints, Ints, Floats | None]:
    """Return forecast index, label and weight of each row: the whole law as weighted rows, or `n` draws."""
    if n is not None:
        check_count(n, "n", caller, 1)
    joint = shares[:, None] * laws
    which, label = np.nonzero(joint > 0)
    if n is None:
        return which, label, joint[which, label]
    drawn = check_rng(rng, caller).choice(len(which), size=n, p=joint[which, label] / joint.sum())
    return which[drawn], label[drawn], None


def _canonical(forecasts: Floats, laws: Floats, shares: Floats) -> dict[str, float]:
    gap = np.abs(forecasts - laws)
    return {f"ce{p}": float(np.dot(shares, (gap**p).sum(axis=1)) ** (1 / p)) for p in (1, 2)}


def hidden_miscalibration(
    n: int | None = None, *, n_classes: int = 3, alpha: float = 0.7, rng: RNG = None
) -> SimulatedForecast:
    """Forecasts that every weak error calls perfect while CE₂ is not 0 (proposition 3.2).

    Forecast k gives α to class k and shares the rest evenly; in truth the rest goes to one class only. The top
    label and every single class are calibrated, the vector is not.

    Parameters
    ----------
    n : int, optional
        Rows to draw; None gives the law itself as weighted rows, on which plug-in errors are exact.
    n_classes : int, default 3
        K ≥ 3.
    alpha : float, default 0.7
        Probability of the top label, above ½.
    rng : None, int or Generator

    Returns
    -------
    SimulatedForecast
        With CE₂ = √(1 − 1/(K−1))·(1 − α) [1] and 0 for tce, cwce, ece, ks and mmce.

    Examples
    --------
    >>> data = hidden_miscalibration(n_classes=5, alpha=0.6)
    >>> round(data.errors["ce2"], 6), data.errors["cwce2"]  # √(3/4)·0.4
    (0.34641, 0.0)
    """
    _check(n_classes, alpha, 0.5, "hidden_miscalibration")
    rest = (1.0 - alpha) / (n_classes - 1)
    forecasts = np.full((n_classes, n_classes), rest)
    np.fill_diagonal(forecasts, alpha)  # [1] eq. (20)
    laws = alpha * np.eye(n_classes) + (1.0 - alpha) * np.roll(np.eye(n_classes), -1, axis=1)  # [1] eq. (22)
    shares = np.full(n_classes, 1.0 / n_classes)
    which, label, weight = _sample(laws, shares, n, rng, "hidden_miscalibration")
    errors = _canonical(forecasts, laws, shares)
    errors["ce2"] = math.sqrt(1.0 - 1.0 / (n_classes - 1)) * (1.0 - alpha)  # [1] eq. (26)
    errors |= dict.fromkeys(("tce1", "tce2", "cwce1", "cwce2", "ece", "ks", "mmce"), 0.0)
    return SimulatedForecast(
        "hidden_miscalibration",
        label,
        forecasts[which],
        errors,
        laws[which],
        weight,
        about="top label and single classes are calibrated, the vector is not (proposition 3.2)",
    )


def accuracy_replaced(
    n: int | None = None, *, n_classes: int = 4, accuracy: float = 0.75, spread: float = 0.2, rng: RNG = None
) -> SimulatedForecast:
    """Forecasts whose largest entry was replaced by the overall accuracy (proposition D.2).

    The map keeps the accuracy and makes ECE, KS, TCE and MMCE vanish, but the model is right more often for some
    classes than for others, which the forecasts no longer say.

    Parameters
    ----------
    n : int, optional
        Rows to draw; None gives the law itself as weighted rows.
    n_classes : int, default 4
    accuracy : float, default 0.75
        Overall accuracy.
    spread : float, default 0.2
        Class accuracies run from ``accuracy − spread`` to ``accuracy + spread``; what is left goes to the next class.
    rng : None, int or Generator

    Returns
    -------
    SimulatedForecast
        `before` holds the calibrated forecasts (equal to `truth`), `y_proba` the mapped ones.

    Examples
    --------
    >>> data = accuracy_replaced()
    >>> data.errors["tce1"], round(data.errors["ce2"], 4)
    (0.0, 0.2934)
    """
    _check(
        n_classes,
        accuracy,
        1.0 / check_count(n_classes, "n_classes", "accuracy_replaced", 2),
        "accuracy_replaced",
        "accuracy",
    )
    check_number(spread, "spread", "accuracy_replaced", "be a number", "use spread=0.2")
    if not (spread >= 0 and accuracy + spread <= 1 and accuracy - spread >= 0.5):
        raise input_error(
            "spread", "accuracy_replaced", "keep class accuracies between 0.5 and 1", repr(spread), "use spread=0.2"
        )
    eye = np.eye(n_classes)
    each = np.linspace(accuracy - spread, accuracy + spread, n_classes)[:, None]
    laws = each * eye + (1.0 - each) * np.roll(eye, 1, axis=1)
    forecasts = accuracy * eye + (1.0 - accuracy) / (n_classes - 1) * (1.0 - eye)  # [1] t^f of appendix D.4
    shares = np.full(n_classes, 1.0 / n_classes)
    which, label, weight = _sample(laws, shares, n, rng, "accuracy_replaced")
    errors = _canonical(forecasts, laws, shares) | dict.fromkeys(("tce1", "tce2", "ece", "ks", "mmce"), 0.0)
    return SimulatedForecast(
        "accuracy_replaced",
        label,
        forecasts[which],
        errors,
        laws[which],
        weight,
        laws[which],
        about="the largest entry says the overall accuracy: top-label errors vanish (proposition D.2)",
    )


def collapsed(
    n: int | None = None,
    *,
    n_classes: int = 4,
    confident: float = 0.95,
    hesitant: float = 0.55,
    share: float = 0.5,
    rng: RNG = None,
) -> SimulatedForecast:
    """Forecasts made calibrated by forgetting all but the predicted class (appendix E).

    A calibrated model is sometimes confident, sometimes hesitant; the map t(p) = P(Y | argmax p) has only K values.
    It is calibrated and keeps the accuracy, but sharpness is lost (proposition E.2).

    Parameters
    ----------
    n : int, optional
        Rows to draw; None gives the law itself as weighted rows.
    n_classes : int, default 4
    confident, hesitant : float, default 0.95 and 0.55
        The two probabilities of the predicted class before the map.
    share : float, default 0.5
        How often the model is confident.
    rng : None, int or Generator

    Returns
    -------
    SimulatedForecast
        `errors` are all 0 and add ``sharpness_before`` and ``sharpness_after`` of the Brier score.

    Examples
    --------
    >>> data = collapsed()
    >>> round(data.errors["sharpness_before"], 4), round(data.errors["sharpness_after"], 4)
    (0.3867, 0.3333)
    """
    check_share(share, "share", "collapsed", "0.5")
    check_count(n_classes, "n_classes", "collapsed", 2)
    _check(n_classes, hesitant, 1.0 / n_classes, "collapsed", "hesitant")
    _check(n_classes, confident, 1.0 / n_classes, "collapsed", "confident")
    eye = np.eye(n_classes)

    def around(top: float) -> Floats:
        return np.asarray(top * eye + (1.0 - top) / (n_classes - 1) * (1.0 - eye))

    mean = share * confident + (1.0 - share) * hesitant
    laws = np.concatenate([around(confident), around(hesitant)])
    forecasts = np.concatenate([around(mean), around(mean)])  # [1] eq. (48)
    shares = np.repeat([share / n_classes, (1.0 - share) / n_classes], n_classes)
    which, label, weight = _sample(laws, shares, n, rng, "collapsed")

    def sharpness(top: float) -> float:
        return float(((around(top)[0] - 1.0 / n_classes) ** 2).sum())  # d(P_Y, P(Y|f)) of the Brier score, P_Y uniform

    errors = dict.fromkeys(("ce1", "ce2", "tce1", "tce2", "cwce1", "cwce2", "ece", "ks", "mmce"), 0.0)
    errors["sharpness_before"] = share * sharpness(confident) + (1.0 - share) * sharpness(hesitant)
    errors["sharpness_after"] = sharpness(mean)
    return SimulatedForecast(
        "collapsed",
        label,
        forecasts[which],
        errors,
        forecasts[which],
        weight,
        laws[which],
        about="calibrated by forgetting: K distinct forecasts, less sharp (appendix E)",
    )
