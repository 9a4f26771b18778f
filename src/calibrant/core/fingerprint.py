"""Fingerprints of rows: a few numbers by which data are known again, whatever their order.

A fingerprint is a sketch: the smallest hashes of the rows (which are a random sample of them), how many rows there
were, their sum of hashes, and how many rows had a twin. It tells how many of other rows are among them without keeping
any row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.links import row_max
from calibrant.core.parallel import map_chunks, row_chunks

__all__ = ["fingerprint", "moment_rows", "row_hashes", "seen_counts", "share_of_counts", "share_seen"]

#: Hashes that are kept.
KEPT = 512
#: Scores are compared after rounding to this grid: files and short floats lose the last digits.
GRID = 1e6
#: 1.5·2⁵²: adding it leaves a rounded number in the low bits.
_ROUND = 6755399441055744.0
#: A share of known rows below this is chance or a few repeated rows.
LEAST = 0.05
_HALF = (1 << 32) - 1


def _mixed(x: Any) -> Any:
    """Scramble 64-bit numbers (the finalizer of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = x ^ (x >> np.uint64(shift))
        x *= np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def row_hashes(scores: Array, space: str = "proba", ends: Array | None = None) -> Array:
    """Return one 64-bit number per row of scores; of two classes only what tells them apart counts.

    `ends` (2, n) get the smallest and largest score of each row of more than two.

    Examples
    --------
    >>> one, two = row_hashes(np.array([0.25, 0.5])), row_hashes(np.array([[0.75, 0.25], [0.5, 0.5]]))
    >>> bool((one == two).all())
    True
    """
    matrix = np.asarray(scores)
    if matrix.ndim == 2 and matrix.shape[1] == 2:
        matrix = matrix[:, 1] - matrix[:, 0] if space == "logit" else matrix[:, 1]
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    steps = np.arange(1, matrix.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    places = _mixed(steps) | np.uint64(1)
    out = np.empty(len(matrix), dtype=np.uint64)

    def visit(rows: slice) -> None:
        if ends is not None:
            ends[:, rows] = row_max(matrix[rows], np.minimum), row_max(matrix[rows])
        near = np.array(matrix[rows], dtype=np.float64, order="C")
        with np.errstate(over="ignore", invalid="ignore"):
            near *= GRID
            near += _ROUND
        out[rows] = np.einsum("ij,j->i", near.view(np.uint64), places)

    list(map_chunks(visit, row_chunks(len(matrix), matrix.shape[1] * 8)))
    return _mixed(out)


def fingerprint(scores: Array, space: str = "proba", hashes: Array | None = None) -> dict[str, Any]:
    """Return the fingerprint of rows: n, sum of hashes, fraction of rows with a twin, smallest hashes.

    Examples
    --------
    >>> found = fingerprint(np.array([0.1, 0.2, 0.3]))
    >>> found["n"], found["twins"]
    (3, 0.0)
    """
    hashes = row_hashes(scores, space) if hashes is None else hashes
    distinct, counts = np.unique(hashes, return_counts=True)
    with np.errstate(over="ignore"):
        total = int(hashes.sum(dtype=np.uint64))
    twins = float(counts[counts > 1].sum() / max(len(hashes), 1))
    return {"n": len(hashes), "total": str(total), "twins": twins, "rows": distinct[:KEPT].view(np.int64)}


def moment_rows(mean: Array, variance: Array) -> Array:
    """Return means and variances as rows of scores."""
    return np.stack([mean, variance, np.zeros(len(mean))], axis=1)


def share_seen(known: dict[str, Any] | None, scores: Array, space: str = "proba") -> float:
    """Return which fraction of rows is among those of a fingerprint, about; 0 where that may be chance.

    Rows that have twins, such as forecasts rounded to tenths, are known again only as a whole.

    Examples
    --------
    >>> p = np.linspace(0.01, 0.99, 400)
    >>> known = fingerprint(p)
    >>> share_seen(known, p[::-1]), share_seen(known, p[:100]), share_seen(known, p + 0.001)
    (1.0, 1.0, 0.0)
    """
    if not known or not len(scores):
        return 0.0
    return share_of_counts(known, seen_counts(known, row_hashes(scores, space)))


def seen_counts(known: dict[str, Any], hashes: Array) -> Floats:
    """Return what tells how many rows a fingerprint knows; counts of parts add up.

    They are the rows, the lower and upper half of their sum of hashes, how many rows the fingerprint could know, and
    how many it knows.
    """
    with np.errstate(over="ignore"):
        total = int(hashes.sum(dtype=np.uint64))
    kept = np.asarray(known["rows"]).view(np.uint64)
    near = hashes if known["n"] <= KEPT or not len(kept) else hashes[hashes <= kept[-1]]
    return np.array([len(hashes), total & _HALF, total >> 32, len(near), np.isin(near, kept).sum()], dtype=np.float64)


def share_of_counts(known: dict[str, Any], counts: Floats) -> float:
    """Return the fraction of rows that a fingerprint knows from such counts; 0 where that may be chance."""
    n, low, high, near, found = map(int, counts)
    if n == known["n"] and str((low + (high << 32)) % (1 << 64)) == known["total"]:
        return 1.0
    twins = float(known["twins"])
    if twins > 0.5 or found < 2:
        return 0.0
    noise = (twins * (1 - twins) * (1 / near + 1 / known["n"])) ** 0.5  # a stranger has a twin as often
    if found / near < twins + max(LEAST, 4 * noise):
        return 0.0
    return float(min((found / near - twins) / (1 - twins), 1.0))
