"""What the verbs take: a path, a pattern, a frame, arrays or evidence; here it becomes evidence, once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._typing import Array, Space
from calibrant.core.arguments import check_arguments
from calibrant.core.declare import lookup
from calibrant.core.frames import column_names, is_frame, is_lazy, named_columns
from calibrant.core.inputs import check_pairs, to_array
from calibrant.core.rows import check_rows
from calibrant.core.tables import COARSE, FINE
from calibrant.core.weights import WeightKind
from calibrant.engines.registry import get_engine
from calibrant.engines.scans import read_scan
from calibrant.engines.tables import local_path
from calibrant.errors import FileError, InputError, input_error
from calibrant.inference.slices import split, split_column
from calibrant.io.labels import two_labels
from calibrant.io.layout import Columns, Layout, array_fields
from calibrant.io.paths import is_many, is_path, plain_errors
from calibrant.io.predictions import Predictions, column_of, distinct_values, frame_predictions, to_evidence
from calibrant.io.readers import read_predictions
from calibrant.io.scale import scaled
from calibrant.io.suspicions import say_suspicions
from calibrant.summary.files import load_summaries
from calibrant.summary.slices import Slices
from calibrant.workflows.rejection import check_rejected

__all__ = [
    "ENGINES", "LAYOUT", "SAME_COLUMNS", "Opened", "Reading", "array_rows", "left_out", "names_of", "need_bins",
    "open_data", "open_rows"
]  # fmt: skip

#: Name of a slice column that is not in the data: the file of each row.
FILE = "_file"
#: What to do about a complaint of an engine.
SAME_COLUMNS = "check that every file is complete, has the same columns, and leaves cells without a number empty"
#: Bytes from which a table is worked through in cells unless an option needs its rows.
LARGE = 1 << 30
#: Bytes up to which a text file is read whole where a table would be scanned.
IN_MEMORY = 1 << 28
_STREAMED = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".ipc", ".ndjson")
_log = logging.getLogger("calibrant.read")
#: What only files and frames need.
ENGINES = ("engine", "master", "strict", "skip_bad_files", "max_rejected")
LAYOUT = ("proba", "label", "weight", "mean", "variance", "std", "part", "confidence", "correct")


@dataclass(frozen=True)
class Reading:
    """How the data of one call are read: the options that every verb shares.

    Attributes
    ----------
    caller : str
        The verb, for errors.
    space, normalize
        What the scores are (default: by name, "proba" for arrays), and whether rows are rescaled to sum 1.
    proba, label, weight, mean, variance, std, part
        Names of columns and arrays (`calibrant.io.Layout`), for files and frames.
    engine, master, strict
        Engine for files larger than memory, address of a Spark cluster, and whether rows that are missing a value
        are an error instead of being counted. Rows in memory are always strict.
    skip_bad_files, max_rejected
        Whether files that cannot be read are counted and left out, and the largest fraction of rows (0.01, "1%") that
        may be left out.
    input_format
        Format of one file when the suffix does not say.
    positive, percent
        Of two labels the one that a single score speaks of; whether the scores are percentages.
    confidence, correct
        Names of the columns of top-label pairs.
    sample_weight, classes, pairs
        For arrays.
    weight_kind
        Whether weights count rows or say how much each matters; default by whether they are whole numbers.
    default_part, labels_needed
        As in `Layout`.
    known_classes
        Classes of another file of the same problem.
    need
        What an engine is to count, as in `calibrant.engines.summarize`.
    """

    caller: str
    space: Space | None = None
    normalize: bool = False
    proba: str | Sequence[str] | None = None
    label: str | None = None
    weight: str | None = None
    mean: str | None = None
    variance: str | None = None
    std: str | None = None
    part: str | None = None
    engine: str | None = None
    master: str | None = None
    strict: bool = False
    skip_bad_files: bool = False
    max_rejected: float | str | None = None
    input_format: str | None = None
    positive: Any = None
    percent: bool = False
    confidence: str | None = None
    correct: str | None = None
    sample_weight: Any = None
    weight_kind: WeightKind | None = None
    classes: Any = None
    pairs: bool = False
    default_part: str = "test"
    labels_needed: bool = True
    known_classes: tuple[Any, ...] | None = None
    need: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        check_arguments(type(self).__annotations__, vars(self), self.caller)

    @classmethod
    def of(cls, caller: str, arguments: Mapping[str, Any], **fixed: Any) -> Reading:
        """Return the options of reading among the arguments of a verb, and what the verb fixes itself."""
        names = {each.name for each in fields(cls)}
        return cls(caller, **{name: arguments[name] for name in names & arguments.keys()}, **fixed)

    @property
    def layout(self) -> Layout:
        """Names of columns and arrays."""
        every = (*LAYOUT, "space", "default_part", "labels_needed", "positive", "percent")
        given = {name: getattr(self, name) for name in every}
        return Layout(**given, classes=self.known_classes)

    def refuse(self, names: Sequence[str], why: str, hint: str = "leave it out") -> None:
        """Refuse options that have no meaning here, by name."""
        for name in names:
            value = getattr(self, name)
            if value is not None and value is not False:
                raise left_out(name, self.caller, why, value, hint)


def left_out(name: str, caller: str, why: str, value: Any, hint: str = "leave it out") -> InputError:
    """Return the error for an option that these data cannot honor."""
    shown = repr(value) if isinstance(value, str | bool | int | float | tuple | list) else type(value).__name__
    return input_error(name, caller, f"be left out {why}", shown, hint)


@dataclass(frozen=True)
class Opened:
    """Evidence with its slices and clusters."""

    evidence: Any
    by: tuple[str, ...] = ()
    parts: Mapping[tuple[Any, ...], Any] = field(default_factory=dict)
    clusters: Array | None = None
    part_clusters: Mapping[tuple[Any, ...], Array] | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)
    #: Rows in memory as read from a file or frame; None for arrays and cells.
    predictions: Predictions | None = None
    #: The summaries of an engine, None for rows.
    cells: Any = None


def names_of(by: Any, caller: str) -> list[str]:
    """Return the names of columns: one string, comma-separated, or several."""
    if by is None:
        return []
    if isinstance(by, Mapping):
        raise left_out("by", caller, "as arrays next to a file or frame", "a mapping", "name columns")
    check_arguments({"by": "str | Sequence[str]"}, {"by": by}, caller)
    given = [by] if isinstance(by, str) else list(by)
    names = [part.strip() for item in given for part in item.split(",") if part.strip()]
    if given and not names:
        raise input_error("by", caller, "name a column", repr(by), "leave it out, or name one")
    return names


def open_data(
    data: Any, y_proba: Any, how: Reading, *, by: Any = None, groups: Any = None, n_bins: int | None = None
) -> Opened:
    """Return the evidence of one call, in rows where they fit in memory and in cells where an engine is asked for."""
    opened = _open(data, y_proba, how, by, groups, n_bins)
    if how.weight_kind is None:
        return opened
    parts = {key: part.read_weights(how.weight_kind) for key, part in opened.parts.items()}
    return replace(opened, evidence=opened.evidence.read_weights(how.weight_kind), parts=parts)


def _open(data: Any, y_proba: Any, how: Reading, by: Any, groups: Any, n_bins: int | None) -> Opened:
    if y_proba is not None:
        return _from_arrays(data, y_proba, how, by, groups)
    if hasattr(data, "null_draws") or hasattr(data, "sorted_parts"):  # evidence, or the slices of an engine
        return _from_evidence(data, how, by, groups)
    stored = load_summaries(data)
    if stored is not None:
        names = names_of(by, how.caller)
        return _from_evidence(stored.regrouped(names) if names else stored, how, None, groups)
    how.refuse(("sample_weight", "classes"), "next to a file or frame", "name columns with {weight} and {label}")
    how.refuse(("pairs",), "next to a file or frame: columns confidence and correct say it")
    if _in_cells(data, how) and not (groups is not None and is_path(data) and how.engine is None and not is_many(data)):
        return _from_cells(data, how, by, groups, n_bins)
    predictions = open_rows(data, how)
    evidence = to_evidence(predictions, caller=how.caller, normalize=how.normalize)
    say_suspicions(evidence)
    columns = {name: column_of(predictions, name) for name in names_of(by, how.caller)}
    clusters = None if groups is None else column_of(predictions, groups, "groups")
    return _sliced(evidence, columns, clusters, predictions)


def open_rows(data: Any, how: Reading) -> Predictions:
    """Return one file or an eager frame as rows in memory."""
    how.refuse(("engine", "master"), "for rows in memory", "name a file or pattern")
    lenient = ("strict", "skip_bad_files", "max_rejected")
    how.refuse(lenient, "for rows in memory: every bad row is an error there", "leave it out, or name {engine}")
    if is_path(data):
        return read_predictions(data, how.layout, input_format=how.input_format)
    how.refuse(("input_format",), "for a frame")
    if not is_frame(data):
        raise input_error(
            "y_proba", how.caller, "be given next to arrays of labels", "None", "or name a file, pattern or frame"
        )
    return frame_predictions(data, how.layout)


def _in_cells(data: Any, how: Reading) -> bool:
    """Whether data go through an engine: a pattern, a lazy frame, an engine by name, or one large table."""
    if is_path(data):
        return how.engine is not None or is_many(data) or is_large(data, how)
    return is_lazy(data)


def is_large(data: Any, how: Reading) -> bool:
    """Whether a file is a table too large to be read into memory as rows."""
    path = Path(data)
    if path.suffix.lower() not in _STREAMED or how.input_format is not None or not path.is_file():
        return False
    large = path.stat().st_size >= LARGE
    if large:
        _log.info("%s is large: it is worked through in cells by Polars (name {engine} for another)", path.name)
    return large


def _from_cells(data: Any, how: Reading, by: Any, groups: Any, n_bins: int | None) -> Opened:
    if groups is not None:
        hint = "evaluate one file without {engine}"
        raise left_out("groups", how.caller, "on an engine: cells have no clusters", groups, hint)
    names = names_of(by, how.caller)
    bins = [] if n_bins is None or not (COARSE % n_bins or FINE % n_bins) else [n_bins]
    cells = summarize_data(data, how, by=names, n_bins=bins, need=how.need)
    return Opened(cells.whole, cells.by, cells.sorted_parts(), cells=cells)


def summarize_data(data: Any, how: Reading, **options: Any) -> Slices:
    """Return the summaries of a pattern, path or frame, whole and by slices."""
    from calibrant.engines.frames import summarize  # brings Narwhals

    options |= {"strict": how.strict, "normalize": how.normalize}
    if not is_path(data):
        how.refuse(("engine", "master", "input_format", "skip_bad_files"), "for a frame: it brings its engine")
        return _checked(summarize(data, how.layout, **options), how)
    by = tuple(options.get("by", ()))

    def work(scan: Any, module: Any, layout: Layout) -> Any:
        path = FILE if FILE in by and FILE not in {**scan.types, **scan.partitions} else None
        found = summarize(scan.open(module, how.master or "local[*]", path_column=path), layout, **options)
        return found if path is None else _by_file(found, by.index(FILE), scan.files)

    found, scan = on_files(data, how, work, by=tuple(name for name in by if name != FILE))
    found.whole.skipped = scan.skipped
    return _checked(found, how)


def _by_file(found: Any, place: int, files: Sequence[str]) -> Any:
    """Return slices with the names of files as the caller knows them: engines give paths or addresses."""
    known = {str(Path(name).absolute()): name for name in files}
    parts = {}
    for key, part in found.parts.items():
        path = local_path(key[place])
        name = known.get(str(Path(path).absolute()), path)
        parts[(*key[:place], name, *key[place + 1 :])] = part
    return replace(found, parts=parts)


def on_files(data: Any, how: Reading, work: Callable[[Any, Any, Layout], Any], **check: Any) -> tuple[Any, Any]:
    """Work on the files of a path with the engine asked for, schema first; return the result and what was scanned.

    A file that cannot be read is named, or left out and counted where the caller allows it.
    """
    how.refuse(("input_format",), "on an engine: the suffix says the format")
    if how.engine != "spark":
        how.refuse(("master",), "on other engines than Spark")
    if not is_many(data):
        how.refuse(("skip_bad_files",), "for one file: nothing would be left")
    module = get_engine(how.engine or "auto", how.caller)
    scan = read_scan(data, skip_bad=how.skip_bad_files)
    while True:
        scan.check(how.layout, **check)
        try:
            with plain_errors(data, SAME_COLUMNS):
                return work(scan, module, replace(how.layout, declared=scan.tolerance)), scan
        except FileError as error:
            bad = [] if error.__cause__ is None else scan.damaged(list(scan.types))
            if not bad:
                raise
            if not how.skip_bad_files:
                more = f" (and {len(bad) - 1} more files)" if len(bad) > 1 else ""
                raise FileError(
                    f"{bad[0]} cannot be read{more}", hint="write it again, or leave it out with {skip_bad_files}"
                ) from error.__cause__
            scan = scan.without(bad)


def _checked(found: Slices, how: Reading) -> Any:
    check_rejected(found.rejected, found.whole.n, how)
    if found.whole.pairs:
        how.refuse(("normalize",), "for top-label pairs")
    return found


def _from_arrays(y_true: Any, y_proba: Any, how: Reading, by: Any, groups: Any) -> Opened:
    how.refuse((*LAYOUT, *ENGINES, "input_format"), "next to arrays")
    if hasattr(y_proba, "crps"):  # a forecast of a whole distribution: Normal, Samples, Quantiles
        how.refuse(("space", "classes", "normalize", "pairs", "positive", "percent"), "for regression")
        evidence: Any = check_rows(y_true, y_proba, None, caller=how.caller, sample_weight=how.sample_weight)
    elif how.pairs:
        how.refuse(("space", "classes", "normalize", "positive"), "for top-label pairs")
        confidence = scaled(np.asarray(y_proba), percent=True, caller=how.caller) if how.percent else y_proba
        evidence = check_pairs(y_true, confidence, caller=how.caller, sample_weight=how.sample_weight)
    else:
        evidence = to_evidence(array_rows(y_true, y_proba, how), caller=how.caller, normalize=how.normalize)
    if by is not None and not isinstance(by, Mapping):
        raise input_error("by", how.caller, "map names to columns next to arrays", repr(by), "by={'site': column}")
    columns = {name: to_array(column, "by", how.caller) for name, column in (by or {}).items()}
    clusters = None if groups is None else to_array(groups, "groups", how.caller)
    return _sliced(evidence, columns, clusters, None)


def array_rows(y_true: Any, y_proba: Any, how: Reading) -> Predictions:
    """Return arrays as rows: a frame of probabilities brings its names as classes, and two labels say their own.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"p_cat": [0.9, 0.2], "p_dog": [0.1, 0.8]})
    >>> array_rows(["cat", "dog"], frame, Reading("evaluate")).classes
    ('cat', 'dog')
    """
    labels = to_array(y_true, "y_true", how.caller)
    scores = to_array(y_proba, "y_proba", how.caller)
    if how.percent:
        scores = scaled(scores, percent=True, caller=how.caller)
    space = how.space or "proba"
    classes = None if how.classes is None else tuple(to_array(how.classes, "classes", how.caller).tolist())
    if classes is None and scores.ndim == 2 and labels.ndim == 1:
        classes, labels = named_columns(y_proba, labels)
    if how.positive is not None and (scores.ndim != 1 or classes is not None):
        raise left_out("positive", how.caller, "next to one column per class", how.positive)
    if scores.ndim == 1 and labels.ndim == 1 and classes is None:
        found = Columns("binary", ("y_proba",), "y_true", space)
        values = distinct_values(labels)
        found = two_labels(found, array_fields({"": labels})[""], lambda *_: values, how.positive)
        classes = found.classes
    source = tuple(column_names(y_proba) or ())
    return Predictions("vectors", scores, labels, space, how.sample_weight, classes, source=source)


def _from_evidence(data: Any, how: Reading, by: Any, groups: Any) -> Opened:
    every = ("space", "normalize", "sample_weight", "classes", "pairs", "input_format")
    how.refuse((*LAYOUT, *ENGINES, *every, "positive", "percent"), "next to evidence")
    if hasattr(data, "sorted_parts"):
        for name, value in (("by", by), ("groups", groups)):
            if value is not None:
                raise left_out(name, how.caller, "next to slices", value)
        return Opened(data.whole, data.by, data.sorted_parts(), cells=data)
    columns = {name: np.asarray(column) for name, column in (by or {}).items()}
    return _sliced(data, columns, None if groups is None else np.asarray(groups), None)


def _sliced(evidence: Any, columns: Mapping[str, Array], clusters: Any, predictions: Predictions | None) -> Opened:
    if not columns:
        return Opened(evidence, clusters=clusters, predictions=predictions)
    return Opened(
        evidence,
        tuple(columns),
        split(evidence, columns),
        clusters,
        None if clusters is None else split_column(clusters, columns),
        columns,
        predictions,
    )


def need_bins(n_bins: int | None, results: Iterable[Any], task: str, caller: str) -> None:
    """Refuse a number of bins where no metric that was asked for has any."""
    names = {result.name.partition("@")[0] for result in results}
    if n_bins is not None and not any("n_bins" in lookup(name, caller, task).parameters() for name in names):
        raise left_out("n_bins", caller, f"for metrics without bins ({', '.join(sorted(names))})", n_bins)


def title_of(data: Any, default: str) -> str:
    """Return the name of a file for a title, or a default."""
    return Path(data).name if is_path(data) else default
