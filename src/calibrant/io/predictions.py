"""What a file or frame holds, as arrays, and the one way from there to evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant._typing import Array, Floats, Space
from calibrant.core.inputs import Forecast, check_forecast, check_pairs, to_array
from calibrant.core.predictions import Quantiles
from calibrant.core.refusals import bad_rows
from calibrant.core.rows import check_rows
from calibrant.core.weights import WeightKind, effective_n
from calibrant.errors import FileError, InputError, input_error
from calibrant.io.confidence import confidence_numbers, correct_flags
from calibrant.io.labels import plain_name, two_labels
from calibrant.io.layout import Columns, Layout, array_fields, note, say, table_fields
from calibrant.io.resolver import resolve
from calibrant.io.scale import scaled, unrounded

__all__ = [
    "Look", "Predictions", "column_of", "distinct_values", "frame_predictions", "score_matrix",
    "to_evidence", "to_forecast", "weighed"
]  # fmt: skip

#: The classes of a calibrator that was fitted on top-label pairs: the confidence is the probability of the second.
PAIR_CLASSES = ("wrong", "right")


@dataclass(frozen=True)
class Predictions:
    """Rows in memory: vectors or binary scores, top-label pairs, or means with variances."""

    kind: str
    scores: Array
    truth: Array | None
    space: Space = "proba"
    weights: Array | None = None
    classes: tuple[Any, ...] | None = None
    variance: Array | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)
    #: Names of the columns or arrays that held the scores (and the variance), so that `apply` can replace them.
    source: tuple[str, ...] = ()
    #: Whether the last of them held standard deviations.
    std: bool = False
    #: Levels of the quantiles.
    levels: tuple[float, ...] = ()
    #: Line of the file that holds the first row, so that errors count as an editor does; None: rows from 0.
    first_line: int | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.scores)

    def right_or_wrong(self) -> Predictions:
        """Return top-label pairs as two classes, so that a calibrator can map their confidence."""
        if self.kind != "pairs":
            return self
        truth = (
            None
            if self.truth is None
            else np.where(np.asarray(self.truth, dtype=bool), PAIR_CLASSES[1], PAIR_CLASSES[0])
        )
        return replace(self, kind="vectors", truth=truth, classes=PAIR_CLASSES)

    def take(self, rows: Array) -> Predictions:
        """Return some rows."""
        names = ("scores", "truth", "weights", "variance")
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        parts = {name: None if value is None else np.asarray(value)[rows] for name, value in parts.items()}
        columns = {name: np.asarray(column)[rows] for name, column in self.columns.items()}
        return replace(self, columns=columns, first_line=None, **parts)


def assemble(
    found: Columns, get: Callable[[str], Array], scores: Array, rest: Mapping[str, Array], layout: Layout
) -> Predictions:
    """Put the arrays of a resolved layout together; `get` returns a column or array by its name."""
    truth = _one_column(get(found.label), scores) if found.label else None
    if found.kind == "list" and scores.ndim == 2 and scores.shape[1] == 1:  # as Keras writes the score of two classes
        scores, found = scores[:, 0], replace(found, kind="binary")
    if found.kind == "top-k":
        scores, truth = _best(scores, get(str(found.top_labels)), truth)
    elif found.kind == "pairs":
        scores = confidence_numbers(scores, "confidence", "read")
        if truth is not None and found.predicted is None:
            truth = correct_flags(truth, "correct", "read")
        elif truth is not None:
            truth = _same(get(str(found.predicted)), truth)
    elif truth is not None and layout.labels_needed and truth.ndim == 1 and found.kind not in _REGRESSION:
        known = truth
        whole, places = found, {name: i for i, name in enumerate(found.scores)}
        found = two_labels(found, array_fields({"": truth})[""], lambda *_: distinct_values(known), layout.positive)
        if found.scores != whole.scores:  # the positive class comes last
            scores = scores[:, [places[name] for name in found.scores]]
    if found.kind == "list" and truth is not None and truth.dtype.kind in "OU" and layout.labels_needed:
        found = replace(found, classes=found.classes or layout.classes)
    kind = _KINDS.get(found.kind, "vectors")
    if kind != "regression" and found.space == "proba" and scores.dtype.kind in "fiu":
        argument = "confidence" if kind == "pairs" else "y_proba"
        scores = scaled(scores, percent=layout.percent, argument=argument)
        scores = unrounded(scores) if scores.ndim == 2 and found.space == "proba" else scores
    if found.names is not None and truth is not None and _counts(truth, len(found.names)):
        truth, found = (
            np.asarray(found.names, dtype=object)[truth.astype(np.int64)],
            replace(found, classes=found.names),
        )
        said = replace(found, classes=None)
    else:
        said = found
        found = found if truth is not None or found.names is None else replace(found, classes=found.names)
    variance = None
    if found.variance is not None:
        variance = get(found.variance)
        if found.std:
            variance = np.asarray(variance, dtype=np.float64)
            if (variance < 0).any():
                row = bad_rows(variance < 0)
                raise input_error("std", "read", "not be negative", f"{variance[row['rows'][0]]:.6g}", "fix it", **row)
            variance = np.square(variance)
    source = found.scores if found.variance is None else (*found.scores, found.variance)
    weights = None if found.weight is None else get(found.weight)
    say(said, len(scores), told=layout.weight is not None)
    return Predictions(
        kind,
        scores,
        truth,
        found.space,
        weights,
        found.classes,
        variance,
        dict(rest),
        source,
        std=found.std,
        levels=found.levels,
    )


_REGRESSION = ("regression", "quantiles")
_KINDS = {"pairs": "pairs", "top-k": "pairs", "regression": "regression", "quantiles": "regression"}


def _best(scores: Array, labels: Array, truth: Array | None) -> tuple[Array, Array | None]:
    """Return the best of the top-k scores of each row, and whether its label is the truth."""
    if scores.shape != labels.shape or scores.ndim != 2:
        raise FileError(
            f"scores and labels of the best classes have shapes {scores.shape} and {labels.shape}",
            hint="store one label beside every score",
        )
    rows, best = np.arange(len(scores)), scores.argmax(axis=1)
    return scores[rows, best], None if truth is None else _same(labels[rows, best], truth)


def _same(predicted: Array, truth: Array) -> Array:
    """Return where two columns of labels agree; numbers written as text agree with numbers, and Cat with cat."""
    if predicted.dtype.kind in "OUS" or truth.dtype.kind in "OUS":
        pairs = zip(predicted.tolist(), truth.tolist(), strict=True)
        return np.array([a == b or plain_name(a) == plain_name(b) != "" for a, b in pairs])
    return np.asarray(predicted == truth)


def _one_column(truth: Array, scores: Array) -> Array:
    """Return labels as one column, where they are a matrix of one, or rows with a 1 at the class."""
    if truth.ndim == 2 and truth.shape[1] == 1:
        return np.asarray(truth[:, 0])
    matrix = truth.ndim == 2 and truth.shape == scores.shape and truth.dtype.kind in "fiub"
    if matrix and np.isin(truth, (0, 1)).all() and (truth.sum(axis=1) == 1).all():
        note("the labels are one-hot rows: the place of the 1 is the class")
        return np.asarray(truth.argmax(axis=1))
    return truth


def _counts(truth: Array, n: int) -> bool:
    """Whether labels count n columns from 0."""
    whole = truth.dtype.kind in "iu" or (truth.dtype.kind == "f" and bool((truth == np.round(truth)).all()))
    return truth.ndim == 1 and whole and len(truth) > 0 and truth.min() >= 0 and truth.max() < n


def distinct_values(column: Array) -> list[Any]:
    """Return the distinct values of a column, missing ones left out."""
    if column.dtype == object:
        return [value for value in set(column.tolist()) if value is not None and value == value]  # noqa: PLR0124
    found = np.unique(column)
    return (found[~np.isnan(found)] if column.dtype.kind == "f" else found).tolist()


def frame_predictions(
    frame: Any, layout: Layout, source: str = "the frame", *, first_line: int | None = None
) -> Predictions:
    """Return the rows of an eager frame (Polars, pandas, PyArrow), by the names of its columns."""
    table = frame
    if not type(frame).__module__.startswith("polars"):  # Polars has the same methods
        import narwhals.stable.v2 as nw

        table = nw.from_native(frame, eager_only=True)
    schema = table.collect_schema()
    fields = table_fields(schema)

    def column(name: str) -> Array:
        if fields[name].kind == "list":
            return _stack_lists(table[name], source)
        if type(schema[name]).__name__ in ("Int128", "UInt128"):  # NumPy has no such numbers
            return np.array(table[name].to_list(), dtype=object)
        return np.asarray(table[name].to_numpy())

    nested = ("List", "Array", "Object", "Struct")
    flat = [name for name, dtype in schema.items() if type(dtype).__name__ not in nested]
    if layout.part is not None:
        raise input_error("part", "read", "be left out for tables", repr(layout.part), "filter the rows instead")
    found = resolve(fields, layout, source=source, values=Look(column))
    if found.kind in ("wide", "quantiles"):
        scores = np.stack([column(name) for name in found.scores], axis=1)
    else:
        scores = column(found.scores[0])
    used = set(found.used)
    rest = {name: column(name) for name in flat if name not in used}
    with _lines(first_line):
        return replace(assemble(found, column, scores, rest, layout), first_line=first_line)


class Look:
    """A look at the values of columns in memory, for names that do not say enough."""

    #: Rows that are enough for a first look.
    FIRST = 1_000

    def __init__(self, column: Callable[[str], Array]) -> None:
        self.column = column

    def __call__(self, name: str, first: bool) -> list[Any]:
        """Return the distinct values of a column, or of its first rows."""
        values = self.column(name)
        return distinct_values(values[: self.FIRST] if first else values)

    def row_sums(self, names: Sequence[str]) -> Array:
        """Return the sums of the first rows over some columns."""
        columns = [self.column(n)[: self.FIRST] for n in names]
        numbers = all(column.dtype.kind in "biuf" for column in columns)  # text is named by the check of scores
        return np.asarray(np.sum(columns, axis=0, dtype=np.float64)) if numbers else np.array([])


def _stack_lists(series: Any, source: str) -> Array:
    values = series.to_list()
    if not any(isinstance(value, list | tuple) or getattr(value, "ndim", 0) for value in values):
        return to_array(series.to_numpy(), str(series.name), "read")  # a column of plain objects
    lengths = [-1 if value is None else len(value) if hasattr(value, "__len__") else 0 for value in values]
    row = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if row is not None:
        raise FileError(
            f"{source} has lists of {max(lengths[0], 0)} and of {max(lengths[row], 0)} entries (row {row})",
            hint="one probability per class in every row",
        )
    native = series.to_native() if hasattr(series, "to_native") else series
    if hasattr(native, "explode") and hasattr(native, "arr"):  # Polars: without a Python list in between
        flat: Array = native.explode().to_numpy()
        return flat.reshape(len(values), -1)
    return np.asarray(values)


def column_of(predictions: Predictions, name: str, argument: str = "by") -> Array:
    """Return a column that makes slices or groups; errors name the argument that asked for it."""
    if name not in predictions.columns:
        have = ", ".join(predictions.columns) or "none"
        raise FileError(f"there is no column {name!r} to cut by; there are: {have}", hint=f"check {{{argument}}}")
    return predictions.columns[name]


def score_matrix(predictions: Predictions, normalize: bool = False) -> Any:
    """Return the scores as a calibrator takes them."""
    if predictions.kind != "vectors":
        what = "top-label pairs" if predictions.kind == "pairs" else "means and variances"
        raise FileError(
            f"the file holds {what}; a calibrator of classes needs the probabilities of all classes",
            hint="store probs or logits",
        )
    if normalize and predictions.space == "proba" and predictions.scores.ndim == 2:
        scores: Floats = np.asarray(predictions.scores, dtype=np.float64)
        return scores / scores.sum(axis=1, keepdims=True)
    return predictions.scores


def to_forecast(predictions: Predictions, *, caller: str, normalize: bool = False) -> Forecast:
    """Return rows of class probabilities or top-label pairs, checked.

    Examples
    --------
    >>> import polars as pl
    >>> from calibrant.io.layout import Layout
    >>> found = frame_predictions(pl.DataFrame({"score": [0.9, 0.2], "label": [1, 0]}), Layout(), "a frame")
    >>> to_forecast(found, caller="evaluate").n_classes
    2
    """
    with _lines(predictions.first_line):
        return _forecast(predictions, caller, normalize)


@contextmanager
def _lines(first_line: int | None) -> Iterator[None]:
    """Count the rows of errors as lines of the file, where it has lines."""
    try:
        yield
    except InputError as error:
        if first_line is None or not error.rows:
            raise
        raise error.in_file(first_line) from None


def _forecast(predictions: Predictions, caller: str, normalize: bool) -> Forecast:
    if predictions.kind == "regression":
        raise input_error("data", caller, "hold class probabilities", "means and variances", "use calibrant.regression")
    if predictions.truth is None:
        raise FileError("no labels were found", hint="name them with {label}")
    if predictions.space == "logit":
        refuse_normalize(normalize, caller, "logits")
    if predictions.kind == "pairs":
        refuse_normalize(normalize, caller, "top-label pairs")
        return check_pairs(predictions.truth, predictions.scores, caller=caller, sample_weight=predictions.weights)
    return check_forecast(
        predictions.truth,
        predictions.scores,
        caller=caller,
        sample_weight=predictions.weights,
        classes=predictions.classes,
        space=predictions.space,
        normalize=normalize,
    )


def to_evidence(predictions: Predictions, *, caller: str, normalize: bool = False) -> Any:
    """Return the evidence in rows: a `Forecast`, or rows of means and variances.

    Examples
    --------
    >>> import polars as pl
    >>> from calibrant.io.layout import Layout
    >>> frame = pl.DataFrame({"mean": [0.0, 1.0], "variance": [1.0, 1.0], "y": [0.3, 0.8]})
    >>> to_evidence(frame_predictions(frame, Layout(), "a frame"), caller="evaluate").task
    'regression'
    """
    if predictions.kind != "regression":
        return to_forecast(predictions, caller=caller, normalize=normalize)
    refuse_normalize(normalize, caller, "means and variances")
    if predictions.truth is None:
        raise FileError("no outcomes were found", hint="name them with {label}")
    if predictions.levels:
        table = Quantiles(np.asarray(predictions.levels), predictions.scores)
        coins = np.random.default_rng(0)  # so that every command sees the same PIT
        return check_rows(predictions.truth, table, None, caller=caller, sample_weight=predictions.weights, coins=coins)
    with _lines(predictions.first_line):
        return check_rows(
            predictions.truth,
            predictions.scores,
            predictions.variance,
            caller=caller,
            sample_weight=predictions.weights,
        )


def refuse_normalize(normalize: bool, caller: str, what: str) -> None:
    """Refuse to rescale what does not sum to 1 by nature."""
    if normalize:
        raise input_error("normalize", caller, f"be left out for {what}", "True", "leave it out")


def weighed(rows: Predictions, kind: WeightKind | None, *, caller: str, normalize: bool = False) -> Predictions:
    """Return rows whose weights are read as the user says: importance weights sum to Kish's number of rows."""
    if kind is None:
        return rows
    read = to_evidence(rows, caller=caller, normalize=normalize).read_weights(kind)
    if kind == "frequency":
        return rows
    return replace(rows, weights=read.weights * (effective_n(read.weights, read.n) / read.weights.sum()))
