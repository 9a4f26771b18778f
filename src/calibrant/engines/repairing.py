"""Fit, apply and compare on files: the library calls behind ``calibrant fit``, ``apply`` and ``compare``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant._typing import Array, Floats
from calibrant.engines.evaluating import to_forecast
from calibrant.engines.files import (
    FORMATS,
    Layout,
    Predictions,
    file_format,
    read_predictions,
    read_table,
    table_predictions,
)
from calibrant.engines.paths import is_many, open_paths, plain_errors
from calibrant.errors import ConvergenceWarning, FileError, input_error
from calibrant.inference.comparison import Comparison, compare
from calibrant.loading import load

__all__ = ["Repair", "apply_file", "compare_files", "declares", "fit_file", "fit_paths"]

TABLES = ("csv", "tsv", "parquet", "arrow", "jsonl")


@dataclass(frozen=True)
class Repair:
    """A fitted calibrator with the league that speaks for it."""

    calibrator: Any
    method: str
    n: int
    n_classes: int | None
    league: tuple[dict[str, Any], ...]
    reason: str
    #: Rows the map was fitted on and rows the league compared methods on, when that is a sample.
    n_fitted: int | None = None
    n_league: int | None = None
    rejected: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": 1, "n": self.n, "n_classes": self.n_classes, "method": self.method,
            "n_fitted": self.n_fitted or self.n, "n_league": self.n_league or self.n, "rejected": self.rejected,
            "space": getattr(self.calibrator, "input_space", None), "reason": self.reason, "league": list(self.league),
        }

    def __str__(self) -> str:
        heads = ("method", "held-out score", "gain", "95 % interval", "keeps class", "share")
        rows = [heads]
        for row in self.league:
            share = row.get("weight")
            rows.append((
                row["method"], f"{row['cv_score']:.4f}", f"{row['gain']:+.4f}",
                f"{row['low']:+.4f} – {row['high']:+.4f}", "yes" if row["preserves_argmax"] else "no",
                "–" if not share else f"{100 * share:.0f} %",
            ))
        sizes = [max(len(row[i]) for row in rows) for i in range(len(heads))]
        lines = ["  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows]
        classes = f" · {self.n_classes} classes" if self.n_classes else ""
        head = f"{_count(self.n)} calibration rows" + classes
        if self.n_league:
            head += f" · compared on a random sample of {_count(self.n_league)}, fitted on "
            head += "it" if self.n_fitted else "all"
        return "\n".join([head, *(lines if self.league else []), f"Chosen: {self.reason.rstrip('.')}."])


def _count(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def declares(calibrator: Any, name: str) -> bool:
    """Whether a fitted calibrator has a property; an automatic choice has that of what it ships."""
    return bool(getattr(getattr(calibrator, "best_", calibrator), name, False))


def _matrix(predictions: Predictions, normalize: bool) -> Any:
    """Scores of a file as a calibrator takes them."""
    if predictions.kind != "vectors":
        raise FileError(
            "the file holds top-label pairs; a calibrator needs the probabilities of all classes. "
            "Hint: store probs or logits."
        )
    if normalize and predictions.space == "proba" and predictions.scores.ndim == 2:
        scores = np.asarray(predictions.scores, dtype=np.float64)
        return scores / scores.sum(axis=1, keepdims=True)
    return predictions.scores


def fit_file(
    path: str | Path, layout: Layout | None = None, *, method: str = "auto", normalize: bool = False,
    input_format: str | None = None, tell: Callable[[int, int], None] | None = None, **options: Any,
) -> Repair:
    """Fit a calibrator on the calibration part of a file.

    Parameters
    ----------
    path, layout, input_format, normalize
        Where the rows are; the part is ``cal`` unless the layout says otherwise.
    method : str
        Short name. A named method is held against doing nothing by cross-validation as well.
    tell : callable, optional
        Told (done, total) after every fit of the league.
    **options
        Options of `AutoCalibrator`: criterion, preserve, fast, rng, candidates.
    """
    predictions = read_predictions(path, layout or Layout(default_part="cal"), input_format=input_format)
    if predictions.kind == "regression":
        return _fit_regression(predictions, method)
    if predictions.truth is None:
        raise FileError(f"{path} has no labels. Hint: name them with --label.")
    return _fit_rows(predictions, method, normalize, tell, options)


def fit_paths(
    pattern: str | Path, layout: Layout | None = None, *, method: str = "auto", engine: str = "auto",
    master: str = "local[*]", normalize: bool = False, rng: int = 0, tell: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Repair:
    """Fit a calibrator on files larger than memory: on all rows where the method allows, else on a random sample.

    The league, which says how much the method gains, always comes from the sample.

    Parameters
    ----------
    pattern, engine, master
        As in `calibrant.engines.open_paths`.
    layout, method, normalize, tell, **options
        As in `fit_file`.
    rng : int, default 0
        Seed of the sample and of the folds.
    """
    from calibrant.engines.fitting import fit_frame, uses_every_row
    from calibrant.engines.sampling import draw

    with plain_errors(pattern, engine):
        frame = open_paths(pattern, engine, master=master)
        sample = draw(frame, layout, seed=rng, normalize=normalize)
        repair = _fit_rows(sample.predictions, method, normalize, tell, options | {"rng": rng})
        known: dict[str, Any] = {"n": sample.n, "rejected": sample.rejected}
        if sample.whole:
            return replace(repair, **known)
        known["n_league"] = sample.predictions.n
        if not uses_every_row(repair.calibrator):
            return replace(repair, **known, n_fitted=sample.predictions.n)
        every = clone(repair.calibrator)
        if sample.zeros and hasattr(every, "floor"):  # zeros too rare for the sample: what one row in all weighs
            every.set_params(floor=repair.calibrator.floor_ or 1.0 / sample.n)
        return replace(repair, **known, calibrator=fit_frame(every, frame, layout, normalize=normalize))


def _fit_rows(
    predictions: Predictions, method: str, normalize: bool, tell: Callable[[int, int], None] | None,
    options: dict[str, Any],
) -> Repair:
    from calibrant.calibrators import AutoCalibrator, by_short_name

    x = _matrix(predictions, normalize)
    door = {"space": predictions.space, "classes": predictions.classes}
    if method == "auto":
        league = AutoCalibrator(**options, **door)
    else:
        kind = by_short_name(method)
        options.pop("fast", None)
        league = AutoCalibrator(**options | {"candidates": [kind()], "mixture": False}, **door)
    league.watch(tell).fit(x, predictions.truth, sample_weight=predictions.weights)
    chosen: Any = league
    reason = league.reason_
    if method != "auto":
        chosen = kind(**door)
        with warnings.catch_warnings():
            warnings.simplefilter("default", ConvergenceWarning)
            chosen.fit(x, predictions.truth, sample_weight=predictions.weights)
        row = next((r for r in league.records_ if r["method"] == method), None)
        reason = f"{kind.title.lower()}, as asked" + (
            "" if row is None
            else f"; gain over doing nothing {row['gain']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
        )
        for record in league.records_:
            record["chosen"] = record["method"] == method
            record["weight"] = float(record["chosen"])
    return Repair(chosen, method, predictions.n, chosen.n_classes_, tuple(league.records_), reason)


def _fit_regression(predictions: Predictions, method: str) -> Repair:
    from calibrant import regression

    if method != "auto":
        raise input_error(
            "method", "fit", "be 'auto' for means and variances", repr(method), "or fit calibrant.regression classes"
        )
    auto = regression.AutoVarianceCalibrator()
    auto.fit(predictions.scores, predictions.variance, predictions.truth)
    return Repair(auto, "auto", predictions.n, None, (), auto.reason_)


# -- apply ----------------------------------------------------------------------------------------


def apply_file(
    calibrator: str | Path | Any, path: str | Path, out: str | Path, layout: Layout | None = None, *,
    engine: str | None = None, master: str = "local[*]", normalize: bool = False, input_format: str | None = None,
) -> str | None:
    """Write a file with calibrated probabilities in place of its scores; everything else passes through.

    Tables stream in bounded memory; arrays are mapped in one go. The new file appears whole or not at all.

    Returns
    -------
    str or None
        What the user should know: that logits went through softmax first.
    """
    fitted = load(calibrator) if isinstance(calibrator, str | Path) else calibrator
    layout = replace(layout or Layout(), labels_needed=False)
    many = is_many(str(path))
    source = "parquet" if many else file_format(path, input_format)
    target = _target_format(out, engine)
    if many and str(out) == "-":
        raise FileError(f"{path} names many files, whose result goes into a file. Hint: name it with -o.")
    regression = not hasattr(fitted, "predict_proba")
    streams = many or (source in TABLES and target in TABLES and "-" not in (str(path), str(out)) and not input_format)
    if streams and not regression:
        from calibrant.engines.applying import apply_paths

        note = _note(fitted, layout.space or _named_space(path, layout))
        apply_paths(fitted, path, out, engine=engine or "auto", master=master, layout=layout, normalize=normalize)
        return note
    if regression:
        _apply_regression(fitted, path, out, layout, target, input_format)
        return None
    if source in TABLES:
        return _apply_table(fitted, path, out, layout, target, normalize, input_format)
    return _apply_arrays(fitted, Path(path), out, layout, target, normalize, input_format)


def _target_format(out: str | Path, engine: str | None) -> str:
    if str(out) == "-":
        return "csv"
    suffix = Path(out).suffix.lower()
    if engine == "spark" and not suffix:  # a directory of Parquet
        return "parquet"
    if suffix not in FORMATS:
        raise FileError(f"{out} has no known suffix ({', '.join(sorted(FORMATS))}). Hint: rename it.")
    if Path(out).is_dir():
        raise FileError(f"{out} is a directory. Hint: name a file.")
    return FORMATS[suffix]


def _named_space(path: str | Path, layout: Layout) -> str:
    """What the columns of a table hold, by their names."""
    from calibrant.engines.files import _score_columns

    with plain_errors(path, "polars"):
        names = list(open_paths(path, "polars").collect_schema())
    found = _score_columns(names, layout)
    return "proba" if found is None else found[1]


def _note(calibrator: Any, space: str) -> str | None:
    if space == "logit" and calibrator.input_space == "proba":
        return "the calibrator was fitted on probabilities; the file's logits went through softmax first"
    return None


def _calibrate(calibrator: Any, predictions: Predictions, normalize: bool) -> tuple[Floats, str | None]:
    from calibrant.core.links import softmax

    scores = _matrix(predictions, normalize)
    if predictions.space == "proba" and calibrator.input_space == "logit":
        raise FileError(
            "the calibrator was fitted on logits and the file holds probabilities, whose logits are lost. "
            "Hint: store logits, or fit on probabilities."
        )
    note = _note(calibrator, predictions.space)
    if note:
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        scores = softmax(scores)
    return calibrator.predict_proba(scores), note


def _apply_table(
    calibrator: Any, path: str | Path, out: str | Path, layout: Layout, target: str, normalize: bool,
    input_format: str | None,
) -> str | None:
    import polars as pl

    frame = read_table(path, input_format=input_format)
    predictions = table_predictions(frame, layout, str(path))
    q, note = _calibrate(calibrator, predictions, normalize)
    if target in ("npz", "npy"):
        _write_arrays(out, target, _as_arrays(predictions, q))
        return note
    new: dict[str, Any] = {}
    for index, name in enumerate(predictions.source):
        renamed = _proba_name(name)
        if len(predictions.source) > 1:
            new[name] = pl.Series(renamed, np.ascontiguousarray(q[:, index]))
        elif predictions.scores.ndim == 2:
            new[name] = pl.Series(renamed, q.tolist(), dtype=pl.List(pl.Float64))
        else:
            new[name] = pl.Series(renamed, np.ascontiguousarray(q[:, 1]))
    _write_table(frame.select(*(new.get(name, pl.col(name)) for name in frame.columns)), out, target)
    return note


def _proba_name(name: str) -> str:
    """Name of calibrated scores: ``p_*`` for ``logit_*``, ``probs`` for ``logits``."""
    if name.startswith("logit_"):
        return "p_" + name.removeprefix("logit_")
    return "probs" + name.removeprefix("logits") if name.startswith("logits") else name


def _as_arrays(predictions: Predictions, q: Floats) -> dict[str, Array]:
    arrays = {"probs": q if predictions.scores.ndim == 2 else q[:, 1]}
    if predictions.truth is not None:
        arrays["labels"] = predictions.truth
    if predictions.weights is not None:
        arrays["weights"] = predictions.weights
    if predictions.classes is not None:
        arrays["classes"] = np.asarray(predictions.classes)
    return arrays | {name: value for name, value in predictions.columns.items() if value.dtype.kind != "O"}


def _apply_arrays(
    calibrator: Any, path: Path, out: str | Path, layout: Layout, target: str, normalize: bool,
    input_format: str | None,
) -> str | None:
    predictions = read_predictions(path, layout, input_format=input_format)
    q, note = _calibrate(calibrator, predictions, normalize)
    shaped = q if predictions.scores.ndim == 2 else q[:, 1]
    if target == "npy":
        _write_arrays(out, "npy", {"probs": shaped})
    elif target == "npz":
        arrays = {"probs": shaped}
        if file_format(path, input_format) == "npz":
            with np.load(path, allow_pickle=False) as archive:
                key = predictions.source[0]
                arrays = {_proba_name(n) if n == key else n: shaped if n == key else archive[n] for n in archive.files}
        _write_arrays(out, "npz", arrays)
    else:
        import polars as pl

        arrays = _as_arrays(predictions, q)
        columns: dict[str, Any] = {f"p_{k}": np.ascontiguousarray(q[:, k]) for k in range(q.shape[1])}
        names = {"labels": "label", "weights": "weight"}
        columns |= {names.get(n, n): v for n, v in arrays.items() if n not in ("probs", "classes")}
        _write_table(pl.DataFrame(columns), out, target)
    return note


def _apply_regression(
    calibrator: Any, path: str | Path, out: str | Path, layout: Layout, target: str, input_format: str | None
) -> None:
    """Replace means and variances (or standard deviations) by the calibrated ones, in one go."""
    if is_many(str(path)):
        raise FileError(f"{path} names many files; means and variances are calibrated one file at a time.")
    frame = read_table(path, input_format=input_format) if file_format(path, input_format) in TABLES else None
    predictions = (
        read_predictions(path, layout, input_format=input_format) if frame is None
        else table_predictions(frame, layout, str(path))
    )
    if predictions.kind != "regression":
        raise FileError(
            f"the calibrator repairs means and variances and {path} holds none. Hint: columns mean and variance."
        )
    mean, spread = predictions.source
    new_mean, variance = calibrator.predict(predictions.scores, predictions.variance)
    squared = layout.variance is not None or not spread.startswith("std")
    new = {mean: new_mean, spread: variance if squared else np.sqrt(variance)}
    if frame is not None and target in TABLES:
        import polars as pl

        _write_table(frame.with_columns(*(pl.Series(name, value) for name, value in new.items())), out, target)
    elif frame is None and target == "npz":
        with np.load(path, allow_pickle=False) as archive:
            _write_arrays(out, target, {name: new.get(name, archive[name]) for name in archive.files})
    else:
        raise FileError(f"{out} is of another kind than {path}. Hint: write a table from a table, .npz from .npz.")


def _aside(out: str | Path, write: Callable[[str], None]) -> None:
    """Write beside the goal, then rename: a reader sees the old file or the new one."""
    target = Path(out)
    aside = target.with_name(f".{target.name}.{os.getpid()}.aside")
    try:
        write(str(aside))
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def _write_arrays(out: str | Path, target: str, arrays: dict[str, Array]) -> None:
    def write(name: str) -> None:
        with Path(name).open("wb") as file:
            if target == "npy":
                np.save(file, arrays["probs"], allow_pickle=False)
            else:
                np.savez_compressed(file, allow_pickle=False, **arrays)

    _aside(out, write)


def _write_table(frame: Any, out: str | Path, target: str) -> None:
    if str(out) == "-":
        import sys

        sys.stdout.write(frame.write_csv())
        return
    writers: dict[str, Callable[[str], Any]] = {
        "csv": frame.write_csv, "tsv": lambda name: frame.write_csv(name, separator="\t"),
        "parquet": frame.write_parquet, "arrow": frame.write_ipc, "jsonl": frame.write_ndjson,
    }
    _aside(out, writers[target])


# -- compare --------------------------------------------------------------------------------------


def compare_files(
    first: str | Path, second: str | Path | None = None, layout: Layout | None = None, *,
    calibrator: str | Path | None = None, groups: str | None = None, normalize: bool = False,
    input_format: str | None = None, **options: Any,
) -> Comparison:
    """Compare two files of the same rows, or one file before and after a calibrator.

    Parameters
    ----------
    first, second, layout, normalize, input_format
        The files; the second needs no labels, and if it has any they must be those of the first.
    calibrator : path, optional
        Instead of `second`: a calibrator whose output is compared with its input.
    groups : str, optional
        Column naming the cluster of each row.
    **options
        Options of `calibrant.compare`: measures, level, n_bins.
    """
    for path in filter(None, (first, second)):
        if is_many(str(path)):
            raise FileError(
                f"{path} names many files, and compare pairs the rows of two. Hint: calibrant evaluate takes many."
            )
    layout = layout or Layout()
    before = read_predictions(first, layout, input_format=input_format)
    forecast = to_forecast(before, caller="compare", normalize=normalize)
    clusters = None
    if groups is not None:
        if groups not in before.columns:
            have = ", ".join(before.columns) or "none"
            raise FileError(f"there is no column {groups!r} to group by; there are: {have}. Hint: check the name.")
        clusters = before.columns[groups]
    injective = False
    if calibrator is not None:
        fitted = load(calibrator)
        after, space = _calibrate(fitted, before, normalize)[0], "proba"
        injective = declares(fitted, "injective")
    else:
        other = read_predictions(str(second), replace(layout, labels_needed=False), input_format=input_format)
        if other.n != before.n:
            raise FileError(f"{first} has {before.n} rows and {second} {other.n}. Hint: compare the same rows.")
        if other.truth is not None and before.truth is not None and not np.array_equal(other.truth, before.truth):
            row = int(np.flatnonzero(np.asarray(other.truth != before.truth))[0])
            raise FileError(f"the labels of {first} and {second} differ at row {row}. Hint: put the rows in one order.")
        after, space = _matrix(other, normalize), other.space
    return compare(
        forecast.codes, _matrix(before, normalize), after, space=(before.space, space), injective=injective,  # type: ignore[arg-type]
        sample_weight=before.weights, normalize=normalize, groups=clusters, **options,
    )
