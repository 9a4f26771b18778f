"""Measuring Calibration in Deep Learning, Nixon et al. (2019): tables 1-2, figures 1, 2, 4, 7, 8 and 11.

The papers' CIFAR-100 and ImageNet logits are not public: other networks on CIFAR-10 and CIFAR-100 take their place.

References
----------
[1] Nixon et al. (2019), "Measuring Calibration in Deep Learning", CVPR workshops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from calibrant._typing import RNG, Floats
from calibrant.core.curves import local_curve
from calibrant.core.inputs import Forecast, check_forecast, check_rng
from calibrant.core.links import softmax
from calibrant.core.tables import mass_bins, value_table, width_bins
from calibrant.datasets import draw_labels
from calibrant.estimators import Binned
from calibrant.studies.arrays import build
from calibrant.studies.label_noise import label_noise
from calibrant.studies.learning_curves import make_method
from calibrant.studies.targets.result import Finding, Line, TargetResult
from calibrant.studies.targets.sources import split_of
from calibrant.views import ClassK, Classwise, Pooled

__all__ = ["TARGETS"]

METHODS = {"temperature": "ts-nll", "vector": "vs", "matrix": "ms-odir", "isotonic": "irova"}
MEASURES = {"ECE": "ece", "TACE": "tace", "SCE": "sce", "ACE": "ace"}
#: Published, in percent: CIFAR-100 ResNet-110 and ImageNet ResNet-50; ECE, TACE, SCE, ACE.
TABLE_1: dict[str, tuple[float, ...]] = {
    "uncalibrated": (19.638, 10.093, 0.412, 0.131),
    "temperature": (2.155, 0.518, 0.057, 0.057),
    "vector": (2.272, 0.613, 0.037, 0.0133),
    "matrix": (12.112, 3.983, 0.264, 0.257),
    "isotonic": (17.851, 2.827, 0.353, 0.118),
}
TABLE_2: dict[str, tuple[float, ...]] = {
    "uncalibrated": (6.626, 2.511, 0.016, 0.0146),
    "temperature": (5.420, 2.637, 0.010, 0.0007),
    "vector": (1.443, 1.249, 0.002, 0.0044),
    "matrix": (5.061, 1.980, 0.010, 0.0005),
    "isotonic": (3.474, 1.862, 0.008, 0.0000),
}
NOTE = "Published numbers are of other networks and stand beside ours for their size only."


@lru_cache(maxsize=4)
def _measured(data: Path | None, name: str, matrix: bool) -> dict[str, dict[str, float]]:
    """Return the four measures, in percent, of every method fitted on the calibration rows."""
    split = split_of(data, name)
    found = {}
    for title, short in {"uncalibrated": "", **METHODS}.items():
        if title == "matrix" and not matrix:
            continue
        p = split.test.scores if split.test.space == "proba" else softmax(split.test.scores)
        if short:
            p = (
                make_method(short, split.cal.space)
                .fit(split.cal.scores, split.cal.labels)
                .predict_proba(split.test.scores)
            )
        forecast = check_forecast(split.test.labels, p, caller="reproduce")
        found[title] = {m: 100 * build(spec).value(forecast) for m, spec in MEASURES.items()}
    return found


def _ranking(found: dict[str, dict[str, float]], measure: str) -> list[str]:
    return sorted(found, key=lambda method: found[method][measure])


def _table(
    target: str, name: str, published: dict[str, tuple[float, ...]], title: str, quick: bool, data: Path | None
) -> TargetResult:
    found = _measured(data, name, not (quick and name.startswith("cifar100")))
    lines = [
        Line(f"{method}: {measure} %", value, published[method][i])
        for method, row in found.items()
        for i, (measure, value) in enumerate(row.items())
    ]
    by_ece = _ranking(found, "ECE")
    differ = [m for m in ("SCE", "ACE", "TACE") if _ranking(found, m) != by_ece]
    repaired = [m for m in found if m != "uncalibrated"]
    findings = (
        Finding("the ranking of methods by ECE differs from that by SCE, ACE or TACE", bool(differ)),
        Finding("every method lowers the ECE", all(found[m]["ECE"] < found["uncalibrated"]["ECE"] for m in repaired)),
        Finding(
            "SCE and ACE are far below ECE: means over classes of mostly tiny probabilities",
            found["uncalibrated"]["SCE"] < found["uncalibrated"]["ECE"] / 2,
        ),
    )
    notes = (
        NOTE,
        split_of(data, name).note,
        "rankings: " + "; ".join(f"{m}: {' < '.join(_ranking(found, m))}" for m in MEASURES),
    )
    return TargetResult(target, "P", title, tuple(lines), findings, notes=notes, quick=quick)


def table_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Post-processing on a residual network."""
    del rng
    return _table(
        "nixon-table-1", "cifar10_resnet110", TABLE_1, "ECE, TACE, SCE, ACE in %, ResNet-110 on CIFAR-10", quick, data
    )


def table_2(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Post-processing with many classes."""
    del rng
    return _table(
        "nixon-table-2", "cifar100_wrn16_4", TABLE_2, "ECE, TACE, SCE, ACE in %, Wide-ResNet on CIFAR-100", quick, data
    )


def _per_class(forecast: Forecast) -> dict[str, Floats]:
    """Return SCE, ACE and TACE of every class."""
    found = {}
    for title, view, estimator in (
        ("SCE", Classwise(), Binned(15)),
        ("ACE", Classwise(), Binned(15, "mass", "range")),
        ("TACE", Classwise(threshold=0.01), Binned(15, "mass", "range")),
    ):
        found[title] = np.asarray(estimator.power(estimator.fill(forecast, view), 1))
    return found


def _bars(target: str, wanted: tuple[str, ...], quick: bool, data: Path | None) -> TargetResult:
    name = "cifar100_wrn16_4"
    split = split_of(data, name)
    forecast = check_forecast(split.test.labels, split.test.scores, caller="reproduce", space=split.test.space)
    found = _per_class(forecast)
    null = _per_class(forecast.with_codes(draw_labels(forecast.proba(), np.random.default_rng(0))))
    lines, findings, curves = [], [], {}
    for title in wanted:
        values = found[title]
        spread, calm = float(values.std() / values.mean()), float(null[title].std() / null[title].mean())
        curves[f"{title} by class"] = {"class": [float(i) for i in range(len(values))], title: values.tolist()}
        lines += [
            Line(f"{title}: mean over classes %", 100 * float(values.mean())),
            Line(f"{title}: largest class %", 100 * float(values.max())),
            Line(f"{title}: smallest class %", 100 * float(values.min())),
            Line(f"{title}: spread over classes / mean", spread, note=f"{calm:.2f} if the model were calibrated"),
        ]
        findings.append(
            Finding(
                f"{title} is non-uniform: the worst class is at least three times the best",
                values.max() > 3 * values.min(),
            )
        )
        findings.append(Finding(f"{title} varies more over classes than noise alone would make it", spread > calm))
    return TargetResult(
        target, "P", "error of every class, CIFAR-100", tuple(lines), tuple(findings), curves, (NOTE,), quick
    )


def figure_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Per-class TACE."""
    del rng
    return _bars("nixon-fig-1", ("TACE",), quick, data)


def figure_11(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Per-class SCE, ACE and TACE."""
    del rng
    return _bars("nixon-fig-11", ("SCE", "ACE", "TACE"), quick, data)


def figure_2(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Reliability diagrams over adaptive ranges."""
    del rng
    split = split_of(data, "cifar10_resnet110")
    forecast = check_forecast(split.test.labels, split.test.scores, caller="reproduce", space=split.test.space)
    everything, above = Pooled().pairs(forecast), Pooled(0.01).pairs(forecast)
    diagrams = {
        "SCE, 10 even ranges": width_bins(everything, 10),
        "ACE, 100 adaptive ranges": mass_bins(everything, 100),
        "TACE, 100 adaptive ranges above 0.01": mass_bins(above, 100),
    }
    curves, low = {}, {}
    for title, found in diagrams.items():
        w, ws, wt = (values[0][found.w[0] > 0] for values in (found.w, found.ws, found.wt))
        mean = ws / w
        curves[title] = {"confidence": mean.tolist(), "frequency": (wt / w).tolist(), "perfect": mean.tolist()}
        low[title] = float((mean < 0.01).mean())
    names = list(diagrams)
    lines = tuple(Line(f"{title}: share of ranges below 0.01", value) for title, value in low.items())
    findings = (
        Finding("most adaptive ranges lie at tiny probabilities", low[names[1]] > 0.5),
        Finding("the threshold moves them to where decisions are made", low[names[2]] == 0),
        Finding(
            "above the threshold the frequencies rise with confidence (rank correlation above 0.8)",
            _rank(curves[names[2]]) > 0.8,
        ),
    )
    return TargetResult(
        "nixon-fig-2", "P", "reliability diagrams, even and adaptive ranges", lines, findings, curves, (NOTE,), quick
    )


def _rank(panel: dict[str, list[float]]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(panel["confidence"], panel["frequency"])[0])


def figure_4(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Datapoint-specific calibration of a class and its sensitivity to the decay; sharpness."""
    del rng
    split = split_of(data, "cifar10_resnet110")
    forecast = check_forecast(split.test.labels, split.test.scores, caller="reproduce", space=split.test.space)
    curves, spread, lines = {}, {}, []
    for k in (3, 5):  # cat and dog
        table = value_table(ClassK(k).pairs(forecast))
        panel: dict[str, list[float]] = {}
        stack = []
        for decay in (0.5, 0.8, 0.9, 0.95):
            grid, frequency = local_curve(table.score, table.w, table.wt, decay)
            panel.setdefault("probability", grid.tolist())
            panel[f"decay {decay}"] = frequency.tolist()
            stack.append(np.asarray(frequency))
        curves[f"class {k}: local calibration"] = panel
        spread[k] = [float(np.abs(np.diff(s)).sum()) for s in stack]
        lines += [
            Line(f"class {k}: total variation with decay {d}", v)
            for d, v in zip((0.5, 0.8, 0.9, 0.95), spread[k], strict=True)
        ]
    p = np.concatenate([forecast.block(rows).ravel() for rows in forecast.chunks()])
    count, edges = np.histogram(p, 20, (0, 1))
    curves["sharpness: all softmax outputs"] = {
        "probability": (0.5 * (edges[1:] + edges[:-1])).tolist(),
        "share": (count / len(p)).tolist(),
    }
    sharp = float((count[0] + count[-1]) / len(p))
    lines.append(Line("share of softmax outputs below 0.05 or above 0.95", sharp))
    findings = (
        Finding(
            "slower decay gives smoother curves, for both classes",
            all(v[0] > v[1] > v[2] > v[3] for v in spread.values()),
        ),
        Finding("softmax outputs are sharp: more than 90 % lie near 0 or 1", sharp > 0.9),
        Finding(
            "the curve is below the diagonal in the upper half: over-confident",
            _below(curves["class 3: local calibration"]),
        ),
    )
    return TargetResult(
        "nixon-fig-4", "P", "datapoint-specific calibration", tuple(lines), findings, curves, (NOTE,), quick
    )


def _below(panel: dict[str, list[float]]) -> bool:
    x, y = np.array(panel["probability"]), np.array(panel["decay 0.9"])
    upper = x > 0.5
    return bool((y[upper] - x[upper]).mean() < 0)


def figure_7(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Spread of the measures against n, on a simulated model with known truth."""
    del data
    generator = check_rng(rng, "reproduce")
    recipes = {m: build(spec) for m, spec in MEASURES.items()}
    sizes = (100, 300, 1000, 3000) if quick else (100, 200, 500, 1000, 2000, 5000, 10_000)
    repeats, k = (60 if quick else 500), 10
    means: dict[str, list[float]] = {m: [] for m in recipes}
    spreads: dict[str, list[float]] = {m: [] for m in recipes}
    for n in sizes:
        values = np.empty((repeats, len(recipes)))
        for i in range(repeats):
            z = 2.0 * generator.standard_normal((n, k))
            forecast = check_forecast(draw_labels(softmax(z), generator), softmax(1.5 * z), caller="reproduce")
            values[i] = [recipe.value(forecast) for recipe in recipes.values()]
        for j, m in enumerate(recipes):
            means[m].append(float(values[:, j].mean()))
            spreads[m].append(float(values[:, j].std()))
    x = [float(n) for n in sizes]
    curves = {"standard deviation": {"n": x, **spreads}, "mean": {"n": x, **means}}
    lines = [Line(f"n = {n}: standard deviation of {m}", spreads[m][i]) for m in recipes for i, n in enumerate(sizes)]
    findings = (
        Finding("the spread of every measure falls with n", all(v[-1] < v[0] for v in spreads.values())),
        Finding(
            "the mean of ECE is higher than that of TACE and ACE",
            all(means["ECE"][i] > max(means["ACE"][i], means["TACE"][i]) for i in range(1, len(sizes))),
        ),
        Finding(
            "ACE varies less than ECE at every n",
            all(a < e for a, e in zip(spreads["ACE"], spreads["ECE"], strict=True)),
        ),
        Finding(
            "beyond the paper: relative to its mean ACE is at most 3 times steadier than ECE at the largest n",
            spreads["ACE"][-1] / means["ACE"][-1] > spreads["ECE"][-1] / means["ECE"][-1] / 3,
        ),
    )
    notes = (
        "ECE (a top label) and ACE (a mean over classes) differ in scale: a smaller spread is partly a smaller number.",
    )
    return TargetResult(
        "nixon-fig-7", "S", "spread of the measures against n", tuple(lines), findings, curves, notes, quick
    )


def figure_8(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Label noise: ECE falls behind ACE and TACE."""
    del data
    seed = int(check_rng(rng, "reproduce").integers(1 << 31))
    result = label_noise(models=40 if quick else 300, n=1500 if quick else 5000, seed=seed)
    rank = {(row["noise"], row["measure"]): row["rank_correlation"] for row in result.rows}
    levels = sorted({noise for noise, _ in rank})
    lines = tuple(
        Line(f"noise {noise:g}: rank correlation of {m} with the true error", v) for (noise, m), v in rank.items()
    )

    def lead(measure: str, noise: float) -> float:
        return rank[noise, measure] - rank[noise, "ECE"]

    findings = (
        Finding(
            "ACE follows the true error better than ECE at every noise level", all(lead("ACE", x) > 0 for x in levels)
        ),
        Finding("at the largest noise TACE does so too", lead("TACE", levels[-1]) > 0),
        Finding(
            "the lead of ACE is larger with much noise than with little",
            max(lead("ACE", x) for x in levels[2:]) > lead("ACE", levels[0]),
        ),
    )
    notes = (
        "The paper prints no protocol: here outcomes follow softmax(z/x) and wrong models softmax((a·z + b)/x).",
    )
    return TargetResult("nixon-fig-8", "S", "measures under label noise", lines, findings, result.curves, notes, quick)


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "nixon-table-1": table_1,
    "nixon-table-2": table_2,
    "nixon-fig-1": figure_1,
    "nixon-fig-2": figure_2,
    "nixon-fig-4": figure_4,
    "nixon-fig-7": figure_7,
    "nixon-fig-8": figure_8,
    "nixon-fig-11": figure_11,
}
