"""`compare`: two forecasts of the same rows, paired: before and after a recalibration, or model against model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.calibrators.application import check_applicable, declares, is_regression
from calibrant.calibrators.reader import load
from calibrant.core.arguments import check_options
from calibrant.core.frames import is_frame, is_lazy
from calibrant.core.weights import WeightKind
from calibrant.engines.scans import open_session
from calibrant.errors import FileError, InputError, input_error
from calibrant.inference.comparison import Comparison, compare_evidence
from calibrant.io.paths import TABLES, file_format, is_many, is_path
from calibrant.io.predictions import Predictions, column_of, to_evidence
from calibrant.io.resolver import NO_MEANS
from calibrant.summary.files import summary_files
from calibrant.workflows.in_sample import find_mark, judged_in_sample, known_rows, seen_share
from calibrant.workflows.rejection import check_rejected
from calibrant.workflows.second import aligned, check_files, open_all_rows, recalibrated
from calibrant.workflows.sources import (
    ENGINES,
    LAYOUT,
    Reading,
    array_rows,
    is_large,
    left_out,
    names_of,
    need_bins,
    on_files,
)

__all__ = ["compare"]


def compare(
    y_true: Any,
    before: Any = None,
    after: ArrayLike | None = None,
    *,
    calibrator: Any = None,
    metrics: Iterable[str] | str | None = None,
    injective: bool = False,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space | tuple[Space, Space] | None = None,
    normalize: bool = False,
    level: float = 0.95,
    groups: ArrayLike | str | None = None,
    n_bins: int | None = None,
    rng: RNG = 0,
    proba: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    weight_kind: WeightKind | None = None,
    mean: str | None = None,
    variance: str | None = None,
    std: str | None = None,
    part: str | None = None,
    input_format: str | None = None,
    positive: Any = None,
    percent: bool = False,
    confidence: str | None = None,
    correct: str | None = None,
    key: str | Sequence[str] | None = None,
    engine: str | None = None,
    master: str | None = None,
    strict: bool = False,
    skip_bad_files: bool = False,
    max_rejected: float | str | None = None,
) -> Comparison:
    """Return the change of every metric, with paired intervals and p-values for proper scores, and a verdict.

    If the map from `before` to `after` is one-to-one (as calibrators declare), the drop of a proper score equals the
    drop of its calibration error (Gruber & Buettner 2022, prop. 4.5); otherwise it is a lower bound of it (Zhang et
    al. 2020, eq. 7–8).

    Parameters
    ----------
    y_true : array-like of shape (n,), or path or frame
        The truth; or the file or frame of the first forecast, with its truth. A pattern, directory or table pairs file
        by file in the order of their names, with the same number of rows in each, up to a gigabyte; next to a
        `calibrator`, or with a `key`, an engine pairs any number of rows.
    before : array-like of shape (n, K) or (n,), or path or frame
        The first forecast; next to a file or frame the second one. The second needs no labels, and if it has any they
        must be those of the first.
    after : array-like of shape (n, K) or (n,), optional
        The second forecast, for arrays.
    calibrator : fitted calibrator or path, optional
        Instead of the second forecast: its output is compared with its input.
    metrics : iterable of str, optional
        Short names; default the default set without the mean confidence. A calibration error is that of the view of
        the verdict: class 1 of two classes, else the top label; ``"ks@top-1"`` names one.
    injective : bool, default False
        Whether the second forecast is a one-to-one function of the first; a calibrator says it itself.
    space : str or pair of str, optional
        What the forecasts hold, one word for both or one each.
    level : float, default 0.95
        Level of the intervals.
    groups : array-like of shape (n,), or str, optional
        Cluster of each row, or its column.
    sample_weight, classes, normalize, n_bins, rng
        As in `calibrant.evaluate`.
    proba, label, weight, mean, variance, std, part, input_format, positive, percent, confidence, correct
        As in `calibrant.evaluate`, for both files.
    key : str or sequence of str, optional
        Columns whose values name a row in both files or frames: an engine joins them.
    engine, master, strict, skip_bad_files, max_rejected
        As in `calibrant.evaluate`: files larger than memory, in cells, and what becomes of rows and files that cannot
        be used. A lazy frame brings its engine.

    Returns
    -------
    Comparison
        ``comparison["brier"].change`` = before − after: positive means improved.

    Examples
    --------
    >>> comparison = compare([1, 0, 1, 0], [0.9, 0.6, 0.4, 0.3], [0.8, 0.4, 0.6, 0.2])
    >>> round(comparison["brier"].change, 3)
    0.21
    """
    check_options(compare, locals())
    settings: dict[str, Any] = {
        "metrics": [metrics] if isinstance(metrics, str) else metrics,
        "level": level,
        "n_bins": 15 if n_bins is None else n_bins,
        "rng": rng,
    }
    how = Reading.of("compare", locals() | {"space": None})
    if is_path(y_true) or is_frame(y_true):
        if space is not None and not isinstance(space, str):
            raise left_out("space", "compare", "as a pair next to files: their names say it", space)
        for name, value in (("after", after), ("injective", injective or None)):
            if value is not None:
                raise left_out(name, "compare", "next to files", value)
        how.refuse(("sample_weight", "classes"), "next to a file or frame", "name columns with {weight} and {label}")
        done = _compare_sources(y_true, before, calibrator, replace(how, space=space), groups, settings, key)
        need_bins(n_bins, done.results, done.task, "compare")
        return done
    how.refuse((*LAYOUT, "input_format", *ENGINES), "next to arrays")
    if key is not None:
        raise left_out("key", "compare", "next to arrays", key)
    both: Any = space if isinstance(space, tuple | list) and len(space) == 2 else (space, space)
    if before is None or (after is None) == (calibrator is None):
        raise input_error(
            "after", "compare", "be given next to arrays, or a calibrator instead", "neither or both", "give one"
        )
    rows = array_rows(y_true, before, replace(how, space=both[0]))
    first = to_evidence(rows, caller="compare", normalize=normalize)
    if calibrator is not None:
        fitted = load(calibrator) if is_path(calibrator) else calibrator
        check_applicable(fitted, both[0] or "proba", caller="compare")
        other, injective = _recalibrated(fitted, rows, how), _keeps_all(fitted)
    else:
        other = aligned(array_rows(y_true, after, replace(how, space=both[1])), rows, how)
        other = replace(other, truth=rows.truth, classes=other.classes or rows.classes)
    second = to_evidence(other, caller="compare", normalize=normalize and calibrator is None)
    seen = None if calibrator is None else known_rows(fitted, rows, normalize=normalize)
    _same_classes(first, second)
    first, second = (one.read_weights(weight_kind) for one in (first, second))
    done = compare_evidence(first, second, injective=injective, groups=groups, **settings)
    need_bins(n_bins, done.results, done.task, "compare")
    return judged_in_sample(done, seen)


def _keeps_all(calibrator: Any) -> bool:
    return declares(calibrator, "injective")


def _same_classes(first: Any, second: Any) -> None:
    if first.n_classes != second.n_classes:
        rule = f"have the {first.n_classes} classes of before"
        raise input_error("after", "compare", rule, f"{second.n_classes}", "compare forecasts of the same problem")


def _compare_sources(
    first: Any, second: Any, calibrator: Any, how: Reading, groups: Any, settings: dict[str, Any], key: Any
) -> Comparison:
    if (second is None) == (calibrator is None):
        raise input_error(
            "before", "compare", "be a second file or frame, or a calibrator instead", "neither or both", "give one"
        )
    for data in (first, second):
        if is_path(data) and summary_files(data) is not None:
            raise FileError(
                f"{data} keeps no rows, and compare pairs rows", hint="name the files it was made of, or evaluate both"
            )
    keys = names_of(key, "compare")
    asked = keys or any(getattr(how, name) for name in ENGINES) or any(map(is_lazy, (first, second)))
    plain = groups is None and how.weight_kind is None and how.mean is None and how.variance is None and how.std is None
    if asked or (calibrator is not None and plain and _needs_engine(first, calibrator)):
        return _compare_cells(first, second, calibrator, how, groups, settings, keys)
    rows, files = open_all_rows(first, how)
    evidence = to_evidence(rows, caller="compare", normalize=how.normalize)
    clusters = None if groups is None else column_of(rows, groups, "groups")
    if calibrator is not None:
        fitted = load(calibrator) if is_path(calibrator) else calibrator
        other = _recalibrated(fitted, rows, how)
        injective, seen = _keeps_all(fitted), known_rows(fitted, rows, normalize=how.normalize)
    else:
        known = replace(how, labels_needed=False, known_classes=rows.classes)
        found, others = open_all_rows(second, known)
        if found.kind != rows.kind:
            hold, hint = f"hold {_WORDS[rows.kind]} like the first", "compare forecasts of one kind"
            raise input_error("after", "compare", hold, _WORDS[found.kind], hint)
        check_files(files, others)
        other, injective = aligned(found, rows, how), False
        seen = find_mark(second) or find_mark(first)
        _same_rows(rows, other, first, second)
    after = to_evidence(
        replace(other, truth=rows.truth, weights=rows.weights, classes=rows.classes),
        caller="compare",
        normalize=how.normalize and calibrator is None,
    )
    _same_classes(evidence, after)
    evidence, after = (one.read_weights(how.weight_kind) for one in (evidence, after))
    done = compare_evidence(evidence, after, injective=injective, groups=clusters, **settings)
    return judged_in_sample(done, seen)


def _needs_engine(data: Any, calibrator: Any) -> bool:
    """Whether rows and what a calibrator makes of them go through an engine, as in `evaluate`: many files, or large."""
    fitted = load(calibrator) if is_path(calibrator) else calibrator
    return is_path(data) and not is_regression(fitted) and (is_many(data) or is_large(data, Reading("compare")))


def _compare_cells(
    first: Any, second: Any, calibrator: Any, how: Reading, groups: Any, settings: dict[str, Any], key: list[str]
) -> Comparison:
    """Compare on an engine: a calibrator with its own input, or two sources joined by a key."""
    from calibrant.engines.paired import compare_frames  # brings Narwhals

    for name, value in (("groups", groups), ("weight_kind", how.weight_kind)):
        if value is not None:
            raise left_out(name, "compare", "on an engine: cells have no rows", value, "compare one file in memory")
    if calibrator is not None and key:
        raise left_out("key", "compare", "next to a calibrator", key)
    if how.engine != "spark":
        how.refuse(("master",), "on other engines than Spark")
    options = {"key": key, **{name: getattr(how, name) for name in ENGINES}}
    asked, given = next(((name, value) for name, value in options.items() if value), ("engine", "auto"))
    for data in (first, second):
        if is_path(data) and not is_many(data) and file_format(data, how.input_format) not in TABLES:
            raise left_out(asked, "compare", "for arrays: an engine reads tables", given)
    if calibrator is None and not key:
        raise FileError(
            "Two forecasts have no common order of rows on an engine",
            hint="name the columns that tell rows apart with {key}, or compare one day or part at a time",
        )
    fitted = load(calibrator) if is_path(calibrator) else calibrator
    more: dict[str, Any] = settings | {"strict": how.strict, "normalize": how.normalize, "key": key}
    more |= {"calibrator": fitted, "injective": calibrator is not None and _keeps_all(fitted)}
    skipped: list[str] = []

    def opened(data: Any, reading: Reading, work: Any) -> Any:
        if not is_path(data):
            reading.refuse(("engine", "master", "input_format", "skip_bad_files"), "for a frame: it brings its engine")
            return work(data, reading.layout, None, None)
        done, scan = on_files(data, reading, lambda scan, module, layout: work(scan, layout, module, scan))
        skipped.extend(scan.skipped)
        return done

    master = how.master or "local[*]"

    def one(source: Any, layout: Any, module: Any, scan: Any) -> Any:
        if second is None:
            return compare_frames(source if scan is None else source.open(module, master), layout=layout, **more)
        session = None if module is None else open_session(module, master)
        held = source if scan is None else source.open(module, master, session)

        def two(other: Any, _: Any, engine: Any, scanned: Any) -> Any:
            return compare_frames(
                held, other if scanned is None else other.open(engine, master, session), layout, **more
            )

        return opened(second, replace(how, labels_needed=False), two)

    try:
        done, share = opened(first, how, one)
    except InputError as error:
        if error.rule == NO_MEANS:
            raise left_out(asked, "compare", "for means and variances: cells know none", given) from None
        raise
    done = replace(done, skipped=tuple(skipped))
    check_rejected(done.rejected, done.n, how)
    return judged_in_sample(
        done, seen_share(fitted, share) if calibrator is not None else find_mark(second) or find_mark(first)
    )


_WORDS = {"vectors": "class probabilities", "pairs": "top-label pairs", "regression": "means and variances"}


def _recalibrated(fitted: Any, rows: Predictions, how: Reading) -> Predictions:
    return recalibrated(fitted, rows, normalize=how.normalize, ordered=len(how.layout.patterns) > 1)


def _same_rows(rows: Predictions, other: Predictions, first: Any, second: Any) -> None:
    a, b = (data if is_path(data) else word for data, word in ((first, "the first"), (second, "the second")))
    if other.n != rows.n:
        raise FileError(f"{a} has {rows.n} rows and {b} {other.n}", hint="compare the same rows")
    if other.truth is not None and rows.truth is not None and not np.array_equal(other.truth, rows.truth):
        row = int(np.flatnonzero(np.asarray(other.truth != rows.truth))[0])
        raise FileError(f"the labels of {a} and {b} differ at row {row}", hint="put the rows in one order")
