"""Inner loops of scores, bins and labels (see `calibrant._compiled`, which compiles them)."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import boolean, float32, float64, int32, int64, uint32, uint64, void

SLACK = 2.0**-24
#: Sums may be reordered, which lets them run several at a time; nan keeps its meaning.
REORDER = {"reassoc", "contract", "nsz"}


@numba.njit(nogil=True, fastmath=REORDER)  # type: ignore[untyped-decorator]  # numba has no types
def _survey(bits: Any, values: Any, start: int, size: int, tolerance: float, peaks: Any) -> int:
    """Find the largest bits of each of some rows and return how many rows miss the sum 1 by more than `tolerance`.

    Non-negative floats order like their bits, and a negative one outranks them all; nan makes a sum that misses.
    The last of `peaks` keeps the largest bits of all rows so far.
    """
    bad, highest = 0, peaks[-1]
    for i in range(size):
        row, value = bits[start + i], values[start + i]
        peak, total = row[0], value[0]
        for j in range(1, len(row)):
            peak = max(peak, row[j])
            total += value[j]
        peaks[i] = peak
        bad += not abs(np.float64(total) - 1.0) <= tolerance
    for i in range(size):
        highest = max(highest, peaks[i])
    peaks[-1] = highest
    return bad


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]  # numba has no types
def _high(scores: Any) -> float:
    """Return the last of some scores, or nan if it is negative or −0."""
    return np.nan if np.signbit(scores[-1]) else np.float64(scores[-1])


def top_pass(bits: Any, values: Any, tolerance: float, top: Any, best: Any) -> tuple[int, float]:
    """Find the largest entry of each row; return how many rows miss the sum 1, and the highest entry, or nan.

    nan stands for a negative number, or −0: what is found is wrong then.
    """
    n, k = bits.shape
    step = max(1, min(512, 8192 // k))
    peaks = np.zeros(step + 1, bits.dtype)
    scores, bad = peaks.view(values.dtype), 0
    for start in range(0, n, step):
        size = min(step, n - start)
        bad += _survey(bits, values, start, size, tolerance, peaks)
        for i in range(size):
            row, peak, j = bits[start + i], peaks[i], 0
            while row[j] != peak:
                j += 1
            top[start + i] = j
            best[start + i] = scores[i]
    return bad, _high(scores)


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]  # numba has no types
def _outside(codes: Any, start: int, size: int, k: int) -> bool:
    """Whether one of some codes is no number from 0 to k − 1."""
    highest = np.uint64(0)
    for i in range(size):
        highest = max(highest, np.uint64(codes[start + i]))
    return highest >= np.uint64(k)


def top_bins_pass(bits: Any, values: Any, codes: Any, tolerance: float, m: int, out: Any) -> tuple[int, float]:
    """Check rows as `top_pass` does, and add their confidences to equal-width bins by lane, bin and outcome.

    `out` has shape (lanes·2m, 2). Entries above 1 count as 1. Only a row whose largest entry is at most about a half
    can have two of them. A code that names no class makes a bad row.
    """
    n, k = bits.shape
    step, lanes = max(1, min(512, 8192 // k)), len(out) // (2 * m)
    peaks, hit, slots = np.zeros(step + 1, bits.dtype), np.empty(step, np.int32), np.empty(step, np.int32)
    scores, bad = peaks.view(values.dtype), 0
    for start in range(0, n, step):
        size = min(step, n - start)
        bad += _survey(bits, values, start, size, tolerance, peaks) + _outside(codes, start, size, k)
        if bad:
            break
        for i in range(size):
            hit[i] = bits[start + i, np.uint64(codes[start + i])] == peaks[i]
        for i in range(size):
            if scores[i] <= 0.51 and hit[i]:  # the first of equal entries is the predicted class
                row, peak, earlier = bits[start + i], peaks[i], False
                for j in range(codes[start + i]):
                    earlier |= row[j] == peak
                hit[i] = not earlier
        for i in range(size):
            c = np.int32(np.ceil((min(np.float64(scores[i]), 1.0) - SLACK) * m)) - 1
            slots[i] = 2 * min(max(c, 0), m - 1) + (i & (lanes - 1)) * (2 * m) + hit[i]
        for i in range(size):
            slot = np.uint32(slots[i])
            out[slot, 0] += 1.0
            out[slot, 1] += min(np.float64(scores[i]), 1.0)
    return bad, _high(scores)


def width_pass(bits: Any, score: Any, outcome: Any, m: int, out: Any) -> tuple[int, float]:
    """Count pairs and add their scores by lane, equal-width bin and outcome (`calibrant.core.tables.count_width`).

    `out` has shape (lanes·2m, 2): count and sum lie side by side and are added to at once. Returns whether an outcome
    is neither 0 nor 1, and the highest score, or nan where one is negative, −0 or nan; scores above 1 count as 1.
    """
    n, step, lanes = len(score), 256, len(out) // (2 * m)
    slots, peak, outcomes = np.empty(step, np.int32), bits[:1].copy(), np.uint64(0)
    for start in range(0, n, step):
        part, hit, seen, highest = score[start:], outcome[start:], bits[start:], peak[0]
        size = min(step, n - start)
        for i in range(size):
            highest, outcomes = max(highest, seen[i]), outcomes | np.uint64(hit[i])
            c = np.int32(np.ceil((min(np.float64(part[i]), 1.0) - SLACK) * m)) - 1
            slots[i] = 2 * min(max(c, 0), m - 1) + (i & (lanes - 1)) * (2 * m) + (hit[i] & 1)
        peak[0] = highest
        for i in range(size):
            slot = np.uint32(slots[i])
            out[slot, 0] += 1.0
            out[slot, 1] += min(np.float64(part[i]), 1.0)
    return outcomes > np.uint64(1), _high(peak.view(score.dtype))


def class_pass(bits: Any, block: Any, codes: Any, tolerance: float, m: int, edge: Any, out: Any) -> tuple[int, float]:
    """Check rows as `top_bins_pass` does, and add count, score and outcome of every class to its equal-width bins.

    `out` has shape (3, K·m). `edge` holds the bits of the largest score of the first bin: of many classes only a few
    are above it, and only those are looked at one by one.
    """
    n, k = block.shape
    few, lanes, first = k <= 64, max(1, 8 // k), edge[0]
    step = max(1, 4096 // (k * lanes)) * lanes
    peaks, slots, above = np.zeros(step + 1, bits.dtype), np.empty(step * k, np.int32), np.empty(step * k, np.uint32)
    flat, flat_bits, offset = block.reshape(-1), bits.reshape(-1), np.arange(step * k).astype(np.int32)
    pairs, hits, below = np.zeros((lanes * k * m, 2)), np.zeros(lanes * k * m), np.zeros(k)
    nothing, bad = flat[0] - flat[0], 0
    for place in range(len(offset)):  # first bin of the class and lane
        offset[place] = place % (lanes * k) * m
    for start in range(0, n, step):
        rows = min(step, n - start)
        bad += _survey(bits, block, start, rows, tolerance, peaks) + _outside(codes, start, rows, k)
        if bad:
            break
        begin, end = start * k, (start + rows) * k
        if few:  # first the bins of some rows, several at a time, then the sums
            part = flat[begin:end]
            for place in range(len(part)):
                c = np.int32(np.ceil((min(np.float64(part[place]), 1.0) - SLACK) * m)) - 1
                slots[place] = min(max(c, 0), m - 1) + offset[place]
            for place in range(len(part)):
                slot = np.uint32(slots[place])
                pairs[slot, 0] += 1.0
                pairs[slot, 1] += min(np.float64(part[place]), 1.0)
            for i in range(rows):
                hits[slots[i * k + codes[start + i]]] += 1.0
            continue
        for i in range(rows):
            row, row_bits = block[start + i], bits[start + i]
            c = np.int64(np.ceil((min(np.float64(row[codes[start + i]]), 1.0) - SLACK) * m)) - 1
            hits[codes[start + i] * m + min(max(c, 0), m - 1)] += 1.0
            for j in range(k):
                below[j] += np.float64(row[j] if row_bits[j] <= first else nothing)
        found = 0
        for low in range(begin, end, 64):
            peak = flat_bits[low]
            for place in range(low, min(low + 64, end)):
                peak = max(peak, flat_bits[place])
            if peak > first:
                for place in range(low, min(low + 64, end)):
                    above[found] = place - begin
                    found += flat_bits[place] > first
        for i in range(found):
            value = min(np.float64(flat[begin + above[i]]), 1.0)
            c = np.int32(np.ceil((value - SLACK) * m)) - 1
            slot = np.uint32(offset[above[i]] + min(max(c, 0), m - 1))
            pairs[slot, 0] += 1.0
            pairs[slot, 1] += value
    for j in range(0 if few else k):
        pairs[j * m, 1] += below[j]
        pairs[j * m, 0] = n - pairs[j * m + 1 : (j + 1) * m, 0].sum()
    for place in range(len(hits)):
        out[0, place % (k * m)] += pairs[place, 0]
        out[1, place % (k * m)] += pairs[place, 1]
        out[2, place % (k * m)] += hits[place]
    return bad, _high(peaks.view(block.dtype))


def path_pass(keys: Any, scores: Any) -> tuple[float, float, float]:
    """Return the highest and lowest point of the path Σ(t − s) over sorted pairs, ties taken together, and its end.

    `keys` hold the bits of a score doubled, with the outcome as the last bit; `scores` is room for some of the scores.
    """
    high, low, path = 0.0, 0.0, 0.0
    n, bits = len(keys), scores.view(keys.dtype)
    start, base = 0, -len(scores)
    while start < n:
        if start >= base + len(scores):
            base = start
            for i in range(min(len(bits), n - base)):
                bits[i] = keys[base + i] >> 1
        stop = start + 1
        hits = keys[start] & 1
        while stop < n and (keys[stop] ^ keys[start]) <= 1:
            hits += keys[stop] & 1
            stop += 1
        path += hits - np.float64(scores[start - base]) * (stop - start)
        high = max(high, path)
        low = min(low, path)
        start = stop
    return high, low, path


def linear_pass(position: Any, weights: Any, m: int, out: Any) -> None:
    """Share each weight between the two grid points around its position, `out` of shape (m, 2)."""
    for i in range(len(position)):
        low = min(max(np.int64(position[i]), 0), m - 2)
        upper = min(max(position[i] - low, 0.0), 1.0) * weights[i]
        out[low, 0] += weights[i] - upper
        out[low, 1] += upper


def label_pass(block: Any, uniform: Any, out: Any) -> None:
    """Draw labels: the first class whose cumulative share of a row reaches a number, `out` of shape (size, n)."""
    n, k = block.shape
    steps = 1
    while k > 16 and steps < min(k, 1024):
        steps *= 2
    reached, guide = np.empty(k), np.zeros(steps, np.int64)
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += np.float64(block[i, j])
            reached[j] = total
        for j in range(k):
            reached[j] /= total
        if steps == 1:
            for r in range(len(uniform)):
                label = 0
                for j in range(k - 1):
                    label += uniform[r, i] > reached[j]
                out[r, i] = label
            continue
        place = 0
        for step in range(steps):
            while place < k - 1 and reached[place] * steps < step:
                place += 1
            guide[step] = place
        for r in range(len(uniform)):
            place = guide[np.int64(uniform[r, i] * steps)]
            while place < k - 1 and reached[place] < uniform[r, i]:
                place += 1
            out[r, i] = place


def drawn_pass(block: Any, labels: Any, m: int, out: Any) -> None:
    """Count drawn labels by class and equal-width bin of the score of that class, `out` of shape (size, K·m)."""
    for i in range(len(block)):
        for r in range(len(labels)):
            label = labels[r, i]
            c = np.int64(np.ceil((np.float64(block[i, label]) - SLACK) * m)) - 1
            out[r, label * m + min(max(c, 0), m - 1)] += 1.0


def between_pass(values: Any, weights: Any, score: Any, guide: Any, shift: int, base: int, table: Any) -> None:
    """Add each value to the stretch between two neighboring scores: weight and largest value, `table` (m + 1, 2).

    `guide` says how many scores lie below each step of their ordered bits. No weights: each value counts 1.
    """
    last, size, slots = len(guide) - 1, 1024, np.empty(1024, np.int32)
    for start in range(0, len(values), size):
        stop = min(start + size, len(values))
        for i in range(start, stop):
            bits = np.float64(np.float64(values[i]) + 0.0).view(np.int64)  # + 0 turns −0 into 0
            bits ^= (bits >> 63) & 0x7FFFFFFFFFFFFFFF
            slots[i - start] = min(max((bits >> shift) - base, 0), last)
        for i in range(start, stop):
            value, slot = np.float64(values[i]), slots[i - start]
            place, above = guide[slot], guide[min(slot + 1, last)]
            while place < above:  # sharp forecasts have most hits in one step
                middle = (place + above) >> 1
                if score[middle] <= value:
                    place = middle + 1
                else:
                    above = middle
            table[place, 0] += weights[i] if len(weights) else 1.0
            table[place, 1] = max(table[place, 1], value)


def read(kind: Any, ndim: int = 1) -> Any:
    """Type of an array that is only read, so that arrays nobody may write to are taken too."""
    return numba.types.Array(kind, ndim, "C", readonly=True)


F4, F8, VECTOR = read(float32, 2), read(float64, 2), read(float64)
#: Rows as bits and as numbers, and the type of one; what a check of rows returns.
_ROWS = ((read(uint32, 2), F4, float32), (read(uint64, 2), F8, float64))
_FOUND, _ENDS, _SUMS = numba.types.Tuple((int64, float64)), numba.types.UniTuple(float64, 3), float64[:, ::1]
#: Types of the arguments and what may be reordered, by kernel.
TYPES: dict[str, tuple[list[Any], set[str]]] = {
    "top_pass": ([_FOUND(u, v, float64, int64[::1], t[::1]) for u, v, t in _ROWS], set()),
    "top_bins_pass": ([_FOUND(u, v, read(int64), float64, int64, _SUMS) for u, v, _ in _ROWS], set()),
    "width_pass": (
        [_FOUND(read(u.dtype), read(t), read(y), int64, _SUMS) for u, _, t in _ROWS for y in (boolean, int64)],
        set(),
    ),
    "class_pass": ([_FOUND(u, v, read(int64), float64, int64, read(u.dtype), _SUMS) for u, v, _ in _ROWS], set()),
    "path_pass": ([_ENDS(read(k), t[::1]) for k, t in ((int32, float32), (int64, float64))], set()),
    "linear_pass": ([void(VECTOR, VECTOR, int64, _SUMS)], set()),
    "label_pass": ([void(b, F8, int64[:, :]) for b in (F4, F8)], set()),
    "drawn_pass": ([void(b, int64[:, :], int64, float64[:, ::1]) for b in (F4, F8)], set()),
    "between_pass": (
        [void(read(v), VECTOR, VECTOR, read(int32), int64, int64, _SUMS) for v in (float32, float64)],
        set(),
    ),
}
