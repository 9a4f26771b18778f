"""One sample of every line of the table of findings: what is drawn, and what the library says of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit, ndtr

import calibrant
from calibrant import evaluate
from calibrant._typing import Floats
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.errors import UndefinedWarning
from calibrant.inference.cox import CoxCalibration, cox_calibration
from calibrant.inference.equivalence import equivalence_test
from calibrant.inference.limits import decide
from calibrant.inference.multiplicity import classwise_tests, sliced_tests
from calibrant.inference.tests import test_calibration as run_test
from calibrant.monitoring.sequential import log_evalue, log_increments
from calibrant.monitoring.units import log_detector, unit_increments
from calibrant.regression import evaluate as evaluate_means
from calibrant.summary.summary import Summary
from calibrant.views import TopLabel
from calibrant.workflows.compare import compare
from calibrant_papers.validation import generators as data

#: What one sample shows: name of the number -> its value; None where a dash is shown.
Shown = Mapping[str, float | None]
RESAMPLES = 199


def _hit(value: float, span: Any) -> float | None:
    return None if span is None else float(span.low - 1e-9 <= value <= span.high + 1e-9)


# -- families and tails -----------------------------------------------------------------------


def classwise(n: int, rng: np.random.Generator) -> Shown:
    """Any class of a hundred calibrated ones rejected."""
    rows = data.many_classes(n, rng)
    tests = classwise_tests(rows.labels(rng), rows.forecast, classes=range(100), n_resamples=RESAMPLES, rng=rng)
    return {"rejected": float(min(test.pvalue for test in tests.values()) <= 0.05)}


def sliced(rng: np.random.Generator) -> Shown:
    """Any slice of sharp calibrated rows rejected."""
    rows = data.sharp_slices(2000, rng)
    tests = sliced_tests(rows.labels(rng), rows.forecast, rows.groups, n_resamples=RESAMPLES, rng=rng)
    return {"rejected": float(min((test.pvalue for test in tests.values()), default=1.0) <= 0.05)}


def tail(rng: np.random.Generator) -> Shown:
    """The p-value of one error in a hundred rows that claim 0.99995."""
    p = np.full(100, 0.99995)
    y = np.ones(100, dtype=int)
    y[0] = 0
    return {"p": evaluate(y, p, metrics=["ks", "ks@class-1"], rng=rng)["ks"].pvalue}


def classic(generator: data.Generator, method: str, rng: np.random.Generator) -> Shown:
    """A classic test of calibrated rows, rejected."""
    rows = generator(300, rng)
    found = run_test(rows.labels(rng), rows.forecast, method=method, n_resamples=RESAMPLES, rng=rng)
    return {"rejected": float(found.pvalue <= 0.05)}


# -- intervals --------------------------------------------------------------------------------


def intervals(model: str, n: int, names: tuple[str, ...], rng: np.random.Generator) -> Shown:
    """Whether the intervals of `evaluate` hold the truth."""
    rows, known = data.draw(model, n, rng), data.truth(model)
    found = evaluate(rows.labels(rng), rows.forecast, metrics=names, n_resamples=RESAMPLES, rng=rng)
    return {name: _hit(known[name], found[name].interval) for name in names}


def weighted(rng: np.random.Generator) -> Shown:
    """The same with importance weights."""
    rows = data.importance(1000, rng)
    found = evaluate(
        rows.labels(rng),
        rows.forecast,
        metrics=["brier", "ks@class-1"],
        sample_weight=np.asarray(rows.weights) / 20,  # no counts, so importance weights
        n_resamples=RESAMPLES,
        rng=rng,
    )
    return {name: _hit(_weighted_truth()[name], found[name].interval) for name in ("brier", "ks@class-1")}


@lru_cache(maxsize=1)
def _weighted_truth() -> dict[str, float]:
    return data.truth_of(data.importance(400_000, np.random.default_rng(5)))


def regression(n: int, rng: np.random.Generator) -> Shown:
    """The same for means with variances whose squares have heavy tails."""
    variance = np.exp(1.2 * rng.standard_normal(n))
    y = np.sqrt(variance) * rng.standard_normal(n)
    found = evaluate_means(y, np.zeros(n), variance, metrics=["mse", "dss", "crps"], n_resamples=RESAMPLES, rng=rng)
    mean_log = 0.0
    spread = float(np.exp(0.125 * 1.44)) / np.sqrt(np.pi)  # E √v = exp(1.44/8), and the CRPS of a true normal is √(v/π)
    known = {"mse": float(np.exp(0.72)), "dss": mean_log + 1.0, "crps": spread}
    return {name: _hit(value, found[name].interval) for name, value in known.items()}


# -- clusters ---------------------------------------------------------------------------------


def cluster_verdict(clusters: int, unequal: bool, rng: np.random.Generator) -> Shown:
    """Whether a gap is found in calibrated rows that come in clusters."""
    rows = data.clustered(1000, rng, clusters, unequal)
    y = rows.labels(rng)
    found = evaluate(y, rows.forecast, metrics=[], groups=rows.groups, n_resamples=RESAMPLES, rng=rng)
    return {"verdict": float(found.verdict.found)}


def cluster_intervals(clusters: int, unequal: bool, rng: np.random.Generator) -> Shown:
    """Whether intervals of clustered rows hold the truth."""
    rows = data.clustered(1000, rng, clusters, unequal)
    names = ("ks@class-1", "ece@class-1", "brier", "nll")
    found = evaluate(rows.labels(rng), rows.forecast, metrics=names, groups=rows.groups, n_resamples=RESAMPLES, rng=rng)
    known = _cluster_truth(clusters, unequal)
    return {name: _hit(known.get(name, 0.0), found[name].interval) for name in names}


@lru_cache(maxsize=8)
def _cluster_truth(clusters: int, unequal: bool) -> dict[str, float]:
    """Return scores and their changes over four hundred samples with probabilities in the place of labels."""
    rng = np.random.default_rng(9)
    sums: dict[str, list[float]] = {}
    for _ in range(400):
        rows = data.clustered(1000, rng, clusters, unequal)
        one = data.truth_of(rows)
        two = data.truth_of(data.Draw(rows.other, rows.chance))  # type: ignore[arg-type]  # drawn above
        for name in ("brier", "nll", "accuracy"):
            sums.setdefault(name, []).append(one[name])
            sums.setdefault(f"{name}, change", []).append(one[name] - two[name])
    return {name: float(np.mean(values)) for name, values in sums.items()}


def cluster_compare(clusters: int, unequal: bool, rng: np.random.Generator) -> Shown:
    """Whether the interval of a change holds the truth where rows come in clusters."""
    rows = data.clustered(1000 if clusters > 10 else 500, rng, clusters, unequal)
    names = ("brier", "nll")
    found = compare(rows.labels(rng), rows.forecast, rows.other, metrics=names, groups=rows.groups)
    known = _cluster_truth(clusters, unequal)
    return {name: _hit(known[f"{name}, change"], found[name].interval) for name in names}


# -- compare ----------------------------------------------------------------------------------


def discordant(what: str, rng: np.random.Generator) -> Shown:
    """Accuracy of two models that disagree on five rows: coverage, or whether p-value and interval disagree."""
    rows = data.few_discordant(200, rng)
    found = compare(rows.labels(rng), rows.forecast, rows.other, metrics=["accuracy"])["accuracy"]
    span, pvalue = found.interval, found.pvalue
    if what == "coverage":
        return {"accuracy": _hit(0.0, span)}
    if span is None or pvalue is None:
        return {"contradiction": None}
    excluded = span.low > 1e-12 or span.high < -1e-12
    return {"contradiction": float(excluded != (pvalue <= 0.05))}


# -- verdict and words ------------------------------------------------------------------------


def found(generator: data.Generator, n: int, rng: np.random.Generator) -> Shown:
    """Whether the verdict finds a gap."""
    rows = generator(n, rng)
    verdict = evaluate(rows.labels(rng), rows.forecast, metrics=[], n_resamples=RESAMPLES, rng=rng).verdict
    return {"found": float(verdict.found)}


def power(generator: data.Generator, rng: np.random.Generator) -> Shown:
    """Whether the verdict finds a gap, and what single tests find (in brackets)."""
    rows = generator(1000, rng)
    y = rows.labels(rng)
    many = 499  # the brackets: a p-value of 0.05 needs no more than 199
    both = {"verdict": float(evaluate(y, rows.forecast, metrics=[], n_resamples=many, rng=rng).verdict.found)}
    for method in ("spiegelhalter", "hosmer-lemeshow", "ks"):
        found = run_test(y, rows.forecast, method=method, view="class-1", n_resamples=RESAMPLES, rng=rng)
        both[f"({method})"] = float(found.pvalue <= 0.05)
    return both


def rare_words(rng: np.random.Generator) -> Shown:
    """Whether the verdict speaks of confidence where it should speak of risk."""
    rows = data.rare_shifted(4000, rng)
    verdict = evaluate(rows.labels(rng), rows.forecast, metrics=[], n_resamples=RESAMPLES, rng=rng).verdict
    words = str(verdict).lower()
    wrong = "confident" in words or (verdict.found and "predict" not in words)
    return {"misleading words": float(wrong)}


def claim(what: str, rng: np.random.Generator) -> Shown:
    """The gap that the sentence “when it says A” states, or whether its interval holds the truth."""
    confidence = rng.uniform(0.62, 0.95, 300)
    right = rng.random(300) < confidence - 0.06
    facts = evaluate(right, confidence, pairs=True, metrics=["ks"], n_resamples=RESAMPLES, rng=rng).facts
    if what == "interval":
        return {"right": None if facts.claim is None else _hit(facts.claim[0] - 0.06, facts.claim_interval)}
    return {"stated gap in points": None if facts.claim is None else 100 * float(facts.claim[0] - facts.claim[1])}


def detectable(n: int, rng: np.random.Generator) -> Shown:
    """Whether a gap of the size that is said to be detected 4 times in 5 is found."""
    score = rng.uniform(0.15, 0.85, n)
    calm = evaluate(rng.random(n) < score, score, metrics=[], n_resamples=499, rng=rng).verdict
    chance = score + float(rng.choice([-1.0, 1.0])) * float(calm.detectable or 0.0)
    again = evaluate(rng.random(n) < chance, score, metrics=[], n_resamples=499, rng=rng).verdict
    return {"found": float(again.found)}


# -- slope, intercept, observed over expected --------------------------------------------------


def _risk(what: str, found: CoxCalibration) -> Shown:
    if what == "rejected":
        tests = {"both": found.test, "slope": found.slope_test, "in the large": found.in_the_large_test}
        return {name: None if math.isnan(one.pvalue) else float(one.pvalue <= 0.05) for name, one in tests.items()}
    ends = {"slope": found.slope, "intercept": found.intercept, "in the large": found.in_the_large, "O/E": found.ratio}
    perfect = {"slope": 1.0, "O/E": 1.0}
    return {name: None if math.isnan(span.low) else _hit(perfect.get(name, 0.0), span) for name, span in ends.items()}


def risk(what: str, mean: float, n: int, rng: np.random.Generator) -> Shown:
    """Slope, intercept and ratio of calibrated risks: whether intervals hold the truth, or tests reject it."""
    chance = expit(mean + 0.9 * rng.standard_normal(n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)
        return _risk(what, cox_calibration(rng.random(n) < chance, chance))


def clustered_risk(what: str, rng: np.random.Generator) -> Shown:
    """The same for rare events in fifty clusters of unequal size that move together."""
    group = np.repeat(np.arange(50), rng.multinomial(2000, rng.dirichlet(np.full(50, 2.0))))
    chance = expit(-3.5 + rng.standard_normal(2000))
    shared = np.sqrt(0.3) * rng.standard_normal(50)[group] + np.sqrt(0.7) * rng.standard_normal(2000)
    return _risk(what, cox_calibration(ndtr(shared) < chance, chance, groups=group))


# -- engines ----------------------------------------------------------------------------------


def engine_cells(engine: str, model: str, what: str, rng: np.random.Generator) -> Shown:
    """Rows that an engine counts: a verdict on calibrated ones, or whether intervals hold the truth."""
    rows, names = data.draw(model, 300, rng), ("ece@class-1", "ks@class-1", "mmce@class-1", "brier", "nll")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pl.DataFrame({"score": rows.forecast, "label": rows.labels(rng).astype(int)}).write_parquet(path)
        found = calibrant.evaluate(
            str(path),
            engine=engine,
            metrics=[] if what == "verdict" else names,
            n_resamples=RESAMPLES,
            rng=int(rng.integers(1 << 31)),
        )
    if what == "verdict":
        return {"found": float(found.verdict.found)}
    return {name: _hit(data.truth(model)[name], found[name].interval) for name in names}


# -- equivalence ------------------------------------------------------------------------------


def gate(rng: np.random.Generator) -> Shown:
    """Whether a limit of 0.02 is called decided where the true error is 0 and 300 rows cannot tell."""
    rows = data.sloped(300, rng, slope=1.0)
    found = evaluate(rows.labels(rng), rows.forecast, metrics=["ks@judged"], n_resamples=RESAMPLES, rng=rng)
    return {"decided": float(decide(found["ks@judged"], 0.02).answer != "undecided")}


def border(model: str, rng: np.random.Generator) -> Shown:
    """Whether a model with exactly the error epsilon is cleared."""
    rows = data.draw(model, 100, rng)
    epsilon = data.truth(model)["ks@class-1"]
    return {
        "cleared": float(equivalence_test(rows.labels(rng), rows.forecast, epsilon=epsilon, rng=rng).pvalue <= 0.05)
    }


# -- what changes from day to day, and what a repair claims -----------------------------------


def repeated_rows(unit: str, rng: np.random.Generator) -> Shown:
    """Whether a monitor of rows that come five times each raises an alarm within thirty days (rate 5%)."""
    gains = []
    for _ in range(30):
        score = np.repeat(rng.uniform(0.5, 1.0, 40), 5)
        right = np.repeat(rng.random(40), 5) < score
        if unit == "row":
            gains.append(log_increments(Summary(pairs=True).update(right, score).tables(TopLabel())[0]))
            continue
        numbers = np.repeat(np.arange(40), 5) if unit == "cluster" else np.zeros(200, dtype=np.int64)
        gains.append(unit_increments(score, right.astype(np.float64), np.ones(200), numbers))
    return {"alarms": float((log_evalue(gains) >= np.log(20)).any())}


def late_break(rng: np.random.Generator) -> Shown:
    """How many days later than on day 1 a break on day 100 is found by the e-detector."""

    def delay(quiet: int) -> float:
        gains = []
        for day in range(quiet + 60):
            score = rng.uniform(0.5, 1.0, 100)
            right = rng.random(100) < score - (0.08 if day >= quiet else 0.0)
            gains.append(log_increments(Summary(pairs=True).update(right, score).tables(TopLabel())[0]))
            if day >= quiet and log_detector(gains)[-1] >= np.log(1000):
                break
        return len(gains) - quiet

    return {"days": delay(99) - delay(0)}


def automatic(gap: bool, n: int, what: str, rng: np.random.Generator) -> Shown:
    """The gain that the automatic method claims less the one it has, or whether it calls a gain proven.

    Two classes whose log-odds are 1.3 times too large, or five sharp ones without any gap.
    """

    def rows(n: int) -> tuple[Floats, Floats]:
        if not gap:
            chance = 0.999 * rng.dirichlet(np.full(5, 0.25), n) + 0.0002
            return chance, chance
        odds = 1.3 * rng.standard_normal(n)
        return tuple(np.stack([1 - p, p], axis=1) for p in (expit(odds), expit(1.3 * odds)))  # type: ignore[return-value]

    chance, before = rows(n)
    drawn = (rng.random(n)[:, None] > np.cumsum(chance, axis=1)[:, :-1]).sum(axis=1)
    fitted = AutoCalibrator(classes=range(chance.shape[1])).fit(before, drawn)
    if what == "proven":
        return {"proven": float(fitted.gain_[0] > 1.96 * fitted.gain_[1])}
    chance, before = rows(20_000)
    truth = float((chance * np.log(fitted.predict_proba(before) / before)).sum() / 20_000)
    return {"claim − truth": fitted.gain_[0] - truth}
