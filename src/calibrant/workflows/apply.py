"""`apply`: calibrated probabilities in place of the scores of a file, frame or array."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from calibrant._typing import Array, Floats, Space
from calibrant.calibrators.application import calibrate, check_applicable, is_regression, softmax_note
from calibrant.calibrators.reader import load
from calibrant.core.arguments import check_options
from calibrant.core.atomic import atomic_path, explained, refuse, sweep, temporary_name
from calibrant.core.frames import is_frame, is_lazy
from calibrant.core.results import Record
from calibrant.core.text import count, reasons
from calibrant.engines.apply import apply_frame, find_scores, look_through
from calibrant.errors import FileError, InputError, input_error
from calibrant.io.layout import Layout
from calibrant.io.paths import TABLES, file_format, is_many, is_path, target_format
from calibrant.io.predictions import Predictions, frame_predictions, refuse_normalize
from calibrant.io.readers import read_arrays, read_predictions, read_table
from calibrant.io.scale import scaled
from calibrant.io.writers import new_names, write_arrays, write_table
from calibrant.summary.files import summary_files
from calibrant.workflows.in_sample import InSample, known_rows, seen_share, write_mark
from calibrant.workflows.rejection import check_rejected_share
from calibrant.workflows.second import calibrated_rows, maps_pairs
from calibrant.workflows.sources import IN_MEMORY, Reading, left_out, names_of, on_files

__all__ = ["Applied", "apply"]

#: Formats whose text may be written in many ways.
TEXTS = ("csv", "tsv", "json", "jsonl")
#: What a way of applying returns: a note, and whether the rows were those of the fit.
Done: TypeAlias = tuple[str | None, InSample | None]


@dataclass(frozen=True)
class Applied(Record):
    """What was written where; `str()` is the terminal text."""

    source: str
    output: str
    #: What the user should know: that logits went through softmax first.
    note: str | None = None
    #: Share of the rows that the calibrator was fitted on, and its cross-fitted gain; None for rows it has not seen.
    in_sample: InSample | None = None
    #: Rows, and how many of them have no result (NULL), by reason; None where arrays are read, all of them or none.
    n: int | None = None
    rejected: dict[str, int] | None = None
    #: Files that could not be read and were left out.
    skipped: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        found = {} if self.in_sample is None else {"in_sample": self.in_sample.to_dict()}
        return {
            "schema": 1,
            "input": self.source,
            "output": self.output,
            "note": self.note,
            "n": self.n,
            "rejected": self.rejected,
            "skipped_files": list(self.skipped),
            **found,
        }

    @property
    def left_out(self) -> str | None:
        """How many rows have no result and why, in words; None if all have one."""
        parts, rejected = [], self.rejected or {}
        if why := reasons(rejected):
            parts.append(f"{count(sum(rejected.values()))} of {count(self.n or 0)} rows are NULL ({why})")
        if self.skipped:
            parts.append(f"{count(len(self.skipped))} files could not be read and were left out")
        return "; ".join(parts) or None

    def __str__(self) -> str:
        return f"Written to {self.output}."


def apply(
    calibrator: Any,
    data: Any,
    output: str | Path | None = None,
    *,
    space: Space | None = None,
    normalize: bool = False,
    proba: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    mean: str | None = None,
    variance: str | None = None,
    std: str | None = None,
    part: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    strict: bool = False,
    skip_bad_files: bool = False,
    max_rejected: float | str | None = None,
    partition_by: str | Sequence[str] | None = None,
    input_format: str | None = None,
    positive: Any = None,
    percent: bool = False,
    confidence: str | None = None,
    correct: str | None = None,
) -> Any:
    """Return or write calibrated predictions; everything else in a file or frame passes through.

    Tables stream in bounded memory; arrays are mapped in one go. A new file appears whole or not at all. Columns and
    arrays called ``logit*`` get the name of probabilities: ``logit_cat`` becomes ``p_cat``, ``logits`` ``probs``.
    Percentages stay percentages in files and frames.

    Parameters
    ----------
    calibrator : fitted calibrator, or path
        A calibrator, or the JSON file of one.
    data : path, pattern, directory, frame or array-like
        Scores, or where they are.
    output : path, optional
        Where to write; needed for files, refused for frames and arrays. The suffix says the format.
    space, normalize, proba, mean, variance, std, part, engine, master, input_format
        As in `calibrant.evaluate`.
    positive, percent, confidence, correct
        As in `calibrant.evaluate`; a calibrator that was fitted on top-label pairs replaces their confidence.
    strict, max_rejected, skip_bad_files
        A row whose scores cannot be used gives NULL and is counted; `strict` makes it an error, `max_rejected` an error
        beyond this share of the rows (0.01 or "1%"). Files that cannot be read are an error unless they are skipped.
    partition_by : str or sequence of str, optional
        Columns by whose values the output is cut into directories (``model=a/day=2026-11-15``) of Parquet; `output`
        is a new directory then. Keys that directories of the input name are columns like others.
    label, weight
        Truth and weights, which pass through; their names are checked, and kept in the printed next command.

    Returns
    -------
    Applied, frame or array
        For a path what was written; for a frame the new frame of the same kind (lazy ones stay lazy); for an array
        the calibrated probabilities.

    Examples
    --------
    >>> from calibrant.calibrators import TemperatureScaling
    >>> fitted = TemperatureScaling().fit([[0.9, 0.1]] * 3 + [[0.1, 0.9]] * 2, [0, 0, 1, 1, 1])
    >>> apply(fitted, [[0.9, 0.1]]).round(2).tolist()
    [[0.8, 0.2]]
    """
    check_options(apply, locals())
    how = Reading.of("apply", locals(), labels_needed=False)
    fitted = load(calibrator) if is_path(calibrator) else calibrator
    if maps_pairs(fitted):
        how.refuse(("proba", "space"), "here: the calibrator maps a confidence", "name it with {confidence}")
        lenient = ("engine", "master", "strict", "max_rejected", "skip_bad_files")
        how.refuse(lenient, "for top-label pairs: they are read whole, and a bad row is an error")
        if partition_by is not None:
            raise left_out("partition_by", "apply", "for top-label pairs", partition_by)
    else:
        how.refuse(("confidence", "correct"), "here: the calibrator maps the probabilities of all classes")
    if is_regression(fitted):
        refuse_normalize(normalize, "apply", "means and variances")
        how.refuse(("space", "positive", "percent"), "for means and variances")
    elif positive is not None:
        _check_positive(fitted, positive)
        how = replace(how, positive=None)
    if is_path(data):
        if output is None:
            raise input_error("output", "apply", "name the file to write", "None", "output='calibrated.csv'")
        done = _apply_path(fitted, data, output, how, names_of(partition_by, "apply"))
        if str(output) != "-" and Path(output).exists():
            write_mark(output, done.in_sample)
        return done
    if output is not None:
        raise input_error("output", "apply", "be left out for frames and arrays", str(output), "write the result")
    files_only = ("engine", "master", "input_format", "part", "strict", "skip_bad_files", "max_rejected")
    how.refuse(files_only, "for frames and arrays")
    if partition_by is not None:
        raise left_out("partition_by", "apply", "for frames and arrays", partition_by)
    if is_frame(data):
        if maps_pairs(fitted) and not is_lazy(data):
            return _apply_pairs(fitted, data, how.layout)
        return apply_frame(fitted, data, how.layout, normalize=normalize)
    how.refuse(("proba", "label", "weight", "mean", "variance", "std"), "for arrays")
    if is_regression(fitted):
        raise input_error("data", "apply", "be a file or frame of means and variances", "an array", "call predict")
    scores = scaled(np.asarray(data), percent=True, caller="apply") if percent else np.asarray(data)
    check_applicable(fitted, space or "proba")
    return calibrate(fitted, scores, space or "proba", normalize=normalize)


def _check_positive(fitted: Any, positive: Any) -> None:
    """Refuse another positive class than that of the calibrator: its score would speak of the other."""
    fitted._check_fitted("apply")
    names = np.asarray(fitted.classes_).tolist()
    if len(names) != 2:
        raise left_out("positive", "apply", f"for {len(names)} classes", positive)
    if str(names[1]) != str(positive):
        rule = f"be the class that the calibrator's score speaks of, {names[1]}"
        raise input_error("positive", "apply", rule, repr(positive), "give the score of that class")


def _apply_path(fitted: Any, path: str | Path, out: str | Path, how: Reading, keys: Sequence[str]) -> Applied:
    if summary_files(path) is not None:
        raise FileError(f"{path} holds cells, and apply maps rows", hint="name the predictions themselves")
    many = is_many(path)
    source = "parquet" if many else file_format(path, how.input_format)
    target = "parquet" if keys else target_format(out, directory=how.engine == "spark")
    _refuse_itself(path, out)
    if many and str(out) == "-":
        raise FileError(f"{path} names many files, whose result goes into a file", hint="name it with {output}")
    if many:
        how.refuse(("input_format",), "for a pattern: the suffix says the format")
    piped = "-" in (str(path), str(out)) or how.input_format is not None
    text = how.engine is None and source in TEXTS and not many and Path(path).stat().st_size <= IN_MEMORY
    whole = text or maps_pairs(fitted)
    if many or (source in TABLES and target in TABLES and not piped and (keys or not whole)):
        return _stream(fitted, path, out, target, how, keys)
    if keys:
        raise left_out("partition_by", "apply", "here: arrays and pipes have no directories", ", ".join(keys))
    how.refuse(("engine", "master", "skip_bad_files"), "here: arrays and pipes do not stream")
    if source in TABLES and target in TABLES:
        return _apply_table(fitted, path, out, target, how)
    how.refuse(("strict", "max_rejected"), "here: every bad row of an array is an error")
    note, seen = (_map_table if source in TABLES else _apply_arrays)(fitted, Path(path), out, target, how)
    return Applied(str(path), str(out), note, seen)


def _refuse_itself(path: str | Path, out: str | Path) -> None:
    if str(out) != "-" and Path(out).exists() and Path(path).exists() and Path(out).samefile(path):
        raise FileError(f"{out} is the file that is read", hint="name another output")


def _stream(fitted: Any, path: str | Path, out: str | Path, target: str, how: Reading, keys: Sequence[str]) -> Applied:
    """Stream tables through an engine into one file (or, on Spark, a directory of Parquet): all or nothing."""

    def work(scan: Any, module: Any, layout: Layout) -> Applied:
        frame = scan.open(module, how.master or "local[*]")
        note = _note(fitted, frame, layout)
        n, rejected, seen = _counted(fitted, frame, layout, how)
        for name in keys:
            if name not in scan.types and name not in scan.partitions:
                raise FileError(f"{path} has no column {name!r} to partition by", hint="check {partition_by}")
        done = apply_frame(fitted, frame, layout, normalize=how.normalize, once=True)
        if hasattr(module, "WRITES_ALONE"):
            module.write(done, Path(out), target, keys)
        elif keys:
            _write_folder(module, done, Path(out), keys)
        else:
            with atomic_path(out) as temporary:
                module.write(done, temporary, target)
        return Applied(str(path), str(out), note, seen, n, rejected)

    done, scan = on_files(path, how, work, every=True)
    return replace(done, skipped=scan.skipped)


def _write_folder(module: Any, frame: Any, out: Path, keys: Sequence[str]) -> None:
    """Write a directory per combination of keys; the whole appears at once or not at all."""
    if out.exists():
        raise FileError(f"{out} exists already", hint="name a new directory")
    refuse(out, out)
    temporary = temporary_name(out.parent, f".{out.name[:40]}.")
    sweep(out.parent, f".{out.name[:40]}.")
    try:
        with explained(out, temporary):
            module.write(frame, temporary, "parquet", keys)
            temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _counted(fitted: Any, frame: Any, layout: Layout, how: Reading) -> tuple[int, dict[str, int], InSample | None]:
    """Count the rows that give NULL; raise before anything is written where the caller allows none or fewer."""
    n, rejected, share = look_through(fitted, frame, layout, normalize=how.normalize)
    out = sum(rejected.values())
    if how.strict and out:
        listed = ", ".join(f"{rows} {reason}" for reason, rows in rejected.items() if rows)
        raise FileError(f"{out} of {n} rows cannot be used ({listed})", hint="repair them, or leave out {strict}")
    check_rejected_share(rejected, n - out, how)
    return n, rejected, seen_share(fitted, share)


def _note(fitted: Any, frame: Any, layout: Layout) -> str | None:
    return None if is_regression(fitted) else softmax_note(fitted, find_scores(fitted, frame, layout).space)


def _apply_table(fitted: Any, path: str | Path, out: str | Path, target: str, how: Reading) -> Applied:
    """Calibrate a table in memory; one with rows that cannot be used goes the way of frames, which gives NULL there."""
    try:
        if is_regression(fitted):
            held = read_table(path, input_format=how.input_format)
            n, rejected, seen = _counted(fitted, held, how.layout, how)
            note, _ = _map_table(fitted, path, out, target, how)
            return Applied(str(path), str(out), note, seen, n, rejected)
        note, seen = _map_table(fitted, path, out, target, replace(how, strict=False, max_rejected=None))
        return Applied(str(path), str(out), note, seen, rejected={"missing": 0, "outside": 0})
    except InputError as error:
        if not error.rows or how.strict or maps_pairs(fitted):
            raise
    frame = read_table(path, input_format=how.input_format)
    n, rejected, seen = _counted(fitted, frame, how.layout, how)
    note = _note(fitted, frame, how.layout)
    write_table(apply_frame(fitted, frame, how.layout, normalize=how.normalize), out, target)
    return Applied(str(path), str(out), note, seen, n, rejected)


def _map_table(fitted: Any, path: str | Path, out: str | Path, target: str, how: Reading) -> Done:
    frame = read_table(path, input_format=how.input_format)
    if is_regression(fitted):
        if target not in TABLES:
            raise _other_kind(path, out)
        seen = known_rows(fitted, frame_predictions(frame, how.layout, str(path)))
        write_table(apply_frame(fitted, frame, how.layout), out, target)
        return None, seen
    layout = replace(how.layout, classes=tuple(np.asarray(fitted.classes_).tolist()))
    rows = frame_predictions(frame, layout, str(path))
    q, note = calibrated_rows(fitted, rows, normalize=how.normalize, ordered=len(layout.patterns) > 1)
    if target in TABLES:
        write_table(_replaced(frame, rows, _shown(q, layout), path), out, target)
    else:
        write_arrays(_as_arrays(rows, _shown(q, layout)), out, target)
    return note, known_rows(fitted, rows, normalize=how.normalize)


def _shown(q: Floats, layout: Layout) -> Floats:
    """Return calibrated probabilities in the unit of the scores they replace."""
    return 100.0 * q if layout.percent else q


def _apply_pairs(fitted: Any, frame: Any, layout: Layout) -> Any:
    """Return a frame in memory with its confidence calibrated."""
    import narwhals.stable.v2 as nw

    rows = frame_predictions(frame, layout)
    q, _ = calibrated_rows(fitted, rows)
    table = nw.from_native(frame, eager_only=True)
    (name,) = rows.source
    new = nw.new_series(name, _shown(q, layout)[:, 1], nw.Float64, backend=table.implementation)
    return table.with_columns(new).to_native()


def _replaced(frame: Any, rows: Predictions, q: Floats, path: str | Path) -> Any:
    """Return a Polars frame with calibrated probabilities in place of its scores."""
    import polars as pl

    renamed = new_names(rows.source, frame.columns, str(path))
    if len(rows.source) > 1:
        new = {name: pl.Series(renamed[name], q[:, k]) for k, name in enumerate(rows.source)}
    else:
        name = rows.source[0]
        new = {name: pl.Series(renamed[name], q.tolist() if rows.scores.ndim == 2 else q[:, 1])}
    return frame.select(*(new.get(name, pl.col(name)) for name in frame.columns))


def _apply_arrays(fitted: Any, path: Path, out: str | Path, target: str, how: Reading) -> Done:
    rows = read_predictions(path, how.layout, input_format=how.input_format)
    archive = file_format(path, how.input_format) == "npz"
    if is_regression(fitted):
        moments = _new_moments(fitted, rows, path)
        if target != "npz" or not archive:
            raise _other_kind(path, out)
        write_arrays({name: moments.get(name, array) for name, array in read_arrays(path).items()}, out, target)
        return None, known_rows(fitted, rows)
    q, note = calibrated_rows(fitted, rows, normalize=how.normalize, ordered=len(how.layout.patterns) > 1)
    q = _shown(q, how.layout)
    shaped = q if rows.scores.ndim == 2 else q[:, 1]
    if target == "npy":
        write_arrays({"probs": shaped}, out, target)
    elif target == "npz" and archive:
        arrays = read_arrays(path)
        renamed = new_names(rows.source, list(arrays), str(path))
        columns = shaped.T if len(rows.source) > 1 else [shaped]
        new = dict(zip(rows.source, columns, strict=True))
        write_arrays({renamed.get(n, n): new.get(n, array) for n, array in arrays.items()}, out, target)
    elif target == "npz":
        write_arrays(_as_arrays(rows, q), out, target)
    else:
        write_table(_as_table(rows, q), out, target)
    return note, known_rows(fitted, rows, normalize=how.normalize)


def _as_arrays(rows: Predictions, q: Floats) -> dict[str, Array]:
    arrays = {"probs": q if rows.scores.ndim == 2 else q[:, 1]}
    given = (("labels", rows.truth), ("weights", rows.weights))
    arrays |= {name: value for name, value in given if value is not None}
    if rows.classes is not None:
        arrays["classes"] = np.asarray(rows.classes)
    named = {name: np.asarray(value) for name, value in (arrays | dict(rows.columns)).items()}
    objects = {name: value.tolist() for name, value in named.items() if value.dtype.kind == "O"}
    text = {name for name, values in objects.items() if all(isinstance(value, str) for value in values)}
    plain = {name: value.astype(str) if name in text else value for name, value in named.items()}
    return {name: value for name, value in plain.items() if value.dtype.kind != "O"}


def _as_table(rows: Predictions, q: Floats) -> Any:
    import polars as pl

    classes = range(q.shape[1]) if rows.classes is None else rows.classes
    columns: dict[str, Any] = {f"p_{name}": np.ascontiguousarray(q[:, k]) for k, name in enumerate(classes)}
    names = {"labels": "label", "weights": "weight"}
    rest = {names.get(n, n): v for n, v in _as_arrays(rows, q).items() if n not in ("probs", "classes")}
    return pl.DataFrame(columns | rest)


def _new_moments(fitted: Any, rows: Predictions, path: Path) -> dict[str, Array]:
    """Return the arrays of means and variances (or standard deviations) that replace the old ones."""
    if rows.kind != "regression":
        raise input_error("data", "apply", "hold means and variances", f"none in {path}", "store mean and variance")
    mean, spread = rows.source
    new_mean, variance = fitted.predict(rows.scores, rows.variance)
    return {mean: new_mean, spread: np.sqrt(variance) if rows.std else variance}


def _other_kind(path: str | Path, out: str | Path) -> FileError:
    return FileError(f"{out} is of another kind than {path}", hint="write a table from a table, .npz from .npz")
