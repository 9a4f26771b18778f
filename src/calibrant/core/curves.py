"""Curves of the recalibrated frequency against the score: kernel density, local, isotonic, smooth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant._typing import Floats
from calibrant.core.parallel import map_chunks, row_chunks
from calibrant.core.pav import pav
from calibrant.core.tables import sum_by

#: Grid of the kernel density estimate: wide enough for the mirrored samples (as published).
_KDE_LOW, _KDE_HIGH = -0.6, 1.6
#: How exactly the bandwidth of the smooth error solves its equation.
_SMOOTH_TOLERANCE = 1e-11


def _linear_binning(score: Floats, scale: float, shift: float, weights: Callable[[slice], Floats], m: int) -> Floats:
    """Share each weight between the two grid points around the position score·scale + shift, above −1, in chunks."""

    def visit(rows: slice) -> Floats:
        position = score[rows] * scale
        position += shift
        weight = weights(rows)
        low = np.clip(position.astype(np.int64), 0, m - 2)
        upper = np.clip(position - low, 0.0, 1.0)
        upper *= weight
        return np.stack([np.bincount(low, weight - upper, m), np.bincount(low, upper, m)])

    total = np.zeros((2, m))
    for part in map_chunks(visit, row_chunks(len(score))):
        total += part
    total[0, 1:] += total[1, :-1]
    return np.asarray(total[0])


@dataclass(frozen=True, slots=True)
class KDECurves:
    """Density of the scores and frequency of the outcome on a grid over [0, 1]."""

    grid: Floats
    density: Floats
    frequency: Floats

    def integrate(self, norm: float) -> float:
        """Return ∫ |s − π̂(s)|^p p̂(s) ds / ∫ p̂(s) ds by the trapezoid rule: a mean, so it lies in [0, 1].

        A point without density counts for nothing. (The published code repeats the integrand of the left neighbor
        below a density of 1e-6: the same for a wide kernel, but a narrow one, as for tied scores, ends within a grid
        step, and the repeated value was large.)
        """
        integrand = np.abs(self.grid - self.frequency) ** norm * self.density
        mass = float(np.trapezoid(self.density, self.grid))
        return float(np.trapezoid(integrand, self.grid)) / mass if mass > 0 else 0.0


def _spread(score: Floats, weight: Floats) -> float:
    total = weight.sum()
    if total <= 0 or np.ptp(score[weight > 0]) == 0:  # one score has no spread, whatever the mean is rounded to
        return 0.0
    mean = (weight * score).sum() / total
    return math.sqrt(max(0.0, (weight * (score - mean) ** 2).sum() / total))


def kde_half_width(score: Floats, w: Floats, wt: Floats, bandwidth: str | float, step: float, n: float) -> float:
    """Return the half-width of the triweight kernel for weights that stand for `n` rows; at least four grid steps.

    ``"published"`` counts the bandwidth as the kernel's standard deviation, a third of the half-width.
    Without spread among the scores with outcome 1 all scores are used.
    """
    if bandwidth == "published":
        width = 3.0 * (_spread(score, wt) or _spread(score, w)) * (2.0 * n) ** -0.2
    elif bandwidth == "text":
        width = 1.06 * _spread(score, w) * n**-0.2  # [1] appendix C as printed
    else:
        width = float(bandwidth)
    return max(width, 4.0 * step)


def kde_curves(
    score: Floats, w: Floats, wt: Floats, bandwidth: str | float, grid: int, n: float | None = None
) -> KDECurves:
    """Estimate p̂(s) and π̂(s) with a triweight kernel and samples mirrored at the nearer end.

    The bandwidth is that of `n` rows, by default the sum of the weights.

    References
    ----------
    [1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, eq. (6) and appendix C.
    """
    x = np.linspace(_KDE_LOW, _KDE_HIGH, grid)
    step = (_KDE_HIGH - _KDE_LOW) / (grid - 1)
    half = kde_half_width(score, w, wt, bandwidth, step, float(w.sum()) if n is None else n)
    both = np.concatenate([score, np.where(score < 0.5, -score, 2.0 - score)])
    reach = math.ceil(half / step)
    u = np.arange(-reach, reach + 1) * step / half
    kernel = np.where(np.abs(u) < 1, 35.0 / 32.0 * (1 - u * u) ** 3, 0.0) / half
    length = 1 << (grid + len(kernel) - 2).bit_length()
    response = np.fft.rfft(kernel, length)

    def smooth(weight: Floats) -> Floats:
        mass = _linear_binning(both, 1.0 / step, -_KDE_LOW / step, np.concatenate([weight, weight]).__getitem__, grid)
        full = np.fft.irfft(np.fft.rfft(mass, length) * response, length)
        return np.maximum(full[reach : reach + grid], 0.0)

    inside = (x > 0) & (x < 1)
    total = float(w.sum())
    density = smooth(w)[inside] / total
    joint = smooth(wt)[inside] / total
    frequency = np.minimum(np.divide(joint, density, out=np.zeros_like(joint), where=density > 0), 1.0)
    return KDECurves(x[inside], density, frequency)


def local_curve(score: Floats, w: Floats, wt: Floats, decay: float, points: int = 101) -> tuple[Floats, Floats]:
    """Return the grid k/100 and the exponentially weighted frequency there, one pass from each side.

    References
    ----------
    [1] Nixon et al. (2019), "Measuring Calibration in Deep Learning", section 7 and appendix.
    """
    steps = points - 1
    place = score * steps
    # the first grid point q with s ≤ q up to rounding; at 0 there is none: only s = 0 lies there
    right_end = np.clip(np.ceil(place - 1e-9), place > 0, steps).astype(np.int64)
    from_left = decay ** np.maximum(right_end - place, 0.0)
    from_right = decay ** np.maximum(place - (right_end - 1), 0.0)

    def pass_over(values: Floats) -> tuple[Floats, Floats]:
        left = sum_by(right_end, values * from_left, points)
        right = sum_by(right_end, values * from_right, points + 1)[..., 1:]  # s > q belongs to the point below it
        right = np.concatenate([right[..., :steps], np.zeros_like(right[..., :1])], axis=-1)
        for i in range(1, points):  # carry(q + 0.01) = decay · carry(q) + what lies between
            left[..., i] += decay * left[..., i - 1]
            right[..., steps - i] += decay * right[..., steps - i + 1]
        return left, right

    left_w, right_w = pass_over(w)
    left_t, right_t = pass_over(wt)
    left = left_t / np.where(left_w > 0, left_w, 1.0)
    right = right_t / np.where(right_w > 0, right_w, 1.0)
    both = 0.5 * (left + right)
    curve = np.where(left_w <= 0, right, np.where(right_w <= 0, left, both))
    return np.arange(points) / steps, curve


def isotonic_curve(w: Floats, wt: Floats) -> Floats:
    """Return the non-decreasing frequency closest to wt/w in weighted squares (PAV)."""
    return np.asarray(pav(wt / w, w))


def smooth_error(score: Floats, residual: Callable[[slice], Floats], grid: int, total: float) -> float:
    """Return σ with Σ|K_σ * residual|/total = σ for the Gaussian kernel reflected at 0 and 1.

    On the midpoints of a grid reflection is what a cosine transform does, so smoothing is one product.

    References
    ----------
    [1] Błasiok & Nakkiran (2023), "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing", sec. 3.
    """
    from scipy.fft import dct, idct

    mass = _linear_binning(score, grid, -0.5, residual, grid) / total
    spectrum = dct(mass, type=2)
    frequency = np.pi * np.arange(grid)

    def error(sigma: float) -> float:
        return float(np.abs(idct(spectrum * np.exp(-0.5 * (frequency * sigma) ** 2), type=2)).sum())

    # error(σ) falls, so error(σ) − σ falls at least as fast as −σ: a value ε away from 0 is at most ε from the root
    low, high = 0.0, 1.0
    above, below = error(low), error(high) - high
    if above <= _SMOOTH_TOLERANCE:
        return low
    side = 0
    for _ in range(100):
        middle = (low * below - high * above) / (below - above)  # false position, Illinois variant
        value = error(middle) - middle
        if abs(value) <= _SMOOTH_TOLERANCE:
            return middle
        if value > 0:
            low, above, below, side = middle, value, below / 2 if side > 0 else below, 1
        else:
            high, below, above, side = middle, value, above / 2 if side < 0 else above, -1
    return 0.5 * (low + high)
