"""Uncertainty Calibration Error, Laves et al. (2020): figures 1, 3, 4, 5, 6 and 10 on known and on real forecasts.

ACE in that paper is the top-label error in equal-mass bins of every predicted class, not Nixon's ACE over all
probabilities; both are shown under their own names.

References
----------
[1] Laves et al. (2020), "Uncertainty Calibration Error: A New Metric for Multi-Class Classification".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np

from calibrant._typing import RNG, Floats, Ints
from calibrant.core.inputs import check_forecast
from calibrant.core.links import softmax
from calibrant.core.options import check_rng
from calibrant.core.tables import mass_bins
from calibrant.views import TopLabel
from calibrant_papers.measures import predicted_class_ace
from calibrant_papers.studies.arrays import build
from calibrant_papers.studies.learning_curves import make_method
from calibrant_papers.studies.temperature_sweep import TEMPERATURES, temperature_sweep
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult
from calibrant_papers.targets.sources import split_of

__all__ = ["ACE_NOTE", "TARGETS", "paper_ace", "sweep_result"]

ACE_NOTE = (
    "ACE in this paper is the top-label error per predicted class; Nixon's ACE looks at all probabilities (0.0474 "
    "against 0.0036 on CIFAR-10 ResNet-110)."
)
CIFAR_10 = ("cifar10_resnet110", "cifar10_resnet50_focal", "cifar10_vgg16", "cifar10_lenet5")
CIFAR_100 = ("cifar100_wrn16_4",)
#: ACE as this paper computes it.
paper_ace = predicted_class_ace
BINS = (5, 10, 15, 20, 30, 50, 75, 100)
#: Metrics by name; a test replaces UCE by ECE.
SPECS = {"ECE": "ece", "UCE": "uce"}
#: Names whose optimum over the temperature must agree.
AGREE = ("ECE", "MMCE", "KS", "Brier", "NLL")
#: The forecast of figure 3: the class frequencies.
CONSTANT = (0.6, 0.4)


def _rows(data: Path | None, names: tuple[str, ...]) -> tuple[str, str]:
    """Return data and size in words."""
    sizes = [len(split_of(data, name).test.labels) for name in names]
    return ", ".join(names), f"{min(sizes):,} to {max(sizes):,} test rows" if len(
        {*sizes}
    ) > 1 else f"{sizes[0]:,} test rows"


def _by_bins(y: Ints, p: Floats, bins: Iterable[int]) -> dict[str, list[float]]:
    """Return ECE, ACE and UCE for every number of bins."""
    forecast = check_forecast(y, p, caller="reproduce")
    found = {name: [build(f"{spec}:n_bins={m}").value(forecast) for m in bins] for name, spec in SPECS.items()}
    return found | {"ACE": [paper_ace(y, p, m) for m in bins]}


def _steady(first: list[float], second: list[float]) -> bool:
    """Whether two models are ranked alike with every number of bins."""
    return len({a < b for a, b in zip(first, second, strict=True)}) == 1


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
            values = _by_bins(*_proba(data, name, tempered), BINS)
            title = f"{name}{', tempered' if tempered else ''}"
            curves[title] = {"bins": [float(m) for m in BINS], **values}
            for measure, row in values.items():
                factor = max(row) / min(row)
                lines.append(Line(f"{title}: {measure}, largest over smallest", factor))
                if tempered:
                    factors[measure].append(factor)
    nearly = {m: float(np.mean(v)) for m, v in factors.items()}
    pairs = list(combinations([f"{name}, tempered" for name in names if name in CIFAR_10], 2))
    steady = {m: sum(_steady(curves[a][m], curves[b][m]) for a, b in pairs) for m in factors}
    lines += [
        Line(f"{m}: pairs ranked alike with every number of bins", v, note=f"of {len(pairs)}")
        for m, v in steady.items()
    ]
    offset = [curves[t]["UCE"][0] / curves[t]["ECE"][0] for t in curves if "tempered" in t]
    findings = (
        Finding(
            "near calibration ECE depends more on the number of bins than UCE",
            nearly["ECE"] > nearly["UCE"],
            measured=f"largest over smallest {nearly['ECE']:.2f} against {nearly['UCE']:.2f}",
            reason="a few models decide",
            novelty="normalized entropy",
        ),
        Finding(
            "so does the paper's ACE",
            nearly["ACE"] > nearly["UCE"],
            measured=f"{nearly['ACE']:.2f} against {nearly['UCE']:.2f}",
            reason="a few models decide",
            novelty="normalized entropy, not ACE",
        ),
        Finding(
            "near calibration UCE ranks more pairs of CIFAR-10 models alike than ECE and than ACE",
            steady["UCE"] > max(steady["ECE"], steady["ACE"]),
            measured=f"UCE {steady['UCE']}, ECE {steady['ECE']}, ACE {steady['ACE']} of {len(pairs)} pairs",
            reason="tempered models differ by less than the noise of their errors",
            novelty="normalized entropy",
        ),
        Finding(
            "beyond the paper: an offset makes UCE look steady, it is above 1.2 times the ECE of every tempered model",
            min(offset) > 1.2,
            measured=f"at least {min(offset):.2f} times",
            reason="a tempered model is not calibrated by entropy",
            novelty="normalized entropy",
        ),
    )
    made = _rows(data, names)
    return TargetResult(
        "uce-fig-1", "P", "errors against the number of bins", tuple(lines), findings, curves, (ACE_NOTE,), quick, *made
    )


def figure_10(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Rows per bin of ECE, UCE and ACE."""
    del rng
    lines, curves, few = [], {}, {}
    for name in (CIFAR_10[0], CIFAR_100[0]):
        y, p = _proba(data, name, False)
        forecast = check_forecast(y, p, caller="reproduce")
        panel: dict[str, list[float]] = {"bins": [float(i) for i in range(1, 16)]}
        for title, spec in SPECS.items():
            w = np.asarray(build(spec).fill(forecast).w[0])
            panel[title] = (w / w.sum()).tolist()
        w = mass_bins(TopLabel().pairs(forecast), 15).w[0]
        panel["ACE"] = (np.pad(w, (0, 15 - len(w))) / w.sum()).tolist()
        curves[f"{name}: fraction of rows"] = panel
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
    first, hundred = CIFAR_10[0], CIFAR_100[0]
    ratio = few[first, "UCE"] / few[first, "ECE"]
    all_used = min(few[n, "ACE"] for n in (first, hundred))
    findings = (
        Finding(
            "on CIFAR-10 rows per bin of ECE and UCE are similar: fewer than three bins carry nearly everything",
            max(few[first, m] for m in SPECS) < 3 and 0.8 < ratio < 1.25,
            measured=f"effective bins {few[first, 'ECE']:.2f} and {few[first, 'UCE']:.2f}",
            reason="the network is less sure than the paper's",
            novelty="confident forecasts",
        ),
        Finding(
            "equal-mass bins use all fifteen",
            all_used > 14,
            measured=f"at least {all_used:.1f} effective bins",
            reason="ties",
            novelty="adaptive bins",
        ),
        Finding(
            "on CIFAR-100 UCE uses fewer bins than ECE",
            few[hundred, "UCE"] < few[hundred, "ECE"],
            measured=f"{few[hundred, 'UCE']:.1f} against {few[hundred, 'ECE']:.1f} effective bins",
            reason="another network",
            novelty="normalized entropy",
        ),
    )
    made = _rows(data, (first, hundred))
    return TargetResult(
        "uce-fig-10", "P", "occupancy of bins", tuple(lines), findings, curves, (ACE_NOTE,), quick, *made
    )


def figure_3(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Constant forecasts of the class frequencies."""
    del data, rng
    y = np.repeat([0, 1], [600, 400])
    p = np.tile(CONSTANT, (1000, 1))
    forecast = check_forecast(y, p, caller="reproduce")
    specs = {**SPECS, "MMCE": "mmce", "SCE": "sce"}
    values = {m: build(spec).value(forecast) for m, spec in specs.items()}
    lines = (
        Line("ECE", values["ECE"], 0.0, band=(-1e-12, 1e-12)),
        Line("MMCE", values["MMCE"], 0.0, band=(-1e-12, 1e-12)),
        Line("UCE", values["UCE"], 0.570951, "0.970951 − 0.4", (0.5709505, 0.5709515)),
        Line("SCE", values["SCE"]),
    )
    findings = (
        Finding(
            "ECE and MMCE are 0, UCE is not",
            max(values["ECE"], values["MMCE"]) < 1e-12 and values["UCE"] > 0.5,
            exact=True,
            novelty="normalized entropy",
        ),
        Finding(
            "beyond the paper: the forecast is perfectly calibrated (SCE 0 too); UCE is not 0 for calibrated models",
            values["SCE"] < 1e-12,
            exact=True,
            novelty="class frequencies",
        ),
    )
    curves = {"forecast against frequency": {"class": [0.0, 1.0], "forecast": list(CONSTANT), "frequency": [0.6, 0.4]}}
    return TargetResult(
        "uce-fig-3", "S", "constant forecasts (0.6, 0.4)", lines, findings, curves, (), quick, "a known distribution",
        "1,000 rows",
    )  # fmt: skip


def _random_pair(generator: np.random.Generator, n: int, bins: Iterable[int]) -> dict[str, dict[str, list[float]]]:
    """Return ECE, ACE and UCE by number of bins of two random models, differently overconfident."""
    found: dict[str, dict[str, list[float]]] = {m: {"bins": [float(b) for b in bins]} for m in ("ECE", "ACE", "UCE")}
    for name, shape, slope in (("model A", 1.0, 0.7), ("model B", 0.5, 0.8)):
        p = generator.beta(shape, shape, n)
        y = (generator.random(n) < 0.5 + slope * (p - 0.5)).astype(np.int64)
        for m, values in _by_bins(y, np.stack([1 - p, p], axis=1), bins).items():
            found[m][name] = values
    return found


def figure_4(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Pairs of random models, ranked with different numbers of bins."""
    del data
    n, pairs = 1000, 10 if quick else 20
    bins = range(2, 101, 7) if quick else range(2, 101)
    curves: dict[str, dict[str, list[float]]] = {}
    steady: dict[str, list[int]] = {m: [] for m in ("ECE", "ACE", "UCE")}
    factors: dict[str, list[float]] = {m: [] for m in steady}
    for generator in check_rng(rng, "reproduce").spawn(MIN_SEEDS):
        found = [_random_pair(generator, n, bins) for _ in range(pairs)]
        curves = curves or found[0]
        for m, alike in steady.items():
            alike.append(sum(_steady(pair[m]["model A"], pair[m]["model B"]) for pair in found))
            ratios = [max(pair[m][k]) / min(pair[m][k]) for pair in found for k in ("model A", "model B")]
            factors[m].append(float(np.mean(ratios)))
    lines = [
        Line(
            f"{m}: pairs ranked alike with every number of bins", float(np.mean(v)), note=f"of {pairs}, mean over seeds"
        )
        for m, v in steady.items()
    ]
    lines += [Line(f"{m}: largest over smallest value, mean", float(np.mean(v))) for m, v in factors.items()]
    seen = ", ".join(f"{m} {np.mean(v) / pairs:.0%}" for m, v in steady.items())
    size = ", ".join(f"{m} {np.mean(v):.2f}" for m, v in factors.items())
    findings = (
        Finding.over(
            "UCE ranks at least nine in ten pairs of models alike whatever the number of bins",
            [v >= 0.9 * pairs for v in steady["UCE"]],
            measured=seen,
            reason="some pairs are nearly alike",
            novelty="normalized entropy",
        ),
        Finding.over(
            "ECE and ACE rank fewer pairs alike",
            [max(a, e) < u for e, a, u in zip(*steady.values(), strict=True)],
            measured=seen,
            reason="the models differ enough for all three",
            novelty="normalized entropy",
        ),
        Finding.over(
            "ACE depends most on the number of bins, UCE least",
            [a > e > u for e, a, u in zip(*factors.values(), strict=True)],
            measured=f"largest over smallest: {size}",
            reason="few pairs",
            novelty="normalized entropy",
        ),
    )
    return TargetResult(
        "uce-fig-4", "S", "two random models", tuple(lines), findings, curves, (ACE_NOTE,), quick,
        "two classes, simulated", f"{MIN_SEEDS} × {pairs} pairs of models, {n:,} rows, {len(bins)} numbers of bins",
    )  # fmt: skip


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
    made: tuple[str, str] = ("", ""),
) -> TargetResult:
    """Return every metric against the temperature, one panel per metric, one line per model."""
    first = next(iter(rows.values()))
    measures = [name for name in first[0] if name != "temperature"]
    x = [row["temperature"] for row in first]
    curves = {
        m: {"temperature": x, **{name: [row[m] for row in found] for name, found in rows.items()}} for m in measures
    }
    lines, outside, where = [], [], {}
    for name, found in rows.items():
        for m in measures:
            values = [row[m] for row in found]
            i = int(np.argmin(values))
            where[name, m] = x[i]
            outside += [] if 0 < i < len(x) - 1 else [f"{m} of {name}"]
            lines.append(Line(f"{name}: best temperature by {m}", x[i], note=f"{m} {values[i]:.4g} there"))
    close = max(max(where[n, m] for m in AGREE) / min(where[n, m] for m in AGREE) for n in rows)
    findings = (
        Finding(
            "every metric has its minimum inside the range of temperatures",
            not outside,
            measured=f"at the end of the range: {', '.join(outside) or 'none'}",
            reason="such a metric does not see overconfidence",
            novelty="temperature",
        ),
        Finding(
            "ECE, MMCE, KS, Brier and NLL agree on the best temperature within two steps of the grid",
            close <= (x[1] / x[0]) ** 2 * 1.001,
            measured=f"largest over smallest {close:.2f}, a step is {x[1] / x[0]:.2f}",
            reason="the minimum of a metric is flat",
            novelty="calibration metrics",
        ),
        *extra,
    )
    title = "every metric against the softmax temperature"
    return TargetResult(target, "P", title, tuple(lines), findings, curves, (ACE_NOTE, *notes), quick, *made)


def figure_5(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Measures against temperature, CIFAR-10."""
    del rng
    names = CIFAR_10[:2] if quick else CIFAR_10[:3]
    rows = {name: _sweep(data, name, quick) for name in names}
    orders = {
        m: {
            tuple(np.argsort(step).tolist())
            for step in zip(*([r[m] for r in found] for found in rows.values()), strict=True)
        }
        for m in ("ECE", "MMCE", "Brier", "NLL")
    }
    right = [(p.argmax(axis=1) == y).mean() for y, p in (_proba(data, name, False) for name in names)]
    best = int(np.argmax(right))
    kept = all(order[0] == best for m in ("Brier", "NLL") for order in orders[m])
    extra = (
        Finding(
            "no ranking holds for every temperature: by ECE and by MMCE it changes",
            min(len(orders[m]) for m in ("ECE", "MMCE")) > 1,
            measured=f"{len(orders['ECE'])} orders by ECE, {len(orders['MMCE'])} by MMCE",
            reason="one model is better throughout",
            novelty="temperature",
        ),
        Finding(
            "the most accurate model has the lowest Brier score and NLL, whatever the temperature",
            kept,
            measured=f"{names[best]}, accuracy {100 * max(right):.2f}%; orders: {len(orders['Brier'])} by Brier, "
            f"{len(orders['NLL'])} by NLL",
            reason="the models differ little in accuracy, and one of them is far more overconfident",
            novelty="accuracy",
        ),
    )
    notes = ("Public logits stand in for the paper's Bayesian networks.",)
    return sweep_result("uce-fig-5", rows, extra, notes, quick, _rows(data, names))


def figure_6(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Measures against temperature, CIFAR-100."""
    del rng
    rows = {name: _sweep(data, name, quick) for name in CIFAR_100}
    ece = [row["ECE"] for row in rows[CIFAR_100[0]]]
    extra = (
        Finding(
            "sharpening (small temperatures) at least doubles the ECE",
            ece[0] > 2 * min(ece),
            measured=f"{100 * ece[0]:.1f}% against {100 * min(ece):.1f}%",
            reason="the network is underconfident",
            novelty="temperature",
        ),
    )
    notes = ("Wide-ResNet-16-4 stands in for the paper's Bayesian networks.",)
    return sweep_result("uce-fig-6", rows, extra, notes, quick, _rows(data, CIFAR_100))


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "uce-fig-1": figure_1,
    "uce-fig-3": figure_3,
    "uce-fig-4": figure_4,
    "uce-fig-5": figure_5,
    "uce-fig-6": figure_6,
    "uce-fig-10": figure_10,
}
