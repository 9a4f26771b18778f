"""`evaluate`: every metric with what a calibrated model would show, a p-value, an interval and a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from calibrant._typing import RNG, ArrayLike
from calibrant.core.arguments import check_options
from calibrant.core.clusters import FEWEST, RARELY, few_clusters, few_surprises, too_few
from calibrant.core.declare import Metric, Recipe, declared, lookup
from calibrant.core.inputs import check_groups, check_words
from calibrant.core.options import check_count, check_rng, check_share, check_type
from calibrant.core.parallel import CHUNK_SCORES, map_chunks
from calibrant.core.resampling import KEPT_CELLS
from calibrant.core.results import Record, Result
from calibrant.core.text import count, markdown_table
from calibrant.core.weights import observations
from calibrant.errors import InputError, input_error
from calibrant.estimators import EXACT
from calibrant.evidence import Evidence, NullDistribution, Task
from calibrant.inference import wording
from calibrant.inference.cox import CoxCalibration, cox_of
from calibrant.inference.facts import FACTS, JUDGED, decisive, judged, judged_name, through
from calibrant.inference.intervals import offered_interval
from calibrant.inference.joint import JointTest, apart
from calibrant.inference.null import null_distribution
from calibrant.inference.verdict import TOLERANCE, Verdict, judge
from calibrant.views import ClassK, Classwise, TopLabel, View

__all__ = ["Evaluation", "evaluate_evidence"]

SCHEMA = 1
#: Why a score that can be infinite has no interval.
MAY_HAPPEN = "probability 0 to a class that may still happen"


class MetricTable(Record):
    """Results by metric: one after the other, or as a frame."""

    def __iter__(self) -> Any:
        return iter(self.results)  # type: ignore[attr-defined]  # every table has them

    def to_frame(self) -> Any:
        """Return the table as a Polars frame, one row per metric."""
        import polars as pl

        rows = [{"metric": name, **values} for name, values in self.to_dict()["metrics"].items()]
        return pl.DataFrame(rows, infer_schema_length=None)


@dataclass(frozen=True)
class Evaluation(MetricTable):
    """A table of results with the facts and the verdict; `str()` is the terminal text."""

    results: tuple[Result, ...]
    n: int
    n_classes: int
    verdict: Verdict
    facts: Any
    level: float = 0.95
    n_resamples: int = 1000
    weighted: bool = False
    classes: tuple[Any, ...] | None = None
    notes: tuple[str, ...] = field(default=())
    task: Task = "classes"
    #: Share of the rows that the calibrator was fitted on, and its cross-fitted gain; None for rows it has not seen.
    in_sample: dict[str, Any] | None = None
    #: What to do next, with the real command where the rows came from a file; empty: the advice of the verdict.
    next_step: str = ""
    #: Rows that an engine left out, by reason, and files that could not be read.
    rejected: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    #: Slope, intercept, calibration-in-the-large and observed over expected events, where asked for.
    risk: CoxCalibration | None = None
    #: Name of the view the verdict rests on.
    judged: str = TopLabel.word

    def __getitem__(self, name: str) -> Result:
        short, _, view = name.lower().partition("@")
        wanted = through(short, self.judged, self.task) if view == JUDGED else name.lower()
        for result in self.results:
            if result.name == wanted:
                return result
        raise KeyError(f"{name!r} is not in this evaluation; it has {', '.join(r.name for r in self.results)}")

    @property
    def headline(self) -> str:
        """The first line of the text: how many rows, and what they show on average."""
        return wording.headline(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "schema": SCHEMA,
            "n": self.n,
            **({} if self.task == "regression" else {"n_classes": self.n_classes}),
            "metrics": {result.name: metric_dict(result) for result in self.results},
            "verdict": str(self.verdict),
            "judgment": self.verdict.to_dict(),
            "notes": list(self.notes),
            **({} if self.in_sample is None else {"in_sample": self.in_sample}),
            **({} if self.risk is None else {"risk": self.risk.to_dict()}),
            "rejected": dict(self.rejected),
            "skipped_files": list(self.skipped),
        }

    def to_text(self, *, width: int | None = None) -> str:
        """Return the terminal text; a terminal of this width may lose the last column."""
        return wording.evaluation_text(self, width=width)

    def to_markdown(self) -> str:
        """Return headline, table and verdict as Markdown."""
        rows = [wording.cells(result, self.task) for result in self.results]
        lines = markdown_table([wording.heads(wording.HEADERS, self.level), *rows])
        return "\n".join([self.headline, "", *lines, "", f"**{self.verdict}**"])

    def to_html(self) -> str:
        """Return a plain HTML fragment (the full page is ``calibrant report``)."""
        return wording.evaluation_html(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        names = ", ".join(result.name for result in self.results[:8])
        return f"Evaluation(n={self.n:,}, {self.verdict.status!r}, metrics: {names})"

    _repr_html_ = to_html


def metric_dict(result: Result) -> dict[str, Any]:
    """Return one result in the stable JSON form."""
    interval = result.interval
    return {
        "value": result.value,
        "null_mean": result.null_mean,
        "null_std": result.null_std,
        "pvalue": result.pvalue,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "estimates": result.estimates,
        "bound": result.bound,
    }


def build_metric(
    name: str, evidence: Evidence, n_bins: int | None = None, params: Mapping[str, Any] | None = None
) -> tuple[Metric, Recipe]:
    """Return metric and recipe of ``"ece"`` or ``"ks@class-2"`` (a metric through another view)."""
    (name,) = check_words(name, "metrics", evidence.caller) or ("",)
    short, _, view = name.partition("@")
    try:
        metric = lookup(short, evidence.caller, evidence.task)
    except InputError as error:
        raise error.renamed(argument="metrics") from None
    known = metric.parameters()
    given = check_type({} if params is None else params, Mapping, "params", evidence.caller, "map names to values")
    chosen = {key: value for key, value in given.items() if key in known}
    if n_bins is not None and "n_bins" in known:
        chosen["n_bins"] = n_bins
    if view:
        chosen["view"] = view
    return metric, metric.build(caller=evidence.caller, **chosen)


class Built(dict[str, "tuple[Metric, Recipe]"]):
    """Metrics that were built with one choice of settings, for slice after slice."""


def build_metrics(
    evidence: Evidence,
    metrics: Iterable[str] | str | None,
    n_bins: int | None = None,
    params: Mapping[str, Any] | None = None,
    kept: Built | None = None,
) -> dict[str, tuple[Metric, Recipe]]:
    """Return metrics and recipes by name; the default set and ``"all"`` leave out what the evidence cannot answer."""
    kept = Built() if kept is None else kept
    metrics = "all" if isinstance(metrics, str) and metrics.lower() == "all" else metrics
    everything = isinstance(metrics, str) and metrics == "all"
    asked = metrics is not None and not everything
    if metrics is None:
        names = [metric.name for metric in declared(evidence.task) if metric.default]
        if evidence.n_classes == 2:
            names.insert(names.index("ece") + 1, "ece@class-1")
            names.insert(names.index("cwce") + 1, "ks@class-1")  # last of the errors: those above keep their draws
    elif everything:
        names = [metric.name for metric in declared(evidence.task)]
    else:
        words = [name.lower() for name in check_words(metrics, "metrics", evidence.caller)]
        names = [judged_name(evidence, word) if word.endswith(f"@{JUDGED}") else word for word in words]
    kept.update({name: build_metric(name, evidence, n_bins, params) for name in names if name not in kept})
    return {name: kept[name] for name in names if asked or evidence.answers(kept[name][1])}


def needed(
    evidence: Any, metrics: Iterable[str] | str | None, *, inference: bool
) -> tuple[list[View], list[str] | None]:
    """Return the views and the names of the scores that an evaluation reads from an empty summary of its kind.

    All of them (scores: None) where a metric is asked for that such a summary cannot answer: the refusal comes later.
    """
    views, scores = {judged(evidence), TopLabel()}, []
    if inference and evidence.task == "classes":
        views.add(Classwise())
    try:
        built: dict[str, tuple[Metric, Any]] = build_metrics(evidence, metrics)
        for metric, recipe in built.values():
            if metric.descriptive and recipe.top_label_only:
                continue  # accuracy and confidence: the cells of the top label tell them
            if recipe.is_mean:
                scores.append(evidence.score_name(recipe))
            elif not recipe.on_tables:
                return list(evidence.views), None
            else:
                evidence.tables(recipe.view)
                views.add(recipe.view)
    except InputError:
        return list(evidence.views), None
    kept = list(evidence.views)
    sources = [[kept.index(one) for one in view.sources(evidence.n_classes) if one in kept] for view in views]
    return [kept[i] for i in sorted({found[0] for found in sources})], scores


def evaluate_evidence(
    evidence: Evidence,
    *,
    metrics: Iterable[str] | str | None = None,
    n_bins: int | None = None,
    params: Mapping[str, Any] | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    groups: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    rng: RNG = None,
    test: JointTest | None = None,
    fewest_groups: int = 2,
    risk: bool = False,
    kept: Built | None = None,
) -> Evaluation:
    """Evaluate any form of evidence: the only place where a table of results and its verdict are made.

    Parameters
    ----------
    evidence : Evidence
        Rows of class probabilities, top-label pairs or means and variances, or a `Summary`.
    metrics, n_bins, level, n_resamples, groups, tolerance, rng, risk
        As in `calibrant.evaluate`; `params` are further parameters, given to every metric that knows them; `kept`
        keeps metrics that were built with the same settings from one slice to the next.
    test : JointTest, optional
        The joint test, made elsewhere (slices are drawn together); the verdict rests on it, and without resamples the
        row of KS too.
    fewest_groups : int, default 2
        Clusters below which `groups` is refused; a slice may lie in one, and then shows dashes.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import Summary
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> found = evaluate_evidence(Summary(2).update(rng.random(5000) < p, p), metrics=["ece", "brier"], rng=0)
    >>> [result.name for result in found.results], found.verdict.found
    (['ece', 'brier'], False)
    """
    check_options(evaluate_evidence, locals())
    check_share(level, "level", evidence.caller)
    check_share(tolerance, "tolerance", evidence.caller, "0.02")
    check_count(n_resamples, "n_resamples", evidence.caller)
    check_type(test, JointTest | None, "test", evidence.caller, "be a joint test", "leave it out")
    check_type(kept, Built | None, "kept", evidence.caller, "be metrics that were built before", "leave it out")
    if not evidence.n:
        raise input_error(evidence.caller, "evaluate", "hold at least one row", "none", "update it first")
    generator = check_rng(rng, evidence.caller)
    built = build_metrics(evidence, metrics, n_bins, params, kept)
    clusters = check_groups(groups, evidence, fewest_groups)
    if clusters is None and evidence.task != "regression":
        clusters = evidence.own_clusters()
    infer = (evidence.counts or clusters is not None) and n_resamples > 0 and not few_clusters(clusters)
    nulls: dict[str, NullDistribution] = {}
    silent: list[str] = []
    if infer:
        wanted = {name: recipe for name, (metric, recipe) in built.items() if not metric.descriptive}
        nulls = null_distribution(decisive(evidence) | wanted, evidence, n_resamples, generator, clusters)
        silent = [name for name in wanted if clusters is not None and name not in nulls]
    values = {name: evidence.value(recipe) for name, (_, recipe) in built.items()}  # some are known by their nulls

    def result(name: str, metric: Metric, recipe: Recipe) -> Result:
        interval = None
        if infer:
            own_p = nulls[name].pvalue(values[name]) if name in nulls else None
            interval = offered_interval(
                metric, recipe, evidence, level=level, groups=clusters, rng=generator, pvalue=own_p
            )
        return _result(name, metric, values[name], nulls.get(name), interval)

    how: dict[str, Any] = {"level": level, "clusters": clusters, "test": test, "n_resamples": n_resamples}
    work: list[Callable[[], Any]] = [
        lambda: [result(name, *one) for name, one in built.items()],
        lambda: FACTS[evidence.task](evidence, nulls, rng=apart(generator), **how),  # its draws are its own
    ]
    results, facts = map_chunks(lambda part: part(), work, None if evidence.n > CHUNK_SCORES else 1)
    if test is not None and not nulls:
        name, (_, mean, std), p = judged_name(evidence), test.ks, test.members["ks"]
        results = [replace(one, null_mean=mean, null_std=std, pvalue=p) if one.name == name else one for one in results]
    unread = not evidence.counts and clusters is None
    notes = ["weights are not whole numbers: no resampling, p-values or intervals"] if unread else []
    known: Any = evidence  # class probabilities and pairs have views
    if few_clusters(clusters):
        why = too_few(clusters, evidence.counts or groups is not None)
        notes.append(f"{why}: no p-values, intervals or verdict with fewer than {FEWEST}")
    elif clusters is not None and known.task != "regression" and few_surprises(known.pairs_of(TopLabel()), clusters):
        notes.append(f"{RARELY}: no p-values or intervals of means")
    if silent:
        grouped = evidence.counts or groups is not None
        why = "rows come in clusters" if grouped else "weights are importance weights"
        size = f", and there are more than {KEPT_CELLS:,} scores" * (evidence.n * evidence.n_classes > KEPT_CELLS)
        notes.append(f"no p-value of {', '.join(silent)}: {why}{size}")
    notes += zero_notes({name: recipe for name, (_, recipe) in built.items() if math.isfinite(values[name])}, evidence)
    said = {name: evidence.precision(recipe) for name, (_, recipe) in built.items()}
    notes += [f"{name} is {one.sentence}" for name, one in said.items() if one is not None and one != EXACT]
    return Evaluation(
        tuple(results),
        observations(evidence),
        evidence.n_classes,
        judge(facts, tolerance),
        facts,
        level,
        n_resamples,
        evidence.weighted,
        evidence.classes,
        (*notes, *evidence.notes),
        evidence.task,
        rejected=getattr(evidence, "rejected", {}),
        skipped=getattr(evidence, "skipped", ()),
        risk=_risk(evidence, level, clusters) if risk else None,
        judged=judged(evidence).name,
    )


def zero_notes(recipes: Mapping[str, Recipe], *evidence: Evidence) -> list[str]:
    """Say why a mean score that is finite so far has no interval: its forecasts call something impossible."""
    rows = {name: max(one.zero_rows(recipe) for one in evidence) for name, recipe in recipes.items() if recipe.is_mean}
    give = {name: "1 row gives" if n == 1 else f"{count(n)} rows give" for name, n in rows.items() if n}
    return [f"{words} {MAY_HAPPEN}: no interval of {name}" for name, words in give.items()]


def _risk(evidence: Any, level: float, clusters: Any) -> CoxCalibration | None:
    """Return slope, intercept and ratio of the positive class; None where a slice has too few clusters."""
    if evidence.n_classes != 2 or evidence.task != "classes":
        what = "means and variances" if evidence.task == "regression" else f"{evidence.n_classes or 'unknown'} classes"
        raise input_error("risk", evidence.caller, "go with two classes", what, "leave it out")
    if few_clusters(clusters):
        return None
    return cox_of(evidence.pairs_of(ClassK(1)), evidence.n, level=level, clusters=clusters)


def _result(name: str, metric: Metric, value: float, null: NullDistribution | None, interval: Any) -> Result:
    mean = std = pvalue = draws = None
    if null is not None:
        pvalue = null.pvalue(value, two_sided=bool(metric.two_sided))
        drawn = len(getattr(null, "values", ()))
        draws = drawn if pvalue * (drawn + 1) < 1.5 * (1 + bool(metric.two_sided)) and drawn else None
        if math.isfinite(null.mean):
            mean, std = null.mean, null.std
    return Result(name, value, mean, std, pvalue, interval, metric.estimates, metric.bound, draws)
