"""A natural cubic spline through the gap between cumulative hits and cumulative score.

The gap is a curve over the fractile of the rows, straight between neighboring scores. The spline closest to it in
∫(v − gap)² is found exactly from a sorted table, so ties, weights and the cells of a summary are one case.
"""

from __future__ import annotations

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.pav import Pieces

#: Scores at which a curve is stored, and rows at which a monotone fit is held to its constraints.
MAX_POINTS = 16_384
MAX_CONSTRAINTS = 512


class NaturalBasis:
    """Natural cubic splines with evenly spaced knots on [0, 1], written in their values at the knots.

    `spline` maps x to the row a(x) with v(x) = a(x)·c for knot values c ([1] appendix C); `gram` is ∫ a aᵀ.
    """

    def __init__(self, n_knots: int) -> None:
        from scipy.interpolate import CubicSpline

        knots = np.linspace(0.0, 1.0, n_knots)
        self.spline = CubicSpline(knots, np.eye(n_knots), bc_type="natural")
        node, weight = np.polynomial.legendre.leggauss(4)  # exact for the products of two cubics
        half = knots[1] / 2
        x = (knots[:-1, None] + half * (node + 1)).ravel()
        rows = self.spline(x)
        self.gram = rows.T @ (rows * np.tile(half * weight, n_knots - 1)[:, None])

    def moments(self, border: Floats, slope: Floats) -> Floats:
        """Return ∫ a(x) D(x) dx for D with D(0) = 0 and the given slope between the borders, by parts."""
        once, twice = self.spline.antiderivative(1), self.spline.antiderivative(2)
        end = slope @ np.diff(border)
        return np.asarray(once(1.0) * end - slope @ np.diff(twice(border), axis=0))

    def mean_slope(self, border: Floats) -> Floats:
        """Return rows b_i with mean of v′ between borders i and i + 1 = b_i·c."""
        low, high = border[:-1], border[1:]
        slope = self.spline.derivative()
        rows = (slope(low) + 4 * slope((low + high) / 2) + slope(high)) / 6  # exact where no knot lies inside
        wide = high - low > 1e-3
        if wide.any():
            rows[wide] = (self.spline(high[wide]) - self.spline(low[wide])) / (high - low)[wide, None]
        return np.asarray(rows)


def fit_curve(
    table: Pieces, n_knots: int, monotone: bool, probability: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return scores, recalibrated scores and knot values of the spline fitted to a sorted, tie-pooled table.

    A row's new score is its score plus the mean slope of the spline over the row's stretch of fractiles. Where the
    table is sorted by something else (log-odds), `probability` gives the scores of its pieces.
    """
    basis = NaturalBasis(n_knots)
    running = np.cumsum(table.weight)
    border = np.append(0.0, running / running[-1])
    place = table.first.astype(np.float64)
    score = place if probability is None else probability
    gap = table.hits / table.weight - score
    coefficients = np.linalg.solve(basis.gram, basis.moments(border, gap))  # [1] section 4.1, on the difference
    rows = basis.mean_slope(border)
    if monotone:
        coefficients = _constrain(basis.gram, coefficients, score, rows)
        fitted = np.clip(np.maximum.accumulate(score + rows @ coefficients), 0.0, 1.0)
    else:
        fitted = score + rows @ coefficients  # [1] proposition 4.1: h′ at the fractile
    keep = _spread(len(score), MAX_POINTS)
    return place[keep], fitted[keep], coefficients


def _spread(n: int, most: int) -> Array:
    """Return at most `most` evenly spread positions of 0 … n−1, both ends among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def _constrain(gram: Floats, free: Floats, score: Floats, rows: Floats) -> Floats:
    """Return the coefficients nearest to the free ones whose new scores never fall and stay in [0, 1].

    minimize (c − free)ᵀ gram (c − free) subject to G c ≥ h: least distance programming, solved exactly through its
    dual, a non-negative least squares problem with one row more than there are knots [2].
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    held = _spread(len(score), MAX_CONSTRAINTS)
    rows, score = rows[held], score[held]
    G = np.concatenate([rows[:1], np.diff(rows, axis=0), -rows[-1:]])
    h = np.concatenate([-score[:1], -np.diff(score), score[-1:] - 1.0])
    short = h - G @ free
    if (short <= 0).all():
        return free
    root = np.linalg.cholesky(gram)
    G = solve_triangular(root, G.T, lower=True).T
    scale = np.maximum(np.linalg.norm(G, axis=1), 1e-12)
    dual, _ = nnls(np.concatenate([(G / scale[:, None]).T, (short / scale)[None]]), np.append(np.zeros(len(free)), 1.0))
    residual = np.append(G.T @ (dual / scale), short @ (dual / scale) - 1.0)
    step = -residual[:-1] / residual[-1]
    return np.asarray(free + solve_triangular(root.T, step, lower=False))
