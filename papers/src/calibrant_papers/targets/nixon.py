"""Measuring Calibration in Deep Learning, Nixon et al. (2019): tables 1-2, figures 1, 2, 4, 7, 8 and 11.

The paper's CIFAR-100 and ImageNet logits are not public: other networks on CIFAR-100 and
CIFAR-10 take their place.

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
from calibrant.calibrators import Calibrator, MatrixScaling
from calibrant.core.curves import local_curve
from calibrant.core.inputs import Forecast, check_forecast
from calibrant.core.links import softmax
from calibrant.core.options import check_rng
from calibrant.core.tables import mass_bins, value_table, width_bins
from calibrant.datasets import draw_labels
from calibrant.estimators import Binned
from calibrant.views import ClassK, Classwise, Pooled
from calibrant_papers.studies.arrays import build
from calibrant_papers.studies.label_noise import label_noise
from calibrant_papers.studies.learning_curves import make_method
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult
from calibrant_papers.targets.sources import Rows, load, rows_of, split_of

__all__ = ["TARGETS"]

METHODS = {"temperature": "ts-nll", "vector": "vs", "matrix": "", "isotonic": "irova"}
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


def _halves(data: Path | None, name: str, seed: int) -> tuple[Rows, Rows]:
    """Return calibration and test rows of one split: random halves of all rows that were never trained on."""
    parts = [rows_of(data, name, part) for part in ("cal", "test") if f"labels_{part}" in load(data, name)]
    whole = Rows(
        np.concatenate([part.labels for part in parts]), np.concatenate([part.scores for part in parts]), parts[0].space
    )
    order = np.random.default_rng(seed).permutation(len(whole.labels))
    return whole.take(order[: len(order) // 2]), whole.take(order[len(order) // 2 :])


def _fitted(title: str, cal: Rows) -> Calibrator:
    """Return a method of the table, fitted; matrix scaling has no penalty, as in the paper."""
    if title == "matrix":
        return MatrixScaling(odir=(0.0, 0.0), space=cal.space).fit(cal.scores, cal.labels)
    return make_method(METHODS[title], cal.space).fit(cal.scores, cal.labels)


@lru_cache(maxsize=16)
def _measured(data: Path | None, name: str, matrix: bool, seed: int) -> dict[str, dict[str, float]]:
    """Return the four metrics, in percent, of every method fitted on the calibration rows of one split."""
    cal, test = _halves(data, name, seed)
    found = {}
    for title in ("uncalibrated", *METHODS):
        if title == "matrix" and not matrix:
            continue
        if title == "uncalibrated":
            p = test.scores if test.space == "proba" else softmax(test.scores)
        else:
            p = _fitted(title, cal).predict_proba(test.scores)
        forecast = check_forecast(test.labels, p, caller="reproduce")
        found[title] = {m: 100 * build(spec).value(forecast) for m, spec in MEASURES.items()}
    return found


def _ranking(found: dict[str, dict[str, float]], measure: str) -> list[str]:
    return sorted(found, key=lambda method: found[method][measure])


def _claims(found: list[dict[str, dict[str, float]]]) -> list[Finding]:
    """Section 8.5 of [1] as claims over splits."""

    def pair(a: str, b: str, measure: str) -> str:
        means = [np.mean([row[m][measure] for row in found]) for m in (a, b)]
        return f"{measure} {means[0]:.3g}% against {means[1]:.3g}%"

    others = [m for m in found[0] if m not in ("uncalibrated", "temperature")]
    best = {
        m: [_ranking({k: v for k, v in row.items() if k != "uncalibrated"}, m)[0] for row in found] for m in MEASURES
    }
    won = "; ".join(f"{m}: {', '.join(names)}" for m, names in best.items())
    claims = [
        Finding.over(
            "temperature scaling has the lowest ECE of all methods",
            [all(row["temperature"]["ECE"] < row[m]["ECE"] for m in others) for row in found],
            measured=f"lowest by split: {', '.join(best['ECE'])}",
            reason="methods differ by less than the noise of an ECE of this many rows",
            novelty="TS by NLL",
        ),
        Finding.over(
            "vector scaling has a lower SCE than temperature scaling",
            [row["vector"]["SCE"] < row["temperature"]["SCE"] for row in found],
            measured=pair("vector", "temperature", "SCE"),
            reason="one scale for each class needs more calibration rows",
            novelty="VS",
        ),
        Finding.over(
            "vector scaling has a lower ACE than temperature scaling",
            [row["vector"]["ACE"] < row["temperature"]["ACE"] for row in found],
            measured=pair("vector", "temperature", "ACE"),
            reason="one scale for each class needs more calibration rows",
            novelty="VS",
        ),
        Finding.over(
            "temperature scaling has the lowest TACE: thresholding leaves what ECE sees",
            [all(row["temperature"]["TACE"] < row[m]["TACE"] for m in others) for row in found],
            measured=f"lowest by split: {', '.join(best['TACE'])}",
            reason="the methods are within noise of each other",
            novelty="TS by NLL",
        ),
        Finding.over(
            "the best method by ECE is not the best by SCE or not the best by ACE",
            [len({best[m][i] for m in ("ECE", "SCE", "ACE")}) > 1 for i in range(len(found))],
            measured=won,
            reason="one method wins all of them here",
            novelty="all classes",
        ),
    ]
    if "matrix" in found[0]:
        claims.append(
            Finding.over(
                "matrix scaling without a penalty has a larger ECE than temperature scaling: it overfits",
                [row["matrix"]["ECE"] > row["temperature"]["ECE"] for row in found],
                measured=pair("matrix", "temperature", "ECE"),
                reason="enough rows for its weights",
                novelty="no penalty",
            )
        )
    return claims


def _table(
    target: str, name: str, published: dict[str, tuple[float, ...]], title: str, quick: bool, data: Path | None
) -> TargetResult:
    many = name.startswith("cifar100")
    found = [_measured(data, name, not (quick and many), seed) for seed in range(MIN_SEEDS)]
    lines = [
        Line(f"{method}: {measure}%", float(np.mean([row[method][measure] for row in found])), published[method][i])
        for method in found[0]
        for i, measure in enumerate(MEASURES)
    ]
    findings = _claims(found)
    if target == "nixon-table-2":
        findings.append(Finding.no_data("the same on a ResNet-50 on ImageNet", "logits of all 1,000 classes"))
    cal, test = _halves(data, name, 0)
    size = f"{len(cal.labels):,} calibration and {len(test.labels):,} test rows"
    notes = (
        NOTE,
        "Means over random halves.",
        *(("The quick form leaves matrix scaling out.",) if quick and many else ()),
    )
    return TargetResult(
        target, "P", title, tuple(lines), tuple(findings), notes=notes, quick=quick, data=name, size=size
    )


def table_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Post-processing of a residual network on CIFAR-100."""
    del rng
    return _table(
        "nixon-table-1", "cifar100_wrn16_4", TABLE_1, "ECE, TACE, SCE, ACE in %, Wide-ResNet on CIFAR-100", quick, data
    )


def table_2(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Post-processing of another residual network: CIFAR-10 stands in for ImageNet."""
    del rng
    return _table(
        "nixon-table-2", "cifar10_resnet110", TABLE_2, "ECE, TACE, SCE, ACE in %, ResNet-110 on CIFAR-10", quick, data
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
    draws = [draw_labels(forecast.proba(), np.random.default_rng(seed)) for seed in range(MIN_SEEDS)]
    null = [_per_class(forecast.with_codes(labels)) for labels in draws]
    lines, findings, curves = [], [], {}
    for title in wanted:
        values = found[title]
        spread, calm = float(values.std() / values.mean()), [float(n[title].std() / n[title].mean()) for n in null]
        worst, best = float(values.max()), [float(n[title].max()) for n in null]
        curves[f"{title} by class"] = {"class": [float(i) for i in range(len(values))], title: values.tolist()}
        lines += [
            Line(f"{title}: mean over classes %", 100 * float(values.mean())),
            Line(f"{title}: largest class %", 100 * worst),
            Line(f"{title}: smallest class %", 100 * float(values.min())),
            Line(f"{title}: spread over classes / mean", spread, note=f"{np.mean(calm):.2f} if it were calibrated"),
        ]
        findings += [
            Finding.over(
                f"{title} is non-uniform: the worst class is a quarter worse than the worst of a calibrated network",
                [worst > 1.25 * value for value in best],
                measured=f"{100 * worst:.2f}% against {100 * np.mean(best):.2f}%",
                reason="noise of 50 rows for each class",
                novelty="miscalibration",
            ),
            Finding.over(
                f"{title} varies a tenth more over classes than noise alone would make it",
                [spread > 1.1 * value for value in calm],
                measured=f"spread over mean {spread:.2f} against {np.mean(calm):.2f}",
                reason="noise of 50 rows for each class",
                novelty="miscalibration",
            ),
        ]
    notes = (NOTE, "A seed draws the labels of a network that is calibrated; the network's own rows are fixed.")
    return TargetResult(
        target, "P", "error of every class, CIFAR-100", tuple(lines), tuple(findings), curves, notes, quick, name,
        f"{forecast.n:,} test rows of {forecast.n_classes} classes",
    )  # fmt: skip


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
    order = _rank(curves[names[2]])
    findings = (
        Finding(
            "most adaptive ranges lie at tiny probabilities",
            low[names[1]] > 0.5,
            measured=f"{low[names[1]]:.0%} below 0.01",
            reason="the network is not sure",
            novelty="adaptive ranges",
        ),
        Finding(
            "the threshold moves them to where decisions are made",
            low[names[2]] == 0 and low[names[1]] > 0,
            measured=f"{low[names[2]]:.0%} below 0.01",
            reason="the network is not sure",
            novelty="threshold of ranges",
        ),
        Finding(
            "above the threshold the frequencies rise with confidence (rank correlation above 0.8)",
            order > 0.8,
            measured=f"rank correlation {order:.2f}",
            reason="noise",
            novelty="test labels",
        ),
    )
    return TargetResult(
        "nixon-fig-2", "P", "reliability diagrams, even and adaptive ranges", lines, findings, curves, (NOTE,), quick,
        "cifar10_resnet110", f"{forecast.n:,} test rows",
    )  # fmt: skip


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
    below = _below(curves["class 3: local calibration"])
    findings = (
        Finding(
            "slower decay gives smoother curves, for both classes",
            all(v[0] > v[1] > v[2] > v[3] for v in spread.values()),
            measured="; ".join(f"class {k}: {v[0]:.2f} to {v[3]:.2f}" for k, v in spread.items()),
            reason="few rows between 0 and 1",
            novelty="decay",
        ),
        Finding(
            "softmax outputs are sharp: more than 90% lie near 0 or 1",
            sharp > 0.9,
            measured=f"{sharp:.1%}",
            reason="the network is not sure",
            novelty="confident forecasts",
        ),
        Finding(
            "the curve is below the diagonal in the upper half: overconfident",
            below < 0,
            measured=f"{100 * below:.1f} points on average",
            reason="the network is not overconfident",
            novelty="confident forecasts",
        ),
    )
    return TargetResult(
        "nixon-fig-4", "P", "datapoint-specific calibration", tuple(lines), findings, curves, (NOTE,), quick,
        "cifar10_resnet110", f"{forecast.n:,} test rows",
    )  # fmt: skip


def _below(panel: dict[str, list[float]]) -> float:
    """Return the mean of frequency less probability in the upper half."""
    x, y = np.array(panel["probability"]), np.array(panel["decay 0.9"])
    upper = x > 0.5
    return float((y[upper] - x[upper]).mean())


def _simulated(n: int, generator: np.random.Generator) -> Forecast:
    """Return an overconfident model of ten classes whose truth is known."""
    z = 2.0 * generator.standard_normal((n, 10))
    return check_forecast(draw_labels(softmax(z), generator), softmax(1.5 * z), caller="reproduce")


def figure_7(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Spread of the metrics against n, on a simulated model with known truth."""
    del data
    recipes = {m: build(spec) for m, spec in MEASURES.items()}
    sizes = (100, 300, 1000, 3000) if quick else (100, 200, 500, 1000, 2000, 5000, 10_000)
    repeats = 30 if quick else 100
    mean, spread = (np.empty((len(recipes), MIN_SEEDS, len(sizes))) for _ in range(2))
    for i, generator in enumerate(check_rng(rng, "reproduce").spawn(MIN_SEEDS)):
        for j, n in enumerate(sizes):
            drawn = [_simulated(n, generator) for _ in range(repeats)]
            values = np.array([[recipe.value(forecast) for recipe in recipes.values()] for forecast in drawn])
            mean[:, i, j], spread[:, i, j] = values.mean(axis=0), values.std(axis=0)
    names = list(recipes)
    means, spreads = ({m: v[k] for k, m in enumerate(names)} for v in (mean, spread))
    x = [float(n) for n in sizes]
    curves = {
        title: {"n": x, **{m: v.mean(axis=0).tolist() for m, v in found.items()}}
        for title, found in (("standard deviation", spreads), ("mean", means))
    }
    lines = [
        Line(f"n = {n}: standard deviation of {m}", float(v[:, j].mean()))
        for m, v in spreads.items()
        for j, n in enumerate(sizes)
    ]
    lines += [
        Line(f"n = {sizes[-1]}: standard deviation of {m} over its mean", float((v[:, -1] / means[m][:, -1]).mean()))
        for m, v in spreads.items()
    ]

    def at_end(found: dict[str, Floats]) -> str:
        return ", ".join(f"{m} {100 * v[:, -1].mean():.2g}%" for m, v in found.items())

    findings = (
        Finding.over(
            "the spread of every metric falls with n",
            (spread[:, :, -1] < spread[:, :, 0]).all(axis=0),
            measured=f"from {', '.join(f'{100 * v[:, 0].mean():.2g}%' for v in spreads.values())} to {at_end(spreads)}",
            reason="few draws",
            novelty="more simulated rows",
        ),
        Finding.over(
            "the mean of ECE is higher than that of TACE and ACE from the second n on",
            (means["ECE"] > np.maximum(means["ACE"], means["TACE"]))[:, 1:].all(axis=1),
            measured=f"at the largest n {at_end(means)}",
            reason="TACE keeps few small probabilities",
            novelty="all classes, simulated",
        ),
        Finding.over(
            "ACE varies less than ECE at every n",
            (spreads["ACE"] < spreads["ECE"]).all(axis=1),
            measured=f"at the largest n {at_end(spreads)}",
            reason="few draws",
            novelty="all classes, simulated",
        ),
    )
    notes = ("ECE (a top label) and ACE (a mean over classes) differ in scale: the last lines give spread over mean.",)
    return TargetResult(
        "nixon-fig-7", "S", "spread of the metrics against n", tuple(lines), findings, curves, notes, quick,
        "ten classes, simulated", f"{sizes[0]} … {sizes[-1]:,} rows, {MIN_SEEDS} × {repeats} draws",
    )  # fmt: skip


def figure_8(quick: bool, data: Path | None = None, rng: RNG = 0) -> TargetResult:
    """Label noise: ECE falls behind ACE and TACE."""
    del data
    models, n = (20, 1000) if quick else (60, 5000)
    seeds = check_rng(rng, "reproduce").integers(1 << 31, size=MIN_SEEDS)
    results = [label_noise(models=models, n=n, seed=int(seed)) for seed in seeds]
    rank = {
        (row["noise"], row["measure"]): np.array([result.rows[i]["rank_correlation"] for result in results])
        for i, row in enumerate(results[0].rows)
    }
    levels = sorted({noise for noise, _ in rank})
    lines = tuple(
        Line(f"noise {noise:g}: rank correlation of {m} with the true error", float(v.mean()))
        for (noise, m), v in rank.items()
    )
    lead = {m: np.array([rank[x, m] - rank[x, "ECE"] for x in levels]) for m in ("ACE", "TACE")}

    def seen(m: str) -> str:
        means = ", ".join(f"{v:.2f}" for v in lead[m].mean(axis=1))
        return f"lead of {m} in rank correlation {means}"

    findings = (
        Finding.over(
            "ACE follows the true error better than ECE at every noise level",
            (lead["ACE"] > 0).all(axis=0),
            measured=seen("ACE"),
            reason="few models",
            novelty="all classes under noise",
        ),
        Finding.over(
            "at the largest noise TACE does so too",
            lead["TACE"][-1] > 0,
            measured=seen("TACE"),
            reason="few models",
            novelty="all classes under noise",
        ),
        Finding.over(
            "the lead of ACE is larger with much noise than with little",
            lead["ACE"][2:].max(axis=0) > lead["ACE"][0],
            measured=seen("ACE"),
            reason="few models",
            novelty="all classes under noise",
        ),
    )
    notes = ("The paper prints no protocol: here outcomes follow softmax(z/x) and wrong models softmax((a·z + b)/x).",)
    return TargetResult(
        "nixon-fig-8", "S", "measures under label noise", lines, findings, results[0].curves, notes, quick,
        "ten classes, simulated", f"{MIN_SEEDS} × {models} models, {n:,} rows, {len(levels)} noise levels",
    )  # fmt: skip


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
