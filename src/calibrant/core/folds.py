"""Stratified folds: rows of each class are dealt to the folds like cards."""

from __future__ import annotations

import numpy as np

from calibrant._typing import Ints

__all__ = ["class_order", "stratified_folds"]


def class_order(codes: Ints, rng: np.random.Generator) -> Ints:
    """Return the rows class by class, those of one class in random order."""
    shuffled = rng.permutation(len(codes))
    return np.asarray(shuffled[np.argsort(codes[shuffled], kind="stable")])


def stratified_folds(codes: Ints, n_folds: int, rng: np.random.Generator) -> Ints:
    """Return the fold of every row, so that every fold sees every class it can.

    Examples
    --------
    >>> fold = stratified_folds(np.array([0, 0, 1, 1, 1, 1]), 2, np.random.default_rng(0))
    >>> [sorted(np.array([0, 0, 1, 1, 1, 1])[fold == k].tolist()) for k in (0, 1)]
    [[0, 1, 1], [0, 1, 1]]
    """
    fold = np.empty(len(codes), dtype=np.int64)
    fold[class_order(codes, rng)] = np.arange(len(codes)) % n_folds
    return fold
