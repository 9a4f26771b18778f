"""One file of predictions into arrays: .npz, .npy pair, .csv, .parquet, .arrow, .jsonl, stdin."""

from __future__ import annotations

import fnmatch
import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array, Space
from calibrant.errors import FileError

__all__ = ["Layout", "Predictions", "read_predictions", "read_table", "table_predictions"]

#: Formats by suffix; a pickle is never opened.
FORMATS = {
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
PICKLES = {".pkl", ".pickle", ".p", ".pt", ".pth", ".joblib"}


@dataclass(frozen=True)
class Layout:
    """Where things are in a file, as far as the caller says so; None means the standard names."""

    proba: str | None = None
    label: str | None = None
    weight: str | None = None
    space: Space | None = None
    mean: str | None = None
    variance: str | None = None
    part: str | None = None
    default_part: str = "test"
    labels_needed: bool = True


@dataclass(frozen=True)
class Predictions:
    """What a file holds: vectors or binary scores, top-label pairs, or means with variances."""

    kind: str
    scores: Array
    truth: Array | None
    space: Space = "proba"
    weights: Array | None = None
    classes: tuple[Any, ...] | None = None
    variance: Array | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)
    #: Names of the columns or the array that held the scores, so that `apply` can replace them.
    source: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.scores)


def read_predictions(path: str | Path, layout: Layout | None = None, *, input_format: str | None = None) -> Predictions:
    """Read one file (``-`` is standard input) into arrays, by the names of the file layouts."""
    layout = layout or Layout()
    kind = file_format(path, input_format)
    if kind == "npz":
        return _from_npz(Path(path), layout)
    if kind == "npy":
        return _from_npy(Path(path), layout)
    if kind == "jsonl":
        return _from_jsonl(path, layout)
    return table_predictions(read_table(path, input_format=input_format), layout, str(path))


def file_format(path: str | Path, input_format: str | None = None) -> str:
    """Return the format of a file by its suffix (or by name for standard input), after looking that it is there."""
    if str(path) == "-":
        return input_format or "csv"
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in PICKLES:
        raise FileError(f"{path} looks like a pickle, which is never loaded. Hint: save arrays with numpy.savez.")
    if not path.exists():
        raise FileError(f"{path} does not exist. Hint: check the path.")
    if path.is_dir():
        raise FileError(f"{path} is a directory. Hint: name a file, or a pattern such as '{path}/*.parquet'.")
    if input_format is not None:
        return input_format
    if suffix not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise FileError(f"{path} has no known suffix ({known}). Hint: rename it or give --input-format.")
    return FORMATS[suffix]


def _reading(path: str | Path, read: Callable[[], Any]) -> Any:
    """Run a reader and turn any library's complaint into one clear line."""
    try:
        return read()
    except (FileError, MemoryError):
        raise
    except Exception as error:  # every library has its own family; the user needs one line
        text = " ".join(str(error).split())
        if "pickle" in text.lower():
            raise FileError(
                f"{path} holds pickled objects, which are never loaded. Hint: save plain arrays."
            ) from error
        raise FileError(
            f"{path} cannot be read: {text[:200]}. Hint: check that it is complete and of its suffix's format."
        ) from error


# -- arrays ---------------------------------------------------------------------------------------


def _from_npy(path: Path, layout: Layout) -> Predictions:
    def load(name: str | Path) -> Array:
        array: Array = _reading(name, lambda: np.load(name, allow_pickle=False))
        return array

    scores = load(path)
    if layout.label is None:
        if layout.labels_needed:
            raise FileError(f"{path} holds no labels. Hint: name them with --label labels.npy.")
        truth = None
    else:
        file_format(layout.label)
        truth = load(layout.label)
    return Predictions("vectors", scores, truth, layout.space or "proba", source=("probs",))


def _from_npz(path: Path, layout: Layout) -> Predictions:
    def load() -> dict[str, Array]:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    arrays = _reading(path, load)
    parts = sorted({name.rpartition("_")[2] for name in arrays if name.rpartition("_")[0] in _PART_NAMES})
    part = layout.part or layout.default_part

    def find(*names: str) -> tuple[str, Array] | None:
        for name in names:
            for key in (f"{name}_{part}", name) if layout.part or f"{name}_{part}" in arrays else (name,):
                if key in arrays:
                    return key, arrays[key]
        return None

    def pick(*names: str) -> Array | None:
        found = find(*names)
        return None if found is None else found[1]

    def missing(what: str) -> FileError:
        if parts and part not in parts:
            return FileError(f"{path} has no part {part!r}; it has {', '.join(parts)}. Hint: choose one with --part.")
        held = ", ".join(sorted(arrays)) or "nothing"
        return FileError(f"{path} has no {what}; it holds {held}. Hint: store probs (or logits) with labels.")

    weights, classes = pick(layout.weight or "weights"), arrays.get("classes")
    names = None if classes is None else tuple(classes.tolist())
    used: list[str] = [f"{n}{s}" for n in ("weights", "classes") for s in ("", f"_{part}")]

    def rest(n: int) -> dict[str, Array]:
        out = {}
        for key, value in arrays.items():
            base = key.removesuffix(f"_{part}")
            other_part = key.rpartition("_")[2] in parts and not key.endswith(f"_{part}")
            if key not in used and not other_part and value.ndim == 1 and len(value) == n:
                out[base] = value
        return out

    def truth_of(*keys: str) -> Array | None:
        found = find(*((layout.label,) if layout.label else keys))
        if found is None:
            if layout.labels_needed:
                raise missing("labels")
            return None
        used.append(found[0])
        return found[1]

    mean = find(layout.mean or "mean")
    named = (layout.proba,) if layout.proba else ("probs", "logits", "prob")
    proba = None if mean and not layout.proba else find(*named)
    if mean is not None and proba is None:
        held = find(layout.variance or "variance", "std")
        if held is None:
            raise missing("variance (or std)")
        name, spread = held
        if layout.variance is None and name.startswith("std"):
            spread = np.square(spread.astype(np.float64))
        truth = truth_of("y", "labels")
        return Predictions(
            "regression",
            mean[1],
            truth,
            weights=weights,
            variance=spread,
            columns=rest(len(mean[1])),
            source=(mean[0], name),
        )
    if proba is not None:
        key, scores = proba
        used.append(key)
        space: Space = layout.space or ("logit" if key.startswith("logit") else "proba")
        truth = truth_of("labels", "outcome")
        return Predictions("vectors", scores, truth, space, weights, names, columns=rest(len(scores)), source=(key,))
    confidence = find("confidence", "conf")
    if confidence is not None:
        key, scores = confidence
        used.append(key)
        predicted = find("pred")
        if predicted is not None:
            used.append(predicted[0])
            labels = truth_of("labels")
            correct = None if labels is None else predicted[1] == labels
        else:
            correct = truth_of("correct")
        return Predictions("pairs", scores, correct, weights=weights, columns=rest(len(scores)), source=(key,))
    raise missing("probabilities")


_PART_NAMES = {
    "probs",
    "logits",
    "labels",
    "prob",
    "outcome",
    "conf",
    "confidence",
    "correct",
    "pred",
    "mean",
    "variance",
    "std",
    "y",
    "weights",
}


# -- tables ---------------------------------------------------------------------------------------


def read_table(path: str | Path, *, input_format: str | None = None) -> Any:
    """Read a table with Polars."""
    import polars as pl

    kind = file_format(path, input_format)
    source: Any = io.BytesIO(sys.stdin.buffer.read()) if str(path) == "-" else path
    readers: dict[str, Callable[[], Any]] = {
        "csv": lambda: pl.read_csv(source, infer_schema_length=10_000),
        "tsv": lambda: pl.read_csv(source, separator="\t", infer_schema_length=10_000),
        "parquet": lambda: pl.read_parquet(source),
        "arrow": lambda: _read_arrow(source),
        "jsonl": lambda: pl.read_ndjson(source, infer_schema_length=10_000),
    }
    if kind not in readers:
        raise FileError(f"{path} is not a table. Hint: tables are csv, tsv, parquet, arrow and jsonl.")
    frame = _reading(path, readers[kind])
    if not frame.height:
        raise FileError(f"{path} has no rows. Hint: check how it was written.")
    return frame


def _read_arrow(source: Any) -> Any:
    import polars as pl

    try:
        return pl.read_ipc(source)
    except pl.exceptions.ComputeError:
        return pl.read_ipc_stream(source)


def table_predictions(frame: Any, layout: Layout, path: str) -> Predictions:
    """Find scores, truth, weights and the rest among the columns of a Polars frame."""
    names = list(frame.columns)

    def missing(what: str, hint: str) -> FileError:
        return FileError(f"{path} has no {what}; its columns are {', '.join(names[:12])}. Hint: {hint}.")

    def column(name: str) -> Array:
        array: Array = frame[name].to_numpy()
        return array

    def truth(standard: str, used: list[str]) -> Array | None:
        name = layout.label or standard
        if name not in names:
            if layout.label or layout.labels_needed:
                raise missing(f"column {name!r}", "name the truth with --label")
            return None
        used.append(name)
        return column(name)

    used: list[str] = []
    weight_name = layout.weight or "weight"
    if layout.weight and layout.weight not in names:
        raise missing(f"column {layout.weight!r}", "name the weights with --weight")
    weights = column(weight_name) if weight_name in names else None
    used.append(weight_name)

    def build(kind: str, scores: Array, y: Array | None, source: tuple[str, ...], **more: Any) -> Predictions:
        rest = {name: column(name) for name in names if name not in used and name not in source}
        return Predictions(kind, scores, y, weights=weights, columns=rest, source=source, **more)

    if layout.mean or ("mean" in names and "variance" in names and not layout.proba):
        mean, variance = layout.mean or "mean", layout.variance or "variance"
        for name in (mean, variance):
            if name not in names:
                raise missing(f"column {name!r}", "name them with --mean and --variance")
        used.append(variance)
        y = truth("y" if "y" in names else "label", used)
        return build("regression", column(mean), y, (mean, variance), variance=column(variance))
    found = _score_columns(names, layout)
    if found is None:
        if "confidence" in names:
            return build("pairs", column("confidence"), truth("correct", used), ("confidence",))
        raise missing("probabilities", "columns p_* or logit_*, a list column probs, score, or --proba 'prob_*'")
    source, space, classes = found
    y = truth("label", used)
    if len(source) > 1:
        scores = frame.select(source).to_numpy()
    elif frame[source[0]].dtype.is_nested():
        scores = _stack_lists(frame[source[0]], path)
    else:
        scores = column(source[0])
    if classes is not None and y is not None and y.dtype.kind in "iu" and not isinstance(classes[0], int):
        classes_for_labels = None  # indices beside named columns
    else:
        classes_for_labels = classes
    return build("vectors", scores, y, tuple(source), space=space, classes=classes_for_labels)


def _score_columns(names: list[str], layout: Layout) -> tuple[list[str], Space, tuple[Any, ...] | None] | None:
    """Return the score columns in class order, their space and the class names."""
    patterns: list[tuple[str, Space]] = [("p_*", "proba"), ("logit_*", "logit")]
    if layout.proba:
        patterns = [(layout.proba, layout.space or "proba")]
    for pattern, space in patterns:
        hits = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
        if "*" in pattern and len(hits) > 1:
            head, _, tail = pattern.partition("*")
            suffixes = [name[len(head) : len(name) - len(tail)] for name in hits]
            if all(suffix.isdigit() for suffix in suffixes):
                order = sorted(range(len(hits)), key=lambda i: int(suffixes[i]))
                numbers = tuple(int(suffixes[i]) for i in order)
                classes = None if numbers == tuple(range(len(numbers))) else numbers
                return [hits[i] for i in order], layout.space or space, classes
            return hits, layout.space or space, tuple(suffixes)
        if hits and "*" not in pattern:
            return hits, layout.space or space, None
    singles: list[tuple[str, Space]] = [("probs", "proba"), ("logits", "logit"), ("score", "proba")]
    for name, space in singles:
        if name in names and not layout.proba:
            return [name], layout.space or space, None
    return None


def _stack_lists(series: Any, path: str) -> Array:
    lengths = series.list.len() if hasattr(series.dtype, "inner") and "List" in str(series.dtype) else None
    if lengths is not None and (lengths.null_count() or lengths.n_unique() > 1):
        first = int(lengths[0] or 0)
        row = next(i for i, length in enumerate(lengths) if length != first)
        raise FileError(
            f"{path} has lists of {first} and of {lengths[row]} entries (row {row}). "
            "Hint: one probability per class in every row."
        )
    flat: Array = series.explode().to_numpy()
    return flat.reshape(len(series), -1)


# -- JSON lines -----------------------------------------------------------------------------------


def _from_jsonl(path: str | Path, layout: Layout) -> Predictions:
    text = sys.stdin.read() if str(path) == "-" else _reading(path, lambda: Path(path).read_text(encoding="utf-8"))
    records = []
    for number, line in enumerate(text.splitlines()):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise FileError(
                    f"{path} is not JSON at line {number + 1}: {error.msg}. Hint: one record per line."
                ) from error
    if not records:
        raise FileError(f"{path} has no records. Hint: check how it was written.")
    if isinstance(records[0], dict) and "filtered_resps" in records[0]:
        return _from_harness(records, str(path))
    import polars as pl

    frame = _reading(path, lambda: pl.DataFrame(records, infer_schema_length=None, strict=False))
    return table_predictions(frame, layout, str(path))


def _from_harness(records: list[dict[str, Any]], path: str) -> Predictions:
    """Samples of lm-evaluation-harness: log-likelihoods of the choices are logits, `target` is the truth."""
    logits, truth = [], []
    for row, record in enumerate(records):
        try:
            logits.append([float(choice[0]) for choice in record["filtered_resps"]])
            truth.append(_harness_target(record["target"]))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FileError(
                f"{path} is no multiple-choice sample file at record {row} ({error!r}). "
                "Hint: calibration needs one log-likelihood per choice."
            ) from error
        if len(logits[-1]) != len(logits[0]):
            raise FileError(
                f"{path} has {len(logits[0])} choices at record 0 and {len(logits[-1])} at record {row}. "
                "Hint: evaluate one task at a time."
            )
    columns = {}
    for name in ("doc_id", "task_name", "subject"):
        values = [_field(record, name) for record in records]
        if None not in values:
            columns[name] = np.array(values)
    return Predictions(
        "vectors", np.array(logits), np.array(truth), "logit", columns=columns, source=("filtered_resps",)
    )


def _field(record: dict[str, Any], name: str) -> Any:
    doc = record.get("doc")
    return record.get(name, doc.get(name) if isinstance(doc, dict) else None)


def _harness_target(target: Any) -> int:
    if isinstance(target, str) and len(target.strip()) == 1 and target.strip().isalpha():
        return ord(target.strip().upper()) - ord("A")
    return int(target)
