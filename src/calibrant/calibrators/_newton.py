"""The one-dimensional problem of temperature scaling, solved for β = 1/T by safeguarded Newton."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import comb, factorial
from typing import Any, Self, TypeVar

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.calibrators._scores import Scores
from calibrant.core.links import FEW_COLUMNS, row_max
from calibrant.core.parallel import map_chunks

T = TypeVar("T")

#: Scores per block of one pass, which stays in the second-level cache: of few classes, of many, and of raw logits.
FEW_VALUES, BLOCK_VALUES, RAW_VALUES = 1 << 15, 1 << 16, 1 << 18
#: Scores up to which one thread is faster than starting more, and logarithms are taken once for all passes.
ALONE = 1 << 16
#: The search stops when a step, or the last term of its series, moves β by less than this fraction.
STEP_TOLERANCE = 1e-8
MAX_STEPS = 100
#: A strided sample of so many rows finds the start of one of so many, or of a twelfth of the rows.
SAMPLES = (128, 1024)
SAMPLE_TOLERANCE = 1e-2
#: Derivatives of the loss from one pass.
ORDER = 8
#: Values of β that are looked at where the loss may have more than one valley, each twice the one before.
DOUBLINGS = 24
#: Binomial coefficients, by which cumulants follow from moments.
WAYS = np.array([[comb(n, i) for i in range(ORDER)] for n in range(ORDER)], dtype=np.float64)
#: Sums over the classes of numbers and of products, where a class is a row of the array or a column.
_BY_COLUMN: Any = (partial(np.add.reduce, axis=0), partial(np.einsum, "ij,ij->j"))
_BY_ROW: Any = (partial(np.einsum, "ij->i"), np.vecdot)


@dataclass(frozen=True)
class Sums:
    """Weighted sums over rows of the loss and its derivatives in β, the first two and those above them."""

    loss: float
    slope: float
    curve: float
    more: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Take the loss and its derivatives in order."""
        loss, slope, curve, *more = map(float, values)
        return cls(loss, slope, curve, tuple(more))


def each_block(visit: Callable[[slice], T], scores: Scores, values: int = 0) -> list[T]:
    """Visit all blocks, on all cores if that pays."""
    return list(map_chunks(visit, blocks(scores, values), 1 if scores.matrix.size <= ALONE else None))


def blocks(scores: Scores, values: int = 0) -> list[slice]:
    """Equal row slices of at most about so many scores."""
    values = values or (FEW_VALUES if scores.n_classes <= FEW_COLUMNS else BLOCK_VALUES)
    step = max(1, -(-scores.n // max(1, -(-scores.matrix.size // values))))
    return [slice(i, min(i + step, scores.n)) for i in range(0, scores.n, step)]


def nll_sums(z: Array, codes: Ints, weights: Floats, smooth: float, beta: float, peaks: Array | None = None) -> Sums:
    """Negative log-likelihood of softmax(βz) and its derivatives: the cumulants of the logits per row.

    d/dβ = E_q[z] − z_y and d²/dβ² = Var_q[z] with q = softmax(βz), so the loss is convex in β; the next ones are the
    further cumulants of z under q. `smooth` shares that much of each label evenly over the classes.
    """
    n, k = z.shape
    peaks = np.asarray(row_max(z) if peaks is None else peaks, dtype=np.float64)
    target, mass, moments = z[np.arange(n), codes] - peaks, np.empty(n), np.empty((ORDER, n))
    few = k <= FEW_COLUMNS  # short rows are added column by column, long ones a few at a time
    step, total, product = (n, *_BY_COLUMN) if few else (max(1, FEW_VALUES // k), *_BY_ROW)
    room = np.empty(3 * step * k + 7)  # used from a whole cache line on: loads across two take twice as long
    room = room[-room.ctypes.data // 8 % 8 :][: 3 * step * k].reshape((3, k, n) if few else (3, step, k))
    for rows in (slice(start, min(start + step, n)) for start in range(0, n, step)):
        d, e, square = room if few else room[:, : rows.stop - rows.start]
        np.copyto(d, z.T if few else z[rows])
        d -= peaks if few else peaks[rows, None]
        np.exp(np.multiply(d, beta, out=e), out=e)
        mass[rows] = total(e)
        np.multiply(d, d, out=square)
        for i in range(0, ORDER, 2):
            if i:
                e *= square
            moments[i, rows], moments[i + 1, rows] = product(e, d), product(e, square)
        if smooth:
            target[rows] = (1 - smooth) * target[rows] + smooth * total(d) / k
    slopes = cumulants(moments / mass)
    slopes[0] -= target
    return Sums.of([float(weights @ (np.log(mass) - beta * target)), *(slopes @ weights)])


def cumulants(moments: Floats) -> Floats:
    """Return the cumulants that belong to raw moments of order 1, 2, …, one column per distribution."""
    found = np.array(moments)
    for n in range(1, len(found)):
        found[n] -= WAYS[n, :n] @ (found[:n] * moments[n - 1 :: -1])
    return found


def brier_sums(z: Floats, codes: Ints, weights: Floats, smooth: float, beta: float) -> Sums:
    """Squared error of softmax(βz) summed over classes, and its derivatives.

    With c = z − E_q[z]: dq = q·c and d²q = q·(c² − Var_q[z]).
    """
    rows = np.arange(len(z))
    d = z - z.max(axis=1)[:, None]
    q = np.exp(beta * d)
    q /= q.sum(axis=1)[:, None]
    c = d - np.einsum("ij,ij->i", q, d)[:, None]
    first = q * c
    variance = np.einsum("ij,ij->i", first, c)
    gap = q if not smooth else q - smooth / z.shape[1]
    truth = 1.0 - smooth
    c_y, f_y = c[rows, codes], first[rows, codes]
    loss = np.einsum("ij,ij->i", gap, gap) - 2 * truth * gap[rows, codes] + truth * truth
    slope = 2 * (np.einsum("ij,ij->i", gap, first) - truth * f_y)
    bend = first * c
    bend -= q * variance[:, None]
    curve = 2 * (
        np.einsum("ij,ij->i", first, first)
        + np.einsum("ij,ij->i", gap, bend)
        - truth * (f_y * c_y - q[rows, codes] * variance)
    )
    return Sums(float(weights @ loss), float(weights @ slope), float(weights @ curve))


def doubled_errors(first: float, scores: Scores, codes: Ints, weights: Floats, smooth: float) -> Floats:
    """Squared errors but for a constant at β = first, 2·first, 4·first, …: all in one pass, as exp(2βz) = exp(βz)²."""

    def visit(rows: slice) -> Floats:
        d = np.array(scores.block(rows).T, order="C")
        d -= d.max(axis=0)
        e = np.exp(first * d)
        here, mass, found = (codes[rows], np.arange(d.shape[1])), e.sum(axis=0), np.empty((DOUBLINGS, d.shape[1]))
        for each in found:
            truth = e[here] / mass
            e *= e
            square = e.sum(axis=0)
            each[:] = square / mass**2 - 2 * (1 - smooth) * truth
            mass = square
        return np.asarray(found @ weights[rows])

    return np.asarray(np.sum(each_block(visit, scores), axis=0))


def valleys(low: float, high: float, *given: Any) -> list[tuple[float, float, float]]:
    """Return a β in every valley of the squared error between two bounds, and those that hold the valley."""
    grid = 10 * low * 2.0 ** (np.arange(2 * DOUBLINGS) / 2)
    errors = np.stack([doubled_errors(first, *given) for first in grid[:2]], axis=1)
    errors, ends = np.pad(errors.ravel(), 1, constant_values=np.inf), [low, *grid.tolist(), high]
    lower = (errors[1:-1] < errors[:-2]) & (errors[1:-1] <= errors[2:])
    return [(ends[i + 1], ends[i], ends[i + 2]) for i in np.flatnonzero(lower)]


def total_sums(scores: Scores, codes: Ints, weights: Floats, smooth: float, beta: float, *, loss: str = "nll") -> Sums:
    """One pass over the matrix on all cores; nothing of size (n, K) is kept."""
    raw = scores.space == "logit" == scores.view and loss == "nll"

    def visit(rows: slice) -> Sums:
        z = scores.matrix[rows] if raw else scores.block(rows)
        given = z, codes[rows], weights[rows]
        if loss != "nll":
            return brier_sums(*given, smooth, beta)
        peaks = scores.ends[1, rows] if raw and scores.ends is not None else row_max(z)
        return nll_sums(*given, smooth, beta, peaks)

    parts = each_block(visit, scores, RAW_VALUES if raw and scores.n_classes > FEW_COLUMNS else 0)
    return Sums.of(np.sum([[part.loss, part.slope, part.curve, *part.more] for part in parts], axis=0))


def samples(n: int) -> list[slice]:
    """Return strided slices of n rows, from few to all: each gives the next one its start."""
    few = [one for one in (SAMPLES[0], max(SAMPLES[1], n // 12)) if n > 4 * one]
    return [*(slice(None, None, n // one) for one in few), slice(None)]


def search(sums: Callable[[slice, float], Sums], n: int, start: float, low: float, high: float) -> tuple[float, bool]:
    """Solve for all of n rows from the solution for some of them; `sums` takes the rows and β."""
    for some in samples(n):
        if some.step:
            start = solve(partial(sums, some), start, low, high, SAMPLE_TOLERANCE)[0]
            start = min(max(start, 1e2 * low), 1e-2 * high)
    return solve(partial(sums, some), start, low, high)


def spread(scores: Scores, codes: Ints) -> tuple[float, bool]:
    """Largest distance of a logit from the peak of its row, and whether every truth is a peak (separable)."""

    def visit(rows: slice) -> Floats:
        z = scores.block(rows)
        return np.stack([row_max(z, np.minimum), row_max(z), z[np.arange(len(z)), codes[rows]]])

    if scores.ends is None:
        low, peak, truth = np.concatenate(each_block(visit, scores), axis=1)
    else:
        (low, peak), truth = scores.ends, scores.matrix[np.arange(scores.n), codes]
    return float((peak - low).max()), bool((truth >= peak).all())


def _step(now: Sums) -> tuple[float, float]:
    """Return the step to where the slope vanishes, and how far that can be off.

    Newton's step is off by less than its own length. With more derivatives it is the root of the slope's Taylor
    polynomial, off by less than its last term moves it; one that is far from Newton's is not trusted.
    """
    newton = root = -now.slope / now.curve
    terms = [now.slope, now.curve, *(one / factorial(j) for j, one in enumerate(now.more, 2))]
    before = math.inf
    for known in (terms[:-1], terms) if now.more else ():
        before, root = root, newton
        for _ in range(4):  # Newton's method again, on the polynomial
            value = slope = 0.0
            for term in reversed(known):
                slope = slope * root + value
                value = value * root + term
            root -= value / slope if slope > 0 else math.nan
    off = abs(root - before)
    return (root, off) if off <= abs(newton) / 8 else (newton, abs(newton))


def solve(
    sums: Callable[[float], Sums], start: float, low: float, high: float, tolerance: float = STEP_TOLERANCE
) -> tuple[float, bool]:
    """Find the β in [low, high] where the slope changes sign, by steps kept inside a shrinking bracket.

    Returns β and whether the stationary point lies inside (not at an end).
    """
    beta = min(max(start, low), high)
    left, right = low, high
    for _ in range(MAX_STEPS):
        now = sums(beta)
        if now.slope > 0:
            right = beta
        else:
            left = beta
        step, off = _step(now) if now.curve > 0 else (np.nan, np.inf)
        proposal = beta + step
        if not left < proposal < right:  # leave the bracket: halve it (in the logarithm) instead
            if now.slope == 0:
                return beta, True
            proposal = float(np.sqrt(left * right))
            if now.curve > 0:  # a long step outwards is cut to a factor of 8 first
                proposal = min(max(proposal, beta / 8), beta * 8)
            off = abs(proposal - beta)
        if off <= tolerance * beta:
            return float(proposal), low * (1 + 1e-6) < proposal < high * (1 - 1e-6)
        beta = float(proposal)
    return beta, False
