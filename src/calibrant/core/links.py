"""Softmax, its logarithm and log-odds in float64."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Array, Floats

#: Most columns that are compared one after the other.
FEW_COLUMNS = 32


def row_max(z: Array, larger: np.ufunc = np.maximum) -> Array:
    """Return the largest value (or the smallest) of each row; a few columns are faster one after the other."""
    if z.ndim != 2 or not 1 < z.shape[1] <= FEW_COLUMNS:
        return np.asarray(larger.reduce(z, axis=-1))
    peak = z[:, 0].copy()
    for k in range(1, z.shape[1]):
        larger(peak, z[:, k], out=peak)
    return peak


def log_sum_exp(logits: Array) -> Floats:
    """Return log Σ_k exp z_k of each row, safe for any finite logits."""
    wide = np.asarray(logits, dtype=np.float64)
    peak = row_max(wide)
    return np.asarray(peak + np.log(np.exp(wide - peak[..., None]).sum(axis=-1)))


def log_softmax(logits: Array) -> Floats:
    """Return z_k − log Σ_j exp z_j of each row in float64."""
    wide = np.asarray(logits, dtype=np.float64)
    return np.asarray(wide - log_sum_exp(wide)[..., None])


def scaled_exp(z: Floats) -> Floats:
    """Return exp z of each row up to a factor that keeps it finite: softmax before the division. Writes into `z`."""
    z -= row_max(z)[..., None]
    return np.exp(z, out=z)


def softmax(logits: Array) -> Floats:
    """Return the softmax of each row in float64; rows sum to 1 to the last bit or two."""
    wide = scaled_exp(np.array(logits, dtype=np.float64))
    wide /= wide.sum(axis=-1, keepdims=True)
    return wide


def logit(probability: Array) -> Floats:
    """Return log p − log(1 − p); ±inf at exact 0 and 1."""
    p = np.asarray(probability, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p))


def log_odds(logits: Array) -> Floats:
    """Return log p_k − log(1 − p_k) of each entry of softmax(z), for rows of logits of any finite size.

    Scores that a softmax rounds to 0 or 1 stay distinct: with two classes they are the difference of the logits.

    Examples
    --------
    >>> log_odds(np.array([[0.0, 800.0], [-1e300, 3.0]]))[:, 1]
    array([8.e+002, 1.e+300])
    """
    wide = np.asarray(logits, dtype=np.float64)
    if wide.shape[-1] == 2:
        gap = wide[..., 1] - wide[..., 0]
        return np.stack([-gap, gap], axis=-1)
    top = wide.argmax(axis=-1)[..., None]
    below = wide - np.take_along_axis(wide, top, axis=-1)
    mass = np.exp(below)
    np.put_along_axis(mass, top, 0.0, axis=-1)
    rest = mass.sum(axis=-1)[..., None]
    odds = below - np.log1p(np.maximum(rest - mass, 0.0))  # 1 + the others: nothing cancels below the top
    others = below.copy()
    np.put_along_axis(others, top, -np.inf, axis=-1)
    peak = others.max(axis=-1, keepdims=True)
    largest = -(peak + np.log(np.exp(others - peak).sum(axis=-1, keepdims=True)))
    return np.where(below == 0, largest, odds)  # equal logits have equal log-odds, to the last digit


def sigmoid(log_odds: Array) -> Floats:
    """Return 1/(1 + exp(−z)) without overflow."""
    z = np.asarray(log_odds, dtype=np.float64)
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1.0 + small))


def input_scores(scores: Array, space: str, input_space: str, *, normalize: bool = False) -> Array:
    """Return scores in the space that a calibrator was fitted on: rescaled if asked, logits through softmax."""
    if normalize and space == "proba" and scores.ndim == 2:
        return np.asarray(scores / scores.sum(axis=1, keepdims=True, dtype=np.float64))
    if space == "logit" and input_space == "proba":
        return softmax(scores if scores.ndim == 2 else np.stack([np.zeros_like(scores), scores], axis=1))
    return scores
