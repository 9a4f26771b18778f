"""Many tests at once: every class, every slice."""

from __future__ import annotations

import numpy as np

from calibrant._typing import RNG, ArrayLike, Floats, Ints, Space
from calibrant.core.inputs import Forecast, check_forecast, to_array
from calibrant.core.options import check_count, check_rng
from calibrant.core.resampling import draw_labels, replicate_tables
from calibrant.core.results import TestResult
from calibrant.core.tables import Table, cell_key
from calibrant.inference.corrections import holm, step_down, tail_scores
from calibrant.inference.slices import evaluate_parts, split, split_column
from calibrant.metrics._ks import METRIC as KS
from calibrant.views import ClassK

__all__ = ["classwise_tests", "holm", "sliced_tests"]

#: Labels up to which one draw of every row serves all classes, and how many are drawn at once.
_LABELS, _ENTRIES = 200_000_000, 1 << 20


def classwise_tests(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    n_resamples: int = 1000,
    rng: RNG = None,
) -> dict[object, TestResult]:
    """Test every class probability with KS and resampled labels; p-values are corrected for the number of classes.

    The gaps of two classes mirror each other, so they have one test, that of class 1, and nothing to correct for.

    Returns
    -------
    dict
        Class name (or index) → TestResult with the corrected p-value.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 400)
    >>> found = classwise_tests(rng.integers(0, 3, 400), p, classes=[0, 1, 2], rng=0)  # labels know nothing of p
    >>> max(test.pvalue for test in found.values()) < 0.05
    True
    """
    forecast = check_forecast(
        y_true, y_proba, caller="classwise_tests", sample_weight=sample_weight, classes=classes, space=space
    )
    forecast.need_counts("a test")
    check_count(n_resamples, "n_resamples", "classwise_tests", 1)
    tables = [forecast.coarse_table(ClassK(k)) for k in range(forecast.n_classes)]
    found, draws = _class_paths(forecast, tables, n_resamples, check_rng(rng, "classwise_tests"))
    if forecast.n_classes == 2:
        found, draws = found[1:], draws[1:]
    corrected = step_down(*tail_scores(found, draws))
    names = forecast.classes or tuple(range(forecast.n_classes))
    found, corrected = (np.broadcast_to(values, len(names)) for values in (found, corrected))
    return {
        name: TestResult(float(value), float(p), "ks (step-down maxT)", forecast.n)
        for name, value, p in zip(names, found, corrected, strict=True)
    }


def _class_paths(
    forecast: Forecast, tables: list[Table], n_resamples: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return KS of every class, and draws of it: shape (K, n_resamples).

    One label per row decides all classes, so their draws depend on each other as the classes do. Where there are too
    many rows for that, classes are drawn one by one from their cells; their dependence is negative, so that costs at
    most 0.13 points of the error rate of 5%.
    """
    ks = KS.build()
    if forecast.total * n_resamples > _LABELS:
        each = zip(tables, rng.spawn(len(tables)), strict=True)
        nulls = [replicate_tables({"ks": ks}, [table], n_resamples, own, limit=False)["ks"] for table, own in each]
        found = np.array([float(ks.from_tables([table])) for table in tables])
        return found, np.stack([null.values for null in nulls])  # type: ignore[union-attr]  # draws, not a limit
    rows, k = forecast.repeated(), len(tables)
    before = np.concatenate([[0], np.cumsum([len(table) for table in tables])])  # cells of the classes before
    keys = [np.searchsorted(table.key, cell_key(rows.column(j), table.grid)) for j, table in enumerate(tables)]
    cell = np.stack(keys, axis=1) + before[:-1]
    end = np.concatenate([np.cumsum(table.we) for table in tables])  # expected rows of a class up to each of its cells
    start = end - np.concatenate([table.we for table in tables])
    owner = np.repeat(np.arange(k), np.diff(before))

    def paths(labels: Ints) -> Floats:  # a path is highest after a hit and lowest before one, or at its end
        hits = np.sort(cell[np.arange(rows.n), labels], axis=1)
        group = (owner[hits] + k * np.arange(len(hits))[:, None]).ravel()
        count = np.bincount(group, minlength=k * len(hits))
        first = np.cumsum(count) - count
        seen = np.arange(hits.size) - first[group]
        largest = np.abs(count - np.tile(end[before[1:] - 1], len(hits)))
        used = np.flatnonzero(count)
        inside = np.maximum(seen + 1.0 - end[hits.ravel()], start[hits.ravel()] - seen)
        largest[used] = np.maximum(largest[used], np.maximum.reduceat(inside, first[used]))
        return largest.reshape(len(hits), k) / rows.n

    step = max(1, _ENTRIES // rows.n)
    sizes = [min(step, n_resamples - done) for done in range(0, n_resamples, step)]
    return paths(rows.codes[None, :])[0], np.concatenate([paths(draw_labels(rows, size, rng)) for size in sizes]).T


def sliced_tests(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    by: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space = "proba",
    n_resamples: int = 1000,
    groups: ArrayLike | None = None,
    rng: RNG = None,
) -> dict[object, TestResult]:
    """Test every slice by the joint test behind the verdict; p-values are corrected for the number of slices.

    `by` names the slice of each row, `groups` its cluster: a cluster that reaches into several slices varies as one.
    Two classes are judged by the probability of class 1, more by the top label; it is the test of ``evaluate --by``,
    whatever reads the rows. A slice with fewer than ten clusters is left out. The statistic shown is KS.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p, day = rng.random(600), np.repeat(["monday", "tuesday"], 300)
    >>> y = rng.random(600) < np.where(day == "monday", p, 0.5)  # on tuesday the forecast means nothing
    >>> found = sliced_tests(y, p, day, rng=0)
    >>> found["tuesday"].pvalue < 0.05 < found["monday"].pvalue
    True
    """
    forecast = check_forecast(
        y_true, y_proba, caller="sliced_tests", sample_weight=sample_weight, classes=classes, space=space
    )
    forecast.need_counts("a test")
    columns = {"by": by}
    clusters = None if groups is None else split_column(to_array(groups, "groups", "sliced_tests"), columns)
    slices = evaluate_parts(
        split(forecast, columns),
        ["by"],
        metrics=[],
        n_resamples=n_resamples,
        slice_resamples=0,
        groups=clusters,
        rng=rng,
    )
    return {
        part.by["by"]: TestResult(part.evaluation.facts.ks, part.corrected, "joint (step-down maxT)", part.evaluation.n)
        for part in slices
        if part.corrected is not None
    }
