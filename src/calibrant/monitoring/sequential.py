"""An anytime-valid test of calibration: bets against "t is Bernoulli(s)" whose wealth is a martingale under it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calibrant._typing import Floats
from calibrant.core.cells import bounds
from calibrant.core.tables import Table

__all__ = ["BETS", "STEEPEST", "log_evalue", "log_increments"]

_SIZES = tuple(2.0**-k for k in range(11))
#: Bets, fixed for all time: a shift of every log-odds by ± size, or a factor 1 ± size on the log-odds.
BETS = tuple((kind, sign * size) for kind in ("shift", "slope") for size in _SIZES for sign in (1.0, -1.0))
#: Largest log-odds a bet on the slope uses.
STEEPEST = 8.0


def log_increments(table: Table, tolerance: float = 0.0) -> Floats:
    """Return the gain in log-wealth of every bet on one day's cells.

    A bet with tilt λ(cell) multiplies its wealth by exp(λt)/(1 + q(e^λ − 1)) at each row. If
    P(t = 1 | s) = s (within `tolerance`), that factor has mean ≤ 1 for q = s ± tolerance, so wealth is a
    supermartingale [1]_. Cells know only the mean score; log(1 + q(e^λ − 1)) is concave in s, so by
    Jensen's inequality the mean score never overstates the wealth: the test stays valid, slightly slower.

    References
    ----------
    .. [1] Shafer (2021), "Testing by betting", JRSS A 184; Ville (1939), Étude critique de la notion de collectif.
    """
    low, high = bounds(table)
    center = np.clip(0.5 * (low + high), 1e-9, 1 - 1e-9)
    odds = np.clip(np.log(center / (1 - center)), -STEEPEST, STEEPEST)
    score = np.clip(table.ws / table.w, 0.0, 1.0)
    gains = np.empty(len(BETS))
    for place, (kind, size) in enumerate(BETS):
        tilt = np.full(len(score), size) if kind == "shift" else size * odds
        bound = np.clip(np.where(tilt > 0, score + tolerance, score - tolerance), 0.0, 1.0)
        gains[place] = float((tilt * table.wt - table.w * np.log1p(bound * np.expm1(tilt))).sum())  # [1] sec. 2
    return gains


def log_evalue(gains: Sequence[Floats]) -> Floats:
    """Return the log e-value after each day: the mean wealth over all bets and all starting days.

    The fraction 1/(j(j + 1)) of the money is held back until day j and then spread over the bets, so that a
    break after years is seen as well as one on the first day; a mixture of supermartingales is one itself,
    hence P(ever ≥ log 1/α) ≤ α under calibration.

    Examples
    --------
    >>> log_evalue([np.full(len(BETS), 1.0), np.full(len(BETS), 2.0)]).round(2).tolist()
    [0.62, 2.45]
    """
    out = np.empty(len(gains))
    bets = len(gains[0]) if gains else 0
    running = np.zeros(bets)
    started = np.full(bets, -np.inf)  # log Σ_j π_j·exp(−wealth before day j)
    for day, gain in enumerate(gains, start=1):
        started = np.logaddexp(started, -math.log(day * (day + 1.0)) - running)
        running = running + gain
        each = np.append(running + started - math.log(bets), -math.log(day + 1.0))
        out[day - 1] = np.logaddexp.reduce(each)
    return out


def threshold(alpha: float) -> float:
    """Return the log e-value that raises the alarm."""
    return math.log(1.0 / alpha)
