"""Mix-n-Match, Zhang et al. (2020): tables 1-4, learning curves of figures 1, 6, 11, 12 and 13.

The papers' CIFAR logits are not public: ResNet-110, LeNet-5, VGG-16 and Wide-ResNet-16-4 of other authors take
their place, and RVL-CDIP (16 classes, 39 931 rows) that of ImageNet, of which only top-5 scores are public.

References
----------
[1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, section 5.2 and appendix F.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from calibrant import metrics
from calibrant._typing import RNG, Array
from calibrant.core.inputs import check_pairs
from calibrant.estimators import KDE
from calibrant.metrics.recipes import CalibrationError
from calibrant.studies.frame import Cell, Row, Study, StudyResult, run_study
from calibrant.studies.learning_curves import learning_curves, make_method
from calibrant.studies.targets.result import Finding, Line, TargetResult
from calibrant.studies.targets.sources import Rows, load, rows_of, top_pairs
from calibrant.views import TopLabel

__all__ = ["TARGETS"]

METHODS = {
    "TS": "ts",
    "ETS": "ets",
    "IRM": "irm",
    "IROvA": "irova",
    "IROvA-TS": "irova-ts",
    "Dir-ODIR": "dir-odir",
    "GPC": "gpc",
    "order preserving (ours)": "diag",
}
#: Published rows: ResNet 110, CIFAR-10 (other logits than ours): uncalibrated, TS, ETS, IRM, IROvA, IROvA-TS, Dir, GPC.
TABLE_1 = (4.25, 2.05, 2.05, 1.53, 1.45, 1.39, 1.82, 1.40)
TABLE_2 = (0.821, 0.821, 0.976, 1.11, 1.15, 1.13, 1.02)
SETS = ("cifar10_resnet110", "cifar10_lenet5", "cifar10_vgg16", "cifar100_wrn16_4")
NOTE = "The published logits are not these; published numbers stand beside ours for their size only."


def _all_rows(data: Path | None, name: str) -> Rows:
    test = rows_of(data, name)
    if "labels_cal" not in load(data, name):
        return test
    cal = rows_of(data, name, "cal")
    return Rows(np.concatenate([cal.labels, test.labels]), np.concatenate([cal.scores, test.scores]), test.space)


def _one_split(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:
    """Fit every method on 5000 random rows; KDE ECE and Brier of the rest, in percent."""
    labels, scores, space = arrays["labels"], arrays["scores"], cell["space"]
    order = rng.permutation(len(labels))
    cal, test = order[:5000], order[5000:]
    before = metrics.brier_score(labels[test], scores[test], space=space)
    rows = [
        {
            "method": "uncalibrated",
            "ece": 100 * metrics.kde_calibration_error(labels[test], scores[test], space=space),
            "gain": 0.0,
        }
    ]
    for title in cell["methods"]:
        after = make_method(METHODS[title], space).fit(scores[cal], labels[cal]).predict_proba(scores[test])
        gain = 100 * (before - metrics.brier_score(labels[test], after))  # [1] eq. (7)
        rows.append({"method": title, "ece": 100 * metrics.kde_calibration_error(labels[test], after), "gain": gain})
    return rows


@lru_cache(maxsize=8)
def _splits(data: Path | None, name: str, quick: bool) -> dict[str, tuple[float, float, float, float]]:
    """Return mean and spread of KDE ECE and of the calibration gain over random splits, by method."""
    rows = _all_rows(data, name)
    methods = [title for title in METHODS if not quick or title not in ("Dir-ODIR", "GPC")]
    cells = tuple({"split": i, "methods": methods, "space": rows.space} for i in range(3 if quick else 100))
    study = Study("zhang-tables", _one_split, cells, {"labels": rows.labels, "scores": rows.scores})
    found: dict[str, list[tuple[float, float]]] = {}
    for row in run_study(study):
        found.setdefault(row["method"], []).append((row["ece"], row["gain"]))
    out = {}
    for method, values in found.items():
        mean, std = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
        out[method] = (float(mean[0]), float(std[0]), float(mean[1]), float(std[1]))
    return out


def table_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Top-label ECE¹ by KDE over random splits."""
    del rng
    correct, confidence = top_pairs(data, "imagenet_densenet161_top1")
    generator, values = np.random.default_rng(0), []
    for _ in range(40):
        half = generator.permutation(len(correct))[:25_000]
        forecast = check_pairs(correct[half], confidence[half], caller="reproduce")
        values.append(100 * CalibrationError(TopLabel(), KDE(), 1).value(forecast))
    note = f"mean of {len(values)} random halves, which vary by ± {np.std(values):.2f}; independent code 5.116"
    lines = [Line("ImageNet DenseNet-161, uncalibrated", float(np.mean(values)), 5.09, note, (5.056, 5.176))]
    falls = []
    for name in SETS[:1] if quick else SETS:
        found = _splits(data, name, quick)
        for i, (method, value) in enumerate(found.items()):
            published = TABLE_1[i] if name == SETS[0] and not quick and i < len(TABLE_1) else None
            lines.append(Line(f"{name}: {method}", value[0], published, f"± {value[1]:.2g} over splits"))
        falls += [value[0] < found["uncalibrated"][0] for method, value in found.items() if method != "uncalibrated"]
    first = _splits(data, SETS[0], quick)
    findings = (
        Finding(
            "every method lowers the ECE of CIFAR-10 ResNet-110",
            all(v[0] < first["uncalibrated"][0] for m, v in first.items() if m != "uncalibrated"),
        ),
        Finding("ETS is not worse than TS", first["ETS"][0] <= first["TS"][0] + 0.05),
        Finding("at least nine in ten of all fits lower the error", sum(falls) >= 0.9 * len(falls)),
    )
    return TargetResult(
        "zhang-table-1", "E", "top-label ECE¹ in %, KDE", tuple(lines), findings, notes=(NOTE,), quick=quick
    )


def table_2(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Calibration gain over random splits."""
    del rng
    lines, kept = [], []
    for name in SETS[:1] if quick else SETS:
        found = _splits(data, name, quick)
        for i, (method, value) in enumerate(list(found.items())[1:]):
            published = TABLE_2[i] if name == SETS[0] and not quick and i < len(TABLE_2) else None
            lines.append(Line(f"{name}: {method}", value[2], published, f"± {value[3]:.2g} over splits"))
        kept += [found[m][2] for m in ("TS", "ETS", "IRM")]
    first = _splits(data, SETS[0], quick)
    findings = (
        Finding("TS, ETS and IRM gain on CIFAR-10 ResNet-110", min(first[m][2] for m in ("TS", "ETS", "IRM")) > 0),
        Finding("ETS gains at least as much as TS", first["ETS"][2] >= first["TS"][2] - 0.005),
        Finding("accuracy-preserving methods lose nowhere more than 0.05", min(kept) > -0.05),
    )
    notes = (NOTE, "For maps that are not injective the gain is a lower bound of the true one.")
    return TargetResult(
        "zhang-table-2", "P", "calibration gain ΔECE² in %", tuple(lines), findings, notes=notes, quick=quick
    )


# -- learning curves ------------------------------------------------------------------------------

LEARNERS = ("ts", "ets", "irm", "irova", "irova-ts")


@lru_cache(maxsize=8)
def _curves(data: Path | None, name: str, quick: bool) -> StudyResult:
    rows = _all_rows(data, name)
    n = len(rows.labels)
    test = 5000 if n > 10_500 else n // 2
    room = min(n - test, 10_000)
    sizes = (128, 1024, room) if quick else [*(128 * 2**i for i in range(10) if 128 * 2**i < room), room]
    return learning_curves(
        rows.labels,
        rows.scores,
        space=rows.space,
        methods=LEARNERS,
        sizes=sizes,
        n_test=test,
        repeats=2 if quick else 30,
    )


def _series(result: StudyResult, method: str, key: str) -> list[float]:
    return [row[key] for row in sorted((r for r in result.rows if r["method"] == method), key=lambda r: r["rows"])]


def _needed(result: StudyResult, method: str) -> float:
    """Calibration rows `method` needs for the ECE that IRM has with 128, in units of 128 (inf: not reached)."""
    x = np.log(_series(result, method, "rows"))
    y, goal = np.array(_series(result, method, "KDE ECE")), _series(result, "irm", "KDE ECE")[0]
    reached = np.flatnonzero(y <= goal)
    if len(reached) == 0:
        return float("inf")
    i = int(reached[0])
    if i == 0:
        return 1.0
    share = (y[i - 1] - goal) / (y[i - 1] - y[i])
    return float(np.exp(x[i - 1] + share * (x[i] - x[i - 1])) / 128)


def _claims(name: str, result: StudyResult) -> list[Finding]:
    none = _series(result, "none", "accuracy")
    kept = max(
        abs(a - b) for m in ("ts", "ets", "irm") for a, b in zip(_series(result, m, "accuracy"), none, strict=True)
    )
    lost = none[0] - _series(result, "irova", "accuracy")[0]
    final = {m: _series(result, m, "KDE ECE")[-1] for m in ("ts", "ets")}
    return [
        Finding(f"{name}: TS, ETS and IRM keep the accuracy", kept < 2e-3),
        Finding(f"{name}: IROvA loses accuracy with 128 rows", lost > 0),
        Finding(f"{name}: with all rows ETS is not worse than TS", final["ets"] <= 1.03 * final["ts"] + 2e-4),
    ]


def _figure(
    target: str, names: tuple[str, ...], title: str, quick: bool, data: Path | None, notes: tuple[str, ...]
) -> TargetResult:
    lines, findings, curves = [], [], {}
    for name in names:
        result = _curves(data, name, quick)
        for key in ("KDE ECE", "accuracy"):
            curves[f"{name}: {key}"] = {
                "n calibration rows": [float(v) for v in _series(result, "none", "rows")],
                **{m: _series(result, m, key) for m in ("none", *LEARNERS)},
            }
        smallest, largest = int(_series(result, "none", "rows")[0]), int(_series(result, "none", "rows")[-1])
        for method in ("none", *LEARNERS):
            ece, acc = _series(result, method, "KDE ECE"), _series(result, method, "accuracy")
            lines += [
                Line(f"{name}, {method}: ECE % with {smallest} rows", 100 * ece[0]),
                Line(f"{name}, {method}: ECE % with {largest} rows", 100 * ece[-1]),
                Line(f"{name}, {method}: accuracy % with {smallest} rows", 100 * acc[0]),
            ]
        findings += _claims(name, result)
        factor = _needed(result, "irova")
        lines.append(Line(f"{name}: rows IROvA needs for IRM's error with 128", factor, note="in units of 128"))
        findings.append(Finding(f"{name}: IRM is more data-efficient than IROvA", factor > 1))
    return TargetResult(target, "P", title, tuple(lines), tuple(findings), curves, (NOTE, *notes), quick)


def figure_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """TS against isotonic regression, and what ETS, IRM and composition add."""
    del rng
    return _figure("zhang-fig-1", ("cifar100_wrn16_4",), "learning curves: TS, IR and the proposals", quick, data, ())


def figure_6(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Learning curves of wide residual networks."""
    del rng
    names = ("cifar100_wrn16_4",) if quick else ("cifar10_resnet110", "cifar100_wrn16_4")
    return _figure("zhang-fig-6", names, "learning curves, wide residual networks", quick, data, ())


def figure_11(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Learning curves on CIFAR-10."""
    del rng
    names = ("cifar10_resnet110",) if quick else ("cifar10_resnet110", "cifar10_lenet5", "cifar10_vgg16")
    return _figure("zhang-fig-11", names, "learning curves, CIFAR-10", quick, data, ())


def figure_12(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Learning curves on CIFAR-100."""
    del rng
    return _figure("zhang-fig-12", ("cifar100_wrn16_4",), "learning curves, CIFAR-100", quick, data, ())


def figure_13(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Learning curves on a large set."""
    del rng
    note = "ImageNet's full vectors are not public: RVL-CDIP, under-confident, stands in."
    return _figure("zhang-fig-13", ("rvlcdip_dit_first",), "learning curves, a large set", quick, data, (note,))


def table_3(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """ECE¹ of TS and ETS with all calibration rows: expressive power."""
    del rng
    published = {"cifar10_resnet110": (2.12, 2.12), "cifar100_wrn16_4": (3.23, 2.85), "cifar10_lenet5": (1.49, 1.48)}
    lines, worse = [], []
    for name in ("cifar10_resnet110", "cifar100_wrn16_4") if quick else published:
        result = _curves(data, name, quick)
        values = {m: 100 * _series(result, m, "KDE ECE")[-1] for m in ("ts", "ets")}
        rows = int(_series(result, "none", "rows")[-1])
        lines += [
            Line(f"{name}: {m.upper()} with {rows} rows", value, printed)
            for (m, value), printed in zip(values.items(), published[name], strict=True)
        ]
        worse.append(values["ets"] - values["ts"])
    findings = (Finding("ETS is at least as expressive as TS on every set", max(worse) <= 0.05),)
    return TargetResult(
        "zhang-table-3", "P", "ECE¹ in % with all calibration rows", tuple(lines), findings, notes=(NOTE,), quick=quick
    )


def table_4(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """How many rows equal one row of IRM."""
    del rng
    published = {"cifar10_resnet110": (1.84, 1.70), "cifar100_wrn16_4": (24.2, 15.6), "cifar10_lenet5": (3.15, 2.92)}
    lines, factors = [], {}
    for name in ("cifar10_resnet110", "cifar100_wrn16_4") if quick else published:
        result = _curves(data, name, quick)
        for method, printed in zip(("irova", "irova-ts"), published[name], strict=True):
            factors[name, method] = _needed(result, method)
            lines.append(Line(f"{name}: {method}", factors[name, method], printed, "inf: not reached with all rows"))
    findings = (
        Finding(
            "IROvA needs more rows than IRM on every set", all(v > 1 for (_, m), v in factors.items() if m == "irova")
        ),
        Finding(
            "with 100 classes the factor is larger than with 10",
            factors["cifar100_wrn16_4", "irova"] > factors["cifar10_resnet110", "irova"],
        ),
    )
    return TargetResult(
        "zhang-table-4", "P", "rows equal to one row of IRM", tuple(lines), findings, notes=(NOTE,), quick=quick
    )


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "zhang-fig-1": figure_1,
    "zhang-table-1": table_1,
    "zhang-table-2": table_2,
    "zhang-fig-6": figure_6,
    "zhang-table-3": table_3,
    "zhang-table-4": table_4,
    "zhang-fig-11": figure_11,
    "zhang-fig-12": figure_12,
    "zhang-fig-13": figure_13,
}
