"""Before against after on the same rows: how much a repair helped, with a paired interval."""

from __future__ import annotations

import math

import numpy as np

from calibrant._typing import ArrayLike, Floats, Space
from calibrant.core.inputs import check_flag, check_forecast
from calibrant.core.options import check_share
from calibrant.core.results import Difference, Interval
from calibrant.scores.errors import row_scores
from calibrant.scores.rules import ProperScore, as_score

__all__ = ["calibration_gain", "improvement", "paired_difference"]


def paired_difference(
    name: str, before: Floats, after: Floats, weights: Floats | None, *, level: float = 0.95, exact: bool = False
) -> Difference:
    """Compare two columns of row scores: mean difference with normal interval and two-sided p-value.

    Integer weights equal repeated rows. Without a finite mean or with a single row there is no interval.

    Examples
    --------
    >>> found = paired_difference("brier", np.array([0.5, 0.4, 0.6]), np.array([0.3, 0.3, 0.3]), None)
    >>> round(found.change, 3)
    0.2
    """
    w = np.ones(len(before)) if weights is None else weights
    used = w > 0
    w, before, after = w[used], before[used], after[used]
    total = float(w.sum())
    mean_before, mean_after = float(np.dot(w, before) / total), float(np.dot(w, after) / total)
    with np.errstate(invalid="ignore"):
        gap = before - after
    change = mean_before - mean_after
    if not math.isfinite(change) or total <= 1:
        return Difference(name, mean_before, mean_after, change, None, None, exact)
    from scipy.special import ndtr, ndtri

    error = math.sqrt(float(np.dot(w, (gap - change) ** 2)) / (total - 1.0) / total)
    half = float(ndtri(0.5 + 0.5 * level)) * error
    ratio = abs(change) / error if error > 0 else math.inf if change else 0.0
    pvalue = float(2.0 * ndtr(-ratio))
    interval = Interval(change, change - half, change + half, level, "normal", round(total))
    return Difference(name, mean_before, mean_after, change, interval, pvalue, exact)


def improvement(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    *,
    score: ProperScore | str = "brier",
    injective: bool | None = None,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> Difference:
    """Tell how much a proper score fell from one forecast to the other, row by row.

    Positive change = improved. If the map from `before` to `after` is one-to-one (temperature scaling and its kin),
    the change *is* that of the proper calibration error; otherwise sharpness may have changed too and the value is
    only a lower bound of the gain in calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class indices, or any labels with `classes`.
    before, after : array-like of shape (n, K) or (n,)
        Two forecasts of the same rows; rows that fitted the map must not be among them.
    score : ProperScore or str, default "brier"
        The score that is compared.
    injective : bool, optional
        Whether different forecasts stay different under the map; None means unknown. Decides `exact`.
    level : float, default 0.95
        Level of the interval.
    sample_weight, classes, space
        As everywhere; weights must be whole numbers, because rows are counted.

    Returns
    -------
    Difference
        With name, before, after, change, interval, pvalue, exact.

    Notes
    -----
    U(before) − U(after) = CE(before) − CE(after) for one-to-one maps [1]. Normal theory on the paired differences:
    change ± z·s/√n and p = 2Φ(−|change|·√n/s). O(n·K).

    References
    ----------
    [1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores", NeurIPS, proposition 4.5.

    Examples
    --------
    >>> gain = improvement([1, 0, 1, 0], [0.9, 0.8, 0.9, 0.7], [0.8, 0.6, 0.9, 0.5], injective=True)
    >>> round(gain.change, 4), gain.exact
    (0.245, True)
    """
    caller = "improvement"
    check_share(level, "level", caller)
    if injective is not None:
        check_flag(injective, "injective", caller)
    rule = as_score(score, caller)
    rows = []
    for forecast in (before, after):
        checked = check_forecast(
            y_true, forecast, caller=caller, sample_weight=sample_weight, classes=classes, space=space
        )
        rows.append(row_scores(checked, rule))
    checked.need_counts("the interval")
    return paired_difference(rule.name, rows[0], rows[1], checked.weights, level=level, exact=bool(injective))


def calibration_gain(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    *,
    injective: bool | None = None,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
) -> Difference:
    """Return the calibration gain: by how much a map lowers the squared canonical error CE₂².

    Positive = improved. Exact for one-to-one maps, a lower bound in expectation for others.

    Parameters
    ----------
    y_true, before, after, injective, level, sample_weight, classes, space
        As in `improvement`.

    Returns
    -------
    Difference

    Notes
    -----
    (1/n) Σ (‖z − e_y‖² − ‖T(z) − e_y‖²) [1]: the improvement of the Brier score.

    References
    ----------
    [1] Zhang, Kailkhura & Han (2020), "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty Calibration",
        ICML, eq. (7)-(8).

    Examples
    --------
    >>> round(calibration_gain([1, 0], [0.9, 0.8], [0.8, 0.6]).change, 4)  # (0.02 + 1.28 − 0.08 − 0.72)/2
    0.25
    """
    return improvement(
        y_true,
        before,
        after,
        score="brier",
        injective=injective,
        level=level,
        sample_weight=sample_weight,
        classes=classes,
        space=space,
    )
