"""Races of the metrics: ECE, class-wise ECE, KS, smECE, KDE, MMCE, the whole panel, the import."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibrant import metrics
from calibrant._typing import Array, Ints
from calibrant.core.declare import declared
from calibrant.core.inputs import check_forecast
from calibrant.estimators import Binned
from calibrant_benchmarks.arrays import QUICK, binary, probabilities
from calibrant_benchmarks.frame import Build, Entrant, Goal, Race, Seconds, floor, load, ours, peer, recipe


def _size(n: int, quick: bool) -> int:
    return n // QUICK if quick else n


def read(p: Array) -> int:
    """Read every number once, in the fastest way NumPy has: the bitwise sum of its words."""
    return int(np.bitwise_xor.reduce(p.reshape(-1).view(np.uint64)))


def _torchmetrics(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        torch = load("torch")
        functional = load("torchmetrics.functional.classification")
        scores, labels = torch.from_numpy(p), torch.from_numpy(y)
        if p.ndim == 1:
            return lambda: float(functional.binary_calibration_error(scores, labels, n_bins=15))
        return lambda: float(functional.multiclass_calibration_error(scores, labels, p.shape[1], n_bins=15))

    return build


def _netcal(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        ece = load("netcal.metrics").ECE(15)
        return lambda: ece.metric(p, y)

    return build


def _uncertainty_calibration(p: Array, y: Ints, mode: str) -> Build:
    def build() -> Callable[[], Any]:
        get_ece = load("calibration").get_ece
        return lambda: get_ece(p, y, num_bins=15, mode=mode)

    return build


def _probmetrics(p: Array, y: Ints, metric: str, *arguments: Any) -> Build:
    def build() -> Callable[[], Any]:
        torch, found = load("torch"), getattr(load("probmetrics.metrics"), metric)(*arguments)
        distributions = load("probmetrics.distributions")
        both = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
        forecast = distributions.CategoricalProbs(torch.from_numpy(both))
        truth = distributions.CategoricalDirac(torch.from_numpy(y), both.shape[1])
        return lambda: float(found._compute_mean(truth, forecast))  # its own path, without resampling around it

    return build


def _pycalib(function: str, p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        found = getattr(load("pycalib.metrics"), function)
        return lambda: found(y, p, bins=15)

    return build


def _mapie(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        found = load("mapie.metrics.calibration").expected_calibration_error
        return lambda: found(y, p, num_bins=15)

    return build


def _probcal(function: str, p: Array, y: Ints, **keywords: Any) -> Build:
    def build() -> Callable[[], Any]:
        found = getattr(load("probcal.metrics"), function)
        return lambda: found(y, p, **keywords)

    return build


def _sklearn_curve(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        curve = load("sklearn.calibration").calibration_curve
        return lambda: curve(y, p, n_bins=15)

    return build


def _relplot(function: str, p: Array, y: Ints, **keywords: Any) -> Build:
    def build() -> Callable[[], Any]:
        found = getattr(load("relplot.metrics"), function)
        return lambda: found(p, y, **keywords)

    return build


# -- top-label and binary ECE ---------------------------------------------------------------------


def _top_label(n: int, k: int) -> Callable[[bool], Sequence[Entrant]]:
    def entrants(quick: bool) -> list[Entrant]:
        p, y = probabilities(_size(n, quick), k)

        def pick() -> Array:
            top = p.argmax(axis=1)
            return np.take_along_axis(p, top[:, None], axis=1)

        slow = 1 if n * k > 10_000_000 else None
        return [
            ours("calibrant ece", lambda: metrics.expected_calibration_error(y, p)),
            floor("np.argmax", lambda: p.argmax(axis=1)),
            floor("np.argmax + take_along_axis", pick),
            floor("one read of the memory", lambda: read(p)),
            peer("torchmetrics", _torchmetrics(p, y)),
            peer("netcal ECE", _netcal(p, y)),
            peer("uncertainty-calibration get_ece", _uncertainty_calibration(p, y, "top-label"), slow),
            peer("probmetrics ece-15", _probmetrics(p, y, "CalibrationError", 15)),
            peer("pycalib conf_ECE", _pycalib("conf_ECE", p, y), 1),
            recipe("argmax by hand, then sklearn calibration_curve (matrix unchecked)", _sklearn_top(p, y)),
        ]

    return entrants


def _sklearn_top(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        curve = load("sklearn.calibration").calibration_curve

        def run() -> Any:
            top = p.argmax(axis=1)
            score = np.take_along_axis(p, top[:, None], axis=1)[:, 0]
            return curve(top == y, np.minimum(score, 1), n_bins=15)

        return run

    return build


def _binary_ece(quick: bool) -> list[Entrant]:
    p, y = binary(_size(10_000_000, quick))
    return [
        ours("calibrant ece of class 1", lambda: metrics.calibration_error(y, p, view="class-1", estimator=Binned(15))),
        floor("one read of the memory", lambda: read(p)),
        floor("np.sort", lambda: np.sort(p), 2),
        peer("torchmetrics binary", _torchmetrics(p, y)),
        peer("netcal ECE", _netcal(p, y), 1),
        peer("uncertainty-calibration get_ece", _uncertainty_calibration(p, y, "top-label"), 1),
        peer("probcal ece", _probcal("ece", p, y, n_bins=15, strategy="width"), 2),
        peer("MAPIE expected_calibration_error", _mapie(p, y), 2),
        peer("sklearn calibration_curve", _sklearn_curve(p, y), 2),
        peer("relplot binnedECE", _relplot("binnedECE", p, y, nbins=15), 1),
        peer("pycalib binary_ECE", _pycalib("binary_ECE", p, y), 1),
    ]


def _classwise(n: int, k: int) -> Callable[[bool], Sequence[Entrant]]:
    def entrants(quick: bool) -> list[Entrant]:
        p, y = probabilities(_size(n, quick), k)
        return [
            ours("calibrant sce", lambda: metrics.static_calibration_error(y, p)),
            floor("one read of the memory", lambda: read(p)),
            peer("pycalib classwise_ECE", _pycalib("classwise_ECE", p, y), 1),
            peer("uncertainty-calibration get_ece (marginal)", _marginal_share(p, y), 1, min(1.0, 10 / k)),
            peer("torchmetrics, class by class", _torchmetrics_classes(p, y), 1, min(1.0, 10 / k)),
            peer("sklearn calibration_curve, class by class", _sklearn_classes(p, y), 1, min(1.0, 10 / k)),
        ]

    return entrants


def _marginal_share(p: Array, y: Ints) -> Build:
    """Ten classes of the marginal loop; more would take minutes."""

    def build() -> Callable[[], Any]:
        get_ece = load("calibration").get_ece
        if p.shape[1] <= 10:
            return lambda: get_ece(p, y, num_bins=15, mode="marginal")
        return lambda: [get_ece(p[:, k], (y == k).astype(int), num_bins=15) for k in range(10)]

    return build


def _sklearn_classes(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        curve = load("sklearn.calibration").calibration_curve
        return lambda: [curve(y == k, np.minimum(p[:, k], 1), n_bins=15) for k in range(10)]

    return build


def _torchmetrics_classes(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        torch = load("torch")
        error = load("torchmetrics.functional.classification").binary_calibration_error
        scores, labels = torch.from_numpy(p), torch.from_numpy(y)

        def run() -> float:
            each = [error(scores[:, k], (labels == k).long(), n_bins=15) for k in range(10)]
            return float(sum(each)) / len(each)

        return run

    return build


# -- KS, smECE, KDE, MMCE -------------------------------------------------------------------------


def _ks(quick: bool) -> list[Entrant]:
    p, y = binary(_size(10_000_000, quick))
    return [
        ours("calibrant ks of class 1", lambda: metrics.kolmogorov_smirnov_error(y, p, view="class-1")),
        floor("np.sort", lambda: np.sort(p)),
        floor("one read of the memory", lambda: read(p)),
        peer("probmetrics kolmogorov-smirnov", _probmetrics(p, y, "KolmogorovSmirnovCalibrationMetric"), 3),
        peer("MAPIE kolmogorov_smirnov_statistic", _mapie_ks(p, y), 2),
        peer("probcal ecce", _probcal("ecce", p, y), 2),
    ]


def _mapie_ks(p: Array, y: Ints) -> Build:
    def build() -> Callable[[], Any]:
        found = load("mapie.metrics.calibration").kolmogorov_smirnov_statistic
        return lambda: found(y, p)

    return build


def _smooth(quick: bool) -> list[Entrant]:
    p, y = binary(_size(1_000_000, quick))
    return [
        ours("calibrant smece of class 1", lambda: metrics.smooth_calibration_error(y, p, view="class-1")),
        floor("np.sort", lambda: np.sort(p)),
        peer("relplot smECE", _relplot("smECE", p, y)),
        peer("probcal smooth_ece", _probcal("smooth_ece", p, y)),
    ]


def _kde(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(1_000_000, quick), 10)

    def build() -> Callable[[], Any]:
        fft = load("KDEpy").FFTKDE

        def density(values: Array, width: float, grid: Array) -> Array:
            mirrored = np.concatenate([values, np.where(values < 0.5, -values, 2 - values)])
            found = fft(kernel="triweight", bw=width).fit(mirrored).evaluate(grid)
            return 2 * np.where((grid > 0) & (grid < 1), found, 0.0)

        def run() -> float:  # Zhang et al.'s recipe: two densities on one grid
            top = p.argmax(axis=1)
            score = np.take_along_axis(p, top[:, None], axis=1)[:, 0].astype(np.float64)
            hit = top == y
            grid = np.linspace(-0.6, 1.6, 2**14)
            width = float(score[hit].std() * (2 * len(score)) ** -0.2)
            good, every = density(score[hit], width, grid), density(score, width, grid)
            accuracy = np.minimum(np.divide(hit.mean() * good, every, out=np.ones_like(good), where=every > 1e-6), 1)
            return float(np.trapezoid(np.abs(grid - accuracy) * every, grid))

        return run

    return [
        ours("calibrant kde", lambda: metrics.kde_calibration_error(y, p)),
        floor("np.argmax", lambda: p.argmax(axis=1)),
        peer("KDEpy recipe", build),
    ]


def _mmce(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(1_000_000, quick), 10)
    few = 10_000 if not quick else 1_000

    def build() -> Callable[[], Any]:
        mmce = load("netcal.metrics").MMCE()
        return lambda: mmce.metric(p[:few], y[:few])

    return [
        ours("calibrant mmce of 10⁶ rows", lambda: metrics.maximum_mean_calibration_error(y, p)),
        floor("np.sort of the confidences", lambda: np.sort(p.max(axis=1))),
        peer("netcal MMCE of 10⁴ rows", build, 3),
    ]


# -- the whole panel, the import ------------------------------------------------------------------


#: Metrics of the whole vector: quadratic in the rows, not part of the one-dimensional metrics.
_CANONICAL = ("skce", "ce-kde")


def _panel(quick: bool) -> list[Entrant]:
    p, y = probabilities(_size(50_000, quick), 1000)

    def panel() -> list[float]:
        forecast = check_forecast(y, p, caller="bench")
        return [measure.build().value(forecast) for measure in declared() if measure.name not in _CANONICAL]

    return [
        ours("calibrant, every one-dimensional metric and score", panel),
        floor("np.argmax", lambda: p.argmax(axis=1)),
        floor("one read of the memory", lambda: read(p)),
    ]


_HEAVY = ("torch", "sklearn", "matplotlib", "polars")


def _fresh(code: str, whole: bool) -> Callable[[], Any]:
    """Run `code` in a new interpreter; its own time, or the time until it ends."""

    def run() -> Seconds:
        script = f"import time; t = time.perf_counter()\n{code}\nprint(time.perf_counter() - t)"
        script += f"\nimport sys; print(*[m for m in {_HEAVY!r} if m in sys.modules])"
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603 -- our own code
        taken = time.perf_counter() - start
        seconds, heavy = done.stdout.split("\n")[-3:-1]
        if heavy.strip():
            raise RuntimeError(f"loads {heavy}")
        return Seconds(taken if whole else float(seconds))

    return run


def _import(quick: bool) -> list[Entrant]:  # noqa: ARG001 -- has one size
    return [
        ours("import calibrant", _fresh("import calibrant", whole=False)),
        floor("import numpy", _fresh("import numpy", whole=False)),
    ]


def _help(quick: bool) -> list[Entrant]:  # noqa: ARG001 -- has one size
    code = "import contextlib, io, sys\nsys.argv = ['calibrant', '--help']\nfrom calibrant.cli import main\n"
    code += "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main()"
    return [
        ours("calibrant --help", _fresh(code, whole=True)),
        floor("an empty interpreter", _fresh("pass", whole=True)),
    ]


READ = "one read of the memory"
RACES = (
    Race(
        "ece-wide",
        "top-label ECE, 5·10⁴ × 1000 float32",
        _top_label(50_000, 1000),
        (Goal("faster", 4), Goal("within", 1.7, READ)),
    ),
    Race(
        "ece-tall",
        "top-label ECE, 10⁶ × 10 float32",
        _top_label(1_000_000, 10),
        (Goal("faster", 1), Goal("within", 15, READ)),
    ),
    Race(
        "ece-binary",
        "binary ECE, 10⁷ scores",
        _binary_ece,
        (Goal("faster", 1), Goal("within", 30, READ)),
    ),
    Race(
        "classwise-tall",
        "class-wise ECE, 10⁶ × 10",
        _classwise(1_000_000, 10),
        (Goal("faster", 10), Goal("within", 15, READ)),
    ),
    Race(
        "classwise-wide",
        "class-wise ECE, 5·10⁴ × 1000",
        _classwise(50_000, 1000),
        (Goal("faster", 10), Goal("within", 15, READ)),
    ),
    Race("ks", "KS of 10⁷ scores", _ks, (Goal("faster", 1), Goal("within", 2.5, "np.sort"))),
    Race("smece", "smECE of 10⁶ scores", _smooth, (Goal("faster", 1),)),
    Race("kde", "KDE-ECE of 10⁶ rows", _kde, (Goal("faster", 0.6),)),
    Race("mmce", "exact MMCE of 10⁶ rows", _mmce, (Goal("faster", 1),)),
    Race("panel", "all metrics, 5·10⁴ × 1000 float32", _panel, (Goal("seconds", 2), Goal("memory", 200))),
    Race("import", "import calibrant", _import, (Goal("seconds", 0.2),)),
    Race("help", "calibrant --help", _help, (Goal("seconds", 0.4),)),
)
