"""Check rows and fill their bins in one walk over memory, for a caller who wants these bins and nothing else.

Rows that need care (a negative number, a sum that misses 1 by more than rounding) are left to the check of
`calibrant.core.inputs`, which fixes or refuses them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant._typing import Array, Ints
from calibrant.core import fast
from calibrant.core.cells import PIECE, Found, Visit, bits_of, class_visit, clean_rows, pieces, shares
from calibrant.core.parallel import CHUNK_SCORES, map_chunks, row_chunks
from calibrant.core.tables import Bins, count_width, folded, lanes_of

__all__ = ["walk"]

#: Below so many classes the largest of each row is found faster column by column.
_NARROW = 32
#: Entries above this are alone at the top of their row.
_TIED = 0.51


def walk(kind: str, matrix: Array, codes: Ints, tolerance: float, m: int) -> tuple[Bins, bool] | None:
    """Return `m` equal-width bins of checked rows, and whether a score exceeds 1 by rounding; None: rows need care.

    `kind` is "top" or "classes" of a matrix (n, K), or "column", the probability of class 1.
    """
    if not matrix.flags.c_contiguous or matrix.dtype.itemsize not in (4, 8):
        return None
    kernel = fast.kernel({"top": "top_bins_pass", "classes": "class_pass", "column": "width_pass"}[kind], matrix.size)
    k = matrix.shape[1] if matrix.ndim == 2 else 2
    visit = _VISITS[kind](k, tolerance, m, kernel)
    alone = kernel is None and kind == "column"  # np.bincount, most of the work, lets no other thread run

    def look(rows: slice) -> Found:
        known = kernel is not None or alone or _in_range(codes[rows], k)  # others look for themselves
        return visit(matrix[rows], codes[rows]) if known else (False, 0.0, np.zeros(()))

    found = list(map_chunks(look, shares(len(matrix), matrix.strides[0]), 1 if alone else None))
    if not all(clean for clean, _, _ in found):
        return None
    total = sum((sums for _, _, sums in found[1:]), found[0][2])
    bins = Bins(*total.reshape(3, -1, m)) if kind == "classes" else folded(total, m)
    return bins, any(high > 1 for _, high, _ in found)


def _in_range(codes: Array, n_classes: int) -> bool:
    """Whether codes are all below a number and not negative: as bits, a negative one is larger than all."""
    bits = bits_of(codes)
    return bool(np.bitwise_or.reduce(bits) < n_classes or bits.max() < n_classes)  # the first is faster


def _top_visit(k: int, tolerance: float, m: int, kernel: Callable[..., tuple[int, float]] | None) -> Visit:
    size = lanes_of(m) * 2 * m

    def compiled(block: Array, codes: Ints) -> Found:
        out = np.zeros((size, 2))
        bad, high = kernel(bits_of(block), block, codes, 0.5 * tolerance, m, out)  # type: ignore[misc]  # if there is one
        return not bad and high <= 1 + tolerance, high, out.T

    def plain(block: Array, codes: Ints) -> Found:
        bits, sums, out = bits_of(block), np.empty(len(block), block.dtype), np.zeros((2, size))
        best, top = np.empty(len(block), bits.dtype), np.empty(len(block), np.intp)
        for rows in pieces(len(block), block.strides[0], PIECE):  # no matrix products: BLAS has threads of its own
            if k < _NARROW:
                columns = np.ascontiguousarray(bits[rows].T)
                columns.max(axis=0, out=best[rows])
                columns.view(block.dtype).sum(axis=0, out=sums[rows])
            else:
                bits[rows].argmax(axis=1, out=top[rows])
                np.einsum("ij->i", block[rows], out=sums[rows])
        flat, start = bits.ravel(), np.arange(0, block.size, k)
        best = best if k < _NARROW else flat[start + top]
        clean, high = clean_rows(best, sums, tolerance)
        if not clean:
            return clean, high, out
        score = np.minimum(best.view(block.dtype), 1)
        if k < _NARROW:
            hit = flat[start + codes] == best
            tied = np.flatnonzero(hit & (score <= _TIED))
            hit[tied] = bits[tied].argmax(axis=1) == codes[tied]
        else:
            hit = top == codes
        for rows in row_chunks(len(block)):
            out += count_width(score[rows], hit[rows], None, m)
        return clean, high, out

    return plain if kernel is None else compiled


def _column_visit(k: int, tolerance: float, m: int, kernel: Callable[..., tuple[int, float]] | None) -> Visit:
    size = lanes_of(m) * 2 * m

    def compiled(score: Array, codes: Ints) -> Found:
        out = np.zeros((size, 2))
        bad, high = kernel(bits_of(score), score, codes, m, out)  # type: ignore[misc]  # called where there is one
        return not bad and high <= 1 + tolerance, high, out.T

    def plain(score: Array, codes: Ints) -> Found:
        out, highest, room = np.zeros((2, size)), 0.0, np.empty(CHUNK_SCORES // 2)  # new memory is slow to get
        for rows in pieces(len(score), 8, 8 * len(room)):
            high = float(bits_of(score[rows]).max(keepdims=True).view(score.dtype)[0])  # of a negative or nan if any
            if np.signbit(high) or not high <= 1 + tolerance or not _in_range(codes[rows], k):
                return False, high, out
            out += count_width(score[rows] if high <= 1 else np.minimum(score[rows], 1), codes[rows], None, m, room)
            highest = max(highest, high)
        return True, highest, out

    return plain if kernel is None else compiled


_VISITS: dict[str, Callable[..., Visit]] = {"top": _top_visit, "column": _column_visit, "classes": class_visit}
