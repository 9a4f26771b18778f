"""The scores of one call: checked once, handed to a method block by block in the view it works on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant._typing import Array, ArrayLike, Floats, Ints, Space
from calibrant.core.fingerprint import row_hashes
from calibrant.core.folds import stratified_folds
from calibrant.core.inputs import Forecast, check_classes, check_labels, check_matrix, check_space, check_weights
from calibrant.core.links import log_odds, log_softmax, softmax
from calibrant.core.options import check_rng
from calibrant.core.parallel import map_chunks, row_chunks
from calibrant.core.refusals import LARGEST_LOGIT
from calibrant.core.weights import effective_weights
from calibrant.errors import InputError, input_error

#: What a method works on: probabilities; log-probabilities (log-softmax of logits); logits as they
#: are (log-probabilities when the input is probabilities); or the scores as given, in their own space. "rank" is for
#: methods that need an order alone: probabilities, or the log-odds of logits, where no score is rounded to 0 or 1.
View: TypeAlias = Literal["proba", "log", "logit", "raw", "rank"]


@dataclass(frozen=True)
class Scores:
    """A checked score matrix (n, K) in its own dtype and the view a method wants.

    `floor` is the weight of the uniform distribution mixed in before a logarithm is taken; when it is
    0 an exact zero takes `smallest`, or the smallest positive value of its row if that is lower. What the check of
    logits saw on its way may be kept: the smallest and largest of each row (2, n), and the hashes of the rows.
    """

    matrix: Array
    space: Space
    view: View
    clip: bool = False
    floor: float = 0.0
    smallest: float = 0.0
    ends: Floats | None = None
    hashes: Array | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.matrix)

    @property
    def n_classes(self) -> int:
        """Number of columns."""
        return int(self.matrix.shape[1])

    def chunks(self) -> list[slice]:
        """Row slices whose float64 blocks fit the cache."""
        return row_chunks(self.n, self.n_classes * 8)

    def block(self, rows: slice) -> Floats:
        """Return some rows in the view of the method, float64; do not write into it."""
        raw = self.matrix[rows]
        if self.space == "logit":
            if self.view in ("logit", "raw"):
                return raw.astype(np.float64, copy=False)
            if self.view == "rank":
                return log_odds(raw)
            return log_softmax(raw) if self.view == "log" else softmax(raw)
        p = raw.astype(np.float64, copy=False)
        if self.clip:
            p = np.clip(p, 0.0, 1.0)
        return p if self.view in ("proba", "raw", "rank") else np.log(self._lift(p))

    def values(self) -> Floats:
        """All rows in the view of the method, float64 (for methods of moderate size)."""
        if self.space == "logit" and self.view in ("logit", "raw"):
            return self.block(slice(0, self.n))
        out = np.empty(self.matrix.shape)

        def fill(rows: slice) -> None:
            out[rows] = self.block(rows)

        list(map_chunks(fill, self.chunks()))
        return out

    def as_view(self, view: View) -> Scores:
        """Return the same scores seen another way."""
        return replace(self, view=view)

    def with_floor(self, floor: float, smallest: float) -> Scores:
        """Return the same scores under another floor."""
        return replace(self, floor=floor, smallest=smallest)

    def rows(self, keep: Any) -> Scores:
        """Return some rows as scores of their own."""
        ends, hashes = (None if one is None else one[..., keep] for one in (self.ends, self.hashes))
        return replace(self, matrix=self.matrix[keep], ends=ends, hashes=hashes)

    def _lift(self, p: Floats) -> Floats:
        """Make every probability positive."""
        if self.floor > 0:
            return np.asarray((1 - self.floor) * p + self.floor / p.shape[1])
        if p.min() > 0:
            return p
        least = np.where(p > 0, p, np.inf).min(axis=1, keepdims=True)
        return np.where(p > 0, p, np.minimum(least, self.smallest))

    def zeros(self) -> tuple[bool, float]:
        """Whether an exact zero occurs, and the smallest positive probability."""
        found, smallest = False, np.inf
        for zero, least in map_chunks(self._zeros, self.chunks()):
            found, smallest = found or zero, min(smallest, least)
        return found, float(smallest)

    def _zeros(self, rows: slice) -> tuple[bool, float]:
        block = self.matrix[rows]
        least = block.min()
        if least > 0:
            return False, float(least)
        return True, float(block[block > 0].min())


def check_scores(
    X: ArrayLike, *, space: Space, view: View, caller: str, n_classes: int | None = None, largest: float = 1e305
) -> Scores:
    """Check the scores of a calibrator call: shape, finiteness, simplex (or finite logits), K as in fit."""
    with _named_as_calibrator_arguments():
        check_space(space, caller, "X")
        matrix = check_matrix(X, "y_proba", caller)
        width = 2 if matrix.ndim == 1 else matrix.shape[1]
        if n_classes is not None and width != n_classes:
            raise input_error(
                "y_proba",
                caller,
                f"have the {n_classes} columns seen in fit",
                f"{width} columns",
                "pass the scores of the same model",
            )
        if space == "logit":
            if matrix.ndim == 1:  # log-odds z are the logits (0, z)
                matrix = np.stack([np.zeros_like(matrix), matrix], axis=1)
            ends = np.empty((2, len(matrix))) if n_classes is None and width > 2 else None  # a fit hashes its rows too
            hashes = None if ends is None else row_hashes(matrix, space, ends)
            most = min(largest, float(np.finfo(matrix.dtype).max))
            if ends is None or not -most <= ends.min() <= ends.max() <= most:  # nan is neither
                _check_logits(matrix, caller, most)
            return Scores(matrix, space, view, ends=ends, hashes=hashes)
        codes = np.zeros(len(matrix), dtype=np.int64)
        forecast = Forecast(codes, matrix, None, None, width, space, caller)
        forecast._pass()
    if matrix.ndim == 1:
        one = np.clip(matrix.astype(np.float64), 0.0, 1.0)
        return Scores(np.stack([1 - one, one], axis=1), space, view)
    return Scores(matrix, space, view, clip=forecast._clip)


def _check_logits(matrix: Array, caller: str, most: float) -> None:
    def clean(rows: slice) -> bool:
        return bool(-most <= matrix[rows].min() and matrix[rows].max() <= most)  # nan is neither

    for rows, ok in zip(chunks := row_chunks(len(matrix), matrix.shape[1] * 8), map_chunks(clean, chunks), strict=True):
        if not ok:
            bad = ~(np.abs(matrix[rows]) <= most)
            row = int(np.flatnonzero(bad.any(axis=1))[0])
            limit = f"hold logits of at most {most:.2g}".replace("e+", "e")
            raise input_error(
                "X",
                caller,
                "hold finite logits" if not np.isfinite(matrix[rows][bad]).all() else limit,
                f"{matrix[rows][row][bad[row]][0]} at row {row + rows.start}",
                "drop or fix the row",
            )


def check_fit(
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    *,
    classes: ArrayLike | None,
    space: Space,
    view: View,
    caller: str,
    largest: float = LARGEST_LOGIT,
) -> tuple[Scores, Ints, Floats, tuple[Any, ...] | None]:
    """Check scores, truth and weights together; rows of weight 0 are dropped.

    Whole numbers are counts; other weights are scaled to sum to Kish's effective number of rows, so that a fit knows
    their relative sizes alone.
    """
    scores = check_scores(X, space=space, view=view, caller=caller, largest=largest)
    with _named_as_calibrator_arguments():
        names = check_classes(classes, scores.n_classes, caller)
        codes = check_labels(y, scores.n, scores.n_classes, names, caller)
        weights = check_weights(sample_weight, scores.n, caller)
    if weights is None:
        return scores, codes, np.ones(scores.n), names
    weights = effective_weights(weights, scores.n)
    keep = weights > 0
    if not keep.all():
        scores, codes, weights = scores.rows(keep), codes[keep], weights[keep]
    return scores, codes, weights, names


class _named_as_calibrator_arguments:  # noqa: N801  # reads as a sentence in `with`
    """Errors of the common check speak of X and y, the names `fit` and `predict_proba` use."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, InputError):
            raise error.with_names({"y_proba": "X", "y_true": "y"}) from error


def pool_rows(scores: Scores, codes: Ints, weights: Floats) -> tuple[Scores, Ints, Floats]:
    """Join equal rows with equal labels and put them in an order that depends on their content only.

    Folds drawn afterwards are the same whatever the order of the rows, and whether a row is repeated
    or weighted. Rows are compared by a 64-bit hash of their bits.
    """
    wide = np.ascontiguousarray(scores.matrix, dtype=np.float64)
    odd = np.random.default_rng(0).integers(0, 2**63, size=wide.shape[1], dtype=np.uint64) * 2 + 1
    bits = (wide + 0.0).view(np.uint64)  # −0 and 0 are one value
    bits ^= bits >> np.uint64(29)
    key = (bits * odd).sum(axis=1, dtype=np.uint64) ^ codes.astype(np.uint64)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return scores.rows(first), codes[first], np.bincount(group, weights=weights).astype(np.float64, copy=False)


def folds(codes: Ints, n_folds: int, rng: Any, caller: str) -> Iterator[tuple[Array, Array]]:
    """Yield (fit rows, held-out rows) of stratified folds."""
    fold = stratified_folds(codes, n_folds, check_rng(rng, caller))
    for index in range(min(n_folds, len(codes))):
        yield np.flatnonzero(fold != index), np.flatnonzero(fold == index)
