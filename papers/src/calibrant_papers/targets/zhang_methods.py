"""Mix-n-Match, Zhang et al. (2020): tables 1 and 2, every method on random splits.

The papers' CIFAR logits are not public: ResNet-110, LeNet-5, VGG-16 and Wide-ResNet-16-4 of other authors take
their place. Splits come in five seeds; a claim is judged by the mean over the splits of each seed.

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
from calibrant.estimators import KDE, CalibrationError
from calibrant.views import TopLabel
from calibrant_papers.studies.frame import Cell, Row, Study, run_study
from calibrant_papers.studies.learning_curves import make_method
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult
from calibrant_papers.targets.sources import all_rows, top_pairs
from calibrant_papers.targets.zhang_curves import MANY, NAMES, NOTE, curves_of, lower, mean_text, series

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
#: Methods of the quick form; the others are slow and no claim compares them.
CORE = ("TS", "ETS", "IRM", "IROvA", "IROvA-TS")
#: Published rows of the nearest network: uncalibrated, TS, ETS, IRM, IROvA, IROvA-TS, Dir-ODIR, GPC.
TABLE_1: dict[str, tuple[float, ...]] = {
    "cifar10_resnet110": (4.25, 2.05, 2.05, 1.53, 1.45, 1.39, 1.82, 1.40),
    "cifar10_lenet5": (1.42, 1.16, 1.13, 1.19, 1.26, 1.26, 1.29, 1.14),
    "cifar10_vgg16": (),
    "cifar100_wrn16_4": (4.41, 3.24, 2.80, 3.16, 3.45, 2.92, 3.11, 1.58),
}
TABLE_2: dict[str, tuple[float, ...]] = {
    "cifar10_resnet110": (0.0, 0.821, 0.821, 0.976, 1.11, 1.15, 1.13, 1.02),
    "cifar10_lenet5": (0.0, 0.027, 0.028, -0.028, -0.004, -0.007, -0.119, 0.022),
    "cifar10_vgg16": (),
    "cifar100_wrn16_4": (0.0, 0.204, 0.263, 0.534, 0.134, 0.218, 0.0289, 0.841),
}
#: Minutes per fit with 100 classes.
SLOW = ("Dir-ODIR", "GPC")
QUICK_SETS = ("cifar10_resnet110", MANY)
CAL = 5000


def _one_split(cell: Cell, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Row]:
    """Fit every method on 5000 random rows; KDE ECE and Brier of the rest, in percent."""
    labels, scores, space = arrays["labels"], arrays["scores"], cell["space"]
    order = rng.permutation(len(labels))
    cal, test = order[:CAL], order[CAL:]
    before = metrics.brier_score(labels[test], scores[test], space=space)
    ece = 100 * metrics.kde_calibration_error(labels[test], scores[test], space=space)
    rows: list[Row] = [{"seed": cell["seed"], "method": "uncalibrated", "ece": ece, "gain": 0.0}]
    for title in cell["methods"]:
        after = make_method(METHODS[title], space).fit(scores[cal], labels[cal]).predict_proba(scores[test])
        gain = 100 * (before - metrics.brier_score(labels[test], after))  # [1] eq. (7)
        ece = 100 * metrics.kde_calibration_error(labels[test], after)
        rows.append({"seed": cell["seed"], "method": title, "ece": ece, "gain": gain})
    return rows


def _repeats(title: str, quick: bool) -> int:
    """Splits per seed: 20 (100 in all, as in the paper) where claims are judged, one for the others."""
    return 1 if quick or title not in CORE else 20


Found = dict[str, dict[str, list[float]]]


@lru_cache(maxsize=8)
def _splits(data: Path | None, name: str, quick: bool) -> Found:
    """Return measure -> method -> means over the splits of each seed."""
    if quick and name == MANY:
        return _ends(data)
    rows = all_rows(data, name)
    titles = CORE if quick else tuple(t for t in METHODS if name != MANY or t not in SLOW)
    cells = tuple(
        {
            "seed": seed,
            "split": i,
            "methods": [t for t in titles if i < _repeats(t, quick)],
            "space": rows.space,
        }
        for seed in range(MIN_SEEDS)
        for i in range(_repeats("TS", quick))
    )
    study = Study("zhang-tables", _one_split, cells, {"labels": rows.labels, "scores": rows.scores})
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in run_study(study):
        groups.setdefault((row["method"], row["seed"]), []).append(row)
    return {
        key: {
            title: [float(np.mean([r[key] for r in groups[title, seed]])) for seed in range(MIN_SEEDS)]
            for title in ("uncalibrated", *titles)
        }
        for key in ("ece", "gain")
    }


def _ends(data: Path | None) -> Found:
    """The ends of the learning curves: the same 5000 and 5000 rows, fitted anyway for the figures."""
    found: Found = {"ece": {}, "gain": {}}
    for title, short in {
        "uncalibrated": "none",
        **{NAMES[m]: m for m in ("ts", "ets", "irm", "irova", "irova-ts")},
    }.items():
        curves = curves_of(data, MANY, True)
        found["ece"][title] = [100 * series(c, short)[-1] for c in curves]
        found["gain"][title] = [100 * (series(c, "none", "Brier")[-1] - series(c, short, "Brier")[-1]) for c in curves]
    return found


def _lines(found: Found, name: str, key: str, published: tuple[float, ...]) -> list[Line]:
    lines = []
    for method, values in found[key].items():
        if key == "gain" and method == "uncalibrated":
            continue
        i = ("uncalibrated", *METHODS).index(method)
        printed = published[i] if i < len(published) else None
        note = f"± {np.std(values, ddof=1):.2g} over seeds"
        lines.append(Line(f"{name}: {method}", float(np.mean(values)), printed, note))
    return lines


#: Why a method need not beat IROvA on these splits.
WHY = {
    "ETS": "its weights stay near the corner (1, 0, 0)",
    "IRM": f"{CAL:,} rows are enough for one isotonic map per class; the learning curves show IRM ahead with 128",
    "IROvA-TS": f"{CAL:,} rows teach isotonic regression what a temperature would",
}


def _reason(ours: str, name: str, table: dict[str, tuple[float, ...]], a: int, b: int) -> str:
    row = table[name]
    printed = f"; the paper's row of the nearest network prints {row[a]:g} against {row[b]:g}" if row else ""
    return WHY[ours] + printed


def _pair_claims(found: Found, name: str, key: str, table: dict[str, tuple[float, ...]]) -> list[Finding]:
    """The claims of [1] section 5.2: ETS over TS; IRM and IROvA-TS over IROvA."""
    sign, better = (1, "a lower ECE") if key == "ece" else (-1, "a larger gain")
    values, order = found[key], ("uncalibrated", *METHODS)
    claims = []
    for ours, base in (("ETS", "TS"), ("IRM", "IROvA"), ("IROvA-TS", "IROvA")):
        measured = mean_text(ours, values[ours], base, values[base])
        pairs = list(zip(values[ours], values[base], strict=True))
        if ours == "ETS" and name != MANY:  # [1] appendix F.2: comparable on CIFAR-10
            claims.append(
                Finding.over(
                    f"{name}: ETS is comparable to TS (within 0.05 points)",
                    [abs(a - b) < 0.05 for a, b in pairs],
                    measured=measured,
                    reason="its weights leave the corner (1, 0, 0)",
                    novelty="ETS fits at all",
                )
            )
            continue
        claims.append(
            Finding.over(
                f"{name}: {ours} has {better} than {base}",
                [lower(sign * a, sign * b) for a, b in pairs],
                measured=measured,
                reason=_reason(ours, name, table, order.index(ours), order.index(base)),
                novelty=ours,
            )
        )
    return claims


def _size(quick: bool) -> str:
    return f"{CAL:,} calibration rows, the rest test; {MIN_SEEDS} × {_repeats('TS', quick)} random splits"


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
    sets, findings = QUICK_SETS if quick else tuple(TABLE_1), []
    for name in sets:
        found = _splits(data, name, quick)
        lines += _lines(found, name, "ece", TABLE_1[name])
        findings += _pair_claims(found, name, "ece", TABLE_1)
        before = found["ece"]["uncalibrated"]
        findings += [
            Finding.over(
                f"{name}: {method} lowers the ECE",
                [lower(a, b) for a, b in zip(found["ece"][method], before, strict=True)],
                measured=mean_text("after", found["ece"][method], "before", before),
                reason="the scores are nearly calibrated before",
                novelty="calibration",
            )
            for method in CORE
        ]
    findings.append(
        Finding.no_data(
            "ImageNet: ETS, IRM and IROvA-TS beat their baselines",
            "ImageNet scores of all 1,000 classes; public files hold the five largest",
        )
    )
    names = ", ".join(("imagenet_densenet161_top1", *sets))
    return TargetResult(
        "zhang-table-1",
        "E",
        "top-label ECE¹ in %, KDE",
        tuple(lines),
        tuple(findings),
        notes=(
            NOTE,
            "ETS on 10 classes: the weights end in the corner (1, 0, 0), so ETS is TS, as in the paper.",
            "Full form: Dir-ODIR, GPC and ours on one split per seed; the first two not with 100 classes (minutes).",
        ),
        quick=quick,
        data=names,
        size=_size(quick),
    )


def _rank_correlation(found: Found, seed: int) -> float:
    from scipy.stats import spearmanr

    methods = [m for m in found["ece"] if m != "uncalibrated"]
    ece, gain = ([found[key][m][seed] for m in methods] for key in ("ece", "gain"))
    if not (np.ptp(ece) and np.ptp(gain)):
        return 0.0  # all alike: no order to agree with
    return float(spearmanr(ece, [-value for value in gain])[0])


def table_2(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Calibration gain over random splits."""
    del rng
    lines, findings = [], []
    sets = QUICK_SETS if quick else tuple(TABLE_2)
    for name in sets:
        found = _splits(data, name, quick)
        lines += _lines(found, name, "gain", TABLE_2[name])
        findings += _pair_claims(found, name, "gain", TABLE_2)
        findings += [
            Finding.over(
                f"{name}: {method} gains",
                [lower(0.0, value) for value in found["gain"][method]],
                measured=f"{np.mean(found['gain'][method]):.3g}%",
                reason="the scores are nearly calibrated before",
                novelty="calibration",
            )
            for method in ("TS", "ETS", "IRM")
        ]
        agreement = [_rank_correlation(found, seed) for seed in range(MIN_SEEDS)]
        findings.append(
            Finding.over(
                f"{name}: methods rank by gain as by ECE (rank correlation above 0.5)",
                [value > 0.5 for value in agreement],
                measured=f"rank correlation {np.mean(agreement):.2f}",
                reason="isotonic maps merge scores: the sharpness they lose is taken off their gain, not off their ECE",
                novelty="calibration gain",
            )
        )
    notes = (NOTE, "For maps that are not one-to-one the gain is a lower bound of the true one.")
    return TargetResult(
        "zhang-table-2",
        "P",
        "calibration gain ΔECE² in %",
        tuple(lines),
        tuple(findings),
        notes=notes,
        quick=quick,
        data=", ".join(sets),
        size=_size(quick),
    )


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "zhang-table-1": table_1,
    "zhang-table-2": table_2,
}
