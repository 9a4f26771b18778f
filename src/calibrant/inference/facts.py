"""The facts behind a verdict: which pairs are judged, their gap, and the classes that are off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant._typing import Floats, Ints
from calibrant.core.clusters import few_surprises, number_of_clusters
from calibrant.core.counts import ClassCounts
from calibrant.core.declare import Recipe, declared, lookup
from calibrant.core.moments import FEW_EVENTS, Moments, clopper_pearson, mean_ends, mean_moments, wilson
from calibrant.core.results import Interval
from calibrant.core.tables import Pairs, width_index
from calibrant.core.weights import observations
from calibrant.evidence import Evidence, NullDistribution, Task
from calibrant.inference.error_bars import DECISIVE, regression_facts
from calibrant.inference.joint import CLASS_SHARE, JointTest, class_pvalues, joint_test
from calibrant.inference.verdict import ALPHA, CLAIM_ROWS, ClassGap, Facts, resamples_needed
from calibrant.metrics._ks import METRIC as KS
from calibrant.views import ClassK, TopLabel, View

__all__ = ["FACTS", "JUDGED", "class_facts", "class_gaps", "decisive", "judged", "judged_name", "through"]

#: Word of a name that leaves the view to the rows: ``"ks@judged"`` is ks through the view of the verdict.
JUDGED = "judged"

#: A gap at this many standard errors above the border of the null distribution is found 4 times in 5.
_POWER = 0.84
#: Rows that make a claim worth a narrower range of scores.
_ENOUGH = 100


def judged(evidence: Evidence) -> View:
    """Return the view the verdict rests on: the positive class of two, otherwise the top label."""
    positive = ClassK(1)
    return positive if evidence.n_classes == 2 and evidence.answers(KS.build(view=positive)) else TopLabel()


def judged_name(evidence: Evidence, metric: str = "ks") -> str:
    """Return the name of a metric through the view the verdict rests on, unless it names another: ``"ks@top-1"``.

    Wherever a metric is named without a view and two classes are judged by one number, this decides.
    """
    short, _, view = metric.lower().partition("@")
    return through(short, judged(evidence).name, evidence.task) if view in ("", JUDGED) else metric.lower()


def through(metric: str, view: str, task: Task = "classes") -> str:
    """Return the name of a metric through a view; one that does not look at the top label by itself keeps its name.

    Examples
    --------
    >>> through("ks", "class-1"), through("ks", "top-1"), through("brier", "class-1")
    ('ks@class-1', 'ks', 'brier')
    """
    known = () if view == TopLabel.word else declared(task)
    looks = [one.parameters().get("view") for one in known if one.name == metric]
    own = looks[0].default if looks and looks[0] is not None else view
    return f"{metric}@{view}" if own == TopLabel.word != view else metric


def decisive(evidence: Evidence) -> dict[str, Recipe]:
    """Return the metrics whose null distributions the verdict rests on, by name."""
    if evidence.task == "regression":
        return {name: lookup(name, evidence.caller, evidence.task).build() for name in DECISIVE}
    return {judged_name(evidence): KS.build(view=judged(evidence))}


def class_facts(
    evidence: Any,
    nulls: Mapping[str, NullDistribution],
    *,
    level: float = 0.95,
    clusters: Ints | None = None,
    test: JointTest | None = None,
    n_resamples: int = 1000,
    rng: np.random.Generator | None = None,
) -> Facts:
    """Gather what the verdict on class probabilities or top-label pairs needs.

    Without the null distribution of `judged_name` no test was made. With `clusters`, the cluster of each row, test and
    interval of the gap rest on whole clusters. `test` is the joint test where it was made elsewhere (slices).
    """
    view = judged(evidence)
    pairs = evidence.pairs_of(view)
    top = pairs if view.top_label_only else evidence.pairs_of(TopLabel())
    confidence, accuracy = _means(top)
    predicted, observed = (confidence, accuracy) if top is pairs else _means(pairs)
    ks = evidence.value(KS.build(view=view))
    facts = Facts(
        observations(evidence),
        evidence.n_classes,
        accuracy,
        confidence,
        ks,
        observed=observed,
        predicted=predicted,
        gap=_gap(pairs, (predicted, observed), clusters, level, evidence)
        if (evidence.counts or clusters is not None) and (nulls or test)
        else None,
        event=None if view.top_label_only else (evidence.classes or (0, 1))[1],
        clusters=number_of_clusters(clusters) if evidence.counts else None,
        **_claim(pairs, clusters, level),
    )
    null = nulls.get(judged_name(evidence))
    if null is None and test is None:
        return facts
    generator = np.random.default_rng(0) if rng is None else rng
    many = evidence.n_classes > 2
    found = test if test is not None else joint_test(evidence, view, n_resamples, generator, clusters)
    mean, std = found.ks[1:] if null is None else (null.mean, null.std)  # type: ignore[union-attr]  # the test is known
    facts = replace(facts, ks_null_mean=mean, ks_null_std=std)
    if found is None:
        return facts
    gaps = _class_gaps(evidence, n_resamples or len(found.scores) - 1, generator, clusters) if many else None
    share = 1.0 if gaps is None else 1.0 - CLASS_SHARE
    needed = resamples_needed(1 / share)
    return replace(
        facts,
        pvalue=min(1.0, found.pvalue / share),
        resolvable=float(found.border + _POWER * found.noise),
        class_gaps=gaps or (),
        share=share,
        needs_resamples=needed if len(found.scores) <= needed else 0,
    )


def _means(pairs: Pairs) -> tuple[float, float]:
    """Return mean score and mean outcome."""
    w = np.ones(len(pairs.score)) if pairs.weight is None else pairs.weight
    return float((pairs.score.astype(np.float64) * w).sum() / w.sum()), float((pairs.outcome * w).sum() / w.sum())


def _gap(pairs: Pairs, means: Any, clusters: Ints | None, level: float, evidence: Evidence) -> Interval | None:
    """Return predicted minus observed with the interval of a mean."""
    if evidence.total < 2 or few_surprises(pairs, clusters):
        return None
    moments: Moments = mean_moments(pairs.score.astype(np.float64) - pairs.outcome, pairs.weight, clusters)
    if clusters is not None and len(clusters) == clusters.max() + 1:  # weighted rows: heavy ones may show no surprise
        w = np.ones(len(clusters)) if pairs.weight is None else pairs.weight
        due = float(np.sqrt(w**2 @ (pairs.score * (1.0 - pairs.score))) / w.sum())
        moments = replace(moments, error=max(moments.error, due))
    predicted, observed = means
    n = observations(evidence)
    if clusters is None and evidence.total * min(observed, 1.0 - observed) < FEW_EVENTS:
        least, most = clopper_pearson(observed * evidence.total, evidence.total, level)
        return Interval(moments.mean, predicted - most, predicted - least, level, "clopper-pearson", n)
    low, high = mean_ends(moments, level)
    return Interval(moments.mean, max(low, -1.0), min(high, 1.0), level, "hall", n)


def _claim(pairs: Pairs, clusters: Ints | None, level: float) -> dict[str, Any]:
    """Return what the forecast says and what happens, with its interval, where most of its scores lie.

    The scores are chosen without a look at the outcomes: the fullest of 20, 10 or 5 bins of equal width, the first that
    holds a hundred rows, or thirty at last. A bin chosen for its gap would show a gap that is not there.
    """
    for m in (20, 10, 5):
        index = width_index(pairs.score, m)
        filled = np.bincount(index, pairs.weight, m)
        rows = float(filled.max())
        if rows >= _ENOUGH:
            break
    if rows < CLAIM_ROWS:
        return {"claim_rows": rows}
    inside = index == int(np.argmax(filled))
    weight = None if pairs.weight is None else pairs.weight[inside]
    outcome = pairs.outcome[inside].astype(np.float64)
    said = float(np.average(pairs.score[inside].astype(np.float64), weights=weight))
    true = float(np.average(outcome, weights=weight))
    if clusters is None:
        low, high = (float(end) for end in wilson(true, rows, level))
    else:
        _, numbers = np.unique(clusters[inside], return_inverse=True)
        if few_surprises(pairs.take(inside), numbers):
            return {"claim_rows": rows}
        low, high = mean_ends(mean_moments(outcome, weight, numbers), level)
    ends = Interval(true, max(low, 0.0), min(high, 1.0), level, "wilson", round(rows))
    return {"claim": (said, true), "claim_rows": rows, "claim_interval": ends}


def _class_gaps(
    evidence: Any, n_resamples: int, rng: np.random.Generator, clusters: Ints | None
) -> tuple[ClassGap, ...] | None:
    counts = evidence.class_counts()
    if counts is None:
        return None
    names = evidence.classes or tuple(range(evidence.n_classes))
    return class_gaps(counts, class_pvalues(evidence, counts, n_resamples, rng, clusters), evidence.total, names)


def class_gaps(counts: ClassCounts, pvalues: Floats, total: float, names: tuple[Any, ...]) -> tuple[ClassGap, ...]:
    """Return the classes whose mean probability differs from their frequency, at their part of the error rate.

    `pvalues` are corrected for the number of classes; here they are corrected for the test of the judged view too.
    """
    corrected = np.minimum(1.0, pvalues / CLASS_SHARE)
    gap = counts.gap / total
    found = [ClassGap(names[i], float(gap[i]), float(corrected[i])) for i in np.flatnonzero(corrected < ALPHA)]
    return tuple(sorted(found, key=lambda c: -abs(c.gap)))


#: Who gathers the facts, by task.
FACTS: dict[Task, Callable[..., Any]] = {
    "classes": class_facts,
    "pairs": class_facts,
    "regression": regression_facts,
}
