"""The verdict in words, built from three facts: direction and size, evidence, consequence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._typing import Floats
from calibrant.core.inputs import Forecast
from calibrant.core.results import Record, format_pvalue
from calibrant.core.tables import Bins, width_bins
from calibrant.inference.multiplicity import holm
from calibrant.inference.null import Null
from calibrant.inference.tests import ks_pvalue
from calibrant.metrics.ks import MEASURE as KS
from calibrant.views import TopLabel

#: A data set that resolves only errors above this many points cannot clear a model.
_TOO_COARSE = 0.10
#: Level of the evidence behind the words.
ALPHA = 0.05


@dataclass(frozen=True)
class ClassGap(Record):
    """A class whose mean probability misses its frequency."""

    name: Any
    gap: float
    pvalue: float


@dataclass(frozen=True)
class Facts(Record):
    """The plain facts behind the sentence."""

    n: int
    n_classes: int
    accuracy: float
    confidence: float
    ks: float
    ks_null_mean: float | None
    ks_null_std: float | None
    pvalue: float | None
    #: Smallest error that this many rows would show with probability 0.8 at level 0.05.
    resolvable: float | None
    #: Claim and truth in the bin that contributes most to the main direction.
    claim: tuple[float, float] | None
    class_gaps: tuple[ClassGap, ...] = ()


def collect_facts(forecast: Forecast, ks_null: Null | None) -> Facts:
    """Gather what the verdict needs."""
    pairs = TopLabel().pairs(forecast)
    w = forecast.weights
    s = pairs.score.astype(np.float64)
    total = forecast.total
    accuracy = float(np.average(pairs.outcome, weights=w))
    confidence = float(np.average(s, weights=w))
    noise = math.sqrt(float((s * (1 - s) * (1.0 if w is None else w)).sum())) / total
    ks = KS.build().value(forecast)
    return Facts(
        forecast.n,
        forecast.n_classes,
        accuracy,
        confidence,
        ks,
        None if ks_null is None else ks_null.mean,
        None if ks_null is None else ks_null.std,
        None if ks_null is None else ks_pvalue(forecast, ks, ks_null.pvalue(ks), len(ks_null.values)),
        None if ks_null is None else ks_null.quantile(1 - ALPHA) + 0.84 * noise,
        main_claim(width_bins(pairs, 20), confidence - accuracy),
        _gaps(forecast) if ks_null is not None and forecast.has_vectors else (),
    )


def main_claim(bins: Bins, direction: float) -> tuple[float, float] | None:
    """Return claim and truth in the fullest bin whose gap has the main direction."""
    w, gap = bins.w[0], bins.ws[0] - bins.wt[0]
    usable = (w > 0) & (np.sign(gap) == np.sign(direction))
    if not usable.any():
        return None
    b = int(np.argmax(np.where(usable, np.abs(gap), -1.0)))
    return float(bins.ws[0, b] / w[b]), float(bins.wt[0, b] / w[b])


def class_moments(forecast: Forecast) -> tuple[Floats, Floats, Floats]:
    """Return Σw·p_k, Σw·p_k(1 − p_k) and Σw·1[y = k] of every class."""
    k = forecast.n_classes
    expected, variance = np.zeros(k), np.zeros(k)
    for rows in forecast.chunks():
        p = forecast.block(rows).astype(np.float64)
        weight = np.ones(len(p)) if forecast.weights is None else forecast.weights[rows]
        expected += weight @ p
        variance += weight @ (p * (1 - p))
    observed = np.bincount(forecast.codes, forecast.weights, k).astype(np.float64)
    return expected, variance, observed


def _gaps(forecast: Forecast) -> tuple[ClassGap, ...]:
    return class_gaps(*class_moments(forecast), forecast.total, forecast.classes or tuple(range(forecast.n_classes)))


def class_gaps(
    expected: Floats, variance: Floats, observed: Floats, total: float, names: tuple[Any, ...]
) -> tuple[ClassGap, ...]:
    """Classes whose mean probability differs from their frequency, Holm-corrected over the classes."""
    from scipy.stats import norm, poisson

    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(variance > 0, (observed - expected) / np.sqrt(variance), 0.0)
    p = 2 * norm.sf(np.abs(z))
    rare = variance < 10
    if rare.any():  # the normal law fails for rare classes; the Poisson law is close and conservative
        tail = np.minimum(poisson.sf(observed - 1, np.maximum(expected, 1e-300)), poisson.cdf(observed, expected))
        p = np.where(rare, np.minimum(1.0, 2 * tail), p)
    corrected = holm(p)
    gap = (expected - observed) / total
    found = [ClassGap(names[i], float(gap[i]), float(corrected[i])) for i in np.flatnonzero(corrected < ALPHA)]
    return tuple(sorted(found, key=lambda c: -abs(c.gap)))


def points(value: float) -> str:
    """Write a share as percentage points with two significant digits."""
    size = 100 * abs(value)
    return f"{size:.0f}" if size >= 9.95 else f"{size:.1f}" if size >= 0.095 else f"{size:.2g}"


def _evidence(facts: Facts) -> str:
    null = ""
    if facts.ks_null_mean is not None and facts.ks_null_std is not None:
        null = (
            f", a calibrated model would show {_band(facts.ks_null_mean, facts.ks_null_std)} % at n = {_count(facts.n)}"
        )
    return f"KS {points(facts.ks)} %{null}, {format_pvalue(facts.pvalue)}"


def _band(mean: float, std: float) -> str:
    digits = 1 if 100 * std >= 0.095 else 2
    return f"{100 * mean:.{digits}f} ± {100 * std:.{digits}f}"


def _count(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def verdict(facts: Facts) -> str:
    """Answer in one sentence: calibrated, how sure, and what it means."""
    if facts.pvalue is None:
        return (
            f"KS {points(facts.ks)} %, mean confidence − accuracy "
            f"{100 * (facts.confidence - facts.accuracy):+.1f} points; no test was made, so no verdict."
        )
    lean = facts.confidence - facts.accuracy
    if facts.pvalue < ALPHA:
        return _not_calibrated(facts, lean)
    coarse = facts.resolvable is not None and facts.resolvable > _TOO_COARSE
    if facts.class_gaps and not coarse:
        named = ", ".join(
            f"{c.name!r} {'over' if c.gap > 0 else 'under'}-predicted by {points(c.gap)} points"
            for c in facts.class_gaps[:2]
        )
        more = len(facts.class_gaps) - 2
        tail = f" and {more} more" if more > 0 else ""
        pvalues = ", ".join(f"{c.pvalue:.2g}" for c in facts.class_gaps[:2])
        return f"Top label calibrated, classes not: {named}{tail} (corrected p {pvalues})."
    if coarse:
        return (
            f"Cannot tell: {_count(facts.n)} rows resolve only errors above {points(facts.resolvable or 0)} points. "
            f"A KS of {points(facts.ks)} % means nothing here."
        )
    return (
        f"No miscalibration found: KS {points(facts.ks)} %, inside what a calibrated model shows at this n "
        f"({format_pvalue(facts.pvalue)}). Errors above {points(facts.resolvable or 0)} points would have been seen."
    )


def _not_calibrated(facts: Facts, lean: float) -> str:
    if abs(lean) < 0.5 * facts.ks:
        return (
            f"Not calibrated: too sure in some places, too unsure in others ({_evidence(facts)}). "
            "On average the two cancel, so look at the reliability diagram."
        )
    word = "over" if lean > 0 else "under"
    text = f"Not calibrated: {word}-confident by {points(lean)} points ({_evidence(facts)})."
    if facts.claim is not None and lean > 0:
        claim, truth = facts.claim
        text += f" When it says {_share(claim)} %, it is right {_share(truth)} % of the time."
    elif lean < 0:
        text += " It is right more often than it claims."
    return text


def _share(value: float) -> str:
    return f"{100 * value:.0f}" if value < 0.99 else f"{100 * value:.1f}".rstrip("0").rstrip(".")
