"""How sure a number is: intervals, tests, noise, decompositions, with weights and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant import inference, regression, scores
from calibrant.calibrators import TemperatureScaling
from frozen.case import Case
from frozen.fixed import Rows, answer, class_rows, mean_rows

#: Resamples behind every drawn number.
B = 99
#: Metrics whose draws are dear: asked of the plain rows alone.
DEAR = ("ce-kde", "kde", "skce", "smece", "sweep")


def setups() -> dict[str, tuple[Rows, dict[str, Any]]]:
    """Return rows with options by name."""
    rows, two = class_rows(150, 3), class_rows(150, 2, seed=3)
    good = class_rows(150, 3, seed=8, temperature=1.0)
    return {
        "plain": (rows, {}),
        "counts": (rows, {"sample_weight": rows.counts}),
        "shares": (rows, {"sample_weight": rows.shares}),
        "groups": (rows, {"groups": rows.groups}),
        "two": (two, {}),
        "two-counts-groups": (two, {"sample_weight": two.counts, "groups": two.groups}),
        "better": (good, {}),
    }


def drawn(name: str, run: Callable[[Path, int], Any]) -> Case:
    return Case(f"inference/{name}", run, draws=B)


def cases() -> Iterator[Case]:
    """Yield intervals, tests, numbers of noise, Cox, proper scores, and the same of regression."""
    for name in calibrant.list_metrics("classes"):
        yield drawn(f"interval/{name}", partial(interval, name))
    yield drawn("interval/methods", interval_methods)
    for method in ("ks", "joint", "resampling", "spiegelhalter", "hosmer-lemeshow", "skce", "none"):
        yield drawn(f"test/{method}", partial(tested, method))
    yield drawn("test/views", views)
    yield drawn("test/metrics", test_metrics)
    for setup in setups():
        yield drawn(f"equivalence/{setup}", partial(equivalence, setup))
        yield drawn(f"classwise/{setup}", partial(classwise, setup))
        yield drawn(f"sliced/{setup}", partial(sliced, setup))
        yield drawn(f"nulls/{setup}", partial(nulls, setup))
        yield Case(f"inference/cox/{setup}", partial(cox, setup))
        yield Case(f"inference/noise/{setup}", partial(noise, setup))
        yield Case(f"inference/scores/{setup}", partial(score_parts, setup), tolerance=1e-7)
        yield Case(f"inference/improvement/{setup}", partial(improved, setup))
    yield Case("inference/holm", holm)
    yield Case("inference/rules", rules)
    for name in calibrant.list_metrics("regression"):
        yield drawn(f"regression/interval/{name}", partial(regression_interval, name))
    for setup in ("plain", "counts", "shares", "groups"):
        yield drawn(f"regression/evaluate/{setup}", partial(regression_nulls, setup))
        yield drawn(f"regression/compare/{setup}", partial(regression_compare, setup))
    yield drawn("regression/tests", regression_tests)
    yield Case("inference/regression/scores", regression_scores, tolerance=1e-7)


def interval(name: str, folder: Path, seed: int) -> Any:
    """Return the interval that `method="auto"` gives for all rows, and at two levels."""
    found = {
        setup: answer(calibrant.interval, name, rows.y, rows.p, n_resamples=B, rng=seed, **options)
        for setup, (rows, options) in setups().items()
        if setup == "plain" or name not in DEAR
    }
    if name in DEAR:
        return found
    rows, _ = setups()["plain"]
    found["80%"] = answer(calibrant.interval, name, rows.y, rows.p, level=0.8, n_resamples=B, rng=seed)
    return found


def interval_methods(folder: Path, seed: int) -> Any:
    """Return intervals of some metrics by named methods."""
    rows = class_rows(120, 3)
    return {
        f"{name}, {method}": answer(calibrant.interval, name, rows.y, rows.p, method=method, n_resamples=B, rng=seed)
        for method in ("normal", "hall", "bca", "percentile", "gaussian", "wilson", "none")
        for name in ("accuracy", "brier", "rbs", "ks", "ece", "cwce", "skce", "ks@class-1")
    }


def tested(method: str, folder: Path, seed: int) -> Any:
    """Return one test of calibration."""
    return {
        setup: answer(calibrant.test_calibration, rows.y, rows.p, method=method, n_resamples=B, rng=seed, **options)
        for setup, (rows, options) in setups().items()
    }


def views(folder: Path, seed: int) -> Any:
    """Return tests through views."""
    rows = class_rows(150, 3)
    found: dict[str, Any] = {}
    for view in ("top-1", "rank-2", "within-2", "class-0", "classwise", "pooled", "entropy"):
        for method in ("ks", "joint", "resampling"):
            found[f"{method}, {view}"] = answer(
                calibrant.test_calibration, rows.y, rows.p, method=method, view=view, n_resamples=B, rng=seed
            )
        found[f"spiegelhalter, {view}"] = answer(inference.spiegelhalter_test, rows.y, rows.p, view=view, rng=seed)
        found[f"hosmer-lemeshow, {view}"] = answer(
            inference.hosmer_lemeshow_test, rows.y, rows.p, view=view, n_groups=6, n_resamples=B, rng=seed
        )
    return found


def test_metrics(folder: Path, seed: int) -> Any:
    """Return resampling tests of every metric."""
    rows = class_rows(60, 3)
    return {
        name: answer(
            calibrant.test_calibration, rows.y, rows.p, method="resampling", metric=name, n_resamples=B, rng=seed
        )
        for name in calibrant.list_metrics("classes")
        if name not in DEAR
    }


def equivalence(setup: str, folder: Path, seed: int) -> Any:
    """Return tests that clear a model."""
    rows, options = setups()[setup]
    return {
        f"{error} < {epsilon}": answer(
            inference.equivalence_test, rows.y, rows.p, epsilon=epsilon, error=error, rng=seed, **options
        )
        for error, epsilon in (("ks", 0.2), ("ks@top-1", 0.3), ("brier", 0.9), ("mce", 0.3))
    }


def classwise(setup: str, folder: Path, seed: int) -> Any:
    """Return the corrected test of every class."""
    rows, options = setups()[setup]
    options = {key: value for key, value in options.items() if key != "groups"}
    return answer(inference.classwise_tests, rows.y, rows.p, n_resamples=B, rng=seed, **options)


def sliced(setup: str, folder: Path, seed: int) -> Any:
    """Return the corrected test of every slice."""
    rows, options = setups()[setup]
    by = np.array(["north", "south", "west"])[np.arange(len(rows.y)) % 3]
    return answer(inference.sliced_tests, rows.y, rows.p, by, n_resamples=B, rng=seed, **options)


def nulls(setup: str, folder: Path, seed: int) -> Any:
    """Return what a calibrated model would show, metric by metric, with p-value and interval."""
    rows, options = setups()[setup]
    names = [name for name in calibrant.list_metrics("classes") if setup == "plain" or name not in DEAR]
    found = calibrant.evaluate(rows.y, rows.p, metrics=names, n_resamples=B, rng=seed, **options)
    return answer(lambda: {one.name: one for one in found})


def cox(setup: str, folder: Path, seed: int) -> Any:
    """Return slope, intercept, calibration in the large and ratio."""
    rows, options = setups()[setup]
    return {
        view: answer(inference.cox_calibration, rows.y, rows.p, view=view, **options)
        for view in ("class-1", "top-1", "class-0", "classwise")
    }


def noise(setup: str, folder: Path, seed: int) -> Any:
    """Return how much of an ECE is noise, and the rows that resolve an error."""
    rows, options = setups()[setup]
    weight = {key: value for key, value in options.items() if key == "sample_weight"}
    return {
        "bias": answer(inference.ece_bias, rows.y, rows.p, **weight),
        "bias, 5 bins": answer(inference.ece_bias, rows.y, rows.p, n_bins=5, **weight),
        "expected": answer(inference.expected_ece, [100, 1000, 10_000], rows.y, rows.p),
        "expected, calibrated": answer(inference.expected_ece, 500, rows.y, rows.p, calibrated=True),
        "rows": answer(inference.required_sample_size, 0.02, rows.y, rows.p),
        "rows, 10 bins": answer(inference.required_sample_size, 0.05, rows.y, rows.p, n_bins=10),
        "refused": answer(inference.required_sample_size, 0.0, rows.y, rows.p),
    }


def score_parts(setup: str, folder: Path, seed: int) -> Any:
    """Return mean scores, bounds, proper calibration errors and decompositions."""
    rows, options = setups()[setup]
    weight = {key: value for key, value in options.items() if key == "sample_weight"}
    found: dict[str, Any] = {}
    for score in ("brier", "nll", "spherical", "rps"):
        given = {"score": score, **weight}
        found[score] = {
            "mean": answer(scores.mean_score, rows.y, rows.p, **given),
            "bound": answer(scores.upper_bound, rows.y, rows.p, **given),
            "root bound": answer(scores.upper_bound, rows.y, rows.p, root=True, **given),
            "error": answer(scores.calibration_error, rows.y, rows.p, **given),
            "canonical": answer(scores.decomposition, rows.y, rows.p, recalibrator="plug-in", **given),
            "top-1": answer(scores.decomposition, rows.y, rows.p, view="top-1", **given),
            "class-1": answer(scores.decomposition, rows.y, rows.p, view="class-1", **given),
        }
    if setup in ("plain", "counts"):
        fitted = {"recalibrator": TemperatureScaling(), "rng": 0, **weight}
        found["temperature"] = answer(scores.decomposition, rows.y, rows.p, **fitted)
        found["temperature, error"] = answer(scores.calibration_error, rows.y, rows.p, score="nll", **fitted)
    kernel = scores.KernelScore()
    found["kernel"] = answer(kernel.mean, rows.y, rows.p, **weight)
    found["kernel parts"] = answer(scores.KernelScore("gaussian", 0.5).decomposition, rows.y, rows.p, **weight)
    return found


def improved(setup: str, folder: Path, seed: int) -> Any:
    """Return by how much scores fell from one forecast to another."""
    rows, options = setups()[setup]
    weight = {key: value for key, value in options.items() if key == "sample_weight"}
    after = rows.p**0.7 / (rows.p**0.7).sum(axis=1, keepdims=True)
    found = {
        score: answer(scores.improvement, rows.y, rows.p, after, score=score, **weight)
        for score in ("brier", "nll", "spherical", "rps")
    }
    found["injective"] = answer(scores.improvement, rows.y, rows.p, after, injective=True, **weight)
    found["gain"] = answer(scores.calibration_gain, rows.y, rows.p, after, injective=True, **weight)
    found["gain, unknown"] = answer(scores.calibration_gain, rows.y, rows.p, after, **weight)
    return found


def holm(folder: Path, seed: int) -> Any:
    """Return corrected p-values."""
    return answer(inference.holm, np.array([0.01, 0.04, 0.03, 0.005, 0.9]))


def rules(folder: Path, seed: int) -> Any:
    """Return score, expectation, entropy and divergence of every rule on two forecasts."""
    p, q, y = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]]), np.array([[0.4, 0.4, 0.2], [0.2, 0.1, 0.7]]), [0, 2]
    found: dict[str, Any] = {}
    for name in ("Brier", "Log", "Spherical", "RankedProbability"):
        rule = getattr(scores, name)()
        found[name] = [
            answer(rule.score, p, y), answer(rule.expected_score, p, q), answer(rule.entropy, q),
            answer(rule.divergence, p, q), answer(rule.infimum, 3), rule.name
        ]  # fmt: skip
    law, truth = (np.array([0.0, 1.0]), np.array([1.0, 2.0])), (np.array([0.5, 1.0]), np.array([1.0, 0.5]))
    for name in ("DawidSebastiani", "NormalCRPS"):
        rule = getattr(scores, name)()
        found[name] = [
            answer(rule.score, law, [0.3, -1.0]), answer(rule.expected_score, law, truth), answer(rule.entropy, truth),
            answer(rule.divergence, law, truth), answer(rule.infimum)
        ]  # fmt: skip
    made = scores.ProperScore.from_entropy("square", lambda law: 1 - (law**2).sum(axis=-1))
    found["from entropy"] = [answer(made.score, p, y), answer(made.divergence, p, q)]
    found["unknown"] = answer(scores.as_score, "bier", "here")
    return found


# -- regression ---------------------------------------------------------------------------------------


def moments(setup: str) -> tuple[Any, dict[str, Any]]:
    rows = mean_rows(200)
    return rows, {
        "plain": {},
        "counts": {"sample_weight": rows.counts},
        "shares": {"sample_weight": rows.shares},
        "groups": {"groups": rows.groups},
    }[setup]


def regression_interval(name: str, folder: Path, seed: int) -> Any:
    """Return the intervals of a metric of regression."""
    found = {}
    for setup in ("plain", "counts", "shares", "groups"):
        rows, options = moments(setup)
        found[setup] = answer(
            regression.interval, name, rows.y, rows.mean, rows.variance, n_resamples=B, rng=seed, **options
        )
    return found


def regression_nulls(setup: str, folder: Path, seed: int) -> Any:
    """Return an evaluation of means and variances, metric by metric."""
    rows, options = moments(setup)
    done = regression.evaluate(rows.y, rows.mean, rows.variance, metrics="all", n_resamples=B, rng=seed, **options)
    return answer(lambda: {one.name: one for one in done})


def regression_compare(setup: str, folder: Path, seed: int) -> Any:
    """Return two forecasts compared."""
    rows, options = moments(setup)
    return answer(
        regression.compare,
        rows.y,
        (rows.mean, rows.variance),
        (rows.mean + 0.1, 1.7 * rows.variance),
        n_resamples=B,
        rng=seed,
        **options,
    )


def regression_tests(folder: Path, seed: int) -> Any:
    """Return tests of means and variances."""
    rows, _ = moments("plain")
    forecast = (rows.y, rows.mean, rows.variance)
    return {
        "pit": answer(regression.pit_ks_test, *forecast, rng=seed),
        "pit, counts": answer(regression.pit_ks_test, *forecast, sample_weight=rows.counts, rng=seed),
        "skce": answer(regression.skce_test, *forecast, n_resamples=B, rng=seed),
    }


def regression_scores(folder: Path, seed: int) -> Any:
    """Return bounds, errors and decompositions of scores of means and variances."""
    found: dict[str, Any] = {}
    for setup in ("plain", "counts", "shares"):
        rows, options = moments(setup)
        forecast = (rows.y, rows.mean, rows.variance)
        for score in ("crps", "dss"):
            found[f"{score}, {setup}"] = {
                "bound": answer(regression.upper_bound, *forecast, score=score, **options),
                "error": answer(regression.calibration_error, *forecast, score=score, rng=0, **options),
                "parts": answer(regression.decomposition, *forecast, score=score, rng=0, **options),
            }
    return found
