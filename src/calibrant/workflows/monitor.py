"""`monitor`: add a day of predictions to a store, and say whether calibration has broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.arguments import check_options
from calibrant.core.clusters import cluster_numbers
from calibrant.core.inputs import to_array
from calibrant.errors import input_error
from calibrant.io.paths import is_many, is_path
from calibrant.monitoring.days import MonitorReport, add_day, store_view
from calibrant.monitoring.family import FamilyReport, Night, add_models, family_columns
from calibrant.monitoring.store import date_of
from calibrant.summary.files import load_summaries
from calibrant.summary.summary import Summary
from calibrant.workflows.sources import Reading, names_of, open_data
from calibrant.workflows.summarize import SCANNED, cells_of, of_rows

__all__ = ["monitor"]


def monitor(
    store: str | Path,
    data: Any = None,
    y_proba: ArrayLike | None = None,
    *,
    name: str | None = None,
    window: int = 7,
    alpha: float | None = None,
    tolerance: float | None = None,
    unit: str | None = None,
    run_length: float | None = None,
    groups: ArrayLike | str | None = None,
    restart: bool = False,
    date: str | None = None,
    replace: bool = False,
    by: str | Sequence[str] | None = None,
    days: str | None = None,
    rng: RNG = 0,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pairs: bool = False,
    space: Space | None = None,
    normalize: bool = False,
    proba: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    part: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    strict: bool = False,
    skip_bad_files: bool = False,
    max_rejected: float | str | None = None,
    input_format: str | None = None,
    positive: Any = None,
    percent: bool = False,
    confidence: str | None = None,
    correct: str | None = None,
) -> MonitorReport | FamilyReport:
    """Return how things stand after a day's predictions were added to a store; without data, only how they stand.

    Parameters
    ----------
    store : str or Path
        Directory of the monitor; made on the first day.
    data : path, pattern, frame, Summary or array-like, optional
        The day's predictions; labels next to `y_proba`.
    y_proba : array-like, optional
        The day's probabilities, when `data` is an array of labels.
    name : str, optional
        Name of the day, unique in the store; default the name of the file, or of the directory where a pattern or
        the part of a larger table says nothing.
    window, alpha, tolerance, unit, run_length, restart, date, replace, rng
        As in `calibrant.monitoring.add_day`.
    groups : array-like of shape (n,), or str, optional
        Cluster of each row (or its column): bets are made on whole clusters. Rows are read for it, so a pattern or an
        engine is refused; a new store takes ``unit="cluster"`` from it.
    by : str or sequence of str, optional
        Columns that name a model: one store watches all of them, and `alpha` is the probability that any ever raises a
        false alarm. Fixed when the store is made, and known to it afterwards.
    days : str, optional
        Column that names the day of each row, with `by`: a backfill adds all days in their order, from one scan.
    sample_weight, classes, pairs, space, normalize, proba, label, weight, part
        As in `calibrant.evaluate`.
    engine, master, strict, skip_bad_files, max_rejected, input_format, positive, percent, confidence, correct
        As in `calibrant.evaluate`.

    Returns
    -------
    MonitorReport, or FamilyReport with `by`
        ``.alarm``, ``.alarms``, ``.to_dict()``, ``.to_openmetrics()``; ``str()`` is the terminal text.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1, 500)
    >>> monitor(tempfile.mkdtemp() + "/store", rng.random(500) < p, p, name="Monday").alarm
    False
    """
    check_options(monitor, locals())
    how = Reading.of("monitor", locals())
    summary, clusters = None, None
    if data is None:
        every = ("space", "normalize", "proba", "label", "weight", "part", "engine", "master", "strict", "input_format",
                 "positive", "percent", "confidence", "correct")  # fmt: skip
        more = ("skip_bad_files", "max_rejected", "sample_weight", "classes", "pairs")
        if groups is not None:
            raise input_error("groups", "monitor", "be left out without data", repr(groups), "name the day's file")
        how.refuse((*every, *more), "without data", "name the day's file")
        given = {"name": name, "restart": restart or None, "date": date, "replace": replace or None, "days": days}
        for option, value in given.items():
            if value is not None:
                raise input_error(option, "monitor", "be left out without data", repr(value), "name the day's file")
    columns = tuple(names_of(by, "monitor")) or family_columns(store)
    options: dict[str, Any] = {"window": window, "alpha": alpha, "tolerance": tolerance, "restart": restart}
    options |= {"replace": replace, "rng": rng, "unit": unit}
    if columns:
        alone: dict[str, Any] = {"groups": groups, "run_length": run_length}
        for option, given_alone in alone.items():
            if given_alone is not None:
                shown = str(given_alone)[:80]
                raise input_error(option, "monitor", "be left out with {by}", shown, "give every model a store")
        nights = [] if data is None else _nights(data, y_proba, how, columns, name=name, date=date, days=days)
        return add_models(store, nights, by=columns, **options)
    if days is not None:
        raise input_error("days", "monitor", "come with {by}", repr(days), "for one model add its days one by one")
    if groups is not None:
        opened = open_data(data, y_proba, how, groups=groups)
        if opened.clusters is None:
            raise input_error("groups", "monitor", "go with rows", "cells of an engine", "name one file")
        summary = of_rows(opened.evidence, caller="monitor")
        numbers = cluster_numbers(to_array(opened.clusters, "groups", "monitor"))
        watched = opened.evidence.pairs_of(store_view(store, opened.evidence))
        clusters, options["unit"] = (watched, numbers), unit or "cluster"
    elif data is not None:
        summary = _summary(data, y_proba, how)
    if data is not None:
        name = name or (day_name(data) if is_path(data) else None)
    return add_day(store, summary, name=name, date=date, run_length=run_length, clusters=clusters, **options)


def _nights(
    data: Any,
    y_proba: Any,
    how: Reading,
    by: tuple[str, ...],
    *,
    name: str | None,
    date: str | None,
    days: str | None,
) -> list[Night]:
    """Return the days of all models, in the order of their dates."""
    if y_proba is not None:
        raise input_error("y_proba", "monitor", "be left out with {by}", "an array", "give a frame or a file")
    if days in by:
        raise input_error(
            "days", "monitor", "be another column than those of {by}", repr(days), "name the column of days"
        )
    every = (*by, *(() if days is None else (days,)))
    parts = _sliced(data, how, every)
    if days is None:
        if name is None and is_path(data):
            name = day_name(data)
        return [(name or "", date, parts)]
    for option, value in (("name", name), ("date", date)):
        if value is not None:
            raise input_error(option, "monitor", "be left out with {days}", repr(value), "the column names the days")
    nights: dict[str, dict[tuple[Any, ...], Summary]] = {}
    for key, part in parts.items():
        if key[-1] is None:
            raise input_error("days", "monitor", "name the day of every row", f"{part.n} rows without", "drop them")
        nights.setdefault(str(key[-1]), {})[key[:-1]] = part
    return [(day, None, nights[day]) for day in sorted(nights, key=lambda day: (date_of(day) or "", day))]


def _sliced(data: Any, how: Reading, by: tuple[str, ...]) -> dict[tuple[Any, ...], Summary]:
    """Return the summary of every slice, in order."""
    stored = load_summaries(data)
    if stored is not None:
        return stored.regrouped(by).sorted_parts()
    found = cells_of(data, None, how, by)
    for part in found.parts.values():
        part.skipped = found.whole.skipped
    return found.sorted_parts()


def day_name(path: str | Path) -> str | None:
    """Return the name of a day from the path of its predictions; None where nothing in it tells days apart.

    Examples
    --------
    >>> day_name("logs/2026-11-15/*.parquet"), day_name("lake/day=2026-11-15/part-00000-c000.snappy.parquet")
    ('2026-11-15', '2026-11-15')
    >>> day_name("logs/2026-11-15-*.csv"), day_name("monday.csv"), day_name("*.csv")
    ('2026-11-15', 'monday', None)
    >>> day_name("lake/model=a/day=2026-11-15/*.parquet"), day_name("model=a,run=3.csv")
    ('model=a,2026-11-15', 'model=a,run=3')
    """
    keys: list[str] = []
    for part in reversed(Path(path).parts):
        if part in (".", "..", "/"):
            continue
        plain = part.split(".")[0] if Path(part).suffix.lower() in SCANNED else part
        plain = re.split(r"[*?\[]", plain)[0].strip("-_. ")
        if re.fullmatch(r"[^=,]+=[^=,]+", plain):  # a key of a partition: those beside it tell days apart too
            keys.insert(0, plain)
        elif keys:
            break
        elif plain and not plain.endswith("=") and not re.fullmatch(r"part-\d+.*|part|data|predictions", plain):
            return plain
    return ",".join(_short(key) for key in keys) or None


def _short(key: str) -> str:
    """Return a key of a partition, without its name where the value is a date."""
    value = key.partition("=")[2]
    return value if date_of(value) is not None else key


def _summary(data: Any, y_proba: Any, how: Reading) -> Summary:
    scanned = is_path(data) and Path(data).suffix.lower() in SCANNED[1:] and how.input_format is None
    if y_proba is None and scanned and not is_many(data):
        return cells_of(data, None, how).whole
    return of_rows(open_data(data, y_proba, how).evidence, caller="monitor")
