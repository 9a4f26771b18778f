"""The one-dimensional problem of temperature scaling, solved for β = 1/T by safeguarded Newton."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.calibrators._scores import Scores
from calibrant.core import fast
from calibrant.core.links import row_max
from calibrant.core.parallel import map_chunks

#: Rows per block of one fused pass: a block and its exponentials stay in the second-level cache.
BLOCK_VALUES = 1 << 16
#: Newton stops when a step moves β by less than this fraction; what is left is of the order of its square.
STEP_TOLERANCE = 1e-7
MAX_STEPS = 100
#: Above twice this many rows a strided sample finds the start, in single precision like the passes after it.
SAMPLE = 2048
#: Above this many scores passes in single precision are worth their own start, unless scores are farther apart.
SINGLE_SCORES, SINGLE_WIDTH = 1 << 14, 1e4
#: Up to this many classes sums over the classes run column by column.
FEW_COLUMNS = 32
SAMPLE_TOLERANCE = 1e-2
#: What a score costs here, against one look at a number: several passes with an exponential each.
_WORTH = 15
SINGLE_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Sums:
    """Weighted sums over rows of the loss and its first two derivatives in β."""

    loss: float
    slope: float
    curve: float


def blocks(scores: Scores) -> list[slice]:
    """Row slices of about BLOCK_VALUES scores."""
    step = max(1, BLOCK_VALUES // scores.n_classes)
    return [slice(i, min(i + step, scores.n)) for i in range(0, scores.n, step)]


def nll_sums(z: Floats, codes: Ints, weights: Floats, smooth: float, beta: float) -> Sums:
    """Negative log-likelihood of softmax(βz): log-sum-exp, mean and variance of the logits per row.

    d/dβ = E_q[z] − z_y and d²/dβ² = Var_q[z] with q = softmax(βz), so the loss is convex in β.
    `smooth` shares that much of each label evenly over the classes.
    """
    if z.shape[1] > FEW_COLUMNS:
        d = z - row_max(z)[:, None]
        total = partial(np.einsum, "ij->i")
        target = d[np.arange(len(d)), codes].astype(np.float64)
    else:  # short rows are added column by column
        d = np.array(z.T, order="C")
        d -= d.max(axis=0)
        total = partial(np.add.reduce, axis=0)
        target = d[codes, np.arange(len(z))].astype(np.float64)
    e = z.dtype.type(beta) * d
    np.exp(e, out=e)
    mass = total(e).astype(np.float64)
    e *= d
    mean = total(e) / mass
    e *= d
    second = total(e) / mass
    if smooth:
        target = (1 - smooth) * target + smooth * total(d) / z.shape[1]
    loss = np.log(mass) - beta * target
    return Sums(float(weights @ loss), float(weights @ (mean - target)), float(weights @ (second - mean * mean)))


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


def fused_kernel(scores: Scores) -> Callable[..., Sums] | None:
    """Return the compiled twin of `nll_sums` (same numbers) if numba is installed and the matrix is large."""
    found = fast.kernel("nll_pass", _WORTH * scores.n * scores.n_classes)
    if found is None:
        return None
    nll_pass = found

    def kernel(z: Array, codes: Ints, weights: Floats, smooth: float, beta: float) -> Sums:
        tidy = (np.ascontiguousarray(array) for array in (z, codes, weights))
        return Sums(*nll_pass(*tidy, smooth, beta))

    return kernel


def total_sums(
    kernel: Callable[..., Sums],
    scores: Scores,
    codes: Ints,
    weights: Floats,
    smooth: float,
    beta: float,
    *,
    single: bool = False,
) -> Sums:
    """One pass over the matrix on all cores; nothing of size (n, K) is kept.

    `single` reads the logits in float32: faster for NumPy, which then only gets close; the compiled
    kernel widens each value itself.
    """

    def visit(rows: slice) -> Sums:
        z = scores.single_block(rows) if single else scores.block(rows)
        return kernel(z, codes[rows], weights[rows], smooth, beta)

    parts = list(map_chunks(visit, blocks(scores)))
    return Sums(sum(p.loss for p in parts), sum(p.slope for p in parts), sum(p.curve for p in parts))


def spread(scores: Scores, codes: Ints) -> tuple[float, bool]:
    """Largest distance of a logit from the peak of its row, and whether every truth is a peak (separable)."""

    def visit(rows: slice) -> tuple[float, bool]:
        z = scores.matrix[rows] if scores.space == "logit" else scores.block(rows)  # comparing needs no float64
        peak = row_max(z)
        return float((peak - z.min(axis=1)).max()), bool((z[np.arange(len(z)), codes[rows]] >= peak).all())

    parts = list(map_chunks(visit, blocks(scores)))
    return max(width for width, _ in parts), all(right for _, right in parts)


def solve(
    sums: Callable[[float], Sums], start: float, low: float, high: float, tolerance: float = STEP_TOLERANCE
) -> tuple[float, bool]:
    """Find the β in [low, high] where the slope changes sign, by Newton kept inside a shrinking bracket.

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
        proposal = beta - now.slope / now.curve if now.curve > 0 else np.nan
        if not left < proposal < right:  # leave the bracket: halve it (in the logarithm) instead
            if now.slope == 0:
                return beta, True
            proposal = float(np.sqrt(left * right))
            if now.curve > 0:  # a long step outwards is cut to a factor of 8 first
                proposal = min(max(proposal, beta / 8), beta * 8)
        if abs(proposal - beta) <= tolerance * beta:
            return float(proposal), low * (1 + 1e-6) < proposal < high * (1 - 1e-6)
        beta = float(proposal)
    return beta, False
