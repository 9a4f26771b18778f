"""Facts and verdict of regression: whether error bars are too narrow, too wide, or right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrant.core.declare import lookup
from calibrant.core.moments import normal_quantile, wilson
from calibrant.core.results import Interval, Record
from calibrant.core.text import count, first_upper, percent, points, pvalue_phrase, significant
from calibrant.evidence import NullDistribution
from calibrant.inference.verdict import (
    ALPHA,
    REPAIR,
    TOO_COARSE,
    NextStep,
    Status,
    Verdict,
    first_lower,
    let_it_test,
    no_answer,
    resamples_needed,
    rows_needed,
    signed_ends,
    too_few_draws,
)

__all__ = ["DECISIVE", "RegressionFacts", "regression_facts"]

#: What the verdict rests on, each at its part of the error rate: means, spread, shape, and spread range by range.
DECISIVE = ("bias", "ratio", "pit-ks", "ence")
#: The intervals the verdict speaks of.
MEANT = 0.9
#: What to do about quantiles, which no calibrator maps.
RETRAIN = "correct the quantiles in the model: calibrators take means with variances"


@dataclass(frozen=True)
class RegressionFacts(Record):
    """What the verdict on means and variances rests on."""

    n: int
    total: float
    #: Root mean squared error, and the root of the mean predicted variance; None of a table of quantiles.
    rmse: float | None
    predicted_std: float | None
    #: Mean squared error over variance (1 is perfect) and mean standardized residual (0 is perfect).
    ratio: float | None
    bias: float | None
    #: Fraction of outcomes inside the intervals meant to contain `meant`, and `meant` minus that with its interval.
    inside: float | None
    gap: Interval | None
    #: Smallest coverage gap that this many rows detect, and the error of the variances behind it.
    resolvable: float
    hidden: float | None
    #: p-values of the decisive metrics by name; empty where no test was made.
    pvalues: Mapping[str, float] = field(default_factory=dict)
    #: What the intervals are meant to contain: 90%, or the widest pair of quantiles up to that.
    meant: float = MEANT
    #: Levels of a table of quantiles, and the fraction of outcomes below each.
    levels: tuple[float, ...] = ()
    below: tuple[float, ...] = ()
    #: Resamplings behind the p-values.
    resamples: int = 1000

    @property
    def needs_resamples(self) -> int:
        """Resamplings that a test at 5% needs, where fewer were made; 0 where they are enough."""
        needed = resamples_needed(len(self.pvalues))
        return needed if self.resamples < needed else 0

    @property
    def pvalue(self) -> float | None:
        """The smallest p-value, corrected for how many there are."""
        return min(1.0, min(self.pvalues.values()) * len(self.pvalues)) if self.pvalues else None

    @property
    def clear(self) -> frozenset[str]:
        """Decisive metrics that fail on their own."""
        return frozenset(name for name, p in self.pvalues.items() if p * len(self.pvalues) < ALPHA)

    @property
    def narrow(self) -> bool:
        """Whether error bars are too narrow rather than too wide."""
        by_spread = self.ratio is not None and (self.gap is None or "ratio" in self.clear)
        return self.ratio > 1 if by_spread else self.gap.value > 0  # type: ignore[operator,union-attr]  # known here

    def beyond(self, tolerance: float) -> bool:
        """Whether the coverage gap is outside the tolerance for sure."""
        return self.gap is not None and (self.gap.low > tolerance or self.gap.high < -tolerance)

    def judge(self, tolerance: float) -> Verdict:
        """Return the verdict."""
        return judge_error_bars(self, tolerance)


def regression_facts(
    evidence: Any,
    nulls: Mapping[str, NullDistribution],
    *,
    level: float = 0.95,
    clusters: Any = None,
    test: Any = None,  # noqa: ARG001 -- the facts of every task are asked alike
    n_resamples: int = 0,
    rng: Any = None,  # noqa: ARG001
) -> RegressionFacts:
    """Gather what the verdict on means and variances needs."""
    metrics = {name: lookup(name, evidence.caller, "regression") for name in DECISIVE}
    recipes = {name: metric.build() for name, metric in metrics.items()}
    values = {name: evidence.value(recipe) for name, recipe in recipes.items() if evidence.answers(recipe)}
    pvalues = {
        name: nulls[name].pvalue(values[name], two_sided=bool(metric.two_sided))
        for name, metric in metrics.items()
        if name in nulls and name in values
    }
    meant = max((known for known in evidence.central_levels((MEANT,)) if known <= MEANT), default=None)
    inside = None if meant is None else evidence.inside(meant)
    gap = None
    if meant is not None and inside is not None and evidence.counts and evidence.total >= 2 and clusters is None:
        low, high = (meant - float(end) for end in wilson(inside, evidence.total, level))
        gap = Interval(meant - inside, high, low, level, "wilson", evidence.n)
    if evidence.table is not None:
        levels = tuple(float(stated) for stated in evidence.table.levels)
        return RegressionFacts(
            evidence.n,
            evidence.total,
            *(None, None, None, None),
            inside,
            gap,
            # a fraction of n rows has standard deviation √(c(1 − c)/n); 2.8 of them are found 4 times in 5
            2.8 * math.sqrt((meant or 0.5) * (1 - (meant or 0.5)) / evidence.total),
            None,
            pvalues,
            MEANT if meant is None else meant,
            levels,
            tuple(evidence.average((evidence.pit <= stated).astype(float)) for stated in levels),
            n_resamples,
        )
    # the ratio has standard deviation √(2/n); 2.5 of them at the corrected level
    hidden = 2.5 * math.sqrt(2.0 / evidence.total)
    border = normal_quantile(0.5 + MEANT / 2) / math.sqrt(1.0 + hidden)
    return RegressionFacts(
        evidence.n,
        evidence.total,
        math.sqrt(evidence.average(evidence.squared_error)),
        math.sqrt(evidence.average(evidence.variance)),
        values["ratio"],
        values["bias"],
        inside,
        gap,
        MEANT - math.erf(border / math.sqrt(2.0)),
        hidden,
        pvalues,
        resamples=n_resamples,
    )


def judge_error_bars(facts: RegressionFacts, tolerance: float) -> Verdict:
    """Judge means and variances."""
    status, direction = _status(facts, tolerance)
    head, sentence = _headline(facts, status, tolerance), _sentence(facts, status, tolerance)
    step, advice = _next_step(facts, status, tolerance)
    opening = {"miscalibrated": "Not calibrated", "small gap": "Small gap", "cannot tell": "Cannot tell"}.get(status)
    return Verdict(
        f"{head if opening is None else f'{opening}: {first_lower(head)}'}. {sentence}{_evidence(facts)}",
        status=status,
        direction=direction,
        gap=facts.gap,
        detectable=facts.resolvable,
        tolerance=tolerance,
        pvalue=facts.pvalue,
        headline=head,
        sentence=sentence,
        next_step=step,
        advice=advice,
    )


def _status(facts: RegressionFacts, tolerance: float) -> tuple[Status, Any]:
    if facts.pvalue is None:
        return "cannot tell", None
    inside = facts.gap is not None and -tolerance <= facts.gap.low and facts.gap.high <= tolerance
    if facts.pvalue < ALPHA:
        if "ratio" in facts.clear or facts.beyond(tolerance):
            return "small gap" if inside else "miscalibrated", "over" if facts.narrow else "under"
        if "bias" in facts.clear or facts.inside is None:
            return "small gap" if inside else "miscalibrated", "mixed"
        return "right on average", "mixed"
    if facts.needs_resamples or facts.resolvable > TOO_COARSE:
        return "cannot tell", None
    return ("calibrated within tolerance" if inside and facts.resolvable <= tolerance else "no gap found"), None


def _headline(facts: RegressionFacts, status: Status, tolerance: float) -> str:
    if status in ("miscalibrated", "small gap"):
        if "ratio" in facts.clear or facts.beyond(tolerance):
            return f"Error bars too {'narrow' if facts.narrow else 'wide'}"
        if facts.inside is None:
            return "Quantiles in the wrong place"
        return f"Means too {'low' if (facts.bias or 0) > 0 else 'high'}"
    if status == "right on average":
        return "Right on average, wrong inside"
    if status == "calibrated within tolerance":
        return f"Calibrated within {100 * tolerance:g} points"
    if status == "no gap found":
        return "No gap found so far"
    return no_answer(facts)


def _inside(facts: RegressionFacts) -> str:
    if facts.inside is None:
        return f"{percent(facts.below[_worst(facts)], 1)} of outcomes lie below the {_level(facts)} quantile"
    inside = "more than 99.9%" if 0.9995 <= facts.inside < 1 else percent(facts.inside, 1)
    return f"Intervals meant to contain {100 * facts.meant:g}% of outcomes contain {inside}"


def _worst(facts: RegressionFacts) -> int:
    """Return the place of the level that is furthest from what lies below it."""
    return max(range(len(facts.levels)), key=lambda j: abs(facts.below[j] - facts.levels[j]))


def _level(facts: RegressionFacts) -> str:
    return f"{100 * facts.levels[_worst(facts)]:g}%"


def _shape(facts: RegressionFacts) -> str:
    """Return what is wrong with the distribution: the worst quantile where a table states some."""
    if not facts.levels or facts.inside is None:
        return "the shape of the predictive distribution is wrong"
    return f"{percent(facts.below[_worst(facts)], 1)} of outcomes lie below the {_level(facts)} quantile"


def _sentence(facts: RegressionFacts, status: Status, tolerance: float) -> str:
    if facts.pvalue is None:
        return f"{_inside(facts)}. A test needs whole-number weights and at least one resampling."
    if status in ("miscalibrated", "small gap"):
        small = f" The gap is real but within {100 * tolerance:g} points." if status == "small gap" else ""
        if "ratio" in facts.clear:
            return f"{'; '.join([_inside(facts), *_means_off(facts)])}.{small}"
        faults = _means_off(facts) or [_shape(facts)] * (facts.inside is not None)
        return f"{': '.join([_inside(facts), *faults])}.{small}"
    if status == "right on average":
        fault = "variances are right on average but not range by range" if "ence" in facts.clear else _shape(facts)
        return f"{_inside(facts)}, but {fault}."
    if status == "cannot tell" and facts.needs_resamples:
        return f"{_inside(facts)}. {too_few_draws(facts)}."
    if status == "cannot tell":
        return f"{count(facts.total)} rows would hide {_hidden(facts, factor=True)}."
    start = f"{_inside(facts)}. That is within chance for {count(facts.n)} rows"
    return f"{start}, but {_hidden(facts, factor=False)} could hide."


def _means_off(facts: RegressionFacts) -> list[str]:
    """Return how far the means are off, where their own test finds that."""
    bias = facts.bias or 0.0
    side = "low" if bias > 0 else "high"
    return [f"means are too {side} by {abs(bias):.2g} predicted standard deviations"] * ("bias" in facts.clear)


def _evidence(facts: RegressionFacts) -> str:
    """Return the numbers behind the sentence, as a sentence of their own."""
    times = f"errors are {math.sqrt(facts.ratio or 0.0):.2g} times as large as the error bars say"
    parts = [times] * ("ratio" in facts.clear)
    parts += [] if facts.gap is None else [f"gap {' to '.join(signed_ends(facts.gap))} points"]
    parts += [] if facts.pvalue is None else [pvalue_phrase(facts.pvalue)]
    return f" {first_upper('; '.join(parts))}." * bool(parts)


def _hidden(facts: RegressionFacts, *, factor: bool) -> str:
    """Return what these rows are too few to see."""
    if facts.hidden is None:
        return f"coverage gaps of {points(facts.resolvable)} points"
    return f"variances wrong by {f'a factor of {1 + facts.hidden:.2g}' if factor else f'{100 * facts.hidden:.2g}%'}"


def _next_step(facts: RegressionFacts, status: Status, tolerance: float) -> tuple[NextStep, str]:
    if status in ("miscalibrated", "right on average"):
        return "repair", RETRAIN if facts.levels else REPAIR
    if status in ("small gap", "calibrated within tolerance"):
        return "use", "use it; keep checking it with calibrant check"
    if facts.pvalue is None or (facts.needs_resamples and status == "cannot tell"):
        return "add rows", let_it_test(facts)
    rows = rows_needed(facts.n, facts.resolvable, tolerance)
    if status == "no gap found":
        more = "" if rows is None else f", or add rows: about {count(rows)} would settle it"
        return "add rows", f"use it with care{more}"
    return "collect rows", f"collect about {count(rows or facts.n)} labeled rows"


def regression_headline(facts: RegressionFacts) -> str:
    """Return the first line of the text."""
    if facts.rmse is None or facts.predicted_std is None:
        return f"{count(facts.n)} predictions · quantiles {', '.join(f'{level:g}' for level in facts.levels)}"
    return (
        f"{count(facts.n)} predictions · RMSE {significant(facts.rmse)} · predicted {significant(facts.predicted_std)}"
        f" · squared error / variance {facts.ratio:.3g}"
    )
