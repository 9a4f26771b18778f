"""Races of the calibrators: temperature, isotonic, Dirichlet and matrix scaling, and applying them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant._typing import Array, Ints
from calibrant_benchmarks.arrays import QUICK, logits, probabilities
from calibrant_benchmarks.frame import Build, Entrant, Goal, Race, floor, load, ours, peer, recipe


def _size(n: int, quick: bool) -> int:
    return max(n // QUICK, 500) if quick else n


def _our_fit(method: str, x: Array, y: Ints, **options: Any) -> Build:
    def build() -> Callable[[], Any]:
        kind = getattr(load("calibrant.calibrators"), method)
        return lambda: kind(**options).fit(x, y)

    return build


def _ours(name: str, build: Build) -> Entrant:
    return Entrant(name, "ours", build)


def _sklearn_temperature(z: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        kind = load("sklearn.calibration")._TemperatureScaling
        return lambda: kind().fit(z, y)

    return build


def _probmetrics(module: str, kind: str, z: Array, y: Ints, **options: Any) -> Build:
    def build() -> Callable[[], Any]:
        torch, found = load("torch"), getattr(load(f"probmetrics.calibrators.{module}"), kind)
        forecast = load("probmetrics.distributions").CategoricalLogits(torch.from_numpy(z))
        labels = torch.from_numpy(y)
        return lambda: found(**options).fit_torch(forecast, labels)

    return build


def _netcal_temperature(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        kind = load("netcal.scaling").TemperatureScaling
        return lambda: kind().fit(p, y)

    return build


def _recipe(z: Array, y: Ints) -> Build:
    """Fit as many repositories do: torch, L-BFGS, learning rate 0.01, fifty steps, start 1.5."""

    def build() -> Callable[[], Any]:
        torch = load("torch")
        scores, labels = torch.from_numpy(z), torch.from_numpy(y)

        def run() -> float:
            temperature = torch.nn.Parameter(torch.ones(1) * 1.5)
            optimizer = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

            def closure() -> Any:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(scores / temperature, labels)
                loss.backward()
                return loss

            optimizer.step(closure)
            return float(temperature.detach())

        return run

    return build


def _temperature(n: int, k: int) -> Callable[[bool], list[Entrant]]:
    def entrants(quick: bool) -> list[Entrant]:
        z, y = logits(_size(n, quick), k)
        few = 2 if n * k > 1_000_000 else None
        rest = [] if few else [peer("netcal TemperatureScaling", _netcal_temperature(probabilities(*z.shape)[0], y), 1)]
        return [
            ours("calibrant TemperatureScaling", _our_fit("TemperatureScaling", z, y, space="logit")()),
            floor("np.exp", lambda: np.exp(z)),
            peer("sklearn temperature", _sklearn_temperature(z, y), few),
            peer(
                "probmetrics TemperatureScalingCalibrator",
                _probmetrics("temperature_scaling", "TemperatureScalingCalibrator", z, y),
                few,
            ),
            peer("torch recipe (L-BFGS, 50 steps)", _recipe(z, y), few),
            *rest,
        ]

    return entrants


def _apply(quick: bool) -> list[Entrant]:
    z, y = logits(_size(25_000, quick), 1000)

    def build() -> Callable[[], Any]:
        fitted = load("calibrant.calibrators").TemperatureScaling(space="logit").fit(z[:2000], y[:2000])
        return lambda: fitted.predict_proba(z)

    def softmax() -> Array:
        shifted = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    def wide() -> Array:
        shifted = z.astype(np.float64)
        shifted -= shifted.max(axis=1, keepdims=True)
        np.exp(shifted, out=shifted)
        shifted /= shifted.sum(axis=1, keepdims=True)
        return shifted

    return [
        _ours("calibrant predict_proba", build),
        floor("plain softmax (its own precision)", softmax),
        floor("plain softmax in float64, in place", wide),
    ]


def _flat_isotonic(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        kind = load("sklearn.isotonic").IsotonicRegression

        def run() -> Any:
            target = np.zeros(p.shape, dtype=p.dtype)
            target[np.arange(len(y)), y] = 1
            return kind(out_of_bounds="clip").fit(p.ravel(), target.ravel())

        return run

    return build


def _isotonic_multiclass(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(25_000, quick), 1000)
    return [
        _ours("calibrant IsotonicMulticlass", _our_fit("IsotonicMulticlass", p, y)),
        floor("np.sort of all values", lambda: np.sort(p, axis=None), 2),
        peer("sklearn isotonic on the flattened pairs", _flat_isotonic(p, y), 1),
    ]


def _isotonic_classes(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(5_000, quick), 100)

    def build() -> Callable[[], Any]:
        kind = load("sklearn.isotonic").IsotonicRegression
        return lambda: [kind(out_of_bounds="clip").fit(p[:, k], y == k) for k in range(p.shape[1])]

    return [
        _ours("calibrant IsotonicOneVsRest", _our_fit("IsotonicOneVsRest", p, y)),
        floor("np.sort of every column", lambda: np.sort(p, axis=0)),
        peer("sklearn isotonic, class by class", build),
    ]


def _matrix(method: str) -> Callable[[bool], list[Entrant]]:
    def entrants(quick: bool) -> list[Entrant]:
        z, y = logits(_size(5_000, quick), 100)
        p = probabilities(*z.shape)[0]
        x, space = (p, "proba") if method == "DirichletCalibration" else (z, "logit")
        return [
            _ours(f"calibrant {method}, one fit", _our_fit(method, x, y, space=space, odir=(0.01, 0.01))),
            peer("probmetrics SMS", _probmetrics("logistic", "SMSCalibrator", z, y), 2),
        ]

    return entrants


def _structured(quick: bool) -> list[Entrant]:
    z, y = logits(_size(5_000, quick), 100)
    return [
        ours("calibrant StructuredMatrixScaling", _our_fit("StructuredMatrixScaling", z, y, space="logit")()),
        peer("probmetrics SMS", _probmetrics("logistic", "SMSCalibrator", z, y), 3),
    ]


def _auto(n_classes: int, fast: bool) -> Callable[[bool], list[Entrant]]:
    def entrants(quick: bool) -> list[Entrant]:
        z, y = logits(_size(5_000, quick), n_classes)
        whole = _our_fit("AutoCalibrator", z, y, space="logit")
        if not fast:
            return [_ours("calibrant AutoCalibrator", whole)]
        return [
            _ours("calibrant AutoCalibrator, fast", _our_fit("AutoCalibrator", z, y, space="logit", fast=True)),
            recipe("whole comparison", whole, 2),
        ]

    return entrants


def _dirichlet_cv(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(5_000, quick), 10)
    fit = _our_fit("DirichletCalibration", p, y, odir="cv")
    return [_ours("calibrant DirichletCalibration, penalty by CV", fit)]


RACES = (
    Race(
        "temperature-wide",
        "temperature fit, 25,000 × 1000 float32",
        _temperature(25_000, 1000),
        (Goal("faster", 12), Goal("memory", 200)),
    ),
    Race(
        "temperature-small",
        "temperature fit, 5,000 × 10",
        _temperature(5_000, 10),
        (Goal("faster", 1),),
    ),
    Race(
        "apply-temperature",
        "predict_proba of temperature, 25,000 × 1000",
        _apply,
        (Goal("within", 2, "plain softmax"),),
    ),
    Race(
        "isotonic-multiclass",
        "IsotonicMulticlass, 25,000 × 1000",
        _isotonic_multiclass,
        (Goal("faster", 5), Goal("memory", 2000)),
    ),
    Race("isotonic-classes", "IsotonicOneVsRest, 5,000 × 100", _isotonic_classes, (Goal("faster", 4),)),
    Race("matrix", "MatrixScaling, 5,000 × 100", _matrix("MatrixScaling"), (Goal("faster", 0.6),)),
    Race(
        "dirichlet",
        "DirichletCalibration, 5,000 × 100",
        _matrix("DirichletCalibration"),
        (Goal("faster", 0.6),),
    ),
    Race(
        "structured",
        "StructuredMatrixScaling, 5,000 × 100",
        _structured,
        (Goal("faster", 0.6),),
    ),
    Race("auto-small", "AutoCalibrator, 5,000 × 10", _auto(10, fast=False), (Goal("seconds", 1),)),
    Race("auto-wide", "AutoCalibrator, 5,000 × 100", _auto(100, fast=False), (Goal("seconds", 5),)),
    Race(
        "fast-auto-small",
        "AutoCalibrator(fast=True), 5,000 × 10",
        _auto(10, fast=True),
        (Goal("faster", 10, "whole comparison"),),
    ),
    Race(
        "fast-auto-wide",
        "AutoCalibrator(fast=True), 5,000 × 100",
        _auto(100, fast=True),
        (Goal("faster", 10, "whole comparison"),),
    ),
    Race("dirichlet-cv", "Dirichlet-ODIR with CV, 5,000 × 10", _dirichlet_cv, (Goal("seconds", 5),)),
)
