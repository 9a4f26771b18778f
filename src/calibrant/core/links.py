"""Softmax, its logarithm and log-odds in float64."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Array, Floats


def log_sum_exp(logits: Array) -> Floats:
    """Return log Σ_k exp z_k of each row, safe for any finite logits."""
    wide = np.asarray(logits, dtype=np.float64)
    peak = wide.max(axis=-1)
    return np.asarray(peak + np.log(np.exp(wide - peak[..., None]).sum(axis=-1)))


def log_softmax(logits: Array) -> Floats:
    """Return z_k − log Σ_j exp z_j of each row in float64."""
    wide = np.asarray(logits, dtype=np.float64)
    return np.asarray(wide - log_sum_exp(wide)[..., None])


def softmax(logits: Array) -> Floats:
    """Return the softmax of each row in float64; rows sum to 1 to the last bit or two."""
    wide = np.array(logits, dtype=np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    np.exp(wide, out=wide)
    wide /= wide.sum(axis=-1, keepdims=True)
    return wide


def logit(probability: Array) -> Floats:
    """Return log p − log(1 − p); ±inf at exact 0 and 1."""
    p = np.asarray(probability, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p))


def sigmoid(log_odds: Array) -> Floats:
    """Return 1/(1 + exp(−z)) without overflow."""
    z = np.asarray(log_odds, dtype=np.float64)
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1.0 + small))
