"""Races of inference: label resampling, bootstrap, SKCE, a full evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant_benchmarks.arrays import QUICK, binary, probabilities
from calibrant_benchmarks.frame import Absent, Build, Entrant, Goal, Race, load, ours, peer, recipe


def _size(n: int, quick: bool) -> int:
    return max(n // QUICK, 200) if quick else n


def _calibrant(call: Callable[[Any], Any], needs: str) -> Build:
    def build() -> Callable[[], Any]:
        package = load("calibrant")
        try:
            getattr(package, needs)
        except AttributeError as error:
            raise Absent(f"calibrant.{needs} is not there") from error
        return lambda: call(package)

    return build


def _resampling(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(10_000, quick), 10)
    few = 100  # enough to make the start of its process pool small

    def build() -> Callable[[], Any]:
        module = load("pycalib.metrics")
        return lambda: module.pECE(y, p.astype(np.float64), samples=few, ece_function=module.conf_ECE)

    def plain() -> list[float]:  # whether the top label is right is a coin with the confidence as its chance
        rng = np.random.default_rng(0)
        score = p.max(axis=1).astype(np.float64)
        bins = np.minimum((score * 15).astype(np.int64), 14)
        claimed = np.bincount(bins, score, 15)
        return [
            float(np.abs(np.bincount(bins, rng.random(len(score)) < score, 15) - claimed).sum() / len(score))
            for _ in range(1000)
        ]

    return [
        ours(
            "calibrant, ECE and its null distribution",
            _calibrant(
                lambda c: c.test_calibration(y, p, method="resampling", metric="ece", n_resamples=1000, rng=0),
                "test_calibration",
            )(),
        ),
        recipe("plain NumPy, draw by draw", lambda: plain),
        peer("pycalib pECE (all cores)", build, 1, few / 1000),
    ]


def _bootstrap(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(100_000, quick), 10)
    few = 2

    def build() -> Callable[[], Any]:
        utils = load("calibration.utils")
        pairs = list(zip(p, y, strict=True))

        def ece(data: Any) -> Any:
            scores, labels = zip(*data, strict=True)
            return utils.get_ece(scores, labels, num_bins=15)

        return lambda: utils.bootstrap_uncertainty(pairs, ece, num_samples=few)

    return [
        Entrant(
            "calibrant interval of ECE, percentile",
            "ours",
            _calibrant(lambda c: c.interval("ece", y, p, method="percentile", n_resamples=1000, rng=0), "interval"),
        ),
        # two more evaluations stand around the loop
        peer("uncertainty-calibration bootstrap_uncertainty", build, 1, (few + 2) / 1002),
    ]


def _skce(n: int) -> Callable[[bool], list[Entrant]]:
    def entrants(quick: bool) -> list[Entrant]:
        p, y = binary(_size(n, quick))

        def build() -> Callable[[], Any]:
            skce = load("probcal.metrics").skce
            few = min(len(y), 10_000)  # more would take the better part of a minute
            return lambda: skce(y[:few], p[:few], bandwidth=0.3)

        return [
            Entrant(
                "calibrant skce, unbiased",
                "ours",
                _calibrant(lambda c: c.metric("skce", y, p, estimator="unbiased", gamma=0.3), "metric"),
            ),
            peer("probcal skce", build, 2, min(1.0, 10_000 / n) ** 2),
        ]

    return entrants


def _vectors(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(20_000, quick), 10)
    wide = p.astype(np.float64)

    def plain() -> float:  # the whole kernel matrix in blocks, nothing checked, each pair twice
        rest = wide.copy()
        rest[np.arange(len(y)), y] -= 1.0
        norms = (wide**2).sum(axis=1)
        total = 0.0
        for start in range(0, len(wide), 1000):
            rows = slice(start, start + 1000)
            square = np.maximum(norms[rows, None] + norms[None, :] - 2 * wide[rows] @ wide.T, 0)
            total += float((np.exp(-np.sqrt(square) / 0.3) * (rest[rows] @ rest.T)).sum())
        return total

    return [
        ours("calibrant skce, unbiased", lambda: skce_of(y, wide)),
        recipe("plain NumPy, in blocks", lambda: plain, 2),
    ]


def skce_of(y: Any, p: Any) -> float:
    """Return the unbiased SKCE with a fixed width."""
    from calibrant import metrics

    return metrics.skce(y, p, estimator="unbiased", gamma=0.3)


def _evaluate(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(10_000, quick), 10)
    return [Entrant("calibrant evaluate with bands", "ours", _calibrant(lambda c: c.evaluate(y, p, rng=0), "evaluate"))]


RACES = (
    Race(
        "resampling",
        "1000 label resamplings of ECE, 10⁴ × 10",
        _resampling,
        (Goal("faster", 100), Goal("faster", 4, "plain NumPy")),
    ),
    Race("bootstrap", "1000 bootstrap replicates of ECE, n = 10⁵", _bootstrap, (Goal("faster", 500),)),
    Race("skce-5000", "unbiased SKCE, n = 5,000", _skce(5_000), (Goal("faster", 2),)),
    Race(
        "skce-20000",
        "unbiased SKCE, n = 20,000",
        _skce(20_000),
        (Goal("faster", 10), Goal("memory", 1000)),
    ),
    Race(
        "skce-vectors",
        "unbiased SKCE, 20,000 × 10",
        _vectors,
        (Goal("within", 1, "plain NumPy"),),
    ),
    Race("evaluate", "full evaluate with bands, 10⁴ × 10", _evaluate, (Goal("seconds", 0.5),)),
)
