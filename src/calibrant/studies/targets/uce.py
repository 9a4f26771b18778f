"""Uncertainty Calibration Error, Laves et al. (2020): figures 1, 3, 4, 5, 6 and 10 on known and on real forecasts.

ACE in that paper is the top-label error in equal-mass bins of every predicted class, not Nixon's ACE over all
probabilities; both are shown under their own names.

References
----------
[1] Laves et al. (2020), "Uncertainty Calibration Error: A New Metric for Multi-Class Classification".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from calibrant._typing import RNG, Array, Floats, Ints
from calibrant.core.inputs import check_forecast, check_rng
from calibrant.core.links import softmax
from calibrant.core.tables import Bins, mass_bins
from calibrant.estimators import Binned
from calibrant.studies.arrays import build
from calibrant.studies.learning_curves import make_method
from calibrant.studies.targets.result import Finding, Line, TargetResult
from calibrant.studies.targets.sources import split_of
from calibrant.studies.temperature_sweep import TEMPERATURES, temperature_sweep
from calibrant.views import TopLabel

__all__ = ["ACE_NOTE", "TARGETS", "paper_ace", "sweep_result"]

ACE_NOTE = (
    "ACE in this paper is the top-label error per predicted class; Nixon's ACE looks at all probabilities (0.0474 "
    "against 0.0036 on CIFAR-10 ResNet-110)."
)
CIFAR_10 = ("cifar10_resnet110", "cifar10_resnet50_focal", "cifar10_vgg16", "cifar10_lenet5")
CIFAR_100 = ("cifar100_wrn16_4",)
BINS = (5, 10, 15, 20, 30, 50, 75, 100)


def paper_ace(y: Ints, proba: Array, n_bins: int = 15) -> float:
    """Return ACE as this paper computes it: equal-mass bins of the top score for each predicted class, mean."""
    forecast = check_forecast(y, proba, caller="reproduce")
    pairs = TopLabel().pairs(forecast)
    found = Bins.stack([mass_bins(pairs.take(forecast.top == k), n_bins) for k in np.unique(forecast.top)])
    return float(Binned(n_bins, "mass").power(found, 1).mean())


def _proba(data: Path | None, name: str, tempered: bool) -> tuple[Ints, Floats]:
    split = split_of(data, name)
    if tempered:
        fitted = make_method("ts-nll", split.cal.space).fit(split.cal.scores, split.cal.labels)
        return split.test.labels, fitted.predict_proba(split.test.scores)
    p = split.test.scores.astype(np.float64) if split.test.space == "proba" else softmax(split.test.scores)
    return split.test.labels, p


def figure_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Errors against the number of bins."""
    del rng
    names = CIFAR_10[:2] if quick else (*CIFAR_10, *CIFAR_100)
    factors: dict[str, list[float]] = {m: [] for m in ("ECE", "ACE", "UCE")}
    lines, curves = [], {}
    for name in names:
        for tempered in (False, True):
            y, p = _proba(data, name, tempered)
            forecast = check_forecast(y, p, caller="reproduce")
            values = {
                "ECE": [build(f"ece:n_bins={m}").value(forecast) for m in BINS],
                "ACE": [paper_ace(y, p, m) for m in BINS],
                "UCE": [build(f"uce:n_bins={m}").value(forecast) for m in BINS],
            }
            title = f"{name}{', tempered' if tempered else ''}"
            curves[title] = {"bins": [float(m) for m in BINS], **values}
            for measure, row in values.items():
                factor = max(row) / min(row)
                lines.append(Line(f"{title}: {measure}, largest over smallest", factor))
                if tempered:
                    factors[measure].append(factor)
    nearly = {m: float(np.mean(v)) for m, v in factors.items()}
    findings = (
        Finding("near calibration ECE depends more on the number of bins than UCE", nearly["ECE"] > nearly["UCE"]),
        Finding("and the paper's ACE most of all", nearly["ACE"] > nearly["UCE"]),
        Finding(
            "beyond the paper: UCE of a tempered model stays above half a point, an offset that makes it look steady",
            min(curves[t]["UCE"][0] for t in curves if "tempered" in t) > 0.005,
        ),
    )
    return TargetResult(
        "uce-fig-1", "P", "errors against the number of bins", tuple(lines), findings, curves, (ACE_NOTE,), quick
    )


def figure_10(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Rows per bin of ECE, UCE and ACE."""
    del rng
    lines, curves, few = [], {}, {}
    for name in (CIFAR_10[0], CIFAR_100[0]):
        y, p = _proba(data, name, False)
        forecast = check_forecast(y, p, caller="reproduce")
        panel: dict[str, list[float]] = {"bins": [float(i) for i in range(1, 16)]}
        for title, spec in (("ECE", "ece"), ("UCE", "uce")):
            w = np.asarray(build(spec).fill(forecast).w[0])
            panel[title] = (w / w.sum()).tolist()
        w = mass_bins(TopLabel().pairs(forecast), 15).w[0]
        panel["ACE"] = (np.pad(w, (0, 15 - len(w))) / w.sum()).tolist()
        curves[f"{name}: share of rows"] = panel
        for title in ("ECE", "UCE", "ACE"):
            share = np.array([v for v in panel[title] if v > 0])
            few[name, title] = float(np.exp(-(share * np.log(share)).sum()))
            lines.append(
                Line(
                    f"{name}: effective number of bins of {title}",
                    few[name, title],
                    note="exp of the entropy of the shares",
                )
            )
    findings = (
        Finding(
            "on CIFAR-10 fewer than three bins carry nearly everything, for ECE and for UCE",
            max(few[CIFAR_10[0], m] for m in ("ECE", "UCE")) < 3,
        ),
        Finding("equal-mass bins use all fifteen", min(few[n, "ACE"] for n in (CIFAR_10[0], CIFAR_100[0])) > 14),
        Finding("on CIFAR-100 UCE uses fewer bins than ECE", few[CIFAR_100[0], "UCE"] < few[CIFAR_100[0], "ECE"]),
    )
    return TargetResult("uce-fig-10", "P", "occupancy of bins", tuple(lines), findings, curves, (ACE_NOTE,), quick)


def figure_3(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Constant forecasts of the class frequencies."""
    del data, rng
    y = np.repeat([0, 1], [600, 400])
    p = np.tile([0.6, 0.4], (1000, 1))
    forecast = check_forecast(y, p, caller="reproduce")
    values = {m: build(m).value(forecast) for m in ("ece", "mmce", "uce", "sce")}
    lines = (
        Line("ECE", values["ece"], 0.0, band=(-1e-12, 1e-12)),
        Line("MMCE", values["mmce"], 0.0, band=(-1e-12, 1e-12)),
        Line("UCE", values["uce"], 0.570951, "0.970951 − 0.4", (0.5709505, 0.5709515)),
        Line("SCE", values["sce"]),
    )
    findings = (
        Finding("ECE and MMCE are 0, UCE is not", values["ece"] < 1e-12 and values["uce"] > 0.5),
        Finding(
            "beyond the paper: the forecast is perfectly calibrated (SCE 0 too); UCE is not 0 for calibrated models",
            values["sce"] < 1e-12,
        ),
    )
    curves = {"forecast against frequency": {"class": [0.0, 1.0], "forecast": [0.6, 0.4], "frequency": [0.6, 0.4]}}
    return TargetResult("uce-fig-3", "S", "constant forecasts (0.6, 0.4)", lines, findings, curves, quick=quick)


def figure_4(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Two random models, ranked with different numbers of bins."""
    del data
    generator = check_rng(rng, "reproduce")
    n, pairs = 1000, 10 if quick else 100
    bins = range(2, 101, 7) if quick else range(2, 101)
    curves: dict[str, dict[str, list[float]]] = {}
    steady = dict.fromkeys(("ECE", "ACE", "UCE"), 0)
    factors: dict[str, list[float]] = {m: [] for m in steady}
    for pair in range(pairs):
        found: dict[str, dict[str, list[float]]] = {m: {"bins": [float(b) for b in bins]} for m in steady}
        for name, shape, slope in (("model A", 1.0, 0.7), ("model B", 0.5, 0.8)):  # differently over-confident
            p = generator.beta(shape, shape, n)
            y = (generator.random(n) < 0.5 + slope * (p - 0.5)).astype(np.int64)
            both, forecast = np.stack([1 - p, p], axis=1), check_forecast(y, p, caller="reproduce")
            found["ECE"][name] = [build(f"ece:n_bins={m}").value(forecast) for m in bins]
            found["UCE"][name] = [build(f"uce:n_bins={m}").value(forecast) for m in bins]
            found["ACE"][name] = [paper_ace(y, both, m) for m in bins]
        for m, panel in found.items():
            steady[m] += len({a < b for a, b in zip(panel["model A"], panel["model B"], strict=True)}) == 1
            factors[m].append(max(max(panel[k]) / min(panel[k]) for k in ("model A", "model B")))
        if pair == 0:
            curves = found
    lines = [
        Line(f"{m}: pairs ranked alike with every number of bins", v, note=f"of {pairs}") for m, v in steady.items()
    ]
    lines += [Line(f"{m}: largest over smallest value, mean", float(np.mean(v))) for m, v in factors.items()]
    findings = (
        Finding("UCE ranks nearly all pairs of models alike whatever the number of bins", steady["UCE"] >= 0.9 * pairs),
        Finding("ECE and ACE rank fewer pairs alike", max(steady["ECE"], steady["ACE"]) < steady["UCE"]),
        Finding(
            "ACE depends most on the number of bins, UCE least",
            np.mean(factors["ACE"]) > np.mean(factors["ECE"]) > np.mean(factors["UCE"]),
        ),
    )
    return TargetResult("uce-fig-4", "S", "two random models", tuple(lines), findings, curves, (ACE_NOTE,), quick)


@lru_cache(maxsize=16)
def _sweep(data: Path | None, name: str, quick: bool) -> tuple[dict[str, float], ...]:
    split = split_of(data, name)
    temperatures = TEMPERATURES[::3] if quick else TEMPERATURES
    return temperature_sweep(
        split.test.labels, split.test.scores, space=split.test.space, temperatures=temperatures
    ).rows


def sweep_result(
    target: str,
    rows: dict[str, tuple[dict[str, float], ...]],
    extra: tuple[Finding, ...],
    notes: tuple[str, ...],
    quick: bool,
) -> TargetResult:
    """Return every measure against the temperature, one panel per measure, one line per model."""
    first = next(iter(rows.values()))
    measures = [name for name in first[0] if name != "temperature"]
    x = [row["temperature"] for row in first]
    curves = {
        m: {"temperature": x, **{name: [row[m] for row in found] for name, found in rows.items()}} for m in measures
    }
    lines, inner, where = [], [], {}
    for name, found in rows.items():
        for m in measures:
            values = [row[m] for row in found]
            i = int(np.argmin(values))
            where[name, m] = x[i]
            inner.append(0 < i < len(x) - 1)
            lines.append(Line(f"{name}: best temperature by {m}", x[i], note=f"{m} {values[i]:.4g} there"))
    step = x[1] / x[0]
    close = [
        max(where[name, m] for m in ("ECE", "MMCE", "KS", "Brier", "NLL"))
        / min(where[name, m] for m in ("ECE", "MMCE", "KS", "Brier", "NLL"))
        for name in rows
    ]
    findings = (
        Finding("every measure has its minimum inside the range of temperatures", all(inner)),
        Finding(
            "ECE, MMCE, KS, Brier and NLL agree on the best temperature within two steps of the grid",
            max(close) <= step**2 * 1.001,
        ),
        *extra,
    )
    return TargetResult(
        target,
        "P",
        "every measure against the softmax temperature",
        tuple(lines),
        findings,
        curves,
        (ACE_NOTE, *notes),
        quick,
    )


def figure_5(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Measures against temperature, CIFAR-10."""
    del rng
    names = CIFAR_10[:2] if quick else CIFAR_10[:3]
    rows = {name: _sweep(data, name, quick) for name in names}
    ece = np.array([[row["ECE"] for row in found] for found in rows.values()])
    flips = len({tuple(order) for order in np.argsort(ece, axis=0).T.tolist()}) > 1
    extra = (Finding("the ranking of models by ECE changes with the temperature", flips),)
    return sweep_result("uce-fig-5", rows, extra, ("Public logits stand in for the paper's Bayesian networks.",), quick)


def figure_6(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Measures against temperature, CIFAR-100."""
    del rng
    rows = {name: _sweep(data, name, quick) for name in CIFAR_100}
    found = rows[CIFAR_100[0]]
    worse = found[0]["ECE"] > 2 * min(row["ECE"] for row in found)
    extra = (Finding("sharpening (small temperatures) at least doubles the ECE", worse),)
    return sweep_result(
        "uce-fig-6", rows, extra, ("Wide-ResNet-16-4 stands in for the paper's Bayesian networks.",), quick
    )


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "uce-fig-1": figure_1,
    "uce-fig-3": figure_3,
    "uce-fig-4": figure_4,
    "uce-fig-5": figure_5,
    "uce-fig-6": figure_6,
    "uce-fig-10": figure_10,
}
