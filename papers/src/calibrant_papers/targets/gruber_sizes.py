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

from calibrant._typing import RNG, Floats
from calibrant.core.inputs import check_forecast
from calibrant_papers.studies.arrays import build, log_sizes
from calibrant_papers.studies.frame import StudyResult
from calibrant_papers.studies.learning_curves import make_method
from calibrant_papers.studies.sample_size import GRUBER, sample_size
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult
from calibrant_papers.targets.sources import split_of

__all__ = ["TARGETS", "study"]

MAIN = "cifar10_resnet110"
MODELS = (MAIN, "cifar10_resnet50_focal", "mmlu_llama31_8b_instruct", "cifar100_wrn16_4", "cifar10_lenet5")
METHODS = {"TS": "ts-nll", "ETS": "ets", "DIAG": "diag"}
#: Estimators whose bias at small n is the paper's point.
BIASED = ("ECE", "TCE₂ 100 bins", "CWCE₂ 15 bins", "CWCE₂ 100 bins", "KDE TCE₂")
QUICK_SIZES = (100, 464, 2154)
#: Draws of the smallest size for each seed, quick and full.
DRAWS = (40, 100)
SEEDS = range(MIN_SEEDS)
CANONICAL = "ce-kde:norm=2"
NOTE = (
    "Squares are means over draws of the squared estimate. The published program draws the smallest size 20,000 times; "
    "each seed here draws it fewer times (larger sizes fewer still, as published), and every claim is judged by seed."
)


def _size(quick: bool) -> str:
    sizes, draws = ("four", DRAWS[0]) if quick else ("ten", DRAWS[1])
    return f"100 … all test rows; {sizes} sizes, {MIN_SEEDS} × {draws} draws of the smallest"


@lru_cache(maxsize=16)
def _after(data: Path | None, model: str, method: str) -> Floats:
    """Return the test rows after a map fitted on all calibration rows."""
    split = split_of(data, model)
    fitted = make_method(METHODS[method], split.cal.space).fit(split.cal.scores, split.cal.labels)
    return fitted.predict_proba(split.test.scores)


@lru_cache(maxsize=16)
def study(data: Path | None, model: str, method: str, quick: bool) -> list[StudyResult]:
    """Run the protocol of [1] for one model and one map, once for every seed."""
    test = split_of(data, model).test
    n = len(test.labels)
    return [
        sample_size(
            test.labels,
            test.scores,
            _after(data, model, method),
            space=test.space,
            sizes=(*QUICK_SIZES, n) if quick else log_sizes(n),
            repeats=DRAWS[not quick],
            seed=seed,
        )
        for seed in SEEDS
    ]


def _column(result: StudyResult, measure: str, key: str) -> list[float]:
    return [row[key] for row in result.rows if row["measure"] == measure]


def _mean(results: list[StudyResult], measure: str, key: str) -> list[float]:
    """Return a column, mean over seeds."""
    found: list[float] = np.mean([_column(result, measure, key) for result in results], axis=0).tolist()
    return found


def _panel(results: list[StudyResult], key: str) -> dict[str, list[float]]:
    return {
        "n": [float(v) for v in _column(results[0], "RBS", "n")],
        **{name: _mean(results, name, key) for name in GRUBER},
    }


def _slope(result: StudyResult, measure: str, key: str) -> float:
    """Least-squares slope of the value, relative to that of the whole set, per factor of ten rows."""
    values = np.array(_column(result, measure, key))
    return float(np.polyfit(np.log10(_column(result, measure, "n")), values / abs(values[-1]), 1)[0])


def _improvement(name: str, models: tuple[str, ...], quick: bool, data: Path | None) -> TargetResult:
    lines, findings, curves = [], [], {}
    for model in models:
        for method in METHODS:
            results = study(data, model, method, quick)
            slopes = {m: [_slope(result, m, "change") for result in results] for m in GRUBER}
            curves[f"{model}, {method}"] = _panel(results, "change")
            lines += [
                Line(f"{model}, {method}: slope of {m}", float(np.mean(v)), note="relative change per factor 10 in n")
                for m, v in slopes.items()
            ]
            if model != MAIN:
                continue
            flat = np.abs(slopes["RBS"])
            steep = np.abs([slopes[m] for m in BIASED]).max(axis=0)
            first = {m: [_column(r, m, "change")[0] for r in results] for m in ("RBS", "CWCE₂ 100 bins")}
            findings += [
                Finding.over(
                    f"{method}: the improvement by RBS is flat (slope below 0.15)",
                    flat < 0.15,
                    measured=f"largest slope {flat.max():.2g}",
                    reason="few draws of 100 rows are noisy",
                    novelty="RBS",
                ),
                Finding.over(
                    f"{method}: ECE, TCE, CWCE and KDE are not: their largest slope is at least 5 times as steep",
                    steep > 5 * flat,
                    measured=f"{steep.mean():.2g} against {flat.mean():.2g}",
                    reason="few draws of 100 rows are noisy",
                    novelty="biased estimators",
                ),
                Finding.over(
                    f"{method}: class-wise errors with 100 bins even say that the repair does harm at n = 100",
                    [a < 0 < b for a, b in zip(first["CWCE₂ 100 bins"], first["RBS"], strict=True)],
                    measured=f"CWCE₂ {np.mean(first['CWCE₂ 100 bins']):.2g}",
                    reason="the repair is larger than the noise of 100 rows",
                    novelty="biased estimators",
                ),
            ]
    title = "improvement by TS, ETS and DIAG against the size of the test set"
    return TargetResult(
        name, "P", title, tuple(lines), tuple(findings), curves, (NOTE,), quick, ", ".join(models), _size(quick)
    )


def figure_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Improvement against test size, CIFAR-10 ResNet-110."""
    del rng
    return _improvement("gruber-fig-1", (MAIN,), quick, data)


def figure_6(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Improvement against test size, all models."""
    del rng
    return _improvement("gruber-fig-6", (MAIN, MODELS[2]) if quick else MODELS, quick, data)


@lru_cache(maxsize=2)
def canonical(data: Path | None, quick: bool) -> tuple[tuple[int, ...], Floats]:
    """KDE CE₂ (bandwidth by leave-one-out likelihood) on subsamples: sizes, and means by seed and size."""
    test, recipe = split_of(data, MAIN).test, build(CANONICAL)
    sizes, draws = ((100, 464), 4) if quick else ((100, 278, 774, 2154), 6)
    means = np.empty((MIN_SEEDS, len(sizes)))
    for seed in range(MIN_SEEDS):
        generator = np.random.default_rng(seed)
        for j, size in enumerate(sizes):
            values = []
            for _ in range(draws):
                rows = test.take(generator.permutation(len(test.labels))[:size])
                values.append(
                    recipe.value(check_forecast(rows.labels, rows.scores, caller="reproduce", space=rows.space))
                )
            means[seed, j] = np.mean(values)
    return sizes, means


def _canonical_claim(data: Path | None, quick: bool) -> tuple[dict[str, list[float]], Finding]:
    """The panel of KDE CE₂ and the claim that it depends on the size of the test set."""
    sizes, means = canonical(data, quick)
    panel = {"n": [float(n) for n in sizes], "KDE CE₂": means.mean(axis=0).tolist()}
    ratio = means[:, 0] / means[:, -1]
    claim = Finding.over(
        "KDE CE₂ depends on the size of the test set too: at n = 100 it is more than 10% off",
        np.abs(ratio - 1) > 0.1,
        measured=f"{ratio.mean():.2f} times its value at n = {sizes[-1]:,}",
        reason="few draws: it is costly, O(n²)",
        novelty="KDE CE₂",
    )
    return panel, claim


def _errors(name: str, models: tuple[str, ...], quick: bool, data: Path | None, *, average: bool) -> TargetResult:
    found = {model: study(data, model, "TS", quick) for model in models}
    curves = {f"{model}: error": _panel(results, "mean") for model, results in found.items()}
    if average:
        first = _panel(next(iter(found.values())), "relative")
        for m in GRUBER:
            first[m] = np.mean([_mean(results, m, "relative") for results in found.values()], axis=0).tolist()
        curves["relative to the whole set, mean over models"] = first
    lines = [
        Line(f"{model}: {m}, mean at n = 100 over value at full size", _mean(results, m, "relative")[0])
        for model, results in found.items()
        for m in GRUBER
    ]

    def start(results: list[StudyResult], m: str) -> Floats:
        return np.array([_column(result, m, "relative")[0] for result in results])

    worst = np.max([np.abs(start(results, "RBS") - 1) for results in found.values()], axis=0)
    high = np.min([start(r, m) for r in found.values() for m in ("CWCE₂ 100 bins", "TCE₂ 100 bins")], axis=0)
    lowest = np.min(
        [
            [min(_column(r, "RBS", "mean")[i] - _column(r, m, "mean")[i] for i in (0, -1)) for r in results]
            for results in found.values()
            for m in GRUBER
            if m != "RBS"
        ],
        axis=0,
    )
    findings = (
        Finding.over(
            "RBS at n = 100 is within 5% of its value at full size, for every model",
            worst < 0.05,
            measured=f"{100 * worst.max():.2g}% off at worst",
            reason="few draws of 100 rows are noisy",
            novelty="RBS",
        ),
        Finding.over(
            "TCE₂ and CWCE₂ with 100 bins at n = 100 are at least 1.3 times too large",
            high > 1.3,
            measured=f"{high.min():.2g} times",
            reason="an error far above the noise of 100 rows hides it",
            novelty="biased estimators",
        ),
        Finding.over(
            "RBS is above every other error (an upper bound), at n = 100 and at full size",
            lowest > 0,
            measured=f"smallest difference {lowest.min():.2g}",
            reason="estimators are biased upwards",
            novelty="RBS",
        ),
    )
    curves[f"{MAIN}: KDE CE₂"], claim = _canonical_claim(data, quick)
    title = "errors against the size of the test set"
    return TargetResult(
        name, "P", title, tuple(lines), (*findings, claim), curves, (NOTE,), quick, ", ".join(models), _size(quick)
    )


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
    lines, curves = [], {}
    scores, changes, others = (np.empty((len(models), MIN_SEEDS)) for _ in range(3))
    for i, model in enumerate(models):
        results = study(data, model, "TS", quick)
        curves[f"{model}: squared error"] = _panel(results, "mean_square")
        curves[f"{model}: improvement in squared space"] = _panel(results, "square_change")
        for m in GRUBER:
            name = "Brier score" if m == "RBS" else f"{m} squared"
            lines += [
                Line(f"{model}: {name}, relative at n = 100", _mean(results, m, "relative_square")[0]),
                Line(
                    f"{model}: improvement by {name}, relative at n = 100",
                    _mean(results, m, "relative_square_change")[0],
                ),
            ]
        for seed, result in enumerate(results):
            scores[i, seed] = _off(result, "mean_square", "square_std")
            changes[i, seed] = _off(result, "square_change", "square_change_std")
            others[i, seed] = max(abs(_column(result, m, "relative_square")[0] - 1) for m in BIASED)
    score, change, other = scores.max(axis=0), changes.max(axis=0), others.min(axis=0)
    findings = (
        Finding.over(
            "the mean Brier score at n = 100 is that of the whole set (within four standard errors)",
            score <= 4,
            measured=f"{score.max():.1f} standard errors off at worst",
            reason="it is biased",
            novelty="RBS",
        ),
        Finding.over(
            "its improvement too (within four standard errors)",
            change <= 4,
            measured=f"{change.max():.1f} standard errors off at worst",
            reason="it is biased",
            novelty="RBS",
        ),
        Finding.over(
            "squared ECE, TCE, CWCE and KDE are off by more than half",
            other > 0.5,
            measured=f"at least {100 * other.min():.0f}% off",
            reason="an error far above the noise of 100 rows hides it",
            novelty="biased estimators",
        ),
    )
    title = "squared errors and improvements against the size of the test set"
    return TargetResult(
        "gruber-fig-7", "P", title, tuple(lines), findings, curves, (NOTE,), quick, ", ".join(models), _size(quick)
    )


def _off(result: StudyResult, key: str, spread: str) -> float:
    """Return how many standard errors the mean of RBS at the smallest size is from its value of the whole set."""
    values, count = _column(result, "RBS", key), _column(result, "RBS", "repeats")[0]
    return float(abs(values[0] - values[-1]) / max(_column(result, "RBS", spread)[0] / np.sqrt(count), 1e-12))


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "gruber-fig-1": figure_1,
    "gruber-fig-3": figure_3,
    "gruber-fig-5": figure_5,
    "gruber-fig-6": figure_6,
    "gruber-fig-7": figure_7,
}
