"""Ties of sorted pairs pooled in cache-sized chunks on all cores: what follows every sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.parallel import map_chunks, row_chunks


def pool_ties(keys: Array, dtype: np.dtype[Any]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the distinct scores, their counts, their hits and score times count.

    `keys` are sorted integers ``bits(score) << 1 | outcome`` (see `calibrant.core.tables.sorted_keys`) of scores of
    some `dtype`. The first pass counts the distinct scores of each chunk, the second writes them where they
    belong: no temporary is longer than a chunk.
    """
    n = len(keys)
    chunks = row_chunks(n)

    def last_of_tie(rows: slice) -> Array:
        after = keys[rows.start + 1 : rows.stop + 1]
        mask = np.ones(rows.stop - rows.start, dtype=bool)
        np.greater(keys[rows][: len(after)] ^ after, 1, out=mask[: len(after)])
        return mask

    def survey(rows: slice) -> tuple[int, int, int]:
        """Distinct scores that end here, position of the last end, hits after it."""
        ends = np.flatnonzero(last_of_tie(rows))
        last = int(ends[-1]) if len(ends) else -1
        return len(ends), last + rows.start if len(ends) else -1, int((keys[rows][last + 1 :] & 1).sum())

    places = []
    size, previous, carried = 0, -1, 0
    for rows, (found, last, tail) in zip(chunks, map_chunks(survey, chunks), strict=True):
        places.append((rows, size, found, previous, carried))
        size += found
        previous, carried = (last, tail) if found else (previous, carried + tail)

    score, counts, hits, sums = (np.empty(size) for _ in range(4))

    def write(place: tuple[slice, int, int, int, int]) -> None:
        rows, start, found, before, carry = place
        if not found:
            return
        here, out = keys[rows], slice(start, start + found)
        if found == len(here) and not carry and before == rows.start - 1:  # no ties in this chunk
            score[out] = sums[out] = (here >> 1).view(dtype)
            counts[out] = 1.0
            hits[out] = here & 1
            return
        ends = np.flatnonzero(last_of_tie(rows))
        score[out] = (here[ends] >> 1).view(dtype)
        counts[out] = np.diff(ends, prepend=before - rows.start)
        reached = np.cumsum(here & 1)[ends]
        hits[out] = np.diff(reached, prepend=-carry)
        np.multiply(score[out], counts[out], out=sums[out])

    for _ in map_chunks(write, places):
        pass
    return score, counts, hits, sums


def cumulative_extent(wt: Floats, ws: Floats) -> tuple[float, float]:
    """Return how far the running sum of wt − ws rises above 0 and falls below it."""
    high = low = running = 0.0
    for rows in row_chunks(len(wt)):
        path = np.cumsum(wt[rows] - ws[rows])
        path += running
        high, low, running = max(high, float(path.max())), min(low, float(path.min())), float(path[-1])
    return high, -low
