"""Mix-n-Match, Zhang et al. (2020): learning curves of figures 1, 6, 11, 12 and 13, tables 3 and 4.

RVL-CDIP (16 classes, 39,931 rows) takes the place of ImageNet, of which only top-5 scores are public. Curves come in
five seeds; a claim is judged in each of them.

References
----------
[1] Zhang, Kailkhura & Han (2020), "Mix-n-Match", ICML, section 5.2 and appendix F.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from calibrant._typing import RNG
from calibrant_papers.studies.frame import StudyResult
from calibrant_papers.studies.learning_curves import learning_curves
from calibrant_papers.targets.result import MIN_SEEDS, Finding, Line, TargetResult
from calibrant_papers.targets.sources import all_rows

__all__ = ["MANY", "NAMES", "NOTE", "TARGETS", "curves_of", "lower", "mean_text", "series"]

#: The set with many classes, where [1] sees the gain of ETS.
MANY = "cifar100_wrn16_4"
NOTE = "The published logits are not these; published numbers stand beside ours for their size only."
LEARNERS = ("ts", "ets", "irm", "irova", "irova-ts")
NAMES = {"ts": "TS", "ets": "ETS", "irm": "IRM", "irova": "IROvA", "irova-ts": "IROvA-TS"}
REPEATS = {True: 1, False: 10}
Curves = tuple[StudyResult, ...]


def mean_text(first: str, a: list[float], second: str, b: list[float], unit: str = "%") -> str:
    """Return "ETS 3.12% against TS 3.47%", means over seeds."""
    return f"{first} {np.mean(a):.3g}{unit} against {second} {np.mean(b):.3g}{unit}"


def lower(a: float, b: float) -> bool:
    """Whether a is below b by what two printed digits can show (half a hundredth of a point)."""
    return b - a > 0.005


@lru_cache(maxsize=8)
def curves_of(data: Path | None, name: str, quick: bool) -> Curves:
    """Return the learning curves of every seed."""
    rows = all_rows(data, name)
    n = len(rows.labels)
    test = 5000 if n > 10_500 else n // 2
    room = min(n - test, 10_000)
    sizes = (128, 512, room) if quick else [*(128 * 2**i for i in range(10) if 128 * 2**i < room), room]
    return tuple(
        learning_curves(
            rows.labels,
            rows.scores,
            space=rows.space,
            methods=LEARNERS,
            sizes=sizes,
            n_test=test,
            repeats=REPEATS[quick],
            seed=seed,
        )
        for seed in range(MIN_SEEDS)
    )


def series(result: StudyResult, method: str, key: str = "KDE ECE") -> list[float]:
    """Return one measure of one method, by calibration rows."""
    return [row[key] for row in sorted((r for r in result.rows if r["method"] == method), key=lambda r: r["rows"])]


def _at(curves: Curves, method: str, i: int, key: str = "KDE ECE") -> list[float]:
    """Return the values at one size in percent, one per seed."""
    return [100 * series(result, method, key)[i] for result in curves]


def _needed(result: StudyResult, method: str) -> float:
    """Calibration rows `method` needs for the ECE that IRM has with 128, in units of 128 (inf: not reached)."""
    x = np.log(series(result, method, "rows"))
    y, goal = np.array(series(result, method)), series(result, "irm")[0]
    reached = np.flatnonzero(y <= goal)
    if len(reached) == 0:
        return float("inf")
    i = int(reached[0])
    if i == 0:
        return 1.0
    share = (y[i - 1] - goal) / (y[i - 1] - y[i])
    return float(np.exp(x[i - 1] + share * (x[i] - x[i - 1])) / 128)


# -- claims -----------------------------------------------------------------------------------------


def _accuracy(name: str, curves: Curves) -> list[Finding]:
    """[1] section 5.2, Accuracy."""
    kept = []
    for result in curves:
        none = series(result, "none", "accuracy")
        kept.append(
            max(
                abs(a - b)
                for m in ("ts", "ets", "irm")
                for a, b in zip(series(result, m, "accuracy"), none, strict=True)
            )
        )
    lost = {
        m: [a - b for a, b in zip(_at(curves, "none", 0, "accuracy"), _at(curves, m, 0, "accuracy"), strict=True)]
        for m in ("irova", "irova-ts")
    }
    return [
        Finding.over(
            f"{name}: TS, ETS and IRM keep the accuracy (within 0.1 points)",
            [value < 1e-3 for value in kept],
            measured=f"largest change {100 * max(kept):.2g} points",
            novelty="accuracy-preserving maps",
        ),
        *(
            Finding.over(
                f"{name}: {NAMES[m]} loses more than half a point of accuracy with 128 rows",
                [value > 0.5 for value in values],
                measured=f"loses {np.mean(values):.2g} points",
                novelty=NAMES[m] if m == "irova" else "IROvA in IROvA-TS",
            )
            for m, values in lost.items()
        ),
    ]


def _less(
    name: str, curves: Curves, ours: str, base: str, i: int, when: str, novelty: str, reason: str = ""
) -> Finding:
    """The ECE of one method is lower than that of another at one size."""
    a, b = _at(curves, ours, i), _at(curves, base, i)
    return Finding.over(
        f"{name}: with {when} rows {NAMES[ours]} has a lower ECE than {NAMES[base]}",
        [lower(x, y) for x, y in zip(a, b, strict=True)],
        measured=mean_text(NAMES[ours], a, NAMES[base], b),
        reason=reason,
        novelty=novelty,
    )


def _efficiency(name: str, curves: Curves) -> list[Finding]:
    """[1] section 5.2, Data-efficiency."""
    small = "at 128 rows both fit 100 one-vs-rest curves to about one positive row each"
    return [
        _less(name, curves, "ts", "irova", 0, "128", "TS", ONE_KNOB),
        _less(name, curves, "irm", "irova", 0, "128", "IRM"),
        _less(name, curves, "irova-ts", "irova", 1, "512", "IROvA-TS", small if name == MANY else NO_ROOM),
    ]


ONE_KNOB = "one temperature fits these scores badly, whatever the number of rows; 128 rows are noisy"
NO_ROOM = "on this set temperature scaling removes little of what isotonic regression has to learn"
FITS = "one temperature already fits this network's scores"
CORNER = "the weights end in the corner (1, 0, 0): ETS is TS here"


def _expressive(name: str, curves: Curves) -> list[Finding]:
    """[1] section 5.2, Expressivity: ETS with many classes, IROvA with few."""
    if name == MANY:
        return [
            _less(name, curves, "ets", "ts", -1, "all", "ETS"),
            _less(name, curves, "irova-ts", "irova", -1, "all", "IROvA-TS"),
            _less(name, curves, "irova", "irm", -1, "all", "IROvA", "5,000 rows of 100 classes: still too few"),
        ]
    return [
        _less(name, curves, "ets", "ts", -1, "all", "ETS", CORNER),
        _less(name, curves, "irova", "ts", -1, "all", "IROvA", FITS),
        _less(name, curves, "irm", "ts", -1, "all", "IRM by TS", FITS),
    ]


def _flat(name: str, curves: Curves) -> list[Finding]:
    """Figure 1, top left: TS drops at once and then stalls, isotonic regression goes on."""
    ts, iso = ([b / a for a, b in zip(_at(curves, m, 1), _at(curves, m, -1), strict=True)] for m in ("ts", "irova"))
    return [
        Finding.over(
            f"{name}: from 512 rows to all TS makes no progress (its ECE falls by less than a third)",
            [r > 2 / 3 for r in ts],
            measured=f"ratio {np.mean(ts):.2f}",
            novelty="TS",
        ),
        Finding.over(
            f"{name}: IROvA goes on (its ECE falls by more than a third)",
            [r < 2 / 3 for r in iso],
            measured=f"ratio {np.mean(iso):.2f}",
            novelty="IROvA",
        ),
    ]


# -- figures ----------------------------------------------------------------------------------------

Claim = Callable[[str, Curves], list[Finding]]


def _figure(
    target: str,
    names: tuple[str, ...],
    title: str,
    claims: tuple[Claim, ...],
    quick: bool,
    data: Path | None,
    notes: tuple[str, ...] = (),
) -> TargetResult:
    lines: list[Line] = []
    findings: list[Finding] = []
    panels = {}
    for name in names:
        curves = curves_of(data, name, quick)
        rows = series(curves[0], "none", "rows")
        for key in ("KDE ECE", "accuracy"):
            panels[f"{name}: {key} in %"] = {
                "n calibration rows": [float(v) for v in rows],
                **{m: [float(np.mean(_at(curves, m, i, key))) for i in range(len(rows))] for m in ("none", *LEARNERS)},
            }
        for method in ("none", *LEARNERS):
            lines += [
                Line(
                    f"{name}, {method}: {short} % with {int(rows[i])} rows",
                    float(np.mean(_at(curves, method, i, key))),
                    note=f"± {np.std(_at(curves, method, i, key), ddof=1):.2g} over seeds",
                )
                for short, key, i in (("ECE", "KDE ECE", 0), ("ECE", "KDE ECE", -1), ("accuracy", "accuracy", 0))
            ]
        for claim in claims:
            findings += claim(name, curves)
    return TargetResult(
        target,
        "P",
        title,
        tuple(lines),
        tuple(findings),
        panels,
        (NOTE, *notes),
        quick,
        data=", ".join(names),
        size=_size(quick),
    )


def _size(quick: bool) -> str:
    sizes = "3 sizes" if quick else "doubling sizes"
    return f"128 … 10,000 calibration rows ({sizes}), 5,000 test rows; {MIN_SEEDS} × {REPEATS[quick]} splits"


def figure_1(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """TS against isotonic regression, and what ETS, IRM and composition add."""
    del rng
    title = "TS stalls, isotonic regression needs rows; the proposals"
    return _figure("zhang-fig-1", (MANY,), title, (_flat, _accuracy, _efficiency, _expressive), quick, data)


def figure_6(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Learning curves of wide residual networks."""
    del rng
    names = ("cifar10_resnet110",) if quick else ("cifar10_resnet110", MANY)
    title = "learning curves, residual networks"
    return _figure("zhang-fig-6", names, title, (_accuracy, _efficiency, _expressive), quick, data)


def figure_11(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Learning curves on CIFAR-10."""
    del rng
    names = ("cifar10_lenet5",) if quick else ("cifar10_resnet110", "cifar10_lenet5", "cifar10_vgg16")
    title = "learning curves, CIFAR-10"
    return _figure("zhang-fig-11", names, title, (_accuracy, _efficiency, _expressive), quick, data)


def figure_12(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Learning curves on CIFAR-100."""
    del rng
    return _figure("zhang-fig-12", (MANY,), "learning curves, CIFAR-100", (_efficiency, _expressive), quick, data)


def figure_13(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """Learning curves on a large set."""
    del rng
    note = "ImageNet's full vectors are not public: RVL-CDIP, underconfident, stands in."
    names, claims = ("rvlcdip_dit_first",), (_accuracy, _efficiency, _expressive)
    return _figure("zhang-fig-13", names, "learning curves, a large set", claims, quick, data, (note,))


# -- tables -----------------------------------------------------------------------------------------

TABLE_3 = {"cifar10_resnet110": (2.12, 2.12), MANY: (3.23, 2.85), "cifar10_lenet5": (1.49, 1.48)}
TABLE_4 = {"cifar10_resnet110": (1.84, 1.70), MANY: (24.2, 15.6), "cifar10_lenet5": (3.15, 2.92)}


def table_3(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """ECE¹ of TS and ETS with all calibration rows: expressive power."""
    del rng
    lines: list[Line] = []
    findings: list[Finding] = []
    names = tuple(TABLE_3)[:2] if quick else tuple(TABLE_3)
    for name in names:
        curves = curves_of(data, name, quick)
        rows = int(series(curves[0], "none", "rows")[-1])
        ts, ets = _at(curves, "ts", -1), _at(curves, "ets", -1)
        for title, values, printed in zip(("TS", "ETS"), (ts, ets), TABLE_3[name], strict=True):
            note = f"± {np.std(values, ddof=1):.2g} over seeds"
            lines.append(Line(f"{name}: {title} with {rows} rows", float(np.mean(values)), printed, note))
        if name == MANY:
            findings.append(
                Finding.over(
                    f"{name}: ETS is noticeably more expressive than TS (by more than 0.1 points)",
                    [a - b > 0.1 for a, b in zip(ts, ets, strict=True)],
                    measured=mean_text("ETS", ets, "TS", ts),
                    novelty="ETS",
                )
            )
        else:
            findings.append(_less(name, curves, "ets", "ts", -1, "all", "ETS", CORNER))
    return TargetResult(
        "zhang-table-3",
        "P",
        "ECE¹ in % with all calibration rows",
        tuple(lines),
        tuple(findings),
        notes=(NOTE, "For ResNet-110 the paper prints 2.12 for both and calls ETS consistently more expressive."),
        quick=quick,
        data=", ".join(names),
        size=_size(quick),
    )


def _ratio(a: float, b: float) -> float:
    return 1.0 if a == b else a / b


def table_4(quick: bool, data: Path | None, rng: RNG = 0) -> TargetResult:
    """How many rows equal one row of IRM."""
    del rng
    lines: list[Line] = []
    findings: list[Finding] = []
    names = tuple(TABLE_4)[:2] if quick else tuple(TABLE_4)
    found: dict[tuple[str, str], list[float]] = {}
    for name in names:
        curves = curves_of(data, name, quick)
        for method, printed in zip(("irova", "irova-ts"), TABLE_4[name], strict=True):
            found[name, method] = [_needed(result, method) for result in curves]
            note = "median over seeds; inf: not reached with all rows"
            lines.append(Line(f"{name}: {NAMES[method]}", float(np.median(found[name, method])), printed, note))
        plain, composed = found[name, "irova"], found[name, "irova-ts"]
        findings += [
            Finding.over(
                f"{name}: IROvA needs more rows than IRM",
                [value > 1 for value in plain],
                measured=f"{np.median(plain):.3g} times as many",
                novelty="IRM",
            ),
            Finding.over(
                f"{name}: IROvA-TS needs fewer rows than IROvA",
                [_ratio(a, b) < 1 for a, b in zip(composed, plain, strict=True)],
                measured=f"{np.median(composed):.3g} against {np.median(plain):.3g}",
                reason="the ECE of both falls alike between 128 and 512 rows" if name != MANY else "",
                novelty="IROvA-TS",
            ),
        ]
    findings.append(
        Finding.over(
            "the gain of IRM grows with the number of classes (100 against 10)",
            [a > b for a, b in zip(found[MANY, "irova"], found["cifar10_resnet110", "irova"], strict=True)],
            measured=f"{np.median(found[MANY, 'irova']):.3g} against "
            f"{np.median(found['cifar10_resnet110', 'irova']):.3g}",
            novelty="IRM",
        )
    )
    return TargetResult(
        "zhang-table-4",
        "P",
        "rows equal to one row of IRM",
        tuple(lines),
        tuple(findings),
        notes=(NOTE,),
        quick=quick,
        data=", ".join(names),
        size=_size(quick),
    )


#: Target name -> function (quick, data, rng).
TARGETS: dict[str, Callable[[bool, Path | None, RNG], TargetResult]] = {
    "zhang-fig-1": figure_1,
    "zhang-fig-6": figure_6,
    "zhang-table-3": table_3,
    "zhang-table-4": table_4,
    "zhang-fig-11": figure_11,
    "zhang-fig-12": figure_12,
    "zhang-fig-13": figure_13,
}
