"""Proper scores of single rows, negatively oriented (smaller is better), in float64."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Array, Floats, Ints


def brier_rows(p: Array, codes: Ints) -> Floats:
    """Return ‖p − e_y‖² of each row (Brier 1950), summed over classes: range [0, 2]."""
    wide = p.astype(np.float64)
    wide[np.arange(len(codes)), codes] -= 1.0
    return np.asarray(np.einsum("ij,ij->i", wide, wide))


def log_rows(p: Array, codes: Ints) -> Floats:
    """Return −log p_y of each row (Good 1952); an exact zero gives inf."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(p[np.arange(len(codes)), codes].astype(np.float64))) + 0.0


def spherical_rows(p: Array, codes: Ints) -> Floats:
    """Return −p_y/‖p‖₂ of each row: range [−1, 0]."""
    wide = p.astype(np.float64)
    return np.asarray(-wide[np.arange(len(codes)), codes] / np.sqrt(np.einsum("ij,ij->i", wide, wide)))


def ranked_rows(p: Array, codes: Ints) -> Floats:
    """Return Σ_{k<K} (Σ_{j≤k} p_j − 1[y ≤ k])² of each row (Epstein 1969): range [0, K − 1]."""
    cumulative = np.cumsum(p[:, :-1], axis=1, dtype=np.float64)
    cumulative -= codes[:, None] <= np.arange(p.shape[1] - 1)
    return np.asarray(np.einsum("ij,ij->i", cumulative, cumulative))
