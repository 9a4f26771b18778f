"""Gruber & Buettner (2022), figures 1, 3, 5, 6 and 7: errors and improvements against the size of the test set.

The papers' WideResNet logits are not public; ResNet-110 on CIFAR-10 is theirs, the other sets are ours. The order
preserving map (DIAG) is ours as well: the published one is a neural network.

References
----------
[1] Gruber & Buettner (2022), "Better Uncertainty Calibration via Proper Scores for Classification and Beyond", NeurIPS,
    section 5, appendix G.3 and G.4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from calibrant._typing import RNG
from calibrant.studies.arrays import log_sizes
from calibrant.studies.frame import StudyResult
from calibrant.studies.learning_curves import make_method
from calibrant.studies.sample_size import GRUBER, sample_size
from calibrant.studies.targets.result import Finding, Line, TargetResult
from calibrant.studies.targets.sources import split_of

__all__ = ["TARGETS", "study"]

MAIN = "cifar10_resnet110"
MODELS = (MAIN, "cifar10_resnet50_focal", "mmlu_llama31_8b_instruct", "cifar100_wrn16_4", "cifar10_lenet5")
METHODS = {"TS": "ts-nll", "ETS": "ets", "DIAG": "diag"}
#: Estimators whose bias at small n is the paper's point.
BIASED = ("ECE", "TCE₂ 100 bins", "CWCE₂ 15 bins", "CWCE₂ 100 bins", "KDE TCE₂")
QUICK_SIZES = (100, 464, 2154)
QUICK_NOTE = "quick: four sizes and at most 100 draws each instead of ten and 10 000"
NOTE = (
    "Squares are means over draws of the squared estimate; the published program ran twice, hence 20 000 draws there."
)


@lru_cache(maxsize=32)
def study(data: Path | None, model: str, method: str, quick: bool) -> StudyResult:
    """Run the protocol of [1] for one model and one map fitted on all calibration rows."""
    split = split_of(data, model)
    fitted = make_method(METHODS[method], split.cal.space).fit(split.cal.scores, split.cal.labels)
    after = fitted.predict_proba(split.test.scores)
    n = len(split.test.labels)
    sizes = (*QUICK_SIZES, n) if quick else log_sizes(n)
    return sample_size(
        split.test.labels,
        split.test.scores,
        after,
        space=split.test.space,
        sizes=sizes,
        repeats=100 if quick else 10_000,
    )


def _column(result: StudyResult, measure: str, key: str) -> list[float]:
    return [row[key] for row in result.rows if row["measure"] == measure]


def _panel(result: StudyResult, key: str) -> dict[str, list[float]]:
    return {
        "n": [float(v) for v in _column(result, "RBS", "n")],
        **{name: _column(result, name, key) for name in GRUBER},
    }


def _slope(result: StudyResult, measure: str, key: str) -> float:
    """Least-squares slope of the value, relative to that of the whole set, per factor of ten rows."""
    values = np.array(_column(result, measure, key))
    return float(np.polyfit(np.log10(_column(result, measure, "n")), values / abs(values[-1]), 1)[0])


def _improvement(name: str, models: tuple[str, ...], quick: bool, data: Path | None) -> TargetResult:
    lines, findings, curves = [], [], {}
    for model in models:
        for method in METHODS:
            result = study(data, model, method, quick)
            slopes = {measure: _slope(result, measure, "change") for measure in GRUBER}
            curves[f"{model}, {method}"] = _panel(result, "change")
            lines += [
                Line(f"{model}, {method}: slope of {measure}", slope, note="relative change per factor 10 in n")
                for measure, slope in slopes.items()
            ]
            if model != MAIN:
                continue
            others = [abs(slopes[measure]) for measure in BIASED]
            findings += [
                Finding(f"{method}: the improvement by RBS is flat (slope below 0.15)", abs(slopes["RBS"]) < 0.15),
                Finding(
                    f"{method}: ECE, TCE, CWCE and KDE are not: their largest slope is at least 5 times as steep",
                    max(others) > 5 * abs(slopes["RBS"]),
                ),
                Finding(
                    f"{method}: class-wise errors with 100 bins even say that the repair does harm at n = 100",
                    _column(result, "CWCE₂ 100 bins", "change")[0] < 0 < _column(result, "RBS", "change")[0],
                ),
            ]
    notes = (NOTE, *((QUICK_NOTE,) if quick else ()))
    title = "improvement by TS, ETS and DIAG against the size of the test set"
    return TargetResult(name, "P", title, tuple(lines), tuple(findings), curves, notes, quick)


def figure_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Improvement against test size, CIFAR-10 ResNet-110."""
    del rng
    return _improvement("gruber-fig-1", (MAIN,), quick, data)


def figure_6(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Improvement against test size, all models."""
    del rng
    return _improvement("gruber-fig-6", (MAIN, MODELS[2]) if quick else MODELS, quick, data)


def _errors(name: str, models: tuple[str, ...], quick: bool, data: Path | None, *, average: bool) -> TargetResult:
    found = {model: study(data, model, "TS", quick) for model in models}
    curves = {f"{model}: error": _panel(result, "mean") for model, result in found.items()}
    if average:
        first = _panel(next(iter(found.values())), "relative")
        for measure in GRUBER:
            first[measure] = np.mean([_column(r, measure, "relative") for r in found.values()], axis=0).tolist()
        curves["relative to the whole set, mean over models"] = first
    lines = [
        Line(f"{model}: {measure}, mean at n = 100 over value at full size", _column(result, measure, "relative")[0])
        for model, result in found.items()
        for measure in GRUBER
    ]
    worst = max(abs(_column(result, "RBS", "relative")[0] - 1) for result in found.values())
    high = min(
        _column(result, m, "relative")[0] for result in found.values() for m in ("CWCE₂ 100 bins", "TCE₂ 100 bins")
    )
    lowest = max(
        max(_column(result, m, "mean")[-1] for m in GRUBER if m != "RBS") - _column(result, "RBS", "mean")[-1]
        for result in found.values()
    )
    findings = (
        Finding("RBS at n = 100 is within 5 % of its value at full size, for every model", worst < 0.05),
        Finding("TCE₂ and CWCE₂ with 100 bins at n = 100 are at least 1.3 times too large", high > 1.3),
        Finding("RBS is above every other error (an upper bound)", lowest < 0),
    )
    notes = (NOTE, *((QUICK_NOTE,) if quick else ()))
    title = "errors against the size of the test set"
    return TargetResult(name, "P", title, tuple(lines), findings, curves, notes, quick)


def figure_3(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Errors and relative change against test size."""
    del rng
    return _errors("gruber-fig-3", (MAIN, MODELS[2]) if quick else MODELS, quick, data, average=True)


def figure_5(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Errors against test size, one panel per model."""
    del rng
    return _errors("gruber-fig-5", (MAIN, MODELS[2]) if quick else MODELS, quick, data, average=False)


def figure_7(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Squared errors and improvements in squared space: the Brier score is unbiased."""
    del rng
    models = (MAIN,) if quick else MODELS
    lines, curves, squares, changes, others = [], {}, [], [], []
    for model in models:
        result = study(data, model, "TS", quick)
        curves[f"{model}: squared error"] = _panel(result, "mean_square")
        curves[f"{model}: improvement in squared space"] = _panel(result, "square_change")
        for measure in GRUBER:
            name = "Brier score" if measure == "RBS" else f"{measure} squared"
            lines += [
                Line(f"{model}: {name}, relative at n = 100", _column(result, measure, "relative_square")[0]),
                Line(
                    f"{model}: improvement by {name}, relative at n = 100",
                    _column(result, measure, "relative_square_change")[0],
                ),
            ]
        first = {row["measure"]: row for row in result.rows if row["n"] == min(r["n"] for r in result.rows)}
        row, whole = first["RBS"], result.rows[-len(GRUBER)]
        error = np.sqrt(max(_square_variance(result), 0.0) / row["repeats"])
        squares.append(abs(row["mean_square"] - whole["mean_square"]) <= 4 * error + 1e-12)
        changes.append(abs(row["relative_square_change"] - 1) < (0.35 if quick else 0.05))
        others.append(max(abs(first[m]["relative_square"] - 1) for m in BIASED) > 0.5)
    findings = (
        Finding("the mean Brier score at n = 100 is that of the whole set (within four standard errors)", all(squares)),
        Finding(f"its improvement too (within {35 if quick else 5} %)", all(changes)),
        Finding("squared ECE, TCE, CWCE and KDE are off by more than half", all(others)),
    )
    notes = (NOTE, *((QUICK_NOTE,) if quick else ()))
    title = "squared errors and improvements against the size of the test set"
    return TargetResult("gruber-fig-7", "P", title, tuple(lines), findings, curves, notes, quick)


def _square_variance(result: StudyResult) -> float:
    """Variance over draws of the Brier score at the smallest size, from mean and spread of its root (delta rule)."""
    row = next(row for row in result.rows if row["measure"] == "RBS")
    return float((2 * row["mean"] * row["std"]) ** 2)


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "gruber-fig-1": figure_1,
    "gruber-fig-3": figure_3,
    "gruber-fig-5": figure_5,
    "gruber-fig-6": figure_6,
    "gruber-fig-7": figure_7,
}
