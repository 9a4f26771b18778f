"""Inner loops for numba (`calibrant[fast]`): plain functions and their types, compiled one by one when first used.

Only `calibrant.core.fast` loads this module. Every loop repeats a NumPy path elsewhere, which stays the reference: the
same operations in the same order where sums are kept, so switching it on or off moves no number beyond its last bits.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import boolean, float64, int32, int64, uint64, void

from calibrant import _compiled_bins as bins

_F4, _F8, _VECTOR, _read = bins.F4, bins.F8, bins.VECTOR, bins.read
SLACK = 2.0**-24
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # trailing zeros, so that k·_LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5·2⁵²: adding it leaves a whole number in the low bits
_BIAS = 1023 << 52
_HALF_ROOT = 0x3FE6A09E667F3BCD  # bits of √½
#: Sums may be reordered; the numbers have been checked for nan. (numba renews machine code when its own file changes.)
_REORDER, _CHECKED = {"reassoc", "contract", "nsz"}, {"reassoc", "contract", "nsz", "nnan"}


@numba.njit(inline="never")  # type: ignore[untyped-decorator]  # numba has no types
def _exp(x: float) -> float:
    """Return e^x for x ≤ 0 to the last bit or two; below −708 it counts as −708.

    x = k·ln 2 + r with |r| ≤ ln(2)/2; the series of e^r to r¹³ has an error of 1e-17.
    """
    x = max(x, -708.0)
    k = np.floor(x * _LOG2_E + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    high = (((1.0 / 6227020800.0 * r + 1.0 / 479001600.0) * r + 1.0 / 39916800.0) * r + 1.0 / 3628800.0) * r
    low = ((((high + 1.0 / 362880.0) * r + 1.0 / 40320.0) * r + 1.0 / 5040.0) * r + 1.0 / 720.0) * r + 1.0 / 120.0
    series = ((((low * r + 1.0 / 24.0) * r + 1.0 / 6.0) * r + 0.5) * r + 1.0) * r + 1.0
    bits = np.int64((np.float64(k + _ROUND).view(np.int64) << 52) + _BIAS)
    power = np.int64(bits).view(np.float64)
    return series * power


@numba.njit(inline="never", fastmath=False, error_model="numpy")  # type: ignore[untyped-decorator]  # in this order
def _log(x: float) -> float:
    """Return the logarithm of a positive normal number to the last bit or two.

    x = 2^k·(1 + f), √½ ≤ 1 + f < √2; log(1 + f) = 2·artanh(f/(2 + f)) by a fitted series (FreeBSD's e_log.c).
    """
    bits = np.float64(x).view(np.int64) + (_BIAS - _HALF_ROOT)
    k = np.float64((bits >> 52) - 1023)
    f = np.int64((bits & ((1 << 52) - 1)) + _HALF_ROOT).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    low = 1.818357216161805012e-01 + z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01)
    series = z * (2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * low))
    series = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + series))
    half = 0.5 * f * f
    return s * (half + series) + k * _LN2_LOW - half + f + k * _LN2_HIGH


def nll_pass(z: Any, codes: Any, weights: Any, peaks: Any, smooth: float, beta: float, out: Any) -> None:
    """Add the loss of temperature scaling over some rows and its first eight derivatives to `out`."""
    moments, cumulants = np.empty(8), np.empty(8)
    n, k = z.shape
    below, mass_at = np.empty(k), np.empty(k)
    for i in range(n):
        row, peak = z[i], peaks[i]
        mass, m1, m2, m3, m4, m5, m6, m7, m8, total = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(k):
            below[j] = np.float64(row[j]) - peak
            mass_at[j] = _exp(beta * below[j])
        for j in range(k):  # apart from the exponentials, whose coefficients take up the registers
            e, d = mass_at[j], below[j]
            d2 = d * d
            d3, d4 = d2 * d, d2 * d2
            mass, m1, m2, m3, m4 = mass + e, m1 + e * d, m2 + e * d2, m3 + e * d3, m4 + e * d4
            e *= d4
            m5, m6, m7, m8 = m5 + e * d, m6 + e * d2, m7 + e * d3, m8 + e * d4
            total += d
        moments[:] = m1, m2, m3, m4, m5, m6, m7, m8
        target = (1.0 - smooth) * (np.float64(row[codes[i]]) - peak) + smooth * total / k
        out[0] += weights[i] * (np.log(mass) - beta * target)
        for a in range(8):
            moments[a] /= mass
            value, ways = moments[a], 1.0
            for b in range(a):
                value -= ways * cumulants[b] * moments[a - 1 - b]
                ways *= (a - b) / (b + 1.0)
            cumulants[a] = value
            out[a + 1] += weights[i] * (value if a else value - target)


def vector_pass(x: Any, codes: Any, share: Any, theta: Any, q: Any, slopes: Any) -> float:
    """Return the loss of softmax(a∘x + b) over some rows, fill q, and add its slopes by a and b to `slopes`."""
    loss = 0.0
    n, k = x.shape
    e = np.empty(k)
    for i in range(n):
        row, out, weight, code = x[i], q[i], share[i], codes[i]
        for j in range(k):
            e[j] = theta[0, j] * row[j] + theta[1, j]
        peak = e[0]
        for j in range(1, k):
            peak = e[j] if e[j] > peak else peak
        truth, mass = e[code] - peak, 0.0
        for j in range(k):
            e[j] = _exp(e[j] - peak)
            mass += e[j]
        loss += weight * (np.log(mass) - truth)
        for j in range(k):
            out[j] = e[j] / mass
            slopes[0, j] += weight * out[j] * row[j]
            slopes[1, j] += weight * out[j]
        slopes[0, code] -= weight * row[code]
        slopes[1, code] -= weight
    return loss


def softmax_pass(logits: Any, codes: Any, share: Any) -> float:
    """Return the loss of some rows and turn their logits into probabilities."""
    loss = 0.0
    n, k = logits.shape
    for i in range(n):
        row, total, peak = logits[i], 0.0, logits[i, 0]
        for j in range(1, k):
            peak = row[j] if row[j] > peak else peak
        truth = row[codes[i]] - peak
        for j in range(k):
            row[j] = _exp(row[j] - peak)
            total += row[j]
        loss += share[i] * (np.log(total) - truth)
        for j in range(k):
            row[j] /= total
    return loss


def curve_pass(
    stretch: Any, s: Any, codes: Any, weights: Any, pieces: Any, bias: Any, mass: Any, by_row: Any, by_class: Any
) -> float:
    """Return the loss of softmax(f(u) + b) over some rows; fill w·q, its sums of s^m by row and those by class.

    m is below 3 by row and stretch, `by_row` of shape (n, 3T), and below 5 by class and stretch, `by_class` (K, 5T).
    """
    loss = 0.0
    n, k = s.shape
    for i in range(n):
        e, total, peak = mass[i], 0.0, -np.inf
        for j in range(k):
            t, x = stretch[i, j], s[i, j]
            e[j] = pieces[0, t] + x * (pieces[1, t] + x * pieces[2, t]) + bias[j]
            peak = e[j] if e[j] > peak else peak
        truth = e[codes[i]] - peak
        for j in range(k):
            e[j] = _exp(e[j] - peak)
            total += e[j]
        loss += weights[i] * (np.log(total) - truth)
        share, own = weights[i] / total, by_row[i]
        for j in range(k):
            e[j] *= share
            t, x, there = np.uint64(stretch[i, j]), s[i, j], by_class[j]
            first = e[j] * x
            second = first * x
            third = second * x
            own[3 * t] += e[j]
            own[3 * t + 1] += first
            own[3 * t + 2] += second
            there[5 * t] += e[j]
            there[5 * t + 1] += first
            there[5 * t + 2] += second
            there[5 * t + 3] += third
            there[5 * t + 4] += third * x
    return loss


def ready_pass(raw: Any, label: Any, classes: int, tolerance: float, out: Any, good: Any) -> int:
    """Check rows, clip their scores, find the top one, and put those that count side by side (`engines.ready`)."""
    k, kept, most, step = len(raw), 0, max(classes, 2) - 1.0, 1024
    total, top, usable, wide = np.empty(step), np.empty(step), np.empty(step), len(out) > 2
    for start in range(0, len(label), step):  # column by column, so that several rows are worked on at a time
        n, best = min(step, len(label) - start), out[0, kept : kept + step]
        for i in range(n):
            y = label[start + i]
            usable[i] = 1.0 if (y >= 0.0) & (y <= most) & (y == np.floor(y)) else 0.0
            total[i], top[i], best[i] = 0.0, 0.0, -1.0
        for j in range(k):
            for i in range(n):
                v = np.float64(raw[j, start + i])
                total[i] += v
                usable[i] = usable[i] if (v >= -tolerance) & (v <= 1.0 + tolerance) else 0.0
            for i in range(n):
                v = min(max(np.float64(raw[j, start + i]), 0.0), 1.0)
                top[i] = float(j) if v > best[i] else top[i]
                best[i] = max(best[i], v)
            for i in range(n if wide and k > 1 else 0):
                out[3 + j, kept + i] = min(max(np.float64(raw[j, start + i]), 0.0), 1.0)
        for i in range(n if k > 1 else 0):
            usable[i] = usable[i] if abs(total[i] - 1.0) <= tolerance else 0.0
        for i in range(n if classes and k == 1 else 0):
            one, zero = best[i], np.float64(raw.dtype.type(1.0 - best[i]))
            if wide:
                out[3, kept + i], out[4, kept + i] = zero, one
            best[i], top[i] = max(one, zero), 1.0 if one > zero else 0.0
        for i in range(n):
            out[1, kept + i] = (1.0 if label[start + i] == top[i] else 0.0) if classes else label[start + i]
        for i in range(n if wide else 0):
            out[2, kept + i] = label[start + i]
        rows = 0
        for i in range(n):
            good[start + i] = usable[i] > 0.0
            rows += usable[i] > 0.0
        for j in range(len(out) if rows < n else 0):
            place = kept
            for i in range(n):
                out[j, place] = out[j, kept + i]
                place += np.int64(usable[i])
        kept += rows
    return kept


def cell_pass(
    score: Any, label: Any, group: float, slots: Any, grid: int, parts: int, octave: float, deep: float, n: Any, s: Any
) -> int:
    """Add rows, hits (label = group) and scores to dense cells of slots (`calibrant.engines.dense._Cells`)."""
    size, step = grid + 2 * (parts - 1), 2048
    cells, places, seen = np.empty(step, np.int32), np.empty(step, np.int64), np.int64(0)
    for start in range(0, len(score), step):
        rows = min(step, len(score) - start)
        for i in range(rows):
            c = np.int32(np.ceil((score[start + i] - SLACK) * grid)) - 1
            cells[i] = min(max(c, 0), grid - 1) + parts - 1
        for i in range(rows):
            cell = np.int64(cells[i])
            if cell == parts - 1 or cell == grid + parts - 2:
                near = score[start + i] if cell == parts - 1 else 1.0 - score[start + i]
                rank = np.floor(octave * (np.log2(near) + deep) + 1e-6) + 1.0 if near > 0.0 else 0.0
                depth = np.int64(min(max(rank, 0.0), parts - 1.0))
                cell = depth if cell == parts - 1 else cell + parts - 1 - depth
            places[i] = cell
        if len(slots):
            for i in range(rows):
                places[i] += slots[start + i] * size
            for i in range(rows):  # reads bring the cells near, many at once
                seen ^= n[places[i], 0]
        for i in range(rows):
            cell = places[i]
            n[cell, 0] += 1 + (np.int64(label[start + i] == group) << 32)
            s[cell, 1] += score[start + i]
    return seen


def tape_pass(code: Any, columns: Any, work: Any, outputs: Any, slots: Any, sums: Any) -> None:
    """Run a tape over columns, a few rows at a time, and add up its outputs, by slots if there are any."""
    n, tile = columns.shape[1], work.shape[1]
    for start in range(0, n, tile):
        size = min(tile, n - start)
        for j in range(len(columns)):
            work[j, :size] = columns[j, start : start + size]
        for line in range(len(code)):
            op, o = code[line, 0], code[line, 1]
            a, b, c = code[line, 2], code[line, 3], code[line, 4]  # places: counting references to views takes longer
            if op == 0:
                for i in range(size):
                    work[o, i] = work[a, i] + work[b, i]
            elif op == 1:
                for i in range(size):
                    work[o, i] = work[a, i] - work[b, i]
            elif op == 2:
                for i in range(size):
                    work[o, i] = work[a, i] * work[b, i]
            elif op == 3:
                for i in range(size):
                    work[o, i] = work[a, i] / work[b, i]
            elif op == 4:
                for i in range(size):
                    work[o, i] = 1.0 if work[a, i] > work[b, i] else 0.0
            elif op == 5:
                for i in range(size):
                    work[o, i] = 1.0 if work[a, i] >= work[b, i] else 0.0
            elif op == 6:
                for i in range(size):
                    work[o, i] = work[a, i] if work[a, i] > work[b, i] else work[b, i]
            elif op == 7:
                for i in range(size):
                    work[o, i] = work[a, i] if work[a, i] < work[b, i] else work[b, i]
            elif op == 8:
                for i in range(size):
                    yes, no = work[b, i], work[c, i]  # both are read, so that several rows are worked on at a time
                    work[o, i] = yes if work[a, i] > 0.0 else no
            elif op == 9:
                for i in range(size):
                    work[o, i] = np.exp(work[a, i])
            elif op == 10:
                odd = 0
                for i in range(size):
                    work[o, i] = _log(work[a, i])
                    odd += work[a, i] < 2.3e-308 or not work[a, i] < 1.7e308
                for i in range(size if odd else 0):
                    work[o, i] = np.log(work[a, i])
            elif op == 11:
                for i in range(size):
                    work[o, i] = np.sqrt(work[a, i])
            else:
                for i in range(size):
                    work[o, i] = 1.0 if work[a, i] == work[b, i] else 0.0
        for i in range(size if len(slots) else 0):
            for j in range(len(outputs)):
                sums[slots[start + i], j] += work[outputs[j], i]
        for j in range(0 if len(slots) else len(outputs)):
            total = 0.0
            for i in range(size):
                total += work[outputs[j], i]
            sums[0, j] += total


def walk_pass(
    count: Any, p: Any, low: Any, high: Any, we: Any, own: Any, uniform: Any, angle: Any, places: Any, by: Any, out: Any
) -> None:
    """Draw the residuals of table rows and follow them (`calibrant.core.resampling.SharedOrder.walk`)."""
    size, widest = uniform.shape[1], 0
    for j in range(len(p)):
        widest = max(widest, np.int64(high[j] - low[j]) + 1)
    law, ordered, step = np.empty(widest), np.empty(size), np.empty(size + 1)
    far, end, first, second, square, group = out[0], out[1], out[2], out[3], out[4], out[5]
    for j in range(len(p)):
        width, odds = np.int64(high[j] - low[j]) + 1, p[j] / (1.0 - p[j])
        top = np.int64(min(max(np.floor((count[j] + 1.0) * p[j]), low[j]), high[j]) - low[j])
        law[top] = 1.0
        for c in range(top + 1, width):
            law[c] = law[c - 1] * ((count[j] - (low[j] + c) + 1.0) / (low[j] + c) * odds)
        for c in range(top - 1, -1, -1):
            law[c] = law[c + 1] * ((low[j] + c + 1.0) / ((count[j] - (low[j] + c)) * odds))
        for c in range(1, width):
            law[c] += law[c - 1]
        total, place = law[width - 1], 0
        turn = abs(angle[j])
        start = np.searchsorted(uniform[j], 1.0 - turn, side="right")
        for i in range(size):
            at = start + i
            sought = uniform[j, at] + (turn - 1.0) if at < size else uniform[j, at - size] + turn
            while place < width - 1 and law[place] < sought * total:
                place += 1
            ordered[i] = low[j] + place - we[j]
        step[0] = own[j]
        base, sign = (0, 1) if angle[j] >= 0.0 else (size - 1, -1)
        for i in range(size):
            step[i + 1] = ordered[base + sign * places[j, i]]
        one, two, close = by[0, j], by[1, j], by[2, j]
        for i in range(size + 1):
            end[i] += step[i]
            far[i] = max(far[i], abs(end[i]))
            first[i] += step[i] * one
            second[i] += step[i] * two
            group[i] += step[i]
        if close >= 0.0:
            for i in range(size + 1):
                square[i] += group[i] * group[i] * close
                group[i] = 0.0


def search_pass(law: Any, lowest: Any, guide: Any, drawn: Any) -> None:
    """Replace numbers j + u, column j, by the smallest value whose cumulative law, row j, exceeds them."""
    last, steps = law.shape[1] - 1, guide.shape[1]
    for i in range(drawn.shape[0]):
        for j in range(drawn.shape[1]):
            sought = drawn[i, j]
            place = guide[j, min(np.int64((sought - j) * steps), steps - 1)]
            while place < last and law[j, place] <= sought:
                place += 1
            drawn[i, j] = lowest[j] + min(place, last)


def hash_pass(matrix: Any, grid: float, places: Any, out: Any, ends: Any) -> None:
    """Add up rows of scores rounded to a grid (`calibrant.core.fingerprint.row_hashes`).

    Where `ends` have room they get the smallest and largest of each row, or nan if one is not finite.
    """
    k, base = matrix.shape[1], np.float64(_ROUND).view(np.uint64)
    lanes = min(k, 32)
    low, high = np.empty(lanes, matrix.dtype), np.empty(lanes, matrix.dtype)
    for i in range(len(matrix)):
        row, total, odd = matrix[i], np.uint64(0), np.uint64(0)
        for j in range(k):
            bits = np.float64(np.float64(row[j]) * grid + _ROUND).view(np.uint64)
            total += bits * places[j]
            odd |= bits ^ base
        out[i] = total
        if ends.shape[1]:
            low[:] = high[:] = row[:lanes]
            for start in range(lanes, k, lanes):  # several at a time; some of the last ones twice
                part = row[min(start, k - lanes) :]
                for j in range(lanes):
                    low[j], high[j] = min(low[j], part[j]), max(high[j], part[j])
            finite = not odd >> np.uint64(52) or np.isfinite(row).all()
            ends[0, i], ends[1, i] = (low.min(), high.max()) if finite else (np.nan, np.nan)


def tile_pass(a: Any, b: Any, square: Any, product: Any, scale: float, near: float, negligible: float) -> float:
    """Return Σ_ij exp(−‖a_i − b_j‖₂·scale)·product_ij, given squared distances that keep few digits below `near`."""
    rows, columns = square.shape
    total = 0.0
    for i in range(rows):
        least = square[i, 0]
        for j in range(columns):
            least = min(least, square[i, j])
        if least < near:
            for j in range(columns):
                if square[i, j] < near and abs(product[i, j]) > negligible:
                    exact = 0.0
                    for c in range(a.shape[1]):
                        exact += (a[i, c] - b[j, c]) ** 2
                    square[i, j] = exact
        for j in range(columns):
            total += product[i, j] * _exp(-scale * np.sqrt(max(square[i, j], 0.0)))
    return total


#: Types of the arguments and what may be reordered, by kernel.
_TYPES: dict[str, tuple[list[Any], set[str]]] = {
    "nll_pass": (
        [void(z, _read(int64), _VECTOR, _VECTOR, float64, float64, float64[::1]) for z in (_F4, _F8)],
        _CHECKED,
    ),
    "vector_pass": ([float64(_F8, _read(int64), _VECTOR, _F8, *[float64[:, ::1]] * 2)], _CHECKED),
    "softmax_pass": ([float64(float64[:, ::1], _read(int64), _VECTOR)], _CHECKED),
    "curve_pass": (
        [float64(_read(int64, 2), _F8, _read(int64), _VECTOR, _F8, _VECTOR, *[float64[:, ::1]] * 3)],
        _CHECKED,
    ),
    "ready_pass": (
        [int64(p, _VECTOR, int64, float64, float64[:, ::1], boolean[::1]) for p in (_F4, _F8)],
        set(),
    ),
    "cell_pass": (
        [int64(_VECTOR, _VECTOR, float64, _read(int64), *[int64] * 2, *[float64] * 2, int64[:, ::1], float64[:, ::1])],
        set(),
    ),
    "tape_pass": ([void(_read(int64, 2), _F8, float64[:, ::1], *[_read(int64)] * 2, float64[:, ::1])], _REORDER),
    "walk_pass": ([void(*[_VECTOR] * 6, _F8, _VECTOR, _read(int32, 2), _F8, float64[:, ::1])], set()),
    "search_pass": ([void(_F8, _VECTOR, _read(int64, 2), float64[:, ::1])], set()),
    "hash_pass": ([void(z, float64, _read(uint64), uint64[::1], float64[:, :]) for z in (_F4, _F8)], set()),
    "tile_pass": ([float64(_F8, _F8, float64[:, ::1], _F8, float64, float64, float64)], _CHECKED),
    **bins.TYPES,
}


@functools.cache
def compiled(name: str) -> Callable[..., Any]:
    """Return a kernel, compiled for its types; the machine code stays on disk for later runs."""
    types, flags = _TYPES[name]
    function = getattr(bins if name in bins.TYPES else sys.modules[__name__], name)
    model = "numpy" if name == "tape_pass" else "python"  # Python looks at every divisor, one row at a time
    options: dict[str, Any] = {"nogil": True, "fastmath": flags or False, "error_model": model}
    try:
        return numba.njit(types, cache=True, **options)(function)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(types, **options)(function)
