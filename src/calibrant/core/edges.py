"""Where a score belongs: the one bin rule, and the fixed grids of cells built on it.

``index = clip(ceil((float64(s) − 2⁻²⁴)·m) − 1, 0, m − 1)``: the intervals (lo, hi], the first closed. A score
up to 2⁻²⁴ above an edge counts as on it, so decimals stored as float32 or float64 fall in the bin they name.
"""

from __future__ import annotations

import numpy as np

from calibrant._typing import Array, Ints

#: Cells of the fine grid (2¹⁰·3·5²) and of the coarse one (classes, slices); bins are whole numbers of cells.
FINE = 76_800
COARSE = 1_200
#: Half an ulp of float32 at 1: how far above an edge still counts as on it.
SLACK = 2.0**-24
#: Keys a cell may take: the first and last cell are split by octave, 16 parts each, down to 2⁻⁶⁴.
PARTS = 1024
PER_OCTAVE = 16
DEEPEST = 64
#: Moves the octave borders off exact powers of two, so that every engine's log2 agrees on the side.
NUDGE = 1e-6


def width_index(score: Array, m: int) -> Ints:
    """Return the equal-width bin (of `m`) of each score in [0, 1]."""
    index = score.astype(np.float64)
    index -= SLACK
    index *= m
    np.ceil(index, out=index)
    index -= 1.0
    np.clip(index, 0, m - 1, out=index)
    return index.astype(np.int64)


def width_edges(m: int) -> Array:
    """Return the m + 1 edges i/m (for drawing; membership is decided by `width_index`)."""
    return np.arange(m + 1) / m


def _depth(distance: Array) -> Ints:
    """Rank of a distance to 0 (or 1) within its end cell: 0 at exactly zero, then by sixteenth octaves."""
    with np.errstate(divide="ignore"):
        octave = np.log2(distance.astype(np.float64))
    rank = np.floor(PER_OCTAVE * (octave + DEEPEST) + NUDGE) + 1
    return np.clip(rank, 0, PARTS - 1).astype(np.int64)


def cell_key(score: Array, m: int) -> Ints:
    """Return the ordered integer key of each score's cell on a grid of `m`; ``key // PARTS`` is the cell.

    Sharp networks put most rows into the last cell, so the first and the last cell are split further by
    the octave of s and of 1 − s.
    """
    key = width_index(score, m)
    first, last = key == 0, key == m - 1
    key *= PARTS
    if first.any():
        key[first] += _depth(score[first])
    if last.any():
        key[last] += PARTS - 1 - _depth(1.0 - score[last].astype(np.float64))
    return key
