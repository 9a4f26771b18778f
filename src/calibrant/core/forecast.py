"""Checked predictions: the walk over the matrix that checks it and finds the top label, and what follows from it.

The matrix is kept in its own dtype and never copied; `Forecast.block` hands out cache-sized pieces in which
rounding, row scaling and softmax have been applied.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from calibrant._typing import Array, Bools, Floats, Ints, Space
from calibrant.core.links import log_sum_exp, sigmoid
from calibrant.core.parallel import map_chunks, row_chunks
from calibrant.errors import input_error

#: How far a row sum may miss 1, or a value [0, 1], by rounding of its dtype.
TOLERANCE = {"float64": 1e-6, "float32": 1e-4, "float16": 1e-2}


def first_true(bad: Any) -> int:
    """Return the index of the first true entry."""
    return int(np.flatnonzero(bad)[0])


class Forecast:
    """Checked predictions: class codes, score matrix in its own dtype, weights, class order.

    Built by `check_forecast` or `check_pairs` only. `matrix` is (n, K), or (n,) = probability (or
    log-odds) of class 1, or None when only top-label pairs are known. Derived vectors are computed
    once and kept; nothing here writes to the caller's arrays.
    """

    def __init__(
        self,
        codes: Ints,
        matrix: Array | None,
        weights: Floats | None,
        classes: tuple[Any, ...] | None,
        n_classes: int,
        space: Space,
        caller: str,
    ) -> None:
        self.codes = codes
        self.matrix = matrix
        self.weights = weights
        self.classes = classes
        self.n_classes = n_classes
        self.space = space
        self.caller = caller
        self._clip = False
        self._scale: Floats | None = None
        self._lse: Floats | None = None
        self._log_odds: Floats | None = None
        self._top: Ints | None = None
        self._top_score: Array | None = None
        self._hit: Bools | None = None
        self._kept: dict[Any, Any] = {}

    def keep(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` gives, computed once: the measures of one panel share sorts and sums."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def total(self) -> float:
        """Sum of weights, the number of rows without them."""
        return float(self.n) if self.weights is None else float(self.weights.sum())

    @property
    def has_vectors(self) -> bool:
        """Whether the whole probability vector of each row is known."""
        return self.matrix is not None

    @property
    def top(self) -> Ints:
        """Index of the largest probability of each row (ties: the lowest index)."""
        self._need_vectors("the predicted class")
        if self._top is None:
            self._find_top()
        return self._top  # type: ignore[return-value]  # set by _find_top

    @property
    def top_score(self) -> Array:
        """Largest probability of each row, in the matrix's own precision."""
        if self._top_score is None:
            self._find_top()
        return self._top_score  # type: ignore[return-value]  # set by _find_top

    @property
    def hit(self) -> Bools:
        """Whether the top label is the truth."""
        if self._hit is None:
            self._hit = self.top == self.codes
        return self._hit

    @cached_property
    def true_score(self) -> Floats:
        """Probability given to the truth, float64."""
        self._need_vectors("the probability of the true class")
        if self.matrix is not None and self.matrix.ndim == 1:
            one = self.column(1)
            return np.where(self.codes == 1, one, 1 - one).astype(np.float64)
        rows = np.arange(self.n)
        raw = np.asarray(self.matrix)[rows, self.codes].astype(np.float64)
        return self._finish(raw, slice(0, self.n))

    @cached_property
    def true_log_score(self) -> Floats:
        """Log-probability of the truth; −inf at an exact zero, from the logits themselves where they are known."""
        if self._lse is not None and self.matrix is not None:
            return self.matrix[np.arange(self.n), self.codes].astype(np.float64) - self._lse
        if self._log_odds is not None:
            signed = np.where(self.codes == 1, self._log_odds, -self._log_odds)
            return np.asarray(-np.logaddexp(0.0, -signed))
        with np.errstate(divide="ignore"):
            return np.log(self.true_score)

    def _need_vectors(self, what: str) -> None:
        if self.matrix is None:
            raise input_error(
                "y_proba",
                self.caller,
                f"hold whole probability vectors, because {what} is needed",
                "top-label pairs",
                "pass the (n, K) matrix, or ask for a top-label measure such as ece or ks",
            )

    def _finish(self, raw: Array, rows: slice) -> Any:
        """Apply clip, row scale or softmax to raw values of `rows` (any trailing shape)."""
        if self._lse is not None:
            lse = self._lse[rows]
            return np.exp(raw.astype(np.float64) - (lse[:, None] if raw.ndim == 2 else lse))
        if self._scale is not None:
            scale = self._scale[rows]
            return np.clip(raw.astype(np.float64) * (scale[:, None] if raw.ndim == 2 else scale), 0.0, 1.0)
        return np.clip(raw, 0, 1) if self._clip else raw

    def chunks(self) -> list[slice]:
        """Row slices whose blocks fit the cache."""
        width = max(1, self.n_classes) * 8
        return row_chunks(self.n, width if self.matrix is not None and self.matrix.ndim == 2 else 0)

    def block(self, rows: slice) -> Array:
        """Probabilities of some rows, shape (rows, K); a view of the input where nothing had to be done."""
        self._need_vectors("the probability of every class")
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            one = self.column(1)[rows]
            return np.stack([1 - one, one], axis=1)
        return np.asarray(self._finish(matrix[rows], rows))

    def column(self, k: int) -> Array:
        """Probability of class `k` for every row."""
        if k == 1 and self.matrix is not None and self.matrix.ndim == 1:
            return np.asarray(self._finish(self.matrix, slice(0, self.n)))
        return np.asarray(self.columns(k, k + 1)[0])

    def columns(self, start: int, stop: int) -> Array:
        """Probabilities of classes `start` … `stop`−1 as contiguous rows, shape (stop−start, n)."""
        self._need_vectors("the probability of one class")
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            one = self._finish(matrix, slice(0, self.n))
            return np.stack([one if k == 1 else 1 - one for k in range(start, stop)])
        raw = matrix[:, start:stop]
        return np.ascontiguousarray(self._finish(raw, slice(0, self.n)).T)

    def proba(self) -> Floats:
        """The whole matrix as float64 (a copy: for row-wise measures and calibrators at moderate size)."""
        return np.concatenate([self.block(rows).astype(np.float64) for rows in self.chunks()])

    def with_codes(self, codes: Ints) -> Forecast:
        """Return the same forecasts with other outcomes (resampled labels); nothing is checked or copied again."""
        other = copy(self)
        other.codes = codes
        other._kept = {}  # what was kept belongs to the old outcomes
        other._hit = None if self.matrix is not None else codes.astype(bool)
        for derived in ("true_score", "true_log_score"):
            other.__dict__.pop(derived, None)
        return other

    def take(self, rows: Array) -> Forecast:
        """Return some rows (indices or a mask) as a forecast of their own; nothing is checked again."""
        other = self.with_codes(self.codes[rows])
        for name in ("matrix", "weights", "_scale", "_lse", "_log_odds", "_top", "_top_score"):
            value = getattr(self, name)
            setattr(other, name, None if value is None else value[rows])
        other._hit = None if self._hit is None else self._hit[rows]
        return other

    # -- the checking pass -------------------------------------------------------------------

    def _pass(self) -> None:
        """Check every value and find the top label in one walk over the matrix, on all cores."""
        matrix = np.asarray(self.matrix)
        if matrix.ndim == 1:
            self._pass_column(matrix)
            return
        n, k = matrix.shape
        logits = self.space == "logit"
        half = matrix.dtype == np.float16
        tolerance = TOLERANCE[matrix.dtype.name]
        top = np.empty(n, dtype=np.int64)
        top_score = np.empty(n, dtype=np.float64 if logits or self._scale is not None else matrix.dtype)
        lse = np.empty(n) if logits else None

        def visit(rows: slice) -> tuple[bool, bool]:
            block = matrix[rows].astype(np.float32) if half else matrix[rows]
            peak, best, clean = _peak(block, logits)
            top[rows] = peak
            if lse is not None:
                if not np.isfinite(block).all():
                    return False, False
                lse[rows] = log_sum_exp(block)
                top_score[rows] = np.exp(best.astype(np.float64) - lse[rows])
                return True, False
            low = 0.0 if clean else float(block.min())
            if self._scale is not None:
                sums = block.sum(axis=1, dtype=np.float64)
                if not (low >= 0 and np.isfinite(sums).all() and (sums > 0).all()):
                    return False, False
                self._scale[rows] = 1.0 / sums
                top_score[rows] = np.minimum(best / sums, 1.0)
                return True, False
            top_score[rows] = best
            high = float(best.max())
            off = np.abs(np.einsum("ij->i", block) - 1)  # nan in a row makes its sum nan, and nan fails below
            near = bool((off <= 0.5 * tolerance).all()) or bool(
                (np.abs(block.sum(axis=1, dtype=np.float64) - 1) <= tolerance).all()
            )
            return near and low >= -tolerance and high <= 1 + tolerance, low < 0 or high > 1

        verdicts = list(map_chunks(visit, row_chunks(n, k * max(4, matrix.dtype.itemsize) // 4)))
        if not all(ok for ok, _ in verdicts):
            self._raise_first_bad_row(matrix, tolerance)
        self._lse = lse
        self._clip = any(clip for _, clip in verdicts)
        self._top, self._top_score = top, np.clip(top_score, 0, 1) if self._clip else top_score

    def _pass_column(self, p: Array) -> None:
        if self.space == "logit":
            bad = ~np.isfinite(p)
            if bad.any():
                row = first_true(bad)
                raise input_error(
                    "y_proba", self.caller, "hold finite logits", f"{p[row]} at row {row}", "drop or mend the row"
                )
            self._log_odds = p.astype(np.float64)
            self.matrix = p = sigmoid(p)
        tolerance = TOLERANCE[p.dtype.name]
        low, high = float(p.min()), float(p.max())
        if not (low >= -tolerance and high <= 1 + tolerance):  # also catches nan
            self._raise_outside(p, ~((p >= -tolerance) & (p <= 1 + tolerance)))
        self._clip = low < 0 or high > 1

    def _find_top(self) -> None:
        """Find the top label when it is first asked for: binary measures of class 1 never do."""
        if self.matrix is None or self.matrix.ndim == 2:
            self._pass()
            return
        one = self.column(1)
        zero = 1 - one
        self._top_score = np.maximum(one, zero)
        self._top = (one > zero).astype(np.int64)

    def _raise_outside(self, matrix: Array, bad: Bools) -> None:
        row = first_true(bad if bad.ndim == 1 else bad.any(axis=1))
        value = matrix[row] if bad.ndim == 1 else matrix[row][bad[row]][0]
        if np.isnan(value):
            raise input_error("y_proba", self.caller, "be finite", f"nan at row {row}", "drop or mend the row")
        raise input_error(
            "y_proba",
            self.caller,
            "lie in [0, 1]",
            f"{value:.6g} at row {row}",
            "if these are logits, say so with space='logit'",
        )

    def _raise_first_bad_row(self, matrix: Array, tolerance: float) -> None:
        for rows in row_chunks(len(matrix), matrix.shape[1] * 8):
            block = matrix[rows].astype(np.float64)
            if self.space == "logit":
                bad = ~np.isfinite(block)
                rule, hint = "hold finite logits", "drop or mend the row"
            elif self._scale is not None:
                bad = ~(np.isfinite(block) & (block >= 0))
                bad |= ~(block.sum(axis=1, keepdims=True) > 0)
                rule, hint = "be finite, not negative and not all zero in a row", "drop or mend the row"
            else:
                outside = ~((block >= -tolerance) & (block <= 1 + tolerance))
                sums = block.sum(axis=1)
                off = ~(np.abs(sums - 1) <= tolerance)
                if (outside.any(axis=1) | off).any():
                    row = first_true(outside.any(axis=1) | off)
                    if outside[row].any():
                        outside[:row] = False
                        shifted = np.concatenate([np.zeros((rows.start, matrix.shape[1]), bool), outside])
                        self._raise_outside(np.asarray(matrix), shifted)
                    raise input_error(
                        "y_proba",
                        self.caller,
                        f"have rows that sum to 1 within {tolerance:g}",
                        f"{sums[row]:.6g} at row {row + rows.start}",
                        "decimals rounded in a file: normalize=True (--normalize); logits: space='logit'",
                    )
                continue
            if bad.any():
                row = first_true(bad.any(axis=1))
                value = block[row][bad[row]][0]
                raise input_error("y_proba", self.caller, rule, f"{value:.6g} at row {row + rows.start}", hint)


def _peak(block: Array, logits: bool) -> tuple[Ints, Array, bool]:
    """Index and value of the largest entry of each row, and whether no entry is negative for sure.

    Non-negative floats order like their unsigned bits, and any negative (or nan) outranks them all:
    one fast integer argmax finds the top label and betrays bad values, without a pass for the minimum.
    """
    if not logits and block.flags.c_contiguous:
        bits = block.view(np.uint64 if block.dtype.itemsize == 8 else np.uint32)
        peak = bits.argmax(axis=1)
        best = np.take_along_axis(block, peak[:, None], axis=1)[:, 0]
        if not np.signbit(best).any():
            return peak, best, True
    peak = block.argmax(axis=1)
    return peak, np.take_along_axis(block, peak[:, None], axis=1)[:, 0], False
