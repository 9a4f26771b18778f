"""Bets on whole days or whole clusters, for rows that do not come one by one.

Bets per row (`sequential`) take rows as independent given their scores. Rows of one patient, or of one bad day, move
together: then the unit of a bet is the cluster, or the day. Of a unit only this is assumed: that every row's outcome
has the mean its score says (within the tolerance), whatever the other rows of the unit do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.cells import bounds
from calibrant.core.tables import Table
from calibrant.monitoring.sequential import STEEPEST

__all__ = ["UNITS", "UNIT_BETS", "day_increments", "log_detector", "unit_increments"]

#: What a bet is made on.
UNITS = ("row", "day", "cluster")
_FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)
#: Bets, fixed for all time: on which side the outcomes lie (everywhere, or by the log-odds), with which part of the
#: largest stake that cannot be lost whole.
UNIT_BETS = tuple(
    (kind, sign, fraction) for kind in ("shift", "slope") for sign in (1.0, -1.0) for fraction in _FRACTIONS
)


def unit_increments(
    score: Floats, hits: Floats, weight: Floats, unit: Ints, tolerance: float = 0.0, steepness: Floats | None = None
) -> Floats:
    """Return the gain in log-wealth of every bet on rows or cells, whole units at once.

    The mean X = Σw·g·(t − s)/Σw of a unit has mean zero (within tolerance·Σw·abs(g)/Σw) and cannot fall below a bound
    −L that the scores alone say, so 1 + (f/L)·X has mean at most 1 and is never below 1 − f, whatever the dependence
    inside the unit [1]_.

    `score`, `hits` and `weight` are mean score, Σw·t and Σw of each row or cell, `unit` the number of its unit; the
    log-odds of a bet on the slope are taken at `steepness` (cells: their center).

    References
    ----------
    .. [1] Waudby-Smith & Ramdas (2024), Estimating means of bounded random variables by betting, JRSS B 86.

    Examples
    --------
    >>> gains = unit_increments(np.full(4, 0.9), np.zeros(4), np.ones(4), np.zeros(4, dtype=int))
    >>> bool(gains.max() > 0 > gains.min())
    True
    """
    center = np.clip(score if steepness is None else steepness, 1e-9, 1 - 1e-9)
    odds = np.clip(np.log(center / (1 - center)) / STEEPEST, -1.0, 1.0)
    total = np.bincount(unit, weight)
    gains = np.empty(len(UNIT_BETS))
    for place, (kind, sign, fraction) in enumerate(UNIT_BETS):
        g = sign * (np.ones(len(score)) if kind == "shift" else odds)
        allowed = tolerance * np.bincount(unit, weight * np.abs(g)) / total
        moved = np.bincount(unit, g * (hits - weight * score)) / total - allowed
        worst = np.bincount(unit, weight * np.abs(g) * np.where(g > 0, score, 1.0 - score)) / total + allowed
        stake = np.where(worst > 1e-12, fraction / np.maximum(worst, 1e-12), 0.0)
        gains[place] = float(np.log1p(np.maximum(stake * moved, -fraction)).sum())
    return gains


def day_increments(table: Table, tolerance: float = 0.0) -> Floats:
    """Return the gain in log-wealth of every bet on one day as a whole, from its cells."""
    low, high = bounds(table)
    score = np.clip(table.ws / table.w, 0.0, 1.0)
    return unit_increments(score, table.wt, table.w, np.zeros(len(table), dtype=np.int64), tolerance, (low + high) / 2)


def log_detector(gains: Sequence[Floats]) -> Floats:
    """Return the log of the e-detector after each day: the wealth of bets begun on every day so far, added up.

    A break on day 100 meets bets that begin on day 100 with the same money as those of day 1. In exchange the promise
    is one of frequency: a calibrated model reaches the threshold c on average after c days at the earliest [1]_.

    References
    ----------
    .. [1] Shin, Ramdas & Rinaldo (2024), E-detectors: a nonparametric framework for sequential change detection, The
       New England Journal of Statistics in Data Science 2, def. 2.2 and prop. 2.4 (Shiryaev–Roberts form).

    Examples
    --------
    >>> log_detector([np.zeros(3), np.zeros(3), np.zeros(3)]).round(3).tolist()  # nothing happens: the number of days
    [0.0, 0.693, 1.099]
    """
    out = np.empty(len(gains))
    running = np.full(len(gains[0]) if gains else 0, -np.inf)
    for day, gain in enumerate(gains):
        running = np.logaddexp(running, 0.0) + gain
        out[day] = np.logaddexp.reduce(running) - np.log(len(running))
    return out
