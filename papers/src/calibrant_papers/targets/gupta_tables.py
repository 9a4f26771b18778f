"""Splines, Gupta et al. (2021): tables 1, 2, 4 and 6, the spline beside its baselines.

References
----------
[1] Gupta et al. (2021), "Calibration of Neural Networks using Splines", ICLR.
[2] Kull et al. (2019), "Beyond temperature scaling", NeurIPS (baselines VS, MS-ODIR, Dir-ODIR).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calibrant import metrics
from calibrant._typing import RNG, Array, Bools, Floats
from calibrant.calibrators._natural_spline import NaturalBasis, fit_curve
from calibrant.core.inputs import check_pairs
from calibrant.core.links import softmax
from calibrant.core.pav import pool_ties
from calibrant.estimators import Binned, CalibrationError, Cumulative
from calibrant.views import TopLabel
from calibrant_papers.studies.learning_curves import make_method
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult
from calibrant_papers.targets.sources import Rows, Split, published, split_of, top_pairs

__all__ = [
    "BAND",
    "COLUMNS",
    "MAIN",
    "PUBLISHED",
    "TARGETS",
    "ece25",
    "fit_published",
    "forecasts",
    "ks",
    "proba",
    "ranked",
    "spline_curve",
    "spline_scores",
    "tempered",
]

MAIN = "cifar10_resnet110"
#: Other full vectors of the data folder: the same protocol, our numbers.
OTHERS = (
    "cifar10_resnet50_focal",
    "mmlu_llama31_8b_instruct",
    "cifar10_lenet5",
    "cifar100_wrn16_4",
    "rvlcdip_dit_first",
    "cifar10_vgg16",
)
BASELINES = {"vector scaling": "vs", "MS-ODIR": "ms-odir", "Dir-ODIR": "dir-odir"}
#: Published rows, CIFAR-10 ResNet-110: uncalibrated, temperature, vector, MS-ODIR, Dir-ODIR, spline.
PUBLISHED: dict[str, tuple[float, ...]] = {
    "table-1": (4.750, 0.916, 0.996, 0.977, 1.060, 0.643),
    "table-2": (3.011, 0.947, 0.948, 0.598, 0.953, 0.347),
    "table-4": (1.805, 0.097, 0.176, 0.140, 0.195, 0.277),
    "table-5": (93.56, 93.56, 93.50, 93.53, 93.52, 93.55),
    "table-6": (4.750, 1.224, 1.092, 1.276, 1.240, 1.011),
}
COLUMNS = ("uncalibrated", "temperature", "vector scaling", "MS-ODIR", "Dir-ODIR")
#: Test log-loss of the baselines in [2].
NLL = {"vector scaling": 0.206245, "MS-ODIR": 0.203753, "Dir-ODIR": 0.205106}
ROUNDING = 0.002
#: Points a baseline may differ by: [2] averages five cross-validation fits by another solver, ours is one fit.
BAND = 0.1
#: [1] section 6 calls a gap below 0.3 points marginal.
MARGINAL = 0.3
Measure = Callable[[Array, Floats], float]


def proba(rows: Rows) -> Floats:
    """Return rows as probabilities in float64."""
    return softmax(rows.scores) if rows.space == "logit" else rows.scores.astype(np.float64)


@lru_cache(maxsize=64)
def tempered(data: Path | None, name: str, seed: int = 0) -> Floats:
    """Return the test probabilities after temperature scaling by log-loss."""
    cal, test, _ = split_of(data, name, seed)
    return make_method("ts-nll", cal.space).fit(cal.scores, cal.labels).predict_proba(test.scores)


@lru_cache(maxsize=4)
def forecasts(data: Path | None, name: str) -> dict[str, Floats]:
    """Return the test probabilities of every column of the tables."""
    cal, test, _ = split_of(data, name)
    found = {"uncalibrated": proba(test), "temperature": tempered(data, name)}
    for title, short in BASELINES.items():
        found[title] = make_method(short, cal.space).fit(cal.scores, cal.labels).predict_proba(test.scores)
    return found


def ranked(p: Array, y: Array, r: int, within: bool) -> tuple[Floats, Array]:
    """Return the r-th largest score (or the sum of the r largest) and whether the truth is there."""
    order = np.argsort(-p, axis=1, kind="stable")[:, :r]
    score, hit = np.take_along_axis(p, order, axis=1), order == y[:, None]
    return (score.sum(axis=1), hit.any(axis=1)) if within else (score[:, -1], hit[:, -1])


def spline_curve(score: Floats, hit: Array, n_knots: int) -> Callable[[Floats], Floats]:
    """Fit the spline to single scores and return the map of scores."""
    table = pool_ties(score, hit, np.ones(len(score)))
    thresholds, values, _ = fit_curve(table, n_knots, monotone=False)
    return lambda new: np.clip(np.interp(new, thresholds, values), 0.0, 1.0)


def fit_published(score: Floats, hit: Bools, n_knots: int) -> tuple[Floats, Floats, Floats]:
    """Return the curve of the authors' program to the letter, as knots of a piecewise linear map.

    Rows stay in the order they came in where scores tie, the first row sits at fractile 0, and the two weights of the
    interpolation are swapped: between two calibration scores the map runs from the later value to the earlier one and
    jumps at the scores. A jump is written as two knots one float apart.
    """
    basis = NaturalBasis(n_knots)
    order = np.argsort(score, kind="stable")
    ordered, n = score[order].astype(np.float64), len(score)
    x = np.linspace(0.0, 1.0, n)
    gap = np.cumsum(hit[order] - ordered) / n
    coefficients = np.linalg.lstsq(basis.spline(x), gap, rcond=None)[0]
    fitted = ordered + basis.spline(x, 1) @ coefficients
    first = np.flatnonzero(np.append(True, ordered[1:] > ordered[:-1]))
    last = np.append(first[1:], n) - 1
    arrive = np.append(fitted[first[0]], fitted[last[:-1]])
    leave = np.append(fitted[first[1:]], fitted[-1])
    knots = np.stack([ordered[first], np.nextafter(ordered[first], 2.0)], axis=1).ravel()
    return knots, np.stack([arrive, leave], axis=1).ravel(), coefficients


def ks(hit: Array, score: Floats) -> float:
    """KS error of one score in percent."""
    forecast = check_pairs(hit, np.clip(score, 0.0, 1.0), caller="reproduce")
    return 100 * CalibrationError(TopLabel(), Cumulative()).value(forecast)


def ece25(hit: Array, score: Floats) -> float:
    """ECE with 25 bins in percent."""
    forecast = check_pairs(hit, np.clip(score, 0.0, 1.0), caller="reproduce")
    return 100 * CalibrationError(TopLabel(), Binned(25), 1).value(forecast)


def spline_scores(split: Split, r: int, within: bool, knots: int, kind: str = "linear") -> tuple[Array, Floats]:
    """Return hits and new scores of the test rows.

    `kind` "official" repeats the published program, "float32" also its tied sums.
    """
    both = []
    for part in (split.cal, split.test):
        p = proba(part)
        if kind == "float32" and part.space == "logit":
            z = np.exp(part.scores - part.scores.max(axis=1, keepdims=True))
            p = z / z.sum(axis=1, keepdims=True)
        both.append(ranked(p, part.labels, r, within))
    (cal, cal_hit), (test, hit) = both
    if kind == "linear":
        return hit, spline_curve(cal, cal_hit, knots)(test)
    thresholds, values, _ = fit_published(cal, cal_hit, knots)
    return hit, np.clip(np.interp(test, thresholds, values), 0, 1)


# -- the four tables --------------------------------------------------------------------------------


class Table(NamedTuple):
    """What one table shows."""

    name: str
    title: str
    r: int
    within: bool
    knots: int
    measure: Measure
    #: What [1] says of the size of the error after the spline, in percent; None: nothing.
    below: float | None


def _seeds(data: Path | None, name: str) -> range:
    return range(1 if published(data, name) else MIN_SEEDS)


def _other(table: Table, data: Path | None, name: str) -> tuple[list[Line], Finding, float]:
    """Measure one further set: lines, the claim against temperature scaling, and the error after the spline."""
    found: dict[str, list[float]] = {"uncalibrated": [], "temperature": [], "spline": []}
    for seed in _seeds(data, name):
        split = split_of(data, name, seed)
        for title, p in (("uncalibrated", proba(split.test)), ("temperature", tempered(data, name, seed))):
            score, hit = ranked(p, split.test.labels, table.r, table.within)
            found[title].append(table.measure(hit, score))
        found["spline"].append(table.measure(*spline_scores(split, table.r, table.within, table.knots)))
    note = split_of(data, name).note
    lines = [Line(f"{name}: {title}", float(np.mean(values)), note=note) for title, values in found.items()]
    ours, base = found["spline"], found["temperature"]
    better = [a < b for a, b in zip(ours, base, strict=True)]
    text = f"{name}: the spline has a lower error than temperature scaling"
    measured = f"spline {np.mean(ours):.3g}% against {np.mean(base):.3g}%"
    gap = float(np.mean(ours) - np.mean(base))
    reason = f"one temperature fits this network; gap {gap:.2g} points" if gap > 0 else "the splits disagree"
    if len(better) == 1:
        return lines, Finding(text, better[0], measured=measured, reason=reason, novelty="spline"), ours[0]
    claim = Finding.over(text, better, measured=measured, reason=reason, novelty="spline")
    return lines, claim, float(np.mean(ours))


def _main_claims(table: Table, values: dict[str, float], spline: float) -> list[Finding]:
    """The paper's own data, nothing random: the spline against every column."""
    text = ", ".join(f"{title} {value:.3g}%" for title, value in values.items())
    claims = [
        Finding(
            f"{MAIN}: the spline has a lower error than {title}",
            spline < value,
            exact=True,
            measured=f"spline {spline:.3g}% against {value:.3g}%",
            reason="the printed row says the same" if table.name == "gupta-table-4" else "",
            novelty="spline" if title == "temperature" else f"spline, not {title}",
        )
        for title, value in values.items()
        if title != "uncalibrated" and not (table.within and title != "temperature")
    ]
    if table.within:  # [1] appendix D: comparable or better
        best = min(value for title, value in values.items() if title != "uncalibrated")
        claims.append(
            Finding(
                f"{MAIN}: the spline is comparable to the best column or better (gap below {MARGINAL} points)",
                spline - best < MARGINAL,
                exact=True,
                measured=f"spline {spline:.3g}%; {text}",
                novelty="spline at all",
            )
        )
    return claims


def _table(
    table: Table, spline_lines: list[Line], extra: list[Line], quick: bool, data: Path | None, notes: tuple[str, ...]
) -> TargetResult:
    printed = PUBLISHED[table.name.removeprefix("gupta-")]
    truth, lines, values = split_of(data, MAIN).test.labels, [], {}
    for i, (column, p) in enumerate(forecasts(data, MAIN).items()):
        score, hit = ranked(p, truth, table.r, table.within)
        values[column] = table.measure(hit, score)
        width = ROUNDING if i < 2 else BAND
        odd = table.name == "gupta-table-2" and column == "MS-ODIR"
        lines.append(
            Line(
                f"{MAIN}: {column}",
                values[column],
                printed[i],
                "" if i < 2 else f"fitted by our solver: within {BAND} points",
                (printed[i] - width, printed[i] + width),
                "not reached: eight ODIR penalties from 0 to 1,000 give 1.04 to 1.12, and the log-loss is met"
                if odd
                else "",
            )
        )
    spline = table.measure(*spline_scores(split_of(data, MAIN), table.r, table.within, table.knots))
    findings, after = _main_claims(table, values, spline), {MAIN: spline}
    others = OTHERS[:3] if quick else OTHERS
    for other in others:
        more, claim, after[other] = _other(table, data, other)
        extra += more
        findings.append(claim)
    if table.below is not None:
        allowed = 1 if table.name == "gupta-table-1" else 0
        high = {name: value for name, value in after.items() if value >= table.below}
        word = "almost every set (all but one)" if allowed else "every set"
        findings.append(
            Finding(
                f"the spline brings the error below {table.below:g}% on {word}",
                len(high) <= allowed,
                measured=", ".join(f"{name} {value:.3g}%" for name, value in after.items()),
                reason="5,000 calibration rows: the KS error of a perfect map is near 0.7% there by noise alone",
                novelty="spline at all",
            )
        )
    findings.append(
        Finding.no_data(
            "the spline beats every column on the other 12 networks of the table",
            "the logits of DenseNet-40, Wide-ResNet-32, LeNet-5, ImageNet and SVHN networks of the paper",
        )
    )
    seeded = f"{MAIN} and {others[0]} as published; the others {MIN_SEEDS} random splits"
    return TargetResult(
        table.name,
        "E",
        table.title,
        (*lines, *spline_lines, *extra),
        tuple(findings),
        notes=notes,
        quick=quick,
        data=", ".join((MAIN, *others)),
        size=f"5,000 calibration and 5,000 to 34,931 test rows; {seeded}",
    )


TABLES = {
    1: Table("gupta-table-1", "KS error of the top label in %", 1, False, 6, ks, 1.0),
    2: Table("gupta-table-2", "KS error of the second label in %", 2, False, 6, ks, 1.0),
    4: Table("gupta-table-4", "KS error within the top two in %", 2, True, 14, ks, None),
    6: Table("gupta-table-6", "ECE with 25 bins in %", 1, False, 13, ece25, None),
}


def table_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """KS top-1, every method; CIFAR-100 ResNet-110 uncalibrated; log-loss of the baselines."""
    del rng
    split = split_of(data, MAIN)
    hit, official = spline_scores(split, 1, False, 6, "official")
    _, right = spline_scores(split, 1, False, 6)
    correct, confidence = top_pairs(data, "cifar100_resnet110_top1")
    lines = [
        Line(f"{MAIN}: spline, swapped weights as published", ks(hit, official), 0.643, band=(0.641, 0.648)),
        Line(f"{MAIN}: spline, weights the right way round", ks(hit, right), 0.643),
        Line("cifar100_resnet110: uncalibrated", ks(correct, confidence), 18.481, band=(18.479, 18.483)),
    ]
    found = forecasts(data, MAIN)
    for column, value in NLL.items():
        ours = metrics.log_score(split.test.labels, found[column])
        lines.append(Line(f"{MAIN}: log-loss of {column}", ours, value, "or better", (0.0, value + 0.002)))
    note = "The published program swaps the two interpolation weights between calibration scores: both are shown."
    return _table(TABLES[1], lines, [], quick, data, (note,))


def table_2(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """KS top-2."""
    del rng
    split = split_of(data, MAIN)
    found = {knots: ks(*spline_scores(split, 2, False, knots)) for knots in (6, 14)}
    why = (
        f"not reached with the published settings: 6 knots {found[6]:.3f}, 14 knots {found[14]:.3f}; "
        "independent code gives 0.299 with 6"
    )
    lines = [Line(f"{MAIN}: spline", found[6], 0.347, "", (0.345, 0.349), why)]
    note = "The spline column of table 2 was made with a setting that is not in the published program."
    return _table(TABLES[2], lines, [], quick, data, (note,))


def table_4(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """KS within top-2."""
    del rng
    split = split_of(data, MAIN)
    tied, free = (ks(*spline_scores(split, 2, True, 14, kind)) for kind in ("float32", "linear"))
    lines = [
        Line(f"{MAIN}: spline, float32 sums as published", tied, 0.277, band=(0.268, 0.279)),
        Line(f"{MAIN}: spline, float64", free, 0.277, "no ties"),
    ]
    note = "float32 sums of two scores tie in 73% of the rows; the order of ties moves the published number."
    return _table(TABLES[4], lines, [], quick, data, (note,))


def table_6(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """ECE with 25 bins."""
    del rng
    split, lines = split_of(data, MAIN), []
    for kind, text in (("official", "swapped weights as published"), ("linear", "weights the right way round")):
        value = ece25(*spline_scores(split, 1, False, 13, kind))
        lines.append(Line(f"{MAIN}: spline, {text}", value, 1.011, band=(1.008, 1.158)))
    correct, confidence = top_pairs(data, "cifar100_resnet110_top1")
    lines.append(Line("cifar100_resnet110: uncalibrated", ece25(correct, confidence), 18.480, band=(18.478, 18.482)))
    note = "The band of the spline is the range over orders of tied rows."
    return _table(TABLES[6], lines, [], quick, data, (note,))


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "gupta-table-1": table_1,
    "gupta-table-2": table_2,
    "gupta-table-4": table_4,
    "gupta-table-6": table_6,
}
