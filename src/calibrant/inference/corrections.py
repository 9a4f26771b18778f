"""Corrections of p-values for the number of tests: Holm's, and step-down maxT on joint draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.inputs import to_array, to_float
from calibrant.errors import input_error

__all__ = ["holm", "holm_known", "ranks", "step_down", "tail_scores", "tails"]

#: Share of the draws that make the tail.
_TAIL = 0.2


def holm(pvalues: Array) -> Floats:
    """Return Holm-corrected p-values: the family-wise error is kept whatever the dependence.

    References
    ----------
    [1] Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    p = to_float(to_array(pvalues, "pvalues", "holm"), "pvalues", "holm").astype(np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise input_error("pvalues", "holm", "be a list of numbers from 0 to 1", repr(pvalues), "leave out the unknown")
    order = np.argsort(p, kind="stable")
    factor = len(p) - np.arange(len(p))
    adjusted = np.minimum(1.0, np.maximum.accumulate(p[order] * factor))
    out = np.empty_like(adjusted)
    out[order] = adjusted
    return out


def holm_known(pvalues: Sequence[float | None]) -> list[float | None]:
    """Return Holm's p-values of those that are known; the others stay None.

    Examples
    --------
    >>> holm_known([0.01, None, 0.5])
    [0.02, None, 0.5]
    """
    adjusted = iter(holm(np.array([p for p in pvalues if p is not None])).tolist())
    return [None if p is None else float(next(adjusted)) for p in pvalues]


def step_down(observed: Floats, draws: Floats) -> Floats:
    """Return step-down maxT p-values: each statistic against the largest draw of all that are not larger than it.

    `observed` has shape (m,), on a common scale; `draws` (m, B) are joint draws under the null hypotheses.

    References
    ----------
    [1] Westfall & Young (1993), Resampling-Based Multiple Testing, algorithm 2.8 for maxT.

    Examples
    --------
    >>> draws = np.array([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]])
    >>> step_down(np.array([4.0, 0.5]), draws).tolist()
    [0.25, 0.75]
    """
    order = np.argsort(-observed, kind="stable")
    largest = np.maximum.accumulate(draws[order][::-1], axis=0)[::-1]  # over the test itself and all smaller ones
    slack = 1e-12 * np.maximum(1.0, np.abs(observed[order]))
    above = (largest >= (observed[order] - slack)[:, None]).sum(axis=1)
    out = np.empty(len(observed))
    out[order] = np.maximum.accumulate((1.0 + above) / (draws.shape[1] + 1.0))
    return out


def tail_scores(observed: Floats, draws: Floats) -> tuple[Floats, Floats]:
    """Put statistics of very different scales on one: minus the logarithm of each one's own tail.

    A slice in which an event comes once in a hundred samples is surprising by that much, however many standard
    deviations it is away; without this, rare slices decide what counts as large for all. The tail is counted in the
    draws, and the last fifth of them taken as exponential where it has many values. Whatever the scores are,
    `step_down` on them keeps its error rate.

    Examples
    --------
    >>> draws = np.array([np.arange(100.0), np.where(np.arange(100) < 99, 0.0, 1e6)])
    >>> score, _ = tail_scores(np.array([200.0, 1e6]), draws)
    >>> bool(score[0] > score[1])
    True
    """
    pool = np.concatenate([observed[:, None], draws], axis=1)  # the observed one is a draw like the others
    scores = tails(pool, *ranks(pool, 1e-12))
    return scores[:, 0], scores[:, 1:]


def ranks(pool: Floats, slack: float) -> tuple[Floats, Ints]:
    """Return each row of values in order, and how many of its values each one exceeds by more than rounding."""
    order, below = np.argsort(pool, axis=1), np.empty(pool.shape, dtype=np.int64)
    ordered = np.take_along_axis(pool, order, axis=1)
    wanted = ordered - slack * np.maximum(1.0, np.abs(ordered))  # in order too: each search begins where one ended
    for place, row, *given in zip(below, order, ordered, wanted, strict=True):
        place[row] = np.searchsorted(*given)
    return ordered, below


def tails(pool: Floats, ordered: Floats, below: Ints) -> Floats:
    """Return the scores of `tail_scores` from ranks."""
    size = pool.shape[1]
    beyond = min(max(int(np.ceil(_TAIL * size)), 10), size)
    scores = -np.log((size - below) / size)
    tail = ordered[:, -beyond:]
    lowest, many = tail[:, :1], (np.diff(tail, axis=1) > 0).mean(axis=1, keepdims=True) > 0.5
    scale = np.where(many, (tail - lowest).mean(axis=1, keepdims=True), 1.0)
    far = many & (pool > lowest)  # many values: an exponential tail from its lowest on
    np.copyto(scores, -np.log(beyond / size) + (pool - lowest) / scale, where=far)
    return np.asarray(scores)
