"""Draws of the hits of whole bins: a sum of coins with different chances has a law that is known exactly.

A metric that needs only sums of bins is drawn with one number per bin and replicate, not one per row. The generating
polynomial of a bin is the product of (1 − p_i) + p_i·z: added up row by row in blocks, multiplied by FFT.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core import fast
from calibrant.core.tables import Table

__all__ = ["MOST_ROWS", "hit_law", "hits_of_bins"]

#: Rows up to which the law of the hits is worked out; beyond, rows are drawn.
MOST_ROWS = 1 << 20
#: What a search costs, against one look at a number.
_WORTH = 10
#: Places per bin where a compiled search may start.
_GUIDE = 256
#: Rows whose polynomial is multiplied out row by row.
_LEAF = 32


def hits_of_bins(table: Table, start: Ints) -> Callable[[int, np.random.Generator], Floats]:
    """Return a function that draws Σw·t of every bin so many times; `start` is the first table row of each bin."""
    count = np.rint(table.w).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(count)])[start]
    lowest, law = hit_law(np.repeat(np.clip(table.we / table.w, 0.0, 1.0), count), first)
    flat, bins, width = law.ravel(), np.arange(len(law)), law.shape[1]
    guide = np.searchsorted(flat, bins[:, None] + np.arange(_GUIDE) / _GUIDE, side="right") - (bins * width)[:, None]

    def draw(size: int, rng: np.random.Generator) -> Floats:
        uniform = rng.random((size, len(bins)))
        uniform += bins
        kernel = fast.kernel("search_pass", _WORTH * uniform.size)
        if kernel is None:
            place = np.searchsorted(flat, uniform, side="right") - bins * width
            return np.asarray(lowest + np.minimum(place, width - 1))
        kernel(law, lowest, guide, uniform)
        return uniform

    return draw


def hit_law(chance: Floats, start: Ints) -> tuple[Floats, Floats]:
    """Return the smallest number of hits with a weight and the cumulative law from it on, j added to that of bin j.

    Parameters
    ----------
    chance : array, shape (n,)
        Chance of a hit of every row, bin after bin.
    start : array, shape (m,)
        First row of each bin.

    Notes
    -----
    The law is cut ten standard deviations and forty hits from its mean, where less than 1e-20 of it is left; the
    rounding of the FFT is of the order of 1e-15.

    Examples
    --------
    >>> lowest, law = hit_law(np.array([0.5, 0.5, 1.0]), np.array([0, 2]))
    >>> law[0, int(-lowest[0]) :][:3], law[1, int(-lowest[1]) :][:2] - 1  # 0, 1, 2 hits; 0, 1 hits
    (array([0.25, 0.75, 1.  ]), array([0., 1.]))
    """
    rows = np.diff(np.append(start, len(chance)))
    spread = float(np.sqrt(np.add.reduceat(chance * (1.0 - chance), start).max()))
    width = 1 << int(np.ceil(np.log2(20.0 * spread + 80.0)))
    block = _LEAF
    while 4 * block <= width and block * len(start) < len(chance):
        block *= 2
    blocks = -(-rows // block)
    first = np.concatenate([[0], np.cumsum(blocks)])
    padded = np.zeros(int(first[-1]) * block)  # rows that never hit fill the last block of a bin
    padded[np.arange(len(chance)) + np.repeat(first[:-1] * block - start, rows)] = chance
    leaves = np.ascontiguousarray(padded.reshape(-1, _LEAF).T)
    series = np.zeros((_LEAF + 1, leaves.shape[1]))
    series[0] = 1.0
    for i, p in enumerate(leaves):
        moved = series[: i + 1] * p
        series[: i + 1] -= moved
        series[1 : i + 2] += moved
    series = series.T
    while (degree := series.shape[1] - 1) < block:
        factors = np.fft.rfft(series, 3 * degree)
        series = np.fft.irfft(factors[::2] * factors[1::2], 3 * degree)[:, : 2 * degree + 1]
    wrapped = np.fft.irfft(np.multiply.reduceat(np.fft.rfft(series, width), first[:-1], axis=0), width)
    lowest = np.floor(np.add.reduceat(chance, start)) - width // 2
    hits = lowest[:, None] + np.arange(width)
    law = np.take_along_axis(wrapped, hits.astype(np.int64) % width, axis=1)
    law = np.cumsum(np.where((hits >= 0) & (hits <= rows[:, None]), np.maximum(law, 0.0), 0.0), axis=1)
    law /= law[:, -1:]
    return lowest, law + np.arange(len(start))[:, None]
