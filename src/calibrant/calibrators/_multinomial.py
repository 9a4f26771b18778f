"""Penalized multinomial regression on scores: softmax(Wx + b), full or diagonal, solved by Newton.

Objective: weighted mean negative log-likelihood + Σ R∘(θ − θ₀)². It is convex; with R > 0 everywhere
the optimum is unique and finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core.links import row_max
from calibrant.core.parallel import map_chunks, row_chunks

#: Largest number of free numbers for which the Hessian is formed and factorized.
DENSE = 1000
#: The gradient of the final fit ends below this, entry by entry.
GRADIENT_TOLERANCE = 1e-8
#: The same for one of many similar fits that are only compared.
WARM_TOLERANCE = 1e-6
MAX_STEPS = 200
#: Products with a Hessian that is not formed per step; how many are too many without its blocks, and their least rows.
MAX_PRODUCTS, MANY_PRODUCTS, BLOCK_ROWS = 200, 9, 20
#: Multiplications those blocks may cost if every row counted; above, they are summed over a strided sample of the rows.
BLOCK_WORK = 40_000_000_000
#: The block of a class sums the rows that weigh so many times the mean; the others count like the mean block.
NOTABLE = 1.4
#: Where the Hessian is not formed, a full step that promised less than this fraction of the loss is the last.
PROMISE = 1e-8
#: Scores larger than this are fitted in a unit of their own: beyond, every probability is 0 or 1 at the start.
LARGE_SCORE, MODEST_SCORE = 1e3, 30.0


def score_unit(x: Floats) -> float:
    """Return what scores are divided by before a fit: 1, unless they are very large."""
    largest = float(np.abs(x).max()) if x.size else 0.0
    return 1.0 if largest <= LARGE_SCORE else largest / MODEST_SCORE


def log_likelihood(logits: Floats, codes: Ints, weights: Floats) -> float:
    """Return the weighted sum of −log q_y and turn the logits into q, the softmax of each row."""
    rows = np.arange(len(logits))
    logits -= row_max(logits)[:, None]
    truth = logits[rows, codes]
    np.exp(logits, out=logits)
    mass = logits.sum(axis=1)
    logits /= mass[:, None]
    return float(weights @ (np.log(mass) - truth))


@dataclass
class Penalized:
    """Multinomial likelihood plus Σ penalty·(θ − center)²: what a map adds is its logits, slopes and curvature."""

    x: Floats
    codes: Ints
    weights: Floats
    penalty: Floats
    center: Floats

    #: Up to how many parameters the Hessian is factorized.
    dense: ClassVar[int] = DENSE
    #: What a map adds: logits of parameters (into an array), slopes by parameter from those by logit, curvature.
    _logits: ClassVar[Any]
    _collect: ClassVar[Any]
    _hessian: ClassVar[Any]
    _preconditioner: ClassVar[Any]

    def __post_init__(self) -> None:
        self.n, self.k = self.x.shape
        self.codes, self.weights = np.ascontiguousarray(self.codes, np.int64), np.ascontiguousarray(self.weights, float)
        self.share = self.weights / self.weights.sum()
        #: The share of every row, where all are equal: then sums are multiplied by it once.
        self.unit = float(self.share[0]) if np.ptp(self.share) == 0 else 0.0
        self.chunks = row_chunks(self.n, 8 * self.k)
        self.q = np.empty((self.n, self.k))  # one array for every pass: fresh memory costs as much as the numbers
        self._at: Any = None
        self._single: Any = None, *np.empty((2, self.n, self.k), np.float32)
        self.products = 0

    def evaluate(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient; keeps q for the direction, and all of it while θ stays and the penalty changes."""
        if self._at is None or not np.array_equal(theta, self._at[0]):
            self._at = theta.copy(), *self._likelihood(theta)
        _, loss, slopes = self._at
        off = theta - self.center
        return loss + float((self.penalty * off * off).sum()), slopes + 2 * self.penalty * off

    def _likelihood(self, theta: Floats) -> tuple[float, Floats]:
        """Return the loss without the penalty and its slopes; keeps q."""

        def visit(rows: slice) -> tuple[float, Floats]:
            q, codes = self._logits(theta, rows, self.q[rows]), self.codes[rows]
            loss = log_likelihood(q, codes, self.share[rows])
            truth = np.arange(len(q)), codes
            own = q[truth]
            q[truth] -= 1
            slopes = self._collect(q, rows)
            q[truth] = own
            return loss, slopes

        losses, slopes = zip(*map_chunks(visit, self.chunks), strict=True)
        return sum(losses), np.sum(slopes, axis=0) * (self.unit or 1.0)

    def _shared(self, slopes: Floats, rows: slice) -> Floats:
        """Return slopes times the shares of their rows, or as they are where all are equal."""
        return slopes if self.unit else slopes * self.share[rows, None].astype(slopes.dtype)

    def direction(self, gradient: Floats, accuracy: float) -> Floats:
        """Return −H⁻¹g: by Cholesky when small, else by conjugate gradients."""
        if gradient.size <= self.dense:
            return -_solve(self._hessian(), gradient.ravel()).reshape(gradient.shape)
        step, count = conjugate_gradients(self._product, self._preconditioner(), gradient, accuracy)
        self.products = max(self.products, count)
        return -step

    def single(self) -> Array:
        """Return q in single precision."""
        if self._single[0] is not self._at:
            list(map_chunks(lambda rows: np.copyto(self._single[1][rows], self.q[rows]), self.chunks))
            self._single = self._at, *self._single[1:]
        return self._single[1]

    def _product(self, v: Floats) -> Floats:
        """Return H v; a direction needs few digits, so the rows are read in single precision."""
        chances, narrow, moves = self.single(), v.astype(np.float32), self._single[2]

        def visit(rows: slice) -> Floats:
            moved = self._logits(narrow, rows, moves[rows])
            moved -= np.einsum("ij,ij->i", chances[rows], moved)[:, None]
            moved *= chances[rows]
            return self._collect(moved, rows)

        parts = list(map_chunks(visit, self.chunks))
        return np.asarray(np.sum(parts, axis=0, dtype=np.float64) * (self.unit or 1.0) + 2 * self.penalty * v)


@dataclass
class Affine(Penalized):
    """Full matrix and intercept: θ = [W | b] of shape (K, K + 1), logits = [x, 1] θ'."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.wide = np.concatenate([self.x, np.ones((self.n, 1))], axis=1)
        self.narrow = self.wide.astype(np.float32)
        self.squares = self.narrow * self.narrow * self.share[:, None].astype(np.float32)
        self._bend: Any = None
        self._blocks: Any = None

    def _logits(self, theta: Floats, rows: slice, out: Floats) -> Floats:
        return np.matmul((self.wide if out.dtype == float else self.narrow)[rows], theta.T, out=out)

    def _collect(self, slopes: Floats, rows: slice) -> Floats:
        return np.asarray(self._shared(slopes, rows).T @ (self.wide if slopes.dtype == float else self.narrow)[rows])

    def _hessian(self) -> Floats:
        if self._bend is None or self._bend[0] is not self._at:
            self._bend = self._at, self._curvature()
        flat = self._bend[1].copy()
        flat[np.diag_indices(len(flat))] += 2 * self.penalty.ravel()
        return np.asarray(flat)

    def _curvature(self) -> Floats:
        """Return the Hessian of the likelihood alone."""
        k, d = self.k, self.k + 1
        hessian = np.zeros((k, d, k, d))
        step = max(256, (1 << 21) // (k * d))
        for start in range(0, self.n, step):
            rows = slice(start, start + step)
            q, wide = self.q[rows], self.wide[rows]
            weighted = q * np.sqrt(self.share[rows])[:, None]
            outer = (weighted[:, :, None] * wide[:, None, :]).reshape(len(q), k * d)
            hessian -= (outer.T @ outer).reshape(hessian.shape)  # a symmetric product: half the work
            np.divide(weighted, q, out=weighted, where=q > 0)
            outer = (np.sqrt(q) * weighted)[:, :, None] * wide[:, None, :]
            for i in range(k):
                hessian[i, :, i, :] += outer[:, i].T @ outer[:, i]
        return hessian.reshape(k * d, k * d)

    def _preconditioner(self) -> Any:
        """Divide by the Hessian's diagonal, or solve the blocks of the classes where that takes many products."""
        d = self.k + 1
        rows = min(self.n, BLOCK_WORK // (self.k * d * d))
        if self.products > MANY_PRODUCTS and rows >= BLOCK_ROWS * d:
            if self._blocks is None or self._blocks[0] is not self.penalty:
                self._blocks = self.penalty, self._class_blocks(slice(None, None, self.n // rows))
            inverse, halves = self._blocks[1], np.array_split(np.arange(self.k), 2)

            def solve(r: Floats, c: Ints) -> Floats:
                return np.asarray(inverse[c[0] : c[-1] + 1] @ r[c, :, None].astype(np.float32))[:, :, 0]

            return lambda r: np.concatenate(list(map_chunks(partial(solve, r), halves)), dtype=np.float64)

        chances, moves = self.single(), self._single[2]

        def visit(rows: slice) -> Floats:
            np.subtract(1, chances[rows], out=moves[rows])
            moves[rows] *= chances[rows]
            return np.asarray(moves[rows].T @ self.squares[rows])

        diagonal = np.sum(list(map_chunks(visit, self.chunks)), axis=0) + 2 * self.penalty
        return lambda r: r / diagonal

    def _class_blocks(self, some: slice) -> Floats:
        """Return the inverse of the Hessian's block of every class, in single precision, from some rows."""
        x, chances, share = self.narrow[some], self.single()[some], self.share[some, None] / self.share[some].sum()
        bend = np.ascontiguousarray(((1 - chances) * chances * share.astype(np.float32)).T)
        doubtful = x * np.sqrt(bend.sum(axis=0))[:, None]
        mean = (doubtful.T @ doubtful).astype(np.float64) / max(float(bend.sum(dtype=np.float64)), 1e-300)

        def visit(c: int) -> Floats:
            mass = float(bend[c].sum(dtype=np.float64))
            here = np.flatnonzero(bend[c] * np.float32(len(x)) >= np.float32(NOTABLE * mass))
            scaled = x[here] * np.sqrt(bend[c, here])[:, None]
            block = (scaled.T @ scaled) + max(mass - float(bend[c, here].sum(dtype=np.float64)), 0.0) * mean
            block[np.diag_indices(len(block))] += 2 * self.penalty[c] + 1e-9 * np.trace(block) / len(block) + 1e-300
            return np.linalg.inv(block).astype(np.float32)

        return np.stack(list(map_chunks(visit, range(self.k))))


@dataclass
class Diagonal(Penalized):
    """One scale and one shift per class: θ = [a, b] of shape (2, K), logits = a∘x + b."""

    dense: ClassVar[int] = DENSE // 2

    def _logits(self, theta: Floats, rows: slice, out: Floats) -> Floats:
        return np.add(np.multiply(theta[0], self.x[rows], out=out), theta[1], out=out)

    def _collect(self, slopes: Floats, rows: slice) -> Floats:
        shared = self._shared(slopes, rows)
        return np.stack([np.einsum("ij,ij->j", shared, self.x[rows]), shared.sum(axis=0)])

    def _preconditioner(self) -> Any:
        bend = self.q * self.share[:, None] * (1 - self.q)
        diagonal = np.stack([np.einsum("ij,ij,ij->j", bend, self.x, self.x), bend.sum(axis=0)]) + 2 * self.penalty
        return lambda r: r / diagonal

    def _hessian(self) -> Floats:
        k = self.k

        def visit(rows: slice) -> tuple[Floats, Floats]:
            root, x = np.sqrt(self.share[rows]), self.x[rows]
            both = np.empty((len(x), 2 * k))
            chances, moved = both[:, k:], both[:, :k]
            np.multiply(self.q[rows], root[:, None], out=chances)
            np.multiply(chances, x, out=moved)
            return np.asarray(both.T @ both), np.append(root @ both, root @ (moved * x)).reshape(3, k)

        products, sums = zip(*map_chunks(visit, self.chunks), strict=True)
        cross, plain, square = (np.diag(each) for each in np.sum(sums, axis=0))
        own = np.block([[square, cross], [cross, plain]])
        return np.asarray(own - np.sum(products, axis=0) + 2 * np.diag(self.penalty.ravel()))


def _solve(hessian: Floats, gradient: Floats) -> Floats:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    scale = float(np.trace(hessian)) / len(hessian)
    for ridge in (1e-14, 1e-11, 1e-8, 1e-4, 1.0):  # rounding may cost definiteness in flat directions
        try:
            factor = cho_factor(hessian + ridge * scale * np.eye(len(hessian)), lower=True)
        except LinAlgError:
            continue
        return np.asarray(cho_solve(factor, gradient))
    return gradient / scale


def conjugate_gradients(product: Any, precondition: Any, gradient: Floats, accuracy: float) -> tuple[Floats, int]:
    """Solve H x = g by preconditioned conjugate gradients to a relative residual of `accuracy`; count the products."""
    x = np.zeros_like(gradient)
    residual = gradient.copy()
    z = precondition(residual)
    p = z.copy()
    energy = float((residual * z).sum())
    goal = accuracy * accuracy * energy
    count = 0
    while count < MAX_PRODUCTS:
        count += 1
        along = product(p)
        bend = float((p * along).sum())
        if not bend > 0:
            break
        step = energy / bend
        x += step * p
        residual -= step * along
        z = precondition(residual)
        new = float((residual * z).sum())
        if new <= goal:
            break
        p *= new / energy
        p += z
        energy = new
    return x, count


def minimize(
    problem: Penalized | Any, start: Floats, tolerance: float = GRADIENT_TOLERANCE, steps: int = MAX_STEPS
) -> tuple[Floats, float, bool]:
    """Newton with backtracking on an `evaluate` and a `direction`; returns θ, objective and whether it converged."""
    theta = start
    value, gradient = problem.evaluate(theta)
    first = float(np.abs(gradient).max())
    for _ in range(steps):
        size = float(np.abs(gradient).max())
        if size <= tolerance:
            return theta, value, True
        accuracy = min(0.1, max(np.sqrt(size / max(first, 1e-300)) * 0.1, 1e-4))
        direction = problem.direction(gradient, accuracy)
        slope = float((gradient * direction).sum())
        if not slope < 0:
            direction, slope = -gradient, -float((gradient * gradient).sum())
        step = 1.0
        while step > 1e-12:
            trial = theta + step * direction
            new, new_gradient = problem.evaluate(trial)
            if new <= value + 1e-4 * step * slope + 1e-15 * abs(value):
                break
            step *= 0.5
        else:  # no descent left at working precision
            problem.evaluate(theta)
            return theta, value, size <= 1e3 * tolerance
        theta, value, gradient = trial, new, new_gradient
        if step == 1.0 and accuracy < 0.01 and theta.size > DENSE and -slope <= PROMISE * abs(value):
            return theta, value, True
    return theta, value, False


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products on one thread: after each, a second one takes a core for 30 ms, waiting for more work."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> Any:
    """Find the loaded BLAS libraries once; looking takes longer than a small fit."""
    import scipy.linalg  # noqa: F401  # loads the library the solvers use
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
