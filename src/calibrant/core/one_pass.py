"""Check rows and fill their bins in one walk over memory, for a caller who wants these bins and nothing else.

Rows that need care (a negative number, a sum that misses 1 by more than rounding) are left to the check of
`calibrant.core.inputs`, which fixes or refuses them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from calibrant._typing import Array, Floats, Ints
from calibrant.core import fast
from calibrant.core.parallel import CHUNK_BYTES, map_chunks, row_chunks
from calibrant.core.tables import SLACK, Bins, count_width, folded, lanes_of, width_index

__all__ = ["class_visit", "first_edge", "in_range", "walk"]

#: Bytes of a matrix that a thread takes at once, and those NumPy looks at together.
_TASK, _PIECE = 4 * CHUNK_BYTES, CHUNK_BYTES // 4
#: Below so many classes the largest of each row is found faster column by column.
_NARROW = 32
#: Entries above this are alone at the top of their row.
_TIED = 0.51
#: What a visit returns: whether the rows are clean, their highest score, sums of bins.
Found = tuple[bool, float, Floats]


def walk(kind: str, matrix: Array, codes: Ints, tolerance: float, m: int) -> tuple[Bins, bool] | None:
    """Return `m` equal-width bins of checked rows, and whether a score exceeds 1 by rounding; None: rows need care.

    `kind` is "top" or "classes" of a matrix (n, K), or "column", the probability of class 1.
    """
    n, row_bytes = len(matrix), matrix.strides[0]
    if not matrix.flags.c_contiguous or matrix.dtype.itemsize not in (4, 8):
        return None
    kernel = fast.kernel({"top": "top_bins_pass", "classes": "class_pass", "column": "width_pass"}[kind], matrix.size)
    k = matrix.shape[1] if matrix.ndim == 2 else 2
    visit = _VISITS[kind](k, tolerance, m, kernel)

    def look(rows: slice) -> Found:
        return visit(matrix[rows], codes[rows]) if in_range(codes[rows], k) else (False, 0.0, np.zeros(()))

    found = list(map_chunks(look, _pieces(n, row_bytes, _TASK)))
    if not all(clean for clean, _, _ in found):
        return None
    total = sum((sums for _, _, sums in found[1:]), found[0][2])
    bins = Bins(*total.reshape(3, -1, m)) if kind == "classes" else folded(total, m)
    return bins, any(high > 1 for _, high, _ in found)


def in_range(codes: Array, n_classes: int) -> bool:
    """Whether codes are all below a number and not negative: as bits, a negative one is larger than all."""
    if codes.dtype.kind in "fb":
        return bool(codes.min() >= 0 and codes.max() < n_classes)
    bits = _bits(codes)
    return bool(np.bitwise_or.reduce(bits) < n_classes or bits.max() < n_classes)  # the first is faster


def _pieces(n: int, row_bytes: int, size: int) -> list[slice]:
    step = max(16, size // row_bytes)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


Visit = Callable[[Array, Ints], Found]


def _bits(block: Array) -> Array:
    return block.view(np.dtype(f"u{block.dtype.itemsize}"))


def _clean(bits: Array, sums: Array, tolerance: float) -> tuple[bool, float]:
    """Whether largest bits of rows are those of probabilities and sums near 1, and the highest score."""
    high = float(bits.max(keepdims=True).view(sums.dtype)[0])
    near = bool((np.abs(sums - 1) <= 0.5 * tolerance).all())
    return near and not np.signbit(high) and high <= 1 + tolerance, high


def _top_visit(k: int, tolerance: float, m: int, kernel: Callable[..., tuple[int, float]] | None) -> Visit:
    size = lanes_of(m) * 2 * m

    def compiled(block: Array, codes: Ints) -> Found:
        out = np.zeros((2, size))
        bad, high = kernel(_bits(block), block, codes, 0.5 * tolerance, m, out)  # type: ignore[misc]  # if there is one
        return not bad and high <= 1 + tolerance, high, out

    def plain(block: Array, codes: Ints) -> Found:
        bits, one = _bits(block), np.ones(k, block.dtype)
        best, sums, out = np.empty(len(block), bits.dtype), np.empty(len(block), block.dtype), np.zeros((2, size))
        for rows in _pieces(len(block), block.strides[0], _PIECE):
            if k < _NARROW:
                np.ascontiguousarray(bits[rows].T).max(axis=0, out=best[rows])
            else:
                bits[rows].max(axis=1, out=best[rows])
            np.dot(block[rows], one, out=sums[rows])
        clean, high = _clean(best, sums, tolerance)
        if not clean:
            return clean, high, out
        score = np.minimum(best.view(block.dtype), 1)
        hit = bits.ravel()[np.arange(0, block.size, k) + codes] == best
        tied = np.flatnonzero(hit & (score <= _TIED))
        hit[tied] = bits[tied].argmax(axis=1) == codes[tied]
        for rows in row_chunks(len(block)):
            out += count_width(score[rows], hit[rows], None, m)
        return clean, high, out

    return plain if kernel is None else compiled


def _column_visit(k: int, tolerance: float, m: int, kernel: Callable[..., float] | None) -> Visit:  # noqa: ARG001 -- as others
    size = lanes_of(m) * 2 * m

    def compiled(score: Array, codes: Ints) -> Found:
        out = np.zeros((2, size))
        high = kernel(_bits(score), score, codes, m, out)  # type: ignore[misc]  # called where there is one
        return high <= 1 + tolerance, high, out

    def plain(score: Array, codes: Ints) -> Found:
        out, highest = np.zeros((2, size)), 0.0
        for rows in _pieces(len(score), 16, _PIECE):
            low, high = float(score[rows].min()), float(score[rows].max())
            if not (low >= 0 and high <= 1 + tolerance):  # nan fails too
                return False, high, out
            out += count_width(score[rows] if high <= 1 else np.minimum(score[rows], 1), codes[rows], None, m)
            highest = max(highest, high)
        return True, highest, out

    return plain if kernel is None else compiled


def class_visit(k: int, tolerance: float, m: int, kernel: Callable[..., tuple[int, float]] | None) -> Visit:
    """Return a function that checks rows and adds up count, score and outcome of the bins of every class.

    An infinite `tolerance` stands for rows that have been checked. A row has fewer than `m` scores above the first bin:
    only those are looked at one by one.
    """

    def compiled(block: Array, codes: Ints) -> Found:
        out, edge = np.zeros((3, k * m)), _bits(np.array([first_edge(m, block.dtype.name)], block.dtype))
        bad, high = kernel(_bits(block), block, codes, 0.5 * tolerance, m, edge, out)  # type: ignore[misc]  # as above
        return not bad and high <= 1 + tolerance, high, out

    def plain(block: Array, codes: Ints) -> Found:
        flat, one, edge = block.ravel(), np.ones(k, block.dtype), block.dtype.type(first_edge(m, block.dtype.name))
        out, highest, slots, scores = np.zeros((3, k, m)), 0.0, [], []
        for rows in _pieces(len(block), block.strides[0], _PIECE):
            part = block[rows]
            clean, high = _clean(_bits(part).ravel(), part @ one, tolerance)
            if not clean and tolerance < math.inf:
                return clean, high, out
            highest, below = max(highest, high), part.astype(np.float64)
            above = np.flatnonzero(part.ravel() > edge)
            score = np.minimum(below.ravel()[above], 1.0)
            below.ravel()[above] = 0.0
            out[1, :, 0] += np.ones(len(part)) @ below
            above %= k
            above *= m
            above += np.ceil((score - SLACK) * m).astype(np.int64)
            slots.append(above)
            scores.append(score)
        slot, score = np.concatenate(slots) - 1, np.concatenate(scores)
        out[0, :, 1:] = np.bincount(slot, minlength=k * m).reshape(k, m)[:, 1:]
        out[1] += np.bincount(slot, score, k * m).reshape(k, m)
        out[0, :, 0] = len(block) - out[0].sum(axis=1)
        truth = width_index(flat[np.arange(0, block.size, k) + codes], m) + codes * m
        out[2] = np.bincount(truth, minlength=k * m).reshape(k, m)
        return True, highest, out.reshape(3, -1)

    return plain if kernel is None else compiled


@functools.lru_cache(maxsize=64)
def first_edge(m: int, dtype: str) -> float:
    """Return the largest number of a type that falls into the first of `m` bins.

    Examples
    --------
    >>> 0.5 < first_edge(2, "float64") < 0.5 + 1e-7  # as far above the edge as still counts as on it
    True
    """
    low, high = np.array([0, 1], dtype).view(np.dtype(f"i{np.dtype(dtype).itemsize}")).tolist()
    number = np.dtype(f"i{np.dtype(dtype).itemsize}").type
    while high - low > 1:  # non-negative floats order like their bits
        middle = (low + high) // 2
        inside = width_index(np.array([number(middle)]).view(dtype), m)[0] == 0
        low, high = (middle, high) if inside else (low, middle)
    return float(np.array([number(low if m > 1 else high)]).view(dtype)[0])


_VISITS = {"top": _top_visit, "column": _column_visit, "classes": class_visit}
