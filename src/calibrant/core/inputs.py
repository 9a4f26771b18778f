"""Where input enters: containers in by protocol, one checked `Forecast` out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np

from calibrant._typing import Array, ArrayLike, Bools, Floats, Ints, Space
from calibrant.core import refusals
from calibrant.core.clusters import FEWEST, cluster_numbers, few_clusters, is_missing, number_of_clusters
from calibrant.core.forecast import ForecastAnswers
from calibrant.core.frames import named_columns
from calibrant.core.links import log_sum_exp, sigmoid
from calibrant.core.options import check_count
from calibrant.core.parallel import CHUNK_BYTES, CHUNK_SCORES, map_chunks, row_chunks
from calibrant.core.refusals import bad_rows, first_true
from calibrant.core.row_evidence import digest
from calibrant.core.weights import safe_weights
from calibrant.errors import InputError, input_error


class Counted(Protocol):
    """Rows of whatever kind: their number, and who asks."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def caller(self) -> str:
        """Name of the function the user called."""


def check_groups(groups: ArrayLike | None, forecast: Counted, fewest: int = 2) -> Ints | None:
    """Return the number of each row's cluster; None without clusters."""
    if groups is None:
        return None
    array = to_array(groups, "groups", forecast.caller)
    if array.shape != (forecast.n,):
        rule = f"name one cluster per row ({forecast.n})"
        raise input_error("groups", forecast.caller, rule, f"shape {array.shape}", "pass one column")
    missing = is_missing(array)
    if missing.any():
        rule, hint = "name the cluster of every row", "give such rows a cluster each, or leave them out"
        raise input_error("groups", forecast.caller, rule, "none", hint, **bad_rows(missing))
    codes = cluster_numbers(array)
    if codes.max() + 1 < fewest:
        raise input_error("groups", forecast.caller, "hold at least two clusters", "one", "leave out {groups}")
    return codes


def check_clusters(groups: ArrayLike | None, forecast: Any) -> Ints | None:
    """Return the cluster of each row: that of `groups`, or the row itself where weights are importance."""
    if groups is not None:
        return check_groups(groups, forecast)
    clusters: Ints | None = forecast.own_clusters()
    if few_clusters(clusters):
        rule, worth = f"be worth at least {FEWEST} equally weighted rows", str(number_of_clusters(clusters))
        raise input_error("sample_weight", forecast.caller, rule, worth, "collect more rows")
    return clusters


def to_array(value: ArrayLike, argument: str, caller: str) -> Array:
    """Turn any supported container into a NumPy array without importing its library.

    Tensors on a device come over by ``.detach().cpu()``; lists of equal-length rows are stacked; files of other
    machines
    bring bytes in another order, which are swapped; what a mask hides is missing, and refused.
    """
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
        if "bfloat16" in str(getattr(value, "dtype", "")):
            value = value.float()
    if isinstance(value, np.ma.MaskedArray):
        value = _unmasked(value, argument, caller)
    elif isinstance(value, list | tuple) or str(getattr(value, "dtype", "")) == "object":
        _unhidden(value, argument, caller)
    try:
        array = np.asarray(value)
        nested = array.dtype == object and array.ndim == 1 and array.size and hasattr(array[0], "__len__")
        if nested and not isinstance(array[0], str | bytes):
            array = np.stack([np.asarray(row) for row in array])
    except (ValueError, TypeError, OverflowError) as error:
        rule, hint = "be a rectangular array", "give every row the same length"
        raise input_error(argument, caller, rule, f"{type(value).__name__} ({error})", hint) from error
    if array.ndim == 0:
        rule, hint = "be an array with one entry per row", "pass a list, array, tensor or column"
        raise input_error(argument, caller, rule, f"a single {type(value).__name__}", hint)
    if array.dtype.kind == "V":
        raise input_error(argument, caller, "be one plain array", f"dtype {array.dtype}", "pass one field of it")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _unmasked(value: Any, argument: str, caller: str) -> Array:
    """Return the values of a masked array of which nothing is hidden."""
    hidden = np.ma.getmaskarray(value)
    if hidden.any():
        row = int(np.flatnonzero(hidden.reshape(len(value), -1).any(axis=1))[0]) if value.ndim else 0
        raise _masked(row, argument, caller)
    return np.asarray(value.data)


def _unhidden(rows: Any, argument: str, caller: str) -> None:
    """Refuse masked rows or values inside a list, which NumPy would use as if nothing hid them."""
    if any(issubclass(kind, np.ma.MaskedArray | list | tuple) for kind in set(map(type, rows))):
        for row, value in enumerate(rows):
            hidden = isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any()
            if hidden or (isinstance(value, list | tuple) and id(np.ma.masked) in map(id, value)):
                raise _masked(row, argument, caller)


def _masked(row: int, argument: str, caller: str) -> InputError:
    return input_error(argument, caller, "not be masked", f"a masked value at row {row}", "drop or fill the row")


def to_float(array: Array, argument: str, caller: str) -> Array:
    """Keep float16/32/64, widen everything else to float64."""
    if array.dtype.kind == "f" and array.dtype.itemsize in (2, 4, 8):
        return array
    if array.dtype.kind == "c":
        raise input_error(argument, caller, "be real", "complex numbers", "take the real part")
    try:
        if array.dtype.kind in "mM":
            raise TypeError("dates are no numbers")
        return array.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise input_error(
            argument, caller, "be numeric", f"dtype {array.dtype} ({error})", "drop or convert the non-numeric entries"
        ) from error


def check_weights(sample_weight: ArrayLike | None, n: int, caller: str) -> Floats | None:
    """Return finite, non-negative float64 weights of length `n`, or None."""
    if sample_weight is None:
        return None
    array = to_array(sample_weight, "sample_weight", caller)
    if array.shape != (n,):
        rule = f"have one weight per row, shape ({n},)"
        raise input_error("sample_weight", caller, rule, f"shape {array.shape}", "pass one number per row")
    weights = np.asarray(to_float(array, "sample_weight", caller), dtype=np.float64)
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        raise input_error(
            "sample_weight",
            caller,
            "be finite and not negative",
            f"{weights[first_true(bad)]}",
            "drop the row or give it weight 0",
            **refusals.bad_rows(bad),
        )
    if not weights.any():
        raise input_error("sample_weight", caller, "have a positive sum", "all zeros", "keep at least one row")
    return safe_weights(weights)


def check_classes(classes: ArrayLike | None, n_classes: int, caller: str) -> tuple[Any, ...] | None:
    """Return the class names as a tuple of distinct plain values, or None."""
    if classes is None:
        return None
    listed = to_array(classes, "classes", caller)
    if listed.ndim != 1:
        raise input_error("classes", caller, "be a list of names", f"shape {listed.shape}", "pass one name per column")
    names = tuple(listed.tolist())
    if len(names) != n_classes:
        hint = "list the classes in the order of the columns"
        raise input_error("classes", caller, f"name each of the {n_classes} columns once", f"{len(names)} names", hint)
    if len(set(names)) != len(names):
        repeated = next(name for i, name in enumerate(names) if name in names[:i])
        raise input_error("classes", caller, "be distinct", f"{repeated!r} twice", "rename one of them")
    return names


def check_labels(
    y_true: ArrayLike, n: int | None, n_classes: int, classes: tuple[Any, ...] | None, caller: str
) -> Ints:
    """Return class codes 0 … K−1, from indices or (with `classes`) any labels."""
    array = to_array(y_true, "y_true", caller)
    if array.ndim != 1:
        hint = "turn one-hot rows into indices with argmax(axis=1)" if array.ndim == 2 else "flatten it yourself"
        raise input_error("y_true", caller, "be one label per row, shape (n,)", f"shape {array.shape}", hint)
    if n is not None and len(array) != n:
        hint = "check that both come from the same split"
        raise input_error("y_true", caller, f"be as long as y_proba ({n} rows)", f"{len(array)} rows", hint)
    if classes is not None:
        return _encode(array, classes, caller)
    if array.dtype.kind == "O":
        refusals.need_numbers(array, caller)
    if array.dtype.kind in "fO":
        as_float = np.asarray(to_float(array, "y_true", caller), dtype=np.float64)
        bad = ~np.isfinite(as_float) | (as_float != np.floor(as_float))
        if bad.any():
            raise refusals.not_whole(as_float, bad, caller)
        array = as_float
    elif array.dtype.kind not in "iub":
        raise refusals.bad_label(array, n_classes, caller)
    if len(array) and not 0 <= (ends := _extremes(array))[0] <= ends[1] < n_classes:
        raise refusals.bad_label(array, n_classes, caller)
    return array.astype(np.int64, copy=False)


def _extremes(values: Array) -> tuple[Any, Any]:
    """Return the lowest and the highest of some numbers, nan where there is one."""
    if len(values) > CHUNK_SCORES:
        ends = map_chunks(lambda rows: (values[rows].min(), values[rows].max()), row_chunks(len(values)))
        values = np.array(list(ends))
    return values.min(), values.max()


def _encode(array: Array, classes: tuple[Any, ...], caller: str) -> Ints:
    position = {name: code for code, name in enumerate(classes)}
    if array.dtype.kind == "O":  # a number is not the text that looks like it, and None is no class
        codes = np.array([position.get(value, -1) if _hashable(value) else -1 for value in array.tolist()], np.int64)
        if (codes < 0).any():
            raise refusals.unknown_label(array, codes < 0, caller)
        return codes
    text = array.dtype.kind in "US"  # a name that looks like a number is found either way
    values, inverse = np.unique(_words(array) if text else array, return_inverse=True)
    if text:
        position = {str(name): code for name, code in position.items()}
    codes = np.array([position.get(value, -1) for value in values.tolist()], dtype=np.int64)
    if len(codes) and codes.min() < 0:
        raise refusals.unknown_label(array, codes[inverse] < 0, caller)
    return np.asarray(codes[inverse], dtype=np.int64)


def _hashable(value: Any) -> bool:
    return not isinstance(value, list | dict | set | np.ndarray)


def _words(array: Array) -> Array:
    """Return text as text; bytes are UTF-8, and what is not is shown as it can be."""
    return np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array


def check_matrix(y_proba: ArrayLike, argument: str, caller: str) -> Array:
    """Return the score matrix (n, K) or column (n,) in its own float dtype; shape rules only."""
    array = to_float(to_array(y_proba, argument, caller), argument, caller)
    if array.ndim > 2:
        raise input_error(
            argument, caller, "have shape (n, K) or (n,)", f"shape {array.shape}", "flatten the leading axes yourself"
        )
    if array.shape[0] == 0:
        raise input_error(argument, caller, "hold at least one row", "no rows", "check the filter before this call")
    if array.ndim == 2 and array.shape[1] < 2:
        rule = "have at least two columns, or be one column (n,) for class 1"
        hint = "pass y_proba[:, 0] if it is the probability of class 1"
        raise input_error(argument, caller, rule, f"shape {array.shape}", hint)
    return array


#: How far a row sum may miss 1, or a value [0, 1], by rounding; six decimals miss by 1e-6, which no last bit may judge.
TOLERANCE = {"float64": 1.000001e-6, "float32": 1e-4, "float16": 1e-2}
#: More bins than this are no request that could be met.
MOST_BINS = 1_000_000


class Forecast(ForecastAnswers):
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

    @property
    def top(self) -> Ints:
        """Index of the largest probability of each row (ties: the lowest index)."""
        if self._top is None:
            self._need_vectors("the predicted class")
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

    def checksum(self) -> str:
        """Return sixteen digits that tell these predictions and their weights from others."""
        scores = map(self.block, self.chunks()) if self.has_vectors else (self.top_score,)
        return digest(chain((self.codes,), () if self.weights is None else (self.weights,), scores))

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
        width = k * max(4, matrix.dtype.itemsize) // 4
        one_chunk = n * width <= CHUNK_BYTES

        @np.errstate(over="ignore", invalid="ignore")
        def visit(rows: slice) -> tuple[bool, bool]:
            block = matrix[rows].astype(np.float32) if half else matrix[rows]
            peak, best, clean = _peak(block, logits)
            top[rows] = peak
            if lse is not None:
                if not -refusals.LARGEST_LOGIT <= float(block.min()) <= float(best.max()) <= refusals.LARGEST_LOGIT:
                    return False, False
                lse[rows] = log_sum_exp(block)
                top_score[rows] = np.exp(best.astype(np.float64) - lse[rows])
                return True, False
            low = 0.0 if clean else float(block.min())
            if self._scale is not None:
                sums = block.sum(axis=1, dtype=np.float64)
                if not (low >= 0 and np.isfinite(sums).all() and (sums >= refusals.LEAST_SUM).all()):
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

        verdicts = [visit(slice(0, n))] if one_chunk else list(map_chunks(visit, row_chunks(n, width)))
        if not all(ok for ok, _ in verdicts):
            raise refusals.bad_row(
                matrix, tolerance, self.space, normalized=self._scale is not None, caller=self.caller
            )
        self._lse = lse
        self._clip = any(clip for _, clip in verdicts)
        self._top, self._top_score = top, np.clip(top_score, 0, 1) if self._clip else top_score

    def _pass_column(self, p: Array) -> None:
        tolerance = TOLERANCE["float64" if self.space == "logit" else p.dtype.name]
        if self.space == "logit":
            if refusals.no_logit(p).any():
                raise refusals.bad_column(p, tolerance, self.space, self.caller)
            self._log_odds = p.astype(np.float64)
            self.matrix = p = sigmoid(p)
        low, high = map(float, _extremes(p))
        if not (low >= -tolerance and high <= 1 + tolerance):  # also catches nan
            raise refusals.bad_column(p, tolerance, "proba", self.caller)
        self._clip = low < 0 or high > 1

    def _find_top(self) -> None:
        """Find the top label when it is first asked for: binary metrics of class 1 never do."""
        if self.matrix is None or self.matrix.ndim == 2:
            self._pass()
            return
        one = np.clip(self.matrix, 0, 1) if self._clip else self.matrix
        zero = 1 - one
        self._top_score = np.maximum(one, zero)
        self._top = (one > zero).astype(np.int64)


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


def check_forecast(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    caller: str,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    normalize: bool = False,
    pairs: bool = False,
) -> Forecast:
    """Check truth, forecast and weights together and return one `Forecast`; `pairs`: as `check_pairs` does."""
    if check_flag(pairs, "pairs", caller):
        return check_pairs(y_true, y_proba, caller=caller, sample_weight=sample_weight)
    check_space(space, caller)
    if check_flag(normalize, "normalize", caller) and space == "logit":
        raise input_error("normalize", caller, "be False for logits", "True", "softmax normalizes by itself")
    matrix = check_matrix(y_proba, "y_proba", caller)
    n_classes = 2 if matrix.ndim == 1 else matrix.shape[1]
    if classes is None and hasattr(type(y_proba), "columns" if hasattr(type(y_proba), "columns") else "column_names"):
        classes, y_true = named_columns(y_proba, to_array(y_true, "y_true", caller))
    names = check_classes(classes, n_classes, caller)
    codes = check_labels(y_true, len(matrix), n_classes, names, caller)
    forecast = Forecast(
        codes, matrix, check_weights(sample_weight, len(codes), caller), names, n_classes, space, caller
    )
    if normalize and matrix.ndim == 2:
        forecast._scale = np.empty(len(matrix))
    forecast._pass()
    return forecast


def check_pairs(
    correct: ArrayLike, confidence: ArrayLike, *, caller: str, sample_weight: ArrayLike | None = None
) -> Forecast:
    """Check top-label pairs (was it right, how confident) and return a `Forecast` without vectors."""
    scores = to_float(to_array(confidence, "confidence", caller), "confidence", caller)
    if scores.ndim != 1:
        raise input_error("confidence", caller, "have shape (n,)", f"shape {scores.shape}", "pass one score per row")
    if not len(scores):
        raise input_error("confidence", caller, "hold at least one row", "no rows", "check the filter before this call")
    try:
        hits = check_labels(correct, len(scores), 2, None, caller)
    except InputError as error:
        raise error.with_names({"y_true": "correct", "y_proba": "confidence"}) from error
    forecast = Forecast(hits, None, check_weights(sample_weight, len(hits), caller), None, 0, "proba", caller)
    tolerance = TOLERANCE[scores.dtype.name]
    bad = ~((scores >= -tolerance) & (scores <= 1 + tolerance))
    if bad.any():
        raise refusals.bad_confidence(scores, bad, caller)
    forecast._top_score = np.clip(scores, 0, 1)
    forecast._hit = hits.astype(bool)
    return forecast


def check_names(value: str, allowed: Sequence[str], argument: str, caller: str) -> str:
    """Return `value` if it is one of the allowed words."""
    if not (isinstance(value, str) and value in allowed):
        import difflib

        near = difflib.get_close_matches(str(value), list(allowed), 1)
        hint = f"did you mean {near[0]!r}" if near else "choose one of them"
        raise input_error(argument, caller, "be one of " + ", ".join(allowed), repr(value), hint)
    return value


def check_words(value: Iterable[str] | str, argument: str, caller: str, least: int = 0) -> list[str]:
    """Return one name or several as a list, of at least so many."""
    words = [value] if isinstance(value, str) else value
    listed = list(words) if isinstance(words, Iterable) else []
    named = isinstance(words, Iterable) and all(isinstance(word, str) for word in listed)
    if not named or len(listed) < least:
        raise input_error(argument, caller, "be a name or a list of names", repr(value), "pass for example ['ece']")
    return listed


def check_n_bins(n_bins: int, caller: str, argument: str = "n_bins") -> int:
    """Return a positive whole number of bins."""
    if type(n_bins) is int and 1 <= n_bins <= MOST_BINS:
        return n_bins
    return check_count(n_bins, argument, caller, 1, "15", MOST_BINS)


def check_space(space: Space, caller: str, argument: str = "y_proba") -> Space:
    """Return the space of the scores if there is such a one."""
    if not (isinstance(space, str) and space in ("proba", "logit")):
        raise input_error("space", caller, "be 'proba' or 'logit'", repr(space), f"say what {argument} holds")
    return space


def check_flag(value: bool, argument: str, caller: str) -> bool:
    """Return True or False; a word or a number is refused, because any of them would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise input_error(argument, caller, "be True or False", repr(value), "pass one of the two")
    return bool(value)
