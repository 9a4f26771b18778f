"""`evaluate`: how well calibrated predictions are, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant._typing import RNG, ArrayLike, Space
from calibrant.core.arguments import check_options
from calibrant.core.inputs import check_words
from calibrant.core.weights import WeightKind
from calibrant.errors import InputError
from calibrant.inference.evaluation import Evaluation, build_metric, evaluate_evidence, needed
from calibrant.inference.slices import FileEvaluation, evaluate_slices
from calibrant.inference.verdict import TOLERANCE
from calibrant.io.paths import is_path
from calibrant.workflows.in_sample import find_mark, judged_in_sample
from calibrant.workflows.next_step import named
from calibrant.workflows.sources import Reading, left_out, need_bins, open_data

__all__ = ["evaluate"]


def evaluate(
    y_true: Any,
    y_proba: ArrayLike | None = None,
    *,
    metrics: Iterable[str] | str | None = None,
    view: str | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    space: Space | None = None,
    normalize: bool = False,
    pairs: bool = False,
    n_bins: int | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    groups: ArrayLike | str | None = None,
    tolerance: float = TOLERANCE,
    risk: bool = False,
    by: str | Sequence[str] | Mapping[str, ArrayLike] | None = None,
    rng: RNG = 0,
    proba: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    weight_kind: WeightKind | None = None,
    mean: str | None = None,
    variance: str | None = None,
    std: str | None = None,
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
) -> Evaluation | FileEvaluation:
    """Return a table of metrics with null distributions, p-values and intervals, and a verdict in words.

    Beside every calibration error stands what a perfectly calibrated model would score at this n (labels
    resampled from the forecasts), a p-value, an interval whose coverage has been verified by simulation (or
    None), and what the number estimates.

    Parameters
    ----------
    y_true : array-like of shape (n,), or path, pattern, directory, frame or evidence
        Class indices, or any labels with `classes`; with ``pairs=True`` whether the top label was right. Without
        `y_proba`: where the predictions are. A file or an eager frame (pandas, Polars, PyArrow) is read into
        memory; a pattern, a directory or a lazy frame (Polars, DuckDB, Spark, Dask, Ibis) is summarized in cells.
    y_proba : array-like of shape (n, K) or (n,), optional
        Probabilities, or the probability of class 1; with ``pairs=True`` the confidence of the top label; or a
        `Normal`, `Samples` or `Quantiles` forecast (regression).
    metrics : iterable of str, optional
        Short names, ``"name@view"`` for another view; default the default set. ``"all"`` takes every metric.
    view : str, optional
        View of all of them (``"rank-2"``, ``"class-1"``, ``"classwise"`` …); default ece and ks through it.
    sample_weight, classes
        Weights of the rows and names of the classes, for arrays.
    space : {"proba", "logit"}, optional
        What the scores are; default by the names of columns, "proba" for arrays.
    normalize : bool, default False
        Rescale rows of probabilities to sum 1.
    pairs : bool, default False
        The arrays are top-label pairs (correct, confidence).
    n_bins : int, optional
        Bins of the binned metrics, 15 unless given.
    level : float, default 0.95
        Level of the intervals.
    n_resamples : int, default 1000
        Label resamplings; 0 gives the values alone.
    groups : array-like of shape (n,), or str, optional
        Cluster of each row (or its column): intervals take whole clusters as the unit.
    tolerance : float, default 0.02
        How far predicted and observed frequency may differ and still count as calibrated.
    risk : bool, default False
        For two classes: calibration slope and intercept, calibration-in-the-large and observed over expected events as
        well, with intervals and tests, under ``.risk`` (and ``risk`` in JSON).
    by : str, sequence of str, or mapping of str to array-like, optional
        Columns whose combinations of values are evaluated each, with p-values corrected for their number; on an engine
        ``"_file"`` is the file of a row.
    rng : None, int or Generator, default 0
        Randomness of the resampling: seeded like the command line; None draws anew every time.
    weight_kind : {"frequency", "importance"}, optional
        What weights are: counts of equal rows, or how much each row matters, with the spread of weighted rows. Default:
        whole numbers are counts, others importance. An engine keeps counts; importance weights give values alone there.
    proba, label, weight, mean, variance, std, part
        Names of columns or arrays of a file or frame, where `calibrant.io.names` does not know them.
    engine, master, strict
        ``"polars"``, ``"duckdb"`` or ``"spark"`` (with its master) for files larger than memory; whether a row that
        lacks a value is an error there, instead of being counted and left out.
    skip_bad_files, max_rejected
        Whether files that cannot be read are counted and left out; the largest fraction of rows (0.01, "1%") that may
        be left out without an error. Without it rows that lack a value are left out, and an unknown label, a score out
        of range or a bad weight is an error.
    input_format : str, optional
        Format of a file when its suffix does not say.
    positive : optional
        Of two labels the one that a single score speaks of; default yes, true, 1 …, else the later in sorted order.
    percent : bool, default False
        The scores are percentages, 0 to 100.
    confidence, correct : str, optional
        Columns of top-label pairs: the confidence, and whether the top label was right.

    Returns
    -------
    Evaluation or FileEvaluation
        ``.results``, ``["ece"]``, ``.verdict``, ``.to_dict()``, ``.to_frame()``; ``str()`` is the terminal text. With
        `by` a `FileEvaluation`: ``.whole`` and ``.slices``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1.0, 2000)
    >>> y = rng.random(2000) < p - 0.1
    >>> evaluation = evaluate(y, p, rng=0)
    >>> round(evaluation["ece"].value, 2), evaluation["ece"].pvalue < 0.01
    (0.09, True)
    >>> evaluation.verdict.status, evaluation.verdict.direction
    ('miscalibrated', 'over')
    >>> import polars as pl
    >>> evaluate(pl.DataFrame({"target": y, "score": p}), rng=0)["ece"].value == evaluation["ece"].value
    True
    """
    check_options(evaluate, locals())
    how = Reading.of("evaluate", locals())
    metrics = metrics if metrics is None or isinstance(metrics, str) else check_words(metrics, "metrics", "evaluate")

    def need(empty: Any) -> Any:
        names = metrics if view is None else _viewed(empty, metrics, view)
        return needed(empty, names, inference=n_resamples > 0 or by is not None)

    opened = open_data(y_true, y_proba, replace(how, need=need), by=by, groups=groups, n_bins=n_bins)
    settings: dict[str, Any] = {
        "metrics": metrics if view is None else _viewed(opened.evidence, metrics, view),
        "n_bins": 15 if n_bins is None else n_bins,
        "level": level,
        "n_resamples": n_resamples,
        "tolerance": tolerance,
        "risk": risk,
        "rng": rng,
    }
    if by is None and not opened.by:
        done = evaluate_evidence(opened.evidence, groups=opened.clusters, **settings)
        need_bins(n_bins, done.results, opened.evidence.task, "evaluate")
        return _with_next(judged_in_sample(done, find_mark(y_true)), y_true, how)
    sliced = evaluate_slices(
        opened.evidence,
        opened.parts,
        opened.by,
        groups=opened.clusters,
        part_groups=opened.part_clusters,
        **settings,
    )
    need_bins(n_bins, sliced.whole.results, opened.evidence.task, "evaluate")
    judged = judged_in_sample(sliced, find_mark(y_true))
    return replace(judged, whole=_with_next(judged.whole, y_true, how))


def _with_next(done: Evaluation, data: Any, how: Reading) -> Evaluation:
    """Return the evaluation of a file with the command to run next."""
    return replace(done, next_step=named(done.verdict.advice, data, vars(how))) if is_path(data) else done


def _viewed(evidence: Any, metrics: Iterable[str] | str | None, view: str) -> list[str]:
    """Return metrics through one view, refused under its own name where the evidence has no such view."""
    if evidence.task == "regression":
        raise left_out("view", "evaluate", "for means and variances", view)
    if metrics == "all":
        raise left_out("view", "evaluate", "with all metrics", view, "name some metrics")
    given = [metrics] if isinstance(metrics, str) else list(metrics or ("ece", "ks"))
    names = [f"{name}@{view}" for name in given]
    for name in names:
        try:
            answered = evidence.answers(build_metric(name, evidence)[1])
        except InputError as error:
            raise error.renamed(argument="view" if error.argument != "metrics" else None) from None
        if not answered:
            raise left_out("view", "evaluate", f"for {name.partition('@')[0]} of these predictions", view)
    return names
