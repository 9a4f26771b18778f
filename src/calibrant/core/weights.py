"""What weights mean: counts of equal rows, or relative importance with Kish's effective number of rows."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant._typing import Floats, Ints

__all__ = [
    "MOST_COUNTED", "WeightKind", "are_counts", "effective_n", "effective_weights", "mass_edges", "observations",
    "rows_worth", "safe_weights", "weight_kind"
]  # fmt: skip

#: Counts of equal rows, or importance weights, which matter only relative to one another.
WeightKind: TypeAlias = Literal["frequency", "importance"]

#: Whole numbers count rows up to this sum; beyond it float64 no longer counts.
MOST_COUNTED = 2.0**53
#: Largest weights between these powers of two are left as they are: their squares and sums stay finite and normal.
_SAFE_EXPONENT = 400


def are_counts(weights: Floats | None) -> bool:
    """Whether weights are whole numbers that count rows (or absent: every row counts once)."""
    if weights is None or not len(weights):
        return True
    if float(weights.max()) > MOST_COUNTED or float(weights.sum()) > MOST_COUNTED:
        return False
    return bool((weights == np.floor(weights)).all())


def weight_kind(weights: Floats | None) -> WeightKind:
    """Return how weights are read unless the user says: whole numbers as counts, others as importance."""
    return "frequency" if are_counts(weights) else "importance"


def observations(evidence: Any) -> int:
    """Return the n of an evidence: the sum of weights that count rows, else its rows."""
    return round(evidence.total) if evidence.counts else int(evidence.n)


def safe_weights(weights: Floats) -> Floats:
    """Return weights times a power of two such that sums and squares neither overflow nor vanish.

    Weights in an ordinary range, counts among them, are returned as they are (not a copy). Scaling is exact, so the
    relative sizes stay as given; a weight below 1e-300 of the largest becomes 0.
    """
    largest = float(weights.max()) if len(weights) else 0.0
    _, exponent = np.frexp(largest)
    if abs(int(exponent)) > _SAFE_EXPONENT:
        half = int(exponent) // 2  # two steps: 2**1074 is not a float
        weights, largest = np.asarray(np.ldexp(np.ldexp(weights, -half), half - int(exponent))), 1.0
    if len(weights) and float(weights.min()) < 1e-300 * largest:
        return np.where(weights < 1e-300 * largest, 0.0, weights)
    return weights


def effective_n(weights: Floats | None, n: int) -> float:
    """Return Kish's effective number of rows (Σw)²/Σw²: how many equally weighted rows say as much.

    References
    ----------
    [1] Kish (1965), "Survey Sampling", section 11.7.

    Examples
    --------
    >>> effective_n(np.array([0.5, 0.5, 0.5]), 3), effective_n(np.array([1e300, 1.0]), 2)
    (3.0, 1.0)
    """
    if weights is None:
        return float(n)
    share = _share_of_largest(weights)
    return float(share.sum() ** 2 / (share @ share))  # [1]


def rows_worth(weights: Floats, squares: Floats) -> float:
    """Return for how many rows sums of weights and of their squares stand: their total if counts, else Kish's number.

    Examples
    --------
    >>> rows_worth(np.array([3.0, 1.0]), np.array([5.0, 1.0])), rows_worth(np.array([0.2, 0.1]), np.array([0.02, 0.01]))
    (4.0, 3.0)
    """
    total = float(weights.sum())
    return total if are_counts(weights) else total**2 / float(squares.sum())


def mass_edges(weights: Floats, m: int) -> Ints:
    """Return the places, in a sorted column, of the m − 1 edges of equal mass: the j-th is where j·W/m is reached.

    Equal weights of any size give the edges of equal counts: a sum that misses j·W/m by rounding has reached it.

    Examples
    --------
    >>> mass_edges(np.ones(6), 3), mass_edges(np.full(6, 0.001), 3)
    (array([1, 3]), array([1, 3]))
    """
    reached = np.cumsum(weights) * m
    goal = np.arange(1, m) * (reached[-1] / m)
    return np.searchsorted(reached, goal * (1.0 - 1e-12))


def effective_weights(weights: Floats | None, n: int) -> Floats:
    """Return weights whose sum is the number of rows they are worth: counts as they are, others summing to Kish's n.

    A fit on the result depends on importance weights through their relative sizes and the effective number of rows
    alone: w and c·w give the same. Applying it twice changes nothing.

    Examples
    --------
    >>> effective_weights(np.array([3.0, 1.0]), 2), effective_weights(np.array([0.1, 0.1]), 2)
    (array([3., 1.]), array([1., 1.]))
    >>> effective_weights(np.array([0.3, 0.1]), 2).round(3)  # worth 1.6 rows
    array([1.2, 0.4])
    """
    if weights is None:
        return np.ones(n)
    if are_counts(weights):
        return weights
    share = _share_of_largest(weights)
    return np.asarray(share * (share.sum() / (share @ share)))


def _share_of_largest(weights: Floats) -> Floats:
    safe = safe_weights(weights)
    return np.asarray(safe / safe.max())
