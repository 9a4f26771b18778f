"""Probability vectors reduced to one number per row: the largest ones, and the entropy."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.inputs import Forecast
from calibrant.core.parallel import map_chunks

__all__ = ["computed", "entropies", "normalized_entropy", "ranked"]


def ranked(forecast: Forecast, r: int) -> tuple[Floats, Ints]:
    """Return scores and classes of the `r` largest probabilities of each row, largest first, ties by lowest index."""
    scores = np.empty((forecast.n, r))
    classes = np.empty((forecast.n, r), dtype=np.int64)

    def visit(rows: slice) -> None:
        block = forecast.block(rows).astype(np.float64)
        if r > 8:
            order = np.argsort(-block, axis=1, kind="stable")[:, :r]
            classes[rows], scores[rows] = order, np.take_along_axis(block, order, axis=1)
            return
        row = np.arange(len(block))
        for rank in range(r):
            best = block.argmax(axis=1)
            classes[rows, rank], scores[rows, rank] = best, block[row, best]
            block[row, best] = -1.0

    for _ in map_chunks(visit, forecast.chunks()):
        pass
    return scores, classes


def computed(score: Floats) -> Floats:
    """Clip a computed score and round it to 12 decimals, so that equal sums tie whatever the order of addition."""
    return np.asarray(np.round(np.clip(score, 0.0, 1.0), 12) + 0.0, dtype=np.float64)


def entropies(forecast: Forecast) -> Floats:
    """Return −Σ p log p of each row in nats, with 0·log 0 = 0."""
    return np.asarray(forecast.keep("entropies", lambda: _entropies(forecast)))


def _entropies(forecast: Forecast) -> Floats:
    out = np.empty(forecast.n)

    def visit(rows: slice) -> None:
        p = forecast.block(rows).astype(np.float64, order="C")  # one order of summation for every container
        log_p = np.log(np.maximum(p, 1e-300))
        out[rows] = -np.einsum("ij,ij->i", p, log_p)

    for _ in map_chunks(visit, forecast.chunks()):
        pass
    return out


def normalized_entropy(forecast: Forecast) -> Floats:
    """Return the entropy of each row divided by log K, clipped to [0, 1] and rounded to 12 decimals."""
    return computed(entropies(forecast) / np.log(forecast.n_classes))
